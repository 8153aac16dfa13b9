"""What a solution costs, tile by tile: slow, and shares no code with the planner.

The statement leaves cases open; this is how they are read here.

- A step is one tile of the group's outputs and one slice of the reduction. The outputs of a group are the tensors that
  it makes and does not read itself; they have one shape, and all are of Pointwise or all of MatMuls of one depth.
- A step needs of each operator what the outputs' tile needs: a Pointwise the same rectangle of its inputs, a MatMul
  rows of its left input and columns of its right one. Only a MatMul that makes an output is reduced in slices of the
  depth; a MatMul inside the group is reduced at once (Example 5), so a Pointwise never reads partial sums.
- A MatMul costs `cost` for native width x native height x native depth. Tiles smaller than native cost as much as
  native ones (Example 1C), larger ones a whole number of native ones; along a reduction cost is proportional
  (Example 5). A Pointwise costs `cost` for each native tile, also for slices of a reduction.
- What the step before held need not be loaded again (Example 4B); older slices are gone.
- The fast memory holds at each step: what the group before kept, what this group has kept so far, and the step's
  slices of inputs and outputs.
- Outputs of a group are stored unless they are kept (Example 3B). What a group makes and reads itself is stored if a
  later group loads it and it is not stored yet, else it is in no memory. A kept tensor is there for the next group
  only, and takes no memory if that group does not read it; a group may also keep inputs that it loaded itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lowtide_research.contest.reader import Problem, Step

Rectangle = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""


class InfeasibleSolution(ValueError):
    """A solution breaks a rule of the contest: the step and the rule."""


@dataclass(frozen=True)
class Evaluation:
    """The latency of each step, and the most elements that the fast memory held."""

    latencies: tuple[float, ...]
    peak: int

    @property
    def total(self) -> float:
        """What the contest compares."""
        return sum(self.latencies)


@dataclass
class _Demand:
    """What one step of a group needs."""

    reads: dict[int, set[Rectangle]] = field(default_factory=dict[int, set[Rectangle]])
    writes: dict[int, set[Rectangle]] = field(default_factory=dict[int, set[Rectangle]])
    work: dict[tuple[int, Rectangle], float] = field(default_factory=dict[tuple[int, Rectangle], float])


def evaluate(problem: Problem, steps: Sequence[Step]) -> Evaluation:
    """The cost of a solution; raises `InfeasibleSolution` where it breaks a rule."""
    stored = {tensor for tensor in range(len(problem.widths)) if tensor not in problem.producer}
    resident: set[int] = set()
    latencies: list[float] = []
    peak = 0
    for number, step in enumerate(steps):
        group = _Group(problem, step, number, _loaded_later(problem, steps[number:]) - stored)
        missing = group.inputs - stored - resident
        if missing:
            raise InfeasibleSolution(f"step {number}: tensors {sorted(missing)} are in no memory")
        latency, held = group.run(resident)
        latencies.append(latency)
        peak = max(peak, held)
        stored |= group.stores
        resident = set(step.retained)
    for tensor in problem.producer:
        if not problem.consumers[tensor] and tensor not in stored:
            raise InfeasibleSolution(f"output {tensor} of the graph is not stored")
    if set().union(*(step.ops for step in steps)) != set(range(len(problem.ops))):
        raise InfeasibleSolution("an operator never runs")
    return Evaluation(tuple(latencies), peak)


def _loaded_later(problem: Problem, steps: Sequence[Step]) -> set[int]:
    """Tensors that a step after the first loads from the slow memory."""
    found: set[int] = set()
    for before, step in pairwise(steps):
        made = {problem.ops[op].output for op in step.ops}
        found |= {tensor for op in step.ops for tensor in problem.ops[op].inputs} - made - set(before.retained)
    return found


class _Group:
    """One step of a solution: a group of operators."""

    def __init__(self, problem: Problem, step: Step, number: int, loaded_later: set[int]) -> None:
        self.problem = problem
        self.step = step
        self.number = number
        self.made = {problem.ops[op].output: op for op in step.ops}
        read = {tensor for op in step.ops for tensor in problem.ops[op].inputs}
        self.inputs = read - set(self.made)
        self.outputs = sorted(set(self.made) - read)
        self.stores = ({*self.outputs} | (self.made.keys() & loaded_later)) - set(step.retained)
        self._check()
        self.height = problem.heights[self.outputs[0]]
        self.width = problem.widths[self.outputs[0]]
        makers = [self.made[tensor] for tensor in self.outputs]
        depths = {problem.depth(op) if problem.ops[op].matmul else 1 for op in makers}
        if len(depths) > 1 or len({problem.ops[op].matmul for op in makers}) > 1:
            self._fail("outputs of MatMuls of several depths, or of both kinds of operators")
        self.depth = depths.pop()

    def _fail(self, text: str) -> None:
        raise InfeasibleSolution(f"step {self.number}: {text}")

    def _check(self) -> None:
        problem = self.problem
        if not self.step.ops or len(self.made) != len(self.step.ops):
            self._fail("no operators, or one twice")
        if min(self.step.granularity) < 1:
            self._fail("granularity below 1")
        shapes = {(problem.heights[tensor], problem.widths[tensor]) for tensor in self.outputs}
        if len(shapes) != 1:
            self._fail(f"outputs of {len(shapes)} shapes")
        if set(self.step.retained) - set(self.outputs) - self.inputs:
            self._fail("keeps a tensor that is neither its output nor its input")
        connected, queue = {self.step.ops[0]}, [self.step.ops[0]]
        while queue:
            op = queue.pop()
            makers = [self.made[tensor] for tensor in problem.ops[op].inputs if tensor in self.made]
            users = [user for user in problem.consumers[problem.ops[op].output] if user in self.step.ops]
            fresh = {*makers, *users} - connected
            connected |= fresh
            queue += fresh
        if len(connected) != len(self.step.ops):
            self._fail("operators are not connected")

    def _tiles(self) -> list[tuple[int, int]]:
        width, height, _ = self.step.granularity
        rows, columns = -(-self.height // height), -(-self.width // width)
        order = range(rows * columns) if self.step.order is None else self.step.order
        if sorted(order) != list(range(rows * columns)):
            self._fail(f"not an order of {rows} x {columns} tiles")
        return [divmod(tile, columns) for tile in order]

    def run(self, resident: set[int]) -> tuple[float, int]:
        """Latency of all steps, and the most elements held."""
        problem = self.problem
        width, height, depth = self.step.granularity
        kept = set(self.step.retained)
        if kept & resident & self.inputs:
            self._fail("keeps again what the step before kept")
        stores = self.stores
        done = {tensor: np.zeros((problem.heights[tensor], problem.widths[tensor]), bool) for tensor in stores | kept}
        held_so_far = sum(problem.size(tensor) for tensor in resident & self.inputs)
        before: dict[int, set[Rectangle]] = {}
        latency, peak = 0.0, 0
        for row, column in self._tiles():
            rows = (row * height, min((row + 1) * height, self.height))
            columns = (column * width, min((column + 1) * width, self.width))
            for first in range(0, self.depth, depth):
                last = min(first + depth, self.depth)
                demand = self._demand((*rows, *columns), (first, last))
                reads = {tensor: area for tensor, area in demand.reads.items() if tensor not in resident}
                moved = sum(
                    _area(area | before.get(tensor, set())) - _area(before.get(tensor, set()))
                    for tensor, area in reads.items()
                )
                held = 0
                for tensor, area in (*reads.items(), *demand.writes.items()):
                    if tensor in kept:
                        held_so_far += _fill(done[tensor], area)
                    elif tensor in reads or tensor in stores:
                        held += _area(area)
                for tensor in demand.writes.keys() & stores:
                    if last == self.depth or tensor not in self.outputs:
                        moved += _fill(done[tensor], demand.writes[tensor])
                peak = max(peak, held_so_far + held)
                latency += max(sum(demand.work.values()), moved / problem.bandwidth)
                before = reads
        if peak > problem.capacity:
            self._fail(f"{peak} of {problem.capacity} elements are held")
        for tensor, parts in done.items():
            if not parts.all():
                self._fail(f"tensor {tensor} is not complete")
        return latency, peak

    def _demand(self, tile: Rectangle, slice_: tuple[int, int]) -> _Demand:
        """What a tile of the outputs needs in one slice of the reduction."""
        demand = _Demand()
        for tensor in self.outputs:
            op = self.made[tensor]
            self._need(demand, tensor, tile, (False, False), slice_ if self.problem.ops[op].matmul else None)
        return demand

    def _need(
        self,
        demand: _Demand,
        tensor: int,
        area: Rectangle,
        reduced: tuple[bool, bool],
        slice_: tuple[int, int] | None,
    ) -> None:
        """Adds a rectangle of a tensor; `reduced`: whether its rows, its columns are those of some reduction."""
        problem = self.problem
        if tensor not in self.made:
            demand.reads.setdefault(tensor, set()).add(area)
            return
        number = self.made[tensor]
        op = problem.ops[number]
        demand.writes.setdefault(tensor, set()).add(area)
        top, bottom, left, right = area
        native = (problem.native_height, problem.native_width)
        tiles = [-(-length // unit) for length, unit in zip((bottom - top, right - left), native, strict=True)]
        if not op.matmul:
            demand.work[number, area] = op.cost * tiles[0] * tiles[1]
            for source in op.inputs:
                self._need(demand, source, area, reduced, None)
            return
        first, last = slice_ or (0, problem.depth(number))
        shares = [
            length / unit if is_reduced else count
            for length, unit, count, is_reduced in zip(
                (bottom - top, right - left), native, tiles, reduced, strict=True
            )
        ]
        work = op.cost * shares[0] * shares[1] * (last - first) / problem.native_width
        demand.work[number, area] = max(work, demand.work.get((number, area), 0.0))
        left_input, right_input = op.inputs
        self._need(demand, left_input, (top, bottom, first, last), (reduced[0], True), None)
        self._need(demand, right_input, (first, last, left, right), (True, reduced[1]), None)


def _area(rectangles: set[Rectangle]) -> int:
    """Elements that at least one of the rectangles has."""
    if len(rectangles) <= 1:
        return sum((bottom - top) * (right - left) for top, bottom, left, right in rectangles)
    rows = sorted({edge for area in rectangles for edge in area[:2]})
    columns = sorted({edge for area in rectangles for edge in area[2:]})
    return sum(
        (end - start) * (right - left)
        for start, end in pairwise(rows)
        for left, right in pairwise(columns)
        if any(a[0] <= start < a[1] and a[2] <= left < a[3] for a in rectangles)
    )


def _fill(done: np.ndarray[tuple[int, int], np.dtype[np.bool_]], rectangles: set[Rectangle]) -> int:
    """Marks the rectangles; how many elements are new."""
    new = 0
    for top, bottom, left, right in rectangles:
        part = done[top:bottom, left:right]
        new += part.size - int(part.sum())
        part[:] = True
    return new
