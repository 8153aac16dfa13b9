"""Sizes of convolutions and products beside plain counting."""

import pytest

from lowtide.ops.geometry import (
    convolution_flops,
    filter_elements,
    is_pointwise,
    product_flops,
    tflite_padded,
    tflite_rows,
    tflite_window,
)
from lowtide.ops.index import Window


def test_flops_by_counting() -> None:
    """Each element of a result takes a filter's elements, each a multiplication and an addition."""
    assert filter_elements((8, 4, 3, 3)) == 4 * 9
    assert filter_elements((1, 3, 3, 16), filters=3) == 9
    assert convolution_flops((1, 8, 5, 5), (8, 4, 3, 3)) == 2 * 200 * 36
    assert product_flops((3, 5), 4) == 2 * 15 * 4


def test_pointwise_has_one_tap_and_no_step() -> None:
    """One tap, stride 1, no padding."""
    assert is_pointwise((1, 1), (1, 1), ())
    assert not is_pointwise((1, 1), (2, 1), ())
    assert not is_pointwise((1, 1), (), (0, 1, 0, 0))
    assert not is_pointwise((1, 3), (), ())


def test_windows_of_tflite_by_hand() -> None:
    """``SAME`` puts the odd row behind; ``VALID`` pads nothing; of height and width each has its own steps."""
    options = {"stride_h": 2, "stride_w": 1, "dilation_w_factor": 2, "padding": 0}
    rows, columns = tflite_window(options, "h", 3), tflite_window(options, "w", 3)
    assert (rows, columns) == (Window(3, 2), Window(3, 1, 2))
    assert rows is not None
    assert (tflite_rows(rows, options, 8), tflite_padded(rows, options, 8, 4)) == (4, Window(3, 2))
    assert tflite_padded(rows, options, 7, 4) == Window(3, 2, before=1)
    valid = {**options, "padding": 1}
    assert (tflite_rows(rows, valid, 8), tflite_padded(rows, valid, 8, 3)) == (3, rows)


@pytest.mark.parametrize("options", [{}, {"stride_h": 0}, {"stride_h": 1, "dilation_h_factor": 0}])
def test_a_step_below_one_is_no_window(options: dict[str, int]) -> None:
    """Nor is one that is left out."""
    assert tflite_window(options, "h", 1) is None
