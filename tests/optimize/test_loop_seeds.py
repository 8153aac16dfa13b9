"""Regions in stripes as the first loops of a search."""

from __future__ import annotations

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.loop_seeds import Seeds, region_seeds
from lowtide.optimize.loops import LoopSearch
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.loops import LoopRules
from support.loop_brute import peak_of
from support.tflite_builder import SAME, Net
from support.tflite_nets import graph_with_file

LOOPS = BUILT_IN["loops"]


def blocks(count: int) -> Graph:
    """The same block so many times: a wide tensor between two thin ones."""
    net = Net()
    x = at = net.tensor((1, 16, 16, 4))
    for _ in range(count):
        wide = net.conv(at, 24, (1, 1))
        at = net.conv(net.conv(wide, 1, (3, 3), (1, 1), SAME, depthwise=True), 4, (1, 1))
    net.ends([x], [at])
    return graph_with_file(net.bytes())


def _search(graph: Graph) -> tuple[LoopSearch, Seeds]:
    rules, memory = LoopRules(graph, LOOPS), memory_model(graph, LOOPS)
    order = range(len(graph.ops))
    seeds = region_seeds(rules, memory, order, Limits(seconds=60))
    assert seeds is not None
    return LoopSearch(rules, memory, seeds.order, Limits(seconds=60)), seeds


def test_regions_are_loops_before_any_is_looked_for():
    """Where the time is up at once, the best path is theirs, and real; where it is not, it is no worse."""
    graph = blocks(3)
    search, seeds = _search(graph)
    assert seeds.complete
    assert seeds.regions
    assert seeds.into(search) == len(seeds.regions)
    search.limits = Limits(seconds=0)
    path = search.best()
    assert path is not None
    assert not path.complete
    order = [graph.ops[k].id for k in seeds.order]
    assert path.peak == peak_of(graph, LOOPS, order, list(path.loops)) < max(search.untiled)
    whole, again = _search(graph)
    again.into(whole)
    best = whole.best()
    assert best is not None
    assert best.complete
    assert best.peak <= path.peak


def test_what_is_no_loop_is_not_taken():
    """Along the channels that a convolution makes: it reads all of those before it."""
    search, _ = _search(blocks(1))
    before = [len(steps) for steps in search.paths.steps]
    assert not search.offer(0, 3, (3,))
    assert [len(steps) for steps in search.paths.steps] == before


def test_equal_loops_are_played_once():
    """Of three equal blocks not more loops are played than of two, beside those that are longer than two."""
    search, _ = _search(blocks(4))
    assert search.best() is not None
    assert len(search.rules.plays) < search.played
