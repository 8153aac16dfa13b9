"""What every text is made of: aligned columns, changes in percent, how a search ended, and names cut to a width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from lowtide.names import shorten

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


WIDTH = 24  # letters of a name in a table on a terminal


def labels(names: Iterable[str], width: int | None) -> Mapping[str, str]:
    """A label for each name: the name itself without a `width`, else of about that many letters, and no two alike.

    Of names that would look alike once they are cut, what they differ in is shown.

    >>> labels(["net/block_1/conv/Relu6", "net/block_2/conv/Relu6"], 12)
    {'net/block_1/conv/Relu6': '...1/conv/Relu6', 'net/block_2/conv/Relu6': '...2/conv/Relu6'}
    """
    unique = list(dict.fromkeys(names))
    if width is None:
        return {name: name for name in unique}
    label = {name: shorten(name, width) for name in unique}
    alike: dict[str, list[str]] = {}
    for name, text in label.items():
        alike.setdefault(text, []).append(name)
    for group in alike.values():
        if len(group) > 1:
            label |= _apart(group, width)
    if len(set(label.values())) < len(label):
        return {name: name for name in unique}
    return label


def _apart(names: list[str], width: int) -> dict[str, str]:
    """Labels that begin where the names first differ; longer than `width` where that is not enough."""
    start = sum(1 for _ in takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    for length in (width, 2 * width, 4 * width):
        label = {name: f"...{shorten(name[start:], length)}" for name in names}
        if len(set(label.values())) == len(names):
            return label
    return {name: name for name in names}
