"""Windows of convolutions and pools, as TFLM's kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowtide.emit.kernel import fit
from lowtide.emit.places import Three
from lowtide.errors import InputError
from lowtide.graph import Op, Tensor
from lowtide.ops.geometry import tflite_padded, tflite_rows, tflite_window
from lowtide.ops.index import Window

_VALID = 1


def check_int(number: int) -> None:
    """Raise `InputError` for a number that no int of 32 bits holds."""
    if not -(1 << 31) <= number < 1 << 31:
        raise InputError(
            f"its sizes, strides or padding come to {number}, and C is written for 32 bits; make them smaller"
        )


def windows(op: Op, taps: tuple[int, int], sizes: Sequence[int], rows_made: Three) -> tuple[Window, Window]:
    """Windows over rows and over columns. Raises `InputError`: a step is 0, or the result has other rows than the
    window makes."""
    result = []
    for side, many, size, rows in zip("hw", taps, sizes, rows_made[:2], strict=True):
        window = tflite_window(op.attributes, side, many)
        if window is None:
            raise InputError("it has a step of 0")
        check_int((rows - 1) * window.stride + (window.taps - 1) * window.dilation + 1)  # the code adds these up
        extent = (window.taps - 1) * window.dilation + 1
        if op.attributes.get("padding", 0) == _VALID and extent > size and rows == 1:
            result.append(replace(window, before=_before_long(window, extent, size)))
            continue
        fit(tflite_rows(window, op.attributes, size) == rows)
        result.append(tflite_padded(window, op.attributes, size, rows))
    return result[0], result[1]


def _before_long(window: Window, extent: int, size: int) -> int:
    """Padding that TFLM puts before an operand that is shorter than its window, which no converter writes but a file
    has whose input's length is open: it divides with the remainder's sign, and pads by half of what is lacking."""
    made = -(-(size + window.stride - extent) // window.stride) if size + window.stride < extent else 0
    return max((made - 1) * window.stride + extent - size, 0) // 2


def four(tensor: Tensor) -> tuple[int, int, int, int]:
    """Shape of a tensor of four dimensions. Raises `InputError` if it has others."""
    shape = tensor.shape or ()
    if len(shape) != 4:
        raise InputError(f"{tensor.label} has not four dimensions")
    return shape  # type: ignore[return-value]
