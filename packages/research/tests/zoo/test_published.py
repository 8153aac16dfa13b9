"""The zoo beside its papers: multiplications and weights, op mixes, peaks and optima."""

from collections import Counter
from dataclasses import replace
from math import prod
from random import Random
from typing import NamedTuple

import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.graph import Graph, Kind
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.zoo.builder import Net
from lowtide_research.zoo.randwire import SEEDS, barabasi_albert, draw_connected, erdos_renyi, watts_strogatz
from lowtide_research.zoo.values import NetOp
from support.plain_orders import reverse_post_order

KIB = 1024

WIRING = {"ws": 31_320_379_094, "er": 1_017_266_822_581, "ba": 104_279_756_465}
"""Sum over the edges of the published seeds, each weighted with its place."""


def optimum(graph: Graph) -> int:
    """Least peak in bytes under the strict target; it must be proven."""
    plan = lowtide.research.plan(graph, target="strict", time=20)
    assert plan.optimal
    return plan.peak_bytes


def own_peak(graph: Graph) -> int:
    """Peak in bytes of the file order under the strict target."""
    return profile(memory_model(graph, BUILT_IN["strict"]), range(len(graph.ops))).peak


def activations_fused(graph: Graph) -> Graph:
    """The graph with each ReLU inside the op before it, where that op has no other reader: as Zhong et al. count."""
    into = {
        op.inputs[0]: op.outputs[0]
        for op in graph.ops
        if op.type == "Relu" and len(graph.consumers[op.inputs[0]]) == 1 and op.inputs[0] in graph.producer
    }
    ops = [
        replace(op, outputs=tuple(into.get(t, t) for t in op.outputs))
        for op in graph.ops
        if not (op.type == "Relu" and op.inputs[0] in into)
    ]
    return replace(graph, ops=tuple(ops), tensors=tuple(t for t in graph.tensors if t.id not in into))


def hourglasses(graph: Graph) -> list[int]:
    """Positions of the ops that every other one must run before or after, and past which only their output lives."""
    n = len(graph.ops)
    ancestors: list[set[int]] = []
    for before in graph.predecessors:
        ancestors.append(set(before).union(*(ancestors[p] for p in before)))
    waists = []
    for v in range(n):
        later = {w for w in range(n) if v in ancestors[w]}
        crossing = any(p in ancestors[v] for w in later for p in graph.predecessors[w])
        if len(later) + len(ancestors[v]) == n - 1 and not crossing:
            waists.append(v)
    return waists


@pytest.mark.parametrize(
    ("name", "macs", "weights"),
    [
        ("swiftnet", 57.4e6, 249.7e3),
        ("randwire_cifar10", 111.0e6, 1.2e6),
        ("randwire_cifar100", 160.0e6, 4.7e6),
        ("darts_imagenet_14_cells", None, 4.7e6),
        ("hrnet_w18_small_v1:side=224", None, 13.2e6),
        ("hrnet_w18_small_v2:side=224", None, 15.6e6),
        ("hrnet_w32:side=224", None, 41.2e6),
        ("amoebanet_d:filters=208", None, 82e6),
        ("amoebanet_d:filters=416", None, 318e6),
        ("unet", None, 31.0e6),
        ("unet_plus_plus", None, 9.04e6),
        ("vovnet_39", None, 22.6e6),
        ("segformer_b0", None, 3.8e6),
        ("vae_decoder", None, 49.5e6),
    ],
)
def test_size_is_within_five_percent(name: str, macs: float | None, weights: float) -> None:
    """SERENITY's Table 1 (MLSys 2020); tables of HRNet, GPipe, U-Net++, VoVNet, SegFormer; the known sizes of two."""
    net = zoo.build(name)
    assert macs is None or net.macs() == pytest.approx(macs, rel=0.05)
    assert net.parameters() == pytest.approx(weights, rel=0.05)


def test_darts_multiplications_are_those_of_the_released_network() -> None:
    """530 M in convolutions and classifier; the 574.0 M that DARTS and SERENITY print are another way of counting.

    With four operations for each element that a batch normalisation writes, as PyTorch-OpCounter counts (readers of
    DARTS's code got 523 to 545 M by this and other rules, quark0/darts#46), it is within 5 %. By that rule SwiftNet is
    too, and both RandWires are 6 % above Table 1.
    """
    within = {"darts_imagenet_14_cells": 574.0e6, "swiftnet": 57.4e6}
    above = {"randwire_cifar10": 111.0e6, "randwire_cifar100": 160.0e6}
    counted = {name: operations(zoo.build(name)) for name in (*within, *above)}
    assert zoo.build("darts_imagenet_14_cells").macs() == 529_911_552
    assert all(counted[name] == pytest.approx(printed, rel=0.05) for name, printed in within.items())
    assert all(1.05 < counted[name] / printed < 1.07 for name, printed in above.items())


def operations(net: Net) -> int:
    """Multiplications, and four operations for each normalised element: of all convolutions but depthwise ones."""
    convolutions = [node for node in net.nodes if node.type == "Conv" and not is_depthwise(node)]
    return net.macs() + 4 * sum(prod(node.output.shape) for node in convolutions)


def is_depthwise(node: NetOp) -> bool:
    """Whether a convolution has as many groups as channels: of a separable one the pointwise half is normalised."""
    return dict(node.attributes).get("group", 1) == node.output.shape[1]


STATES = {
    "nasnet_a_cifar": (1_786_624, 4381),
    "nasnet_a_imagenet": (4_336_096, 106),
    "amoebanet_a_cifar": (1_179_648, 3237),
    "amoebanet_a_imagenet": (4_428_032, 43),
    "darts_cifar": (1_401_408, 464),
    "darts_imagenet": (3_842_176, 23),
    "pnasnet_5_cifar": (1_516_160, 1020),
    "pnasnet_5_imagenet": (4_745_344, 273),
}
"""Optimum in bytes, and states that refute one byte less, on the networks of HMCOS's generator, measured there."""


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_cell_networks_are_hmcos_s(name: str) -> None:
    """A plain search needs as many states as on the networks that HMCOS's generator makes: they are the same."""
    peak, states = STATES[name]
    assert refutation_states(memory_model(zoo.build(name).graph(), BUILT_IN["hmcos"]), peak - 1) == states


def refutation_states(model: MemoryModel, budget: int) -> int:
    """Sets of ops that can have run within a budget, where an op that lowers or keeps what is live runs at once."""
    before = model.graph.predecessors
    after: list[list[int]] = [[] for _ in before]
    touched: list[list[int]] = [[] for _ in before]
    for v, needed in enumerate(before):
        for u in needed:
            after[u].append(v)
    for s, storage in enumerate(model.storages):
        for v in storage.users:
            touched[v].append(s)

    def effect(v: int, left: list[int]) -> tuple[int, int]:
        """Bytes that the op needs, and leaves, beyond what is live."""
        plus, minus, saving = model.workspace[v], 0, 0
        for s in touched[v]:
            storage = model.storages[s]
            if left[s] == len(storage.users) and not storage.at_start:
                plus += storage.size
            if left[s] == 1 and not storage.at_end:
                minus += storage.size
                saving = max([saving, *(o.saving for o in model.overwrites[v] if o.storage == s)])
        return plus - saving, plus - model.workspace[v] - minus

    def run(v: int, state: State) -> State:
        left, waits, ready = list(state.left), list(state.waits), [w for w in state.ready if w != v]
        live = state.live + effect(v, left)[1]
        for s in touched[v]:
            left[s] -= 1
        for w in after[v]:
            waits[w] -= 1
            if not waits[w]:
                ready.append(w)
        return State(state.done | 1 << v, live, left, waits, ready)

    def settled(state: State) -> State:
        for v in state.ready:
            needs, leaves = effect(v, state.left)
            if state.live + needs <= budget and leaves <= 0:
                return settled(run(v, state))
        return state

    waits = [len(needed) for needed in before]
    live = sum(storage.size for storage in model.storages if storage.at_start)
    left = [len(storage.users) for storage in model.storages]
    stack = [settled(State(0, live, left, waits, [v for v, n in enumerate(waits) if not n]))]
    seen = {stack[0].done}
    while stack:
        state = stack.pop()
        assert state.ready, "the budget can be kept"
        for v in state.ready:
            if state.live + effect(v, state.left)[0] <= budget:
                following = settled(run(v, state))
                if following.done not in seen:
                    seen.add(following.done)
                    stack.append(following)
    return len(seen)


class State(NamedTuple):
    """Ops that have run, what is live, and, of the rest: users per storage, ops waited for, ops that are ready."""

    done: int
    live: int
    left: list[int]
    waits: list[int]
    ready: list[int]


@pytest.mark.slow
def test_darts_peak_is_that_of_zhong() -> None:
    """Zhong et al., Table II, Darts: 1764 KB in file order and at best, at the start of the network."""
    graph = activations_fused(zoo.build("darts_imagenet_14_cells").graph())
    assert own_peak(graph) == optimum(graph) == 1764 * KIB


def test_flops_are_twice_the_macs() -> None:
    """The graph's ops carry what `macs` adds up; other ops carry nothing."""
    net = zoo.build("unet")
    graph = net.graph()
    assert sum(op.flops or 0 for op in graph.ops) == 2 * net.macs()
    assert {op.type for op in graph.ops if op.flops is not None} == {"Conv", "ConvTranspose"}


def test_amoebanet_d_is_torchgpipes() -> None:
    """Its export by torch has these ops, this own-order peak and this optimum."""
    graph = zoo.build("amoebanet_d").graph()
    assert Counter(op.type for op in graph.ops) == {
        "Conv": 279, "Relu": 275, "BatchNormalization": 275, "Add": 110, "AveragePool": 67, "Concat": 26,
        "MaxPool": 8, "Slice": 8, "Pad": 4, "Reshape": 1, "Gemm": 1,
    }  # fmt: skip
    assert own_peak(graph) == 22_478_848
    assert optimum(graph) == 17_059_840


@pytest.mark.slow
@pytest.mark.parametrize(("name", "peak"), [("hrnet_w18_small_v1", 6_422_528), ("hrnet_w32", 9_633_792)])
def test_hrnet_optimum_is_that_of_its_export(name: str, peak: int) -> None:
    """At 224x224 the file order is optimal, and its peak that of timm's network exported by torch."""
    graph = zoo.build(f"{name}:side=224").graph()
    assert own_peak(graph) == optimum(graph) == peak


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("hrnet_w18_small_v1", 6368),
        ("hrnet_w18_small_v2:bottleneck=32", 6396),
        ("hrnet_w32:bottleneck=32", 6592),
    ],
)
def test_hrnet_gives_the_figures_of_zhong(name: str, least: int) -> None:
    """Zhong et al. (ICCAD 2023): RPO 7936 KB (Table II), optimum 6368 and 6396 KB (Table V).

    The larger two need a first stage of 32 channels, which the paper does not state. For W32 the paper prints 7296
    (Table II) and 6368 (Table V, the figure of v1); 6592 is proven.
    """
    graph = activations_fused(zoo.build(name).graph())
    assert profile(memory_model(graph, BUILT_IN["strict"]), reverse_post_order(graph)).peak == 7936 * KIB
    assert optimum(graph) == least * KIB


@pytest.mark.parametrize(
    ("cell", "ops", "own", "least", "growth"),
    [("a", 21, 376_320, 200_704, 12), ("b", 19, 100_352, 81_536, 9), ("c", 22, 45_472, 32_928, 7)],
)
def test_swiftnet_cells_have_serenitys_sizes(cell: str, ops: int, own: int, least: int, growth: int) -> None:
    """21, 19 and 22 nodes, least peaks 200.7 (Figure 12), 82 and 33 KB; rewriting would make 33, 28 and 29 nodes."""
    graph = zoo.build(f"swiftnet_cell_{cell}").graph()
    assert len(graph.ops) == ops
    assert (own_peak(graph), optimum(graph)) == (own, least)
    added = 0
    for op in graph.ops:
        if op.type == "Concat" and graph.tensor_by_id[op.outputs[0]].kind is not Kind.OUTPUT:
            reader = graph.op_by_id[graph.consumers[op.outputs[0]][0]]
            depthwise = graph.tensor_by_id[reader.inputs[1]].shape[1] == 1  # type: ignore[index]
            added += (len(op.inputs) - 1) * (2 if depthwise else 1)
    assert added == growth


def test_swiftnet_divides_at_its_cells() -> None:
    """62 ops, and the single-tensor cuts divide them into 21, 19 and 22 (SERENITY, Table 2)."""
    graph = zoo.build("swiftnet_cells").graph()
    assert hourglasses(graph) == [20, 39, 61]
    assert optimum(graph) == 200_704


@pytest.mark.parametrize("name", ["randwire_cifar10", "randwire_cifar100"])
def test_randwire_cells_are_those_of_the_network(name: str) -> None:
    """A cell alone has the ops and sizes that it has in the network."""
    graph = zoo.build(name).graph()
    for letter in "abc"[: 2 if name == "randwire_cifar10" else 3]:
        cell = zoo.build(f"{name}_cell_{letter}").graph()
        inside = [op for op in graph.ops if op.name.startswith(f"cell_{letter}/")]
        assert [op.type for op in inside] == [op.type for op in cell.ops]
        sizes = [[g.tensor_by_id[op.outputs[0]].size for op in ops] for g, ops in ((graph, inside), (cell, cell.ops))]
        assert sizes[0] == sizes[1]


@pytest.mark.parametrize("kind", ["ws", "er", "ba"])
def test_published_wirings_stay(kind: str) -> None:
    """Seeds 0 to 4 with 32 to 128 nodes are wired as they were when figures were first quoted."""
    draw = {
        "ws": lambda n, r: watts_strogatz(n, 4, 0.75, r),
        "er": lambda n, r: erdos_renyi(n, 0.2, r),
        "ba": lambda n, r: barabasi_albert(n, 5, r),
    }[kind]
    marks = []
    for nodes in (32, 64, 96, 128):
        for seed in SEEDS:
            edges = sorted(draw_connected(nodes, draw, Random(seed)))
            marks.append(sum((i + 1) * (a * nodes + b) for i, (a, b) in enumerate(edges)))
    assert len(set(marks)) == 20
    assert sum((i + 1) * mark for i, mark in enumerate(marks)) == WIRING[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ws", "er", "ba"])
@pytest.mark.parametrize("nodes", [32, 64, 96, 128])
def test_randwire_of_all_sizes(kind: str, nodes: int) -> None:
    """One and three stages of 32 to 128 nodes build, and each node is one separable convolution."""
    for name, stages in ((f"randwire_{kind}", 3), (f"randwire_{kind}_one_stage", 1)):
        graph = zoo.build(f"{name}:nodes={nodes},seed=4").graph()
        convolutions = sum(op.type == "Conv" for op in graph.ops)
        assert convolutions == 2 * nodes * stages + 3
