"""The contest's statement, its evaluator beside the planner's prices, plans beside all plans, and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide_research.contest.bound import lower_bound
from lowtide_research.contest.cover import cover_bound, group_bound
from lowtide_research.contest.evaluate import InfeasibleSolution, evaluate
from lowtide_research.contest.plan import Planner
from lowtide_research.contest.prices import Group, Price, Steps, tile_order
from lowtide_research.contest.reader import Op, Problem, Step, read_problem, read_solution, write_solution


def pointwise(side: int, ops: list[tuple[list[int], int, int]], capacity: int, bandwidth: int = 10) -> Problem:
    """Square tensors; operators as inputs, output, cost."""
    count = 1 + max(output for _, output, _ in ops)
    found = tuple(Op(False, tuple(inputs), output, cost) for inputs, output, cost in ops)
    return Problem((side,) * count, (side,) * count, found, capacity, bandwidth, 128, 128)


def products(side: int, ops: list[tuple[int, int, int, int]], capacity: int) -> Problem:
    """Square tensors; MatMuls as left, right, output, cost."""
    count = 1 + max(output for _, _, output, _ in ops)
    found = tuple(Op(True, (left, right), output, cost) for left, right, output, cost in ops)
    return Problem((side,) * count, (side,) * count, found, capacity, 10, 128, 128)


CHAIN = pointwise(128, [([0], 1, 1000), ([1], 2, 100)], 35000)
LARGE = pointwise(256, [([0], 1, 1000), ([1], 2, 100)], 40000)
DIAMOND = pointwise(128, [([0], 1, 1500), ([1], 2, 1500), ([1, 2], 3, 1500)], 50000)
PRODUCT = products(128, [(0, 1, 2, 1500)], 25000)
TWO_PRODUCTS = products(128, [(0, 1, 3, 2000), (3, 2, 4, 2000)], 45000)
NATIVE = (128, 128, 1)


@pytest.mark.parametrize(
    ("problem", "steps", "latencies"),
    [
        (CHAIN, [Step((0,), NATIVE), Step((1,), NATIVE)], [3276.8, 3276.8]),
        (CHAIN, [Step((0, 1), NATIVE)], [3276.8]),
        (CHAIN, [Step((0, 1), (64, 64, 1))], [4400]),
        (LARGE, [Step((0,), NATIVE), Step((1,), NATIVE)], [13107.2, 13107.2]),
        (LARGE, [Step((0, 1), NATIVE)], [13107.2]),
        (DIAMOND, [Step((0,), NATIVE), Step((1,), NATIVE), Step((2,), NATIVE)], [3276.8, 3276.8, 4915.2]),
        (DIAMOND, [Step((0, 1), NATIVE, (2,)), Step((0, 2), NATIVE)], [3000, 3276.8]),
        (DIAMOND, [Step((0,), NATIVE, (1,)), Step((1, 2), NATIVE)], [1638.4, 3000]),
        (PRODUCT, [Step((0,), (64, 64, 128))], [2048 + 1500 + 2048 + 1500]),
        (PRODUCT, [Step((0,), (64, 64, 128), (), (0, 1, 3, 2))], [2048 + 1500 * 3]),
        (TWO_PRODUCTS, [Step((0, 1), (128, 128, 32))], [6915.2]),
    ],
    ids=["1A", "1B", "1C", "2A", "2B", "3A", "3B", "3C", "4A with reuse", "4B", "5B"],
)
def test_examples_of_the_statement(problem: Problem, steps: list[Step], latencies: list[float]):
    """The statement's examples cost what it says, but for 2's capacity, 3A's step 1 and 4A: it contradicts itself."""
    assert evaluate(problem, steps).latencies == pytest.approx(latencies)


@pytest.mark.parametrize(
    ("problem", "steps", "rule"),
    [
        (TWO_PRODUCTS, [Step((0, 1), (128, 128, 128))], "49152 of 45000|65536 of 45000"),
        (CHAIN, [Step((1,), NATIVE), Step((0,), NATIVE)], "in no memory"),
        (CHAIN, [Step((0,), NATIVE)], "not stored"),
        (CHAIN, [Step((0, 1), NATIVE, (2,))], "not stored"),
        (CHAIN, [Step((0, 1), NATIVE, (5,))], "neither its output nor its input"),
        (DIAMOND, [Step((0,), NATIVE, (1,)), Step((1,), NATIVE), Step((2,), NATIVE)], "in no memory"),
        (PRODUCT, [Step((0,), (64, 64, 128), (), (0, 1, 2, 2))], "not an order"),
        (LARGE, [Step((0,), NATIVE, (1,)), Step((1,), NATIVE)], "are held"),
        (CHAIN, [Step((), NATIVE), Step((0, 1), NATIVE)], "no operators"),
    ],
)
def test_broken_rules_are_found(problem: Problem, steps: list[Step], rule: str):
    """A solution that breaks a rule is refused, and the text says which."""
    with pytest.raises(InfeasibleSolution, match=rule):
        evaluate(problem, steps)


def test_groups_are_connected():
    """Operators that share an input only are no group."""
    problem = pointwise(128, [([0], 1, 10), ([0], 2, 10)], 10**6)
    with pytest.raises(InfeasibleSolution, match="connected"):
        evaluate(problem, [Step((0, 1), NATIVE)])


def test_an_input_is_kept():
    """What a group loaded may stay for the next one, and not longer."""
    problem = pointwise(128, [([0], 1, 10), ([0], 2, 10), ([0], 3, 10)], 10**6)
    steps = [Step((0,), NATIVE, (0,)), Step((1,), NATIVE), Step((2,), NATIVE)]
    assert evaluate(problem, steps).latencies == pytest.approx([3276.8, 1638.4, 3276.8])
    with pytest.raises(InfeasibleSolution, match="keeps again"):
        evaluate(problem, [steps[0], Step((1,), NATIVE, (0,)), steps[2]])


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Small graphs: every operator reads earlier tensors of fitting shapes, or new inputs."""
    sides = (16, 32, 64)
    shapes: list[tuple[int, int]] = []
    ops: list[Op] = []

    def tensor(height: int, width: int) -> int:
        fitting = [t for t, shape in enumerate(shapes) if shape == (height, width)]
        if fitting and draw(st.booleans()):
            return draw(st.sampled_from(fitting))
        shapes.append((height, width))
        return len(shapes) - 1

    for _ in range(draw(st.integers(1, 4))):
        height, width, depth = (draw(st.sampled_from(sides)) for _ in range(3))
        cost = draw(st.integers(1, 3000))
        if ops and draw(st.booleans()):
            height, width = shapes[ops[-1].output]
        if draw(st.booleans()):
            inputs = (tensor(height, depth), tensor(depth, width))
            matmul = True
        else:
            inputs = tuple(tensor(height, width) for _ in range(draw(st.integers(1, 2))))
            matmul = False
        shapes.append((height, width))
        ops.append(Op(matmul, inputs, len(shapes) - 1, cost))
    heights, widths = zip(*shapes, strict=True)
    return Problem(widths, heights, tuple(ops), draw(st.integers(3000, 20000)), draw(st.integers(1, 30)), 32, 32)


@given(problems(), st.data())
@settings(max_examples=150, deadline=None)
def test_prices_are_the_evaluators(problem: Problem, data: st.DataObject):
    """A price is the evaluator's latency where no tensor is needed in two kinds of rectangles, else no less."""
    ops = data.draw(st.sets(st.sampled_from(range(len(problem.ops))), min_size=1))
    group = Group(problem, sorted(ops))
    if not group.feasible:
        return
    kept = frozenset(data.draw(st.sets(st.sampled_from(sorted(group.made)))) & set(group.outputs))
    sides = [np.array([data.draw(st.integers(5, side))]) for side in (group.width, group.height)]
    depth = np.array([data.draw(st.integers(min(5, group.depth), group.depth))])
    steps = Steps(group, sides[0], sides[1], depth, frozenset(), kept)
    if not steps.width.size:
        return
    by_columns = data.draw(st.booleans())
    price = Price(float(steps.snake(by_columns)[0]), (int(sides[0][0]), int(sides[1][0]), int(depth[0])), by_columns)
    step = Step(group.ops, price.granularity, tuple(sorted(kept)), tile_order(group, price))
    try:
        found = _latency_of(problem, step)
    except InfeasibleSolution as error:
        text = str(error)
        if "connected" in text or "step 1" in text:
            return
        raise
    exact = all(len(kinds) == 1 for kinds in group.reads.values()) and all(
        len(kinds) == 1 for kinds in group.work.values()
    )
    assert found == pytest.approx(price.latency) if exact else found <= price.latency * (1 + 1e-9)


@given(problems(), st.data())
@settings(max_examples=40, deadline=None)
def test_bounds_of_groups_hold_for_all_granularities_and_orders(problem: Problem, data: st.DataObject):
    """The evaluator's latency of a group is no less than its bound, in any order of the tiles."""
    ops = data.draw(st.sets(st.sampled_from(range(len(problem.ops))), min_size=1))
    group = Group(problem, sorted(ops))
    if not group.feasible:
        return
    sides = [data.draw(st.integers(5, side)) for side in (group.width, group.height)]
    depth = data.draw(st.integers(min(5, group.depth), group.depth))
    tiles = -(-group.width // sides[0]) * -(-group.height // sides[1])
    order = tuple(data.draw(st.permutations(range(tiles))))
    try:
        latency = _latency_of(problem, Step(group.ops, (sides[0], sides[1], depth), (), order))
    except InfeasibleSolution:
        return
    assert group_bound(group, frozenset(), frozenset(), float("inf")) <= latency * (1 + 1e-9)


def test_cheapest_covers_of_the_examples():
    """Two of the statement's examples have optimal solutions: their bound is their cost."""
    pytest.importorskip("ortools")
    assert cover_bound(CHAIN) == pytest.approx(3276.8)
    assert cover_bound(DIAMOND) == pytest.approx(4500.0)


def _latency_of(problem: Problem, step: Step) -> float:
    """The evaluator's latency of one step; a second one reads what the first keeps."""
    ops = [problem.ops[op] for op in step.ops]
    widths, heights = list(problem.widths), list(problem.heights)
    steps = [Step(tuple(range(len(ops))), step.granularity, step.retained, step.order)]
    if step.retained:
        steps.append(Step((len(ops),), (8, 8, 1)))
        ops.append(Op(False, step.retained, len(widths), 1))
        widths.append(widths[step.retained[0]])
        heights.append(heights[step.retained[0]])
    alone = Problem(tuple(widths), tuple(heights), tuple(ops), problem.capacity, problem.bandwidth, 32, 32)
    return evaluate(alone, steps).latencies[0]


def _orders(left: frozenset[int]) -> Iterator[list[tuple[int, ...]]]:
    """All partitions in all orders."""
    if not left:
        yield []
    for size in range(1, len(left) + 1):
        for first in combinations(sorted(left), size):
            for others in _orders(left - set(first)):
                yield [first, *others]


def _least(problem: Problem) -> float:
    """The evaluator's least total over all partitions, few granularities, rows of tiles in file order."""
    best = float("inf")
    for groups in _orders(frozenset(range(len(problem.ops)))):
        options = [
            [
                Step(ops, granularity, kept)
                for granularity in product((32, 64), (64,), (16, 64))
                for kept in _kept(problem, ops)
            ]
            for ops in groups
        ]
        for solution in product(*options):
            try:
                best = min(best, evaluate(problem, solution).total)
            except InfeasibleSolution:
                continue
    return best


def _kept(problem: Problem, ops: tuple[int, ...]) -> list[tuple[int, ...]]:
    made = [problem.ops[op].output for op in ops]
    return [(), *((tensor,) for tensor in made if problem.consumers[tensor])]


SMALL = [
    Problem((64,) * 6, (64,) * 6, ops, capacity, 10, 32, 32)
    for ops, capacity in product(
        [
            (Op(False, (0,), 1, 900), Op(False, (1,), 2, 100), Op(False, (1, 2), 3, 400)),
            (Op(False, (0,), 1, 100), Op(True, (1, 4), 2, 500), Op(False, (2,), 3, 100)),
            (Op(True, (0, 4), 1, 100), Op(True, (1, 5), 2, 100), Op(False, (2, 1), 3, 50)),
        ],
        (3000, 5000, 14000, 40000),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("problem", SMALL)
def test_plans_and_bounds_beside_all_solutions(problem: Problem):
    """No partition is better than the plan, none better than the bound; the evaluator confirms the plan's price."""
    steps = Planner(problem).solve(1.0)
    total = evaluate(problem, steps).total
    assert total <= sum(step.latency for step in steps) * (1 + 1e-9)
    assert lower_bound(problem) <= total * (1 + 1e-9)
    pytest.importorskip("ortools")
    covers = cover_bound(problem)
    assert 0 < covers <= total * (1 + 1e-9)
    assert total <= _least(problem) * (1 + 1e-9)


def test_files_are_read_back(tmp_path: Path):
    """A written solution is read as it was."""
    steps = [Step((0,), (64, 64, 128), (), (0, 1, 3, 2), 6548.0), Step((1, 2), NATIVE, (3,), None, 1.5)]
    write_solution(tmp_path / "solution.json", steps)
    assert read_solution(tmp_path / "solution.json") == steps


def test_instances_are_read_and_checked(tmp_path: Path):
    """An instance in the contest's format; shapes that do not fit are refused."""
    data: dict[str, object] = {
        "widths": [128, 64, 64], "heights": [32, 128, 32], "inputs": [[0, 1]], "outputs": [[2]], "base_costs": [7],
        "op_types": ["MatMul"], "fast_memory_capacity": 9, "slow_memory_bandwidth": 2, "native_granularity": [16, 8],
    }  # fmt: skip
    path = tmp_path / "instance.json"
    path.write_text(json.dumps(data))
    assert read_problem(path) == Problem((128, 64, 64), (32, 128, 32), (Op(True, (0, 1), 2, 7),), 9, 2, 16, 8)
    path.write_text(json.dumps({**data, "inputs": [[1, 0]]}))
    with pytest.raises(ValueError, match="do not fit"):
        read_problem(path)
