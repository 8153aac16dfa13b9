"""The bound over all regions: below every plan that cuts, reached where that can be, and seen by the checker too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.optimize.region_bound import RegionBounds, region_bound
from lowtide.read import read_model
from lowtide.report.text import plan_text
from lowtide.rewrites import RegionBound
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.transform.cut import PACES, Cut, Cutter, Region
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import apply
from lowtide.verify.check.last_results import end_needs
from lowtide.verify.check.regions import _Search  # type: ignore[reportPrivateUsage]
from stress_bounds import flaws
from support.forked_nets import forked_net
from support.small_nets import Nets, random_net

TARGETS = ("strict", "generic", "onnxruntime")


def _read(model: Nets | object) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        proto = model.model() if isinstance(model, Nets) else model
        path.write_bytes(proto.SerializeToString())  # type: ignore[union-attr]
        return read_model(path)


@st.composite
def _nets(draw: st.DrawFn) -> Graph:
    return _read(random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((3, 6, 10)))))


def _heads(draw: st.DrawFn) -> Nets:
    """A trunk that several results are made of, each behind some ops of its own: the last one may be any of them."""
    nets = Nets(lambda options: next(iter(options)))
    size = draw(st.sampled_from((4, 6)))
    at = nets.input((1, 3, size, size))
    wide = draw(st.sampled_from((2, 4, 8)))
    (at,) = nets.node("Conv", [at, nets.floats((wide, 3, 3, 3), 0.2)], pads=[1, 1, 1, 1])
    for _ in range(draw(st.integers(1, 4))):
        head = at
        for kind in draw(st.lists(st.sampled_from(("Relu", "Sigmoid", "depthwise", "dense", "swish")), max_size=3)):
            if kind == "depthwise":
                (head,) = nets.node("Conv", [head, nets.floats((wide, 1, 3, 3), 0.2)], pads=[1] * 4, group=wide)
            elif kind == "dense":
                (head,) = nets.node("Conv", [head, nets.floats((wide, wide, 1, 1), 0.2)])
            elif kind == "swish":
                (gate,) = nets.node("Sigmoid", [head])
                (head,) = nets.node("Mul", [head, gate])
            else:
                (head,) = nets.node(kind, [head])
        pieces = []
        for _ in range(draw(st.sampled_from((1, 1, 2, 3)))):
            made, step = draw(st.integers(1, 9)), draw(st.sampled_from((1, 2)))
            (piece,) = nets.node("Conv", [head, nets.floats((made, wide, 1, 1), 0.2)], strides=[step, step])
            if draw(st.booleans()):
                (head,) = nets.node("Neg", [head])
            pieces.append(piece)
        piece = pieces[-1]
        if len(pieces) > 1:
            flat = [nets.node("Reshape", [piece, nets.ints(1, -1)])[0] for piece in pieces]
            (piece,) = nets.node("Concat", flat, axis=1)
        if draw(st.booleans()):
            (piece,) = nets.node("Reshape", [piece, nets.ints(-1)])
    return nets


@st.composite
def _several(draw: st.DrawFn) -> Graph:
    return _read(_heads(draw))


def _peak(graph: Graph, target: Target) -> int:
    """The least peak over all orders, or one near it."""
    memory = memory_model(graph, target)
    return profile(memory, Exact().schedule(memory, Limits(2)).order).peak


def _decisions(cutter: Cutter, draw: random.Random, count: int) -> Iterator[list[Region]]:
    """Regions over intervals of the file order: any axis, any stripes, some of these put together again."""
    ids = list(cutter.graph.own_order)
    for _ in range(count):
        regions, at = [], 0
        while at < len(ids):
            interval = ids[at : at + draw.randint(1, 8)]
            at += len(interval)
            axes = cutter.axes(interval[-1])
            grown = cutter.grow(interval, interval[-1], draw.choice(axes)) if axes and draw.random() < 0.75 else None
            if grown is None:
                continue
            region = cutter.region(interval, grown, draw.choice((2, 3, 5, 16)), draw.choice(PACES))
            last = region.stripes - 1
            kept = [*sorted(draw.sample(range(last), draw.randint(0, last))), last]
            regions.append(Region(tuple(Cut(c.op, c.axis, tuple(c.ends[i] for i in kept)) for c in region.cuts)))
        if regions:
            yield regions


@pytest.mark.slow
@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck.__members__.values()))
@given(_nets() | _several(), st.sampled_from(TARGETS), st.integers(0, 2**32))
def test_no_plan_is_below_it(graph: Graph, name: str, seed: int) -> None:
    """Not the best order of the whole ops, and no order of the parts of random regions; and the checker proves it."""
    target = BUILT_IN[name]
    graph = target.as_seen(graph)
    cutter = Cutter(graph)
    least = []
    for joined in (False, True):
        bounds = RegionBounds(cutter, memory_model(graph, target), materialised=joined)
        at = {op.id: bounds.at(op.id) for op in graph.ops}
        least.append(max(bounds.ends(), *at.values()))
        facts = _Search(graph, target, 0, materialised=joined).facts()
        inputs = facts.sizes(t.id for t in graph.tensors if t.kind is Kind.INPUT and t.id in graph.consumers)
        assert bounds.ends() == inputs or end_needs(facts, bounds.ends())
        for op, value in at.items():
            assert _Search(graph, target, value, materialised=joined).refuted(op)
    of_all, of_joined = least
    assert of_all <= of_joined <= _peak(graph, target)
    for regions in _decisions(cutter, random.Random(seed), 8):
        try:
            parts = apply(cutter, regions, graph.own_order)
        except ValueError:  # a region before and behind an op
            continue
        assert of_joined <= _peak(parts.graph, target), regions
        handed = hand_on(graph, parts)
        if handed is not parts:
            assert of_all <= _peak(handed.graph, target), regions


@st.composite
def _forks(draw: st.DrawFn) -> Graph:
    return _read(forked_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((3, 4, 6)))))


@pytest.mark.slow
@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck.__members__.values()))
@given(_forks(), st.sampled_from(TARGETS))
def test_no_cut_of_a_fork_is_below_it(graph: Graph, name: str) -> None:
    """Where what sees a dimension whole stands beside what goes along it: of the largest regions each, and pairs."""
    found, _, _ = flaws(graph, BUILT_IN[name])
    assert not found


def _forked() -> Nets:
    """`b` is put together for what sees all rows of it, while the difference of `a` and `b` goes with the rows."""
    nets = Nets(lambda options: next(iter(options)))
    (a,) = nets.node("MatMul", [nets.input((1, 8, 4)), nets.floats((4, 24))])
    (e,) = nets.node("Softmax", [a], axis=2)
    (b,) = nets.node("Softmax", [e], axis=2)
    (c,) = nets.node("Softmax", [b], axis=1)
    nets.node("MatMul", [c, nets.floats((24, 1))])
    (d,) = nets.node("Sub", [a, b])
    nets.node("MatMul", [d, nets.floats((24, 1))])
    return nets


def test_behind_a_join_wait_only_readers_of_none_of_its_parts() -> None:
    """The difference may have run when all of `b` is there, so that `a` is held for it if `b` is made whole alone."""
    graph = _read(_forked())
    whole = 8 * 24 * 4
    a, b = graph.ops[0].outputs[0], graph.ops[2].outputs[0]
    bounds = RegionBounds(Cutter(graph), memory_model(graph, BUILT_IN["strict"]))
    (rows,) = bounds.axes(graph.ops[2].id)
    assert bounds.waiting(b, rows) == {graph.ops[3].id}
    assert bounds.concatenated(b, rows) == 2 * whole
    assert bounds.untiled(graph.ops[2].id) == 3 * whole
    columns, sums = (next(x for x in bounds.axes(0) if Cutter(graph).dim(0, a, x) == d) for d in (2, None))
    assert bounds.waiting(a, columns) == {graph.ops[1].id}
    assert bounds.waiting(a, sums) == {graph.ops[1].id, graph.ops[5].id}


def test_the_search_goes_on_below_what_readers_that_wait_would_need() -> None:
    """One region up to both results: seven ops with two stripes, 1,568 B instead of 2,304."""
    graph = _read(_forked())
    plan = lowtide.research.plan(graph, target="strict", allow="tile", time=10)
    assert plan.peak_bytes <= 1568 < 2304 == lowtide.research.plan(graph, target="strict", time=10).peak_bytes
    assert plan.region_bound is not None
    assert plan.region_bound.bytes == 1536
    assert plan.proved_over == "orders"
    assert lowtide.research.plan(graph, target="strict", allow="tile", budget=2303, time=10).status == "ok"


def _squeezed(stride: int = 1) -> Nets:
    """Squeeze and excitation: what is scaled has to be there whole until its mean is known."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 4, 16, 16))
    (a,) = nets.node("Conv", [x, nets.floats((8, 4, 3, 3), 0.2)], pads=[1, 1, 1, 1])
    (mean,) = nets.node("GlobalAveragePool", [a])
    (gate,) = nets.node("Conv", [mean, nets.floats((8, 8, 1, 1), 0.2)])
    (scaled,) = nets.node("Mul", [a, gate])
    nets.node("Conv", [scaled, nets.floats((2, 8, 3, 3), 0.2)], pads=[1, 1, 1, 1], strides=[stride, stride])
    return nets


def test_what_is_scaled_by_its_own_mean_is_there_whole() -> None:
    """In parts it is put together, twice there; whole, it stands beside what it is made of."""
    graph = _read(_squeezed())
    made, mean, gate, scaled, last = (op.id for op in graph.ops)
    bounds = RegionBounds(Cutter(graph), memory_model(graph, BUILT_IN["strict"]), materialised=True)
    first, between = 4 * 16 * 16 * 4, 8 * 16 * 16 * 4
    assert bounds.untiled(made) == first + between
    assert bounds.at(made) == first + between
    for axis in bounds.axes(made):
        assert not bounds.together(made, axis, scaled)
        assert bounds.concatenated(graph.op_by_id[made].outputs[0], axis) == 2 * between
        assert bounds.cut(made, axis) == 2 * between
    assert bounds.together(scaled, 2, last)
    assert mean != gate


def _two_heads() -> Nets:
    """Two results of one tensor, the smaller one by way of another: 4 x 4 of 8, of 8, then of 3 and of 20 channels."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 2, 4, 4))
    (trunk,) = nets.node("Conv", [x, nets.floats((8, 2, 1, 1), 0.2)])
    (deep,) = nets.node("Conv", [trunk, nets.floats((8, 1, 3, 3), 0.2)], pads=[1, 1, 1, 1], group=8)
    nets.node("Conv", [deep, nets.floats((3, 8, 1, 1), 0.2)])
    (other,) = nets.node("Conv", [trunk, nets.floats((8, 1, 3, 3), 0.2)], pads=[1, 1, 1, 1], group=8)
    nets.node("Conv", [other, nets.floats((20, 8, 1, 1), 0.2)])
    return nets


def test_at_the_end_the_last_two_results_are_made_of_something() -> None:
    """If the small one is last, its pieces may be joined beside both; but before, it is to be made beside the large."""
    graph = _read(_two_heads())
    small, large, other = 3 * 16 * 4, 20 * 16 * 4, 8 * 16 * 4
    bounds = RegionBounds(Cutter(graph), memory_model(graph, BUILT_IN["generic"]))
    assert bounds.ends() == small + large + other > small + large + small
    facts = _Search(graph, BUILT_IN["generic"], 0).facts()
    assert end_needs(facts, bounds.ends())
    assert not end_needs(facts, bounds.ends() + 1)
    alone = _read(_wide())
    one = RegionBounds(Cutter(alone), memory_model(alone, BUILT_IN["generic"]))
    assert one.ends() == (8 + 4) * 16 * 16 * 4


def _wide() -> Nets:
    """A result that is larger than what it is made of: in parts it would be there twice."""
    nets = Nets(lambda options: next(iter(options)))
    nets.node("Conv", [nets.input((1, 4, 16, 16)), nets.floats((8, 4, 3, 3), 0.2)], pads=[1, 1, 1, 1])
    return nets


@pytest.mark.slow
def test_a_plan_says_over_what_it_is_least() -> None:
    """A result has to be whole, whatever is cut; where the gate is multiplied in place, only what hands pieces on could
    need less, and here none does; else the plan says how far it is."""
    graph = _read(_wide())
    least = lowtide.research.plan(graph, target="generic", allow="tile", time=10)
    assert least.proved_over == "orders_and_regions"
    assert least.region_bound == RegionBound(bytes=least.peak_bytes, op=None)
    assert "optimal over all orders and tilings" in plan_text(least)
    graph = _read(_squeezed())
    joined = lowtide.research.plan(graph, target="generic", allow="tile", time=10)
    assert joined.proved_over == "orders_and_joined_regions"
    assert joined.region_bound == RegionBound(bytes=joined.peak_bytes, op=0, joined=True)
    assert "all tilings whose regions materialise their outputs" in plan_text(joined)
    change = {"proved_over": "orders_and_regions", "region_bound": RegionBound(bytes=joined.peak_bytes, op=0)}
    with pytest.raises(VerificationError, match="not proved"):
        lowtide.verify(graph, msgspec.structs.replace(joined, **change))
    more = lowtide.research.plan(graph, target="strict", allow="tile", time=10)
    assert more.proved_over == "orders"
    assert more.region_bound is not None
    assert more.region_bound.bytes < more.peak_bytes
    assert f"{more.region_bound.bytes:,} B" in plan_text(more)
    for plan in (joined, more):
        assert "regions" in {check.name for check in lowtide.verify(graph, plan).checks}
    assert lowtide.research.plan(graph, target="generic", time=10).region_bound is None


@pytest.mark.slow
def test_a_bound_that_is_not_proved_is_refused() -> None:
    """Twice as much, another op, an op that is none, a word too much or too little: each is seen."""
    graph = _read(_squeezed())
    plan = lowtide.research.plan(graph, target="strict", allow="tile", time=10)
    bound = plan.region_bound
    assert bound is not None
    wrong = [
        {"region_bound": RegionBound(bytes=2 * bound.bytes, op=bound.op)},
        {"region_bound": RegionBound(bytes=bound.bytes, op=4)},
        {"region_bound": RegionBound(bytes=bound.bytes, op=99)},
        {"region_bound": RegionBound(bytes=bound.bytes, op=None)},
        {"region_bound": RegionBound(bytes=plan.peak_bytes + 1, op=bound.op)},
        {"proved_over": "orders_and_regions"},
        {"proved_over": "orders_and_regions", "region_bound": None},
        {"proved_over": "orders_and_regions", "region_bound": RegionBound(bytes=plan.peak_bytes, op=bound.op)},
    ]
    for change in wrong:
        with pytest.raises(VerificationError) as caught:
            lowtide.verify(graph, msgspec.structs.replace(plan, **change))
        assert caught.value.failure == "regions", change


def test_the_goal_ends_the_search() -> None:
    """The first op at which the goal is reached; without time, what holds at the start and the end."""
    graph = _read(_squeezed())
    memory = memory_model(graph, BUILT_IN["strict"])
    footprint = profile(memory, range(len(graph.ops))).footprint
    best = region_bound(Cutter(graph), memory, footprint, 10**9, Limits(10))
    assert region_bound(Cutter(graph), memory, footprint, best.bytes, Limits(10)) == best
    ends = region_bound(Cutter(graph), memory, footprint, 10**9, Limits(0))
    assert ends.op is None
    assert ends.bytes == 4 * 16 * 16 * 4
