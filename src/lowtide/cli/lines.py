"""Whether something fits, in a line or a few: of a model, of plain buffers, of models that share an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.columns import CUT_SHORT, columns
from lowtide.report.text import least_text
from lowtide.sizes import format_size

if TYPE_CHECKING:
    from lowtide.api import Check, Placement, Shared


def check_line(check: Check, reserve: int, *, as_is: bool) -> str:
    """Whether a model fits, what is required and what there is, and how sure that is; `reserve` in bytes."""
    if check.status == "impossible" and not check.memories:
        verdict = f"cannot fit untiled, {_least(check, reserve)}"
    else:
        verdict = {
            "ok": "fits",
            "unproved": "fits, but is not proved optimal",
            "over_budget": "does not fit",
            "impossible": "cannot fit untiled, in any order",
        }[check.status]
    why = "" if check.conflict is None else f"; {check.conflict}"
    each = [
        f"{m.name} {m.required_bytes:,} B, available {m.available_bytes:,} B, "
        + (f"excess {m.excess_bytes:,} B" if m.excess_bytes else f"to spare {m.available_bytes - m.required_bytes:,} B")
        for m in check.memories or ()
    ]
    required, available, excess = sizes_of(check)
    what = " of tensor arena" if check.model.lower().endswith(".onnx") else ""
    rest = f"excess {excess}"
    if not check.excess_bytes and check.status != "impossible":
        more = {"exact": "", "at most": "at least ", "at least": "at most "}[check.sure]
        rest = f"to spare {more}{check.available_bytes - check.required_bytes:,} B"
    sizes = "; ".join(each) or f"{required}{what}, available {available}, {rest}"
    proof = f"target {check.target}, {_proof(check, as_is=as_is)}"
    if check.runtime_unknown:
        proof += f", not known what the kernels of {', '.join(check.runtime_unknown)} take"
    return f"{verdict}: required {sizes} ({proof}){why}"


def sizes_of(check: Check) -> tuple[str, str, str]:
    """Required, available, excess; of what is not the best plan's what is proved, and no more."""
    sure = "" if check.sure == "exact" else f"{check.sure} "
    excess, more = check.excess_bytes, sure
    if sure and check.status == "impossible":
        excess, more = check.least_bytes - check.available_bytes, "at least "
    elif not excess:
        more = ""
    return f"{sure}{check.required_bytes:,} B", f"{check.available_bytes:,} B", f"{more}{excess:,} B"


def _proof(check: Check, *, as_is: bool) -> str:
    if as_is:
        proof = "file order and offsets" if check.parts is not None else "file order"
    elif check.status == "impossible" and not check.optimal:
        proof = "peak not proved optimal"
    elif check.sure == "at most":
        proof = f"at least {check.least_bytes:,} B are needed; `lowtide plan` finds the least"
    else:
        proof = "peak proved optimal" if check.optimal else f"lower bound {check.lower_bound_bytes:,} B"
    return f"{proof}, {CUT_SHORT[check.stopped]}" if check.stopped in CUT_SHORT else proof


def _least(check: Check, reserve: int) -> str:
    """What is compared with the budget: the bound, with the runtime's own part and the reserve, if there are any."""
    if check.parts is not None:
        return least_text(check.lower_bound_bytes, check.parts, reserve)
    with_it = f", with the reserve {check.lower_bound_bytes + reserve:,} B" if reserve else ""
    return f"the lower bound is {check.lower_bound_bytes:,} B{with_it}"


def shared_lines(shared: Shared, budget: int | None) -> str:
    """Each model's arena alone, and the shared one; `budget` in bytes."""
    proof = "least for these orders" if shared.optimal else f"at least {shared.lower_bound_bytes:,} B"
    rows = [(m.name, f"{m.alone_bytes:,} B alone") for m in shared.models]
    rows.append(("shared", f"{format_size(shared.arena_bytes)}, {proof}; apart {shared.separate_bytes:,} B"))
    if shared.persistent_bytes:
        rows.append(("persistent", f"{shared.persistent_bytes:,} B of it"))
    if budget is not None:
        verdict = {"ok": "fits", "over_budget": "over", "impossible": "proved not to fit", "unproved": "fits"}
        rows.append(("budget", f"{format_size(budget)}: {verdict[shared.status]}"))
    return columns(rows)


def _reuse_line(placed: Placement, capacity: int, count: str) -> str:
    room = format_size(capacity)
    if placed.reuse_cost is None:
        never = "proved not to fit" if placed.status == "impossible" else "no placement was found within"
        return f"{never} the capacity of {room}"
    proof = "proved optimal" if placed.optimal else f"at least {placed.reuse_lower_bound:,}"
    return f"reuse costs {placed.reuse_cost:,}, {proof}; height {format_size(placed.height_bytes)} of {room}; {count}"


def placement_lines(placed: Placement, capacity: int | None, status: int) -> list[str]:
    """What was reached, and who is in the way if it does not fit."""
    why = [] if placed.conflict is None else [placed.conflict]
    count = f"{len(placed.offsets):,} buffers"
    if placed.memories is not None:
        each = [
            f"{m.name} {m.required_bytes:,} B of {m.available_bytes:,} B"
            + (f", excess {m.excess_bytes:,} B" if m.excess_bytes else "")
            for m in placed.memories
        ]
        slow = f"{placed.slow_bytes or 0:,} B in slow memory, " + (
            "proved optimal" if placed.optimal else f"at least {placed.slow_lower_bound_bytes or 0:,} B"
        )
        known = {"ok": slow, "over_budget": "does not fit", "impossible": "proved not to fit"}
        verdict = known[placed.status or "ok"]
        if placed.interrupted and placed.status == "over_budget":
            verdict = "interrupted before it was known whether they fit"
        return [f"{'; '.join(each)}; {verdict}; {count}", *why]
    if placed.reuse_lower_bound is not None:
        return [_reuse_line(placed, capacity or 0, count), *why]
    bound = "proved optimal" if placed.optimal else f"lower bound {format_size(placed.lower_bound_bytes)}"
    known = {0: "fits the capacity", 3: "over the capacity", 4: "proved not to fit the capacity"}
    fits = known.get(status, "interrupted before it was known whether it fits the capacity")
    verdict = "" if capacity is None else f"; {fits} of {format_size(capacity)}"
    alone = "" if placed.alone is None else f", {placed.alone:,} of them share no byte with any other"
    return [f"height {format_size(placed.height_bytes)}, {bound}, {count}{alone}{verdict}", *why]
