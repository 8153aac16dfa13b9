"""Several regions of a step in parts: where sums over the batch forbid parts of all of it."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.optimize.parted import Parted, parted
from lowtide.optimize.step_regions import step_regions, stretches
from lowtide.optimize.together import around, loops_of, together
from lowtide.plan import from_json
from lowtide.target import BUILT_IN
from lowtide.transform.fission import outer_of
from support.step_runs import random_feeds, run_plan, run_step
from support.steps import heads_behind_statistics

FAMILIES = stand_in("rtx3090.json")[0].families
TARGET = BUILT_IN["generic"]
GRAPH = priced(heads_behind_statistics(), FAMILIES)
OWN = range(len(GRAPH.ops))


def _pool() -> list[Parted]:
    regions = stretches(GRAPH, OWN)
    return [c for r in regions for c in parted(GRAPH, TARGET, r, [2], FAMILIES, lambda g: range(len(g.ops)))]


def test_stretches_are_regions_that_nothing_can_be_added_to() -> None:
    """Of the batch, whose sums are read: one for each head, and of all that is no region itself."""
    assert max(len(r.axes) for r in step_regions(GRAPH).regions) < 9
    batch = [r for r in stretches(GRAPH, OWN) if r.rows == 16]
    assert len(batch) == 3
    inside = [op for r in batch for op, _ in r.axes]
    assert len(inside) == len(set(inside))


def test_each_region_more_lowers_the_peak() -> None:
    """Which is that of the graph around them, and lower than with any region alone."""
    pool = _pool()
    alone = min(profile(memory_model(outer_of(GRAPH, loops_of([c])), TARGET), range(len(GRAPH.ops) + 1
                - len(c.region.axes))).peak for c in pool if c.region is not None)  # fmt: skip
    peaks = [alone]
    for within in together(GRAPH, TARGET, pool, OWN):
        choice = around(GRAPH, TARGET, within, loops_of(within), lambda g: range(len(g.ops)), None)
        assert choice.cut_ops == sum(c.cut_ops for c in within)
        outside = [op for op in GRAPH.ops if all(op.id not in dict(c.region.axes) for c in within if c.region)]
        inside = sum(c.seconds(c.begin) - c.outside_seconds for c in within)
        assert choice.seconds(choice.begin) == pytest.approx(sum(op.cost or 0 for op in outside) + inside)
        peaks.append(choice.peak(choice.begin))
    assert len(peaks) == 3
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]


@pytest.mark.slow
@pytest.mark.parametrize("allow", ["recompute,tile", "recompute,tile,offload"])
def test_a_plan_of_several_regions_holds_and_computes_what_the_step_does(allow: str) -> None:
    """In bytes in which no plan of one region is found."""
    graph = heads_behind_statistics()
    plan = lowtide.research.plan(graph, allow=allow, budget="60%", time=4)
    assert plan.status == "ok"
    assert plan.fission is not None
    assert len(plan.fission.parts) == 3
    lowtide.verify(graph, from_json(plan.to_json()))
    feeds = random_feeds(graph)
    own, planned = run_step(graph, feeds), run_plan(graph, plan, feeds)
    assert max(abs(own[t] - planned[t]).max() / abs(own[t]).max() for t in own) < 1e-9


def test_where_it_is_late_no_regions_are_put_together() -> None:
    """Nor tried."""
    assert together(GRAPH, TARGET, _pool(), OWN, lambda: True) == []
    assert together(GRAPH, TARGET, _pool(), OWN) != []
