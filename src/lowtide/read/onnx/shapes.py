"""Static types of an ONNX graph's tensors: as declared, as ONNX infers them, and by a last resort of our
own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read.onnx.dims import check_shapes
from lowtide.read.onnx.forward import NodeTypes, ValueOf, follow_types
from lowtide.read.onnx.structure import Structure
from lowtide.read.onnx.types import (
    INT32,
    INT64,
    TensorType,
    constant_of_node,
    constant_type,
    other_than_tensor,
    static_type,
)

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

    from lowtide.read.onnx.bodies import Scope

_DATA_DEPENDENT = frozenset(
    {"NonZero", "Unique", "Compress", "NonMaxSuppression", "Range", "Reshape", "Expand", "Tile",
     "ConstantOfShape", "Resize", "Upsample", "Slice", "Pad", "TopK", "OneHot", "MaxUnpool", "Loop",
     "Scan", "Split", "Squeeze", "Unsqueeze", "StringSplit", "CenterCropPad", "AffineGrid",
     "DFT", "ImageDecoder"}
)  # fmt: skip
"""Ops whose output shape can hang on the values of an input."""
_ROUNDS = 20
_SMALL_ELEMENTS = 512


def tensor_types(
    model: ModelProto, structure: Structure, place: str, node_types: NodeTypes, folder: Path | None, scope: Scope
) -> tuple[dict[str, TensorType], ModelProto, ValueOf]:
    """Static type of every tensor that is no folded constant, and of those where known.

    `model`: without free dimensions. Not changed.
    `structure`: of the same model.
    `place`: put before every message.
    `node_types`: gives a node's output types where ONNX infers none (for nodes with bodies, which know more).
    `folder`: the folder of external data. Only small integer tensors are read from it, and only if a shape needs them.
    `scope`: shapes that the user gives, and known values of graph inputs.
    Returns: the types by name, the model whose subgraphs hold what was inferred, and, of a model with bodies, what is
      known of values.
    Raises `InputError`: a tensor without a static type, or of a type that has no fixed size (sequence, optional, map,
      sparse); a name in `scope.shapes` that is no tensor, or one whose shape the model declares to be another.
    """
    wanted = [t.name for t in structure.tensors]
    types = _declared_types(model.graph)
    reason = ""
    value_of: ValueOf = scope.values.get
    if any(name not in types for name in wanted) or structure.with_bodies:
        model, reason = _infer(with_small_constants(model, folder))
        types = {**_declared_types(model.graph), **types}
        for _ in range(_ROUNDS):
            own, value_of = follow_types(model, types, node_types, scope.shapes, scope.values)
            types.update(own)
            if not own or all(name in types for name in wanted):
                break
            _declare(model.graph, own)
            model, _ = _infer(model)
            types = {**_declared_types(model.graph), **types}
    inputs = [t.name for t in structure.tensors if t.kind is Kind.INPUT]
    check_shapes(scope.shapes, wanted, inputs, types, place)
    missing = {t.name for t in structure.tensors if t.kind is not Kind.CONSTANT and t.name not in types}
    if missing:
        raise _no_type(model, structure, missing, reason, place)
    return types, model, value_of


def _declared_types(graph: GraphProto) -> dict[str, TensorType]:
    types: dict[str, TensorType] = {}
    for values in (graph.value_info, graph.output, graph.input):
        for value in values:
            kind = static_type(value)
            if kind is not None:
                types[value.name] = kind
    for node in graph.node:
        tensor = constant_of_node(node)
        if tensor is not None:
            types[tensor.name] = constant_type(tensor)
    for tensor in graph.initializer:
        types[tensor.name] = constant_type(tensor)
    for sparse in graph.sparse_initializer:
        types[sparse.values.name] = TensorType(sparse.values.data_type, tuple(sparse.dims))
    return types


def _infer(model: ModelProto) -> tuple[ModelProto, str]:
    """What ONNX infers, with data propagation if it bears that; the model as it was, and why, if it
    cannot."""
    from onnx.shape_inference import infer_shapes

    reason = ""
    for data_prop in (True, False):
        try:
            return infer_shapes(model, data_prop=data_prop), reason
        except Exception as error:  # onnx raises RuntimeError, ValueError, InferenceError, from C++
            reason = reason or str(error).strip().split("\n")[0][:200]
    return model, reason


def with_small_constants(model: ModelProto, folder: Path | None) -> ModelProto:
    """The model with small integer tensors read in from external data, if that is present: shapes depend on
    them."""
    from onnx.external_data_helper import load_external_data_for_tensor

    outside = [
        i
        for i, t in enumerate(model.graph.initializer)
        if t.data_location and t.data_type in (INT32, INT64) and len(t.dims) <= 1 and sum(t.dims) <= _SMALL_ELEMENTS
    ]
    if not outside or folder is None:
        return model
    filled = type(model)()
    filled.CopyFrom(model)
    for i in outside:
        tensor = filled.graph.initializer[i]
        try:
            load_external_data_for_tensor(tensor, str(folder))
        except Exception:  # missing, cut short, or outside the folder: plan without it
            continue
        tensor.ClearField("data_location")
        tensor.ClearField("external_data")
    return filled


def _declare(graph: GraphProto, own: Mapping[str, TensorType]) -> None:
    from onnx.helper import make_tensor_type_proto

    for value in (*graph.value_info, *graph.output):
        if value.name in own:
            value.type.CopyFrom(make_tensor_type_proto(*own[value.name]))
    declared = {v.name for v in (*graph.value_info, *graph.output)}
    for name, kind in own.items():
        if name not in declared:
            graph.value_info.add(name=name, type=make_tensor_type_proto(*kind))


def _no_type(model: ModelProto, structure: Structure, missing: set[str], reason: str, place: str) -> InputError:
    """The error for the first tensor, in file order, that has no static type."""
    graph = model.graph
    declared = {v.name: v for v in (*graph.value_info, *graph.output, *graph.input)}
    label = {structure.tensors[t].name: op.label for op in structure.ops for t in op.outputs}
    types = {structure.tensors[t].name: op for op in structure.ops for t in op.outputs}
    name = next(t.name for t in structure.tensors if t.name in missing)
    for t in structure.tensors:
        other = other_than_tensor(declared[t.name]) if t.name in missing and t.name in declared else None
        if other is not None:
            by = f", made by {label[t.name]}," if t.name in label else ""
            return InputError(
                f"tensor {t.name!r}{by} is of type {other}, which has no fixed size; cut that part of the model off",
                place,
            )
    if name not in label:
        return InputError(f"graph input {name!r} has no element type or shape; declare them in the model", place)
    if types[name].type == "If":
        return InputError(
            f"{label[name]} makes {name!r}, whose shape depends on which branch runs: they differ, or one cannot run "
            f"at these sizes; give other sizes, or the shape with --shape {name}=AxBx...",
            place,
        )
    if types[name].type in _DATA_DEPENDENT:
        return InputError(
            f"{label[name]} makes {name!r}, whose shape depends on data: its size is not known before "
            f"the model runs; give it with --shape {name}=AxBx..., declare a static shape for it in value_info, or cut "
            "that part of the model off",
            place,
        )
    why = f" (ONNX says: {reason})" if reason else ""
    return InputError(
        f"no shape is known for {name!r}, which {label[name]} makes{why}; give it with --shape {name}=AxBx..., "
        "or declare it in value_info; sizes that you gave may also not fit the model (many need multiples of 32)",
        place,
    )
