"""Free dimensions of an ONNX model: found in its graph inputs, bound to sizes by the caller."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from lowtide.errors import ForeignDimensionError, FreeDimensionError, InputError
from lowtide.names import did_you_mean
from lowtide.read.onnx.attributes import subgraphs
from lowtide.read.onnx.likely_sizes import FreeDim, likely_sizes
from lowtide.read.onnx.types import FLOAT, TensorType, check_utf8
from lowtide.sizes import Dims, split_dims

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto


_FLOATS = frozenset({FLOAT, 10, 11, 16})  # TensorProto.DataType: float32, float16, float64, bfloat16
_NAMELESS = frozenset({"?", "-1", "None"})
"""What exporters write where they have no name: two of these need not be of one size."""


def forget_unknown(graph: GraphProto) -> None:
    """Leave free, and without a name, what a file writes as a size of -1 or as ``?``, and a size of 0 of what is made,
    which follows from the ops where it is one; in `graph` itself and in its bodies. onnxruntime takes a negative size
    as none."""
    for values, least in ((graph.input, 0), (graph.output, 1), (graph.value_info, 1)):
        for value in values:
            for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                if dim.dim_param in _NAMELESS or (dim.HasField("dim_value") and dim.dim_value < least):
                    dim.Clear()
    for node in graph.node:
        for body in subgraphs(node):
            forget_unknown(body)


def bind_dimensions(
    graph: GraphProto, dims: Dims, place: str, works: Callable[[Mapping[str, int]], bool] = lambda _: True
) -> dict[str, tuple[int, ...]]:
    """Give every free dimension of the graph inputs its size, in `graph` itself.

    `graph`: its inputs, outputs and declared values are changed: a symbolic name becomes its size wherever it occurs.
    `dims`: size by symbolic name, or by ``"INPUT:AXIS"``. Binding a named dimension by its place binds the name. A
      shape by an input's name says the sizes of all its axes.
    `place`: put before every message.
    `works`: whether the model can be read with sizes for what is left free: asked for those that a message offers.
    Returns: shapes in `dims` of what is no graph input.
    Raises `InputError`: a dimension left free (all of them are named), a key that names no free dimension, a size below
      1, two sizes for one name, a shape that the input does not have, or an input whose rank is unknown.
    """
    sizes, shapes = split_dims(dims)
    constant = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
    inputs = [v for v in graph.input if v.name not in constant]
    check_utf8((v.name for v in inputs), place)
    _declare_ranks(inputs, shapes)
    free = [d for v in inputs for d in _free(v, place)]
    check_utf8((d.name for d in free), place)
    sizes |= _by_axis([v for v in inputs if v.name in shapes], shapes, place)
    foreign = tuple(key for key in sizes if not any(key in (d.name, d.place) for d in free))
    if foreign:
        known = f"the free ones are {_listed(d.key for d in free)}" if free else "it has none"
        hint = did_you_mean(foreign[0], [d.key for d in free])
        raise ForeignDimensionError(f"the model has no free dimension {foreign[0]!r}; {known}{hint}", place, foreign)
    named, placed = _bound(free, sizes, place)
    left = [d for d in free if d.name not in named and d.place not in placed]
    if left:
        raise _left_free(left, works, place)
    for value in inputs if free else ():
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and f"{value.name}:{axis}" in placed:
                dim.dim_value = placed[f"{value.name}:{axis}"]
    for value in (*graph.input, *graph.output, *graph.value_info) if free else ():
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            if dim.dim_param in named:
                dim.dim_value = named[dim.dim_param]
    names = {v.name for v in inputs}
    return {name: shape for name, shape in shapes.items() if name not in names}


def _bound(free: Sequence[FreeDim], sizes: Mapping[str, int], place: str) -> tuple[dict[str, int], dict[str, int]]:
    """Sizes by symbolic name, and by ``"INPUT:AXIS"`` of the dimensions without a name. Raises as `bind_dimensions`."""
    by_name: dict[str, int] = {}
    by_place: dict[str, int] = {}
    for key, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size < 2**63:
            raise InputError(f"dimension {key!r} is bound to {size!r}; give a whole number from 1 up", place)
        if any(d.name == key for d in free):
            pairs = [(by_name, key)]
        else:
            pairs = [(by_name, d.name) if d.name else (by_place, key) for d in free if d.place == key]
        for table, name in pairs:
            if table.setdefault(name, size) != size:
                raise InputError(f"dimension {name!r} is bound to {table[name]} and to {size}; give one size", place)
    return by_name, by_place


def _left_free(left: Sequence[FreeDim], works: Callable[[Mapping[str, int]], bool], place: str) -> InputError:
    """The error for dimensions without a size, with sizes at which the model can be read."""
    sizes = likely_sizes(left, works)
    flags = " ".join(f"--dim {shlex.quote(f'{key}={size}')}" for key, size in sizes.items())
    keys = list(dict.fromkeys(d.key for d in left))
    noun, them = ("dimensions are free", "them") if len(keys) > 1 else ("dimension is free", "it")
    message = f"{len(keys)} {noun}: {_listed(keys)}; bind {them}, for example {flags}"
    batches = tuple(dict.fromkeys(d.key for d in left if d.role == "batch"))
    return FreeDimensionError(message, place, sizes, batches)


def by_name(graph: GraphProto, dims: Dims, place: str) -> dict[str, int]:
    """Sizes of free dimensions, where `dims` may also say the shapes of graph inputs. Raises `InputError` if those do
    not have them."""
    sizes, shapes = split_dims(dims)
    forget_unknown(graph)
    inputs = [v for v in graph.input if v.name in shapes]
    _declare_ranks(inputs, shapes)
    names = {d.place: d.key for v in inputs for d in _free(v, place)}
    return {names.get(key, key): size for key, size in (sizes | _by_axis(inputs, shapes, place)).items()}


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]],
    names: Iterable[str],
    inputs: Iterable[str],
    types: Mapping[str, TensorType],
    place: str,
) -> None:
    """See that shapes are of tensors, and are what the model says where it says something. `names`, `inputs`: of all
    tensors, and of those that the caller gives. Raises `ForeignDimensionError`: there is no such tensor. Raises
    `InputError`: its shape is another, or has a negative size."""
    known = set(names) if shapes else set()
    for name, shape in shapes.items():
        if name not in known:
            own = f"; inputs: {', '.join(map(repr, inputs))}"
            message = f"there is no tensor {name!r} to give a shape{did_you_mean(name, known)}{own}"
            raise ForeignDimensionError(message, place, (name,))
        if min(shape, default=0) < 0:
            raise InputError(f"{name!r} cannot have the shape {_spelt(shape)}; give sizes from 0 up", place)
        kind = types.get(name)
        if kind is not None and kind.shape != shape:
            raise InputError(f"{name!r} has the shape {_spelt(kind.shape)}, not {_spelt(shape)}; drop it", place)


def _spelt(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def _declare_ranks(inputs: Iterable[ValueInfoProto], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Inputs without a shape get axes that are free, as many as they are given sizes."""
    for value in inputs:
        kind = value.type.tensor_type
        if value.name in shapes and value.type.WhichOneof("value") == "tensor_type" and not kind.HasField("shape"):
            kind.shape.SetInParent()
            for _ in shapes[value.name]:
                kind.shape.dim.add()


def _by_axis(inputs: Iterable[ValueInfoProto], shapes: Mapping[str, tuple[int, ...]], place: str) -> dict[str, int]:
    """Sizes of those axes of some inputs that are free, by ``"INPUT:AXIS"``."""
    sizes: dict[str, int] = {}
    for value in inputs:
        shape, axes = shapes[value.name], value.type.tensor_type.shape.dim
        if len(shape) != len(axes):
            raise InputError(f"{value.name!r} has {len(axes)} dimensions, and {_spelt(shape)} has {len(shape)}", place)
        for axis, (size, dim) in enumerate(zip(shape, axes, strict=True)):
            if not dim.HasField("dim_value"):
                sizes[f"{value.name}:{axis}"] = size
            elif dim.dim_value != size:
                message = f"the model fixes axis {axis} of {value.name!r} at {dim.dim_value}, not {size}"
                raise InputError(f"{message}; give that, or export the model anew", place)
    return sizes


def _free(value: ValueInfoProto, place: str) -> list[FreeDim]:
    if value.type.WhichOneof("value") not in (None, "tensor_type"):
        return []
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise InputError(f"graph input {value.name!r} has no shape, not even a rank; declare one in the model", place)
    shape = tuple([dim.dim_value if dim.HasField("dim_value") else None for dim in kind.shape.dim])
    return [
        FreeDim(value.name, axis, dim.dim_param, shape, kind.elem_type in _FLOATS)
        for axis, dim in enumerate(kind.shape.dim)
        if not dim.HasField("dim_value")
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
