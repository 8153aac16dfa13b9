"""Does a plan's profile agree with its order: the bytes of each step, and when each storage is live?"""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.errors import VerificationError
from lowtide.plan import Plan
from lowtide.sizes import format_count
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation


def check_profile(plan: Plan, memory: CheckedMemory, own: Simulation, steps: Simulation | None = None) -> str:
    """``profile``: footprints, lives, sizes and workspaces are those of the orders, simulated. `memory`: storages of
    the graph that the plan's order runs. `own`, `steps`: the user's graph in its own order; the plan's order, None with
    moves. Raises `VerificationError`: ``profile``: the first thing that differs."""
    claimed = plan.profile
    if claimed is None:
        return ""
    _same("own_order_bytes", claimed.own_order_bytes, list(own.footprint))
    _same("workspaces", claimed.workspaces, {str(v): size for v, size in memory.workspace.items() if size})
    roots = {i: b.name for i, b in enumerate(memory.storages)}
    sizes = {t.id: t.size for t in plan.tensors}
    other = {str(roots[i]): b.size for i, b in enumerate(memory.storages) if b.size != sizes.get(roots[i], b.size)}
    _same("sizes", claimed.sizes, other)
    above = {str(b.name): b.low - memory.place[b.name][1] for b in memory.storages if b.part}
    _same("lows", claimed.lows, {name: low for name, low in above.items() if low})
    if steps is None:
        if claimed.bytes or claimed.storages or claimed.starts or claimed.ends or claimed.used:
            raise VerificationError("profile", "the plan has moves: residency says what is where, and profile does too")
        return f"file order, {format_count(len(claimed.own_order_bytes), 'step')}"
    _same("bytes", claimed.bytes, list(steps.footprint))
    lives, uses = _lives(plan, memory, steps, roots)
    if not len(claimed.storages) == len(claimed.starts) == len(claimed.ends) == len(set(claimed.storages)):
        raise VerificationError("profile", "storages, starts and ends are not as many, or a storage is listed twice")
    ends = zip(claimed.starts, claimed.ends, strict=True)
    _same("lives", {str(root): life for root, life in zip(claimed.storages, ends, strict=True)}, lives)
    _same("used", claimed.used, uses)
    return f"{format_count(len(lives), 'storage')} over {format_count(len(claimed.bytes), 'step')}"


def _lives(
    plan: Plan, memory: CheckedMemory, steps: Simulation, roots: Mapping[int, int]
) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
    """Life of each storage with bytes, by its root's id, and the steps of its uses where those are fewer."""
    step_of = {v: step for step, v in enumerate(plan.order)}
    count = max(len(plan.order), 1)
    lives: dict[str, tuple[int, int]] = {}
    uses: dict[str, tuple[int, int]] = {}
    for i, storage in enumerate(memory.storages):
        if not storage.size:
            continue
        root = str(roots[i])
        lives[root] = (max(steps.first[i], 0), min(steps.last[i] + 1, count))
        at = [step_of[v] for v in storage.users]
        use = (min(at), max(at) + 1) if at else (0, 0)
        if use != lives[root]:
            uses[root] = use
    return lives, uses


def _same(what: str, claimed: object, real: object) -> None:
    """That both are alike. Raises `VerificationError` that names where they first differ."""
    if claimed == real:
        return
    if isinstance(claimed, list) and isinstance(real, list) and len(claimed) == len(real):
        at = next(i for i, (a, b) in enumerate(zip(claimed, real, strict=True)) if a != b)
        raise VerificationError("profile", f"{what} has {claimed[at]} at step {at}, where {real[at]} is right")
    if isinstance(claimed, dict) and isinstance(real, dict):
        key = min((k for k in {*claimed, *real} if claimed.get(k) != real.get(k)), key=str)
        raise VerificationError("profile", f"{what} of {key} is {claimed.get(key)}, where {real.get(key)} is right")
    raise VerificationError("profile", f"{what} does not speak of this plan's order")
