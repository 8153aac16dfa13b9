"""The rows of a sweep: a grid of models, targets, budgets and options, a row planned, and where rows are kept.

Finished rows go line by line into a journal next to the table, each with what it is of; a run that is killed, whenever,
leaves a journal from which the next one goes on. The table is written once all rows are there, in the order of
the grid, so that it does not matter who did which row when.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, LowtideError, MissingExtraError, first_line
from lowtide.files import HLO_ENDINGS
from lowtide.names import did_you_mean
from lowtide.sizes import parse_size
from lowtide.version import __version__

MODEL_ENDINGS = (".onnx", ".tflite", ".pt2", ".graph.json", *HLO_ENDINGS)
OPTIONS = (
    "allow", "dims", "exact_bits", "gap", "max_ops", "max_overhead", "method", "overwrite_inputs",
    "pin_inputs", "reserve", "seed", "stream_input", "time",
)  # fmt: skip
"""Keywords of `lowtide.research.plan` that a sweep may vary."""
COLUMNS = (
    "model", "target", "budget_bytes", "options", "graph", "ops", "status", "exit_status", "stopped",
    "own_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "optimal", "arena_bytes", "required_bytes", "error",
    "seconds",
)  # fmt: skip
"""Of the table: what a row is of, what came of it, wall time last."""


@dataclass(frozen=True)
class Task:
    """A row to be done: which model under which rules; `stamp` is the file's size and time of change."""

    model: str
    target: str
    budget: str | int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    stamp: str = ""

    @property
    def key(self) -> str:
        """What the row is of, as text: another version of lowtide or of the file makes another row."""
        return json.dumps([__version__, self.model, self.stamp, self.target, self.budget, self.spelt_options])

    @property
    def spelt_options(self) -> str:
        """The options as the table shows them."""
        return " ".join(f"{name}={value}" for name, value in self.options.items())


def grid(
    models: Sequence[str],
    targets: Sequence[str],
    budgets: Sequence[str | int | None],
    vary: Mapping[str, Sequence[Any]],
) -> list[Task]:
    """All rows, model by model, and of each target, budget and options in the order given; no row twice. Raises
    `InputError`: a list is empty, a size is none, there is no such option, or a value with which no row can be
    planned."""
    for name in vary:
        if name not in OPTIONS:
            hint = did_you_mean(name, OPTIONS)
            raise InputError(f"a sweep cannot vary {name!r}; it varies {', '.join(OPTIONS)}{hint}")
    lists = {"model": models, "target": targets, "budget": budgets, **vary}
    for name, values in lists.items():
        if not values:
            raise InputError(f"the sweep has no {name}; give at least one")
    for budget in budgets:
        if budget is not None and not str(budget).endswith("%"):
            parse_size(budget, "budget")
    tasks: dict[str, Task] = {}
    files = {model: _stamp(model) for model in models}
    for model, target, budget in product(models, targets, budgets):
        for values in product(*vary.values()):
            task = Task(model, target, budget, dict(zip(vary, values, strict=True)), files[model])
            tasks.setdefault(task.key, task)
    check_calls(list(tasks.values()))
    return list(tasks.values())


def check_calls(tasks: Sequence[Task]) -> None:
    """See that each target, budget and value of an option is one with which some row can be planned, before any is.
    What is wrong with single rows, as with a model that is not there, stays in these. Of a model only its format is
    looked at. Raises `InputError`: what is wrong with all rows of such a value, as with a target that there is none
    of."""
    wrong: dict[tuple[str, str, str, str], InputError | None] = {}
    errors: dict[tuple[str, Any], InputError | None] = {}
    for task in tasks:
        call = (task.model.lower().rpartition(".")[2], task.target, str(task.budget), task.spelt_options)
        if call not in wrong:
            wrong[call] = _wrong_call(task)
        for value in (("target", task.target), ("budget", str(task.budget)), *task.options.items()):
            key = (value[0], str(value[1]))
            errors[key] = wrong[call] if errors.get(key, wrong[call]) is not None else None
    error = next((error for error in errors.values() if error is not None), None)
    if error is not None:
        raise error


def _wrong_call(task: Task) -> InputError | None:
    from lowtide.api.planning import job_of

    try:
        job_of(task.model, target=task.target, budget=task.budget, **task.options)
    except InputError as error:
        return error
    return None


def model_names(given: Iterable[str]) -> list[str]:
    """Models; a folder means those in it and below, sorted. Raises `InputError`: a folder without a model."""
    names: list[str] = []
    for name in map(str, given):
        if Path(name).is_dir():
            below = sorted(str(path) for path in Path(name).rglob("*") if path.name.lower().endswith(MODEL_ENDINGS))
            if not below:
                raise InputError(f"no file in this folder ends in {', '.join(MODEL_ENDINGS)}; name models", name)
            names += below
        else:
            names.append(name)
    return list(dict.fromkeys(names))


def _stamp(model: str) -> str:
    try:
        status = os.stat(model)
    except (OSError, ValueError):
        return ""
    return f"{status.st_size}-{status.st_mtime_ns}"


def row_of(task: Task) -> dict[str, Any]:
    """Plan a row. What is wrong with its model is its error, in words; another row is none the worse for it."""
    import time as clock

    from lowtide.api.planning import plan

    began = clock.perf_counter()
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {"model": task.model, "target": task.target, "options": task.spelt_options}
    if task.budget is not None and not str(task.budget).endswith("%"):
        row["budget_bytes"] = parse_size(task.budget, "budget")
    try:
        result = plan(task.model, target=task.target, budget=task.budget, **task.options)
    except MemoryError:
        row |= {"status": "error", "error": "out of memory", "exit_status": 1}
    except LowtideError as error:
        row |= {"status": "error", "error": first_line(error), "exit_status": error.exit_status}
    except Exception as error:  # a bug of ours in one row is no reason to lose the others
        text = f"a bug of lowtide's, {type(error).__name__}: {first_line(error)}"
        row |= {"status": "error", "error": text, "exit_status": 1}
    else:
        kept = (
            "graph", "status", "exit_status", "stopped", "own_order_peak_bytes", "peak_bytes", "lower_bound_bytes",
            "optimal", "arena_bytes", "required_bytes",
        )  # fmt: skip
        row |= {name: getattr(result, name) for name in kept}
        row |= {"target": result.target, "ops": len(result.order), "budget_bytes": result.budget_bytes}
    row["seconds"] = round(clock.perf_counter() - began, 3)
    return row


class Journal:
    """Rows that are done, in a file next to the table. An incomplete last line is dropped."""

    def __init__(self, table: str | Path) -> None:
        self.path = Path(f"{table}.journal")

    def rows(self) -> dict[str, dict[str, Any]]:
        """Those that are there, by key. Raises `InputError`: the file cannot be read, or is no journal."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise InputError(f"cannot read the rows that are done: {error.strerror}", str(self.path)) from None
        rows: dict[str, dict[str, Any]] = {}
        for line in data.split(b"\n")[:-1]:
            try:
                key, row = json.loads(line)
                rows[str(key)] = {name: row[name] for name in COLUMNS}
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(
                    "this is no journal of a sweep; move it away, or say --fresh", str(self.path)
                ) from None
        return rows

    def open(self, *, keep: bool) -> io.BufferedWriter:
        """Opened to append after the last complete line; `keep`: what is there stays. Or raises `InputError`."""
        try:
            if not keep:
                self.path.unlink(missing_ok=True)
            if self.path.exists():
                data = self.path.read_bytes()
                with open(self.path, "r+b") as file:
                    file.truncate(data.rfind(b"\n") + 1)
            return open(self.path, "ab")
        except OSError as error:
            raise InputError(f"cannot write here: {error.strerror}; name another table", str(self.path)) from None

    @staticmethod
    def append(file: io.BufferedWriter, task: Task, row: Mapping[str, Any]) -> None:
        """Keep a row: after this it survives the process."""
        file.write(json.dumps([task.key, dict(row)]).encode() + b"\n")
        file.flush()

    def remove(self) -> None:
        """The table has all of it."""
        self.path.unlink(missing_ok=True)


def csv_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The table as CSV; what is not there is empty, true and false are words."""
    text = io.StringIO(newline="")
    writer: csv.DictWriter[str] = csv.DictWriter(text, list[str](COLUMNS), lineterminator="\n")
    writer.writeheader()
    spelt = {None: "", True: "true", False: "false"}
    for row in rows:
        writer.writerow({k: spelt[v] if v is None or isinstance(v, bool) else v for k, v in row.items()})
    return text.getvalue().encode()


def parquet_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The table as Parquet. Raises `MissingExtraError` where pyarrow is not installed."""
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtraError("pyarrow", "sweep", "a table in Parquet") from None
    kinds = {"optimal": pyarrow.bool_(), "seconds": pyarrow.float64(), "ops": pyarrow.int64()}
    whole = {name: pyarrow.int64() for name in COLUMNS if name.endswith(("_bytes", "exit_status"))}
    schema = pyarrow.schema([(name, (kinds | whole).get(name, pyarrow.string())) for name in COLUMNS])
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema), sink)
    return sink.getvalue().to_pybytes()
