"""The graph that onnxruntime runs by default: its optimiser's, made beforehand, and plans that are of it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import cast

from lowtide.api.models import external_locations
from lowtide.api.objects import Model
from lowtide.comparison import OptimizedFrom
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.run.blocks import check_block, declared_block
from lowtide.run.optimise import Level
from lowtide.run.optimise_process import optimize
from lowtide.sizes import Dims, split_dims


@dataclass(frozen=True)
class OptimizedFile:
    """A file that onnxruntime's optimiser made of a model, and where it comes from."""

    path: Path
    origin: OptimizedFrom

    @cached_property
    def outside(self) -> bool:
        """Whether an ONNX file cannot hold its weights."""
        return bool(external_locations(self.path))


def optimized_file(
    model: Path, out: Path, dims: Dims, level: Level = "all", free: Collection[str] = ()
) -> OptimizedFile:
    """Write the graph that onnxruntime runs by default on this CPU, or one of a lower level; raises as `optimize`.
    `free`: names in `dims` of sizes that stay free in the file."""
    import onnxruntime

    sizes = sizes_by_name(model, dims)
    free_sizes = {name: sizes.pop(name) for name in free}
    optimize(model, out, sizes, level, free_sizes)
    runtime = f"onnxruntime {onnxruntime.__version__}"
    block = declared_block(out)
    origin = OptimizedFrom(sha256=_digest(model), runtime=runtime, level=level, dims=sizes, block=block)
    return OptimizedFile(out, origin)


@contextmanager
def planned_model(plan: Plan, model: Model) -> Iterator[Model]:
    """The model that a plan is of while it is needed: the user's, or what onnxruntime's optimiser makes of it. Raises
    `InputError`: the plan is for another model or for other processors, or this onnxruntime makes another file of
    it."""
    origin = plan.optimized_from
    if origin is None or not isinstance(model, str | Path) or _is_of(plan, Path(model)):
        yield model
        return
    if not Path(model).is_file() or _digest(Path(model)) != origin.sha256:
        raise InputError("the plan is for another model; plan this one anew", str(model))
    check_block(origin.block, "the plan")
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        free_sizes, out = plan.dims or {}, Path(folder) / "optimized.onnx"
        made = optimized_file(Path(model), out, {**origin.dims, **free_sizes}, cast(Level, origin.level), free_sizes)
        if not _is_of(plan, made.path):
            message = f"{made.origin.runtime} on this CPU makes another file of it than {origin.runtime} made"
            raise InputError(f"{message} when it was planned; plan it anew", str(model))
        yield made.path


def _is_of(plan: Plan, model: Path) -> bool:
    return model.is_file() and _digest(model) == plan.model_sha256


def _digest(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def sizes_by_name(source: Path, dims: Dims) -> dict[str, int]:
    """Sizes of a file's free dimensions, those that inputs' shapes say among them."""
    from lowtide.read.onnx.dims import by_name
    from lowtide.read.onnx.wire import load_model

    if not split_dims(dims)[1]:
        return split_dims(dims)[0]
    return by_name(load_model(source)[0].graph, dims, str(source))
