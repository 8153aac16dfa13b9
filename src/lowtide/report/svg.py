"""Figures of a plan as SVG without a script: for notebooks, for documents, and where a page may run none.

Colours are those of the page; text and lines take the colour of what is around (``currentColor``), so that figures
stand on light and on dark. Every id begins with a prefix, so that several figures can stand in one page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from lowtide.names import shorten
from lowtide.report.view import PlanView, Rectangle
from lowtide.sizes import format_size

COLOURS = {
    "activation": "#56b4e9", "input": "#e69f00", "output": "#22a884", "constant": "#cc79a7", "workspace": "#e8743b",
}  # fmt: skip
"""After Okabe and Ito: title apart by those who see colours differently."""

LEFT, RIGHT, TOP, FOOT = 74, 8, 20, 24
MOST_COLUMNS = 240
"""Columns of a timeline: of many steps the one with the most bytes is shown, so that no peak is lost."""

Line = tuple[int, int, int]  # first step, step after the last, bytes


def timeline_svg(view: PlanView, *, width: int = 720, height: int = 240, prefix: str = "lowtide") -> str:
    """Live bytes over the steps, stacked by kind, the file order grey behind; the bound and the room as lines. It
    stays below 30 kB whatever the plan."""
    figure = _Figure(view, width, height, max(1, view.bound_bytes or 0, view.peak_bytes, *view.own_order_bytes))
    body = [*figure.frame()]
    own = _picked(view.own_order_bytes)
    scale = max(view.steps, 1) / max(len(view.own_order_bytes), 1)
    grey = [(a * scale, b * scale, view.own_order_bytes[s]) for a, b, s in own]
    body.append(f'<path d="{figure.area(grey)}" fill="#8a8a92" fill-opacity=".4"/>')
    picked = _picked(view.live_bytes)
    columns = list(view.kinds.items())
    for upto in range(len(columns), 0, -1):
        stacked = [(a, b, sum(column[s] for _, column in columns[:upto])) for a, b, s in picked]
        body.append(f'<path d="{figure.area(stacked)}" fill="{COLOURS[columns[upto - 1][0]]}"/>')
    body.append(
        f'<path d="{figure.outline(grey)}" fill="none" stroke="#77777f" stroke-width="1" stroke-dasharray="3 2"/>'
    )
    lines = []
    if view.bound_bytes:
        lines.append((view.bound_bytes, f"lower bound {format_size(view.bound_bytes)}", "none"))
    if view.room_bytes and view.room_bytes <= figure.most:
        lines.append((view.room_bytes, f"room {format_size(view.room_bytes)}", "6 4"))
    body += figure.lines(lines)
    body += _legend([*((COLOURS[kind], kind) for kind, _ in columns), ("#8a8a92", "file order")])
    what = "in the fast memory" if view.plan.moves is not None else "live"
    title = f"Bytes {what} at each of {view.steps:,} steps of {view.plan.graph}: {view.peak_bytes:,} at most"
    return _document(width, height, prefix, title, body)


def figures(view: PlanView) -> Iterator[tuple[str, str]]:
    """Every figure with a name for its file: the timeline, then each memory."""
    for k, name in enumerate(figure_names(view), -1):
        yield name, timeline_svg(view) if k < 0 else arena_svg(view, k)


def figure_names(view: PlanView) -> Iterator[str]:
    """How the files of the figures are distinguished: the timeline, then each memory."""
    yield "live"
    for k, memory in enumerate(view.memories):
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", memory.name)[:40] or f"memory_{k}"
        yield name if name != "live" else f"memory_{k}"


def arena_svg(view: PlanView, memory: int = 0, *, width: int = 720, prefix: str = "lowtide") -> str:
    """Addresses and lifetimes in a memory: address up, steps to the right. Outlined: live at the peak; hatched:
    written over an input; white: free."""
    name, size = view.memories[memory].name, view.memories[memory].size
    height = 320
    figure = _Figure(view, width, height, max(size, 1))
    body = [
        f'<defs><pattern id="{prefix}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path d="M0 0v6" stroke="#000" stroke-opacity=".45" stroke-width="2"/>'
        "</pattern></defs>",
        *figure.frame(),
        f'<rect x="{LEFT}" y="{TOP}" width="{figure.plot}" height="{figure.y(0) - TOP:.1f}" fill="#fff"/>',
    ]
    placed = [r for r in view.rectangles if r.memory == memory and r.offset is not None and r.size]
    live = set(map(id, (view.rectangles[i] for i in view.at(view.peak_step)))) if view.steps else set[int]()
    for r in placed:
        body.append(figure.rectangle(r, prefix, at_peak=id(r) in live))
    kinds = dict.fromkeys(r.kind for r in placed)
    body += _legend([*((COLOURS[kind], kind) for kind in kinds), ("#fff", f"free; {name}: {format_size(size)}")])
    return _document(width, height, prefix, f"Addresses in {name} over the steps of {view.plan.graph}", body)


class _Figure:
    """Where steps and bytes are on paper."""

    def __init__(self, view: PlanView, width: int, height: int, most: int) -> None:
        self.steps, self.most = max(view.steps, 1), most
        self.width, self.height = width, height
        self.plot = width - LEFT - RIGHT

    def x(self, step: float) -> float:
        return LEFT + step / self.steps * self.plot

    def y(self, size: float) -> float:
        return self.height - FOOT - size / self.most * (self.height - FOOT - TOP)

    def frame(self) -> Iterator[str]:
        """Axes with their numbers."""
        foot = self.height - FOOT
        for part in range(5):
            size = self.most * part // 4
            y = self.y(size)
            yield f'<path d="M{LEFT} {y:.1f}h{self.plot}" stroke="currentColor" stroke-opacity=".15"/>'
            yield f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{short(size)}</text>'
        for step in sorted({self.steps * k // 6 for k in range(6)}):
            yield f'<text x="{self.x(step + 0.5):.1f}" y="{foot + 16}" text-anchor="middle">{step:,}</text>'
        yield f'<text x="{LEFT - 5}" y="{foot + 16}" text-anchor="end">step</text>'

    def outline(self, steps: Sequence[tuple[float, float, int]]) -> str:
        """A line from step to step, as a path; equal neighbours are one segment."""
        path: list[str] = []
        last = None
        for start, end, size in steps:
            y = f"{self.y(size):.1f}"
            if last is None:
                path.append(f"M{self.x(start):.1f} {y}")
            elif y != last:
                path.append(f"V{y}")
            if y == last and path[-1][0] == "H":
                path.pop()
            path.append(f"H{self.x(end):.1f}")
            last = y
        return "".join(path)

    def area(self, steps: Sequence[tuple[float, float, int]]) -> str:
        """The same down to nothing."""
        if not steps:
            return ""
        return f"{self.outline(steps)}V{self.y(0):.1f}H{self.x(steps[0][0]):.1f}Z"

    def lines(self, lines: Sequence[tuple[int, str, str]]) -> Iterator[str]:
        """Lines across, with their labels below each other where they are near."""
        last = -100.0
        for size, label, dashes in sorted(lines, reverse=True):
            y = self.y(size)
            last = max(last + 14, y + 12)
            yield (
                f'<path d="M{LEFT} {y:.1f}h{self.plot}" stroke="currentColor" stroke-width="1.3" '
                f'stroke-dasharray="{dashes}"/>'
                f'<text x="{LEFT + self.plot - 4}" y="{last:.1f}" text-anchor="end" font-weight="600">{label}</text>'
            )

    def rectangle(self, r: Rectangle, prefix: str, *, at_peak: bool) -> str:
        """A rectangle with its name as a tooltip, and on it where there is room."""
        x, y = self.x(r.start), self.y((r.offset or 0) + r.size)
        w, h = self.x(r.end) - x, self.y(r.offset or 0) - y
        box = f'x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}"'
        line = 'stroke-width="1.3"' if at_peak else 'stroke-opacity=".3" stroke-width=".4"'
        title = f"{text(r.name)}, {r.size:,} B, steps {r.start:,} to {r.end - 1:,}"
        made = f'<rect {box} fill="{COLOURS[r.kind]}" stroke="#000" {line}><title>{title}</title></rect>'
        if r.over is not None:
            made += f'<rect {box} fill="url(#{prefix}-hatch)" pointer-events="none"/>'
        room = int((w - 6) / 6)
        if h >= 13 and room >= 5:
            label = text(shorten(r.name, room))
            made += f'<text x="{x + 3:.1f}" y="{y + h / 2 + 4:.1f}" fill="#000" pointer-events="none">{label}</text>'
        return made


def _picked(values: Sequence[int]) -> list[Line]:
    """Columns of steps, each with the step that has the most: ``(first, after the last, that step)``."""
    n, wide = len(values), min(len(values), MOST_COLUMNS)
    edges = [k * n // wide for k in range(wide + 1)] if wide else []
    return [(a, b, max(range(a, b), key=values.__getitem__)) for a, b in pairwise(edges)]


def _legend(entries: Sequence[tuple[str, str]]) -> Iterator[str]:
    x = float(LEFT)
    for colour, label in entries:
        yield f'<rect x="{x:.0f}" y="4" width="10" height="10" fill="{colour}" stroke="currentColor"/>'
        yield f'<text x="{x + 14:.0f}" y="13">{text(label)}</text>'
        x += 26 + 6.2 * len(label)


def short(size: int) -> str:
    """Bytes in the largest unit."""
    exact, _, larger = format_size(size).partition(" (")
    return larger.rstrip(")") or exact


def text(value: str) -> str:
    """A name as XML or HTML; what cannot be printed is replaced, for neither can hold it."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value))


def _document(width: int, height: int, prefix: str, title: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-labelledby="{prefix}-title" font-family="system-ui, sans-serif" font-size="11" '
        f'><title id="{prefix}-title">{text(title)}</title>'
        f'<g fill="currentColor">{"".join(body)}</g></svg>'
    )
