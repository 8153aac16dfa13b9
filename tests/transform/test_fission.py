"""Regions that run in parts: what one part is, what stands around, and what is refused."""

from __future__ import annotations

import pytest

from lowtide.cost.file import stand_in
from lowtide.cost.labelled import estimated
from lowtide.graph import Graph, Kind
from lowtide.optimize.step_regions import step_regions
from lowtide.transform.fission import PARTS, Fission, Loop, NoFission, body_of, even_ends, outer_of, region_of
from lowtide_research import zoo
from support.steps import SMALL, labelled_graph

FAMILIES = stand_in("rtx3090.json")[0].families
RECKON = estimated(FAMILIES)


def _dense() -> Graph:
    """y = x w, loss = y y, dw = x' y, new = w + dw."""
    return labelled_graph(
        [
            ("einsum", ["x", "w"], "y", "n k, k m -> n m"),
            ("square", ["y"], "loss", "n m -> n m"),
            ("einsum", ["x", "y"], "dw", "n k, n m -> k m"),
            ("update", ["w", "dw"], "new", "k m, k m -> k m"),
        ],
        {"x": (6, 2), "w": (2, 3), "y": (6, 3), "loss": (6, 3), "dw": (2, 3), "new": (2, 3)},
    )


def test_parts_are_as_equal_as_can_be() -> None:
    """The larger ones first."""
    assert even_ends(7, 3) == (3, 5, 7)
    assert even_ends(6, 2) == (3, 6)


def test_a_part_has_slices_and_what_it_sums_is_whole() -> None:
    """Rows of x, y and loss, all of w and of its gradient; the update stays outside, and the loop has what it reads."""
    graph = _dense()
    region = region_of(graph, {0: 0, 1: 0, 2: 2})
    assert region.rows == 6
    assert (region.sliced, region.untiled) == (((0, 0),), (1,))
    assert (region.concatenated, region.summed) == (((3, 0),), (4,))
    body = body_of(graph, region, Fission(region.axes, even_ends(6, 2)).all, RECKON).graph
    assert {t.name: t.shape for t in body.tensors} == {
        "x": (3, 2), "w": (2, 3), "y": (3, 3), "loss": (3, 3), "dw": (2, 3)
    }  # fmt: skip
    assert {t.name for t in body.tensors if t.kind is Kind.CONSTANT} == {"x", "w"}
    outer = outer_of(graph, [Loop(region, 100, 1.0)])
    (loop,) = [op for op in outer.ops if op.type == PARTS]
    assert (loop.inputs, loop.outputs, loop.workspace) == ((0, 1), (3, 4), 100)
    assert [op.type for op in outer.ops] == [PARTS, "update"]


def test_seconds_of_parts_are_those_of_each_size_and_what_joins_them() -> None:
    """By hand: 7 rows in parts of 3, 2 and 2."""
    graph = labelled_graph(
        [("a", ["x", "w"], "y", "n k, k -> n k"), ("b", ["x", "y"], "s", "n k, n k -> k")],
        {"x": (7, 2), "w": (2,), "y": (7, 2), "s": (2,)},
    )
    region = region_of(graph, {0: 0, 1: 1})
    assert region.summed == (3,)
    ops = body_of(graph, region, Fission(region.axes, (3, 5, 7)).all, RECKON).graph.ops
    other, merge = FAMILIES["other"], FAMILIES["merge"]
    first = 2 * other.seconds(10 * 2 / 7, 8 + 2 * 16) + other.seconds(10 * 3 / 7, 8 + 2 * 24)
    assert ops[0].cost == pytest.approx(first, rel=1e-12)
    second = 2 * other.seconds(10 * 2 / 7, 8 + 2 * 16) + other.seconds(10 * 3 / 7, 8 + 2 * 24)
    assert ops[1].cost == pytest.approx(second + 2 * merge.seconds(0, 24), rel=1e-12)


def test_rows_that_do_not_lie_together_are_copied() -> None:
    """Along the second dimension, once for all that read them."""
    graph = labelled_graph(
        [("a", ["x"], "y", "n s -> n s"), ("b", ["x", "y"], "z", "n s, n s -> n s")],
        {"x": (2, 6), "y": (2, 6), "z": (2, 6)},
    )
    region = region_of(graph, {0: 1, 1: 1})
    body = body_of(graph, region, Fission(region.axes, even_ends(6, 3)).all, RECKON)
    assert [op.type for op in body.graph.ops] == ["slice", "a", "b"]
    assert body.copies == {2: 0}
    assert body.graph.ops[1].inputs == body.graph.ops[0].outputs


REFUSED = [
    ([("a", ["x"], "m", "n -> ."), ("b", ["x", "m"], "y", "n, . -> n")],
     {"x": (4,), "m": (1,), "y": (4,)}, {0: 0, 1: 0}),
    ([("a", ["x"], "s", "n k -> k"), ("b", ["s", "x"], "y", "k, n k -> n k")],
     {"x": (4, 2), "s": (2,), "y": (4, 2)}, {0: 1, 1: 0}),
    ([("a", ["x"], "y", "n -> n"), ("stop", ["y"], "z", ". -> ."), ("b", ["z", "y"], "w", "n, n -> n")],
     {"x": (4,), "y": (4,), "z": (4,), "w": (4,)}, {0: 0, 2: 0}),
    ([("a", ["x", "x"], "y", "n k, m k -> n m")], {"x": (4, 2), "y": (4, 4)}, {0: 0}),
    ([("a", ["x", "x"], "y", "n m, m n -> n m")], {"x": (4, 4), "y": (4, 4)}, {0: 0}),
]  # fmt: skip


@pytest.mark.parametrize(("ops", "shapes", "axes"), REFUSED)
def test_what_lacks_rows_is_no_region(
    ops: list[tuple[str, list[str], str, str]], shapes: dict[str, tuple[int, ...]], axes: dict[int, int]
) -> None:
    """Statistics over all rows, a sum that is read inside, an op between, a tensor read in two ways."""
    with pytest.raises(NoFission):
        region_of(labelled_graph(ops, shapes), axes)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_batch_of_a_workload_is_its_largest_region(name: str) -> None:
    """All ops but the updates, whose gradients are sums."""
    net = zoo.build(f"{name}:{SMALL[name]}")
    graph = net.graph()
    region = step_regions(graph).regions[0]
    inside = {op for op, _ in region.axes}
    assert {op.type for op in graph.ops if op.id not in inside} == {"update"}
    assert len(region.summed) == sum(op.type == "update" for op in graph.ops)
    assert region.rows == net.inputs[0].shape[0]
