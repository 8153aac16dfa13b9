"""Pictures of MAGIS's workloads: added time over bytes, and bytes over time."""

from __future__ import annotations

NAMES = {
    "moved": "with swaps", "again": "recomputation alone", "micro": "micro-batches alone", "torchtitan": "knapsack",
    "magis": "MAGIS's search",
}  # fmt: skip
"""Of kinds of plans; the knapsack is torchtitan's, greedy."""

COLOURS = {
    "joint": "#e8743b", "moved": "#b3261e", "again": "#56b4e9", "micro": "#22a884", "dtr": "#cc79a7",
    "fastsa": "#e69f00", "chen": "#8a8a92", "torchtitan": "#444444", "pofo": "#7a5cc4", "rotor": "#b8a1e3",
    "pofo8": "#3b7dd8", "pofo16": "#00a0b0", "pofo32": "#8f5b00", "magis": "#2f5f2f",
}  # fmt: skip

Plans = dict[str, list[tuple[float, float]]]  # of each kind its plans: shares of the peak, and the time that they add
Trace = list[tuple[float, int]]  # of each step its seconds, and bytes live meanwhile

MOST = 0.5  # added time at the top of the pictures


def front(plans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Plans that none of the others beats in both, by share."""
    kept: list[tuple[float, float]] = []
    for share, added in sorted(plans):
        if not kept or added < kept[-1][1]:
            kept.append((share, added))
    return kept


def svg(name: str, plans: Plans, kinds: list[str]) -> str:
    """A picture of one workload: added time, cut off at half, over shares of the peak."""
    width, height, left, foot = 360, 240, 44, 30

    def at(share: float, overhead: float) -> tuple[float, float]:
        x = left + (width - left - 10) * share / 100
        return round(x, 1), round(20 + (height - foot - 20) * (1 - min(overhead, MOST) / MOST), 1)

    title = f"{name}: added time over share of the file order's peak"
    lines = [_head(width, height, 10, title),
             f'<text x="{left}" y="12">{name}: added time, %, over % of the peak</text>']  # fmt: skip
    for tick in (0, 10, 20, 30, 40, 50):
        lines.append(_line(left, width - 10, at(0, tick / 100)[1], str(tick)))
    for tick in (20, 40, 60, 80, 100):
        lines.append(f'<text x="{at(tick, 0)[0]}" y="{height - 12}" text-anchor="middle">{tick}</text>')
    for i, kind in enumerate(kinds):
        points = [at(100 * share, added) for share, added in front(plans.get(kind, []))]
        if points:
            lines.append(_curve(" ".join(f"{x},{y}" for x, y in points), COLOURS[kind]))
            lines += [f'<circle cx="{x}" cy="{y}" r="2" fill="{COLOURS[kind]}"/>' for x, y in points]
        lines.append(_label(width - 14, 32 + 12 * i, NAMES.get(kind, kind), COLOURS[kind]))
    return "\n".join([*lines, "</svg>"]) + "\n"


def trace_svg(title: str, traces: dict[str, Trace], colours: dict[str, str]) -> str:
    """Bytes live over time, all plans in one picture."""
    width, height, left, foot = 720, 300, 60, 34
    longest = max(sum(s for s, _ in t) for t in traces.values())
    most = max(b for t in traces.values() for _, b in t)
    tall, wide = height - foot - 10, width - left - 10
    lines = [_head(width, height, 11, title)]
    for k in range(5):
        lines.append(_line(left, width - 10, 10 + tall * (1 - k / 4), f"{most * k / 4 / 2**30:.1f} GiB"))
        lines.append(f'<text x="{left + wide * k / 4:.0f}" y="{height - 14}" text-anchor="middle">'
                     f"{1000 * longest * k / 4:.0f} ms</text>")  # fmt: skip
    for i, (name, steps) in enumerate(traces.items()):
        at, points = 0.0, []
        for seconds, size in steps:
            y = 10 + tall * (1 - size / most)
            points += [f"{left + wide * moment / longest:.1f},{y:.1f}" for moment in (at, at + seconds)]
            at += seconds
        lines += [_curve(" ".join(points), colours[name]), _label(width - 14, 22 + 14 * i, name, colours[name])]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _head(width: int, height: int, size: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-size="{size}" '
        f'font-family="sans-serif"><title>{title}</title>'
    )


def _line(left: int, right: int, y: float, words: str) -> str:
    return (
        f'<path d="M{left} {y:.1f}H{right}" stroke="#8a8a92" stroke-opacity=".3"/>'
        f'<text x="{left - 6}" y="{y + 3:.1f}" text-anchor="end">{words}</text>'
    )


def _curve(points: str, colour: str) -> str:
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.4"/>'


def _label(x: int, y: int, words: str, colour: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="end" fill="{colour}">{words}</text>'
