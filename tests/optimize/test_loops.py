"""Loops along an order: rings against plain sets of positions, the best path against all paths."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.loops import LoopSearch
from lowtide.read import read_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.loops import Loop, LoopRules
from support.loop_brute import Player, inputs_of, intervals, paths, peak_of
from support.small_nets import group_norm, random_net
from support.tflite_builder import SAME, Net
from support.tflite_nets import graph_with_file, random_tflite

LOOPS = BUILT_IN["loops"]
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


@st.composite
def _nets(draw: st.DrawFn, ops: int) -> Graph:
    """A small random network, in TFLite or in ONNX."""

    def pick(options: object) -> object:
        return draw(st.sampled_from(tuple(options)))  # type: ignore[arg-type]

    if draw(st.booleans()):
        return graph_with_file(random_tflite(pick, ops, draw(st.sampled_from(("int8", "float32")))).bytes())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(random_net(pick, ops).SerializeToString())
        return read_model(path)


def chain_net() -> Graph:
    """A convolution, a depthwise one, an addition of what lies before it, and a pool."""
    net = Net()
    x = net.tensor((1, 12, 10, 4))
    a = net.conv(x, 8, (3, 3), (1, 1), SAME)
    b = net.conv(a, 1, (3, 3), (1, 1), SAME, depthwise=True)
    c = net.conv(b, 8, (1, 1))
    d = net.add(a, c)
    net.ends([x], [net.pool(d, "AVERAGE_POOL_2D", (2, 2), (2, 2))])
    return graph_with_file(net.bytes())


def _check_rings(graph: Graph, streamed: frozenset[int]) -> int:
    """Rings of every loop of a network; how many there are."""
    rules, seen = LoopRules(graph, LOOPS), 0
    for _, _, loop in intervals(rules, [op.id for op in graph.ops], streamed):
        if loop.iterations <= 200 and len(loop.ops) <= 5:
            assert _check_rings_of(rules, loop), loop
            seen += 1
    return seen


def test_a_chain_keeps_what_windows_span():
    """Rows: three for a window of three, and the addition's operand as long as its other one is late."""
    graph = chain_net()
    rules = LoopRules(graph, LOOPS)
    found = {
        (begin, end, loop.axes[-1]): [(r.slots, r.over) for r in loop.line_buffers]
        for begin, end, loop in intervals(rules, [op.id for op in graph.ops], inputs_of(graph))
    }
    c = graph.ops[2].outputs[0]
    handed, first, deep, thin, sum_ = found[0, 5, (1,)]
    assert (handed, first, deep) == ((3, None), (3, None), (1, None))
    assert (thin, sum_) == ((2, None), (2, c))  # the addition writes over what lies beside the first convolution
    assert found[0, 2, (1, 2)] == [(2 * 10 + 3, None)]  # what the addition reads as well is whole


def two_ends() -> Graph:
    """A convolution whose result two branches read, each of two ops, to two ends; one adds what it alone makes of the
    input."""
    net = Net()
    x = net.tensor((1, 12, 10, 4))
    a = net.conv(x, 8, (3, 3), (1, 1), SAME)
    b = net.conv(net.conv(a, 8, (3, 3), (1, 1), SAME), 4, (1, 1))
    c = net.add(net.conv(net.conv(x, 8, (1, 1)), 4, (1, 1)), b)
    d = net.conv(net.conv(a, 8, (1, 1)), 4, (3, 3), (1, 1), SAME)
    net.ends([x], [c, d])
    return graph_with_file(net.bytes())


def test_what_the_last_op_needs_nothing_of_keeps_up():
    """The other branch takes rows as they come, and asks for its own operand: no ring is longer than its windows."""
    graph = two_ends()
    rules = LoopRules(graph, LOOPS)
    loop = next(
        loop
        for begin, end, loop in intervals(rules, [op.id for op in graph.ops], frozenset())
        if (begin, end, loop.axes[-1]) == (0, len(graph.ops), (1,))
    )
    own = [r.slots for r in loop.line_buffers if r.over is None]
    assert max(own) == 3
    assert own.count(1) > 1
    assert _check_rings_of(rules, loop)


def _check_rings_of(rules: LoopRules, loop: Loop) -> bool:
    return {r.tensor: r.slots for r in loop.line_buffers if r.over is None} == Player(rules, loop).play()


def group_norm_net() -> Graph:
    """A group norm between reshapes, and a sum over the channels."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(group_norm().SerializeToString())
        return read_model(path)


def test_channels_run_in_the_groups_of_a_norm():
    """The reshape back makes four channels at once: a position is a group; the activation runs by channels again."""
    graph = group_norm_net()
    rules = LoopRules(graph, LOOPS)
    found = {
        (begin, end, loop.axes[-1]): (loop.iterations, [(r.slots, r.slot_bytes) for r in loop.line_buffers])
        for begin, end, loop in intervals(rules, [op.id for op in graph.ops], frozenset())
    }
    channels, plane = (4,), 4 * 4 * 4  # the axis that is summed over
    inside = [(4, plane), (1, 4 * plane), (1, 4 * plane), (1, 4 * plane), (1, plane)]
    assert found[0, 6, channels] == (8, inside)
    assert _check_rings(graph, frozenset()) > 5
    _check_path(graph, frozenset())


@pytest.mark.slow
def test_rings_of_a_chain_are_those_of_plain_sets():
    """Every interval of one network, along every choice of axes, input held and handed over."""
    graph = chain_net()
    assert _check_rings(graph, frozenset()) > 10
    assert _check_rings(graph, inputs_of(graph)) > 10


@pytest.mark.slow
@given(_nets(6))
@settings(max_examples=12, deadline=None, suppress_health_check=SLOW)
def test_rings_are_those_of_plain_sets(graph: Graph):
    """The same of random networks."""
    _check_rings(graph, frozenset())
    _check_rings(graph, inputs_of(graph))


def _check_path(graph: Graph, streamed: frozenset[int]) -> None:
    """The best path has the peak of the graph that it is, and no path has less. Where rings may share memory, it has no
    more than what is said of it, nor than any path of loops whose rings lie side by side."""
    order = [op.id for op in graph.ops]
    rules, memory = LoopRules(graph, LOOPS, share=False), memory_model(graph, LOOPS)
    best = LoopSearch(rules, memory, range(len(order)), Limits(seconds=60), streamed).best()
    every = [peak_of(graph, LOOPS, order, loops) for loops in paths(rules, order, streamed)]
    shared = LoopSearch(LoopRules(graph, LOOPS), memory, range(len(order)), Limits(seconds=60), streamed).best()
    assert (best is None) == (shared is None) == (not every)
    if best is not None and shared is not None:
        assert best.complete
        assert shared.complete
        assert best.peak == peak_of(graph, LOOPS, order, list(best.loops)) == min(every)
        assert peak_of(graph, LOOPS, order, list(shared.loops)) <= shared.peak <= best.peak


@pytest.mark.slow
def test_the_best_path_of_a_chain_is_the_best_of_all():
    """Input held, and handed over."""
    graph = chain_net()
    _check_path(graph, frozenset())
    _check_path(graph, inputs_of(graph))


@pytest.mark.slow
@given(_nets(5))
@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
def test_the_best_path_is_the_best_of_all(graph: Graph):
    """The same of random networks."""
    if len(graph.ops) <= 7:
        _check_path(graph, frozenset())
        _check_path(graph, inputs_of(graph))


def test_within_a_limit_the_fewest_ops_run_in_loops():
    """What is enough is taken, and nothing runs in a loop that need not."""
    graph = chain_net()
    rules, memory = LoopRules(graph, LOOPS), memory_model(graph, LOOPS)
    order = range(len(graph.ops))
    whole = profile(memory, order).peak
    best = LoopSearch(rules, memory, order, Limits(seconds=60)).best()
    some = LoopSearch(rules, memory, order, Limits(seconds=60)).best((whole + best.peak) // 2 if best else 0)
    none = LoopSearch(rules, memory, order, Limits(seconds=60)).best(whole)
    assert best is not None
    assert some is not None
    assert none is not None
    assert none.loops == ()
    assert best.peak <= some.peak <= (whole + best.peak) // 2 < none.peak
    assert 0 < sum(len(loop.ops) for loop in some.loops) <= sum(len(loop.ops) for loop in best.loops)


class _Patience(Limits):
    """A limit that is over once it was asked so many times."""

    def __init__(self, asked: int) -> None:
        super().__init__(seconds=60)
        object.__setattr__(self, "left", [asked])

    def over(self) -> bool:
        """Whether it is."""
        left: list[int] = self.left  # type: ignore[attr-defined]
        left[0] -= 1
        return left[0] < 0


@pytest.mark.slow
def test_a_search_that_is_stopped_says_so():
    """Whenever that is: its path is real, and it is called complete only if it is the best."""
    graph = chain_net()
    rules, memory = LoopRules(graph, LOOPS), memory_model(graph, LOOPS)
    order = [op.id for op in graph.ops]
    for streamed in (frozenset[int](), inputs_of(graph)):
        least = LoopSearch(rules, memory, range(len(order)), Limits(seconds=60), streamed).best()
        assert least is not None
        ends = []
        for asked in (*range(0, 200, 4), 10_000):
            path = LoopSearch(rules, memory, range(len(order)), _Patience(asked), streamed).best()
            if path is not None:
                ends.append(path.complete)
                assert path.peak == peak_of(graph, LOOPS, order, list(path.loops)) >= least.peak
                assert not path.complete or path.peak == least.peak
        assert {*ends} == {True, False}
