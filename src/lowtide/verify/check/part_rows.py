"""Rows that the tensors of a part graph hold, and that a part needs, as the checker works them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op, Quant, Tensor
from lowtide.ops.access import Access
from lowtide.ops.index import Index
from lowtide.rewrites import PlanSlice, Rows

Box = tuple[Rows, ...]


@dataclass(frozen=True)
class Held:
    """What a tensor holds: rows of one of the user's, of which `sure` alone are known; of a sum, over `terms` of an
    axis of an op."""

    of: int
    box: Box
    terms: tuple[Rows, ...] | None = None
    summed: tuple[int, int] | None = None
    sure: Box | None = None

    @property
    def rows_alone(self) -> bool:
        """Whether it holds rows of a tensor, all that it says, and no part of a sum."""
        return self.terms is None and self.sure is None

    def added_up(self, size: int) -> Held:
        """The same; of a sum over all `size` rows of the axis, as any rows of a tensor."""
        return Held(self.of, self.box) if self.terms == ((0, size),) else self


def all_rows(shape: Sequence[int]) -> Box:
    """All rows of every dimension."""
    return tuple((0, size) for size in shape)


def fail(why: str) -> VerificationError:
    """An error about the parts of a plan."""
    return VerificationError("parts", why)


def rows_quantised(quant: Quant | None, box: Box) -> Quant | None:
    """How rows are quantised: a scale of their own goes with each."""
    if quant is None or quant.axis is None:
        return quant
    rows = range(*(box[0] if len(box) == 1 else box[quant.axis]))
    scales, points = tuple(quant.scales[r] for r in rows), tuple(quant.zero_points[r] for r in rows)
    return Quant(scales, points, quant.axis if len(rows) > 1 else None)


def by_the_plan(given: PlanSlice) -> Held:
    """What a plan says that a tensor holds."""
    terms = None if given.terms is None else tuple(given.terms)
    return Held(given.of, tuple(given.box), terms, sure=None if given.sure is None else tuple(given.sure))


def both(one: tuple[Rows, ...], other: tuple[Rows, ...]) -> tuple[Rows, ...]:
    """Rows that are in either of two, and in none twice; those that touch as one range."""
    result: list[Rows] = []
    for a, b in sorted((*one, *other)):
        if result and a < result[-1][1]:
            raise fail(f"rows {a} to {min(b, result[-1][1])} of a sum are added twice")
        if result and a == result[-1][1]:
            result[-1] = (result[-1][0], b)
        else:
            result.append((a, b))
    return tuple(result)


def written(access: Access, j: int, op: Op, graph: Graph, axis: int, rows: Rows, reduced: bool) -> Held:
    """What a part of an op makes."""
    t = op.outputs[j]
    shape = graph.tensor_by_id[t].shape or ()
    if reduced:
        return Held(t, all_rows(shape), (rows,), (op.id, axis)).added_up(access.sizes[axis])
    dims = access.outputs[j]
    return Held(t, tuple(rows if a == axis else (0, size) for a, size in zip(dims, shape, strict=True)))


def needed(access: Access, operand: int, shape: Sequence[int], axis: int, rows: Rows) -> Box:
    """Rows of an operand that rows of an axis need."""
    grain = access.grain_of(axis)
    first, end = rows[0] - rows[0] % grain, min(access.sizes[axis], -(-rows[1] // grain) * grain)
    return tuple(
        _rows(index, first, end, size) if index is not None and index.axis == axis else (0, size)
        for index, size in zip(access.inputs[operand] or (), shape, strict=True)
    )


def _rows(index: Index, first: int, end: int, size: int) -> Rows:
    """Rows that the first and the last row of a part read, and all between: an index never falls, or never rises."""
    lows = [(row * index.num + index.lo) // index.den for row in (first, end - 1)]
    highs = [(row * index.num + index.hi) // index.den for row in (first, end - 1)]
    low, high = max(0, min(lows)), min(size - 1, max(highs))
    return (low, high + 1) if low <= high else (0, 0)


def tile_value(of: Tensor, box: Sequence[tuple[int, int]]) -> bytes | None:
    """The bytes of some rows of a constant; None where they are not known, or share bytes with others."""
    count = prod(of.shape or ())
    if of.value is None or not count or len(of.value) % count:
        return None
    import numpy as np

    rows = np.frombuffer(of.value, np.uint8).reshape(*(of.shape or ()), len(of.value) // count)
    return rows[tuple(slice(a, b) for a, b in box)].tobytes()
