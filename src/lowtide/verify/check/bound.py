"""Is the lower bound what the certificate gives, and do status and required bytes follow from the rest?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from lowtide.certificates import CutCertificate, NoCertificate, SearchCertificate
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan, least_required
from lowtide.rewrites import Recompute, Swap
from lowtide.sizes import format_size
from lowtide.target import Target
from lowtide.verify.check.cut import check_cut
from lowtide.verify.check.memory import CheckedMemory, work_out


def largest_single_op(graph: Graph, memory: CheckedMemory) -> int:
    """Bytes that some op needs in every order: what it touches, its workspace, in place where it may be."""
    most = 0
    for op in graph.ops:
        own = memory.workspace[op.id] + sum([memory.storages[i].size for i in memory.touches[op.id]])
        if own > most:
            most = max(most, own - max(memory.saved[op.id].values(), default=0))
    return most


def saved_in_sequences(graph: Graph, target: Target) -> dict[int, int]:
    """Bytes that each op may save at most by writing in place, where ops are recomputed or tensors leave memory: also
    over a result, of which it may be a copy, as long as the result is recomputed or loaded."""
    tensors = [replace(t, kind=Kind.ACTIVATION) if t.id in graph.producer else t for t in graph.tensors]
    saved = work_out(replace(graph, tensors=tuple(tensors)), target).saved
    return {op: max(by.values(), default=0) for op, by in saved.items()}


def least_in_sequences(graph: Graph, memory: CheckedMemory, saved: Mapping[int, int]) -> int:
    """Bytes that some op of the user's graph needs, however often ops run and tensors leave memory, each with as many
    `saved`."""
    touched = {op.id: sum([memory.storages[i].size for i in memory.touches[op.id]]) for op in graph.ops}
    return max((size + memory.workspace[v] - saved.get(v, 0) for v, size in touched.items()), default=0)


def least_permitted(graph: Graph, memory: CheckedMemory, plan: Plan, target: Target) -> int | None:
    """Bytes, without the reserve, that are proved to be needed by every plan that may change the graph as this one
    may; None: nothing is proved. A bound over orders is one for plans that may change nothing. Where ops may be
    recomputed or tensors leave memory, each op needs what it touches. Where ops may be cut, or are fused with those
    they read from, nothing is known here. `graph`, `memory`: the user's own."""
    words = set(plan.allow or ())
    kinds = {type(r) for r in plan.rewrites or ()}
    if not words and not kinds and not plan.loops:
        return plan.least_required_bytes
    if (
        plan.loops
        or not words <= {"recompute", "offload"}
        or not kinds <= {Recompute, Swap}
        or target.chains != "apart"
    ):
        return None
    return least_required(least_in_sequences(graph, memory, saved_in_sequences(graph, target)), plan.runtime_parts)


def next_footprint(memory: CheckedMemory, above: int) -> int:
    """Least bytes above `above` that can be a footprint: a multiple of what all sizes are multiples of."""
    unit = gcd(*(b.size for b in memory.storages), *memory.workspace.values())
    unit = gcd(unit, *(size for saved in memory.saved.values() for size in saved.values()))
    return above + 1 if unit == 0 else (above // unit + 1) * unit


def check_bound(graph: Graph, plan: Plan, memory: CheckedMemory) -> tuple[str, str]:
    """Check `lower_bound_bytes`, `optimal` and the certificate. Returns what was seen, and a note. Raises
    `VerificationError`: ``bound``: above the peak, or above what the certificate gives; ``optimal``: not whether they
    are equal; ``certificate``: it does not hold."""
    bound, peak, single = plan.lower_bound_bytes, plan.peak_bytes, largest_single_op(graph, memory)
    if bound > peak:
        raise VerificationError("bound", f"the lower bound is {format_size(bound)}, above the peak")
    if bound < 0:
        raise VerificationError("bound", f"the lower bound is {bound}, below nothing")
    if plan.optimal != (peak == bound):
        claim = "optimal" if plan.optimal else "not optimal"
        raise VerificationError(
            "optimal", f"the plan says {claim}, with a peak of {format_size(peak)} and a bound of {format_size(bound)}"
        )
    certificate = plan.certificate
    if isinstance(certificate, CutCertificate):
        seen = check_cut(graph, memory, certificate)
        given, note = certificate.value_bytes, "bound: proved by flow"
    elif isinstance(certificate, SearchCertificate):
        if certificate.refuted_bytes >= peak:
            raise VerificationError(
                "certificate", f"{certificate.refuted_bytes} bytes are refuted, and the plan's own order needs {peak}"
            )
        given = next_footprint(memory, certificate.refuted_bytes)
        seen, note = f"a search refuted {certificate.refuted_bytes:,} B", "bound: by search; --prove searches again"
    elif isinstance(certificate, NoCertificate):
        given, seen, note = 0, "no certificate", "bound: footprint of a single op"
    else:
        raise VerificationError("certificate", f"nothing here checks a {type(certificate).__name__}")
    if single >= bound and given < bound:
        return f"{seen}; a single op needs {single:,} B", "bound: footprint of a single op"
    if bound > given:
        raise VerificationError(
            "bound", f"the lower bound is {bound}, but {seen}, and a single op needs {single}: proved is {given}"
        )
    return seen, note


def check_largest_tensor(graph: Graph, plan: Plan, target: Target) -> tuple[bool, str]:
    """Check `largest_tensor_bytes`, of the graph of the plan's order. Returns whether it is within the target's limit,
    and what was seen, or nothing where none is limited. Raises `VerificationError`: ``largest_tensor``."""
    made = {t for op in graph.ops for t in op.outputs}
    sizes = [t.size for t in graph.tensors if t.kind is not Kind.OUTPUT and (t.id in made or t.kind is Kind.ACTIVATION)]
    largest = max(sizes, default=0) if target.max_tensor else None
    if plan.largest_tensor_bytes != largest:
        raise VerificationError(
            "largest_tensor", f"the largest tensor has {largest} bytes; the plan says {plan.largest_tensor_bytes}"
        )
    if largest is None:
        return True, ""
    return largest <= target.max_tensor, f"{largest:,} B, limit {target.max_tensor:,} B"


def check_budget(
    plan: Plan,
    target: Target,
    least: int | None,
    statuses: tuple[str, ...] | None = None,
    *,
    alone: bool = False,
    tensors_fit: bool = True,
) -> str:
    """Check `required_bytes`, `status` and the budget. A plan that fits is possible, and an interrupted search says
    over budget at most. `least`: bytes, without the reserve, that no plan needs less than (`least_permitted`); None:
    nothing is known. `statuses`: those that several memories leave open. `alone`: whether one op by itself, with its
    sizes rounded up, does not fit. `tensors_fit`: whether each tensor is within the target's limit.
    Raises `VerificationError`: ``required`` or ``status``."""
    reserve = plan.reserve_bytes or 0
    base = plan.peak_bytes if plan.arena_bytes is None or target.allocates_one_by_one else plan.arena_bytes
    base = base if plan.runtime_arena_bytes is None else plan.runtime_arena_bytes
    if reserve < 0 or plan.required_bytes != base + reserve:
        raise VerificationError(
            "required", f"required are {plan.required_bytes} bytes, not {base} and a reserve of {reserve}"
        )
    if statuses is not None:
        allowed: tuple[str, ...] = statuses
    elif plan.budget_bytes is None or plan.required_bytes <= plan.budget_bytes:
        allowed = ("ok",) if tensors_fit else ("over_budget",)
    elif plan.stopped == "interrupt":
        allowed = ("over_budget",)
    elif least is not None and least + reserve > plan.budget_bytes:
        allowed = ("impossible", "over_budget") if plan.allow else ("impossible",)
    else:
        allowed = ("over_budget", "impossible") if alone else ("over_budget",)
    if allowed == ("ok",) and not plan.optimal:
        allowed = ("ok", "unproved")
    if plan.status not in allowed:
        raise VerificationError("status", f"the status is {plan.status!r}; the plan's figures say {allowed[0]!r}")
    within = "no budget" if plan.budget_bytes is None else f"a budget of {format_size(plan.budget_bytes)}"
    return f"{format_size(plan.required_bytes)} required, {within}: {plan.status}"
