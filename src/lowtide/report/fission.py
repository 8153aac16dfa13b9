"""What a plan of a step says of parts, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lowtide.fission_plan import PlanFission, StepFission
from lowtide.plan import Plan
from lowtide.report.cuts import EXACTNESS
from lowtide.sizes import format_count, format_size


def fission_rows(plan: Plan) -> list[tuple[str, str]]:
    """What runs in parts, and what the step takes."""
    claim = plan.fission
    if claim is None:
        return []
    parts = [("in parts", _part_text(part)) for part in claim.parts] or [("in parts", "no op")]
    if claim.merged:
        count = sum(len(merge.products) for merge in claim.merged)
        text = f"{format_count(count, 'product')} that read the same run as {len(claim.merged)}, gradients likewise"
        parts.insert(0, ("merged", text))
    exact = EXACTNESS[plan.exactness or "bits"]
    bound = "" if claim.max_overhead is None else f", {100 * claim.max_overhead:g} % allowed"
    time = (
        f"{1e3 * claim.predicted_seconds:,.2f} ms predicted on {claim.device or 'the cost file'}, "
        f"{100 * claim.overhead:+.2f} % beside the step as it stands{bound}{_least(claim)}; results {exact}"
    )
    return [*parts, ("time", time)]


def _least(claim: StepFission) -> str:
    """What no plan within the budget takes less than, where that is more than the unmodified step."""
    added = 0.0 if claim.least_seconds is None else claim.least_seconds / claim.uncut_seconds - 1
    return f"; {100 * added:+.2f} % at least within the budget" if added > 1e-5 else ""


def _part_text(part: PlanFission) -> str:
    recomputed = sum(1 for r in part.body.get("rewrites") or () if r["kind"] == "recompute")
    body, swapping = format_size(int(part.body["required_bytes"])), part.body.get("swapping")
    return (
        f"{format_count(len(part.ops), 'op')} in {len(part.ends)} parts, {body} each; "
        f"{format_count(recomputed, 'run')} again in each" + ("" if swapping is None else _moved_text(part, swapping))
    )


def _moved_text(part: PlanFission, swapping: Mapping[str, Any]) -> str:
    """What leaves memory while a part runs."""
    moved = sum(1 for r in part.body.get("rewrites") or () if r["kind"] == "swap")
    out, back = format_size(int(swapping["stored_bytes"])), format_size(int(swapping["loaded_bytes"]))
    waiting = swapping["waiting_nanoseconds"] / 1e6
    return f"; {format_count(moved, 'tensor')} leave memory, {out} out and {back} in, {waiting:,.2f} ms waiting"
