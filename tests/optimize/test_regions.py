"""Regions along an order: the core's footprint is the part graph's, and the best way is that of trying all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide import _core
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api.problem import Problem
from lowtide.cost.model import CostModel
from lowtide.cost.signature import of_op
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.regions import (
    LONGEST,
    MOST_STRIPES,
    Bounds,
    PeakCuts,
    best_regions,
    cut_model,
    front_ways,
    way_within,
)
from lowtide.optimize.workspace import PartWorkspaces
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Pace, Region
from lowtide.transform.parts import PartGraph, apply
from support.costs import costs
from support.small_nets import Nets, pyramid, random_net

STRICT = BUILT_IN["strict"]
PACE = st.sampled_from((*PACES, *RECOMPUTED_HALO))
_EARLY = 6
"""Questions after which a search is stopped."""


@st.composite
def _nets(draw: st.DrawFn, sizes: tuple[int, ...]) -> Graph:
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from(sizes)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return read_model(path)


def _region_peak(
    cutter: Cutter, region: Region, target: Target, interval: list[int], order: list[int] | None = None
) -> tuple[int, int]:
    """Highest footprint while an interval's ops or their parts run, and how many run."""
    parts = apply(cutter, [region], order)
    return _peak_of(parts, target, interval), sum(op.id in parts.parts or op.id in interval for op in parts.graph.ops)


def _peak_of(parts: PartGraph, target: Target, interval: list[int]) -> int:
    """Highest footprint while an interval's ops or their parts run."""
    steps = profile(memory_model(parts.graph, target), range(len(parts.graph.ops)))
    return max(steps.footprint[i] for i, op in enumerate(parts.graph.ops) if op.id in parts.parts or op.id in interval)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    _nets((3, 6, 9)),
    st.integers(0, 99),
    st.integers(1, 12),
    st.integers(0, 9),
    st.integers(2, 7),
    st.sampled_from((*PACES, *RECOMPUTED_HALO)),
)
def test_the_core_counts_as_the_part_graph(
    graph: Graph, first: int, many: int, way: int, stripes: int, pace: Pace
) -> None:
    """Bytes of the highest step, how many ops run, and what is cut."""
    cutter = Cutter(graph)
    ids = list(graph.own_order)
    begin = first % len(ids)
    interval = ids[begin : begin + many]
    along = cutter.axes(interval[-1])
    if not along:
        return
    axis = along[way % len(along)]
    model = cut_model(cutter, memory_model(graph, STRICT), range(len(ids)))
    end = begin + len(interval)
    cost = _core.region_cost(model, begin, end, end - 1, axis, stripes, pace)
    axes = cutter.grow(interval, interval[-1], axis)
    assert (cost is None) == (axes is None)
    if cost is None or axes is None:
        return
    assert {ids[i]: a for i, a in enumerate(cost[2]) if a >= 0} == axes
    region = cutter.region(interval, axes, stripes, pace)
    assert cost[:2] == _region_peak(cutter, region, STRICT, interval)


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(_nets((6, 9, 12)), st.sampled_from(("strict", "generic")), st.booleans(), st.randoms(use_true_random=False))
def test_what_is_given_up_is_above_the_limit(graph: Graph, target: str, moved: bool, draw: random.Random) -> None:
    """By bytes that the region takes at the least, also where pieces are loaded and stored; below the limit it takes
    what it takes without one."""
    graph = BUILT_IN[target].as_seen(graph)
    cutter, memory = Cutter(graph), memory_model(graph, BUILT_IN[target])
    model = cut_model(cutter, memory, range(len(graph.ops)), transfers=moved)
    for _ in range(20):
        end = draw.randint(1, len(graph.ops))
        begin = draw.randrange(end)
        axes = cutter.axes(graph.ops[end - 1].id)
        if not axes:
            continue
        of = (model, begin, end, end - 1, draw.choice(axes), draw.choice((2, 3, 4, 5, 8, 16)), draw.choice(PACES))
        cost = _core.region_cost(*of)
        if cost is None:
            continue
        for limit in (cost[0] * draw.randint(30, 99) // 100, cost[0] - 1, cost[0]):
            given_up = _core.region_cost(*of, limit)
            assert given_up is not None
            if limit < cost[0]:
                assert limit < given_up[0] <= cost[0], of[1:]
            else:
                assert given_up == cost, of[1:]


def _regions_to(cutter: Cutter, ids: list[int], end: int, *, every: bool) -> Iterator[tuple[int, list[int], Region]]:
    """Where each region begins that ends with an op, its interval and the region: stripes of every number up to 16, or
    of powers of 2; of those that cut the same rows one."""
    for begin in range(end):
        before: set[Region] = set()
        interval = ids[begin:end]
        for axis in cutter.axes(ids[end - 1]):
            axes = cutter.grow(interval, ids[end - 1], axis)
            if axes is None:
                continue
            for pace in (*PACES, *RECOMPUTED_HALO) if cutter.recompute else PACES:
                for stripes in range(2, 17):
                    if not every and stripes & (stripes - 1):
                        continue
                    region = cutter.region(interval, axes, stripes, pace)
                    if region not in before:
                        before.add(region)
                        yield begin, interval, region


def _lowest(cutter: Cutter, target: Target, order: Sequence[int], *, every: bool) -> int:
    """The lowest peak over all ways along an order, by trying them: stripes of every number, or of powers of 2."""
    graph = cutter.graph
    ids = [graph.ops[i].id for i in order]
    steps = profile(memory_model(graph, target), order)
    best = [0] + [2**62] * len(ids)
    for end in range(1, len(ids) + 1):
        best[end] = max(best[end - 1], steps.footprint[end - 1])
        for begin, interval, region in _regions_to(cutter, ids, end, every=every):
            if best[begin] < best[end]:
                peak, _ = _region_peak(cutter, region, target, interval, ids)
                best[end] = min(best[end], max(best[begin], peak))
    return best[-1]


@pytest.mark.slow
@settings(deadline=None, max_examples=2, suppress_health_check=list(HealthCheck))
@given(_nets((2, 4)))
def test_the_best_way_is_that_of_trying_all(graph: Graph) -> None:
    """No higher than what powers of 2 give in the own order, no lower than what any stripes give in the one that it
    took, and the part graph needs just that."""
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    order = range(len(graph.ops))
    way = best_regions(cutter, memory, order, Limits(60))
    assert way.complete
    assert way.peak <= _lowest(cutter, STRICT, order, every=False)
    assert way.peak >= _lowest(cutter, STRICT, way.order, every=True)
    parts = apply(cutter, way.regions, [graph.ops[i].id for i in way.order])
    assert profile(memory_model(parts.graph, STRICT), range(len(parts.graph.ops))).peak == way.peak


def test_no_lower_peak_than_is_of_use() -> None:
    """Above the least peak that is asked for nothing is cut finer than it has to be; what is interrupted says so."""
    graph = _small()
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    order = range(len(graph.ops))
    whole = profile(memory, order).peak
    assert not best_regions(cutter, memory, order, Limits(60), Bounds(whole)).regions
    free = best_regions(cutter, memory, order, Limits(60))
    asked = best_regions(cutter, memory, order, Limits(60), Bounds((free.peak + whole) // 2))
    assert free.peak < asked.peak <= (free.peak + whole) // 2
    counts = [len(apply(cutter, way.regions).graph.ops) for way in (free, asked)]
    assert counts[1] < counts[0]
    few = best_regions(cutter, memory, order, Limits(60), Bounds(most_ops=counts[1]))
    assert few.peak <= asked.peak
    assert len(apply(cutter, few.regions).graph.ops) <= counts[1]
    stopped = _core.best_path(cut_model(cutter, memory, order), LONGEST, MOST_STRIPES, 0, 0, lambda _: True)
    assert not stopped.complete


def test_regions_between_the_lowest_points_may_be_longer() -> None:
    """All six ops, from the input to the result, though others may have three at the most; no four times as many."""
    graph = _read(pyramid())
    memory, ops = Problem.of(graph, BUILT_IN["generic"]).memory, len(graph.ops)
    model = cut_model(Cutter(graph), memory, range(ops))
    best, long, short = (_core.best_path(model, n, MOST_STRIPES, 0, 0) for n in (LONGEST, 3, 1))
    assert [(r.begin, r.end) for r in long.regions] == [(0, ops)]
    assert long.peak == best.peak < short.peak


def test_ops_that_lie_apart_are_cut_together() -> None:
    """A tensor that two ops read, far from one another in every order of least peak, is never there whole."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 2, 32, 8))
    (wide,) = nets.node("Conv", [x, nets.floats((16, 2, 1, 1))])
    (near,) = nets.node("MaxPool", [wide], kernel_shape=[4, 4], strides=[4, 4])
    (near,) = nets.node("Conv", [near, nets.floats((16, 16, 1, 1))])
    nets.node("GlobalAveragePool", [near])  # sees all rows of all channels
    nets.node("AveragePool", [wide], kernel_shape=[4, 4], strides=[4, 4])
    graph = _read(nets)
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    order = range(len(graph.ops))
    along = _core.best_path(cut_model(cutter, memory, order), LONGEST, MOST_STRIPES, 0, 0)
    way = best_regions(cutter, memory, order, Limits(60))
    sizes = {t.id: t.size for t in graph.tensors}
    whole = sizes[graph.ops[0].outputs[0]]
    assert way.peak < whole <= along.peak
    assert way.order != tuple(order)
    assert all(set(graph.predecessors[i]) <= set(way.order[:k]) for k, i in enumerate(way.order))


def _read(nets: Nets) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(nets.model().SerializeToString())
        return read_model(path)


def _small() -> Graph:
    return _read(pyramid())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "onnxruntime"])
def test_the_peak_is_that_of_the_parts(target: str, tmp_path: Path) -> None:
    """Of random networks, to the byte, in the order in which the stripes run."""
    cut = 0
    for seed in range(40):
        source = tmp_path / f"{seed}.onnx"
        generator = random.Random(seed)
        source.write_bytes(random_net(generator.choice, generator.choice((6, 10, 16))).SerializeToString())
        try:
            graph = read_model(source)
        except InputError:
            continue  # onnx types a network otherwise as a whole than node by node
        problem = Problem.of(graph, BUILT_IN[target])
        own = range(len(graph.ops))
        cutter = Cutter(graph)
        way = best_regions(cutter, problem.memory, own, Limits(seconds=20))
        assert way.peak <= max(profile(problem.memory, own).footprint)
        if way.regions:
            cut += 1
            ids = [graph.ops[i].id for i in way.order]
            parts = Problem.of(apply(cutter, way.regions, ids).graph, problem.target)
            assert way.peak == max(profile(parts.memory, range(len(parts.graph.ops))).footprint), seed
    assert cut > 15


def _least(cutter: Cutter, cost: CostModel, target: Target, within: int, *, every: bool) -> int:
    """The lowest peak over all ways along the own order that take no longer than `within`, by trying them."""
    graph = cutter.graph
    ids = list(graph.own_order)
    steps = profile(memory_model(graph, target), range(len(ids)))
    whole = [cost.op(op)[0] for op in ids]
    fronts: list[set[tuple[int, int]]] = [{(0, 0)}] + [set() for _ in ids]
    for end in range(1, len(ids) + 1):
        here = {(max(p, steps.footprint[end - 1]), t + whole[end - 1]) for p, t in fronts[end - 1]}
        for begin, interval, region in _regions_to(cutter, ids, end, every=every):
            parts = apply(cutter, [region])
            time = cost.parts(parts).nanoseconds - sum(whole) + sum(whole[begin:end])
            before = [(p, t + time) for p, t in fronts[begin] if t + time <= within]
            if any(not any(q <= p and s <= t for q, s in here) for p, t in before):
                peak = _peak_of(parts, target, interval)
                here |= {(max(p, peak), t) for p, t in before}
        fronts[end] = {(p, t) for p, t in here if not any(q <= p and s <= t and (q, s) != (p, t) for q, s in here)}
    return min(p for p, t in fronts[-1] if t <= within)


@pytest.mark.slow
@settings(deadline=None, max_examples=4, suppress_health_check=list(HealthCheck))
@given(_nets((2, 3)), st.sampled_from((0.0, 0.05, 0.2, 1.0, 5.0)))
def test_the_bound_on_time_holds_and_is_used(graph: Graph, more: float) -> None:
    """No way within the predicted time has a lower peak, of those in powers of 2; the part graph takes just that."""
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    cost = CostModel(costs([], launch=1e-6, byte=1e-9), cutter)
    order, within = range(len(graph.ops)), int(cost.untiled().nanoseconds * (1 + more))
    way = best_regions(cutter, memory, order, Limits(60), Bounds(most_nanoseconds=within), cost)
    assert way.nanoseconds <= within
    assert cost.parts(apply(cutter, way.regions)).nanoseconds == way.nanoseconds
    assert _least(cutter, cost, STRICT, within, every=True) <= way.peak
    assert way.peak <= _least(cutter, cost, STRICT, within, every=False)


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    _nets((3, 6, 9)),
    st.integers(0, 99),
    st.integers(1, 12),
    st.integers(0, 9),
    st.integers(2, 7),
    st.sampled_from((*PACES, *RECOMPUTED_HALO)),
)
def test_the_core_adds_up_time_as_the_part_graph(
    graph: Graph, first: int, many: int, way: int, stripes: int, pace: Pace
) -> None:
    """To the nanosecond, with parts that were measured and parts that were not."""
    cutter = Cutter(graph)
    ids = list(graph.own_order)
    begin = first % len(ids)
    interval = ids[begin : begin + many]
    along = cutter.axes(interval[-1])
    axis = along[way % len(along)] if along else 0
    axes = cutter.grow(interval, interval[-1], axis) if along else None
    if axes is None:
        return
    parts = apply(cutter, [cutter.region(interval, axes, stripes, pace)])
    meanings = Cutter(parts.graph)
    entries = [
        of_op(parts.graph, op, meanings.meaning(op.id)).entry((1 + k) * 1.7e-6)
        for k, op in enumerate(parts.graph.ops)
        if k % 3 == 0 and (op.id not in parts.parts or parts.parts[op.id].of is not None)
    ]
    cost = CostModel(costs(entries), cutter)
    model = cut_model(cutter, memory_model(graph, STRICT), range(len(ids)), cost)
    found = _core.region_cost(model, begin, begin + len(interval), begin + len(interval) - 1, axis, stripes, pace)
    assert found is not None
    outside = sum(cost.op(op)[0] for op in ids if op not in interval)
    assert found[3] + outside == cost.parts(parts).nanoseconds


def test_a_search_that_is_stopped_early_has_cut() -> None:
    """A long network with a cost file: intervals between low points are looked at first, and are enough."""
    nets = Nets(lambda options: options[0])
    x = nets.input((1, 2, 16, 8))
    for _ in range(12):
        (wide,) = nets.node("Conv", [x, nets.floats((16, 2, 3, 3), 0.3)], pads=[1, 1, 1, 1])
        (wide,) = nets.node("Relu", [wide])
        (x,) = nets.node("Conv", [wide, nets.floats((2, 16, 3, 3), 0.1)], pads=[1, 1, 1, 1])
    graph = _read(nets)
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    order, cost = range(len(graph.ops)), CostModel(costs([], launch=1e-9, byte=1e-9), cutter)
    calls = iter(range(10**9))
    model = cut_model(cutter, memory, order, cost)
    way = _core.best_path(model, LONGEST, MOST_STRIPES, 0, 0, lambda _: next(calls) >= _EARLY, 0)
    assert not way.complete
    assert way.peak < profile(memory, order).peak


def test_ways_fall_and_take_longer() -> None:
    """With a cost file: ever lower, and all but the first, which cuts nothing, ever longer."""
    graph = _small()
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    cost = CostModel(costs([], launch=1e-6), cutter)
    found = front_ways(cutter, memory, range(len(graph.ops)), Limits(60), cost)
    assert len(found) > 2
    assert found[0].nanoseconds == cost.untiled().nanoseconds
    for one, other in pairwise(found):
        assert other.peak < one.peak
        assert other.nanoseconds > one.nanoseconds or one is found[0]
        assert cost.parts(apply(cutter, other.regions)).nanoseconds == other.nanoseconds


@pytest.mark.slow
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(_nets((9,)))
def test_ops_that_are_alike_have_parts_that_are(graph: Graph) -> None:
    """What kernels of parts take is worked out once for ops of a kind, and is what each of them takes by itself."""
    cutter, target = Cutter(graph), BUILT_IN["onnxruntime"]
    shared = PartWorkspaces(cutter, target)
    for op in graph.ops:
        for axis in cutter.axes(op.id):
            assert shared.of(op, axis) == PartWorkspaces(Cutter(graph), target).of(op, axis)


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(_nets((3, 6, 9)), st.integers(2, 12), st.floats(0.3, 1.0))
def test_what_is_cut_at_the_peak_is_below_the_limit(graph: Graph, longest: int, share: float) -> None:
    """In the part graph, too: each region is below the limit, no other step is higher than it was, and where a way is
    below the limit everywhere nothing stays above it."""
    cutter, memory = Cutter(graph), memory_model(graph, STRICT)
    order = range(len(graph.ops))
    before = profile(memory, order)
    limit = int(share * before.peak)
    way = PeakCuts(cutter, memory, order, longest).below(limit, Limits(60.0))
    assert way is not None
    parts = apply(cutter, way.regions, [graph.ops[i].id for i in way.order])
    steps = profile(memory_model(parts.graph, STRICT), range(len(parts.graph.ops)))
    for region in way.regions:
        inside = [graph.op_by_id[cut.op] for cut in region.cuts]
        assert any(before.footprint[graph.index_of[op.id]] > limit for op in inside) or len(inside) > 1
    above = {op.id for op, size in zip(parts.graph.ops, steps.footprint, strict=True) if size > limit}
    assert above <= {op.id for op, size in zip(graph.ops, before.footprint, strict=True) if size > limit}
    assert steps.peak <= before.peak
    own = before.footprint
    everywhere = way_within(cutter, memory, order, Limits(60.0), limit, own)
    if everywhere is not None and longest >= len(graph.ops):
        assert not above


def test_what_no_region_lowers_stays_as_it_is() -> None:
    """Below a byte there is nothing; below the peak there is something, and the hard search agrees."""
    graph = _read(pyramid())
    cutter, memory, order = Cutter(graph), memory_model(graph, STRICT), range(len(graph.ops))
    cuts = PeakCuts(cutter, memory, order, len(graph.ops))
    own = profile(memory, order)
    nothing = cuts.below(1, Limits(60.0))
    assert nothing is not None
    assert (nothing.regions, nothing.peak) == ((), own.peak)
    assert way_within(cutter, memory, order, Limits(60.0), 1, own.footprint) is None
    some = cuts.below(own.peak - 1, Limits(60.0))
    assert some is not None
    hard = way_within(cutter, memory, order, Limits(60.0), own.peak - 1, own.footprint)
    assert hard is not None
    assert (some.regions, some.peak, some.ops) == (hard.regions, hard.peak, hard.ops)
