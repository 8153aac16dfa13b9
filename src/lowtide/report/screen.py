"""The report of a plan for a terminal: what the page says, in thirty lines."""

from __future__ import annotations

from textwrap import wrap

from lowtide.report.columns import columns, labels
from lowtide.report.conflict import conflict_text
from lowtide.report.figures import figures_line
from lowtide.report.inspection import sparkline
from lowtide.report.peak import MOST_GROUPS, peak_groups, top_at_peak, what_ifs
from lowtide.report.view import PlanView
from lowtide.report.wording import made_line, numbers, peak_line, proof_sentence, share_of
from lowtide.sizes import format_size

MOST_LINES = 30  # of a report, whatever the plan

_PROOF_LINES = 6
_NUMBERS = 8
_FEWEST_GROUPS = 3


def screen_text(view: PlanView, *, width: int = 100, plain: bool = False, cut: int | None = None) -> str:
    """Live bytes as a small profile, numbers, the peak as a sum, what would help, and how sure that is. `width`:
    letters in a line of prose, and of the profile at most. `plain`: ASCII alone in what is not the model's own. `cut`:
    letters of a name, about; None: complete."""
    head = [_line(f"{view.plan.graph or 'a graph'}: {made_line(view)}")]
    if view.plan.runtime_figures:
        head.append(figures_line(view.plan.runtime_figures))
    sure = ["", *_sure(view, width)]
    if not view.steps:
        return "\n".join([*head, *_numbers(view), *sure])
    ideas = _ideas(view, cut)
    above = [*head, "", *_profile(view, width, plain=plain), *_numbers(view)]
    room = MOST_LINES - len(above) - len(sure) - 3  # a blank line and a title with the heads, what is counted once
    groups = _groups(view, min(max(room - len(ideas), _FEWEST_GROUPS), MOST_GROUPS), cut)
    return "\n".join([*above, *groups, *ideas[: MOST_LINES - len(above) - len(groups) - len(sure)], *sure])


def _line(text: str) -> str:
    """One line, whatever names hold."""
    return text.replace("\n", "\\n")


def _profile(view: PlanView, width: int, *, plain: bool) -> list[str]:
    bars = sparkline(view.live_bytes, width - 2, plain=plain)
    at = next(k for k in range(len(bars)) if (k + 1) * view.steps // len(bars) > view.peak_step)
    return [f"|{bars}|", " " * (at + 1) + _line(f"^ {peak_line(view)}")]


def _numbers(view: PlanView) -> list[str]:
    rows = [(name, format_size(size), note) for name, size, note in numbers(view)]
    return columns(rows[:_NUMBERS]).splitlines()


def _groups(view: PlanView, most: int, cut: int | None) -> list[str]:
    """The peak as a sum, a line for each part."""
    of, total = share_of(view)
    groups = peak_groups(view, most)
    label = labels((g.name for g in groups), cut)
    rows = [("the peak, made in", "kind", "tensors", "steps old", "bytes", f"of {of}")]
    rows += [
        (label[g.name], g.kind, f"{g.count:,}", f"{g.age:,}", f"{g.bytes:,}", _share(g.bytes, total)) for g in groups
    ]
    shared = view.shared_bytes[view.peak_step]
    if shared:
        rows.append(("counted once: outputs over inputs", "", "", "", f"-{shared:,}", _share(-shared, total)))
    return ["", *columns(rows, right=[2, 3, 4, 5]).splitlines()]


def _share(size: int, total: int) -> str:
    return f"{100 * size / max(total, 1):.1f} %"


def _ideas(view: PlanView, cut: int | None) -> list[str]:
    """Of each of the largest at the peak the first thing that helps, a line each."""
    found = [(view.rectangles[i], what_ifs(view, i)) for i in top_at_peak(view)]
    label = labels((r.name for r, _ in found), cut)
    rows = [("tensor", "peak change", "new peak", "if it were")]
    for r, ideas in found:
        then, change = (ideas[0].peak_bytes, ideas[0].change) if ideas else (view.peak_bytes, "nothing helps")
        rows.append((label[r.name], f"{then - view.peak_bytes:,}", f"{then:,}", change))
    return ["", *columns(rows, right=[1, 2]).splitlines()]


def _sure(view: PlanView, width: int) -> list[str]:
    conflict = conflict_text(view.plan)
    said = proof_sentence(view.plan) if conflict is None else f"Too much: {conflict}. {proof_sentence(view.plan)}"
    return wrap(said, width, max_lines=_PROOF_LINES, placeholder=" ...", break_on_hyphens=False)
