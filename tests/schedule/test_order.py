from random import Random

import pytest

from lowtide.analyse.liveness import profile
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.greedy import Greedy, LiveBytes, Lpmf
from lowtide.schedule.order import Bfs, Dfs, Kahn, Own, Rpo
from lowtide.stop import Limits
from support.models import model_of
from support.random_graphs import random_graph

IN = 10_000
METHODS = (Own(), Rpo(), Kahn(), Dfs(), Bfs(), Lpmf(), Greedy())


def order_of(method: object, graph: Graph, target: str = "strict") -> list[int]:
    """Positions in the order that a method gives."""
    return list(method.schedule(model_of(graph, target), Limits()).order)  # type: ignore[attr-defined]


def graph_of(
    inputs: list[int],
    sizes: list[int],
    reads: list[list[int]],
    outputs: set[int],
    workspace: dict[int, int] | None = None,
) -> Graph:
    """Op i makes tensor i of the size given; tensors IN, IN + 1, ... are the graph's inputs."""
    tensors = [Tensor(IN + k, size, Kind.INPUT) for k, size in enumerate(inputs)]
    tensors += [Tensor(i, s, Kind.OUTPUT if i in outputs else Kind.ACTIVATION) for i, s in enumerate(sizes)]
    ops = [Op(i, tuple(r), (i,), workspace=(workspace or {}).get(i, 0)) for i, r in enumerate(reads)]
    return Graph("hand", tuple(tensors), tuple(ops))


#        0            two branches 0-2-4 and 1-3 that meet in 5; op 6 reads 0 and is dead
#       / \
#      1   2    file order: 0 1 2 3 4 5 6
#      |   |
#      3   4
#       \ /
#        5
BRANCHES = graph_of([4], [8, 2, 1, 2, 1, 2, 3], [[IN], [0], [0], [1], [2], [4, 3], [0]], {5})


def test_own_is_the_order_of_the_file() -> None:
    """Own is 0, 1, 2, ..."""
    assert order_of(Own(), BRANCHES) == [0, 1, 2, 3, 4, 5, 6]


def test_rpo_follows_inputs_in_order() -> None:
    """RPO goes down the first input of 5 first (0 2 4), then the second (1 3); the dead op is last."""
    assert order_of(Rpo(), BRANCHES) == [0, 2, 4, 1, 3, 5, 6]


def test_rpo_takes_outputs_in_file_order_and_respects_after() -> None:
    """Output tensor 2 is visited before 3; the op of 2 waits for the op of 1 without reading it."""
    tensors = (
        Tensor(100, 1, Kind.INPUT),
        Tensor(0, 1),
        Tensor(1, 1),
        Tensor(2, 1, Kind.OUTPUT),
        Tensor(3, 1, Kind.OUTPUT),
    )
    ops = (
        Op(0, (100,), (0,)),
        Op(3, (0,), (3,)),
        Op(1, (100,), (1,)),
        Op(2, (100,), (2,), after=(1,)),
    )
    assert order_of(Rpo(), Graph("after", tensors, ops)) == [2, 3, 0, 1]


def test_kahn_takes_the_lowest_ready() -> None:
    """Kahn by own index gives the file order back."""
    assert order_of(Kahn(), BRANCHES) == [0, 1, 2, 3, 4, 5, 6]


def test_dfs_takes_the_last_ready() -> None:
    """0 makes 1, 2, 6 ready: 1, then what 1 made ready, 3; then 2, 4 and 5; then 6."""
    assert order_of(Dfs(), BRANCHES) == [0, 1, 3, 2, 4, 5, 6]


def test_bfs_takes_the_first_ready() -> None:
    """0 makes 1, 2, 6 ready, in this order; 3 and 4 come behind them."""
    assert order_of(Bfs(), BRANCHES) == [0, 1, 2, 6, 3, 4, 5]


def test_greedy_takes_the_least_footprint() -> None:
    """After 0: op 2 adds 1, op 1 adds 2, op 6 adds 3, so 2; then 4 adds 1; then 1 adds 2.

    Then op 3 adds 2, op 6 adds 3; then op 5 adds 2, op 6 adds 3.
    """
    assert order_of(Greedy(), BRANCHES) == [0, 2, 4, 1, 3, 5, 6]


def test_greedy_counts_in_place() -> None:
    """Under hmcos the Relu 1 runs over its input, so it adds 0 bytes and goes before op 2, which adds 3."""
    tensors = (
        Tensor(100, 4, Kind.INPUT), Tensor(101, 4, Kind.INPUT),
        Tensor(0, 3, Kind.OUTPUT), Tensor(1, 4, Kind.OUTPUT),
    )  # fmt: skip
    graph = Graph("relu", tensors, (Op(0, (100,), (0,), type="Conv"), Op(1, (101,), (1,), type="Relu")))
    assert order_of(Greedy(), graph, "strict") == [0, 1]
    assert order_of(Greedy(), graph, "hmcos") == [1, 0]


def test_lpmf_leaves_least_live_below_the_peak() -> None:
    """The peak so far is 21 (outputs). Op 0 adds 1 and leaves 1 more, op 1 adds 1 and frees 10.

    Both fit, so op 1, which leaves less, is first.
    """
    graph = graph_of([10, 10], [1, 1, 19], [[IN], [IN + 1], [0, 1, IN]], {0, 1, 2})
    assert order_of(Lpmf(), graph) == [1, 0, 2]


def test_lpmf_raises_the_peak_least() -> None:
    """No op fits under the peak so far (the input's 4): op 2 adds 3 bytes, op 0 adds 5, op 1 adds 6.

    With 2 done the peak is 7: op 0 makes it 4 + 3 + 5 = 12 and op 1 13.
    """
    graph = graph_of([4], [5, 6, 3, 0], [[IN], [IN], [IN], [0, 1]], {2})
    assert order_of(Lpmf(), graph) == [2, 0, 1, 3]


def test_lpmf_and_greedy_differ() -> None:
    """Op 0 adds 1 for good; op 1 adds 3, within the peak so far of 13, and frees 10: only LPMF takes it."""
    graph = graph_of([10, 0], [1, 3, 9], [[IN + 1], [IN], [IN + 1]], {0, 1, 2})
    assert order_of(Greedy(), graph) == [0, 1, 2]
    assert order_of(Lpmf(), graph) == [1, 0, 2]


def test_lpmf_counts_workspace() -> None:
    """Equal outputs, but op 0 needs 5 bytes more while it runs, which lifts the peak."""
    graph = graph_of([4], [1, 1], [[IN], [IN]], {0, 1}, {0: 5})
    assert order_of(Lpmf(), graph) == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_orders_are_topological(target: str) -> None:
    """On random graphs every method gives every op once, after all it waits for, and the same again."""
    rng = Random(3)
    for _ in range(150):
        model = model_of(random_graph(rng, rng.randint(1, 14)), target)
        for method in METHODS:
            order = method.schedule(model, Limits()).order
            step = {i: k for k, i in enumerate(order)}
            assert sorted(order) == list(range(len(model.graph.ops)))
            assert all(step[p] < step[i] for i, before in enumerate(model.graph.predecessors) for p in before)
            assert order == method.schedule(model, Limits()).order


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_live_agrees_with_the_profile(target: str) -> None:
    """The costs that the greedies see add up to the footprints and transients of the profile."""
    rng = Random(4)
    for _ in range(200):
        model = model_of(random_graph(rng, rng.randint(1, 12)), target)
        order = Bfs().schedule(model, Limits()).order
        expected, live = profile(model, order), LiveBytes(model)
        stale = {i: live.cost(i) for i in order}
        for step, i in enumerate(order):
            assert stale[i] == live.cost(i), "a cost changed and run() did not say so"
            assert live.live_bytes + live.cost(i)[0] == expected.footprint[step]
            for j in live.run(i):
                stale[j] = live.cost(j)
            held = zip(model.storages, expected.first, expected.last, strict=True)
            assert live.live_bytes == sum(s.size for s, first, last in held if first <= step < last)


def test_greedies_choose_by_their_rule() -> None:
    """At every step the op taken has the least key of all ready ops, each worked out anew."""
    rng = Random(5)
    for _ in range(150):
        model = model_of(random_graph(rng, rng.randint(1, 12)), "hmcos")
        for method in (Greedy(), Lpmf()):
            live, done = LiveBytes(model), set[int]()
            peak = max(live.live_bytes, sum(s.size for s in model.storages if s.at_end))
            for i in method.schedule(model, Limits()).order:
                keys = {}
                for j, before in enumerate(model.graph.predecessors):
                    if j not in done and done.issuperset(before):
                        during, left = live.cost(j)
                        first = max(peak, live.live_bytes + during) if method.name == "lpmf" else during
                        keys[j] = (first, left, j)
                assert keys[i] == min(keys.values())
                peak = max(peak, live.live_bytes + live.cost(i)[0])
                live.run(i)
                done.add(i)


@pytest.mark.slow
def test_deep_and_wide_graphs_are_fast_enough() -> None:
    """A chain of 5,000 ops, and 5,000 ops side by side, pass through every method."""
    n = 5000
    chain = model_of(graph_of([1], [1] * n, [[IN], *([i] for i in range(n - 1))], {n - 1}))
    wide = model_of(graph_of([1], [1 + i % 7 for i in range(n)], [[IN]] * n, set()))
    for method in METHODS:
        assert method.schedule(chain, Limits()).order == tuple(range(n))
        assert len(method.schedule(wide, Limits()).order) == n


def test_a_graph_without_ops_has_the_empty_order() -> None:
    """Every method gives the empty order."""
    graph = Graph("empty", (Tensor(0, 4, Kind.OUTPUT),), ())
    assert all(order_of(method, graph) == [] for method in METHODS)
