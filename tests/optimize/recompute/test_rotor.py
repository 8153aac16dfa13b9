"""Checkpoints of chains: tables against all persistent sequences, graphs as blocks, refusals with names."""

from __future__ import annotations

import heapq
from math import comb
from random import Random

import pytest

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.blocks import Chain, best_chain
from lowtide.optimize.recompute.rotor import Rotor, Stages, Tables, without_idle
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, peak_of
from lowtide.stop import Limits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.recompute import footprints_of_runs
from support.chains import chain_with_skips, step_of_a_chain
from support.sequences import STRICT, least_cost, own


def stages(rng: Random, n: int) -> Stages:
    """Of a chain, at random."""
    boundary = tuple(rng.randint(1, 4) for _ in range(n))
    saved = tuple(b + rng.randint(0, 4) for b in boundary)
    passing = tuple(rng.randint(1, 9) for _ in range(n))
    saving = tuple(p + rng.randint(0, 2) for p in passing)
    resident = tuple(rng.randint(0, 3) for _ in range(n))
    return Stages(
        boundary, saved, passing, saving, tuple(rng.randint(1, 9) for _ in range(n)),
        tuple(b + rng.randint(0, 3) for b in boundary), tuple(s + rng.randint(0, 3) for s in saved),
        tuple(s + d + rng.randint(1, 4) for s, d in zip(saved, resident, strict=True)), resident,
    )  # fmt: skip


def least_persistent(at: Stages, most: int) -> float:
    """Cost of the cheapest sequence of passing, saving and going back within `most` bytes, by all states.

    A state is how many blocks have yet to go back, of which blocks the input is kept, which ones are saved, and whose
    input is there until the next step alone. What is kept or saved stays until its block goes back.
    """
    n = len(at.saved)
    start = (n, frozenset([0]), frozenset[int](), -1)
    heap: list[tuple[int, int, tuple[int, frozenset[int], frozenset[int], int]]] = [(0, 0, start)]
    best: set[object] = set()
    number = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if state in best:
            continue
        best.add(state)
        left, kept, saved, moving = state
        if not left:
            return cost
        t = left - 1
        bytes_of = sum(at.boundary[k - 1] for k in kept if k) + sum(at.saved[k] for k in saved)
        following = []
        for k in range(left):
            stored = k in kept or k - 1 in saved
            if not stored and moving != k:
                continue
            here = bytes_of + (at.boundary[k - 1] if not stored else 0)
            if here + at.pass_peak[k] + at.resident[t] <= most and k < t:
                following.append((at.passing[k], (left, kept, saved, k + 1)))
                following.append((at.passing[k], (left, kept | {k + 1}, saved, -1)))
            if k not in saved and here + at.save_peak[k] + at.resident[t] <= most:
                following.append((at.saving[k], (left, kept if stored else kept | {k}, saved | {k}, -1)))
        if t in saved and (t in kept or t - 1 in saved) and bytes_of - at.saved[t] + at.back_peak[t] <= most:
            following.append((at.back[t], (t, kept - {t}, saved - {t}, -1)))
        for extra, after in following:
            number += 1
            heapq.heappush(heap, (cost + extra, number, after))
    return float("inf")


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_tables_are_the_least_of_all_persistent_sequences(n: int):
    """At every number of bytes."""
    rng = Random(n)
    for _ in range(12):
        at = stages(rng, n)
        tables = Tables.of(at, at.most_bytes, at.most_bytes, Limits(20))
        assert tables is not None
        for most in range(at.most_bytes + 1):
            assert tables.cost[0, n - 1][most] == least_persistent(at, most), (at, most)


def test_binomial_checkpoints():
    """Where all blocks are alike and saving one takes all but c places, as many runs again as Griewank and Walther's
    schedule has for c checkpoints, the first of them what goes in: r n - C(c + r, r - 1), r the least with
    n <= C(c + r, r). Here what goes in is free, and what goes into the block at hand is not."""
    n, big = 12, 40
    ones = (1,) * n
    at = Stages(ones, (big,) * n, ones, ones, (0,) * n, ones, (big,) * n, (big,) * n, (0,) * n)
    tables = Tables.of(at, n * big, n * big, Limits(20))
    assert tables is not None
    for checkpoints in range(1, 7):
        r = next(r for r in range(1, n + 1) if n <= comb(checkpoints + r, r))
        again = r * n - comb(checkpoints + r, r - 1)
        assert tables.cost[0, n - 1][big + checkpoints] - n == again, checkpoints


def test_a_chain_with_skips_has_blocks_between_them():
    """Each block of three ops whose last adds what went in is one, its way back with it; to the first nothing goes in,
    and the loss is with the last."""
    problem = chain_with_skips(4)
    chain = best_chain(problem, range(len(problem.ops)), 100)
    assert isinstance(chain, Chain)
    assert [len(block.there) for block in chain.blocks] == [1, 2, 3, 3, 4]
    assert [len(block.back) for block in chain.blocks] == [0, 3, 3, 3, 3]
    values = chain.problem.values
    assert [values[block.boundary].maker for block in chain.blocks[:-1]] == [0, 2, 5, 8]


def test_of_many_blocks_the_shortest_neighbours_are_one():
    """Down to as many as are asked for."""
    problem = step_of_a_chain(9)
    chain = best_chain(problem, range(18), 3)
    assert isinstance(chain, Chain)
    assert len(chain.blocks) == 3
    assert [i for block in chain.blocks for i in block.there] == [*range(10)]


def test_a_step_within_its_square_root():
    """Nine ops there and nine back: what brute force over all sequences finds, or one run more."""
    problem = step_of_a_chain(6)
    for budget in range(4, 9):
        result = Rotor().repeat(problem, range(12), budget, Limits(10))
        assert result.order, budget
        assert peak_of(problem, result.order) <= budget
        least = least_cost(problem, budget)
        assert least is not None
        assert least <= len(result.order)
    assert not Rotor().repeat(problem, range(12), 2, Limits(10)).order


@pytest.mark.slow
def test_sequences_of_graphs_fit_and_cost_no_less_than_the_least():
    """Steps with skips, outputs on the way and ops that run once; as verify's own walk has it."""
    rng, met = Random(4), 0
    for _ in range(40):
        problem = random_step(rng)
        graph, count = problem.model.graph, len(problem.ops)
        single, peak = least_possible(problem)[0], max(problem.core().footprints(range(count)))
        budget = rng.randint(single, max(single, peak))
        result = Rotor(slots=60).repeat(problem, range(count), budget, Limits(5))
        if not result.order:
            assert result.ended == "complete"
            continue
        ids = [graph.ops[i].id for i in result.order]
        assert set(ids) == {op.id for op in graph.ops}
        assert all(ids.count(graph.ops[i].id) == 1 for i, op in enumerate(problem.ops) if op.once)
        assert max(footprints_of_runs(graph, work_out(graph, STRICT), ids)) <= budget
        met += len(ids) > count
    assert met >= 6


def random_step(rng: Random) -> Sequenced:
    """A chain of ops with skips, and a way back that reads at random of what each block has."""
    tensors, ops, depth = [Tensor(0, rng.randint(1, 4))], [Op(0, (), (0,), cost=3)], rng.randint(3, 8)
    for k in range(1, depth):
        reads = {k - 1, *([rng.randrange(max(0, k - 3), k)] if rng.random() < 0.4 else [])}
        kind = Kind.OUTPUT if rng.random() < 0.1 else Kind.ACTIVATION
        tensors.append(Tensor(k, rng.randint(1, 6), kind))
        label = "random" if rng.random() < 0.15 else "op"
        ops.append(Op(k, tuple(sorted(reads)), (k,), label, type=label, cost=rng.randint(1, 7)))
    for k in range(depth):
        made = depth + k
        reads = {made - 1, *([depth - 1 - k] if rng.random() < 0.7 else [])}
        reads |= {depth - 2 - k} if k < depth - 1 and rng.random() < 0.5 else set()
        tensors.append(Tensor(made, rng.randint(1, 4), Kind.OUTPUT if k == depth - 1 else Kind.ACTIVATION))
        ops.append(Op(made, tuple(sorted(reads)), (made,), cost=rng.randint(1, 7)))
    return own(Graph("step", tuple(tensors), tuple(ops)))


def test_what_is_no_chain_is_refused_by_name():
    """Two values that all other ops read."""
    tensors = [Tensor(k, 1, Kind.OUTPUT if k == 5 else Kind.ACTIVATION) for k in range(6)]
    ops = [Op(k, (), (k,), name) for k, name in enumerate(("left", "right"))]
    ops += [Op(k, tuple(range(k)), (k,), f"op{k}") for k in range(2, 6)]
    reason = Rotor().supports(own(Graph("side", tuple(tensors), tuple(ops))))
    assert reason is not None
    assert reason == "no chain of blocks: what op 0 'left' makes is read beside all else up to op 5 'op5'"
    assert Rotor().supports(step_of_a_chain(4)) is None


def test_runs_of_which_nothing_is_read_are_left_out():
    """But the only one of an op."""
    problem = step_of_a_chain(3)
    assert without_idle(problem, [0, 1, 0, 2, 3, 1, 2, 4, 5]) == [0, 1, 0, 2, 3, 1, 4, 5]


def test_options_are_whole_numbers():
    """By name."""
    with pytest.raises(InputError, match=r"rotor\.slots"):
        Rotor(slots=0)
    with pytest.raises(InputError, match="most_blocks"):
        Rotor(most_blocks=2)
