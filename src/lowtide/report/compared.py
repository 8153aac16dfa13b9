"""Two plans compared: whether they are of one model, and who is live at the one's peak, and no longer at the
other's."""

from __future__ import annotations

from lowtide.plan import Plan
from lowtide.report.view import PlanView


def why_apart(plan: Plan, other: Plan) -> str:
    """In what a plan is of another model than the other is, in words; empty if both are of one, at the same sizes: else
    fewer bytes need not be a better plan."""
    if plan.model_sha256 != other.model_sha256:
        return "of another model or version"
    return "" if _sizes(plan) == _sizes(other) else f"at other sizes ({_sizes(plan)}, not {_sizes(other)})"


def _sizes(plan: Plan) -> str:
    return ", ".join(f"{name}={size}" for name, size in sorted((plan.dims or {}).items())) or "those of the file"


def who_left(before: PlanView, after: PlanView) -> list[tuple[str, int, int]]:
    """Names of what is live at either peak, with its bytes at both, 0 where it is not there.

    Those whose bytes changed most come first; of what has one name, as parts of an op, bytes are summed up.
    """
    bytes_of: dict[str, list[int]] = {}
    for k, view in enumerate((before, after)):
        for i in view.at(view.peak_step) if view.steps else ():
            r = view.rectangles[i]
            name = f"workspace of {r.name}" if r.tensor is None else r.name
            bytes_of.setdefault(name, [0, 0])[k] += r.size
    rows = [(name, old, new) for name, (old, new) in bytes_of.items()]
    return sorted(rows, key=lambda row: (-abs(row[1] - row[2]), -row[1], row[0]))
