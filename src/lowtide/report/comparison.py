"""Methods compared in the table of `lowtide research compare`, and two plans of one model by what is live at their
peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from lowtide.names import brief
from lowtide.plan import Plan, RuntimeFigure
from lowtide.report.columns import columns
from lowtide.report.view import PlanView

INTERRUPTED = "stopped by interrupt"  # reason of the row in which Ctrl-C came; the methods after it have none


@dataclass(frozen=True)
class Printed:
    """A figure that a paper prints of a method on a network: what it is of, as printed with its unit, and where."""

    figure: str
    text: str
    source: str


@dataclass(frozen=True, repr=False)
class MethodResult:
    """What one method reached; a row of `compare`. Sizes are bytes.

    `lower_bound_bytes` is what this method proved; `optimal` whether its peak, or of methods that spill its traffic, is
    the best bound that any of the methods proved. `reason` is there unless `status` is ``"ok"``; after
    ``"unsupported"`` and ``"error"`` there are no sizes. A method that ends by its time limit, or by Ctrl-C, is
    ``"timeout"`` and has the best that it found. `ops_to_order` is what the method's own reduction left, `states` or
    `variables` how much it took; `published` is there for networks of the zoo that a paper measured as they are.
    `runtime_figures` is what the runtime takes by its defaults, and for this method's plan.
    """

    method: str
    status: Literal["ok", "timeout", "unsupported", "error"]
    reason: str | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    optimal: bool = False
    traffic_bytes: int | None = None
    traffic_lower_bound_bytes: int | None = None
    ops_to_order: int | None = None
    states: int | None = None
    variables: int | None = None
    published: tuple[Printed, ...] = ()
    runtime_figures: list[RuntimeFigure] | None = None
    counters: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def __repr__(self) -> str:
        return brief(self, "method status reason peak_bytes arena_bytes lower_bound_bytes optimal traffic_bytes")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the method, and the comparison with it."""
        return self.reason == INTERRUPTED


def comparison_text(rows: Sequence[MethodResult], target: str) -> str:
    """One line per method, and where what is published comes from."""
    spilling = any(row.traffic_bytes is not None for row in rows)
    names = ("traffic", "traffic bound", "fast memory") if spilling else ("peak", "arena", "lower bound")
    figures = next((row.runtime_figures for row in rows if row.runtime_figures), None) or []
    heads = ("method", *(f"{f.runtime} {f.what}" for f in figures), *names)
    heads += ("ops to order", "states", "seconds", "published", "")
    table = [heads, *_today(figures, len(heads)), *(_line(row, spilling, len(figures)) for row in rows)]
    used = [c for c in range(len(heads)) if c == len(heads) - 1 or any(line[c] for line in table[1:])]
    what = "traffic" if spilling else "peak"
    text = f"bytes under target {target}; optimal: the {what} is the best bound that any of these methods proved\n\n"
    text += columns(
        [[line[c] for c in used] for line in table], right=range(1, sum(c < 7 + len(figures) for c in used))
    )
    sources = sorted({figure.source for row in rows for figure in row.published})
    return f"{text}\n\npublished: {'; '.join(sources)}; times on the paper's machine" if sources else text


def _today(figures: Sequence[RuntimeFigure], width: int) -> list[tuple[str, ...]]:
    """The row of the runtime by its defaults, for the unmodified file."""
    if not figures:
        return []
    cells = (f"{figures[0].runtime} today", *(_number(f.default_bytes) for f in figures))
    return [cells + ("",) * (width - len(cells))]


def _line(row: MethodResult, spilling: bool, figures: int) -> tuple[str, ...]:
    sizes = (row.peak_bytes, row.arena_bytes, row.lower_bound_bytes)
    if spilling:
        sizes = (row.traffic_bytes, row.traffic_lower_bound_bytes, row.arena_bytes)
    note = "optimal" if row.optimal else ""
    if row.status != "ok":
        note = ", ".join(part for part in (note, f"{row.status}: {row.reason}") if part)
    took = f"{row.variables:,} variables" if row.variables is not None else _number(row.states)
    printed = ", ".join(f"{figure.figure} {figure.text}" for figure in row.published)
    runs = [_number(f.planned_bytes) for f in row.runtime_figures or ()] or [""] * figures
    return (
        row.method,
        *runs,
        *map(_number, sizes),
        _number(row.ops_to_order),
        took,
        f"{row.seconds:.2f}",
        printed,
        note,
    )


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def why_apart(plan: Plan, other: Plan) -> str:
    """In what a plan is of another model than the other is, in words; empty if both are of one, at the same sizes: else
    fewer bytes need not be a better plan."""
    if plan.model_sha256 != other.model_sha256:
        return "of another model or version"
    return "" if _sizes(plan) == _sizes(other) else f"at other sizes ({_sizes(plan)}, not {_sizes(other)})"


def _sizes(plan: Plan) -> str:
    return ", ".join(f"{name}={size}" for name, size in sorted((plan.dims or {}).items())) or "those of the file"


def who_left(before: PlanView, after: PlanView) -> list[tuple[str, int, int]]:
    """Names of what is live at either peak, with its bytes at both, 0 where it is not there. Those whose bytes
    changed most come first; of what has one name, as parts of an op, bytes are summed up."""
    bytes_of: dict[str, list[int]] = {}
    for k, view in enumerate((before, after)):
        for i in view.at(view.peak_step) if view.steps else ():
            r = view.rectangles[i]
            name = f"workspace of {r.name}" if r.tensor is None else r.name
            bytes_of.setdefault(name, [0, 0])[k] += r.size
    rows = [(name, old, new) for name, (old, new) in bytes_of.items()]
    return sorted(rows, key=lambda row: (-abs(row[1] - row[2]), -row[1], row[0]))
