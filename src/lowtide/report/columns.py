"""What every text is made of: aligned columns, changes in percent, and how a search ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CUT_SHORT = {
    "time": "stopped by --time",
    "memory": "stopped by --search-memory",
    "interrupt": "interrupted",
    "stalled": "stopped since nothing was gained any more",
}


def columns(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Rows of cells as lines of aligned columns; `right` are the columns flush right. The last is never padded.

    A line break in a cell, such as a model's name may hold, is written out.

    >>> columns([("a", "10"), ("long", "5")], right=[1])
    'a     10\\nlong   5'
    """
    if not rows:
        return ""
    rows = [[cell.replace("\n", "\\n") for cell in row] for row in rows]
    count = max(len(row) for row in rows)
    flush = set(right)
    widths = [max((len(row[c]) for row in rows if c < len(row)), default=0) for c in range(count)]
    lines = []
    for row in rows:
        cells = [cell.rjust(widths[c]) if c in flush else cell.ljust(widths[c]) for c, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def change(before: int, after: int) -> str:
    """How much less or more one number of bytes is than another, in percent.

    >>> change(200, 150), change(150, 150)
    ('-25.0 %', 'unchanged')
    """
    if before == after or before == 0:
        return "unchanged"
    return f"{100 * (after - before) / before:+.1f} %"


def above_text(arena: int, peak: int) -> str:
    """How much an arena is above a peak, in bytes and percent."""
    above = arena - peak
    percent = f" ({100 * above / peak:.1f} %)" if peak else ""
    return f"{above:,} B{percent} above the peak" if above else "as the peak"
