"""Operators that move elements and change none, and casts of integers: what they are as material of C.

A result is made of slices, each copied from an operand whose view has its steps along the result's dimensions
(`views.py`): transposed, from a row on, in steps of several. A concatenation is several slices in one tensor.

Source: TFLM's `transpose_common.cc`, `strided_slice_common.cc`, `slice.cc`, `split.cc`, `split_v.cc`, `pack.cc`,
`unpack.cc`, `mirror_pad.cc`, `shape.cc`, `concatenation.cc`, `pad.cc`, `cast.cc`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from lowtide.emit.kernel import Find, Kernel, Material, fit, scale_of, zero_of
from lowtide.emit.places import ELEMENT_BYTES, Three, View, complete, dims_of, element_bytes, initialiser, sizes_of
from lowtide.emit.views import aligned, same_order_dims
from lowtide.errors import InputError
from lowtide.graph import Kind, Op, Tensor

_CASTS = ("int8", "int16", "int32", "uint32")
_STRIDES = 3
"""Place of the steps among a strided slice's operands."""


def check_copied(x: Tensor, y: Tensor) -> None:
    """Raise `InputError` if elements would have to change, or have a type that no code copies."""
    if x.dtype not in ELEMENT_BYTES or x.dtype != y.dtype:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is written for {', '.join(ELEMENT_BYTES)}, unchanged")


def _quant(tensor: Tensor) -> tuple[float, int] | None:
    return None if tensor.quant is None else (scale_of(tensor), zero_of(tensor))


def _slice(view: View, place: Sequence[tuple[int, int]], values: str = "NULL") -> str:
    """`piece_t`: what is copied to a place of the result."""
    box = ", ".join(f"{low}, {high}" for low, high in place)
    return f"{{{view.text}, {{{box}}}, {values}}}"


def _assembled(y: Tensor, find: Find, slices: Sequence[str]) -> Kernel:
    text = f"{{{find(y.id).text}, PIECES, {len(slices)}, {element_bytes(y)}}}"
    return Kernel("concat", text, sizes_of(y), operands=tuple(slices), operand_type="piece_t")


def _full_box(y: Tensor) -> list[tuple[int, int]]:
    return [(0, size) for size in sizes_of(y)]


def rearranged(x: Tensor, y: Tensor, find: Find, dims: Mapping[int, int], begins: Sequence[int] = ()) -> Kernel:
    """As `moved`, of one type."""
    check_copied(x, y)
    return moved(x, y, find, dims, begins)


def moved(x: Tensor, y: Tensor, find: Find, dims: Mapping[int, int], begins: Sequence[int] = ()) -> Kernel:
    """A tensor with other dimensions, from an element of each of its own on; `dims` as `aligned` takes them."""
    view = aligned(find(x.id), x, y, dims)
    place, theirs = _full_box(y), dims_of(y.shape or ())
    for there, here in dims.items():
        if begins and there in theirs and (x.shape or ())[here] > 1:
            size = place[theirs[there]][1]
            place[theirs[there]] = (-begins[here], size)
    return _assembled(y, find, [_slice(view, place)])


def transposed(material: Material, op: Op, find: Find) -> Kernel:
    """TRANSPOSE. Raises `InputError`: its order is no constant."""
    x, y = material.data(op), material.result(op)
    order = material.weights.numbers(material.given(op, 1).id)
    fit(sorted(order) == list(range(len(x.shape or ()))) and len(y.shape or ()) == len(order))
    return rearranged(x, y, find, dict(enumerate(order)))


def sliced(material: Material, op: Op, find: Find) -> Kernel:
    """SLICE and STRIDED_SLICE. Raises `InputError`: where it begins is no constant, it adds dimensions, or counts down
    or in steps in a row loop."""
    x, y = material.data(op), material.result(op)
    shape, begins = x.shape or (), list(material.weights.numbers(material.given(op, 1).id))
    fit(len(begins) == len(shape))
    steps, shrunk = [1] * len(shape), 0
    if op.type == "STRIDED_SLICE":
        if op.attributes.get("ellipsis_mask", 0) or op.attributes.get("new_axis_mask", 0):
            raise InputError("it adds dimensions; C is written for those that its input has")
        steps = list(material.weights.numbers(material.given(op, _STRIDES).id))
        mask, shrunk = op.attributes.get("begin_mask", 0), op.attributes.get("shrink_axis_mask", 0)
        begins = [
            _begin(b, size, step, mask >> d & 1)
            for d, (b, size, step) in enumerate(zip(begins, shape, steps, strict=True))
        ]
    kept = [d for d in range(len(shape)) if not shrunk >> d & 1]
    fit(len(kept) == len(y.shape or ()))
    sizes = {here: (y.shape or ())[there] for there, here in enumerate(kept)}
    lasts = [b + (sizes.get(d, 1) - 1) * step for d, (b, step) in enumerate(zip(begins, steps, strict=True))]
    fit(all(0 <= b < size and 0 <= last < size for b, last, size in zip(begins, lasts, shape, strict=True)))
    if shrunk == 0 and all(step == 1 for step in steps):
        return rearranged(x, y, find, dict(enumerate(kept)), begins)
    return _stepped(x, y, find, dict(enumerate(kept)), begins, steps)


def _begin(begin: int, size: int, step: int, masked: int) -> int:
    """Where a strided slice begins along a dimension."""
    if masked:
        return 0 if step > 0 else size - 1
    begin = begin + size if begin < 0 else begin
    return max(0, min(begin, size if step > 0 else size - 1))


def _stepped(
    x: Tensor, y: Tensor, find: Find, dims: Mapping[int, int], begins: Sequence[int], steps: Sequence[int]
) -> Kernel:
    """A slice in steps, or with dimensions that are left out, of a tensor that is there complete."""
    check_copied(x, y)
    view = find(x.id)
    if view.slots:
        raise InputError("the plan has its input in rows; C is written for a complete one")
    inside, base = list(view.inside), view.base
    for d, which in dims_of(x.shape or ()).items():
        base += begins[d] * view.inside[which]
        inside[which] *= steps[d]
    view = replace(view, base=base, inside=(inside[0], inside[1], inside[2]))
    return _assembled(y, find, [_slice(aligned(view, x, y, dims), _full_box(y))])


def packed(material: Material, op: Op, find: Find) -> Kernel:
    """PACK: tensors along a dimension that they have not. Raises `InputError`: they have other types or scales than the
    result."""
    y = material.result(op)
    axis = op.attributes.get("axis", 0) % len(y.shape or (0,))
    given = [material.given(op, i) for i in range(len(op.operands or op.inputs))]
    fit((y.shape or ())[axis] == len(given))
    dims = {d: d - (d > axis) for d in range(len(y.shape or ())) if d != axis}
    return _along(material, y, find, axis, [(x, dims, (i, i + 1)) for i, x in enumerate(given)])


def concatenated(material: Material, op: Op, find: Find) -> Kernel:
    """CONCATENATION of numbers of any width, and with constants. Raises `InputError`: it has an activation, or operands
    of other types or scales."""
    y = material.result(op)
    if op.attributes.get("fused_activation_function", 0):
        raise InputError("it has an activation; C is written for none")
    axis = op.attributes["axis"] % len(y.shape or ())
    given = [material.given(op, i) for i in range(len(op.operands or op.inputs))]
    fit(all(len(x.shape or ()) == len(y.shape or ()) for x in given))
    sizes = [x.shape[axis] for x in given if x.shape]
    ends = list(accumulate(sizes, initial=0))
    fit(ends[-1] == (y.shape or ())[axis])
    dims: Mapping[int, int] = {d: d for d in range(len(y.shape or ()))}
    return _along(material, y, find, axis, [(x, dims, (ends[i], ends[i + 1])) for i, x in enumerate(given)])


def _along(
    material: Material, y: Tensor, find: Find, axis: int,
    given: Sequence[tuple[Tensor, Mapping[int, int], tuple[int, int]]],
) -> Kernel:  # fmt: skip
    """Tensors, each with its dimensions and its place along one of the result."""
    slices = []
    for x, dims, (begin, end) in given:
        check_copied(x, y)
        if _quant(x) != _quant(y) and (x.quant is None) == (y.quant is None):
            raise InputError(f"{x.label} has another scale than its result, and would have to be rescaled")
        fit(all((x.shape or ())[here] == (y.shape or ())[there] for there, here in dims.items() if there != axis))
        place = _full_box(y)
        if axis in dims_of(y.shape or ()):
            place[dims_of(y.shape or ())[axis]] = (begin, end)
        else:
            fit((begin, end) == (0, 1))
        constant = x.kind is Kind.CONSTANT
        view = complete(0, sizes_of(x), element_bytes(x)) if constant else find(x.id)
        values = material.weights.array("weights", "int8", material.weights.bytes_of(x.id)) if constant else "NULL"
        slices.append(_slice(aligned(view, x, y, dims), place, values))
    return _assembled(y, find, slices)


def shape(material: Material, op: Op, find: Find) -> Kernel:
    """SHAPE: a constant."""
    x, y = material.given(op, 0), material.result(op)
    fit(y.dtype == "int32" and (y.shape or ()) == (len(x.shape or ()),))
    data = struct.pack(f"<{len(x.shape or ())}i", *(x.shape or ()))
    values = material.weights.array("weights", "int8", struct.unpack(f"<{len(data)}b", data))
    return _assembled(y, find, [_slice(complete(0, sizes_of(y), element_bytes(y)), _full_box(y), values)])


def split(material: Material, op: Op, find: Find) -> Kernel:
    """SPLIT, SPLIT_V and UNPACK: it runs over the operand. Raises `InputError`: its dimension is no constant."""
    axis_at = {"SPLIT": 0, "SPLIT_V": 2}
    x = material.data(op, 1 if op.type == "SPLIT" else 0)
    rank = len(x.shape or ())
    unpacks = op.type == "UNPACK"
    axis = (
        op.attributes.get("axis", 0)
        if unpacks
        else material.weights.numbers(material.given(op, axis_at[op.type]).id)[0]
    )
    axis %= rank
    results = [material.graph.tensor_by_id[t] for t in op.outputs]
    sizes = [1 if unpacks else (y.shape or ())[axis] for y in results]
    ends = list(accumulate(sizes, initial=0))
    fit(ends[-1] == (x.shape or ())[axis])
    slices = []
    for y, begin, end in zip(results, ends, ends[1:], strict=False):
        check_copied(x, y)
        dims = {d: d - (unpacks and d > axis) for d in range(rank) if not (unpacks and d == axis)}
        fit(all((x.shape or ())[d] == (y.shape or ())[own] for d, own in dims.items() if d != axis))
        place = _full_box(x)
        if axis in dims_of(x.shape or ()):
            place[dims_of(x.shape or ())[axis]] = (begin, end)
        box = ", ".join(f"{low}, {high}" for low, high in place)
        slices.append(f"{{{aligned(find(y.id), y, x, dims).text}, {{{box}}}}}")
    text = f"{{{find(x.id).text}, PIECES, {len(slices)}, {element_bytes(x)}}}"
    return Kernel("split_parts", text, sizes_of(x), operands=tuple(slices), operand_type="split_piece_t")


def padded(material: Material, op: Op, find: Find) -> Kernel:
    """PAD and PADV2. Raises `InputError`: its borders or their value are no constants."""
    x, y = material.data(op), material.result(op)
    check_copied(x, y)
    borders = _borders(material, op, x, y)
    value = zero_of(y) if y.quant is not None else 0
    if op.type == "PADV2":
        held = bytes(v & 0xFF for v in material.weights.bytes_of(material.given(op, 2).id))
        value = int.from_bytes(held, "little", signed=True)
    numbers = (*sizes_of(x), *borders, value)
    if element_bytes(x) == 1:
        return Kernel("pad", initialiser((find(x.id), find(y.id)), numbers), sizes_of(y))
    return Kernel("wide_pad", initialiser((find(x.id), find(y.id)), (element_bytes(x), *numbers)), sizes_of(y))


def _borders(material: Material, op: Op, x: Tensor, y: Tensor) -> Three:
    """Elements that are put before a tensor's rows, columns and channels."""
    given = material.weights.numbers(material.given(op, 1).id)
    before, behind, sizes = given[::2], given[1::2], x.shape or ()
    fit(len(before) == len(behind) == len(sizes) and min(given, default=0) >= 0)
    fit(y.shape == tuple(b + n + a for b, n, a in zip(before, sizes, behind, strict=True)))
    result = [0, 0, 0]
    for d, which in dims_of(sizes).items():
        result[which] = before[d]
    return result[0], result[1], result[2]


def mirrored(material: Material, op: Op, find: Find) -> Kernel:
    """MIRROR_PAD. Raises `InputError`: its borders are no constants."""
    x, y = material.data(op), material.result(op)
    check_copied(x, y)
    offset = 1 if op.attributes.get("mode", 0) == 0 else 0
    numbers = (*sizes_of(x), *_borders(material, op, x, y), offset, element_bytes(x))
    views = f"{find(x.id).text}, {find(y.id).text}"
    sizes, before = (", ".join(map(str, numbers[i : i + 3])) for i in (0, 3))
    return Kernel("mirror", f"{{{views}, {{{sizes}}}, {{{before}}}, {offset}, {element_bytes(x)}}}", sizes_of(y))


def reshaped(material: Material, op: Op, find: Find) -> Kernel:
    """RESHAPE and its like: nothing to do where the result overwrites the input. Raises `InputError`: the plan has one
    of both in rows, and they have other ones."""
    x, y = material.data(op), material.result(op)
    check_copied(x, y)
    source, target = find(x.id), find(y.id)
    fit(x.size == y.size)
    if source.slots or target.slots:
        dims = same_order_dims(x, y)
        if dims is None:
            raise InputError("the plan streams it in rows; C is written for an untiled operator")
        return rearranged(x, y, find, dims)
    return Kernel("copy", f"{{{source.base}, {target.base}, {y.size}}}", sizes_of(y))


def cast(material: Material, op: Op, find: Find) -> Kernel:
    """CAST between integers. Raises `InputError`: it is from or to another type."""
    x, y = material.data(op), material.result(op)
    if x.dtype not in _CASTS or y.dtype not in _CASTS:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is written for {', '.join(_CASTS)}")
    fit(x.shape == y.shape)
    if element_bytes(x) == element_bytes(y):
        return moved(x, y, find, {d: d for d in range(len(x.shape or ()))})
    return Kernel("cast", initialiser((find(x.id), find(y.id)), (element_bytes(x), element_bytes(y))), sizes_of(y))
