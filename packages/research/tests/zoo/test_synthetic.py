"""The hard synthetic graphs: shape, sizes, what is alive, determinism."""

from collections import Counter

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide_research import zoo

SYNTHETIC = ["gpt_training", "random_width", "series_parallel", "matmul", "grid", "fft", "lstm", "moe"]


def most_alive(graph: Graph) -> int:
    """Most tensors alive at a step of the file order."""
    last = {t: i for i, op in enumerate(graph.ops) for t in op.inputs}
    alive = {t.id for t in graph.tensors if t.kind is Kind.INPUT}
    most = len(alive)
    for i, op in enumerate(graph.ops):
        alive |= set(op.outputs)
        most = max(most, len(alive))
        alive -= {t for t in alive if last.get(t, len(graph.ops)) <= i}
    return most


def test_these_are_the_families() -> None:
    """Seven families, and a training step that has no operators: its refusal says what to do instead."""
    assert all(name in zoo.names() for name in SYNTHETIC)
    for name in SYNTHETIC:
        assert zoo.build(name).macs() == zoo.build(name).parameters() == 0
    assert [name for name in zoo.names() if not zoo.build(name).runnable] == [
        "gpt_training",
        *(name for name in zoo.names() if name.startswith("magis_")),
    ]
    with pytest.raises(InputError, match=r"no ONNX form; write it as \.graph\.json"):
        zoo.build("gpt_training").onnx()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("random_width:width=32,n=100", 131),
        ("random_width:width=16,n=1000,seed=1", 1015),
        ("series_parallel", 1000),
        ("matmul", 32 + 64 + 48 + 15),
        ("matmul:m=5", 50 + 125 + 100 + 24),
        ("grid", 256),
        ("fft", 32 * 5),
        ("lstm", 8 * 30 * 10 + 30),
        ("moe", 4 * (64 * 4 + 3)),
    ],
)
def test_op_counts(name: str, ops: int) -> None:
    """The families have the sizes of the prototype's graphs."""
    assert len(zoo.build(name).graph().ops) == ops


@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_live_width_is_what_the_name_says(width: int) -> None:
    """In file order `width` results are in use, with the one that is made and the few that are read once more."""
    graph = zoo.build(f"random_width:width={width},n=300,seed=2").graph()
    assert width <= most_alive(graph) <= width + 2
    random = graph.ops[:300]
    assert set(Counter(len(op.inputs) for op in random)) == {1, 2, 3}
    assert {t.size for t in graph.tensors} <= set(range(1, 101))


def test_series_parallel_graph_reduces_to_one_edge() -> None:
    """Contracting series and merging parallel edges leaves input to output."""
    graph = zoo.build("series_parallel:n=200,seed=3").graph()
    made = {op.outputs[0]: op.id for op in graph.ops}
    edges = {(made.get(t, -1), op.id) for op in graph.ops for t in op.inputs}
    changed = True
    while changed:
        changed = False
        into, out = Counter(b for _, b in edges), Counter(a for a, _ in edges)
        for v in range(len(graph.ops) - 1):
            if into[v] == out[v] == 1:
                (a,), (b,) = [a for a, w in edges if w == v], [b for w, b in edges if w == v]
                edges -= {(a, v), (v, b)}
                edges.add((a, b))
                changed = True
                break
    assert edges == {(-1, len(graph.ops) - 1)}


@pytest.mark.parametrize(
    ("name", "least"),
    [("fft", 272), ("lstm:layers=2,steps=5", None), ("moe:experts=8,layers=2", None), ("grid:side=8", None)],
)
def test_small_ones_are_proven(name: str, least: int | None) -> None:
    """lowtide proves the small members at once; an in-place butterfly would need 256 bytes, strict ones two more."""
    plan = lowtide.research.plan(zoo.build(name).graph(), target="strict", time=20)
    assert plan.optimal
    assert least is None or plan.peak_bytes == least


@pytest.mark.slow
@pytest.mark.parametrize("family", ["random_width", "series_parallel", "grid", "moe"])
def test_seeds_differ_and_repeat(family: str) -> None:
    """The same seed gives the same graph, another one another."""
    one, same, other = (zoo.build(f"{family}:seed={s}").graph() for s in (5, 5, 6))
    assert one == same
    assert [t.size for t in one.tensors] != [t.size for t in other.tensors]


@pytest.mark.parametrize(("ahead", "most"), [(0, 1), (1, 2)])
def test_gpt_training_keeps_what_the_backward_pass_reads(ahead: int, most: int) -> None:
    """Each parameter is updated once, masks wait for the backward pass, and a forward pass may run ahead of it."""
    graph = zoo.build(f"gpt_training:layers=3,width=64,seq=32,micro=3,ahead={ahead}").graph()
    kinds = Counter(op.type for op in graph.ops)
    assert kinds["Update"] == 3 * 12 + 5
    assert kinds["Cast"] == 3 * kinds["Update"]
    assert kinds["RandomMask"] == 3 * 3 * 3
    begins = [i for i, op in enumerate(graph.ops) if op.type == "PositionEmbedding"]
    ends = [i for i, op in enumerate(graph.ops) if op.type == "GatherGradient"]
    assert max(sum(b <= i for b in begins) - sum(e < i for e in ends) for i in begins) == most
    with pytest.raises(InputError, match="multiple of heads"):
        zoo.build("gpt_training:width=100")


@pytest.mark.slow
def test_gpt_training_of_the_bench() -> None:
    """The instance that the benchmarks place has about 18,000 buffers."""
    graph = zoo.build("gpt_training:layers=72,ahead=1").graph()
    assert len(graph.tensors) == 17_798
