"""Free dimensions of an ONNX model: found in its graph inputs, bound to sizes by the caller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.errors import ForeignDimensionError, InputError
from lowtide.read.onnx.types import check_utf8

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto


@dataclass(frozen=True, slots=True)
class _FreeDim:
    """A dimension of graph input `input` without a size; `name` is ``""`` for an unnamed one."""

    input: str
    axis: int
    name: str

    @property
    def key(self) -> str:
        return self.name or self.place

    @property
    def place(self) -> str:
        return f"{self.input}:{self.axis}"


def bind_dimensions(graph: GraphProto, dims: Mapping[str, int], place: str) -> None:
    """Give every free dimension of the graph inputs its size, in `graph` itself.

    Parameters
    ----------
    graph
        Its inputs, outputs and declared values are changed: a symbolic name becomes its size wherever it
        stands.
    dims
        Size by symbolic name, or by ``"INPUT:AXIS"``. Binding a named dimension by its place binds the name.
    place
        Put before every message.

    Raises
    ------
    InputError
        A dimension left free (all of them are named), a key that names no free dimension, a size below 1, two
        sizes for one name, or an input whose rank is unknown.
    """
    constant = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    inputs = [v for v in graph.input if v.name not in constant]
    check_utf8((v.name for v in inputs), place)
    free = [d for v in inputs for d in _free(v, place)]
    check_utf8((d.name for d in free), place)
    foreign = tuple(key for key in dims if not any(key in (d.name, d.place) for d in free))
    if foreign:
        known = f"the free ones are {_listed(d.key for d in free)}" if free else "it has none"
        raise ForeignDimensionError(f"the model has no free dimension {foreign[0]!r}; {known}", place, foreign)
    by_name: dict[str, int] = {}
    by_place: dict[str, int] = {}
    for key, size in dims.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size < 2**63:
            raise InputError(f"dimension {key!r} is bound to {size!r}; give a whole number from 1 up", place)
        if any(d.name == key for d in free):
            pairs = [(by_name, key)]
        else:
            pairs = [(by_name, d.name) if d.name else (by_place, key) for d in free if d.place == key]
        for table, name in pairs:
            if table.setdefault(name, size) != size:
                raise InputError(f"dimension {name!r} is bound to {table[name]} and to {size}; give one size", place)
    left = list(dict.fromkeys(d.key for d in free if d.name not in by_name and d.place not in by_place))
    if left:
        flags = " ".join(f"--dim {key}=1" for key in left)
        noun, them = ("dimensions are free", "them") if len(left) > 1 else ("dimension is free", "it")
        raise InputError(f"{len(left)} {noun}: {_listed(left)}; bind {them}, for example {flags}", place)
    if not free:
        return
    for value in inputs:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and f"{value.name}:{axis}" in by_place:
                dim.dim_value = by_place[f"{value.name}:{axis}"]
    for value in (*graph.input, *graph.output, *graph.value_info):
        _bind_names(value.type, by_name)


def _free(value: ValueInfoProto, place: str) -> list[_FreeDim]:
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return []
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise InputError(f"graph input {value.name!r} has no shape, not even a rank; declare one in the model", place)
    return [
        _FreeDim(value.name, axis, dim.dim_param)
        for axis, dim in enumerate(kind.shape.dim)
        if not dim.HasField("dim_value")
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _bind_names(kind: Any, sizes: Mapping[str, int]) -> None:
    for dim in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]
