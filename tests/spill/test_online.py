"""TFLite's arena as it is simulated: gaps, stretches, and a run that is given up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.spill.online import Arena, cheapest, furthest, simulate_arena, simulate_arena_until
from lowtide.spill.problem import Memory, spill_problem
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph

STRICT = BUILT_IN["strict"]


def smallest_gap(capacity: int, placed: dict[int, tuple[int, int]], size: int) -> int | None:
    """Byte by byte: the smallest stretch below a resident that is large enough, the lowest of equals; else the top."""
    taken = {b for low, length in placed.values() for b in range(low, low + length)}
    top = max(taken, default=-1) + 1
    gaps: list[tuple[int, int]] = []
    for b in range(top):
        if b in taken:
            continue
        if gaps and gaps[-1][1] + gaps[-1][0] == b:
            gaps[-1] = (gaps[-1][0] + 1, gaps[-1][1])
        else:
            gaps.append((1, b))
    fitting = [gap for gap in gaps if gap[0] >= size]
    if fitting:
        return min(fitting)[1]
    return top if top + size <= capacity else None


def test_the_arena_is_what_its_bytes_say() -> None:
    """Placed, taken out and asked at random; stretches hold who has a byte in them."""
    rng = Random(5)
    for _ in range(60):
        arena, placed = Arena(40), dict[int, tuple[int, int]]()
        for s in range(40):
            size = rng.randint(1, 6)
            low = arena.best_fit(size)
            assert low == smallest_gap(40, placed, size)
            if low is None or (placed and rng.random() < 0.4):
                gone = rng.choice(list(placed))
                assert arena.take(gone) == placed.pop(gone)
                continue
            arena.put(s, low, size)
            placed[s] = (low, size)
            assert dict(arena.placed) == placed
            by_address = sorted(placed, key=lambda s: placed[s])
            assert list(arena.residents) == by_address
            for start, inside in arena.stretches(size):
                meets = [s for s in by_address if placed[s][0] < start + size and sum(placed[s]) > start]
                assert [by_address[k] for k in inside] == meets


def test_a_run_that_is_given_up_has_no_answer() -> None:
    """Over at the n-th question: none; never: as without asking."""
    graph = random_graph(Random(3), 8, plain=True)
    problem = spill_problem(graph, STRICT, (Memory("fast", 0),))
    problem = replace(problem, memories=(Memory("fast", problem.largest_op[0]),))
    order = range(problem.steps)
    for policy in (cheapest, furthest):
        asked = 0

        def third_time() -> bool:
            nonlocal asked
            asked += 1
            return asked == 3

        assert simulate_arena_until(third_time, problem, order, policy) is None
        assert asked == 3
        whole = simulate_arena(problem, order, policy)
        assert simulate_arena_until(lambda: False, problem, order, policy) == whole


@pytest.mark.slow
def test_the_time_is_kept_where_thousands_may_leave(tmp_path: Path) -> None:
    """2,000 tensors of which 133 have to leave: it took 191 s where 5 were given."""
    n = 2000
    tensors = [{"id": k, "size": 1, "kind": "activation"} for k in range(n)]
    tensors += [{"id": k, "size": 1, "kind": "output"} for k in (n, n + 1)]
    ops = [
        {"id": 0, "inputs": [], "outputs": list(range(n))},
        {"id": 1, "inputs": [], "outputs": [n], "after": [0], "workspace": n * 14 // 15},
        {"id": 2, "inputs": list(range(n)), "outputs": [n + 1], "after": [1]},
    ]
    path = tmp_path / "deep.graph.json"
    path.write_text(json.dumps({"name": "deep", "tensors": tensors, "ops": ops}))
    plan = lowtide.research.plan(path, target="strict", memories={"fast": n + n // 15 + 10}, time=1)
    assert plan.traffic_bytes
    assert plan.seconds.schedule < 20  # one, and slack for a machine that does other things besides
