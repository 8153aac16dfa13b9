"""The distribution of `lowtide research bench space`, and how it is drawn: as text and as a small SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from lowtide.report.columns import columns
from lowtide_research.bench.machine import Machine
from lowtide_research.zoo.published import UNITS

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 370, 20, 20, 140, 40
BLUE, RED, GREY, BLACK = "#4a78b0", "#b03a3a", "#888888", "#222222"
NAMES = {"exact": "lowtide"}


@dataclass(frozen=True)
class Bin:
    """Orders whose peak is from `lower_bytes` up to and without `upper_bytes`."""

    lower_bytes: int
    upper_bytes: int
    orders: int


@dataclass(frozen=True)
class Mark:
    """A method's peak in the distribution. `share_at_most` is the part of the orders that are as good or better."""

    method: str
    status: str
    peak_bytes: int
    optimal: bool
    share_at_most: float


@dataclass(frozen=True)
class Distribution:
    """Peaks of random orders of one network, in bytes. `complete` is False if Ctrl-C ended the drawing."""

    suite: str
    schema: int
    machine: Machine
    network: str
    ops: int
    target: str
    unit: str
    form: str
    drawn_by: str
    seed: int
    orders: int
    complete: bool
    cpu_seconds: float
    different_peaks: int
    least_bytes: int
    greatest_bytes: int
    quantiles: dict[str, int]
    lower_bound_bytes: int
    constraint: str | None
    constraint_bytes: int | None
    share_within_constraint: float | None
    marks: tuple[Mark, ...]
    bins: tuple[Bin, ...]


def text(distribution: Distribution) -> str:
    """What was drawn, and where each method is in it."""
    scale = UNITS[distribution.unit]
    rows = [("method", f"peak, {distribution.unit}", "", "orders as good or better")]
    for m in distribution.marks:
        note = "proved optimal" if m.optimal else "" if m.status == "ok" else f"stopped by {m.status}"
        name, peak = NAMES.get(m.method, m.method), f"{m.peak_bytes / scale:.3f}"
        rows.append((name, peak, note, f"{100 * m.share_at_most:.4g} %"))
    return "\n\n".join([_about(distribution), columns(rows, right=[1, 3])])


def _about(distribution: Distribution) -> str:
    scale, m = UNITS[distribution.unit], distribution.machine
    lines = [
        f"{distribution.network}, {distribution.ops:,} ops, target {distribution.target}: peaks of "
        f"{distribution.orders:,} random orders, seed {distribution.seed}; {distribution.drawn_by} "
        "(not uniform over orders)",
        f"least {distribution.least_bytes / scale:.3f}, median {distribution.quantiles['0.5'] / scale:.3f}, greatest "
        f"{distribution.greatest_bytes / scale:.3f} {distribution.unit}; "
        f"{distribution.different_peaks:,} different peaks; {distribution.cpu_seconds:.1f} CPU s",
    ]
    if distribution.share_within_constraint is not None:
        lines.append(f"within {distribution.constraint}: {100 * distribution.share_within_constraint:.2f} %")
    if not distribution.complete:
        lines.append("interrupted: this is what was done")
    lines.append(f"lowtide {m.lowtide}, commit {m.commit or 'not known'}; {m.python}, {m.cpu}")
    return "\n".join(lines)


def svg(distribution: Distribution) -> str:
    """Bars for the orders, a line for their running share, upright lines for the methods and the constraint."""
    scale = UNITS[distribution.unit]
    lines = [(m.peak_bytes, NAMES.get(m.method, m.method), RED if m.optimal else BLACK) for m in distribution.marks]
    if distribution.constraint_bytes is not None:
        lines.append((distribution.constraint_bytes, "limit", GREY))
    low = min([distribution.bins[0].lower_bytes, *(size for size, _, _ in lines)])
    high = max([distribution.bins[-1].upper_bytes, *(size for size, _, _ in lines)])
    most = max(b.orders for b in distribution.bins)
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    floor = HEIGHT - BOTTOM

    def x(size: float) -> float:
        return LEFT + wide * (size - low) / (high - low)

    shapes = []
    running, curve = 0, [f"{x(distribution.bins[0].lower_bytes):.1f},{floor}"]
    for b in distribution.bins:
        height = tall * b.orders / most
        left, right = x(b.lower_bytes), x(b.upper_bytes)
        if b.orders:
            shapes.append(_box(left, floor - height, right - left, height))
        running += b.orders
        curve.append(f"{right:.1f},{floor - tall * running / distribution.orders:.1f}")
    shapes.append(f'<polyline points="{" ".join(curve)}" fill="none" stroke="{GREY}"/>')
    for place, (size, names, colour) in zip(_label_places(lines, x), _joined(lines), strict=True):
        at = x(size)
        shapes.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{at:.1f}" y2="{floor}" stroke="{colour}"/>')
        shapes.append(f'<line x1="{at:.1f}" y1="{TOP - 4}" x2="{place:.1f}" y2="{TOP - 14}" stroke="{colour}"/>')
        label = f"{names} {size / scale:.3f}"
        turn = f"rotate(-40 {place:.1f} {TOP - 18})"
        shapes.append(_text(place, TOP - 18, label, colour, f' transform="{turn}"'))
    shapes.append(f'<line x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}" stroke="{BLACK}"/>')
    for k in range(6):
        size = low + (high - low) * k / 5
        anchor = ' text-anchor="middle"' if 0 < k < 5 else ' text-anchor="end"' if k else ""
        shapes.append(_text(x(size), floor + 16, f"{size / scale:.2f}", BLACK, anchor))
    about = (
        f"peak, {distribution.unit}: {distribution.network}, {distribution.orders:,} random orders (bars), "
        "running share (line)"
    )
    shapes.append(_text(LEFT, HEIGHT - 6, about, BLACK))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    )
    return "\n".join([head, *shapes, "</svg>", ""])


def _joined(lines: Sequence[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Methods of equal peak as one mark, from left to right."""
    marks: dict[int, tuple[str, str]] = {}
    for size, name, colour in lines:
        before = marks.get(size)
        marks[size] = (name, colour) if before is None else (f"{before[0]}, {name}", before[1])
    return [(size, *marks[size]) for size in sorted(marks)]


def _label_places(lines: Sequence[tuple[int, str, str]], x: Callable[[float], float]) -> list[float]:
    """Where the labels stand: above their lines, or farther right where they would run into each other."""
    places: list[float] = []
    for size, _, _ in _joined(lines):
        at = x(size)
        places.append(max(at, places[-1] + 16) if places else at)
    excess = max(0.0, places[-1] - (WIDTH - RIGHT - 120)) if places else 0.0
    places = [p - excess for p in places] if excess else places
    assert all(a < b for a, b in pairwise(places))
    return places


def _box(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width - 0.5, 0.5):.1f}" height="{height:.1f}" fill="{BLUE}"/>'


def _text(x: float, y: float, words: str, colour: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{more}>{escape(words)}</text>'
