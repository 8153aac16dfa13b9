"""Curves of a paper's figure as a small SVG: panels next to each other, each with a curve per name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDE, TALL, LEFT, TOP, BOTTOM, ROW = 300, 170, 44, 24, 20, 14
COLOURS = ("#4a78b0", "#b03a3a", "#3a8a4a", "#8a5ab0", "#b0803a", "#444444")


@dataclass(frozen=True)
class Panel:
    """One diagram: points of a curve are at whole numbers from 1, amounts from 0 up."""

    title: str
    curves: Mapping[str, Sequence[float]]


def panels_svg(panels: Sequence[Panel]) -> str:
    """The panels from left to right, names below."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    colour_of = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}
    height = TOP + TALL + BOTTOM + ROW * len(names)
    shapes = [s for k, panel in enumerate(panels) for s in _panel(panel, k * (WIDE + LEFT) + LEFT, colour_of)]
    for k, name in enumerate(names):
        shapes.append(_text(LEFT, TOP + TALL + BOTTOM + ROW * (k + 1) - 4, name, colour_of[name]))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {(WIDE + LEFT) * len(panels) + 10} {height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
    )
    return "\n".join([head, *shapes, "</svg>", ""])


def _panel(panel: Panel, left: float, colour_of: Mapping[str, str]) -> list[str]:
    most = max(max(curve) for curve in panel.curves.values()) or 1.0
    last = max(len(curve) for curve in panel.curves.values())
    floor = TOP + TALL
    shapes = [
        _text(left, TOP - 10, panel.title, "#222222"),
        f'<path d="M{left} {TOP}V{floor}H{left + WIDE}" fill="none" stroke="#222222"/>',
        _text(left - 4, TOP + 4, f"{most:.3g}", "#222222", "end"),
        _text(left - 4, floor, "0", "#222222", "end"),
        _text(left + WIDE, floor + 14, str(last), "#222222", "end"),
    ]
    for name, curve in panel.curves.items():
        points = [
            f"{left + WIDE * k / max(1, last - 1):.1f},{floor - TALL * amount / most:.1f}"
            for k, amount in enumerate(curve)
        ]
        line = f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour_of[name]}" stroke-width="1.5"/>'
        dots = [
            f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2" fill="{colour_of[name]}"/>' for p in points
        ]
        shapes += [line, *(dots if last < 10 else [])]
    return shapes


def _text(x: float, y: float, words: str, colour: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'
