"""What is seen of single operators under TFLM, and its table; importing this needs no runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from lowtide_research.bench.tables import Table

_HEADS = (
    "operator", "type", "overlaps", "equal at the distance", "a row nearer corrupts", "an element nearer corrupts",
    "largest slack, B",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OverlapRow:
    """What was seen of one kind of operator."""

    # kind, dtype: operator and type of its output.
    kind: str
    dtype: str
    shapes: int  # how many shapes the rule gives an overlap for; each is tried for each input that may be overlapped
    equal: int  # at the rule's distance, bit-equal to the plain run
    # row_nearer_corrupt, element_nearer_corrupt: a row, an element nearer, and the outputs differ.
    row_nearer_corrupt: int
    element_nearer_corrupt: int
    # Largest number of bytes by which the output could lie nearer, over all shapes, with outputs still equal.
    most_slack_bytes: int


def overlap_table(rows: Sequence[OverlapRow]) -> Table:
    """A line for each kind."""
    return Table("", [_HEADS, *([str(value) for value in astuple(row)] for row in rows)])
