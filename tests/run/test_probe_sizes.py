"""Smaller operands keep the map: phase of windows, edges, groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.ops.families import access_of
from lowtide.ops.forms import Contraction, Convolution, Form, Pointwise, Pool, Reshape, Transpose
from lowtide.ops.index import Window
from lowtide.run.probe_nodes import cost, shrunk


@given(st.builds(Window, st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 3)),
       st.integers(60, 90), st.integers(0, 2))  # fmt: skip
def test_a_shorter_window_axis_ends_as_the_long_one(window: Window, size: int, after: int) -> None:
    """Input and result lose rows in step, so that the rows left over at the end stay the same."""
    rows = window.rows(size, after)
    (read,), (written,) = shrunk(Pool(((1, window),)), ((1, size),), ((1, rows),), 30)
    assert read is not None
    assert written is not None
    assert written[1] < rows
    assert window.rows(read[1], after) == written[1]
    assert (size - read[1]) % window.stride == 0


def test_a_plain_convolution_loses_channels_and_rows() -> None:
    """Weights go along with the channels of both sides; the kernel stays."""
    form = Convolution(((2, Window(3, 2, 1, 1)), (3, Window(3, 2, 1, 1))))
    reads = ((1, 64, 112, 112), (128, 64, 3, 3), (128,))
    small, (result,) = shrunk(form, reads, ((1, 128, 56, 56),), 10**5)
    data, weights, bias = small
    assert data is not None
    assert weights is not None
    assert result is not None
    assert weights == (result[1], data[1], 3, 3)
    assert bias == (result[1],)
    assert cost(form, small, (result,)) < cost(form, reads, ((1, 128, 56, 56),)) // 1000


@pytest.mark.parametrize(
    ("form", "reads", "writes"),
    [
        (Reshape((1,)), ((640, 640), (1,)), ((640 * 640,),)),
        (Pointwise((1,)), ((1, 640), (2,)), ((640, 640),)),
    ],
)
def test_what_a_literal_says_stays(form: Form, reads: tuple, writes: tuple) -> None:
    """A reshape's or expansion's sizes stand in an operand, so they are kept."""
    assert shrunk(form, reads, writes, 100) == (reads, writes)


def test_groups_stay() -> None:
    """The number of groups is an attribute: channels of a grouped convolution are kept, rows go."""
    form = Convolution(((2, Window(3, 1, 1, 1)),), groups=32)
    reads, ((_, channels, rows),) = shrunk(form, ((1, 64, 500), (64, 2, 3), None), ((1, 64, 500),), 10**3)
    assert channels == 64
    assert rows < 500
    assert reads[1] == (64, 2, 3)


def test_labels_shrink_together() -> None:
    """Rows, columns and the summed dimension of a product, wherever they stand."""
    form = Contraction(((0, 1), (2, 1), (2,)), ((0, 2),), once=(2,))
    reads, writes = shrunk(form, ((300, 700), (400, 700), (400,)), ((300, 400),), 10**4)
    access_of(form, reads, writes)
    (a, inner), (b, other) = reads[0] or (0, 0), reads[1] or (0, 0)
    assert writes == ((a, b),)
    assert inner == other < 700
    assert shrunk(Transpose((1, 0)), ((300, 700),), ((700, 300),), 200)[1][0] != (700, 300)
