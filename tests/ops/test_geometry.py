"""Sizes of convolutions and products beside plain counting."""

from lowtide.ops.geometry import convolution_flops, filter_elements, is_pointwise, product_flops


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
