"""Sizes of convolutions and matrix products, and windows as TFLite writes them: the one home of these formulas, for
readers and rules too.

Imports `lowtide.ops.index` alone, so that reading a model does not wait for what ops mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from lowtide.ops.index import Window, same_padding, same_rows

_SAME = 0  # TFLite's number for padding ``SAME``; ``VALID`` is 1


def filter_elements(weights: Sequence[int], filters: int = 0) -> int:
    """Elements of one filter, which are those that a window reads of its group: all dimensions but `filters`.

    >>> filter_elements((32, 16, 3, 3))
    144
    """
    return prod(size for d, size in enumerate(weights) if d != filters)


def convolution_flops(spread: Sequence[int], weights: Sequence[int], filters: int = 0) -> int:
    """Two for each product of an element of a convolution's result with one of a filter. `spread`: shape of the result;
    of the data, where a transposed convolution spreads it over its result. `filters`: dimension of the weights along
    which there is one filter for each channel of `spread`."""
    return 2 * prod(spread) * filter_elements(weights, filters)


def product_flops(result: Sequence[int], inner: int) -> int:
    """Two for each of the `inner` products that make an element of a matrix product."""
    return 2 * prod(result) * inner


def is_pointwise(kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether each place of a convolution's result reads its own place alone: one tap, stride 1, no padding."""
    return prod(kernel) == 1 and all(stride == 1 for stride in strides) and not any(pads)


def tflite_window(options: Mapping[str, Any], side: str, taps: int) -> Window | None:
    """A window of a TFLite operator, its padding left out; None if a step is below 1 or left out. `options`: the
    operator's own: ``stride_h``, ``dilation_h_factor``. `side`: ``h`` for rows, ``w`` for columns."""
    stride, dilation = options.get(f"stride_{side}", 0), options.get(f"dilation_{side}_factor", 1)
    return Window(taps, stride, dilation) if min(taps, stride, dilation) >= 1 else None


def tflite_padded(window: Window, options: Mapping[str, Any], size: int, rows: int) -> Window:
    """The window with the rows of padding that TFLite puts before an operand of `size` rows, for `rows` of result."""
    same = options.get("padding", _SAME) == _SAME
    return replace(window, before=same_padding(size, rows, window)) if same else window


def tflite_rows(window: Window, options: Mapping[str, Any], size: int) -> int:
    """Rows of the result for an operand of `size` rows."""
    same = options.get("padding", _SAME) == _SAME
    return same_rows(size, window.stride) if same else window.rows(size, 0)
