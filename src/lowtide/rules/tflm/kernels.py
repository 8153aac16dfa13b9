"""How far below its input a TFLM reference kernel may write its output while the input is still being read.

A kernel of the table reads and writes in raster order on one thread: batches, rows, columns, channels, each element
written once, front to back. Its output may lie over an input that dies if every write ends at or below the first byte
that is still to be read. With the output at byte o of the arena and the input at byte i that is

    o + (end of the write) <= i + (lowest byte of the input read later)   for every write, i.e.   o + d <= i,

where the *distance* d is the largest (end of a write) - (lowest byte read later)::

    address ^       input   +---------------------+        the kernel walks upwards in both; what it has written
            |         |read |  still to be read   |        stays below what it has still to read
            |  output +-----+---------------+-----+
            |  written      |  not yet written    |
            |  <---- d ---->

Evidence: the kernels' source (tflite-micro at commit 90b983c, `tensorflow/lite/kernels/internal/reference/`), read
twice, a simulation of every read and write (tests/rules/tflm/test_kernels.py), and the interpreter itself: at the
distance outputs are bit-equal, below it they are not. A compiler may move a write past a read only if it takes them
for different memory: so an output has the type of its input, or one of the two is of characters, which may be anything
(GCC and Clang count `signed char` among them in C++, too; `bool` is none).

Sizes are bytes. All loops go over rows or columns, never over pixels: a distance costs microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.geometry import tflite_padded, tflite_rows, tflite_window
from lowtide.ops.index import Window
from lowtide.rules.tflm.copies import COPIED, constant, copy_distance, first_interpolated


@dataclass(frozen=True, slots=True)
class Kernel:
    """A row of the table: operators whose reference kernels walk alike.

    `reads`: ``"flat"``: element k of the inputs, then element k of the output is written; ``"window"``: all channels
    of a window for each output channel; ``"channel window"``: one channel of a window; ``"image"``: a channel of the
    full image; ``"interpolation"``: one channel of up to four pixels; ``"row"``: a full row for each output;
    ``"runs"``: a run of each input in turn, copied; ``"copies"``: see `lowtide.rules.tflm.copies`; ``"before"``:
    everything, to a scratch buffer, before the first write. `inputs`: positions that may be overlapped, all if empty.
    `source`: files that were read. `broadcasts`: an input of the output's shape is read so even if another one is
    broadcast. `dtypes`: of the output, all if empty.
    """

    types: tuple[str, ...]
    reads: str
    inputs: tuple[int, ...]
    source: str
    broadcasts: bool = False
    dtypes: tuple[str, ...] = ()


KERNELS: tuple[Kernel, ...] = (
    Kernel(
        ("ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD",
         "LOGICAL_AND", "LOGICAL_OR", "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
        "flat", (0, 1),
        "add.h, integer_ops/add.h, sub.h, mul.h, integer_ops/mul.h, div.h, squared_difference.cc, maximum_minimum.h, "
        "binary_function.h, comparisons.h, broadcast_loop.h", broadcasts=True,
    ),
    Kernel(("PRELU",), "flat", (0,), "prelu.cc, prelu.h, broadcast_loop.h", broadcasts=True),
    Kernel(
        ("ABS", "SIN", "COS", "LOG", "SQRT", "RSQRT", "SQUARE", "LOGICAL_NOT", "NEG", "CEIL", "FLOOR", "ROUND", "EXP",
         "RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH", "LEAKY_RELU", "ELU", "CAST"),
        "flat", (0,),
        "elementwise.cc, neg.h, ceil.h, floor.h, round.h, exp.h, activations.cc, logistic.h, tanh.h, hard_swish.h, "
        "leaky_relu.h, elu.h, cast.cc and their integer_ops",
    ),
    Kernel(("ADD_N",), "flat", (), "add_n.cc, add_n.h"),
    Kernel(("SELECT_V2",), "flat", (1, 2), "select.cc, select.h"),
    Kernel(("QUANTIZE", "DEQUANTIZE"), "flat", (0,), "quantize.h, requantize.h, dequantize.h"),
    Kernel(
        ("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION"), "flat", (0,),
        "softmax.h, log_softmax.h, l2normalization.h: maximum, sum or norm of a row are read before its first write; "
        "what is kept in the output meanwhile lies at or below what is read next",
    ),
    Kernel(("CONV_2D",), "window", (0,), "conv.h, integer_ops/conv.h"),
    Kernel(("DEPTHWISE_CONV_2D",), "channel window", (0,), "depthwiseconv_float.h, integer_ops/depthwise_conv.h"),
    Kernel(
        ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "channel window", (0,), "pooling.h, integer_ops/pooling.h"
    ),
    Kernel(
        ("MEAN",), "image", (0,),
        "reduce.h: for floats over rows and columns with keep_dims; all other reductions clear the output first",
        dtypes=("float32",),
    ),
    Kernel(("RESIZE_BILINEAR",), "interpolation", (0,), "resize_bilinear.h"),
    Kernel(
        ("FULLY_CONNECTED", "BATCH_MATMUL"), "row", (0,),
        "fully_connected.h, integer_ops/fully_connected.h; batch_matmul.cc, batch_matmul.h where the first operand is "
        "neither transposed nor broadcast (the second is copied before, or read where it is)",
    ),
    Kernel(
        ("TRANSPOSE_CONV",), "before", (2,),
        "integer_ops/transpose_conv.h: sums in scratch; for floats it clears the output first",
        dtypes=("int8", "int16"),
    ),
    Kernel(
        ("CONCATENATION", "PACK"), "runs", (),
        "concatenation.h: memcpy, so that a run may not touch its own copy; pack.cc where it copies whole inputs",
    ),
    Kernel(
        COPIED, "copies", (0,),
        "pad.h, slice.h, strided_slice.h, transpose.h, space_to_depth.h, depth_to_space.h, space_to_batch_nd.h, "
        "batch_to_space_nd.h, resize_nearest_neighbor.h",
    ),
)  # fmt: skip
"""What is reviewed of the reference kernels, which the pip package of TFLM runs. For other libraries see
`lowtide.rules.tflm.libraries`."""

BY_TYPE = {name: row for row in KERNELS for name in row.types}

RESHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
"""Copy all bytes; onto themselves that is nothing (RESHAPE asks, the others leave it to memcpy)."""

_MOST_ROWS = 1 << 16
"""Rows or columns above this are not looked at one by one: nothing of the kind fits a microcontroller."""

_WIDTH = {"int8": 1, "uint8": 1, "bool": 1, "int16": 2, "int32": 4, "float32": 4, "int64": 8}
_CHARACTERS = ("int8", "uint8")


def distances(graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
    """Pairs of input tensor id and distance: the inputs that the only output may lie over or partly over. Says
    nothing about lifetimes. A distance of the output's size or more would allow nothing, and is left out."""
    row = BY_TYPE.get(op.type)
    if row is None or len(op.outputs) != 1:
        return ()
    output = graph.tensor_by_id[op.outputs[0]]
    data = [graph.tensor_by_id[t] for t in op.inputs]
    if output.shape is None or output.dtype not in _WIDTH or (row.dtypes and output.dtype not in row.dtypes):
        return ()
    if row.reads == "runs":
        return _concatenated(op, data, output)
    if (
        row.reads == "flat"
        and not row.broadcasts
        and any(t.shape != output.shape for t in data[: _operands(row, data)])
    ):
        return ()
    pairs = []
    for position in row.inputs or range(len(data)):
        if position >= len(data):
            continue
        read = data[position]
        if read.kind is Kind.CONSTANT or read.shape is None or not read.size or read.id == output.id:
            continue
        if not _types_match(read, output):
            continue
        if row.reads == "flat" and read.shape != output.shape:
            continue
        if row.reads != "flat" and op.inputs.count(read.id) > 1:
            continue
        d = _distance(row.reads, op, data, position, output)
        if d is not None and d < output.size and all(read.id != listed for listed, _ in pairs):
            pairs.append((read.id, d))
    return tuple(pairs)


def _operands(row: Kernel, data: list[Tensor]) -> int:
    """How many of the first inputs an elementwise kernel reads element by element."""
    return max(row.inputs) + 1 if row.inputs else len(data)


def _concatenated(op: Op, data: list[Tensor], output: Tensor) -> tuple[tuple[int, int], ...]:
    """Distances of the inputs of CONCATENATION, and of PACK where each input is copied in one. They are made so long
    that all inputs together share no more of the output than one of them alone may: what the scheduler counts as
    saved by one input holds for all of them."""
    shape = output.shape or ()
    axis = op.attributes.get("axis", 0)
    axis += len(shape) if axis < 0 else 0
    if not 0 <= axis < len(shape):
        return ()
    width, inner = _WIDTH[output.dtype or ""], prod(shape[axis + 1 :])
    times = prod(shape[:axis])
    packs = op.type == "PACK"
    runs = []
    for t in data:
        if t.shape is None or len(t.shape) != len(shape) - packs or t.dtype != output.dtype:
            return ()
        runs.append((1 if packs else t.shape[axis]) * inner * width)
    if sum(runs) != shape[axis] * inner * width or 0 in runs or (packs and times != 1):
        return ()
    free = [k for k, t in enumerate(data) if t.kind is not Kind.CONSTANT and op.inputs.count(t.id) == 1]
    least = output.size - min((data[k].size for k in free), default=0)
    pairs = ((data[k].id, max(least, run_distance(runs, k, times, at_once=not packs))) for k in free)
    return tuple((t, d) for t, d in pairs if d < output.size)


def run_distance(runs: list[int], k: int, times: int, *, at_once: bool = True) -> int:
    """Distance of input `k` of a kernel that copies a run of each input in turn, and so on, so many times. The last
    copy of a run of `k` ends nearest above where it came from, and the two may not overlap if it is made `at_once`,
    by memcpy; else its first element counts (one round only)."""
    assert at_once or times == 1
    return (times - 1) * (sum(runs) - runs[k]) + sum(runs[: k + at_once])


def _types_match(read: Tensor, output: Tensor) -> bool:
    if read.dtype not in _WIDTH:
        return False
    return read.dtype == output.dtype or read.dtype in _CHARACTERS or output.dtype in _CHARACTERS


def _distance(reads: str, op: Op, data: list[Tensor], position: int, output: Tensor) -> int | None:
    read = data[position]
    assert read.shape is not None
    assert output.shape is not None
    width_in, width_out = _WIDTH[read.dtype or ""], _WIDTH[output.dtype or ""]
    if reads == "flat":
        return flat_distance(prod(output.shape), width_in, width_out)
    if read.dtype != output.dtype:
        return None
    if reads == "before":
        return 0
    if reads == "copies":
        moved = copy_distance(op, data, output.shape)
        return None if moved is None else moved * width_out
    if reads == "row":
        window, groups = _rows_of(op, data, output), 1
    elif reads == "image":
        window, groups = _image_of(op, data, output.shape), 1
    elif reads == "interpolation":
        return _interpolated(op, data, output, width_out)
    else:
        window, groups = window_of(op, data, output), 1
        if window is not None and reads == "window":
            depth = (data[1].shape or (0,))[-1] if len(data) > 1 else 0
            if not depth or window.input[3] % depth or window.output[3] % (window.input[3] // depth):
                return None
            groups = window.input[3] // depth
    if window is None:
        return None
    return window_distance(window, width_in, width_out, channelwise=reads in ("channel window", "image"), groups=groups)


def _rows_of(op: Op, data: list[Tensor], output: Tensor) -> KernelWindow | None:
    """A product of matrices as a convolution: a row is a pixel."""
    source, weights = data[0].shape or (), data[1].shape if len(data) > 1 else None
    if weights is None or 0 in weights or not source or not output.shape:
        return None
    depth, outputs = source[-1], output.shape[-1]
    batches = prod(output.shape[:-1])
    if op.type == "FULLY_CONNECTED":
        if len(weights) != 2 or outputs != weights[0]:
            return None
        depth = weights[1]
    elif op.attributes.get("adj_x", 1) or source[:-1] != output.shape[:-1]:
        return None
    if batches > _MOST_ROWS or prod(source) != batches * depth:
        return None
    return KernelWindow((1, batches, 1, depth), (1, batches, 1, outputs), Window(1), Window(1))


def _image_of(op: Op, data: list[Tensor], output: tuple[int, ...]) -> KernelWindow | None:
    """A mean over rows and columns as a pooling over the full image."""
    source = data[0].shape or ()
    if len(source) != 4 or 0 in source or output != (source[0], 1, 1, source[3]) or not op.attributes.get("keep_dims"):
        return None
    if sorted(constant(data, 1)) != [1, 2] or max(source) > _MOST_ROWS:
        return None
    return KernelWindow(source, (source[0], 1, 1, source[3]), Window(source[1]), Window(source[2]))


def _interpolated(op: Op, data: list[Tensor], output: Tensor, width: int) -> int | None:
    source, out = data[0].shape or (), output.shape or ()
    if len(source) != 4 or len(out) != 4 or 0 in (*source, *out) or source[0] != out[0] or source[3] != out[3]:
        return None
    if constant(data, 1) != out[1:3] or max(out) > _MOST_ROWS or output.dtype not in ("int8", "float32"):
        return None
    rows, columns = (
        [first_interpolated(i, source[axis], out[axis], op, integer=output.dtype == "int8") for i in range(out[axis])]
        for axis in (1, 2)
    )
    within = _within_pixel(out[3], source[3], width, width, channelwise=True, groups=1)
    return raster_distance(
        (source[0], source[1], source[2]), source[3] * width, out[3] * width, list(rows), list(columns), within
    )


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """A convolution or pooling: shapes NHWC, and its windows along rows and along columns."""

    input: tuple[int, int, int, int]
    output: tuple[int, int, int, int]
    rows: Window
    columns: Window

    @property
    def area(self) -> int:
        """Places that a window reads."""
        return self.rows.taps * self.columns.taps

    @property
    def dilated(self) -> bool:
        """Whether a window leaves places out."""
        return (self.rows.dilation, self.columns.dilation) != (1, 1)

    @property
    def first_rows(self) -> list[int | None]:
        """For each row of the output the lowest row of the input that it reads; None if there is none."""
        return [self.rows.first(y, self.input[1]) for y in range(self.output[1])]

    @property
    def first_columns(self) -> list[int | None]:
        """The same of columns."""
        return [self.columns.first(x, self.input[2]) for x in range(self.output[2])]


def window_of(op: Op, data: list[Tensor], output: Tensor) -> KernelWindow | None:
    """Geometry from an operator's options and shapes; None if they do not fit together."""
    source, out, o = data[0].shape, output.shape, op.attributes
    if source is None or out is None or len(source) != 4 or len(out) != 4 or source[0] != out[0]:
        return None
    if "filter_height" in o:
        taps = (o["filter_height"], o["filter_width"])
        if source[3] != out[3]:
            return None
    elif len(data) > 1 and data[1].shape is not None and len(data[1].shape) == 4:
        taps = data[1].shape[1:3]
    else:
        return None
    if min(*source, *out) < 1 or max(out[1:3]) > _MOST_ROWS:
        return None
    windows = []
    for side, tap, size, rows in zip("hw", taps, source[1:3], out[1:3], strict=True):
        window = tflite_window(o, side, tap)
        if window is None or rows != tflite_rows(window, o, size):
            return None
        windows.append(tflite_padded(window, o, size, rows))
    if op.type == "DEPTHWISE_CONV_2D" and out[3] % source[3]:
        return None
    return KernelWindow(source, out, *windows)


def flat_distance(elements: int, width_in: int, width_out: int) -> int:
    """Distance of a kernel that reads element k and then writes element k. Element k ends at (k + 1) width_out, and
    from (k + 1) width_in on is still to be read, but for the last one."""
    return max(0, (elements - 1) * (width_out - width_in))


def window_distance(w: KernelWindow, width_in: int, width_out: int, *, channelwise: bool, groups: int = 1) -> int:
    """Distance of a kernel that, pixel by pixel and channel by channel, reads a window and writes an element. Two
    kinds of write count at a pixel. A channel but the last: the window is read a second time for the next one. The
    last channel: from then on the windows of later pixels are read. What those windows begin with at least is a
    minimum over what comes later, since dilation over the edge can make a later window begin earlier."""
    depth, channels = w.input[3], w.output[3]
    return raster_distance(
        w.input[:3],
        depth * width_in,
        channels * width_out,
        w.first_rows,
        w.first_columns,
        _within_pixel(channels, depth, width_in, width_out, channelwise, groups),
    )


def raster_distance(
    image: tuple[int, int, int],
    pixel_in: int,
    pixel_out: int,
    first_row: list[int | None],
    first_column: list[int | None],
    within: int | None,
) -> int:
    """Distance of a kernel that walks the output's pixels and reads a window of the input for each.

    `image`: batches, rows and columns of the input. `pixel_in`, `pixel_out`: bytes of a pixel. `first_row`,
    `first_column`: for each row and column of the output the lowest row and column that is read; None if nothing is.
    `within`: largest end of a write, from the pixel's first byte, less the first byte that is read of the window's
    pixels after it, for the same pixel; None if nothing is.
    """
    batches, in_rows, in_columns = image
    rows, columns = len(first_row), len(first_column)
    none = in_rows * in_columns * batches + 1
    column_later = _least_from([none if at is None else at for at in first_column], none)
    leftmost = column_later[0]
    row_starts = [none if at is None or leftmost >= none else at * in_columns for at in first_row]
    row_later = _least_from([start + leftmost for start in row_starts], none)
    pixels = in_rows * in_columns
    next_image = row_later[0]

    # Over the columns of a row whose windows begin at row 0 of the input, largest end of a write less what is read
    # later in that row: for the last channel of a pixel, and for the channels before it.
    last_channel = max(
        ((x + 1) * pixel_out - pixel_in * at for x, at in enumerate(column_later[1:]) if at < none),
        default=None,
    )
    other_channels = (
        max(
            (x * pixel_out + within - pixel_in * at for x, at in enumerate(first_column) if at is not None),
            default=None,
        )
        if within is not None
        else None
    )
    ends: list[int] = []
    for y, start in enumerate(row_starts):
        written = y * columns * pixel_out
        if start < none:
            ends += [written + part - pixel_in * start for part in (last_channel, other_channels) if part is not None]
        if row_later[y + 1] < none:
            ends.append(written + columns * pixel_out - pixel_in * row_later[y + 1])
    per_image = rows * columns * pixel_out - pixels * pixel_in
    later_images = [max(ends) + b * per_image for b in (0, batches - 1)] if ends else []
    if batches > 1 and next_image < none:
        end = rows * columns * pixel_out - pixel_in * (pixels + next_image)
        later_images += [end, end + (batches - 2) * per_image]
    return max(0, *later_images) if later_images else 0


def _least_from(values: list[int], none: int) -> list[int]:
    """For each position, and the end, the minimum of `none` and the values from there on."""
    return list(accumulate(reversed([*values, none]), min))[::-1]


def _within_pixel(
    channels: int, depth: int, width_in: int, width_out: int, channelwise: bool, groups: int
) -> int | None:
    """Largest end of a channel's write less the first byte of the window's pixels that the next channel reads. None
    with a single channel: then no window is read twice."""
    if channels < 2:
        return None
    each = channels // depth if channelwise else channels // groups
    step = width_in if channelwise else depth // groups * width_in
    # n channels are written, and the next one reads from n // each steps on: most at the end of the first or last step.
    return max(n * width_out - n // each * step for n in {1, max(each - 1, 1), min(each, channels - 1), channels - 1})
