"""onnxruntime's CPU provider: which kernels share memory, seen by experiment with version 1.31.1.

Its planner decides with the order known, op by op (`tests/rules/onnxruntime/test_rule.py` shows each line of this
against the runtime itself):

- An *alias* kernel returns its input, whatever other consumers it has.
- A *may-inplace* kernel writes over its input if that has no consumer left, the shapes are equal, dimension by
  dimension, the elements have the same width, and the kernel reads that input once.
- What is a graph output gets memory of its own, always: an alias kernel copies then. Graph inputs are the caller's:
  they are not counted and never overwritten, though an alias of one is.
- Binary arithmetic (Add, Mul, ...) is *not* in place here, nor are Exp, Sqrt, Gelu, Dropout or batch normalisation.
- Some kernels take workspace from the arena while they run: `chunks`.
- `Shape` and `Size` run as soon as they can, wherever they stand in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from math import prod
from types import MappingProxyType

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.geometry import filter_elements, is_pointwise
from lowtide.rules.onnxruntime.einsum import einsum_chunks, recurrent_chunks
from lowtide.sizes import round_up
from lowtide.topological import topological

ALIAS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "com.microsoft::ExpandDims"})
"""Kernels whose output is their first input's memory."""

MAY_INPLACE: Mapping[str, int] = MappingProxyType(
    dict.fromkeys(
        ("Celu", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "Selu", "Shrink", "Sigmoid", "Softplus", "Softsign", "Tanh",
         "ThresholdedRelu", "Clip", "Cast", "Softmax", "LogSoftmax", "Trilu", "Scatter", "ScatterElements"), 0
    ) | {"com.microsoft::FusedConv": -1, "com.microsoft.nchwc::Conv": -1}
)  # fmt: skip
"""Kernels that may write over an input, with that input's position; -1 is the last of three or more."""

CHUNK_BYTES = 256  # what the arena gives is a multiple of this

SEGMENT_BYTES = 65536
"""What a thread of the session unfolds a convolution's input into, piece by piece."""
_SEGMENT_PRODUCTS = 65536
"""Multiplications for which a convolution takes one thread more."""
_UNFOLD = frozenset({"Conv", "com.microsoft::FusedConv", "If", "Loop", "Scan"})

EXTEND_BYTES = 65536
"""For `max_power_of_two_extend_bytes`: above this many the arena grows by the power of two that holds what is missing.
Without it the first block is doubled. (arena_extend_strategy 1 takes no first block: each tensor its own memory.)"""

Shape = tuple[int, ...] | None

_AT_ONCE = frozenset({"Shape", "Size"})
_SOFTMAX_ALONG_ONE_AXIS = 13
"""Opset from which on a softmax runs along one axis alone."""


class OnnxRuntimeRule:
    """See the module."""

    tables: Mapping[str, Sequence[str]] = MappingProxyType(
        {"Alias kernels": sorted(ALIAS), "May-inplace kernels": sorted(MAY_INPLACE)}
    )

    def view_source(self, graph: Graph, op: Op) -> int | None:
        """The input whose memory an alias kernel hands on."""
        if op.type not in ALIAS or len(op.outputs) != 1 or not op.inputs:
            return None
        output, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[0]]
        if output.kind is Kind.OUTPUT or output.alias_of is not None or output.size != read.size:
            return None
        return read.id

    def in_place_inputs(self, graph: Graph, op: Op) -> tuple[int, ...]:
        """The input that a may-inplace kernel may write over."""
        at = MAY_INPLACE.get(op.type)
        if at is None or len(op.outputs) != 1 or len(op.inputs) < (1 if at == 0 else 3):
            return ()
        if op.inputs.count(op.inputs[at]) != 1:
            return ()
        output, read = graph.tensor_by_id[op.outputs[0]], graph.tensor_by_id[op.inputs[at]]
        if output.kind is Kind.OUTPUT or output.alias_of is not None or read.kind is Kind.CONSTANT:
            return ()
        same = output.shape is not None and output.shape == read.shape and output.size == read.size != 0
        return (read.id,) if same else ()

    def overlap_inputs(self, graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
        """None: outputs lie exactly over an input or do not overlap it."""
        return ()

    def workspace(self, graph: Graph, op: Op) -> int:
        """Bytes that a kernel has from the arena in addition to its outputs, at the most, in steps of 256: see
        `chunks`."""
        before, after = chunks(graph, op)
        if not before and not after:
            return 0
        output_bytes = sum(round_up(graph.tensor_by_id[t].size, CHUNK_BYTES) for t in op.outputs)
        held: list[int] = []
        most = 0
        for size in before:
            if size:
                held.append(round_up(size, CHUNK_BYTES))
            else:
                del held[0]
            most = max(most, sum(held) - output_bytes)
        return max(most, sum(held) + sum(round_up(size, CHUNK_BYTES) for size in after))

    def as_run(self, graph: Graph, order: Sequence[int]) -> list[int]:
        """The file's order, but for `Shape` and `Size`, which run as soon as their input is there."""
        position = {op: i for i, op in enumerate(order)}
        waits = {op: {graph.ops[p].id for p in graph.predecessors[graph.index_of[op]]} for op in order}
        return topological(waits, lambda op: (graph.op_by_id[op].type not in _AT_ONCE, position[op]))


def thread_bytes(types: Iterable[str]) -> int:
    """What each further thread of a session may add to the arena, by the types of its ops."""
    return 0 if _UNFOLD.isdisjoint(types) else SEGMENT_BYTES


def chunks(graph: Graph, op: Op, threads: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """What a kernel takes from the arena while it runs, in bytes: before it takes its outputs, and after.

    A 0 among them gives the oldest back. Known are float and 8-bit QLinear convolutions, linear Resize, LRN, BiasGelu,
    Softmax over an axis that is not the last, of any type Where and sums and extremes of three or more, Einsum of two
    operands (`einsum.py`), and recurrent layers (`recurrent.py`); attention takes some too, and is not known. A
    float convolution unfolds its input for one group and image at a time: not at all if it is pointwise with stride
    1 and no padding, in one step if the group has more filters than the output has places, else by segments.
    """
    tensors = graph.tensor_by_id
    out = tensors[op.outputs[0]] if op.outputs else None
    if out is None or out.shape is None or not out.size:
        return (), ()
    shapes = [tensors[t].shape for t in op.inputs]
    match op.type:
        case "Where" if len(shapes) == 3:
            width = out.size // prod(out.shape)
            sizes = (width * _broadcast_elements(shapes[0], other) for other in shapes[1:])
            return tuple(size for size in sizes if size), ()
        case "Sum" | "Mean" | "Max" | "Min" if len(shapes) > 2:
            return (out.size, *((out.size, 0) * (len(shapes) - 3))), ()
        case "Einsum" if isinstance(op.attributes.get("equation"), str) and None not in shapes:
            operands = [shape for shape in shapes if shape is not None]
            return einsum_chunks(op.attributes["equation"], operands, out.size // prod(out.shape)) or ((), ())
        case "LSTM" | "GRU" | "RNN":
            read, outputs = ([tensors[t] for t in ids] for ids in (op.inputs, op.outputs))
            return (), recurrent_chunks(op.type, read, outputs, op.attributes)
        case "QLinearConv" if len(shapes) > 3:
            return (), _quantised(op, shapes[0], shapes[3], out.shape)
        case "com.microsoft::DynamicQuantizeMatMul" if shapes and shapes[0] is not None:
            return (prod(shapes[0]),), ()  # what it multiplies, in 8 bits
        case _ if out.dtype != "float32":
            return (), ()
        case "Conv" | "com.microsoft::FusedConv" | "ConvTranspose" if len(shapes) > 1:
            unfolded = _unfolded_bytes(op, shapes[0], shapes[1], out.shape, threads)
            return (), (unfolded,) if unfolded else ()
        case "Softmax" | "LogSoftmax" if _turns(graph, op, len(out.shape)):
            return (), (out.size, out.size)
        case "LRN" if len(out.shape) == 4 and op.attributes.get("size", 0) > 0:
            _, channels, *places = out.shape
            return (), (out.size, 4 * (channels + op.attributes.get("size", 1) - 1) * prod(places))
        case "com.microsoft::BiasGelu":
            return (), (out.size,)
        case "com.microsoft::FastGelu" if len(shapes) > 1:
            return (), (out.size,)
        case "Resize" | "Upsample" if op.attributes.get("mode") == "linear" and len(out.shape) == 4:
            return (), (16 * (out.shape[2] + out.shape[3]),)
        case _:
            return (), ()


def _turns(graph: Graph, op: Op, rank: int) -> bool:
    """Whether a softmax runs along an axis that is not the last; before opset 13 it ran along all from an axis on."""
    flattens = 0 < graph.opset < _SOFTMAX_ALONG_ONE_AXIS
    return not flattens and op.attributes.get("axis", -1) not in (-1, rank - 1)


def _quantised(op: Op, read: Shape, weights: Shape, output: Shape) -> tuple[int, ...]:
    """A quantised convolution turns one image to channels last and back. It reads it by pointers if it is depthwise, or
    has one group, a multiple of 4 channels in and out, and 16 or more out; else it unfolds it and keeps 32-bit sums.
    """
    if read is None or weights is None or output is None:
        return ()
    groups, places = op.attributes.get("group", 1), prod(output[2:])
    turned = prod(read[1:]), prod(output[1:])
    kernel = prod(weights[2:])
    pointwise = _is_pointwise(op, weights)
    if _by_pointers(groups, read, output):
        return turned if pointwise and groups == 1 else (*turned, 8 * kernel * places)
    unfolded = () if pointwise else (filter_elements(weights) * places,)
    return (*turned, 4 * output[1] * places, *unfolded)


def _is_pointwise(op: Op, weights: tuple[int, ...]) -> bool:
    return is_pointwise(weights[2:], op.attributes.get("strides", ()), op.attributes.get("pads", ()))


def reads_by_pointers(op: Op, read: Shape, weights: Shape, output: Shape) -> bool:
    """Whether a quantised convolution reads its input by pointers on CPUs with such a kernel; others unfold it."""
    return weights is not None and _by_pointers(op.attributes.get("group", 1), read, output)


def _by_pointers(groups: int, read: Shape, output: Shape) -> bool:
    if read is None or output is None:
        return False
    depthwise = groups == read[1] == output[1]
    return depthwise or (groups == 1 and read[1] % 4 == output[1] % 4 == 0 and output[1] >= 16)


def _broadcast_elements(a: Shape, b: Shape) -> int:
    """Elements of what two shapes broadcast to, trailing dimensions aligned."""
    if a is None or b is None:
        return 0
    return prod(max(x, y) for x, y in zip_longest(reversed(a), reversed(b), fillvalue=1))


def kept_chunks(graph: Graph) -> list[int]:
    """Bytes that the arena holds from the session's beginning to its end: turned filters of float ConvTranspose, packed
    ones of quantised convolutions that read by pointers. What other kernels repack is reserved outside the blocks.
    """
    tensors = graph.tensor_by_id
    sizes = []
    for op in graph.ops:
        at = {"ConvTranspose": 1, "QLinearConv": 3}.get(op.type)
        if at is None or len(op.inputs) <= at:
            continue
        weights = tensors[op.inputs[at]]
        if weights.kind is not Kind.CONSTANT or len(weights.shape or ()) < 3:
            continue
        rows, *columns = weights.shape or (0,)
        groups = op.attributes.get("group", 1)
        if at == 1 and weights.dtype == "float32" and rows // groups > 1 and prod(columns) > 1:
            sizes.append(weights.size)
        if at == 3 and _by_pointers(groups, tensors[op.inputs[0]].shape, tensors[op.outputs[0]].shape):
            sizes.append(round_up(rows, 16) * prod(columns))
    return sizes


def _unfolded_bytes(op: Op, read: Shape, weights: Shape, output: Shape, threads: int) -> int:
    if read is None or weights is None or output is None:
        return 0
    if op.type == "ConvTranspose":
        return 4 * filter_elements(weights) * prod(read[2:])
    if _is_pointwise(op, weights):
        return 0
    places, groups = prod(output[2:]), op.attributes.get("group", 1)
    filters = weights[0] // groups
    if filters > places:
        return 4 * places * filter_elements(weights)
    busy = groups * output[0] if groups > 1 else 1 + filters * places * filter_elements(weights) // _SEGMENT_PRODUCTS
    return SEGMENT_BYTES * min(threads, busy)
