"""The numbers that TFLM's kernels work out before they run, from scales and zero points.

Source: TFLite's `quantization_util.cc` and `kernel_util.cc`, in their default build: multipliers of 31 bits and a
shift, applied with two roundings. Scales are multiplied and divided in 64 bits throughout, as the pip package of TFLM
does (0.dev20261023): the sources of August 2026 read as if FULLY_CONNECTED with one scale, and RELU, rounded to 32 bits
first, but of 741 sums and 201 values that tell the two apart the package makes none so. Bounds of activations are
rounded to 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Multiplier = tuple[int, int]
"""A fixed-point number of 31 bits, and a shift to the left (negative: to the right)."""

LOW, HIGH = -128, 127
"""Of an 8-bit integer."""
LIMITS = {"int8": (LOW, HIGH), "int16": (-(1 << 15), (1 << 15) - 1), "int32": (-(1 << 31), (1 << 31) - 1)}
"""Least and most of a type."""
ADD_SHIFT, WIDE_ADD_SHIFT = 20, 15
"""By which ADD shifts its operands of 8 and of 16 bits to the left before it scales them."""
_PARTS = 512
_SCALED_BITS = 5
"""Bits left of the point of the differences that softmax takes the exponential of."""


def quantized(real: float) -> Multiplier:
    """A real factor as multiplier and shift.

    >>> quantized(0.5), quantized(3.0)
    ((1073741824, 0), (1610612736, 2))
    """
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    fixed = _round(fraction * (1 << 31))
    if fixed == 1 << 31:
        fixed, shift = fixed // 2, shift + 1
    return (0, 0) if shift < -31 else (fixed, shift)


def convolution(input_scale: float, filter_scale: float, output_scale: float) -> Multiplier:
    """From a sum of products to the result, of a convolution or a product."""
    return quantized(float(np.float32(input_scale)) * float(np.float32(filter_scale)) / float(np.float32(output_scale)))


def product(first: float, second: float, result: float) -> Multiplier:
    """From a product of two elements to the result."""
    one, other, out = (float(np.float32(scale)) for scale in (first, second, result))
    return quantized(one * other / out)


def rescaled(input_scale: float, output_scale: float) -> Multiplier:
    """From one scale to another."""
    return quantized(float(np.float32(input_scale)) / float(np.float32(output_scale)))


def addition(
    first: float, second: float, result: float, shift: int = ADD_SHIFT
) -> tuple[Multiplier, Multiplier, Multiplier]:
    """Of both operands and of the sum."""
    one, other, out = (float(np.float32(scale)) for scale in (first, second, result))
    twice = 2 * max(one, other)
    return quantized(one / twice), quantized(other / twice), quantized(twice / ((1 << shift) * out))


def leaky(input_scale: float, output_scale: float, alpha: float) -> tuple[Multiplier, Multiplier]:
    """Of what is at least 0, and of what is below it."""
    x, y, slope = (float(np.float32(scale)) for scale in (input_scale, output_scale, alpha))
    return quantized(x / y), quantized(x * slope / y)


def svdf(
    input_scale: float, features: float, state: float, times: float, output: float
) -> tuple[Multiplier, Multiplier]:
    """From sums of features to what is kept, and from sums of these to the result; multiplied in 32 bits."""
    x, f, k, t, y = (np.float32(scale) for scale in (input_scale, features, state, times, output))
    return quantized(float(x * f / k)), quantized(float(k * t / y))


def mean(input_scale: float, output_scale: float, count: int) -> Multiplier:
    """From a sum of `count` elements to their mean."""
    multiplier, shift = rescaled(input_scale, output_scale)
    more = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << more) // count, shift - more


def softmax(input_scale: float, beta: float) -> tuple[Multiplier, int]:
    """What differences from the largest are multiplied by, and the least one that counts."""
    scale = float(np.float32(beta)) * float(np.float32(input_scale)) * (1 << (31 - _SCALED_BITS))
    multiplier, shift = quantized(min(scale, (1 << 31) - 1.0))
    radius = math.floor(((1 << _SCALED_BITS) - 1) * (1 << (31 - _SCALED_BITS)) / (1 << shift))
    return (multiplier, shift), -radius


def long_softmax(input_scale: float, beta: float) -> Multiplier:
    """What differences of 16 bits from the largest are multiplied by, so that 65,535 is 10."""
    return quantized(float(np.float32(input_scale)) * float(np.float32(beta)) / (10.0 / 65535.0))


def long_curve(least: float, most: float, of: Callable[[float], float]) -> list[int]:
    """A function from `least` to `most` by 513 values, 15 bits right of the point; lines between them err as little in
    the middle as at the ends. In floats of 32 bits, as TFLite's `LUTPopulate` makes them for 16 bits.
    """
    real = np.float32
    step = real(real(real(most) - real(least)) / real(_PARTS))
    out = real(real(2.0) / real(65535))
    factor = real(real(65536) / real(out * real(32767) - out * real(-32768)))

    def at(x: np.float32) -> np.float32:
        return real(of(float(x)))

    def rounded(x: np.float32) -> np.float32:
        return real(_round(float(x)))

    values = []
    for i in range(_PARTS):
        x = real(real(least) + real(i) * step)
        here, middle = rounded(at(x) * factor), rounded(at(real(x + step / real(2))) * factor)
        behind = at(real(real(least) + real(i + 1) * step)) * factor
        error = rounded(real(behind + here) / real(2)) - middle
        values.append(here - rounded(error / real(2)))
    values.append(rounded(at(real(most)) * factor))
    low, high = LIMITS["int16"]
    return [int(min(max(value, low), high)) for value in values]


def activation(kind: int, scale: float, zero: int, dtype: str = "int8") -> tuple[int, int]:
    """Least and most that a fused activation lets through: 0 none, 1 ReLU, 2 ReLU from -1 to 1, 3 ReLU6.

    >>> activation(3, 0.1, -128)
    (-128, -68)
    """

    def at(real: float) -> int:
        return zero + _round(float(np.float32(real) / np.float32(scale)))

    low, high = LIMITS[dtype]
    if kind == 1:
        return max(low, at(0.0)), high
    if kind == 2:
        return max(low, at(-1.0)), min(high, at(1.0))
    if kind == 3:
        return max(low, at(0.0)), min(high, at(6.0))
    return low, high


def _round(real: float) -> int:
    """The nearest integer, halves away from zero."""
    return math.floor(abs(real) + 0.5) * (1 if real >= 0 else -1)
