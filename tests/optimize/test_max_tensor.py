"""The largest tensor: the core's limit is that of the part graph, and a plan keeps it wherever trying all does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide import _core
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.optimize.regions import best_regions, cut_model
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Pace, Region
from lowtide.transform.parts import PartGraph, apply
from support.small_nets import random_net

STRICT = BUILT_IN["strict"]


def limited(size: int) -> Target:
    """Rules under which no tensor may have more bytes."""
    return replace(STRICT, max_tensor=size)


@st.composite
def _nets(draw: st.DrawFn, sizes: tuple[int, ...]) -> Graph:
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from(sizes)))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return read_model(path)


def _largest(parts: PartGraph, interval: Sequence[int]) -> int:
    """Bytes of the largest tensor that an interval's operators, or what became of them, make between operators."""
    made = {t for op in parts.graph.ops if op.id in parts.parts or op.id in interval for t in op.outputs}
    return max((t.size for t in parts.graph.tensors if t.id in made and t.kind is Kind.ACTIVATION), default=0)


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
def test_the_core_sees_the_largest_tensor(
    graph: Graph, first: int, many: int, way: int, stripes: int, pace: Pace
) -> None:
    """A region counts as higher than all others under a limit below its largest tensor, and as it is under that."""
    cutter, ids = Cutter(graph), list(graph.own_order)
    begin = first % len(ids)
    interval = ids[begin : begin + many]
    along = cutter.axes(interval[-1])
    axes = cutter.grow(interval, interval[-1], along[way % len(along)]) if along else None
    if axes is None:
        return
    axis, end = along[way % len(along)], begin + len(interval)
    parts = apply(cutter, [cutter.region(interval, axes, stripes, pace)])
    largest = _largest(parts, interval)

    def cost(target: Target) -> int:
        model = cut_model(cutter, memory_model(graph, target), range(len(ids)))
        found = _core.region_cost(model, begin, end, end - 1, axis, stripes, pace)
        assert found is not None
        return found[0]

    free = cost(STRICT)
    assert cost(limited(max(1, largest))) == free
    if largest > 1:
        assert cost(limited(largest - 1)) > 2 * free


def _regions(cutter: Cutter, ids: list[int], end: int) -> list[tuple[int, list[int], Region]]:
    """Every region that ends at a position, in as many stripes as there can be: none has smaller tiles."""
    found = []
    for begin in range(end):
        interval = ids[begin:end]
        for axis in cutter.axes(interval[-1]):
            axes = cutter.grow(interval, interval[-1], axis)
            if axes is not None and interval[0] in axes:
                found += [(begin, interval, cutter.region(interval, axes, 128, pace)) for pace in PACES]
    return found


def _least(graph: Graph) -> int:
    """Bytes of the largest tensor of the choice of regions along the file order for which that is smallest: trying
    all."""
    cutter, ids = Cutter(graph), list(graph.own_order)
    best = [0]
    for end in range(1, len(ids) + 1):
        untiled = _largest(apply(cutter, []), [ids[end - 1]])
        best.append(max(best[end - 1], untiled))
        for begin, interval, region in _regions(cutter, ids, end):
            if best[begin] < best[end]:
                best[end] = min(best[end], max(best[begin], _largest(apply(cutter, [region]), interval)))
    return best[-1]


@pytest.mark.slow
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(_nets((3, 4, 5)))
def test_the_smallest_limit_is_that_of_trying_all(graph: Graph) -> None:
    """Regions are found under the smallest limit that any choice of regions along the order keeps."""
    least = _least(graph)
    if least == 0:
        return
    cutter, memory = Cutter(graph), memory_model(graph, limited(least))
    way = best_regions(cutter, memory, range(len(graph.ops)), Limits(60))
    assert way.complete
    parts = apply(cutter, way.regions, [graph.ops[i].id for i in way.order])
    assert memory.target.above_limit(parts.graph) == 0
