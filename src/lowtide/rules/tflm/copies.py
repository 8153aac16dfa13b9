"""Kernels of TFLM that only move elements: how far below its input such a kernel may write its output.

A kernel copies *runs*, one after another: a number of consecutive elements from one place of the input to one of the
output, or fills a place with a value. Within a run it goes element by element, or calls memcpy for the full run,
which may then not touch its own copy. What the elements of the input that are still to be read begin with at least is
a minimum over the runs that follow; the distance is the largest end of a write less that (see `kernels.py`).

Sizes and places are elements here. Source: tflite-micro at commit 90b983c, `tensorflow/lite/kernels/internal/reference`
and `tensorflow/lite/micro/kernels`. What is not worked out here (a permutation of too many elements, a stride below 0,
paddings that are no constants) gives no distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from struct import pack, unpack

from lowtide.graph import Op, Tensor

Shape = tuple[int, ...]
Run = tuple[int | None, int, int]
"""Element that is read first (None: the place is filled), element that is written first, how many."""

MOST_RUNS = 1 << 16  # with more slices than this no distance is worked out: nothing of the kind fits a microcontroller


def copy_distance(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """Distance in elements of an operator that copies the first of its inputs, `data`, into one of shape `output`."""
    if 0 in (data[0].shape or ()) or 0 in output:
        return None
    return _COPIES[op.type](op, data, output)


def runs_distance(runs: Sequence[Run], *, at_once: bool) -> int:
    """Distance of runs copied in turn, each `at_once` by memcpy or element by element."""
    need = 0
    lowest: int | None = None
    for read, written, size in reversed(runs):
        if lowest is not None:
            need = max(need, written + size - lowest)
        if read is None:
            continue
        if at_once:
            need = max(need, written + size - read)
        elif size > 1:
            need = max(need, written - read)
        lowest = read if lowest is None else min(lowest, read)
    return need


def constant(data: Sequence[Tensor], position: int) -> Shape:
    """What the constant of int32 at a position of the inputs holds; nothing if it is none, or a long one."""
    return data[position].integers if position < len(data) and data[position].dtype == "int32" else ()


def _padded(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """PAD walks the output; an element of the input moves back by the paddings before it, most the last one."""
    source = data[0].shape or ()
    pads = constant(data, 1)
    if len(source) != len(output) or len(pads) != 2 * len(source) or min(pads, default=0) < 0:
        return None
    if any(g + a + b != m for g, m, a, b in zip(source, output, pads[::2], pads[1::2], strict=True)):
        return None
    return _flat(tuple(a + g - 1 for a, g in zip(pads[::2], source, strict=True)), output) - (prod(source) - 1)


def _sliced(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """SLICE reads elements in ascending order, one for each that it writes: element k is not before element k."""
    source = data[0].shape or ()
    return 0 if len(source) == len(output) and all(m <= g for g, m in zip(source, output, strict=True)) else None


def _strided(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """STRIDED_SLICE does as well, and copies a run of the last axis by memcpy where its stride is 1."""
    source = data[0].shape or ()
    o = op.attributes
    begin, end, strides = (constant(data, i) for i in (1, 2, 3))
    if not len(source) == len(begin) == len(end) == len(strides) or not source or min(strides) < 1:
        return None
    if o.get("ellipsis_mask", 0) or o.get("new_axis_mask", 0) or o.get("offset", 0):
        return None
    starts, counts = [], []
    for axis, size in enumerate(source):
        bit = 1 << axis
        at = begin[axis] + (size if begin[axis] < 0 else 0)
        at = 0 if o.get("begin_mask", 0) & bit else min(max(at, 0), size)
        stop = end[axis] + (size if end[axis] < 0 else 0)
        stop = size if o.get("end_mask", 0) & bit else min(max(stop, 0), size)
        if o.get("shrink_axis_mask", 0) & bit:
            stop = at + 1
        starts.append(at)
        counts.append(max(0, -(-(stop - at) // strides[axis])))
    if prod(counts) != prod(output) or any(at >= size for at, size in zip(starts, source, strict=True)):
        return None
    return 0 if strides[-1] > 1 else max(0, counts[-1] - _flat(tuple(starts), source))


def _transposed(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """TRANSPOSE walks the output, and reads by the permutation; axes that stay in front change nothing."""
    source = data[0].shape or ()
    order = tuple(axis + (len(source) if axis < 0 else 0) for axis in constant(data, 1))
    if sorted(order) != list(range(len(source))) or tuple(source[axis] for axis in order) != output:
        return None
    strides = [prod(source[axis + 1 :]) for axis in range(len(source))]
    axes = [axis for axis in order if source[axis] > 1]
    kept = sorted(axes)
    first = next((i for i, axis in enumerate(axes) if axis != kept[i]), len(axes))
    moved = axes[first:]
    if not moved:
        return 0
    run = 1
    while moved and moved[-1] == kept[-1]:
        run *= source[moved.pop()]
        kept.pop()
    if prod(source[axis] for axis in moved) > MOST_RUNS:
        return None
    reads = [0]
    for axis in moved:
        reads = [at + i * strides[axis] for at in reads for i in range(source[axis])]
    return runs_distance([(at, k * run, run) for k, at in enumerate(reads)], at_once=False)


def _space_to_depth(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """SPACE_TO_DEPTH walks the input, pixel by pixel."""
    pixels = _in_depth(op, data[0].shape or (), output)
    return None if pixels is None else runs_distance(pixels, at_once=False)


def _depth_to_space(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """DEPTH_TO_SPACE walks the output, pixel by pixel."""
    pixels = _in_depth(op, output, data[0].shape or ())
    return None if pixels is None else runs_distance([(b, a, depth) for a, b, depth in pixels], at_once=False)


def _in_depth(op: Op, image: Shape, packed: Shape) -> list[tuple[int, int, int]] | None:
    """Of each pixel of an image its place, that in the tensor whose pixels are blocks of it, and its elements."""
    block = op.attributes.get("block_size", 0)
    if len(image) != 4 or len(packed) != 4 or block < 1:
        return None
    n, height, width, depth = image
    if packed != (n, height // block, width // block, depth * block**2) or height % block or width % block:
        return None
    if n * height * width > MOST_RUNS:
        return None
    return [
        (
            _flat((b, y, x, 0), image),
            _flat((b, y // block, x // block, (y % block * block + x % block) * depth), packed),
            depth,
        )
        for b, y, x in product(range(n), range(height), range(width))
    ]


def _space_to_batch(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """SPACE_TO_BATCH_ND walks the output; a pixel is copied or filled at once."""
    pixels = _in_batches(data, data[0].shape or (), output)
    return None if pixels is None else runs_distance(pixels, at_once=True)


def _batch_to_space(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """BATCH_TO_SPACE_ND walks the input; a pixel that is not cropped is copied at once."""
    pixels = _in_batches(data, output, data[0].shape or ())
    kept = None if pixels is None else [(b, a, depth) for a, b, depth in pixels if a is not None]
    return None if kept is None else runs_distance(kept, at_once=True)


def _in_batches(data: Sequence[Tensor], image: Shape, packed: Shape) -> list[tuple[int | None, int, int]] | None:
    """Of each pixel of the tensor whose batches are every so many pixels of an image: its place in the image, None if
    it is padding or cropped, its own place, and its elements."""
    block, around = constant(data, 1), constant(data, 2)
    if len(image) != 4 or len(packed) != 4 or len(block) != 2 or len(around) != 4 or min(block) < 1 or min(around) < 0:
        return None
    n, height, width, depth = image
    padded = (height + around[0] + around[1], width + around[2] + around[3])
    if packed != (n * block[0] * block[1], padded[0] // block[0], padded[1] // block[1], depth):
        return None
    if padded[0] % block[0] or padded[1] % block[1] or prod(packed[:3]) > MOST_RUNS:
        return None
    runs: list[tuple[int | None, int, int]] = []
    for b, y, x in product(*map(range, packed[:3])):
        row = y * block[0] + b // n // block[1] - around[0]
        column = x * block[1] + b // n % block[1] - around[2]
        inside = 0 <= row < height and 0 <= column < width
        place = _flat((b % n, row, column, 0), image) if inside else None
        runs.append((place, _flat((b, y, x, 0), packed), depth))
    return runs


def _nearest(op: Op, data: Sequence[Tensor], output: Shape) -> int | None:
    """RESIZE_NEAREST_NEIGHBOR walks the output; a pixel is copied at once."""
    source = data[0].shape or ()
    if len(source) != 4 or len(output) != 4 or source[0] != output[0] or source[3] != output[3]:
        return None
    if constant(data, 1) != output[1:3] or prod(output[:3]) > MOST_RUNS:
        return None
    rows, columns = (
        [nearest(i, source[axis], output[axis], op) for i in range(output[axis])] for axis in (1, 2)
    )  # fmt: skip
    n, height, width, depth = source
    runs: list[Run] = []
    for b in range(n):
        for row in rows:
            start = (b * height + row) * width
            runs += [((start + x) * depth, (len(runs) + i) * depth, depth) for i, x in enumerate(columns)]
    return runs_distance(runs, at_once=True)


def nearest(at: int, size: int, output: int, op: Op) -> int:
    """Row or column of the input that RESIZE_NEAREST_NEIGHBOR copies to `at`, in the kernel's own arithmetic."""
    align, half = op.attributes.get("align_corners", 0), op.attributes.get("half_pixel_centers", 0)
    scale = single((size - 1) / (output - 1)) if align and output > 1 else single(size / output)
    value = single((at + (0.5 if half else 0.0)) * scale)
    return max(0, min(math.floor(value + 0.5) if align else math.floor(value), size - 1))


def first_interpolated(at: int, size: int, output: int, op: Op, *, integer: bool) -> int:
    """Lowest row or column of the input that RESIZE_BILINEAR reads for `at`; `integer`: its kernel for int8. The
    kernel for floats may be compiled with or without a fused multiplication and addition: the lower of the two."""
    align, half = op.attributes.get("align_corners", 0), op.attributes.get("half_pixel_centers", 0)
    over, under = (size - 1, output - 1) if align and output > 1 else (size, output)
    if integer:
        scale = ((1 << 10) * over + under // 2) // under
        return min(max(0, at * scale + (scale // 2 - (1 << 9) if half else 0)) >> 10, size - 1)
    ratio = single(over / under)
    if not half:
        return min(math.floor(single(at * ratio)), size - 1)
    product = (at + 0.5) * ratio
    return min(max(0, math.floor(min(single(single(product) - 0.5), single(product - 0.5)))), size - 1)


def single(value: float) -> float:
    """The nearest number of single precision."""
    return unpack("<f", pack("<f", value))[0]


def _flat(at: Shape, shape: Shape) -> int:
    """Index of an element in a tensor laid out row by row."""
    index = 0
    for i, size in zip(at, shape, strict=True):
        index = index * size + i
    return index


_COPIES: Mapping[str, Callable[[Op, Sequence[Tensor], Shape], int | None]] = {
    "PAD": _padded,
    "PADV2": _padded,
    "SLICE": _sliced,
    "STRIDED_SLICE": _strided,
    "TRANSPOSE": _transposed,
    "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "RESIZE_NEAREST_NEIGHBOR": _nearest,
}

COPIED = tuple(_COPIES)  # the operators that this module knows
