"""The numbers that TFLM's kernels work out before they run, from scales and zero points.

Source: TFLite's `quantization_util.cc` and `kernel_util.cc`, in their default build: multipliers of 31 bits and a
shift, applied with two roundings.
"""

from __future__ import annotations

import math

import numpy as np

Multiplier = tuple[int, int]
"""A fixed-point number of 31 bits, and a shift to the left (negative: to the right)."""

LOW, HIGH = -128, 127
"""Of an 8-bit integer."""
ADD_SHIFT = 20
"""By which ADD shifts its operands to the left before it scales them."""
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
    """From a sum of products to the result, of a convolution or a product with a scale for each channel."""
    return quantized(float(np.float32(input_scale)) * float(np.float32(filter_scale)) / float(np.float32(output_scale)))


def product(input_scale: float, filter_scale: float, output_scale: float) -> Multiplier:
    """The same of a product with one scale: that of input and weights is rounded to 32 bits."""
    scale = np.float32(input_scale) * np.float32(filter_scale)
    return quantized(float(scale) / float(np.float32(output_scale)))


def rescaled(input_scale: float, output_scale: float) -> Multiplier:
    """From one scale to another."""
    return quantized(float(np.float32(input_scale)) / float(np.float32(output_scale)))


def activated(input_scale: float, output_scale: float) -> Multiplier:
    """From one scale to another in RELU, where the quotient is rounded to 32 bits."""
    return quantized(float(np.float32(input_scale) / np.float32(output_scale)))


def addition(first: float, second: float, result: float) -> tuple[Multiplier, Multiplier, Multiplier]:
    """Of both operands and of the sum."""
    one, other, out = (float(np.float32(scale)) for scale in (first, second, result))
    twice = 2 * max(one, other)
    return quantized(one / twice), quantized(other / twice), quantized(twice / ((1 << ADD_SHIFT) * out))


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


def activation(kind: int, scale: float, zero: int) -> tuple[int, int]:
    """Least and most that a fused activation lets through: 0 none, 1 ReLU, 2 ReLU from -1 to 1, 3 ReLU6.

    >>> activation(3, 0.1, -128)
    (-128, -68)
    """

    def at(real: float) -> int:
        return zero + _round(float(np.float32(real) / np.float32(scale)))

    if kind == 1:
        return max(LOW, at(0.0)), HIGH
    if kind == 2:
        return max(LOW, at(-1.0)), min(HIGH, at(1.0))
    if kind == 3:
        return max(LOW, at(0.0)), min(HIGH, at(6.0))
    return LOW, HIGH


def _round(real: float) -> int:
    """The nearest whole number, halves away from zero."""
    return math.floor(abs(real) + 0.5) * (1 if real >= 0 else -1)
