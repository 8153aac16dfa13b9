"""Variables of a model, which it keeps from one run to the next: what reads and writes them is as material of C.

A variable is what VAR_HANDLE names. It begins as CALL_ONCE's subgraph assigns it, or with bytes of its zero point; the
code keeps what it differs in from that, so that memory of zeros is the beginning.

Source: TFLM's `micro_resource_variable.cc`, `var_handle.cc`, `read_variable.cc`, `assign_variable.cc`, `call_once.cc`.
"""

from __future__ import annotations

from lowtide.emit.kernel import Find, Kernel, Material, fit
from lowtide.emit.places import sizes_of
from lowtide.errors import InputError
from lowtide.graph import Op
from lowtide.read.tflite.model import Subgraph, TfliteFile, TfliteOp

NOTHING = Kernel("", "", (1, 1, 1))
"""Of an operator that does nothing in a run."""
_ASSIGNED = 2
"""Operands of ASSIGN_VARIABLE."""


def no_op(material: Material, op: Op, find: Find) -> Kernel:
    """VAR_HANDLE and CALL_ONCE: what they do is done before the first run. Raises `InputError`: what CALL_ONCE runs
    does not only assign constants to variables."""
    if op.type == "CALL_ONCE":
        _assignments(material, op)
    return NOTHING


def remembered(material: Material, op: Op, find: Find) -> Kernel:
    """READ_VARIABLE and ASSIGN_VARIABLE. Raises `InputError`: the variable is not of this model, or the plan has the
    tensor in rows."""
    writes = op.type == "ASSIGN_VARIABLE"
    tensor = material.data(op, 1) if writes else material.result(op)
    name, view = _name(material, op.inputs[0]), find(tensor.id)
    if view.slots:
        raise InputError("the plan has its tensor in rows; C is written for a complete one")
    begins = _beginnings(material).get(name)
    fit(begins is None or len(begins) == tensor.size)
    kept = material.keep(name, tensor.size)
    zero = tensor.quant.zero_points[0] if tensor.quant is not None else 0
    first, array = (begins or ((zero + 128) % 256 - 128,))[0], "NULL"
    if begins is not None and set(begins) != {first}:
        array = material.weights.array("beginning", "int8", begins)
    text = f"{{{view.base}, {kept}, {tensor.size}, {int(writes)}, {first}, {array}}}"
    return Kernel("remember", text, sizes_of(tensor))


def _name(material: Material, handle: int) -> str:
    """Name of the variable that a tensor is the handle of."""
    graph = material.graph
    maker = graph.op_by_id[graph.producer[handle]] if handle in graph.producer else None
    if maker is None or maker.type != "VAR_HANDLE":
        raise InputError("its variable is not one that VAR_HANDLE names")
    return _shared_name(maker.attributes)


def _shared_name(options: object) -> str:
    assert hasattr(options, "get"), options
    return f"{options.get('container', '')}/{options.get('shared_name', '')}"  # type: ignore[attr-defined]


def _beginnings(material: Material) -> dict[str, tuple[int, ...]]:
    """Bytes that variables begin with."""
    result: dict[str, tuple[int, ...]] = {}
    for op in material.graph.ops:
        if op.type == "CALL_ONCE":
            result |= _assignments(material, op)
    return result


def _assignments(material: Material, op: Op) -> dict[str, tuple[int, ...]]:
    """What the subgraph of a CALL_ONCE assigns."""
    file = material.graph.file
    assert isinstance(file, TfliteFile), file
    body = file.model.subgraphs[op.attributes["init_subgraph_index"]]
    names: dict[int, str] = {}
    result: dict[str, tuple[int, ...]] = {}
    for inner in body.ops:
        if inner.type == "VAR_HANDLE":
            names[inner.outputs[0]] = _shared_name(inner.options)
        elif inner.type == "ASSIGN_VARIABLE" and len(inner.inputs) == _ASSIGNED and inner.inputs[0] in names:
            result[names[inner.inputs[0]]] = _constant(material, file, body, inner)
        else:
            raise InputError(
                f"what it calls has {inner.type}; C is written for constants that are assigned to variables"
            )
    return result


def _constant(material: Material, file: TfliteFile, body: Subgraph, op: TfliteOp) -> tuple[int, ...]:
    """Bytes of the constant that an operator assigns."""
    tensor = body.tensors[op.inputs[1]]
    extent = file.model.buffers[tensor.buffer]
    if extent is None or extent.size != tensor.size:
        raise InputError("what it calls assigns something other than a constant")
    held = material.weights.data[extent.at : extent.at + extent.size]
    return tuple((byte + 128) % 256 - 128 for byte in held)
