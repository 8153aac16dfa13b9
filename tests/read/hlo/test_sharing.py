"""Which operands XLA lets a result lie over."""

from __future__ import annotations

from lowtide.read.hlo.reader import parse_hlo
from support.hlo_texts import IN_PLACE


def test_operands_are_written_over_where_xla_allows_it():
    """Of one shape and layout, elementwise all the way, or changed in place; never where a layout turns."""
    g = parse_hlo(IN_PLACE.encode(), "m.hlo")
    by_name = {t.name: t.id for t in g.tensors}
    over = {op.name: [next(n for n, k in by_name.items() if k == t) for t in op.overwrites or ()] for op in g.ops}
    assert over == {
        "sum": [], "mixed": ["a"], "moved": [], "turned": [], "one": ["turned"], "two": ["b"],
    }  # fmt: skip
