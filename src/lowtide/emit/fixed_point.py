"""Curves of 8 bits as tables, worked out in the fixed point of gemmlowp as TFLM's kernels do.

Source: gemmlowp's `fixedpoint.h`; TFLite's `integer_ops/logistic.h`, `tanh.h`, `leaky_relu.h`, `hard_swish.h`; TFLM's
`logistic_common.cc`, `tanh.cc`, `leaky_relu_common.cc`, `elementwise.cc`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lowtide.emit import arithmetic
from lowtide.emit.kernel import scale_of, zero_of
from lowtide.errors import InputError
from lowtide.graph import Tensor

_ONE = (1 << 31) - 1
_HALVES = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-1/4), exp(-1/2), exp(-1) ... exp(-16), 31 bits right of the point."""


def high_product(a: int, b: int) -> int:
    """The upper half of twice a product of 32 bits, rounded as gemmlowp's: halves away from zero."""
    if a == b == -(1 << 31):
        return _ONE
    product = a * b
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    total = product + nudge
    return total >> 31 if total >= 0 else -(-total >> 31)


def halved(value: int, times: int) -> int:
    """Divided by a power of two, halves away from zero."""
    mask = (1 << times) - 1
    return (value >> times) + ((value & mask) > ((mask >> 1) + (value < 0)))


def scaled(value: int, multiplier: int, shift: int) -> int:
    """Times 2^shift * multiplier / 2^31, with both roundings."""
    product = value * (1 << max(shift, 0)) * multiplier
    return halved((product + (1 << 30)) >> 31, max(-shift, 0))


def _saturated(value: int) -> int:
    return max(-(1 << 31), min(_ONE, value))


def _exp_near_zero(value: int) -> int:
    x = value + (1 << 28)
    x2 = high_product(x, x)
    x3, x4 = high_product(x2, x), halved(high_product(x2, x2), 2)
    rest = halved(high_product(x4 + x3, 715827883) + x2, 1)
    return 1895147668 + high_product(1895147668, x + rest)


def exp_below_zero(value: int, integer_bits: int) -> int:
    """exp(x) of a number below 0 with so many bits left of the point; the result has none."""
    fraction = 31 - integer_bits
    quarter = 1 << (fraction - 2)
    part = (value & (quarter - 1)) - quarter
    result = _exp_near_zero(_saturated(part << integer_bits))
    rest = part - value
    for i, factor in enumerate(_HALVES):
        if integer_bits > i - 2 and rest & (1 << (fraction + i - 2)):
            result = high_product(result, factor)
    return _ONE if value == 0 else result


def _divided(value: int) -> int:
    """1 / (1 + x) for x in (0, 1), with two bits left of the point."""
    total = value + _ONE
    half = (total + 1) >> 1 if total >= 0 else -((-total + 1) >> 1)
    x = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        x += _saturated(high_product(x, (1 << 29) - high_product(half, x)) << 2)
    return x


def logistic(value: int, integer_bits: int) -> int:
    """1 / (1 + exp(-x)) with 31 bits right of the point."""
    if value == 0:
        return 1 << 30
    positive = _saturated(_divided(exp_below_zero(-abs(value), integer_bits)) << 1)
    return positive if value > 0 else _ONE - positive


def tanh(value: int, integer_bits: int) -> int:
    """tanh(x) with 31 bits right of the point."""
    if value == 0:
        return 0
    size = _saturated((_divided(exp_below_zero(-abs(value), integer_bits + 1)) - (1 << 29)) << 2)
    return size if value > 0 else -size


_One = Callable[[int], int]
"""What becomes of one number."""


def table_of(kind: str, x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    """What an operator makes of a number of int8. Raises `InputError`: it has scales that TFLM refuses, or there is no
    table for it."""
    for t in (x, y):
        if t.quant is None or len(t.quant.scales) != 1:
            raise InputError(f"{t.label} has not one scale")
    make = _TABLES.get(kind)
    if make is None:
        raise InputError("C is not written for this operator on int8")
    one = make(x, y, options)
    return lambda value: max(-128, min(127, one(value)))


def _curve(x: Tensor, of: Callable[[int, int], int], bits: int, zero: int) -> _One:
    """A curve of a fixed-point number with 4 bits left of the point."""
    multiplier, shift = arithmetic.quantized(float(np.float32(scale_of(x))) * (1 << 27))
    radius = math.floor(15.0 * (1 << 27) / (1 << max(shift, 0)) * (1 << max(-shift, 0)))

    def one(value: int) -> int:
        centred = value - zero_of(x)
        if abs(centred) >= radius:
            return 127 if centred > 0 else -128
        return halved(of(scaled(centred, multiplier, shift), 4), 31 - bits) + zero

    return one


def _logistic(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    if zero_of(y) != -128 or scale_of(y) != 1 / 256:
        raise InputError("its result has not the scale 1/256 from -128 on, which TFLM asks for")
    return _curve(x, logistic, 8, -128)


def _tanh(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    if zero_of(y) != 0 or scale_of(y) != 1 / 128:
        raise InputError("its result has not the scale 1/128 around 0, which TFLM asks for")
    return _curve(x, tanh, 7, 0)


def _leaky(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    same, steep = arithmetic.leaky(scale_of(x), scale_of(y), float(options["alpha"]))

    def one(value: int) -> int:
        centred = value - zero_of(x)
        if centred >= 0:
            return scaled(centred, *same) + zero_of(y)
        size = scaled(centred, abs(steep[0]), steep[1])
        return (size if steep[0] >= 0 else -size) + zero_of(y)

    return one


def _abs(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    factor = arithmetic.rescaled(scale_of(x), scale_of(y))

    def one(value: int) -> int:
        size = abs(value - zero_of(x))
        return (size if scale_of(x) == scale_of(y) else scaled(size, *factor)) + zero_of(y)

    return one


def _elu(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    real = np.float32
    inverse = real(real(1) / real(scale_of(y)))

    def one(value: int) -> int:
        number = real(scale_of(x)) * real(value - zero_of(x))
        made = real(real(np.exp(number)) - real(1)) if number < 0 else number
        rescaled = float(real(made * inverse))
        return math.floor(abs(rescaled) + 0.5) * (1 if rescaled >= 0 else -1) + zero_of(y)

    return one


def _hard_swish(x: Tensor, y: Tensor, options: Mapping[str, Any]) -> _One:
    """In 16 bits, as TFLite's integer kernel: see `HardSwish` of `hard_swish.h`."""
    high = np.float32(np.float32(1.0 / 128.0) * np.float32(scale_of(x)))
    out = arithmetic.quantized(float(np.float32(high / np.float32(scale_of(y)))))
    relu = arithmetic.quantized(float(np.float32(high / np.float32(3.0 / 32768.0))))
    out16, relu16 = (_sixteen(m) for m in (out[0], relu[0]))

    def one(value: int) -> int:
        wide = (value - zero_of(x)) * 128
        pre = _high16(wide, out16)
        part = wide
        if relu[1] > 0:
            part = _shifted16(part, relu[1] - 1)
        part = _high16(part, relu16)
        if relu[1] > 0:
            part = _shifted16(part, 1)
        if relu[1] < 0:
            part = halved(part, -relu[1])
        part = (part + 32768) >> 1
        product = part * pre
        made = int(product / 32768) if not part == pre == -32768 else 32767
        return halved(made, -out[1]) + zero_of(y)

    return one


def _sixteen(multiplier: int) -> int:
    """A multiplier of 16 bits of one of 32."""
    return min(32767, (multiplier + (1 << 15)) >> 16)


def _high16(a: int, b: int) -> int:
    """The upper half of twice a product of 16 bits, rounded."""
    if a == b == -32768:
        return 32767
    total = a * b + ((1 << 14) if a * b >= 0 else 1 - (1 << 14))
    return int(total / 32768)


def _shifted16(value: int, by: int) -> int:
    return max(-32768, min(32767, value << by))


def requantized(x: Tensor, y: Tensor) -> _One:
    """QUANTIZE from 8 bits to 8 bits, signed or not."""
    factor = arithmetic.rescaled(scale_of(x), scale_of(y))
    low, high = (0, 255) if y.dtype == "uint8" else (-128, 127)
    return lambda value: max(low, min(high, scaled(value - zero_of(x), *factor) + zero_of(y)))


_TABLES: dict[str, Callable[[Tensor, Tensor, Mapping[str, Any]], _One]] = {
    "ABS": _abs,
    "ELU": _elu,
    "HARD_SWISH": _hard_swish,
    "LEAKY_RELU": _leaky,
    "LOGISTIC": _logistic,
    "TANH": _tanh,
}


def curve_factor(kind: str, scale: float) -> tuple[int, int]:
    """Factor and shift to the right that take 16 bits to where the logistic curve counts from. Raises `InputError`:
    TFLM refuses the scale."""
    power = math.log2(float(np.float32(scale)))
    if power == round(power) and 12 + round(power) in ((0,) if kind == "LOGISTIC" else (0, 1)):
        return 3 << (12 + round(power)), 0
    multiplier, shift = float(np.float32(scale)) * 4096.0 * 3.0, 0
    while multiplier <= 32767.0 / 2.0 and shift <= 30:
        shift, multiplier = shift + 1, multiplier * 2.0
    if multiplier > 32767:
        raise InputError(f"its input has the scale {scale}, which TFLM refuses")
    return int(multiplier), shift
