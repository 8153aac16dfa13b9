"""ONNX models (`*.onnx`) as graphs. Weights and external data are not needed, and files over 2 GB are no
obstacle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, ModelFile, Op, Tensor
from lowtide.ops.geometry import convolution_flops, product_flops
from lowtide.read.onnx.bodies import Scope, body_graphs, body_types
from lowtide.read.onnx.dims import bind_dimensions, forget_unknown
from lowtide.read.onnx.forward import ValueOf
from lowtide.read.onnx.shapes import tensor_types
from lowtide.read.onnx.structure import Structure, opset_version, read_structure
from lowtide.read.onnx.types import TensorType, constant_size, constants_of, element_name, size_bytes, sparse_size
from lowtide.read.onnx.values import tensor_value, value_of_constant
from lowtide.read.onnx.wire import load_model
from lowtide.sizes import NO_DIMS, Dims

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


@dataclass(frozen=True)
class OnnxFile(ModelFile):
    """What a plan may ask of the file in addition to its graph.

    `ir_version`: of the format. `opsets`: version of each domain's operators. `functions`: domain and name of each
    local function, whose calls are ops. `dims`: the sizes that its free dimensions were given.
    """

    ir_version: int
    opsets: tuple[tuple[str, int], ...]
    functions: tuple[tuple[str, str], ...]
    dims: tuple[tuple[str, int | tuple[int, ...]], ...]

    @classmethod
    def of(cls, model: ModelProto, dims: Dims) -> OnnxFile:
        """What a model says."""
        return cls(
            model.ir_version,
            tuple((o.domain, o.version) for o in model.opset_import),
            tuple((f.domain, f.name) for f in model.functions),
            tuple((name, tuple(size) if isinstance(size, Sequence) else size) for name, size in dims.items()),
        )


def read_onnx(path: str | Path, dims: Dims = NO_DIMS) -> Graph:
    """Read an ONNX model.

    An op's id is the index of its node in the file. A tensor's id is the place of its name in the order of
    first appearance: graph inputs, initializers, then each node's inputs, captures and outputs in file order.
    A node that reads constants only is folded, unless it draws random numbers. A node with subgraphs (If,
    Loop, Scan) is one op: the tensors that its bodies capture are inputs, and its bodies are graphs in which those
    have size 0. A call of a local function is an op without workspace.

    `path`: the file. External data in its folder is looked at only for small integer tensors that a shape hangs on.
    `dims`: sizes of free dimensions, by symbolic name or as ``"INPUT:AXIS"``, and shapes of tensors by their names: of
      inputs, and of what only the running model knows otherwise.
    Returns: sizes are bytes; elements below 8 bits are packed. A folded tensor without a known shape has size 0.
    Raises `InputError`: the file cannot be read, is no ONNX model or is cut short; its graph is malformed; a dimension
      is left free or `dims` names none; a tensor has no static shape or a type without a fixed size.
    """
    path = Path(path)
    place = str(path)
    model, digest = load_model(path)
    forget_unknown(model.graph)

    def works(sizes: Mapping[str, int]) -> bool:
        tried = type(model)()
        tried.CopyFrom(model)
        try:
            _graph(tried, place, Scope(shapes=bind_dimensions(tried.graph, {**dims, **sizes}, place)), path.parent)
        except InputError:
            return False
        return True

    shapes = bind_dimensions(model.graph, dims, place, works)
    return _graph(model, place, Scope(shapes=shapes), path.parent, digest, OnnxFile.of(model, dims))


def _body(model: ModelProto, place: str, scope: Scope) -> Graph:
    """Graph of a body that is a model of its own. `scope` names what it captures."""
    return _graph(model, place, scope)


def _graph(
    model: ModelProto,
    place: str,
    scope: Scope,
    folder: Path | None = None,
    digest: str = "",
    file: OnnxFile | None = None,
) -> Graph:
    structure, types, model, value_of = _typed(model, place, scope, folder)
    tensors = _sized(structure, model, types, scope, place)
    ops = [_completed(op, model, types, value_of, tensors, structure, place) for op in structure.ops]
    opset = opset_version(model)
    return Graph(
        model.graph.name, tuple(tensors), tuple(ops), structure.folded, place, digest, "onnx", file, opset
    )  # fmt: skip


def _typed(
    model: ModelProto, place: str, scope: Scope, folder: Path | None = None
) -> tuple[Structure, dict[str, TensorType], ModelProto, ValueOf]:
    """Structure of a model or body, the type of every tensor, the model with what was inferred, and what is known of
    values."""
    structure = read_structure(model, place, scope.constants)
    if structure.sorted_nodes:
        model = _sorted(model, structure.sorted_nodes)

    def types_inside(body: ModelProto, where: str, inside: Scope) -> Mapping[str, TensorType]:
        return _typed(body, where, inside)[1]

    def node_types(node: NodeProto, types: Mapping[str, TensorType], value_of: ValueOf) -> list[TensorType | None]:
        return body_types(node, types, value_of, model, place, types_inside)

    types, inferred, value_of = tensor_types(model, structure, place, node_types, folder, scope)
    return structure, types, inferred, value_of


def _sorted(model: ModelProto, order: Sequence[int]) -> ModelProto:
    """The model with its nodes in an order in which types can follow from one another."""
    result = type(model)()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(model.graph.node[i] for i in order)
    return result


def _sized(
    structure: Structure, model: ModelProto, types: Mapping[str, TensorType], scope: Scope, place: str
) -> list[Tensor]:
    constants = {t.name: t for t in model.graph.initializer}
    sparse = {t.values.name: t for t in model.graph.sparse_initializer}
    held = {op.outputs[0]: value_of_constant(op) for op in structure.folded if op.type == "Constant" and op.outputs}
    tensors = []
    for t in structure.tensors:
        kind, value = types.get(t.name), None
        if t.name in constants:
            size = constant_size(constants[t.name], place)
            value = tensor_value(constants[t.name], size)
        elif t.name in sparse:
            size = sparse_size(sparse[t.name], place)
        elif kind is None:
            size = 0
        else:
            size = _folded_size(kind, t.name, place) if t.kind is Kind.CONSTANT else size_bytes(kind, t.name, place)
            value = held.get(t.id)
        if t.name in scope.captured:
            size = 0
        shape, dtype = (None, None) if kind is None else (kind.shape, element_name(kind.element))
        tensors.append(Tensor(t.id, size, t.kind, t.name, shape, dtype, value=value))
    return tensors


def _folded_size(kind: TensorType, name: str, place: str) -> int:
    """Bytes of a folded tensor; strings, which are computed before the first step, count nothing."""
    return 0 if element_name(kind.element) == "string" else size_bytes(kind, name, place)


def _completed(
    op: Op,
    model: ModelProto,
    types: Mapping[str, TensorType],
    value_of: ValueOf,
    tensors: list[Tensor],
    structure: Structure,
    place: str,
) -> Op:
    """The op with its FLOPs, or with its bodies."""
    if op.type in ("Conv", "MatMul", "Gemm"):
        return replace(op, flops=_flops(op, tensors))
    if op.id not in structure.with_bodies:
        return op
    place_of = {op_id: k for k, op_id in enumerate(structure.sorted_nodes)}
    node = model.graph.node[place_of.get(op.id, op.id)]
    constants = constants_of(model.graph)
    fixed = {t.name: constants.get(t.name) for t in tensors if t.kind is Kind.CONSTANT}
    return replace(op, bodies=body_graphs(node, op.label, types, fixed, value_of, model, place, _body))


def _flops(op: Op, tensors: list[Tensor]) -> int | None:
    """Two for each multiplication and addition of a Conv, MatMul or Gemm; the bias is left out."""
    if len(op.inputs) < 2:
        return None
    output, first, second = (tensors[t].shape for t in (op.outputs[0], *op.inputs[:2]))
    if output is None or not first or not second:
        return None
    if op.type == "Conv":
        return convolution_flops(output, second)
    turned = op.type == "Gemm" and bool(op.attributes.get("transA"))
    return product_flops(output, first[0] if turned else first[-1])
