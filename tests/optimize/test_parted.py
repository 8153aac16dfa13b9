"""A region in parts as a search sees it: against the graphs that a plan would be made of, and the front of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.parted import (
    Parted,
    least_peak,
    least_time,
    pareto_front,
    part_counts,
    parted,
    taken_in_turn,
    unmodified,
    widest_gaps,
)
from lowtide.optimize.recompute.sequence import Sequenced, search
from lowtide.optimize.step_regions import step_regions
from lowtide.report.curve import front_text
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.topological import topological
from lowtide.transform.fission import Loop, outer_of
from lowtide_research import zoo
from support.steps import SMALL, random_step

FAMILIES = stand_in("rtx3090.json")[0].families
TARGET = BUILT_IN["generic"]


def _own(graph: Graph) -> Sequence[int]:
    return range(len(graph.ops))


def _choices(seed: int, batch: int = 6) -> tuple[Graph, list[Parted]]:
    graph = priced(random_step(seed, batch=batch), FAMILIES)
    region = step_regions(graph).regions[0]
    choices = parted(graph, TARGET, region, part_counts(region.rows), FAMILIES, _own)
    return graph, [unmodified(graph, TARGET, _own(graph)), *choices]


def test_the_fewest_parts_have_an_order_of_their_own() -> None:
    """Where the order of the number that is taken first is a bad one for them."""
    graph = priced(zoo.build("magis_unet:batch=16,image=16,width=2").graph(), FAMILIES)
    region = step_regions(graph).regions[0]

    def order(inner: Graph) -> Sequence[int]:
        late = any(t.name == "target" and t.shape == (4, 1, 16, 16) for t in inner.tensors)  # four parts
        return topological(dict(enumerate(inner.predecessors)), lambda i: -i if late else i)

    assert taken_in_turn([2, 4, 8])[0] == 4
    (alone,), (bad,) = (parted(graph, TARGET, region, [n], FAMILIES, order) for n in (2, 4))
    several = parted(graph, TARGET, region, [2, 4, 8], FAMILIES, order)
    assert several[0].begin.peak == alone.begin.peak
    assert several[0].spent(bad.order).peak > alone.begin.peak


def test_of_numbers_whose_largest_part_is_alike_the_smallest_counts() -> None:
    """By trying all."""
    for rows in range(2, 40):
        sizes = {n: -(-rows // n) for n in range(2, rows + 1)}
        expected = sorted({size: n for n, size in sorted(sizes.items(), reverse=True)}.values())
        assert part_counts(rows) == expected


@pytest.mark.parametrize("seed", range(20))
def test_peaks_and_seconds_are_those_of_the_graphs(seed: int) -> None:
    """What stands around, with the body's peak as its workspace, in the same order; and all ops, part by part."""
    graph, choices = _choices(seed)
    assert choices[0].seconds(choices[0].begin) == pytest.approx(sum(op.cost or 0 for op in graph.ops))
    for choice in choices[1:]:
        assert choice.region is not None
        assert choice.body is not None
        begin = choice.begin
        outer = outer_of(graph, [Loop(choice.region, begin.peak, 0.0)])
        assert choice.peak(begin) == profile(memory_model(outer, TARGET), _own(outer)).peak
        outside = [op for op in graph.ops if op.id not in dict(choice.region.axes)]
        seconds = sum(op.cost or 0 for op in (*outside, *choice.body.graph.ops))
        assert choice.seconds(begin) == pytest.approx(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_choice_without_runs_again_is_below_what_is_found(seed: int) -> None:
    """Both modes, against all choices as they begin; and the bounds that are asked for are kept."""
    graph, choices = _choices(seed)
    uncut = sum(op.cost or 0 for op in graph.ops)
    for extra in (0.0, 0.5, 2.0, 8.0):
        best = least_peak(choices, uncut * (1 + extra), Limits(0.2))
        assert best is not None
        assert best.parted.seconds(best.spent) <= uncut * (1 + extra) * (1 + 1e-9)
        plain = [c.peak(c.begin) for c in choices if c.seconds(c.begin) <= uncut * (1 + extra) * (1 + 1e-12)]
        assert best.parted.peak(best.spent) <= min(plain)
    highest = choices[0].peak(choices[0].begin)
    for share in (0.95, 0.7, 0.5):
        fitting = [c.seconds(c.begin) for c in choices if c.peak(c.begin) <= share * highest]
        quick = least_time(choices, int(share * highest), Limits(0.2))
        assert quick is not None or not fitting
        if quick is not None:
            assert quick.parted.peak(quick.spent) <= share * highest
            assert quick.parted.seconds(quick.spent) <= min(fitting, default=float("inf"))


def test_a_front_falls_and_grows_dearer() -> None:
    """Of all choices; and as a table."""
    _, choices = _choices(4)
    points, complete = pareto_front(choices, Limits(10.0))
    assert complete
    peaks = [c.peak(s) for c, s in points]
    seconds = [c.seconds(s) for c, s in points]
    assert peaks == sorted(set(peaks), reverse=True)
    assert seconds == sorted(set(seconds))
    told = lowtide.research.front(random_step(4, batch=6), allow="recompute,tile", time=5)
    assert any(point.parts > 1 for point in told.points)
    assert "ops tiled" in front_text(told)


def test_a_front_is_of_one_thing() -> None:
    """Cuts alone are `curve`'s, and a cost file is for steps."""
    for how in ({"allow": "tile"}, {"cost": stand_in("rtx3090.json")[0]}):
        with pytest.raises(InputError, match="a Pareto front needs"):
            lowtide.research.front(random_step(1, batch=4), **how)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_the_quick_search_lacks_the_time_for_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Running again alone is cheaper than parts here, and is not dropped for want of a plan in no time at all."""
    graph = priced(zoo.build(f"magis_bert_base:{SMALL['magis_bert_base']}").graph(), FAMILIES)
    region = step_regions(graph).regions[0]
    choices = parted(graph, TARGET, region, part_counts(region.rows), FAMILIES, _own)
    uncut = unmodified(graph, TARGET, _own(graph))
    budget = int(0.8 * uncut.peak(uncut.begin))
    alone = least_time([uncut], budget, Limits(0.8))

    def starved(sequence: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> SimpleNamespace:
        result = search(sequence, order, budget, limits)
        enough = limits.seconds > 0.2
        return SimpleNamespace(found=result.found and enough, order=result.order, peak=result.peak, cost=result.cost)

    monkeypatch.setattr("lowtide.optimize.parted._QUICK", 0.0)
    monkeypatch.setattr("lowtide.optimize.parted.search", starved)
    best = least_time([uncut, *choices], budget, Limits(2.4))
    assert alone is not None
    assert best is not None
    assert alone.parted.seconds(alone.spent) < min(c.seconds(c.begin) for c in choices)
    assert best.parted.seconds(best.spent) <= alone.parted.seconds(alone.spent)


@pytest.mark.slow
def test_where_all_quick_searches_find_nothing_the_rest_of_the_time_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are nearest to the budget are searched for longer."""
    graph = priced(zoo.build(f"magis_bert_base:{SMALL['magis_bert_base']}").graph(), FAMILIES)
    region = step_regions(graph).regions[0]
    choices = parted(graph, TARGET, region, part_counts(region.rows), FAMILIES, _own)
    budget = min(c.peak(c.begin) for c in choices) - 1  # without runs again none is within it

    def starved(sequence: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> SimpleNamespace:
        result = search(sequence, order, budget, replace(limits, seconds=min(limits.seconds, 0.8)))
        found = result.found and limits.seconds > 0.2
        return SimpleNamespace(found=found, order=result.order, peak=result.peak, cost=result.cost)

    monkeypatch.setattr("lowtide.optimize.parted._QUICK", 0.0)
    monkeypatch.setattr("lowtide.optimize.parted.search", starved)
    best = least_time(choices, budget, Limits(2.4))
    assert best is not None
    assert best.parted.peak(best.spent) <= budget


def test_however_late_it_is_there_are_the_numbers_of_micro_batches() -> None:
    """Those that they make in the same time: no search for both is above them for want of it."""
    graph, _ = _choices(0, batch=24)
    region = step_regions(graph).regions[0]
    counts = part_counts(region.rows)
    alone = [n for n in counts if n & (n - 1) == 0]
    for most in range(1, 9):
        made = []
        for numbers in (counts, alone):
            asked = iter(range(most))
            late = parted(graph, TARGET, region, numbers, FAMILIES, _own, over=lambda: next(asked, None) is None)  # noqa: B023
            made.append({choice.count for choice in late})
        assert made[1] <= made[0]


def test_however_late_it_is_a_few_numbers_are_made_far_apart() -> None:
    """In the same ascending order, and the same choices; together with others no region is tried."""
    graph, choices = _choices(0, batch=16)
    region = step_regions(graph).regions[0]
    counts = part_counts(region.rows)
    late = parted(graph, TARGET, region, counts, FAMILIES, _own, over=lambda: True)
    assert [choice.count for choice in late] == sorted(taken_in_turn(counts)[:3])
    assert sorted(widest_gaps(counts)) == sorted(taken_in_turn(counts)) == counts
    same = {choice.count: choice for choice in choices[1:]}
    assert all(choice.begin == same[choice.count].begin for choice in late)


def test_what_alone_meets_a_budget_is_given_the_time_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the step as it stands: one that meets nothing so far takes a quarter, and what it leaves is not lost."""
    _, choices = _choices(3, batch=16)
    budget = min(c.peak(c.begin) for c in choices) - 1
    given: list[tuple[int, float]] = []

    of = {id(choice.sequence): choice for choice in choices}

    def within(sequence: object, order: Sequence[int], room: int, limits: Limits) -> SimpleNamespace:
        choice = of[id(sequence)]
        given.append((choice.cut_ops, limits.seconds))
        cost = choice.begin.units * 9 - len(given)
        return SimpleNamespace(found=choice.cut_ops == 0, order=choice.order, peak=room, cost=cost)

    monkeypatch.setattr("lowtide.optimize.parted.search", within)
    best = least_time(choices, budget, Limits(60))
    assert best is not None
    assert best.parted.cut_ops == 0
    assert len(given) > 3
    *_, missed, last = given
    assert missed[0] > 0
    assert missed[1] <= 15
    assert last == (0, pytest.approx(60, abs=5))
