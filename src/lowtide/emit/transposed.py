"""TRANSPOSE_CONV: what it is as material of C.

Source: TFLM's `transpose_conv.cc`. It adds each pixel of the input to those of the result that it reaches; here each
pixel of the result adds up those that reach it, in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from lowtide.emit.formats import FORMATS, real_bounds
from lowtide.emit.kernel import Kernel, Part, fit
from lowtide.emit.places import View, initialiser, sizes_of
from lowtide.emit.windows import four
from lowtide.graph import Op, Tensor

_FIELDS = "    int32_t in_zero, out_zero, low, high;\n    const int8_t *weights;\n    const {} *bias; /* or none */\n"
_FACTORS = "    const int32_t *multiplier;\n    const int8_t *shift;\n"
_REAL_FIELDS = "    float low, high;\n    const float *weights;\n    const float *bias; /* or none */\n"
_TAP = "at(&k->in, in_y, in_x, d)"
_VARIANTS: dict[str, tuple[str, str, str, str, tuple[str, ...]]] = {
    "int8": (
        "int32_t", _FIELDS.format("int32_t") + _FACTORS,
        f"((int32_t)*{_TAP} - k->in_zero) * (int32_t)k->weights[weight + d]",
        "most(k->low, least(k->high, scaled(sum, k->multiplier[c], k->shift[c]) + k->out_zero))", ("fixed", "scaled"),
    ),
    "int16": (
        "int64_t", _FIELDS.format("int64_t") + _FACTORS,
        f"(int64_t)half_at({_TAP}) * (int64_t)k->weights[weight + d]",
        "most(k->low, least(k->high, scaled_long(sum, k->multiplier[c], k->shift[c])))", ("wide_scaled",),
    ),
    "float32": (
        "float", _REAL_FIELDS, f"real_at({_TAP}) * k->weights[weight + d]", "bounded(sum, k->low, k->high)", ("clamp",),
    ),
}  # fmt: skip
"""Type of sums, fields, a product, the result and further templates, by the type of elements."""


def ordered(op: Op) -> Op:
    """The op with its operands as a convolution has them: input, weights, bias."""
    given = op.operands or op.inputs
    fit(len(given) >= 3)
    operands = (given[2], given[1], *given[3:])
    return replace(op, operands=operands, inputs=tuple(t for t in operands if t is not None))


def kernel(
    op: Op, x: Tensor, w: Tensor, y: Tensor, views: tuple[View, View], numbers: tuple[int, ...], arrays: str
) -> Kernel:
    """The kernel; `numbers`: zeros and bounds of integers."""
    (in_h, in_w, in_c), sizes = sizes_of(x), sizes_of(y)
    filters, taps_h, taps_w, depth = four(w)
    fit(filters == sizes[2] and depth == in_c)
    before = []
    for side, taps, rows in zip("hw", (taps_h, taps_w), sizes[:2], strict=True):
        stride = int(op.attributes.get(f"stride_{side}", 0))
        fit(stride > 0)
        same = op.attributes.get("padding", 0) == 0
        made = -(-rows // stride) if same else (rows + stride - taps) // stride
        before.append(max((made - 1) * stride + taps - rows, 0) // 2)
    strides = (op.attributes["stride_h"], op.attributes["stride_w"])
    name = {"int8": "trans_conv", "int16": "wide_trans_conv", "float32": "real_trans_conv"}[y.dtype or ""]
    total, fields, product, result, needs = _VARIANTS[y.dtype or ""]
    words = {
        "NAME": name, "WHAT": y.dtype or "", "SUM": total, "FIELDS": fields, "PRODUCT": product, "RESULT": result,
        "STORE": FORMATS[y.dtype or ""].store,
    }  # fmt: skip
    parts: tuple[Part, ...] = (*needs, ("trans_conv", tuple(words.items())))
    bounds = real_bounds(op.attributes.get("fused_activation_function", 0)) if y.dtype == "float32" else ()
    text = initialiser(views, (in_h, in_w, in_c, taps_h, taps_w, *strides, *before, *numbers), *bounds, arrays)
    return Kernel(name, text, sizes, prod(sizes_of(x)) * taps_h * taps_w * sizes[2], parts=parts)
