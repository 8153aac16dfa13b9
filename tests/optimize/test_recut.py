"""Regions cut anew where the peak of ordered parts is: lower, what was low stays, and the numbers are the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.handed import forwardable
from lowtide.optimize.recut import chains, realised, recuts, region_windows, with_regions
from lowtide.optimize.regions import best_regions
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import PartGraph, apply
from lowtide.write.onnx_parts import write_onnx_parts
from support.onnx_builder import saved
from support.small_nets import Nets, random_net

GENERIC = BUILT_IN["generic"]
WIDE_BYTES = 4 * 32 * 16 * 8
"""Of the wide tensor of a block."""


def _first(options: Any) -> Any:
    return next(iter(options))


def _blocks(count: int) -> Nets:
    """Blocks with a wide tensor each, which rows can cut."""
    nets = Nets(_first)
    at = nets.input((1, 4, 16, 8))
    for _ in range(count):
        (wide,) = nets.node("Conv", [at, nets.floats((32, 4, 1, 1), 0.3)])
        (active,) = nets.node("Relu", [wide])
        (at,) = nets.node("Conv", [active, nets.floats((4, 32, 1, 1), 0.3)])
    return nets


def _parts(graph: Graph, cutter: Cutter, stripes: Sequence[int]) -> PartGraph:
    """The blocks, each in so many stripes."""
    regions = []
    for k, count in enumerate(stripes):
        ops = [graph.ops[i].id for i in range(3 * k, 3 * k + 3)]
        axes = cutter.grow(ops, ops[-1], 2)
        assert axes is not None
        regions.append(cutter.region(ops, axes, count))
    return apply(cutter, regions)


def _peak(parts: PartGraph) -> int:
    return profile(memory_model(parts.graph, GENERIC), range(len(parts.graph.ops))).peak


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """Three blocks."""
    return read_model(saved(_blocks(3).model(), tmp_path_factory.mktemp("recut")))


def test_what_regions_and_whole_ops_need(graph: Graph) -> None:
    """The steps of a region are from its first part to its join; all others are of ops that run whole."""
    cutter = Cutter(graph)
    parts = replace(_parts(graph, cutter, (4, 2, 8)))
    two = apply(cutter, (parts.regions[0], parts.regions[2]))
    memory = memory_model(two.graph, GENERIC)
    footprint = profile(memory, range(len(two.graph.ops))).footprint
    now = realised(graph, two, memory)
    names = [op.name for op in two.graph.ops]
    windows = region_windows(two)
    assert [names[end - 1].endswith("/join") for _, end in windows[:1]] == [True]
    assert windows[0][1] + 3 == windows[1][0]
    assert now.regions == tuple(max(footprint[a:b]) for a, b in windows)
    assert set(now.untiled) == {op.id for op in graph.ops[3:6]}
    assert [now.untiled[op.id] for op in graph.ops[3:6]] == list(footprint[windows[0][1] : windows[1][0]])
    assert now.peak == max(footprint)
    assert now.order == tuple(range(len(graph.ops)))


def test_regions_that_are_low_stay_and_others_are_cut_finer(graph: Graph) -> None:
    """Of three blocks in 8, 2 and 4 stripes the second is cut anew, and the third once it is the highest."""
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    parts = _parts(graph, cutter, (8, 2, 4))
    peaks = [_peak(parts)]
    for _ in range(8):
        ordered = memory_model(parts.graph, GENERIC)
        again = next(recuts(cutter, memory, parts, ordered, Limits(20), 0), None)
        if again is None or _peak(again) >= peaks[-1]:
            break
        kept = [r for r, size in zip(parts.regions, realised(graph, parts, ordered).regions, strict=True)
                if size <= _peak(again)]  # fmt: skip
        assert set(kept) <= set(again.regions)
        parts = again
        peaks.append(_peak(parts))
    assert peaks[0] > WIDE_BYTES / 2 > 1.5 * peaks[-1]
    assert sorted(peaks, reverse=True) == peaks


def test_where_no_way_leads_below_regions_as_high_are_cut_finer(graph: Graph) -> None:
    """Each pace is tried once, in twice as many stripes; nothing beyond the most stripes, or below what is of use."""
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    parts = _parts(graph, cutter, (2, 2, 2))
    ordered = memory_model(parts.graph, GENERIC)
    found = list(recuts(cutter, memory, parts, ordered, Limits(20), _peak(parts)))
    assert found
    now = realised(graph, parts, ordered)
    high = sum(size == now.peak for size in now.regions)
    for again in found:
        assert sorted(r.stripes for r in again.regions) == [2] * (3 - high) + [4] * high
    finest = _parts(graph, cutter, (16, 16, 16))
    ordered = memory_model(finest.graph, GENERIC)
    assert all(_peak(again) >= 0 for again in recuts(cutter, memory, finest, ordered, Limits(20), _peak(finest)))


@pytest.mark.parametrize("stripes", [(4, 2, 8), (8, 8, 8), (2, 16, 4)])
def test_a_region_in_its_own_place_changes_nothing(graph: Graph, stripes: Sequence[int]) -> None:
    """Each region anew as it was, pieces handed on: the same parts run in the same order as before."""
    cutter = Cutter(graph)
    parts = hand_on(graph, _parts(graph, cutter, stripes))
    now = realised(graph, parts, memory_model(parts.graph, GENERIC))
    for k, region in enumerate(parts.regions):
        kept = [other for j, other in enumerate(parts.regions) if j != k]
        again = with_regions(cutter, parts, now, kept, [region])
        assert again.regions == parts.regions
        assert [op.name for op in again.graph.ops] == [op.name for op in parts.graph.ops]


def test_regions_that_hand_on_are_of_one_chain(graph: Graph) -> None:
    """All three blocks; the last two where the first runs whole; none where all is joined."""
    cutter = Cutter(graph)
    parts = _parts(graph, cutter, (4, 2, 8))
    assert chains(graph, parts) == []
    assert chains(graph, hand_on(graph, parts)) == [frozenset(range(3))]
    later = apply(cutter, parts.regions[1:])
    assert chains(graph, hand_on(graph, later)) == [frozenset(range(2))]


def test_chains_are_cut_anew_together(graph: Graph) -> None:
    """One region of the chain is too coarse: parts that need less, of which no ops are lost."""
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    for stripes in ((8, 2, 8), (2, 8, 8)):
        parts = hand_on(graph, _parts(graph, cutter, stripes))
        ordered = memory_model(parts.graph, GENERIC)
        found = list(recuts(cutter, memory, parts, ordered, Limits(20), 0))
        assert min(_peak(again) for again in found) < _peak(parts)
        assert all(len({op for r in again.regions for op in r.of}) == len(graph.ops) for again in found)


def _run_recuts(path: Path, cutter: Cutter, parts: PartGraph) -> None:
    """Every candidate for parts that are cut anew, beside the network."""
    pytest.importorskip("onnxruntime", reason="part graphs are run in onnxruntime, which is not installed")
    from support.part_runs import RELATIVE, difference, feeds

    memory = memory_model(cutter.graph, GENERIC)
    for again in recuts(cutter, memory, parts, memory_model(parts.graph, GENERIC), Limits(20), 0):
        out = path.parent / "again.onnx"
        write_onnx_parts(path, again, [op.id for op in again.graph.ops], out)
        assert difference(path, out, feeds(path)) <= RELATIVE


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_recut_networks_that_hand_on_compute_the_same(seed: int, tmp_path: Path) -> None:
    """Random networks in coarse regions that hand on, then anew: every candidate is run beside the network."""
    path = saved(random_net(random.Random(seed).choice, 12), tmp_path)
    graph = read_model(path)
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    forwarded = forwardable(cutter)
    way = best_regions(cutter, memory, range(len(graph.ops)), Limits(10), forwarded=forwarded)
    parts = hand_on(graph, apply(cutter, way.regions, [graph.ops[i].id for i in way.order]))
    _run_recuts(path, cutter, parts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_recut_networks_compute_the_same(seed: int, tmp_path: Path) -> None:
    """Random networks, cut in two stripes, then anew: every candidate is run beside the network."""
    path = saved(random_net(random.Random(seed).choice, 12), tmp_path)
    graph = read_model(path)
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    way = best_regions(cutter, memory, range(len(graph.ops)), Limits(10))
    regions = []
    for region in way.regions:
        ops = [cut.op for cut in region.cuts]
        regions.append(cutter.region(ops, {cut.op: cut.axis for cut in region.cuts}, 2))
    parts = apply(cutter, regions)
    _run_recuts(path, cutter, parts)


@pytest.mark.slow
def test_a_plan_is_no_higher_than_the_search_along_the_order_alone(tmp_path: Path) -> None:
    """Planned, verified, within the ops that were asked for."""
    path = saved(_blocks(4).model(), tmp_path)
    graph = read_model(path)
    way = best_regions(Cutter(graph), memory_model(graph, GENERIC), range(len(graph.ops)), Limits(10))
    plan = lowtide.research.plan(path, allow="tile", time=5)
    assert plan.peak_bytes <= way.peak
    assert lowtide.verify(path, plan).checks
    few = lowtide.research.plan(path, allow="tile", time=5, max_ops=30)
    assert len(few.order) <= 30
    assert few.peak_bytes >= plan.peak_bytes


def test_without_regions_the_way_is_one_from_whole_ops(graph: Graph) -> None:
    """Nothing is cut yet: the blocks are, as along any order."""
    cutter, memory = Cutter(graph), memory_model(graph, GENERIC)
    parts = apply(cutter, ())
    again = next(recuts(cutter, memory, parts, memory_model(parts.graph, GENERIC), Limits(20), 0))
    assert _peak(again) < _peak(parts)
