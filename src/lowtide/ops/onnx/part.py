"""How ONNX spells a part of an op. What is not in here, or refused, is never cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from lowtide.graph import Graph, Kind, Op
from lowtide.ops import forms
from lowtide.ops.access import Merge, Shape
from lowtide.ops.index import Index, Range, Window
from lowtide.ops.meaning import Meaning
from lowtide.ops.node import Node
from lowtide.ops.onnx.blocked import DOMAIN, ROWS_DIM, touches_blocked
from lowtide.ops.part import Accumulating, Glue, Spelling, Stretch, Written

NUMBERS: Literal["int64"] = "int64"
MOST_OPERANDS = 0

_BY_CHANNEL = frozenset({"BatchNormalization", "InstanceNormalization", "QuantizeLinear", "DequantizeLinear"})
"""Channelwise ops none of whose attributes counts channels."""

_SUMS = frozenset({"ReduceSum", "ReduceMax", "ReduceMin", "GlobalMaxPool", "MatMul", "Gemm", "Conv"})
"""Ops whose results over parts of a reduced axis are merged by one more op: a mean's would have to be weighted."""

_INDEXED = ("Slice", "Pad", "Resize", "Upsample", "Gather")
"""Ops that take a part out of a tensor, or stretch it; a gather here is that of one row that is known."""

_MOVES = frozenset({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric"})
"""Coordinates of a resize by which a row lies as far from its neighbours in a part as in the whole."""

_SHAPED = frozenset({"Reshape", "Expand"})  # ops whose operand 1 is the shape of the result

_ACCUMULATES = "com.microsoft::FusedConv"

_BIAS_IS_OPTIONAL = 11  # version from which on Gemm has two operands or three

_FLOATS = frozenset({"float16", "float32", "float64"})
_ADDED = _FLOATS | {"int32", "int64"}
"""Element types that onnxruntime's Add takes in every version that it has."""
_ADDS_EQUALS, _COMPARES_INTEGERS, _NEWEST = 7, 12, 99
"""Versions from which on Add needs no attributes, Max and Min take whole numbers; and one for a graph without."""

_SLICE_BY_OPERANDS = 10  # version from which on starts and ends are operands


def spelling(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
    """How parts of an op along an axis are written in ONNX; None: they cannot be."""
    form, access = op_meaning.form, op_meaning.access
    if axis in access.reduce and (
        op.type not in _SUMS or _must_have_bias(graph, op) or not _can_merge(graph, op, access.merge)
    ):
        return None
    if touches_blocked(graph, op) and axis not in access.outputs[0][: ROWS_DIM + 1 : ROWS_DIM]:
        return None
    grain = access.grain_of(axis)
    if isinstance(form, forms.Convolution | forms.Pool):
        return _windowed(graph, op, form, axis, grain)
    if isinstance(form, forms.Indexed):
        return _indexed(graph, op, op_meaning, axis)
    if not _unchanged(op, form) or (
        isinstance(form, forms.Concat) and axis == form.dim and _joins_constants(graph, op)
    ):
        return None
    shaped = op.type in _SHAPED
    return Spelling(grain, lambda rows, shapes: Written(op.attributes, {1: shapes[0]} if shaped else {}))


def accumulating(graph: Graph, op: Op, op_meaning: Meaning) -> Accumulating | None:
    """onnxruntime's own convolution, whose fourth operand is added before its activation."""
    form = op_meaning.form
    plain = isinstance(form, forms.Convolution) and form.groups == 1 and form.added is None and not form.transposed
    if op.type not in ("Conv", _ACCUMULATES) or not plain or graph.tensor_by_id[op.outputs[0]].dtype != "float32":
        return None
    return Accumulating(_ACCUMULATES, 3, frozenset({"activation", "activation_params"}))


def _must_have_bias(graph: Graph, op: Op) -> bool:
    """Whether only one part of a sum would have an operand that the op may not be without."""
    return op.type == "Gemm" and 0 < graph.opset < _BIAS_IS_OPTIONAL


def _can_merge(graph: Graph, op: Op, merge: Merge) -> bool:
    """Whether the node that merges takes what the op makes: before version 12, Max and Min take floats only."""
    dtype, opset = graph.tensor_by_id[op.outputs[0]].dtype, graph.opset or _NEWEST
    if merge == "sum":
        return dtype in _ADDED and opset >= _ADDS_EQUALS
    return dtype in _FLOATS or (dtype not in (None, "bool") and opset >= _COMPARES_INTEGERS)


def _joins_constants(graph: Graph, op: Op) -> bool:
    """Whether a part of a join may read nothing but constants: every reader would fold it."""
    return any(graph.tensor_by_id[t].kind is Kind.CONSTANT for t in op.inputs)


def _unchanged(op: Op, form: forms.Form) -> bool:
    """Whether a part of the op has the op's own attributes."""
    match form:
        case (
            forms.Pointwise()
            | forms.Along()
            | forms.Contraction()
            | forms.Reduction()
            | forms.Transpose()
            | forms.Concat()
            | forms.Split()
            | forms.Blocks()
        ):
            return True
        case forms.Labelled():
            return form.family in ("gather", "pointwise", "along", "contraction")
        case forms.Channelwise():
            return op.type in _BY_CHANNEL
        case forms.Reshape():
            return op.type != "Flatten" or int(op.attributes.get("axis", 1)) != 0
        case _:
            return False


def _windowed(graph: Graph, op: Op, form: forms.Convolution | forms.Pool, axis: int, grain: int) -> Spelling | None:
    """Padding where the operand really ends, and as many groups as a part has."""
    windows = dict(form.windows)
    if isinstance(form, forms.Convolution) and form.transposed and (axis in windows or form.groups > 1):
        return None
    data = graph.tensor_by_id[op.inputs[0]].shape or ()
    result = graph.tensor_by_id[op.outputs[0]].shape or ()
    padded = {d: _padding(window, (0, result[d]), data[d]) for d, window in form.windows}
    if isinstance(form, forms.Pool) and axis in windows and not _padded_as_said(op, form, padded):
        return None

    def spell(rows: Range, shapes: tuple[Shape, ...]) -> Written:
        attributes = dict(op.attributes)
        if isinstance(form, forms.Convolution) and form.groups > 1 and axis == form.channel:
            attributes["group"] = form.groups * (rows[1] - rows[0]) // result[form.channel]
        if axis in windows:
            attributes.pop("auto_pad", None)
            attributes.pop("ceil_mode", None)
            ends = {d: rows if d == axis else (0, result[d]) for d in windows}
            padding = [_padding(windows[d], ends[d], data[d]) for d in sorted(windows)]
            attributes["pads"] = (*(before for before, _ in padding), *(behind for _, behind in padding))
        return Written(attributes)

    return Spelling(grain, spell)


def _padded_as_said(op: Op, form: forms.Pool, padded: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a pool's windows hang over the end by no more than `pads` of a part may say. With `ceil_mode`, or over
    an operand that is smaller than the kernel, they hang over what is no padding, which an average that counts
    padding does not count; and onnxruntime wants less padding than the kernel has taps."""
    auto = op.attributes.get("auto_pad", "NOTSET")
    said = op.attributes.get("pads", ()) if auto == "NOTSET" else ()
    for k, (d, window) in enumerate(form.windows):
        before, behind = padded[d]
        most = said[len(form.windows) + k] if said else 0
        if op.attributes.get("count_include_pad") and behind > most and not str(auto).startswith("SAME"):
            return False
        if max(before, behind) >= window.taps:
            return False
    return True


def _padding(window: Window, rows: Range, size: int) -> tuple[int, int]:
    """Rows of padding before and after for rows of the result."""
    first = rows[0] * window.stride - window.before
    end = (rows[1] - 1) * window.stride - window.before + window.reach
    return max(0, -first), max(0, end - size)


def _indexed(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
    """Slices and pads; resizes elsewhere than along the axis; along it, by an integer factor. Slices and pads have
    starts, ends and padding of a part's own. Literal operands of a resize speak of the full dimension, so that a
    part of it stretches as much: all the rows that it is given."""
    indices = op_meaning.access.inputs[0] or ()
    along = [(d, index) for d, index in enumerate(indices) if index is not None and index.axis == axis]
    kind = op.type.removeprefix(f"{DOMAIN}::")
    if len(along) != 1 or kind not in _INDEXED:
        return None
    ((d, index),) = along
    size = (graph.tensor_by_id[op.inputs[0]].shape or ())[d]
    if index.same and op_meaning.access.sizes[axis] == size:
        return _sized(op, 1)
    if op.type == "Slice" and index.num > 0:
        return _sliced(Node(graph, op), d)
    if op.type == "Pad" and Node(graph, op).text("mode", "constant") == "constant":
        return _padded(Node(graph, op), d, -index.lo, op_meaning.access.sizes[axis])
    if kind not in ("Resize", "Upsample") or op_meaning.access.sizes[axis] != size * index.den:
        return None
    repeated = op.attributes.get("mode", "nearest") == "nearest" and (index.num, index.lo, index.hi) == (1, 0, 0)
    return _sized(op, index.den) if repeated else _stretched(op, index, size)


def _stretched(op: Op, index: Index, size: int) -> Spelling | None:
    """Rows that are mixed of neighbours, in the same way wherever they stand."""
    place = op.attributes.get("coordinate_transformation_mode", "half_pixel")
    moves = place in _MOVES and not op.attributes.get("antialias")
    if not moves or index.num != 1:
        return None
    how = _sized(op, 1)
    return None if how is None else replace(how, stretch=Stretch(index, size))


def _sliced(node: Node, dim: int) -> Spelling | None:
    """A part is given its rows from the first on: it begins at none of them, and ends after the last."""
    by_operands = len(node.operands) > 1
    if by_operands and node.peek(2) is None:  # where it ends is worked out as the model runs
        return None
    starts = tuple(node.values(1)) if by_operands else node.ints("starts")
    ends = tuple(node.values(2)) if by_operands else node.ints("ends")
    named = tuple(node.values(3)) if node.given(3) else node.ints("axes", tuple(range(len(starts))))
    dims = [node.dim(int(axis), node.rank()) for axis in named]
    if dim not in dims:
        return None
    k = dims.index(dim)
    own = {1: (*starts[:k], 0, *starts[k + 1 :]), 2: (*ends[:k], node.shape()[dim], *ends[k + 1 :])}
    if not by_operands:
        return Spelling(1, lambda rows, shapes: Written({**node.op.attributes, "starts": own[1], "ends": own[2]}))
    others = {i: tuple(node.values(i)) for i in (3, 4) if node.given(i)}  # all of them have one type
    return Spelling(1, lambda rows, shapes: Written(node.op.attributes, {**own, **others}))


def _padded(node: Node, dim: int, before: int, size: int) -> Spelling | None:
    """A part has the padding that falls in its rows, and begins where it has others, too."""
    by_operands = node.given(1)
    pads = tuple(int(v) for v in (node.values(1) if by_operands else node.ints("pads", node.ints("paddings"))))
    named = node.values(3) if node.given(3) else tuple(range(node.rank()))
    k = [node.dim(int(axis), node.rank()) for axis in named].index(dim)
    there = node.shape()[dim]
    least = max(before, size - before - there, 0) + 1
    grain = next((g for g in range(least, size) if (size - 1) // g * g < before + there), 0)

    def spell(rows: Range, shapes: tuple[Shape, ...]) -> Written:
        ends = {k: max(0, before - rows[0]), len(named) + k: max(0, rows[1] - before - there)}
        own = tuple(ends.get(i, value) for i, value in enumerate(pads))
        if by_operands:
            return Written(node.op.attributes, {1: own})
        kept = {name: value for name, value in node.op.attributes.items() if name not in ("pads", "paddings")}
        return Written({**kept, "pads" if "pads" in node.op.attributes else "paddings": own})

    return Spelling(grain, spell) if grain else None


def _sized(op: Op, grain: int) -> Spelling | None:
    """Where the sizes of the result are an operand, those of the part."""
    sizes = op.type == "Resize" and len(op.operands) > 3 and op.operands[3] is not None
    if sizes and op.attributes.get("axes") is not None:
        return None
    return Spelling(grain, lambda rows, shapes: Written(op.attributes, {3: shapes[0]} if sizes else {}))


def padding(rows: tuple[tuple[int, int], ...]) -> Glue:
    """No part asks for it: a window of ONNX says its padding itself. Raises `ValueError`: always."""
    raise ValueError(f"padding of {rows} beside a window")


def slicing(graph: Graph, rows: Mapping[int, Range], shape: Shape) -> Glue:
    """The node that copies some rows of some dimensions."""
    starts, ends = tuple(a for a, _ in rows.values()), tuple(b for _, b in rows.values())
    if 0 < graph.opset < _SLICE_BY_OPERANDS:
        return Glue("Slice", {"starts": starts, "ends": ends, "axes": tuple(rows)})
    return Glue("Slice", {}, (starts, ends, tuple(rows)))


def joining(dim: int) -> Glue:
    """The node that puts its operands side by side along a dimension."""
    return Glue("Concat", {"axis": dim})


def merging(merge: Merge) -> Glue:
    """The node that makes one of the results over two parts of a reduced axis."""
    return Glue({"sum": "Add", "max": "Max", "min": "Min"}[merge], {})
