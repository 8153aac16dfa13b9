"""How TFLite spells a part of an op. What is not in here, or refused, is never cut.

TFLite has one word for the padding of all dimensions of a window: SAME, as much as the operand would need, or VALID,
none. A part keeps the word if that gives just its rows, or takes the other one; a convolution whose part needs other
padding is given it by a PAD, whose zeros are the zero points of the tensor, as the kernel's own padding is. A part of
one row takes no second step, so that the length of its step is free: with one as long as its operand SAME means one row
along that dimension, with as much padding as is missing, the odd row after, and along the other what it meant. Then a
PAD is needed for what that leaves out, at the image's first row, and has nothing on the other axis. A pool leaves its
padding out of the window, which no operator can: such a pool is not cut along it.

Slices are SLICE, which keeps nothing in TFLM's arena; joins are CONCATENATION, which takes `MOST_OPERANDS` operands
there (`kMaxInputNum` in tflite-micro's concatenation.cc). Both copy bytes where scale and zero point are equal, and
those of a part are its tensor's. Sums are never cut: 8-bit numbers cannot hold parts of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm, prod
from typing import Literal

from lowtide.graph import Graph, Kind, Op
from lowtide.ops import forms
from lowtide.ops.access import Merge, Shape
from lowtide.ops.geometry import tflite_padded, tflite_rows
from lowtide.ops.index import Range, Window
from lowtide.ops.meaning import Meaning
from lowtide.ops.part import Glue, Padded, Spelling, Written

NUMBERS: Literal["int32"] = "int32"
MOST_OPERANDS = 10

_SAME, _VALID = 0, 1
_GLUED = frozenset({"int8", "int16", "int32", "float32"})
"""Element types that SLICE, CONCATENATION and PAD take in both runtimes."""
_AT_ONCE = 8  # channels that LiteRT's depthwise kernel takes in one
_SIDES = {1: "h", 2: "w"}  # what TFLite's options call a dimension of an image
_MOST_DIMS = 5  # dimensions that TFLM's SLICE takes
Around = tuple[tuple[int, int], ...]  # rows before and after, for each dimension


def spelling(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
    """How parts of an op along an axis are written in TFLite; None: they cannot be."""
    form, access = op_meaning.form, op_meaning.access
    if axis in access.reduce or any(op.id in other.after for other in graph.ops) or not _glued(graph, op):
        return None
    grain = access.grain_of(axis)
    match form:
        case forms.Convolution() | forms.Pool():
            return _windowed(graph, op, form, axis, grain)
        case forms.Indexed():
            return _indexed(graph, op, op_meaning, axis)
        case forms.Reshape():
            return _reshaped(op, grain)
        case forms.Reduction() if op.type != "AVERAGE_POOL_2D" and _along_last(op_meaning, axis):
            return None
        case forms.Concat() if axis == form.dim and any(graph.tensor_by_id[t].kind is Kind.CONSTANT for t in op.inputs):
            return None
        case _ if _unchanged(op, form):
            return Spelling(grain, lambda rows, shapes: Written(op.attributes))
        case _:
            return None


def _glued(graph: Graph, op: Op) -> bool:
    """Whether what the op reads and makes can be sliced, put together and padded."""
    tensors = [graph.tensor_by_id[t] for t in (*op.inputs, *op.outputs)]
    moved = (t for t in tensors if t.kind is not Kind.CONSTANT)
    return all(t.dtype in _GLUED and len(t.shape or ()) <= _MOST_DIMS and _one_scale(graph, t.id) for t in moved)


def _one_scale(graph: Graph, tensor: int) -> bool:
    """Whether all rows of a tensor mean the same numbers."""
    quant = graph.tensor_by_id[tensor].quant
    return quant is None or quant.axis is None


def _along_last(op_meaning: Meaning, axis: int) -> bool:
    """Whether an axis is that of the first operand's last dimension: LiteRT's mean of 8-bit numbers takes several
    channels at once, and rounds those otherwise than the rest."""
    index = (op_meaning.access.inputs[0] or (None,))[-1]
    return index is not None and index.axis == axis


def _unchanged(op: Op, form: forms.Form) -> bool:
    """Whether a part of the op has the op's own options."""
    match form:
        case forms.Pointwise():
            return not form.literal
        case (
            forms.Along()
            | forms.Contraction()
            | forms.Reduction()
            | forms.Transpose()
            | forms.Concat()
            | forms.Blocks()
            | forms.Split()
        ):
            return True
        case forms.Labelled():
            return op.type in ("UNPACK", "SPLIT", "GATHER")
        case _:
            return False


def _reshaped(op: Op, grain: int) -> Spelling:
    """A reshape names the shape of its part, twice."""

    def spell(rows: Range, shapes: tuple[Shape, ...]) -> Written:
        if op.type != "RESHAPE":
            return Written(op.attributes)
        attributes = dict(op.attributes)
        if "new_shape" in attributes:
            attributes["new_shape"] = shapes[0]
        return Written(attributes, {1: shapes[0]} if len(op.inputs) > 1 else {})

    return Spelling(grain, spell)


def _windowed(graph: Graph, op: Op, form: forms.Convolution | forms.Pool, axis: int, grain: int) -> Spelling | None:
    """Windows with the padding that a part needs."""
    windows = dict(form.windows)
    data = graph.tensor_by_id[op.inputs[0]].shape or ()
    result = graph.tensor_by_id[op.outputs[0]].shape or ()
    if isinstance(form, forms.Convolution) and axis == form.channel:
        grain = lcm(grain, _filters(form, data, result))
    if not grain or (isinstance(form, forms.Convolution) and form.transposed):
        return None
    if "padding" not in op.attributes or 0 in data:
        return None
    if axis not in windows:
        return Spelling(grain, lambda rows, shapes: Written(op.attributes))
    own = {d: _around(windows[d], (0, result[d]), data[d]) for d in windows}
    other_axes = {d: rows for d, rows in own.items() if d != axis}
    if isinstance(form, forms.Pool) and any(map(any, own.values())):
        return None
    row = prod(size + sum(other_axes.get(d, (0, 0))) for d, size in enumerate(data) if d != axis)
    padded = Padded(row, any(map(any, other_axes.values()))) if any(map(any, own.values())) else None

    def spell(rows: Range, shapes: tuple[Shape, ...]) -> Written:
        around = {**own, axis: _around(windows[axis], rows, data[axis])}
        count = {d: (rows[1] - rows[0] if d == axis else result[d]) for d in windows}
        size = {**{d: data[d] for d in windows}, axis: _given(windows[axis], rows, data[axis])}
        for word in dict.fromkeys((op.attributes["padding"], _VALID)):
            if all(_pads(word, windows[d], size[d], count[d]) == around[d] for d in windows):
                return Written({**op.attributes, "padding": word})
        if count[axis] == 1 and op.attributes["padding"] == _SAME:
            return _one_row(op, axis, around[axis], size[axis], len(data))
        padding = tuple(around.get(d, (0, 0)) for d in range(len(data)))
        return Written({**op.attributes, "padding": _VALID}, padding=padding)

    return Spelling(grain, spell, padded)


def _one_row(op: Op, axis: int, around: Range, size: int, rank: int) -> Written:
    """A window's part of one row, with a step as long as its operand: SAME splits what is missing evenly."""
    before, behind = around
    padding = (max(0, before - behind), max(0, behind - before - 1))
    step = {f"stride_{_SIDES[axis]}": size + sum(padding)}
    other_axes = tuple(padding if d == axis else (0, 0) for d in range(rank)) if any(padding) else ()
    return Written({**op.attributes, **step}, padding=other_axes)


def _filters(form: forms.Convolution, data: Shape, result: Shape) -> int:
    """Filters at multiples of which parts along the channels begin; 0: channels are not cut. Of a filter for each
    channel LiteRT's kernel for 8-bit numbers takes eight at once, and rounds those otherwise than the rest: parts
    are such that each channel stays with its own."""
    if form.groups == 1:
        return 1
    return _AT_ONCE if data[form.channel] == result[form.channel] == form.groups else 0


def _around(window: Window, rows: Range, size: int) -> tuple[int, int]:
    """Rows of padding before and after that rows of the result see."""
    first = rows[0] * window.stride - window.before
    return max(0, -first), max(0, (rows[1] - 1) * window.stride - window.before + window.reach - size)


def _given(window: Window, rows: Range, size: int) -> int:
    """Rows of the operand that a part of a window is given: `Index.need`."""
    before, behind = _around(window, rows, size)
    return (rows[1] - rows[0] - 1) * window.stride + window.reach - before - behind


def _pads(word: int, window: Window, size: int, rows: int) -> tuple[int, int] | None:
    """Rows of padding that TFLite puts around an operand under a word; None if the result would have other rows."""
    options = {"padding": word}
    if size < 1 or tflite_rows(replace(window, before=0), options, size) != rows:
        return None
    placed = tflite_padded(replace(window, before=0), options, size, rows)
    return _around(placed, (0, rows), size)


def _indexed(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
    """Slices, pads and resizes elsewhere than along the axis; along it, nearest rows repeated an integer number of
    times. Literal operands speak of the full dimension, so along the axis they must leave out, move and add nothing."""
    indices = op_meaning.access.inputs[0] or ()
    along = [(d, index) for d, index in enumerate(indices) if index is not None and index.axis == axis]
    if len(along) != 1:
        return None
    ((d, index),) = along
    kept = index.same and op_meaning.access.sizes[axis] == (graph.tensor_by_id[op.inputs[0]].shape or ())[d]
    if op.type in ("PAD", "PADV2", "MIRROR_PAD", "STRIDED_SLICE") and kept:
        return Spelling(1, lambda rows, shapes: Written(op.attributes))
    if op.type == "SLICE" and kept:
        return Spelling(1, lambda rows, shapes: Written(op.attributes, {2: shapes[0]}))
    if op.type not in ("RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"):
        return None
    if kept and d not in (1, 2):
        return Spelling(1, lambda rows, shapes: Written(op.attributes))
    moved = op.attributes.get("align_corners") or op.attributes.get("half_pixel_centers")
    if op.type != "RESIZE_NEAREST_NEIGHBOR" or moved or (index.num, index.lo, index.hi) != (1, 0, 0):
        return None
    return Spelling(index.den, lambda rows, shapes: Written(op.attributes, {1: shapes[0][1:3]}))


def slicing(graph: Graph, rows: Mapping[int, Range], shape: Shape) -> Glue:
    """The operator that copies some rows of some dimensions."""
    within = [rows.get(d, (0, size)) for d, size in enumerate(shape)]
    return Glue("SLICE", {}, (tuple(a for a, _ in within), tuple(b - a for a, b in within)))


def padding(rows: Around) -> Glue:
    """The operator that puts zero points before and after each dimension."""
    return Glue("PAD", {}, (tuple(n for around in rows for n in around),), columns=2)


def joining(dim: int) -> Glue:
    """The operator that puts its operands side by side along a dimension."""
    return Glue("CONCATENATION", {"axis": dim, "fused_activation_function": 0})


def merging(merge: Merge) -> Glue:
    """No part asks for it: sums are not cut. Raises `ValueError`: always."""
    raise ValueError(f"a {merge} of parts")
