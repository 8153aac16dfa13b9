"""Sizes of convolutions and matrix products: the one home of these formulas, for readers and rules too.

Imports nothing, so that reading a model does not wait for what ops mean. Windows are `lowtide.ops.index.Window`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod


def filter_elements(weights: Sequence[int], filters: int = 0) -> int:
    """Elements of one filter, which are those that a window reads of its group: all dimensions but `filters`.

    >>> filter_elements((32, 16, 3, 3))
    144
    """
    return prod(size for d, size in enumerate(weights) if d != filters)


def convolution_flops(spread: Sequence[int], weights: Sequence[int], filters: int = 0) -> int:
    """Two for each product of an element of a convolution's result with one of a filter.

    Parameters
    ----------
    spread
        Shape of the result; of the data, where a transposed convolution spreads it over its result.
    filters
        Dimension of the weights along which there is one filter for each channel of `spread`.
    """
    return 2 * prod(spread) * filter_elements(weights, filters)


def product_flops(result: Sequence[int], inner: int) -> int:
    """Two for each of the `inner` products that make an element of a matrix product."""
    return 2 * prod(result) * inner


def is_pointwise(kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether each place of a convolution's result reads its own place alone: one tap, stride 1, no padding."""
    return prod(kernel) == 1 and all(stride == 1 for stride in strides) and not any(pads)
