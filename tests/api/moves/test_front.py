"""The front of peak against the time of ops that run again: as a call, and as the command `curve --allow recompute`."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from support.command import Captured, run
from support.sequences import costly_graph, graph_file


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Sixty ops, some of which are worth running again."""
    return costly_graph(Random(3), 60)


@pytest.mark.slow
def test_a_plan_for_a_point_costs_no_more_than_it_says(graph: Graph) -> None:
    """Its bound too is below the plan's; the first point is the best order's."""
    front = lowtide.research.front(graph, target="strict", time=3)
    best = lowtide.research.plan(graph, target="strict")
    assert (front.own_order_peak_bytes, front.points[0].peak_bytes) == (best.own_order_peak_bytes, best.peak_bytes)
    assert (front.points[0].overhead, front.points[0].runs_again) == (0, 0)
    assert len(front.points) > 3
    for one, other in zip(front.points, front.points[1:], strict=False):
        assert other.peak_bytes < one.peak_bytes
        assert other.overhead > one.overhead or not other.overhead  # some of these ops cost nothing
    assert all(0 <= p.least_overhead <= p.overhead and p.peak_bytes >= front.floor_bytes for p in front.points)
    assert "points=" in repr(front)
    middle = front.points[len(front.points) // 2]
    plan = lowtide.research.plan(graph, target="strict", allow="recompute", budget=middle.peak_bytes, time=1)
    assert plan.recomputation is not None
    assert plan.peak_bytes <= middle.peak_bytes
    assert plan.recomputation.overhead <= middle.overhead + 0.02


@pytest.mark.slow
def test_every_parameter_counts(graph: Graph, tmp_path: Path) -> None:
    """The rules, the seed, the time, who looks on; and a target that runs each op once is refused."""
    overwriting = Graph(
        "w",
        (Tensor(0, 8, Kind.INPUT), Tensor(1, 8, Kind.ACTIVATION), Tensor(2, 8, Kind.OUTPUT)),
        (Op(0, (0,), (1,), type="Relu"), Op(1, (1,), (2,), type="Relu")),
    )
    peaks = {
        (target, *options): lowtide.research.front(overwriting, target=target, **dict.fromkeys(options, True)).points[0]
        for target, *options in (("strict",), ("generic", "pin_inputs"), ("generic", "overwrite_inputs"))
    }
    assert len({point.peak_bytes for point in peaks.values()}) > 1
    assert not lowtide.research.front(graph, time=1e-9).complete
    heard: list[object] = []
    lowtide.research.front(graph, target="strict", time=2, seed=1, report=heard.append)
    assert heard
    with pytest.raises(lowtide.InputError, match="--target generic"):
        lowtide.research.front(graph, target="onnxruntime")
    with pytest.raises(lowtide.InputError, match="no free dimension"):
        lowtide.research.front(graph_file(graph, tmp_path), dims={"n": 2})


@pytest.mark.slow
def test_the_command_prints_it(graph: Graph, tmp_path: Path, capsys: Captured) -> None:
    """A table; JSON with the same; what does not go together is said."""
    path = graph_file(graph, tmp_path)
    words = ("research", "curve", path, "--allow", "recompute", "--time", "1", "--target", "strict")
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert "best order" in out
    assert "--max-overhead" in out
    status, out, _ = run(capsys, *words, "--json")
    assert status == 0
    assert json.loads(out)["points"][-1]["overhead"] > 0
    for more, text in (("--exact-bits", "exact-bits"), ("--cost=c.json", "--cost")):
        status, _, error = run(capsys, *words, more)
        assert status == 2
        assert text in error
    status, _, error = run(capsys, "research", "curve", path, "--allow", "concat")
    assert status == 2
    assert "--allow tile" in error


def test_one_point_where_nothing_is_gained(capsys: Captured, tmp_path: Path) -> None:
    """Said in words."""
    graph = Graph("one", (Tensor(0, 4, Kind.INPUT), Tensor(1, 4, Kind.OUTPUT)), (Op(0, (0,), (1,), cost=1),))
    status, out, _ = run(capsys, "research", "curve", graph_file(graph, tmp_path), "--allow", "recompute")
    assert status == 0
    assert "recomputation needs no less" in out


@pytest.mark.slow
def test_tensors_that_leave_memory(graph: Graph, tmp_path: Path, capsys: Captured) -> None:
    """With runs again and alone: bytes stored, bounds below; a plan for a point is as quick; what a bound is below."""
    both = lowtide.research.front(graph, target="strict", allow="recompute,offload", time=1.4)
    alone = lowtide.research.front(graph, target="strict", allow="offload", time=4)
    assert both.counted == alone.counted == "nanoseconds"
    for front in (both, alone):
        assert len(front.points) > 2
        assert any(point.stored_bytes for point in front.points)
        assert all(0 <= p.least_overhead <= p.overhead + 1e-12 for p in front.points)
    assert all(point.runs_again == 0 for point in alone.points)
    middle = alone.points[len(alone.points) // 2]
    plan = lowtide.research.plan(graph, target="strict", allow="offload", budget=middle.peak_bytes, time=1)
    assert plan.recomputation is not None
    assert plan.peak_bytes <= middle.peak_bytes
    assert plan.recomputation.overhead >= middle.least_overhead - 1e-12
    words = ("--allow", "recompute,offload", "--time", "1", "--target", "strict")
    status, out, _ = run(capsys, "research", "curve", graph_file(graph, tmp_path), *words)
    assert status == 0
    assert "stored" in out
    assert "the same --allow" in out
