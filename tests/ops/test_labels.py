"""Ops that say themselves which rows they need."""

from __future__ import annotations

import pytest

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.meaning import Meaning, meaning


def _meaning(labels: str | None, *shapes: tuple[int, ...]) -> Meaning:
    last = len(shapes) - 1
    tensors = tuple([Tensor(i, 4, Kind.OUTPUT if i == last else Kind.INPUT, shape=s) for i, s in enumerate(shapes)])
    attributes = {} if labels is None else {"labels": labels}
    op = Op(0, tuple(range(last)), (last,), type="op", attributes=attributes)
    known = meaning(Graph("g", tensors, (op,), dialect="labels"), op)
    assert known is not None
    return known


def test_a_product_sums_over_what_its_result_lacks() -> None:
    """Rows of the result need rows of one operand and all of the other; the summed axis is merged."""
    access = _meaning("m k, k n -> m n", (6, 4), (4, 5), (6, 5)).access
    (m,) = [axis for axis in access.cuttable() if access.sizes[axis] == 6]
    assert access.need(0, (6, 4), {m: (1, 3)}) == ((1, 3), (0, 4))
    assert access.need(1, (4, 5), {m: (1, 3)}) == ((0, 4), (0, 5))
    assert [access.sizes[axis] for axis in access.reduce] == [4]
    assert access.exactness(access.reduce[0]) == "sum"


def test_a_point_is_whole_and_one_row_is_broadcast() -> None:
    """Neither can be cut."""
    access = _meaning("n ., n c -> n c", (6, 3), (1, 4), (6, 4)).access
    assert [access.sizes[axis] for axis in access.cuttable()] == [6, 4]
    assert access.need(0, (6, 3), {0: (2, 4)}) == ((2, 4), (0, 3))
    assert access.need(1, (1, 4), {0: (2, 4)}) == ((0, 1), (0, 4))


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (None, "no labels"),
        ("m k", "no one arrow"),
        ("m -> m -> m", "no one arrow"),
        ("m -> m", "of 1 operands"),
        ("m, k n -> m n", "not for shape"),
        ("m k, k n -> m m", "label 'm' has 6 rows, and 5 elsewhere"),
        ("m k, n k -> m n", "rows, and"),
    ],
)
def test_labels_that_do_not_fit_mean_nothing(labels: str | None, why: str) -> None:
    """The op is opaque, and says why."""
    opaque = _meaning(labels, (6, 4), (4, 5), (6, 5)).opaque
    assert why in (opaque or "")
