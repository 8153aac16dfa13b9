"""Is the lower bound what the certificate gives, and do status and required bytes follow from the rest?"""

from __future__ import annotations

from math import gcd

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import CutCertificate, Plan, SearchCertificate
from lowtide.sizes import format_size
from lowtide.target import Target
from lowtide.verify.check.cut import check_cut
from lowtide.verify.check.memory import CheckedMemory


def largest_single_op(graph: Graph, memory: CheckedMemory) -> int:
    """Bytes that some op needs in every order: what it touches, its workspace, in place where it may be."""
    most = 0
    for op in graph.ops:
        own = memory.workspace[op.id] + sum([memory.storages[i].size for i in memory.touches[op.id]])
        if own > most:
            most = max(most, own - max(memory.saved[op.id].values(), default=0))
    return most


def next_footprint(graph: Graph, memory: CheckedMemory, above: int) -> int:
    """Least bytes above `above` that can be a footprint: a multiple of what all sizes are multiples of."""
    unit = gcd(*(b.size for b in memory.storages), *memory.workspace.values())
    unit = gcd(unit, *(size for saved in memory.saved.values() for size in saved.values()))
    return above + 1 if unit == 0 else (above // unit + 1) * unit


def check_bound(graph: Graph, plan: Plan, memory: CheckedMemory) -> tuple[str, str]:
    """Check `lower_bound_bytes`, `optimal` and the certificate. Returns what was seen, and a note.

    Raises
    ------
    VerificationError
        ``bound``: above the peak, or above what the certificate gives; ``optimal``: not whether they are
        equal; ``certificate``: it does not hold.
    """
    bound, peak, single = plan.lower_bound_bytes, plan.peak_bytes, largest_single_op(graph, memory)
    if bound > peak:
        raise VerificationError("bound", f"the lower bound is {format_size(bound)}, above the peak")
    if bound < 0:
        raise VerificationError("bound", f"the lower bound is {bound}, below nothing")
    if plan.optimal != (peak == bound):
        claim = "optimal" if plan.optimal else "not optimal"
        raise VerificationError(
            "optimal",
            f"the plan says {claim}, with a peak of {format_size(peak)} and a bound of {format_size(bound)}",
        )
    certificate = plan.certificate
    if isinstance(certificate, CutCertificate):
        seen = check_cut(graph, memory, certificate)
        given, note = certificate.value_bytes, "bound: proved by flow"
    elif isinstance(certificate, SearchCertificate):
        if certificate.refuted_bytes >= peak:
            raise VerificationError(
                "certificate",
                f"{certificate.refuted_bytes} bytes are refuted, and the plan's own order needs {peak}",
            )
        given = next_footprint(graph, memory, certificate.refuted_bytes)
        seen, note = f"a search refuted {certificate.refuted_bytes:,} B", "bound: by search; --prove searches again"
    else:
        given, seen, note = 0, "no certificate", "bound: footprint of a single op"
    if single >= bound and given < bound:
        return f"{seen}; a single op needs {single:,} B", "bound: footprint of a single op"
    if bound > given:
        raise VerificationError(
            "bound",
            f"the lower bound is {bound}, but {seen}, and a single op needs {single}: proved is {given}",
        )
    return seen, note


def check_budget(plan: Plan, target: Target, statuses: tuple[str, ...] | None = None) -> str:
    """Check `required_bytes`, `status` and the budget; `statuses` are those that several memories leave open.

    Raises
    ------
    VerificationError
        ``required`` or ``status``.
    """
    reserve = plan.reserve_bytes or 0
    base = plan.peak_bytes if plan.arena_bytes is None or target.allocates_one_by_one else plan.arena_bytes
    base = base if plan.runtime_arena_bytes is None else plan.runtime_arena_bytes
    if reserve < 0 or plan.required_bytes != base + reserve:
        raise VerificationError(
            "required", f"required are {plan.required_bytes} bytes, not {base} and a reserve of {reserve}"
        )
    if statuses is not None:
        allowed: tuple[str, ...] = statuses
    elif plan.budget_bytes is None:
        allowed = ("ok",)
    elif plan.least_required_bytes + reserve > plan.budget_bytes and (not plan.allow or plan.recomputation is not None):
        allowed = ("impossible",)
    elif plan.required_bytes > plan.budget_bytes:
        allowed = ("over_budget",)
    else:
        allowed = ("ok",)
    if allowed == ("ok",) and not plan.optimal:
        allowed = ("ok", "unproved")
    if plan.status not in allowed:
        raise VerificationError("status", f"the status is {plan.status!r}; the plan's figures say {allowed[0]!r}")
    within = "no budget" if plan.budget_bytes is None else f"a budget of {format_size(plan.budget_bytes)}"
    return f"{format_size(plan.required_bytes)} required, {within}: {plan.status}"
