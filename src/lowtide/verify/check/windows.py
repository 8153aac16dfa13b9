"""Do the windows of a part of a TFLite operator see what those of the whole see? Row by row, tap by tap.

The operator has one word for the padding of all dimensions; a part has its own word, and an operand with rows of
padding beside the tensor where the word does not say enough. A part that makes one row of a dimension takes no step
along it, and may name any. Nothing here knows how a part came to its word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.graph import Graph, Op

_SAME = 0
_PADDED = ("CONV_2D", "DEPTHWISE_CONV_2D")
"""Operators to which a zero point beside the operand is what they put there themselves."""
_WINDOWED = (*_PADDED, "AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")

Rows = tuple[int, int]


def windows_differ(
    graph: Graph, op: Op, attributes: Mapping[str, Any], given: Sequence[Rows], rows: Sequence[Rows]
) -> str | None:
    """What a part's windows see otherwise than those of the whole operator; None: nothing.

    Parameters
    ----------
    attributes
        Of the part.
    given
        Rows of each dimension of the first operand that the part has; those beside the tensor are padding.
    rows
        Of each dimension of the result.
    """
    if op.type not in _WINDOWED:
        return None
    whole, result = (graph.tensor_by_id[t].shape or () for t in (op.inputs[0], op.outputs[0]))
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
        if op.type not in _PADDED and (first < 0 or end > whole[d]):
            return "is given padding, which it would count"
        reach = ((count or 0) - 1) * apart + 1
        count_whole, before = _placed(op.attributes["padding"], whole[d], step, reach)
        part_rows, part_before = _placed(attributes["padding"], end - first, own, reach) if own > 0 else (0, 0)
        if count_whole != result[d] or part_rows != rows[d][1] - rows[d][0]:
            return f"makes {part_rows} rows of dimension {d}, and {rows[d][1] - rows[d][0]} are wanted"
        for i in range(part_rows):
            for tap in range(count or 0):
                wanted = (rows[d][0] + i) * step - before + tap * apart
                seen = first + i * own - part_before + tap * apart
                if wanted != seen or (0 <= seen < whole[d] and not first <= seen < end):
                    return f"sees row {seen} of dimension {d} where the whole sees row {wanted}"
    return None


def _placed(word: int, size: int, step: int, reach: int) -> tuple[int, int]:
    """Rows of a result, and of padding before the operand, by TFLite's rules for the two words."""
    if word != _SAME:
        return (size - reach) // step + 1 if size >= reach else 0, 0
    rows = -(-size // step)
    return rows, max(0, (rows - 1) * step + reach - size) // 2
