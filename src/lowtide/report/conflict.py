"""Why something does not fit, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.names import shorten
from lowtide.plan import Plan

MOST_NAMED, _NAME = 6, 60  # members named, the rest are counted; and characters of a name


def conflict_text(plan: Plan) -> str | None:
    """``a 100 B, b 100 B cannot share 150 B at step 1, op1 (Conv)``; None if the plan says of no conflict."""
    conflict = plan.conflict
    if conflict is None:
        return None
    tensors = {t.id: t for t in plan.tensors}
    ops = {op.id: op for op in plan.ops}
    members = [(tensors[t].name or f"tensor {t}", tensors[t].size) for t in conflict.tensors]
    members += [(f"the workspace of {shorten(ops[o].name, _NAME) or f'op {o}'}", 0) for o in conflict.workspaces]
    at = None
    if conflict.step is not None and plan.order:
        op = ops[plan.order[conflict.step]]
        name = shorten(op.name, _NAME) or f"op {op.id}"
        at = f"step {conflict.step:,}, {name}{f' ({op.type})' if op.type else ''}"
    memories = {m.name: m.capacity_bytes for m in plan.memories or ()}
    left = conflict.available_bytes
    rest = 0 if memories or plan.budget_bytes is None else plan.budget_bytes - left
    kept = [word for word, size in (("tail", plan.runtime_parts), ("reserve", plan.reserve_bytes)) if size]
    less = f" (budget {plan.budget_bytes:,} B less {rest:,} B of {' and '.join(kept)})" if rest and kept else ""
    return set_text(members, left, conflict.needed_bytes, at, memories, less)


def set_text(
    members: Sequence[tuple[str, int]],
    available: int,
    needed: int,
    at: str | None,
    memories: Mapping[str, int] | None = None,
    less: str = "",
) -> str:
    """Members with their bytes (0: not said), and what they cannot share; `at` is the step, None if there is no one;
    `less` says why no more is available.
    Where they fit all `memories` together, they are such as cannot be divided among them."""
    rows = sorted(members, key=lambda row: (-row[1], row[0]))
    named = [shorten(name, _NAME) + (f" {size:,} B" if size else "") for name, size in rows[:MOST_NAMED]]
    more = f" and {len(rows) - MOST_NAMED:,} more" if len(rows) > MOST_NAMED else ""
    where = f" at {at}" if at is not None else ", although the bytes of each step do: proved"
    if memories and needed <= available:
        each = ", ".join(f"{name} {size:,} B" for name, size in memories.items())
        return f"{', '.join(named)}{more} cannot be divided among {each}{where} ({needed:,} B needed)"
    if len(rows) == 1:
        return f"{named[0]} does not fit the {available:,} B that are left{less}{where}"
    return f"{', '.join(named)}{more} cannot share {available:,} B{less}{where} ({needed:,} B needed)"


def too_small_text(plan: Plan, name: str, capacity_bytes: int) -> str:
    """Why there is no plan with moves: what is too large for the fast memory of this name."""
    if "cut_floor_op" in (plan.search or {}):
        return _too_small_for_cuts(plan, name, capacity_bytes)
    if plan.status != "impossible" or plan.conflict is None or plan.conflict.step is None:
        return f"no order was found in which every op fits the {capacity_bytes:,} B of {name}"
    needed = plan.conflict.needed_bytes
    outputs = {t.id for t in plan.tensors if t.kind == "output"}
    if plan.conflict.step == len(plan.order) - 1 and outputs.issuperset(plan.conflict.tensors):
        return f"the graph outputs need {needed:,} B at once at the end; {name} has {capacity_bytes:,} B"
    return f"{_op_text(plan, plan.order[plan.conflict.step])} alone needs {needed:,} B; {name} has {capacity_bytes:,} B"


def _too_small_for_cuts(plan: Plan, name: str, capacity_bytes: int) -> str:
    """The same where ops may be cut, and the best cuts that were found are too large."""
    search = plan.search or {}
    op = _op_text(plan, int(search["cut_floor_op"]))
    least = f"tiled along any one dimension, {op} needs {search['cut_floor_bytes']:,} B"
    if search["cut_floor_bytes"] > capacity_bytes:
        return f"{least}; {name} has {capacity_bytes:,} B"
    return f"no tiling was found with which every op fits the {capacity_bytes:,} B of {name}; {least}"


def _op_text(plan: Plan, at: int) -> str:
    op = next(op for op in plan.ops if op.id == at)
    return f"{shorten(op.name, _NAME) or f'op {op.id}'}{f' ({op.type})' if op.type else ''}"
