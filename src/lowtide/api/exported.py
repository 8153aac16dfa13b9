"""PyTorch's own objects as models: a module is exported, a program saved for a moment and read as its file would be.

A plan of a program is that of the file ``program.pt2`` which `torch.export.save` writes of it, so it holds for that
file too, and whatever is done with a plan is done by what does it for files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from lowtide.api.objects import Exported, Model, Module, fix, is_module
from lowtide.errors import InputError, first_line
from lowtide.graph import Graph
from lowtide.sizes import NO_DIMS, Dims

NAME = "program.pt2"
"""The file that a program is read as. Its name stands inside the archive, so the digest of a plan hangs on it."""


def exported(model: object, example: Sequence[Any]) -> Exported:
    """A module as torch exports it, in the mode (training or not) in which it is. `example`: what the module is called
    with: ``model(*example)``. Raises `InputError`: it is no module; the example is no tuple; or torch cannot export
    it."""
    place = type(model).__name__
    if not is_module(model):
        raise InputError("example= is what a torch.nn.Module is called with, and the model is none; leave it out")
    if isinstance(example, str) or not isinstance(example, Sequence):
        raise InputError("the example is the tuple of what the module is called with, such as (x,)", place)
    try:
        return import_module("torch").export.export(model, tuple(example))
    except Exception as error:  # a user's module raises whatever it likes
        raise InputError(f"torch cannot export it: {first_line(error)}", place) from error


def given(model: Model | Module, example: Sequence[Any] | None) -> Model:
    """The model of a call; a module with its example as an exported program. Raises `InputError`: a module has no
    example; or as `exported`."""
    if example is not None:
        return exported(model, example)
    if is_module(model):
        raise InputError(fix(model))
    return cast(Model, model)


def saved(program: Exported, folder: Path) -> Path:
    """The program's file in that folder, its weights included. Raises `InputError` if torch cannot save it."""
    path = folder / NAME
    try:
        import_module("torch").export.save(program, path)
    except Exception as error:  # torch raises whatever its parts do
        raise InputError(f"torch cannot save the program: {first_line(error)}", NAME) from error
    return path


@contextmanager
def as_file(model: str | Path | Exported) -> Iterator[str | Path]:
    """The model; a program as its file, for a while. Raises `InputError` as `saved`."""
    if isinstance(model, str | Path):
        yield model
        return
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        yield saved(model, Path(folder))


def graph_of(program: Exported, dims: Dims = NO_DIMS) -> Graph:
    """The graph of an exported program. Raises `InputError` as `saved`, and as `load` does for a .pt2 file."""
    from lowtide.read.pt2.reader import read_pt2

    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        return read_pt2(saved(program, Path(folder)), dims, place=NAME)
