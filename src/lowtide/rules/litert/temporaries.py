"""Temporary tensors of LiteRT's kernels: what each asks of the arena for the time that it runs.

Read in `tflite/kernels/*.cc` (LiteRT 2.3) and measured in the runtime (`tests/rules/litert/test_temporaries.py`). A
*hybrid* kernel has float inputs and 8-bit weights: it quantises what it reads into temporary tensors. What a kernel
keeps from run to run (row sums, transposed constants) is in an arena of its own and is not counted, nor is what it
takes from the heap (TRANSPOSE_CONV). Not known: sparse and 4-bit weights, hybrid convolutions of one scale for all
filters, integer LSTMs of 12 intermediate tensors, and the kernels that are not in the table and take some:
BIDIRECTIONAL_SEQUENCE_LSTM and _RNN, CONV_3D, RFFT2D, custom ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.geometry import filter_elements, tflite_window
from lowtide.ops.index import Window

_WORD = 4  # bytes of a float, of a scale, and of a sum of products of 8-bit numbers


@dataclass(frozen=True, slots=True)
class _Sized:
    """A tensor of a fixed shape. `width` is bytes per element."""

    shape: tuple[int, ...]
    dtype: str
    size: int
    constant: bool

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def width(self) -> int:
        return self.size // max(1, self.elements)


_Kernel = Callable[[Op, Sequence[_Sized], _Sized], tuple[int, ...]]


def temporaries(graph: Graph, op: Op) -> tuple[int, ...]:
    """Bytes of each temporary tensor of a kernel, in its own order; none if the kernel is not known."""
    kernel = _KERNELS.get(op.type)
    if kernel is None or len(op.inputs) < 2 or not op.outputs:
        return ()
    sized = []
    for t in (*op.inputs, op.outputs[0]):
        tensor = graph.tensor_by_id[t]
        if tensor.shape is None:
            return ()
        sized.append(_Sized(tensor.shape, tensor.dtype or "", tensor.size, tensor.kind is Kind.CONSTANT))
    *inputs, output = sized
    try:
        return kernel(op, inputs, output) if inputs[0].size and inputs[0].shape else ()
    except IndexError:  # fewer dimensions than the kernel accepts: LiteRT refuses the file
        return ()


def _hybrid(inputs: Sequence[_Sized]) -> bool:
    return inputs[0].dtype == "float32" and inputs[1].dtype in ("int8", "uint8")


def _conv_2d(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    """The input unfolded, unless each window is one place; quantised if hybrid, with a scale for each filter."""
    read, weights = inputs[:2]
    if len(weights.shape) != 4 or len(output.shape) != 4 or len(read.shape) != 4:
        return ()
    windows = [tflite_window(op.attributes, side, taps) for side, taps in zip("hw", weights.shape[1:3], strict=True)]
    unfolded = ()
    if any(window != Window(1) for window in windows):
        width = weights.width if _hybrid(inputs) else read.width
        unfolded = (prod(output.shape[:3]) * filter_elements(weights.shape) * width,)
    if not _hybrid(inputs):
        return unfolded
    groups = read.shape[3] // max(1, weights.shape[3])
    scales = _WORD * prod(read.shape[:3]) * groups
    sizes = (*unfolded, read.elements, scales, _WORD * output.elements)
    return (*sizes, scales) if weights.shape[0] > 1 else sizes


def _depthwise(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    batch = _WORD * inputs[0].shape[0]
    return (inputs[0].elements, batch, batch) if _hybrid(inputs) else ()


def _fully_connected(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    read, weights = inputs[:2]
    if not _hybrid(inputs) or len(weights.shape) != 2:
        return ()
    batch = read.elements // max(1, weights.shape[1])
    return (read.elements, _WORD * batch, _WORD * batch * weights.shape[0], _WORD * batch)


def _batch_matmul(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    """Both operands transposed, whether or not they have to be; a constant one is kept."""
    a, b = inputs[:2]
    moved = (a.size,) if b.constant else (a.size, b.size)
    if a.dtype != "float32" or b.dtype != "int8" or len(a.shape) < 2 or len(output.shape) < 2:
        return moved
    rows, columns = output.shape[-2:]
    scales = _WORD * prod(a.shape[:-2]) * rows
    return (*moved, a.elements, scales, _WORD * rows * columns, scales)


def _lstm(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    """Gates of one step. Without an input gate, there is one matrix fewer for the input and for the state."""
    matrices = 0
    while matrices + 1 < len(inputs) and len(inputs[matrices + 1].shape) == 2:
        matrices += 1
    if matrices not in (6, 8):
        return ()
    sequence = op.type != "LSTM"
    read, weights = inputs[:2]
    batch = read.shape[1 if sequence and op.attributes.get("time_major", 0) else 0]
    cells = weights.shape[0]
    each = batch * cells
    if read.dtype == "int8":
        return (*(2 * each,) * 4, each, _WORD * each)
    gates = _WORD * batch * ((5 if matrices == 8 else 4) * cells + (16 if sequence else 0))
    if not _hybrid(inputs):
        return (gates,)
    scales = _WORD * batch
    states = batch * output.shape[-1], each
    return (gates, read.elements, *states, *(scales,) * 3, _WORD * cells, _WORD * each, scales, scales)


def _rnn(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    read, weights = inputs[:2]
    if not _hybrid(inputs):
        return ()
    batch = read.shape[1 if op.type != "RNN" and op.attributes.get("time_major", 0) else 0]
    units = weights.shape[0]
    return (read.elements, batch * units, _WORD * batch, _WORD * batch * units, _WORD * batch)


def _svdf(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    read, features = inputs[:2]
    batch = read.shape[0]
    sums = _WORD * batch * features.shape[0]
    if read.dtype == "int8":
        return (sums, _WORD * output.elements)
    return (sums, read.elements, _WORD * batch, _WORD * batch) if _hybrid(inputs) else (sums,)


def _reduction(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    """Its position, its axes, and sums."""
    read, axes = inputs[:2]
    wide = 8 if read.dtype == "int64" else 4
    return (4 * len(read.shape), 4 * max(1, axes.elements), wide * output.elements)


def _add_n(op: Op, inputs: Sequence[_Sized], output: _Sized) -> tuple[int, ...]:
    """On one thread."""
    return (output.size,)


_KERNELS: dict[str, _Kernel] = {
    "CONV_2D": _conv_2d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
    "RNN": _rnn,
    "UNIDIRECTIONAL_SEQUENCE_RNN": _rnn,
    "SVDF": _svdf,
    "ADD_N": _add_n,
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), _reduction),
}
