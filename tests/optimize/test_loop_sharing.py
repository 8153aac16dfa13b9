"""Rings that never have anything at once share memory, and no others."""

from __future__ import annotations

from itertools import combinations, permutations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.optimize.loop_sharing import height, shared_places
from lowtide.plan import Plan
from lowtide.rewrites import PlanLineBuffer, PlanLoop
from lowtide.verify.check.loop_play import LoopPlay
from lowtide.verify.check.loops import check_play
from support.loop_files import SLOW, random_file, written
from support.tflite_builder import pointwise

Pair = frozenset[int]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of several tensors are made and read within one turn; a pool adds up behind them."""
    return written(pointwise(), tmp_path_factory.mktemp("sharing"))


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan, the input handed over."""
    return lowtide.research.plan(model, target="loops,alignment=1", allow="row-streaming", stream_input=True, time=20)


def own(loop: PlanLoop) -> dict[int, PlanLineBuffer]:
    """Rings with memory of their own."""
    return {int(t): ring for t, ring in loop.keep.items() if ring.over is None}


def lives(graph: Graph, loop: PlanLoop) -> dict[int, set[int]]:
    """By brute force: the times at which each ring has a position that is being made or is still read."""
    home: dict[int, int] = {}
    for t in loop.keep:
        at = int(t)
        while str(at) in loop.keep and (below := loop.keep[str(at)].over) is not None:
            at = below
        home[int(t)] = at
    made: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    play = LoopPlay(graph, loop)
    for time, event in enumerate(play.events()):
        for t, ((a, b), (c, d)) in event.reads:
            for row in range(a, b):
                for column in range(c, d):
                    last[home.get(t, t), row * play.sizes(t)[1] + column] = time
        for t in event.makes:
            made.setdefault((home.get(t, t), event.position), time)
            last[home.get(t, t), event.position] = time
    result: dict[int, set[int]] = {t: set() for t in own(loop)}
    for (t, position), begin in made.items():
        if t in result:
            result[t] |= set(range(begin, last[t, position] + 1))
    return result


def together(graph: Graph, loop: PlanLoop) -> set[Pair]:
    """Pairs of rings that have something at once."""
    times = lives(graph, loop)
    return {frozenset(pair) for pair in combinations(times, 2) if times[pair[0]] & times[pair[1]]}


def meet(a: PlanLineBuffer, b: PlanLineBuffer) -> bool:
    """Whether two rings share a byte."""
    begin, start = a.offset or 0, b.offset or 0
    return begin < start + b.slots * b.bytes and start < begin + a.slots * a.bytes


def test_rows_of_one_turn_share_memory(model: Path, plan: Plan) -> None:
    """The loop takes less than its rings side by side, and no less than what is ever there at once; verified."""
    graph = lowtide.load(model)
    (loop,) = list(plan.loops or ())
    rings, times = own(loop), lives(graph, loop)
    side_by_side = sum(r.slots * r.bytes for r in rings.values()) + sum(s.bytes for s in loop.sums.values())
    assert loop.kept_bytes is not None
    assert loop.sums
    assert loop.kept_bytes < side_by_side
    ends = max(max(ts) for ts in times.values() if ts) + 1
    there = [sum(r.slots * r.bytes for t, r in rings.items() if k in times[t]) for k in range(ends)]
    assert loop.kept_bytes >= max(there) + sum(s.bytes for s in loop.sums.values())
    lowtide.verify(model, plan, prove=True)


def test_no_other_rings_can(model: Path, plan: Plan) -> None:
    """Each ring put on each other one in turn: `verify`, which knows nothing of when rings have something, refuses just
    those pairs that do at once."""
    graph = lowtide.load(model)
    (loop,) = list(plan.loops or ())
    pairs, refused = together(graph, loop), 0
    rings, end = own(loop), loop.kept_bytes or 0
    wide = sum(r.slots * r.bytes for r in rings.values()) + sum(s.bytes for s in loop.sums.values())
    begin = (plan.workspace_offsets or {})[str(loop.op)]
    assert end < wide
    sums = {t: msgspec.structs.replace(s, offset=begin + wide - s.bytes) for t, s in loop.sums.items()}
    at, apart = begin, dict[str, PlanLineBuffer](loop.keep)
    for t, ring in rings.items():
        apart[str(t)] = msgspec.structs.replace(ring, offset=at)
        at += ring.slots * ring.bytes
    for one, other in permutations(rings, 2):
        room = {**apart, str(one): msgspec.structs.replace(apart[str(one)], offset=apart[str(other)].offset)}
        tried = msgspec.structs.replace(loop, keep=room, sums=sums)
        if any(meet(room[str(one)], room[str(t)]) for t in rings if t not in (one, other)):
            continue
        if frozenset((one, other)) in pairs:
            refused += 1
            with pytest.raises(VerificationError, match=r"no longer live|that it is made of"):
                check_play(graph, tried, play := LoopPlay(graph, tried), play.events())
        else:
            check_play(graph, tried, play := LoopPlay(graph, tried), play.events())
    assert refused


def test_what_is_wrong_with_the_block_is_said(model: Path, plan: Plan) -> None:
    """Too few bytes of it, a ring on a sum, and no word of sharing at all."""
    (loop,) = list(plan.loops or ())
    assert loop.kept_bytes is not None
    (key, added), *_ = loop.sums.items()
    ring = next(iter(own(loop)))
    moved = msgspec.structs.replace(loop.keep[str(ring)], offset=added.offset)
    wrong = {
        "outside": msgspec.structs.replace(loop, kept_bytes=loop.kept_bytes - 1),
        "share memory with": msgspec.structs.replace(loop, keep={**loop.keep, str(ring): moved}),
        "over another line buffer": msgspec.structs.replace(loop, kept_bytes=None),
    }
    assert key in loop.sums
    for why, changed in wrong.items():
        with pytest.raises(VerificationError, match=why):
            lowtide.verify(model, msgspec.structs.replace(plan, loops=[changed]))


def test_places_hold_and_are_few() -> None:
    """Random pieces: those apart lie apart, aligned, in no more than side by side, and often in the least that any
    order of placing gives."""
    draw, least = Random(3), 0
    for _ in range(150):
        sizes = [(t, draw.randint(1, 9)) for t in range(draw.randint(2, 5))]
        apart: dict[int, set[int]] = {t: set() for t, _ in sizes if draw.random() < 0.9}
        for one, other in combinations(range(len(sizes)), 2):
            if draw.random() < 0.5 and one in apart and other in apart:
                apart[one].add(other)
                apart[other].add(one)
        at = dict(shared_places(sizes, apart, 4))
        rounded = {t: -(-size // 4) * 4 for t, size in sizes}
        best = min(_first_fit(order, rounded, apart) for order in permutations(rounded))
        if not at:
            least += best == sum(rounded.values())
            continue
        for one, other in combinations(at, 2):
            alone = one not in apart or other not in apart or other in apart[one]
            assert not alone or at[one] + rounded[one] <= at[other] or at[other] + rounded[other] <= at[one]
        assert all(place % 4 == 0 for place in at.values())
        assert best <= height(at, rounded) < sum(rounded.values())
        least += best == height(at, rounded)
    assert least > 140


def _first_fit(order: tuple[int, ...], sizes: dict[int, int], apart: dict[int, set[int]]) -> int:
    at: dict[int, int] = {}
    for t in order:
        others = [u for u in at if t not in apart or u not in apart or u in apart[t]]
        at[t] = next(b for b in range(1000) if all(b + sizes[t] <= at[u] or at[u] + sizes[u] <= b for u in others))
    return max(at[t] + sizes[t] for t in at)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=SLOW)
def test_rings_of_random_networks_that_share_are_never_there_at_once(data: st.DataObject) -> None:
    """By brute force over single positions; and each plan is verified."""
    with TemporaryDirectory() as folder:
        path = random_file(data, Path(folder), 7)
        graph = lowtide.load(path)
        plan = lowtide.research.plan(path, target="loops,alignment=1", allow="row-streaming", time=10)
        lowtide.verify(path, plan)
        for loop in plan.loops or ():
            rings = own(loop)
            pairs = {pair for pair in map(frozenset, combinations(rings, 2)) if meet(*(rings[t] for t in pair))}
            assert bool(pairs) <= (loop.kept_bytes is not None)
            assert not pairs & together(graph, loop)
