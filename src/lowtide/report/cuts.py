"""What a plan cut, in words."""

from __future__ import annotations

from lowtide.plan import Plan
from lowtide.rewrites import ConcatElimination, CutRegion, Sections
from lowtide.sizes import format_count, format_size

EXACTNESS = {
    "bits": "bit for bit the same",
    "kernel": "as other kernels round for other shapes",
    "sum": "equal up to rounding, as sums run in another order",
}
"""What outputs of a changed graph may differ by."""


def not_cut_text(plan: Plan) -> str | None:
    """Why a plan that may cut does not, where cuts were found; None otherwise."""
    search = plan.search or {}
    if "cut_required_bytes" not in search:
        return None
    live, required = (format_size(search[key]) for key in ("cut_peak_bytes", "cut_required_bytes"))
    return f"the best cuts that were found have {live} live at once, and need {required} in all"


def _again_text(plan: Plan) -> str:
    """How many regions run rows again, and what that adds."""
    cut = [r for r in plan.all_rewrites if isinstance(r, CutRegion)]
    again = sum(any(c.begins is not None for c in r.ops) for r in cut)
    added = 100 * plan.halos.overhead if plan.halos is not None else 0.0
    return f"halos of {format_count(again, 'region')} computed again, {added:.1f} % more multiplications"


def cut_text(plan: Plan) -> str:
    """What is cut, what runs for it, and what the outputs may differ by."""
    rounds = [*(plan.rounds or ()), plan]
    rewrites = [r for one in rounds for r in one.rewrites or ()]
    regions = [r for r in rewrites if isinstance(r, CutRegion)]
    at_seams = sum(len(r.ops) for r in rewrites if isinstance(r, ConcatElimination))
    cut = sum(len(r.ops) for r in regions) + at_seams
    by_sections = [r for r in rewrites if isinstance(r, Sections)]
    of_first = sum(len(r.ops) for r in rounds[0].rewrites or () if isinstance(r, CutRegion | ConcatElimination))
    whole = sum(op.part is None for op in rounds[0].ops) - len(plan.folded)
    own = whole + of_first + sum(len(r.gone) - len(r.ops) for r in by_sections)
    without = (plan.search or {}).get("uncut_peak_bytes")
    best = "" if without is None else f"; the best order without: {format_size(without)}"
    where = [f"{format_count(cut - at_seams, 'op')} in {format_count(len(regions), 'region')}"] if regions else []
    where += [f"{format_count(len(by_sections), 'product')} by sections"] if by_sections else []
    where += [f"{format_count(at_seams, 'op')} at the seams of concats"] if at_seams else []
    where += [_again_text(plan)] if plan.halos is not None else []
    often = f", in {len(rounds)} rounds" if len(rounds) > 1 else ""
    return (
        f"{', '.join(where)}{often}: {len(plan.order):,} ops run instead of "
        f"{own:,}; outputs {EXACTNESS[plan.exactness or 'bits']}{best}"
    )
