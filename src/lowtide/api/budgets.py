"""Budgets of a project's models in one file, `lowtide.toml`, which `lowtide check` without a model reads.

    time = 20                       # seconds a model, if its table says nothing else

    [models."models/*.tflite"]      # a glob, from the file's folder; ** is any folders
    target = "tflm,pointer=32"
    budget = "64KiB"

    [models."models/detect.onnx"]
    target = "onnxruntime"
    budget = "96MiB"
    dims = { batch = 1 }

A file is judged once, by the first table whose glob it matches. A glob that no file matches is an error: a model that
was moved would else not be checked a second time.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lowtide.api.job import check_time
from lowtide.errors import InputError
from lowtide.files import MOST_SETTINGS_BYTES, read_all
from lowtide.names import did_you_mean
from lowtide.schemas import json_schema
from lowtide.sizes import parse_size

Kind = TypeVar("Kind", bound=msgspec.Struct)
FILE = "lowtide.toml"
"""What is read where nothing is named."""


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one glob's models may take: what `lowtide check` says with options of these names."""

    budget: int | str | None = None
    reserve: int | str | None = None
    target: str = "auto"
    board: str | None = None
    banks: list[str] = []
    as_is: bool = False
    dims: dict[str, int | list[int]] = {}
    time: float | None = None
    overwrite_inputs: bool = False
    pin_inputs: bool = False


class BudgetsDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file: a table for each glob, and the time for a model where its table has none."""

    models: dict[str, Budget]
    time: float = 60.0


@dataclass(frozen=True)
class Budgeted:
    """A model and what it may take; `settings` are those of `lowtide.check`, `name` its path from the file's folder,
    `place` the file of budgets and the table in it."""

    path: Path
    name: str
    settings: dict[str, Any]
    place: str


def schema() -> dict[str, Any]:
    """JSON Schema of the file, as TOML is read."""
    return json_schema(BudgetsDocument)


def read_budgets(path: str | Path = FILE) -> list[Budgeted]:
    """The models of a file, in the order of its tables, each with what it may take. Raises `InputError`: no such file,
    no TOML, an unknown key, a size or a value that is none, a target or a board that there is none of, no budget, or a
    glob without a file."""
    place = str(path)
    document = _document(place, read_all(path, "file of budgets", MOST_SETTINGS_BYTES))
    folder = Path(path).parent
    found: dict[str, Budgeted] = {}
    for glob, budget in document.models.items():
        where = f'{place}: models."{glob}"'
        settings = _settings(budget, document.time, folder, where)
        files = [name for name in _matches(folder, glob, where) if (folder / name).is_file()]
        if not files:
            raise InputError("no file matches; name one, or drop the table", where)
        _check_call(folder / files[0], settings, where)
        for name in files:
            found.setdefault(name, Budgeted(folder / name, name, settings, where))
    return list(found.values())


def _document(place: str, data: bytes) -> BudgetsDocument:
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except RecursionError:
        raise InputError("not a TOML file: nested too deeply", place) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a TOML file: {error}", place) from None
    _check_keys(table, BudgetsDocument, place)
    models = table.get("models", {})
    if not isinstance(models, dict) or not models:
        raise InputError('no table [models."GLOB"] says what a model may take; write one', place)
    for glob, entry in models.items():
        if not isinstance(entry, dict):
            raise InputError(f"this is no table; write budget = {entry!r} in it", f'{place}: models."{glob}"')
        where = f'{place}: models."{glob}"'
        _check_keys(entry, Budget, where)
        _converted(entry, Budget, where)
    return _converted(table, BudgetsDocument, place)


def _converted(table: Mapping[str, Any], kind: type[Kind], place: str) -> Kind:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"not a file of budgets: {error}", place) from None


def _check_keys(table: Mapping[str, Any], kind: type[msgspec.Struct], place: str) -> None:
    keys = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key in table:
        if key not in keys:
            raise InputError(f"there is no key {key!r}; use {', '.join(keys)}{did_you_mean(key, keys)}", place)


def _settings(budget: Budget, time: float, folder: Path, place: str) -> dict[str, Any]:
    if budget.budget is None and not (budget.banks or budget.board):
        raise InputError('say what there is: budget = "64KiB", or board or banks', place)
    for name in ("budget", "reserve"):
        size = getattr(budget, name)
        if size is not None:
            parse_size(size, f"{place}: {name}", least=0 if name == "reserve" else 1)
    settings: dict[str, Any] = msgspec.structs.asdict(budget)
    settings["time"] = time if budget.time is None else budget.time
    try:
        check_time(settings["time"])
    except InputError as error:
        raise InputError(str(error), place) from None
    for name in ("target", "board"):
        value = settings[name]
        if value is not None and value.endswith(".toml"):
            settings[name] = str(folder / value)
    return settings


def _check_call(model: Path, settings: Mapping[str, Any], place: str) -> None:
    """That target, board and banks are there and go together: what is wrong with a table is not its models' matter."""
    from lowtide.api.planning import job_of

    try:
        job_of(model, **{name: value for name, value in settings.items() if name != "as_is"})
    except InputError as error:
        raise InputError(str(error), place) from None


def _matches(folder: Path, glob: str, place: str) -> list[str]:
    if not glob or Path(glob).is_absolute() or ".." in Path(glob).parts:
        raise InputError("globs are below the file's own folder; write one such as models/*.tflite", place)
    try:
        return sorted(path.relative_to(folder).as_posix() for path in folder.glob(glob))
    except (ValueError, NotImplementedError) as error:
        raise InputError(f"this is no glob: {error}", place) from None
