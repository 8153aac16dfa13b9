"""Operators on integers without scales, and copies of numbers of any width: what they are as material.

Source: TFLM's `cast.cc`, `add.cc`, `mul.cc`, `div.cc`, `maximum_minimum.cc`, `pad.cc`, `strided_slice.cc`, `slice.cc`,
`concatenation.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.emit.kernel import Find, Kernel, Material, fit, scale_of, zero_of
from lowtide.emit.places import (
    ELEMENT_BYTES,
    View,
    complete,
    dims_of,
    element_bytes,
    initialiser,
    operand_text,
    sizes_of,
)
from lowtide.errors import InputError
from lowtide.graph import Kind, Op, Tensor

_CASTS = ("int8", "int16", "int32", "uint32")
_COPIED = ("int8", "int16", "int32", "uint32")
_NOWHERE = View(0)
_STRIDES = 3
"""Place of the steps among a strided slice's operands."""


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor's numbers of 32 bits stand for themselves."""
    return tensor.dtype == "int32" and tensor.quant is None


def pair(material: Material, op: Op, find: Find) -> Kernel:
    """ADD, MUL, DIV, MINIMUM and MAXIMUM of integers, of two tensors of one shape or of a tensor and a number.

    Raises
    ------
    InputError
        It has other types or shapes, an activation, or divides by 0 or by what is no constant.
    """
    a, b, y = material.given(op, 0), material.given(op, 1), material.result(op)
    if not all(is_plain(t) for t in (a, b, y)):
        raise InputError("C is written for this operator on int32 without a scale")
    if op.attributes.get("fused_activation_function", 0):
        raise InputError("it has an activation; C is written for none")
    values = [material.weights.numbers(t.id) if t.kind is Kind.CONSTANT else None for t in (a, b)]
    if all(v is not None for v in values) or any(v is not None and len(v) != 1 for v in values):
        raise InputError("C is written for two tensors of one shape, or one tensor and one number")
    one, value = (1, values[1]) if values[1] is not None else (2, values[0]) if values[0] is not None else (0, (0,))
    fit(all(t.shape == y.shape for t, v in zip((a, b), values, strict=True) if v is None))
    assert value is not None, op
    if op.type == "DIV" and (one != 1 or value[0] == 0):
        raise InputError("it is not divided by a constant other than 0; C is written for that")
    views = [_NOWHERE if v is not None else find(t.id) for t, v in zip((a, b), values, strict=True)]
    text = initialiser((*views, find(y.id)), (), f"INTEGERS_{op.type}", str(one), _literal(value[0]))
    return Kernel("integers", text, sizes_of(y))


def _literal(number: int) -> str:
    """A number of 32 bits in C."""
    return "(-2147483647 - 1)" if number == -(1 << 31) else str(number)


def cast(material: Material, op: Op, find: Find) -> Kernel:
    """CAST between integers.

    Raises
    ------
    InputError
        It is from or to another type.
    """
    x, y = material.data(op), material.result(op)
    if x.dtype not in _CASTS or y.dtype not in _CASTS:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is written for {', '.join(_CASTS)}")
    fit(x.shape == y.shape)
    if element_bytes(x) == element_bytes(y):
        return copied(x, y, find, [0, 0, 0])
    return Kernel("cast", initialiser((find(x.id), find(y.id)), (element_bytes(x), element_bytes(y))), sizes_of(y))


def part(material: Material, op: Op, find: Find) -> Kernel:
    """SLICE, and STRIDED_SLICE by steps of 1: a part that begins before the result does.

    Raises
    ------
    InputError
        It leaves elements or dimensions out, or does not fit its operand.
    """
    x, y = material.data(op), material.result(op)
    shape, begins = x.shape or (), list(material.weights.numbers(material.given(op, 1).id))
    fit(len(begins) == len(shape) == len(y.shape or ()))
    if op.type == "STRIDED_SLICE":
        masks = [op.attributes.get(f"{name}_mask", 0) for name in ("ellipsis", "new_axis", "shrink_axis")]
        if any(masks) or any(step != 1 for step in material.weights.numbers(material.given(op, _STRIDES).id)):
            raise InputError("it leaves elements or dimensions out; C is written for steps of 1 and whole dimensions")
        mask = op.attributes.get("begin_mask", 0)
        counted = enumerate(zip(begins, shape, strict=True))
        begins = [0 if mask >> d & 1 else max(0, b + n if b < 0 else b) for d, (b, n) in counted]
    fit(all(b >= 0 and b + n <= size for b, n, size in zip(begins, y.shape or (), shape, strict=True)))
    _check_copied(x, y)
    first = [0, 0, 0]
    for d, which in dims_of(shape).items():
        first[which] = begins[d]
    return copied(x, y, find, first)


def copied(x: Tensor, y: Tensor, find: Find, first: Sequence[int]) -> Kernel:
    """A tensor, or a part of it from row, column and channel `first` on."""
    place = [(-begin, size - begin) for begin, size in zip(first, sizes_of(x), strict=True)]
    if element_bytes(x) == 1:
        return Kernel(
            "concat", f"{{{find(y.id).text}, PIECES, 1}}", sizes_of(y), operands=(operand_text(find(x.id), place),)
        )
    box = ", ".join(f"{low}, {high}" for low, high in place)
    text = f"{{{find(y.id).text}, PIECES, 1, {element_bytes(x)}}}"
    return Kernel("wide_concat", text, sizes_of(y), operands=(f"{{{find(x.id).text}, {{{box}}}, NULL}}",))


def bordered(x: Tensor, y: Tensor, find: Find, borders: list[int], value: int) -> Kernel:
    """A tensor with a border of one value."""
    _check_copied(x, y)
    numbers = (*sizes_of(x), *borders, value)
    if x.dtype == "int8":
        return Kernel("pad", initialiser((find(x.id), find(y.id)), numbers), sizes_of(y))
    return Kernel("wide_pad", initialiser((find(x.id), find(y.id)), (element_bytes(x), *numbers)), sizes_of(y))


def _check_copied(x: Tensor, y: Tensor) -> None:
    if x.dtype not in _COPIED or x.dtype != y.dtype:
        raise InputError(f"it is from {x.dtype} to {y.dtype}; C is written for {', '.join(_COPIED)}, and no change")


def concatenated(material: Material, op: Op, find: Find) -> Kernel:
    """CONCATENATION of numbers of any width, and with constants.

    Raises
    ------
    InputError
        It has an activation, or operands of other types or scales.
    """
    y = material.result(op)
    shape, sizes = y.shape or (), sizes_of(y)
    axis = dims_of(shape)[op.attributes["axis"] % len(shape)]
    if op.attributes.get("fused_activation_function", 0):
        raise InputError("it has an activation; C is written for none")
    begin, operands = 0, []
    for i in range(len(op.operands or op.inputs)):
        x = material.given(op, i)
        _check_copied(x, y)
        if (x.quant is None) != (y.quant is None) or _quant(x) != _quant(y):
            raise InputError(f"{x.label} has another scale than its result, and would have to be rescaled")
        place = [(0, size) for size in sizes]
        place[axis] = (begin, begin + sizes_of(x)[axis])
        begin = place[axis][1]
        fit(tuple(b - a for a, b in place) == sizes_of(x))
        box = ", ".join(f"{low}, {high}" for low, high in place)
        if x.kind is Kind.CONSTANT:
            values = material.weights.array("weights", "int8", material.weights.bytes_of(x.id))
            operands.append(f"{{{complete(0, sizes_of(x), element_bytes(x)).text}, {{{box}}}, {values}}}")
        else:
            operands.append(f"{{{find(x.id).text}, {{{box}}}, NULL}}")
    fit(begin == sizes[axis])
    text = f"{{{find(y.id).text}, PIECES, {len(operands)}, {ELEMENT_BYTES[y.dtype or '']}}}"
    return Kernel("wide_concat", text, sizes, operands=tuple(operands))


def _quant(tensor: Tensor) -> tuple[float, int] | None:
    return None if tensor.quant is None else (scale_of(tensor), zero_of(tensor))
