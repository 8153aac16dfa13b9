"""Propagation where it is not known of every pair of ops which must run first."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.schedule.method import core_model
from lowtide.target import BUILT_IN
from stress_exact import ALL_ON, sample, solve
from support.brute import optimum
from support.random_graphs import random_graph

SLOW = {**ALL_ON, "beams": False, "cut": False, "best_first": False, "reversed": False}
"""A search that takes its time, so that propagation has a say."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_with_a_window_of_one_word_it_says_what_holds(seed: int) -> None:
    """Of 160 ops pairs are known within 64 numbers only; cuts still are of sets of ops that can have run first."""
    graph = random_graph(Random(seed), 160, width=12, views=0, in_place=0.2)
    core, n = core_model(memory_model(graph, BUILT_IN["strict"])), len(graph.ops)
    least = solve(core, n)
    assert least.stopped == "proof"
    found = solve(core, n, SLOW, first_slice=1, seconds=3.0, reach_memory_bytes=1)
    assert found.lower_bound <= least.peak <= found.peak
    assert found.cuts > 100


def scans(layers: int, steps: int) -> Graph:
    """Layers of a state-space model whose scan is unrolled: per step a row of three tensors, and the state goes on."""
    tensors = [Tensor(0, 32, Kind.INPUT)]
    ops: list[Op] = []

    def op(kind: str, inputs: list[int], size: int, last: bool = False) -> int:
        tensors.append(Tensor(len(tensors), size, Kind.OUTPUT if last else Kind.ACTIVATION))
        ops.append(Op(len(ops), tuple(inputs), (tensors[-1].id,), "", kind))
        return tensors[-1].id

    x = 0
    for layer in range(layers):
        wide = op("MatMul", [x], 8 * steps)
        decay = op("Exp", [op("Split", [wide], 64 * steps)], 64 * steps)
        drive = op("Mul", [op("Outer", [wide], 64 * steps), op("Tile", [wide], 4 * steps)], 64 * steps)
        reader = op("Split", [wide], 2 * steps)
        state, rows = op("Gather", [drive], 64), []
        for _ in range(1, steps):
            kept = op("Mul", [op("Gather", [decay], 64), state], 64)
            state = op("Add", [kept, op("Gather", [drive], 64)], 64)
            rows.append(op("MatMul", [state, op("Gather", [reader], 2)], 4))
        x = op("Concat", [*rows, wide], 32, layer == layers - 1)
    return Graph("scans", tuple(tensors), tuple(ops))


@pytest.mark.slow
def test_scans_are_refuted_in_the_first_long_turns() -> None:
    """Four layers of twenty-four steps: states for all their interleavings, and a budget that propagation refutes."""
    core = core_model(memory_model(graph := scans(4, 24), BUILT_IN["generic"]))
    found = solve(core, len(graph.ops), {**ALL_ON, "demand": False}, seconds=60.0)
    assert (found.stopped, found.direction) == ("proof", "propagation")
    assert found.states < 250_000


@pytest.mark.parametrize("index", range(12))
def test_beams_drawn_again_never_lie(index: int) -> None:
    """Nothing but beams, in one turn long enough for draws: an order, no better than the best, the same each time."""
    _, graph, target = sample(7, index)
    core, n = core_model(memory_model(graph, target)), len(graph.ops)
    off = dict.fromkeys(ALL_ON, False)
    found = [solve(core, n, {**off, "beams": True}, first_slice=80_000) for _ in range(2)]
    assert optimum(graph, target) <= found[0].peak == core.peak(found[0].order)
    assert sorted(found[0].order) == list(range(n))
    assert (found[0].order, found[0].beam_states) == (found[1].order, found[1].beam_states)
