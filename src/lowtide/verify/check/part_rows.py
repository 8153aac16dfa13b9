"""Rows that the tensors of a part graph hold, and that a part needs, as the checker works them out.

Do the windows of a tile of a TFLite operator see what those of the untiled operator see? Row by row, tap by tap.

The operator has one padding mode for all dimensions. A tile has its own mode, and an operand with padding rows around
the tensor where the mode is not enough. A tile that makes one row of a dimension takes no step along it, and may give
any stride. Nothing here knows how a tile came to its mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

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


_SAME = 0
_PADDED = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""Operators to which a zero point around the operand is what they put there themselves."""
_WINDOWED = (*_PADDED, "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")


def windows_differ(
    graph: Graph, op: Op, attributes: Mapping[str, Any], given: Sequence[Rows], rows: Sequence[Rows]
) -> str | None:
    """What a tile's windows see otherwise than those of the untiled operator; None: nothing. `attributes`: of the tile.
    `given`: rows of each dimension of the first operand that the tile has; those outside the tensor are padding.
    `rows`: of each dimension of the result."""
    if op.type not in _WINDOWED:
        return None
    operand, result = (graph.tensor_by_id[t].shape or () for t in (op.inputs[0], op.outputs[0]))
    free = {"padding"}
    if op.type in _PADDED:
        free |= {f"stride_{letter}" for d, letter in zip((1, 2), "hw", strict=True) if rows[d][1] - rows[d][0] == 1}
    if any(attributes[name] != value for name, value in op.attributes.items() if name not in free):
        return "has other options than its padding"
    taps = (attributes.get("filter_height"), attributes.get("filter_width"))
    if op.type in _PADDED:
        taps = (graph.tensor_by_id[op.inputs[1]].shape or (0,) * 4)[1:3]
    for d, letter, count in zip((1, 2), "hw", taps, strict=True):
        step, apart = op.attributes[f"stride_{letter}"], attributes.get(f"dilation_{letter}_factor", 1)
        own = attributes[f"stride_{letter}"]
        first, end = given[d]
        if op.type not in _PADDED and (first < 0 or end > operand[d]):
            return "is given padding, which it would count"
        reach = ((count or 0) - 1) * apart + 1
        untiled_rows, untiled_before = _placed(op.attributes["padding"], operand[d], step, reach)
        tile_rows, tile_before = _placed(attributes["padding"], end - first, own, reach) if own > 0 else (0, 0)
        if untiled_rows != result[d] or tile_rows != rows[d][1] - rows[d][0]:
            return f"makes {tile_rows} rows of dimension {d}, and {rows[d][1] - rows[d][0]} are wanted"
        for i in range(tile_rows):
            for tap in range(count or 0):
                wanted = (rows[d][0] + i) * step - untiled_before + tap * apart
                seen = first + i * own - tile_before + tap * apart
                if wanted != seen or (0 <= seen < operand[d] and not first <= seen < end):
                    return f"sees row {seen} of dimension {d} where the whole sees row {wanted}"
    return None


def _placed(word: int, size: int, step: int, reach: int) -> tuple[int, int]:
    """Rows of a result, and of padding before the operand, by TFLite's rules for the two padding modes."""
    if word != _SAME:
        return (size - reach) // step + 1 if size >= reach else 0, 0
    rows = -(-size // step)
    return rows, max(0, (rows - 1) * step + reach - size) // 2
