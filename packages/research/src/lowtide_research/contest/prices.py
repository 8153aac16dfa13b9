"""What a group costs, in closed form, for many granularities at once.

Each tensor that a group touches is needed as rectangles whose sides are one of: the tile's rows or columns (TILE), the
slice of the reduction (SLICE), all (ALL). A step differs from the one before by its slice, its column of tiles or its
row of tiles, so steps are of few kinds, and every kind is counted; the last row, column and slice may be smaller.

Prices are of two orders of the tiles: snakes along rows and along columns. They are the evaluator's where no tensor is
needed as two kinds of rectangles, otherwise at least as high, since what two rectangles share is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide_research.contest.reader import Problem

TILE, SLICE, ALL = 0, 1, 2
Sides = tuple[int, int]
Numbers = np.ndarray[Any, np.dtype[Any]]
LEAST = 4  # halves of a side below this are not tried


@dataclass(frozen=True)
class Price:
    """The least latency of a group, and the granularity and the order of tiles that have it."""

    latency: float
    granularity: tuple[int, int, int] = (0, 0, 0)
    by_columns: bool = False


INFEASIBLE = Price(float("inf"))
NONE: frozenset[int] = frozenset()


class Group:
    """Operators that run fused."""

    def __init__(self, problem: Problem, ops: Sequence[int]) -> None:
        self.problem = problem
        self.ops = tuple(ops)
        self.made = {problem.ops[op].output: op for op in ops}
        read = {tensor for op in ops for tensor in problem.ops[op].inputs}
        self.outputs = [tensor for tensor in self.made if tensor not in read]
        shapes = {(problem.heights[tensor], problem.widths[tensor]) for tensor in self.outputs}
        makers = [self.made[tensor] for tensor in self.outputs]
        depths = {problem.depth(op) if problem.ops[op].matmul else 0 for op in makers}
        self.feasible = len(shapes) == len(depths) == 1
        if self.feasible:
            self.height, self.width = shapes.pop()
            self.sliced = max(depths) > 0
            self.depth = max(1, depths.pop())
            self.reads: dict[int, list[Sides]] = {}
            self.work: dict[int, list[tuple[Sides, bool]]] = {}
            for tensor in self.outputs:
                self._need(tensor, (TILE, TILE), self.sliced)
            self.reads = {tensor: _largest(kinds) for tensor, kinds in self.reads.items()}

    def _need(self, tensor: int, sides: Sides, sliced: bool) -> None:
        """Adds rectangles of a tensor; `sliced`: its MatMul is reduced slice by slice."""
        if tensor not in self.made:
            self.reads.setdefault(tensor, []).append(sides)
            return
        number = self.made[tensor]
        known = self.work.setdefault(number, [])
        if (sides, sliced) in known:
            return
        known.append((sides, sliced))
        op = self.problem.ops[number]
        if op.matmul:
            along = SLICE if sliced else ALL
            self._need(op.inputs[0], (sides[0], along), False)
            self._need(op.inputs[1], (along, sides[1]), False)
        else:
            for source in op.inputs:
                self._need(source, sides, False)

    def best(self, resident: frozenset[int] = NONE, retained: frozenset[int] = NONE) -> Price:
        """The least latency over granularities that are likely, ties to fewer steps."""
        if not self.feasible:
            return INFEASIBLE
        problem = self.problem
        depths = _lengths(self.depth, problem.native_width, 16) if self.sliced else [1]
        grid = np.meshgrid(
            depths,
            _lengths(self.width, problem.native_width, 8),
            _lengths(self.height, problem.native_height, 8),
            indexing="ij",
        )
        steps = Steps(self, grid[1].ravel(), grid[2].ravel(), grid[0].ravel(), resident, retained)
        if not steps.width.size:
            return INFEASIBLE
        prices = [steps.snake(by_columns) for by_columns in (False, True)]
        least = min(float(each.min()) for each in prices)
        by_columns = float(prices[0].min()) > least * (1 + 1e-12)
        at = int(np.argmax(prices[by_columns] <= least * (1 + 1e-12)))
        return Price(least, (int(steps.width[at]), int(steps.height[at]), int(steps.depth[at])), by_columns)


class Steps:
    """The steps of a group at many granularities: those of the given ones that fit.

    `is_lower`: of several kinds of rectangles of a tensor, or of several on which an operator runs, one counts.
    """

    def __init__(
        self,
        group: Group,
        width: Numbers,
        height: Numbers,
        depth: Numbers,
        resident: frozenset[int] = NONE,
        retained: frozenset[int] = NONE,
        *,
        is_lower: bool = False,
    ) -> None:
        problem = group.problem
        self.is_lower = is_lower
        self.group = group
        self.resident = resident
        self.stored = sum(tensor not in retained for tensor in group.outputs)
        self._set(width, height, depth)
        held = self.stored * width * height + sum(problem.size(tensor) for tensor in resident | retained)
        held = held + self._loads(width, height, depth, "held")
        fits = held <= problem.capacity
        self._set(width[fits], height[fits], depth[fits])

    def _set(self, width: Numbers, height: Numbers, depth: Numbers) -> None:
        group = self.group
        self.width, self.height, self.depth = width, height, depth
        self.columns, self.rows = -(-group.width // width), -(-group.height // height)
        self.slices = -(-group.depth // depth)
        self.is_reloaded = self.slices > 1
        self.last_width = group.width - width * (self.columns - 1)
        self.last_height = group.height - height * (self.rows - 1)
        self.last_depth = group.depth - depth * (self.slices - 1)

    def at_once(self) -> None:
        """Takes each tile as one step that loads what its slices load: no dearer than its slices, of any depth."""
        self._set(self.width, self.height, np.full(self.width.shape, self.group.depth))
        self.is_reloaded = np.ones(self.width.shape, bool)

    def _all(self, side: int, rows: bool) -> Numbers:
        """Where a side is all of the tensor's."""
        if side == ALL:
            return np.ones(self.width.shape, bool)
        return (self.slices if side == SLICE else self.rows if rows else self.columns) == 1

    def _loads(self, width: Numbers, height: Numbers, depth: Numbers, entry: str) -> Numbers:
        """Elements loaded by a step: the first one, one in a new row or column of tiles, one slice deeper."""
        total = np.zeros(width.shape)
        for tensor, kinds in self.group.reads.items():
            if tensor in self.resident:
                continue
            if self.is_lower and len(kinds) > 1:
                if entry in ("start", "held"):
                    total = total + np.max([self._area(tensor, kind, width, height, depth) for kind in kinds], axis=0)
                continue
            for kind in kinds:
                area = self._area(tensor, kind, width, height, depth)
                if len(kinds) > 1:
                    area = np.where(self._is_covered(kind, kinds), 0, area)
                moving = {"row": kind[0], "column": kind[1]}.get(entry, ALL)
                if entry in ("start", "held") or moving == TILE:
                    total = total + area
                elif SLICE in kind:
                    total = total + np.where(self.is_reloaded, area, 0)
        return total

    def _area(self, tensor: int, kind: Sides, width: Numbers, height: Numbers, depth: Numbers) -> Numbers:
        problem = self.group.problem
        rows = (height, depth, problem.heights[tensor])[kind[0]]
        return np.broadcast_to(rows * (width, depth, problem.widths[tensor])[kind[1]], width.shape)

    def _is_covered(self, kind: Sides, kinds: list[Sides]) -> Numbers:
        covered = np.zeros(self.width.shape, bool)
        for other in kinds:
            if other != kind:
                wins = self._covers(other, kind)
                covered |= wins & ~self._covers(kind, other) if other > kind else wins
        return covered

    def _covers(self, large: Sides, small: Sides) -> Numbers:
        found = np.ones(self.width.shape, bool)
        for rows, (a, b) in zip((True, False), zip(large, small, strict=True), strict=True):
            if a != b:
                found &= self._all(a, rows)
        return found

    def _compute(self, width: Numbers, height: Numbers, depth: Numbers) -> Numbers:
        """Compute of one step; equal rectangles of an operator count once."""
        problem = self.group.problem
        total = np.zeros(width.shape)
        for number, needs in self.group.work.items():
            op = problem.ops[number]
            earlier: list[tuple[Sides, Numbers]] = []
            for (row_side, column_side), sliced in needs:
                rows = (height, depth, problem.heights[op.output])[row_side]
                columns = (width, depth, problem.widths[op.output])[column_side]
                work: Numbers = np.full(width.shape, float(op.cost))
                for side, length, native in (
                    (row_side, rows, problem.native_height),
                    (column_side, columns, problem.native_width),
                ):
                    work = work * (length / native if op.matmul and side != TILE else -(-length // native))
                if op.matmul:
                    work = work * ((depth if sliced else problem.depth(number)) / problem.native_width)
                sides = (row_side, column_side)
                for other, known in earlier:
                    same = self._covers(other, sides) & self._covers(sides, other)
                    same |= self.is_lower
                    work = np.where(same, np.maximum(0, work - known), work)
                earlier.append((sides, work))
                total = total + work
        return total

    def tile(self, width: Numbers, height: Numbers, entry: str) -> Numbers:
        """Latency of all slices of a tile that is entered in a way."""
        bandwidth = self.group.problem.bandwidth
        stores = self.stored * width * height
        first = self._loads(width, height, self.depth, entry)
        compute = self._compute(width, height, self.depth)
        single = np.maximum(compute, (first + stores) / bandwidth)
        if not self.group.sliced:
            return single
        deeper = self._loads(width, height, self.depth, "slice")
        last = (self._loads(width, height, self.last_depth, "slice") + stores) / bandwidth
        several = np.maximum(compute, first / bandwidth)
        several = several + (self.slices - 2) * np.maximum(compute, deeper / bandwidth)
        several = several + np.maximum(self._compute(width, height, self.last_depth), last)
        return np.where(self.slices == 1, single, several)

    def snake(self, by_columns: bool) -> Numbers:
        """Latency of the group along a snake."""
        outer, inner = (self.columns, self.rows) if by_columns else (self.rows, self.columns)
        across, along = ("column", "row") if by_columns else ("row", "column")

        def cost(entry: str, inner_last: bool, outer_last: bool) -> Numbers:
            last_column, last_row = (outer_last, inner_last) if by_columns else (inner_last, outer_last)
            width = self.last_width if last_column else self.width
            return self.tile(width, self.last_height if last_row else self.height, entry)

        total = self.tile(self.width, self.height, "start")
        even_last = outer % 2 == 1
        for outer_last in (False, True):
            turns = ((outer - 1) // 2, np.maximum(0, outer - 2) // 2)  # into odd lines, into even ones but the first
            lines = (outer // 2, (outer - 1) // 2)  # even lines, odd ones
            if outer_last:
                turns = (np.where(even_last, 0, 1), np.where(even_last & (outer > 1), 1, 0))
                lines = (np.where(even_last, 1, 0), np.where(even_last, 0, 1))
            total = total + turns[0] * cost(across, True, outer_last) + turns[1] * cost(across, False, outer_last)
            total = total + (lines[0] + lines[1]) * np.where(inner > 1, (inner - 2) * cost(along, False, outer_last), 0)
            total = total + np.where(inner > 1, lines[0] * cost(along, True, outer_last), 0)
            total = total + np.where(inner > 1, lines[1] * cost(along, False, outer_last), 0)
        return total

    def any_order(self) -> Numbers:
        """A lower bound of the latency over all orders of the tiles.

        Proof: every tile but the first is entered from one of another row, of another column, or of both, which costs
        at least what either costs alone. Each row has a tile that is entered from another row or is the first. So a
        row costs at least the lesser of both for each tile, and for one of them the cost from another row; the first
        tile costs more by at least the least difference. The same holds for columns.
        """
        entries = {
            (entry, last_column, last_row): self.tile(
                self.last_width if last_column else self.width, self.last_height if last_row else self.height, entry
            )
            for entry in ("start", "row", "column")
            for last_column in (False, True)
            for last_row in (False, True)
        }
        bounds: list[Numbers] = []
        for entry, lines, others in (("row", self.rows, self.columns), ("column", self.columns, self.rows)):
            total = np.zeros(self.width.shape)
            first = np.full(self.width.shape, np.inf)
            for is_last, count in ((False, lines - 1), (True, 1)):
                least: list[Numbers] = []
                more: list[Numbers] = []
                for other_last in (False, True):
                    tile = (other_last, is_last) if entry == "row" else (is_last, other_last)
                    least.append(np.minimum(entries["row", *tile], entries["column", *tile]))
                    exists = (np.asarray(count) > 0) & (np.bool_(other_last) | (others > 1))
                    more.append(np.where(exists, entries[entry, *tile] - least[-1], np.inf))
                    first = np.minimum(first, np.where(exists, entries["start", *tile] - entries[entry, *tile], np.inf))
                line = (others - 1) * least[0] + least[1] + np.minimum(more[0], more[1])
                total = total + np.where(np.asarray(count) > 0, count * np.where(np.isfinite(line), line, 0), 0)
            bounds.append(total + first)
        return np.maximum(*bounds)


def _lengths(length: int, native: int, pieces: int) -> list[int]:
    """Halves of a length, equal pieces of it, and equal pieces in whole native units; long ones first."""
    found = {length}
    half = length
    while half > LEAST:
        half = -(-half // 2)
        found.add(half)
    found |= {-(-length // n) for n in range(1, pieces + 1)}
    found |= {min(length, native * -(-length // (native * n))) for n in range(1, pieces + 1)}
    return sorted(found, reverse=True)


def _largest(kinds: list[Sides]) -> list[Sides]:
    """Kinds of rectangles that no other one contains."""
    return [
        kind
        for kind in sorted(set(kinds))
        if not any(other != kind and all(b in (ALL, a) for a, b in zip(kind, other, strict=True)) for other in kinds)
    ]


def tile_order(group: Group, price: Price) -> tuple[int, ...]:
    """The snake that a price is for."""
    columns, rows = -(-group.width // price.granularity[0]), -(-group.height // price.granularity[1])
    if price.by_columns:
        return tuple(row * columns + c for c in range(columns) for row in _snake(rows, c))
    return tuple(row * columns + c for row in range(rows) for c in _snake(columns, row))


def _snake(length: int, turn: int) -> range:
    return range(length - 1, -1, -1) if turn % 2 else range(length)
