"""Several plans of one model as a front: peak against the ops that run, and a page that shows one of them at a time.

The points are a figure of SVG whose every point is a link to its plan, so that without a script all plans stand below
each other, and with one a click, or Enter, swaps the plan shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.report.columns import change
from lowtide.report.curve import AGAINST
from lowtide.report.svg import text
from lowtide.report.view import PlanView
from lowtide.sizes import format_size

MOST_PLANS = 100
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 260, 96, 40, 14, 24


def front_html(views: Sequence[PlanView], names: Sequence[str]) -> str:
    """The figure, and the same as a table."""
    return f'<section class="front">\n{_figure(views, names)}\n{_table(views, names)}\n</section>'


def least(points: Sequence[tuple[int, int]]) -> list[int]:
    """Of points (ops, peak) those that no other beats: none of as few ops is lower, none as low has fewer ops."""
    return [
        k for k, (ops, peak) in enumerate(points)
        if not any((o <= ops and p < peak) or (o < ops and p <= peak) for o, p in points)
    ]  # fmt: skip


def _against(view: PlanView) -> str:
    """How much less or more than the file order's peak a plan's is, in percent."""
    return change(view.plan.own_order_peak_bytes, view.plan.peak_bytes)


def _points(views: Sequence[PlanView]) -> list[tuple[int, int]]:
    return [(view.steps, view.plan.peak_bytes) for view in views]


def _figure(views: Sequence[PlanView], names: Sequence[str]) -> str:
    ops, peaks = [view.steps for view in views], [view.plan.peak_bytes for view in views]
    low, high, most = min(ops), max(ops), max(max(peaks), 1)

    def place(view: PlanView) -> tuple[float, float]:
        across = (view.steps - low) / (high - low) if high > low else 0.5
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - view.plan.peak_bytes / most) * (HEIGHT - TOP - BOTTOM)

    best = sorted(least(_points(views)), key=lambda k: (ops[k], -peaks[k]))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="peak against ops that run">']
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        label = format_size(round(share * most)).partition(" (")[2].rstrip(")") or f"{round(share * most):,} B"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for count, x in ((low, LEFT), (high, WIDTH - RIGHT)) if high > low else ((low, (LEFT + WIDTH - RIGHT) / 2),):
        parts.append(f'<text x="{x}" y="{HEIGHT - 20}" text-anchor="middle">{count:,}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">ops that run</text>')
    line = "".join(
        f"{'M' if n == 0 else 'H'}{x:.1f}" + (f" {y:.1f}" if n == 0 else f"V{y:.1f}")
        for n, (x, y) in enumerate(place(views[k]) for k in best)
    )
    parts.append(f'<path class="best" d="{line}"/>')
    for k, (view, name) in enumerate(zip(views, names, strict=True)):
        x, y = place(view)
        what = text(f"{name}: {view.plan.peak_bytes:,} B ({_against(view)} {AGAINST}) in {view.steps:,} ops")
        kind = "point" if k in best else "point beaten"
        parts.append(f'<a href="#choice-{k}" data-plan="{k}" aria-label="{what}"><title>{what}</title>'
                     f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="7"/></a>')  # fmt: skip
    return "\n".join([*parts, "</svg>"])


def _table(views: Sequence[PlanView], names: Sequence[str]) -> str:
    best = set(least(_points(views)))
    rows = [
        f'<tr><td><a href="#choice-{k}" data-plan="{k}">{text(name)}</a></td>'
        f'<td class="number">{view.plan.peak_bytes:,} B</td><td class="number">{_against(view)}</td>'
        f'<td class="number">{view.steps:,}</td>'
        f"<td>{text(view.plan.target)}</td><td>{'' if k in best else 'another plan is no worse in either'}</td></tr>"
        for k, (view, name) in enumerate(zip(views, names, strict=True))
    ]
    head = (
        f'<tr><th>plan</th><th class="number">peak</th><th class="number">{AGAINST}</th><th class="number">ops</th>'
        "<th>target</th><th></th></tr>"
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
