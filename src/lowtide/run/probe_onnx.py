"""Runs single ONNX ops in onnxruntime: one node a model, every operand that is not fixed an input of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import first_line
from lowtide.graph import Array, Graph, Op
from lowtide.ops.onnx.blocked import DOMAIN, FROM_BLOCKED, TO_BLOCKED
from lowtide.run.blocks import block_size
from lowtide.run.ort_session import new_session
from lowtide.run.probe import Arrays, Kernel, Operand, RefusedError, Runner

_DRAWN = frozenset(
    {"float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"}
)
_OURS = frozenset({"random"})
_IR_VERSION = 10
_NEWEST = 21
"""Operator set for a graph that does not say its own."""


class OnnxRunner(Runner):
    """Single nodes in onnxruntime, on one thread, not optimised. Sessions of equal nodes are opened once."""

    drawn = _DRAWN

    def __init__(self) -> None:
        self._sessions: dict[bytes, Any] = {}

    def open(self, graph: Graph, op: Op, operands: Sequence[Operand | None]) -> Kernel:
        """A function from operands to results, as `lowtide.run.probe.Runner` has it."""
        model = node_model(graph, op, operands)
        key = model.SerializeToString(deterministic=True)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = _session(key)
        fed = [i for i, operand in enumerate(operands) if operand is not None and operand.value is None]
        names = [value.name for value in session.get_outputs()]

        def kernel(given: Arrays) -> list[np.ndarray]:
            try:
                return session.run(names, {f"x{i}": given[i] for i in fed})
            except Exception as error:  # onnxruntime's own kinds of error have no common base
                raise RefusedError(first_line(error)) from None

        return _in_blocks(op.type, kernel) if op.type.startswith(DOMAIN) else kernel


def _in_blocks(kind: str, kernel: Kernel) -> Kernel:
    """A kernel of the blocked layout as one of plain tensors, which are brought into blocks and back."""
    block = block_size()

    def blocked(x: np.ndarray | None, *, back: bool = False) -> np.ndarray | None:
        if x is None or x.ndim != 4 or x.shape[1] % block:  # a convolution reads few channels as they are
            return x
        batch, channels, rows, columns = x.shape
        if back:
            parts = x.reshape(batch, channels // block, rows, columns, block).transpose(0, 1, 4, 2, 3)
        else:
            parts = x.reshape(batch, channels // block, block, rows, columns).transpose(0, 1, 3, 4, 2)
        return np.ascontiguousarray(parts).reshape(x.shape)

    def plain(given: Arrays) -> list[np.ndarray]:
        reads = [x if i in (1, 2) or kind == TO_BLOCKED else blocked(x) for i, x in enumerate(given)]
        made = kernel(reads)
        return made if kind == FROM_BLOCKED else [y for y in (blocked(y, back=True) for y in made) if y is not None]

    return plain


def _session(model: bytes) -> Any:
    try:
        return new_session(model, "DISABLE_ALL", enable_cpu_mem_arena=False)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise RefusedError(first_line(error)) from None


def node_model(graph: Graph, op: Op, operands: Sequence[Operand | None]) -> Any:
    """A model of one node; operands that have a value are its initializers, the others its inputs ``x0``, ...."""
    from onnx import helper, numpy_helper

    domain, _, kind = op.type.rpartition("::")
    names = ["" if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    slots = _slots(graph, op)
    node = helper.make_node(kind, names, slots, domain=domain)
    node.attribute.extend(_attributes(op))
    inputs, fixed = [], []
    for name, operand in zip(names, operands, strict=True):
        if operand is None:
            continue
        if operand.value is not None:
            fixed.append(numpy_helper.from_array(operand.value, name))
        else:
            inputs.append(helper.make_tensor_value_info(name, _element(operand.dtype), operand.shape))
    tensors = (graph.tensor_by_id[t] for t in op.outputs)
    outputs = [
        helper.make_tensor_value_info(name, _element(tensor.dtype or ""), None)
        for name, tensor in zip([slot for slot in slots if slot], tensors, strict=True)
    ]
    opsets = [helper.make_opsetid("", graph.opset or _NEWEST)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    alone = helper.make_graph([node], "probe", inputs, outputs, fixed)
    return helper.make_model(alone, opset_imports=opsets, ir_version=_IR_VERSION)


def _element(dtype: str) -> int:
    from onnx import helper

    if dtype not in _DRAWN:
        raise RefusedError(f"elements of type {dtype or 'unknown'} are not drawn")
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _slots(graph: Graph, op: Op) -> list[str]:
    """Names of the results at their positions; a recurrent layer may leave out the first, which has four dimensions."""
    names = [f"y{j}" for j in range(len(op.outputs))]
    if op.type in ("LSTM", "GRU", "RNN"):
        shape = graph.tensor_by_id[op.outputs[0]].shape
        if shape is not None and len(shape) == 3:
            return ["", *names]
    return names


def _attributes(op: Op) -> list[Any]:
    from onnx import helper

    result = []
    for name, value in op.attributes.items():
        if name in _OURS or (name == "training_mode" and op.type == "Dropout") or value in (None, ()):
            continue
        result.append(helper.make_attribute(name, _tensor(value) if isinstance(value, Array) else value))
    return result


def _tensor(array: Array) -> Any:
    from onnx import helper

    if array.value is None:
        raise RefusedError("an attribute's tensor is not at hand")
    return helper.make_tensor("", _element(array.dtype), array.shape, array.value, raw=True)
