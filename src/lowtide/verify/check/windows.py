"""Do the windows of a tile of a TFLite operator see what those of the untiled operator see? Row by row, tap by tap.

The operator has one padding mode for all dimensions. A tile has its own mode, and an operand with padding rows around
the tensor where the mode is not enough. A tile that makes one row of a dimension takes no step along it, and may give
any stride. Nothing here knows how a tile came to its mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.graph import Graph, Op

_SAME = 0
_PADDED = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""Operators to which a zero point around the operand is what they put there themselves."""
_WINDOWED = (*_PADDED, "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")

Rows = tuple[int, int]


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
