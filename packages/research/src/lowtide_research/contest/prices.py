"""What a group costs at a granularity, in closed form: what the planner calls thousands of times.

Each tensor that a group touches is needed as rectangles whose sides are one of: the tile's rows or columns (TILE), the
slice of the reduction (SLICE), all (ALL). A step differs from the one before by its slice, its column of tiles or its
row of tiles, so steps are of few kinds, and every kind is counted. A snake through the tiles, along rows or along
columns, changes one side at a time, and one of the two snakes is best of all orders: n tiles have n - 1 moves, each
loads at least what changes in a move along a row or along a column, and there are at least as many moves between rows
(columns) as there are rows (columns), less one.

Exact where no tensor is needed as two kinds of rectangles and tiles divide the outputs; otherwise at least what
`evaluate.py` says, since parts that two rectangles share are counted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lowtide_research.contest.reader import Problem

TILE, SLICE, ALL = 0, 1, 2
Sides = tuple[int, int]
LEAST = 4  # shorter parts are not tried


@dataclass(frozen=True)
class Price:
    """The least latency of a group, and the granularity and the order of tiles that have it."""

    latency: float
    granularity: tuple[int, int, int] = (0, 0, 0)
    by_columns: bool = False


INFEASIBLE = Price(float("inf"))


class Group:
    """Operators that run fused; `inner`: tensors that the group makes and reads, and that a later group loads."""

    def __init__(self, problem: Problem, ops: Sequence[int], inner: Sequence[int] = ()) -> None:
        self.problem = problem
        self.ops = tuple(ops)
        self.made = {problem.ops[op].output: op for op in ops}
        read = {tensor for op in ops for tensor in problem.ops[op].inputs}
        self.outputs = [tensor for tensor in self.made if tensor not in read]
        self.inner = list(inner)
        shapes = {(problem.heights[tensor], problem.widths[tensor]) for tensor in self.outputs}
        kinds = {
            problem.depth(op) if problem.ops[op].matmul else 0 for op in (self.made[tensor] for tensor in self.outputs)
        }
        self.feasible = len(shapes) == len(kinds) == 1
        if not self.feasible:
            return
        self.height, self.width = shapes.pop()
        self.depth = kinds.pop()
        self.reads: dict[int, set[Sides]] = {}
        self.work: set[tuple[int, Sides, bool]] = set()
        for tensor in self.outputs:
            self._need(tensor, (TILE, TILE), self.depth > 0)
        self.feasible = all(
            self.depth == 0 and {sides for op, sides, _ in self.work if op == self.made[tensor]} == {(TILE, TILE)}
            for tensor in self.inner
        )

    def _need(self, tensor: int, sides: Sides, sliced: bool) -> None:
        """Adds rectangles of a tensor; `sliced`: its MatMul is reduced slice by slice."""
        if tensor not in self.made:
            self.reads.setdefault(tensor, set()).add(sides)
            return
        number = self.made[tensor]
        if (number, sides, sliced) in self.work:
            return
        self.work.add((number, sides, sliced))
        op = self.problem.ops[number]
        if op.matmul:
            along = SLICE if sliced else ALL
            self._need(op.inputs[0], (sides[0], along), False)
            self._need(op.inputs[1], (along, sides[1]), False)
        else:
            for source in op.inputs:
                self._need(source, sides, False)

    def compute(self, granularity: tuple[int, int, int]) -> float:
        """Compute of one step; rectangles of an operator that are the same at this granularity count once."""
        problem = self.problem
        width, height, depth = granularity
        found: dict[tuple[int, int, int], float] = {}
        for number, (row_side, column_side), sliced in self.work:
            op = problem.ops[number]
            rows = (height, depth, problem.heights[op.output])[row_side]
            columns = (width, depth, problem.widths[op.output])[column_side]
            work = float(op.cost)
            for side, length, native in (
                (row_side, rows, problem.native_height), (column_side, columns, problem.native_width)
            ):  # fmt: skip
                work *= length / native if op.matmul and side != TILE else -(-length // native)
            if op.matmul:
                work *= (depth if sliced else problem.depth(number)) / problem.native_width
            full = (rows == problem.heights[op.output], columns == problem.widths[op.output])
            key = (number, ALL if full[0] else row_side, ALL if full[1] else column_side)
            found[key] = max(work, found.get(key, 0.0))
        return sum(found.values())

    def price(
        self, granularity: tuple[int, int, int], by_columns: bool, resident: frozenset[int], retained: frozenset[int]
    ) -> float:
        """Latency of the group at a granularity, infinite if its steps do not fit."""
        problem = self.problem
        width, height, depth = granularity
        columns, rows, slices = self.width // width, self.height // height, max(1, self.depth // depth)
        held = sum(problem.size(tensor) for tensor in resident | retained)
        held += width * height * (sum(tensor not in retained for tensor in self.outputs) + len(self.inner))
        start = along = across = deeper = 0
        for tensor, kinds in self.reads.items():
            if tensor in resident:
                continue
            for row_side, column_side in _largest(kinds, rows, columns, slices):
                row_length = (height, depth, problem.heights[tensor])[row_side]
                column_length = (width, depth, problem.widths[tensor])[column_side]
                area = row_length * column_length
                if tensor not in retained:
                    held += area
                start += area
                if SLICE in (row_side, column_side):
                    deeper += area
                    along += area
                    across += area
                else:
                    along += area if column_side == TILE else 0
                    across += area if row_side == TILE else 0
        if held > problem.capacity:
            return INFEASIBLE.latency
        stores = width * height * (sum(tensor not in retained for tensor in self.outputs) + len(self.inner))
        moves = (columns * (rows - 1), columns - 1) if by_columns else (rows - 1, rows * (columns - 1))
        compute = self.compute(granularity)
        tiles = rows * columns
        firsts = ((start, 1), (across, moves[0]), (along, moves[1]))
        if slices == 1:
            return sum(count * max(compute, (load + stores) / problem.bandwidth) for load, count in firsts)
        return (
            sum(count * max(compute, load / problem.bandwidth) for load, count in firsts)
            + tiles * (slices - 2) * max(compute, deeper / problem.bandwidth)
            + tiles * max(compute, (deeper + stores) / problem.bandwidth)
        )

    def best(self, resident: frozenset[int] = frozenset(), retained: frozenset[int] = frozenset()) -> Price:
        """The least latency over granularities that divide the outputs, ties to fewer steps."""
        if not self.feasible:
            return INFEASIBLE
        found = INFEASIBLE
        for granularity in self._granularities():
            for by_columns in (False, True):
                latency = self.price(granularity, by_columns, resident, retained)
                if latency < found.latency - 1e-9 * latency:
                    found = Price(latency, granularity, by_columns)
        return found

    def _granularities(self) -> Iterator[tuple[int, int, int]]:
        """Granularities, few steps first."""
        for depth in _parts(self.depth) if self.depth else (1,):
            for width in _parts(self.width):
                for height in _parts(self.height):
                    yield width, height, depth


def _parts(length: int) -> list[int]:
    """The length halved again and again while it is even and at least 16, and the length."""
    parts = [length]
    while parts[-1] % 2 == 0 and parts[-1] > LEAST:
        parts.append(parts[-1] // 2)
    return parts


def _largest(kinds: set[Sides], rows: int, columns: int, slices: int) -> list[Sides]:
    """Kinds of rectangles that no other one contains; a side of which there is one is all."""
    kinds = {
        (
            ALL if (row == TILE and rows == 1) or (row == SLICE and slices == 1) else row,
            ALL if (column == TILE and columns == 1) or (column == SLICE and slices == 1) else column,
        )
        for row, column in kinds
    }
    return [
        kind
        for kind in sorted(kinds)
        if not any(other != kind and all(b in (ALL, a) for a, b in zip(kind, other, strict=True)) for other in kinds)
    ]


def tile_order(group: Group, price: Price) -> tuple[int, ...]:
    """The snake that a price is for."""
    columns, rows = group.width // price.granularity[0], group.height // price.granularity[1]
    if price.by_columns:
        return tuple(row * columns + c for c in range(columns) for row in _snake(rows, c))
    return tuple(row * columns + c for row in range(rows) for c in _snake(columns, row))


def _snake(length: int, turn: int) -> range:
    return range(length - 1, -1, -1) if turn % 2 else range(length)
