"""The checker's front door: does this plan hold for this graph under this target?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import get_args

from lowtide.certificates import NoCertificate
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import ConcatElimination, CutRegion, Exactness, PlanCost, Sections
from lowtide.sizes import format_count, format_size
from lowtide.target import Target
from lowtide.verify.check.aliases import aliased, check_aliases, has_aliases
from lowtide.verify.check.banks import allowed_statuses, as_one_arena, check_arenas, check_capacities
from lowtide.verify.check.bound import (
    check_bound,
    check_budget,
    check_largest_tensor,
    largest_single_op,
    least_permitted,
)
from lowtide.verify.check.conflict import alone_too_large, check_conflict
from lowtide.verify.check.figures import check_counts, check_figures, check_halos
from lowtide.verify.check.fission import verify_fission
from lowtide.verify.check.layout import aligned_load, check_fixed, check_layout
from lowtide.verify.check.loops import check_loops
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.moves import check_spilling, counted_memory
from lowtide.verify.check.order import Simulation, check_ids, check_new_names, check_order, claimed_pairs, simulate
from lowtide.verify.check.parts import exactness, has_cuts
from lowtide.verify.check.profile import check_profile
from lowtide.verify.check.recompute import check_recomputation
from lowtide.verify.check.regions import check_regions
from lowtide.verify.check.replay import replay
from lowtide.verify.check.rewrites import before_cuts, check_allowed, check_clones_exactness, rounds_of, with_ops
from lowtide.verify.check.runtime_arena import check_runtime_arena
from lowtide.verify.check.streams import in_the_fast_memory
from lowtide.verify.check.sums import check_recomputed_operations
from lowtide.verify.check.unread import check_read
from lowtide.verify.check.writes import check_writes
from lowtide.verify.prove.traffic import check_proof
from lowtide.verify.report import HeldRule, Report

FAILURES = {
    "target": "the plan was made under another target",
    "search": "what the search says of itself in names that lowtide reads is of their types",
    "unread": "nothing is in the plan that is read in plans of other kinds alone",
    "body": "what the plan says of ops and tensors makes a graph",
    "ids": "ops and tensors are those of the graph: ids, names, sizes, kinds, aliases",
    "order": "every op once, after what it needs",
    "writes": "who reads bytes that an op writes over reads what it reads in the file order",
    "in_place": "each claimed pair is allowed, its input dies there, and an op has one at most",
    "own_order_peak": "own_order_peak_bytes is the peak of the file order",
    "peak": "peak_bytes is the peak of the plan's order with the claimed pairs, and no others, in place",
    "bound": "lower_bound_bytes is at most the peak and at most what is proved",
    "optimal": "optimal says whether peak and bound are equal",
    "certificate": "the certificate holds",
    "offsets": "every storage with bytes has an offset; a tensor's is its storage's plus its displacement",
    "alignment": "offsets are multiples of the target's alignment",
    "arena": "everything ends within the arena, which is no smaller than the peak and its bound",
    "arena_optimal": "arena_optimal says whether arena and arena bound are equal",
    "in_place_offset": "an output in place lies exactly on its input, or after what is still to be read of it",
    "workspace": "every workspace has an offset",
    "overlap": "storages and workspaces that are live together share no byte",
    "fixed": "tensors that the target fixes are where it says",
    "memories": "memories have names and sizes, and hold no more than the plan says",
    "runtime_arenas": "the runtime's arenas are in memories of the plan, as large as its parts make them",
    "residency": "every tensor is in one memory for its lifetime, with all that shares its storage",
    "recompute": "the runs of the user's ops need as many bytes and cost as much as the plan says, at least the bound",
    "aliases": "a tensor in another one is where kernels can write it, and no byte is lost before it is read",
    "rewrites": "recomputed ops are copies of the graph's, for ops that read what they make",
    "parts": "a tile of an op is given the rows that it needs, and what others read is materialised",
    "loops": "what a loop reads is in its line buffers, which do not overlap, and streamed inputs come in order",
    "fission": "tiled ops are given the rows that they need, sums are complete when they are read, and times add up",
    "regions": "region_bound is needed by every tiling, and proved_over speaks of regions where the peak is no more",
    "streams": "what is left on the host whole can be, and its slices and joins move what is said",
    "moves": "what an op reads is in the fast memory, what is moved was there, and the moves come in time",
    "traffic": "traffic_bytes is what the moves carry, its bound is no more and what its parts add up to, and optimal "
    "says whether they are equal",
    "conflict": "the tensors of a conflict are live at once, and are too large",
    "replay": "every byte is still there when it is read",
    "runtime_arena": "a runtime's own arena fits in runtime_arena_bytes, which is there if the target has one",
    "required": "required_bytes is the arena plus the reserve",
    "profile": "profile says the bytes of each step, and when each storage is there",
    "largest_tensor": "largest_tensor_bytes is the largest tensor that the target limits",
    "status": "status follows from budget, bound and required bytes",
}
"""Every way in which a plan can fail, and what holds if it does not."""


NOT_WITH_MOVES = {
    "offsets": "offsets",
    "overlap": "in_place",
    "arena_lower_bound_bytes": "arena",
    "arena_optimal": "arena_optimal",
    "budget_bytes": "status",
    "reserve_bytes": "required",
    "runtime_arena_bytes": "runtime_arena",
    "runtime_figures": "runtime_figures",
    "conflict": "conflict",
    "region_bound": "regions",
    "largest_tensor_bytes": "largest_tensor",
}
"""What a plan with moves says nothing of, and the failure if it does."""


def _check_target(graph: Graph, plan: Plan, target: Target) -> None:
    """That the plan is for this model and these rules."""
    if plan.model_sha256 != graph.sha256:
        raise InputError(
            f"the plan is for another model (sha256 {plan.model_sha256[:12]}, not {graph.sha256[:12]}); "
            "plan this model again",
            graph.source or graph.name,
        )
    if plan.target != target.name:
        raise VerificationError("target", f"the plan is for {plan.target!r}, not {target.name!r}")
    if plan.rules is not None and plan.rules != target:
        differing = ", ".join(f.name for f in fields(target) if getattr(target, f.name) != getattr(plan.rules, f.name))
        raise VerificationError("target", f"the plan has other rules than {target.name!r}: {differing}")


def verify_plan(graph: Graph, plan: Plan, target: Target, *, replay_bytes: bool = True) -> Report:
    """Check everything that a plan says. `graph`: the model that the plan is for. `target`: the target that the plan
    was made under. `replay_bytes`: whether to replay the arena after the checks of the offsets; it finds nothing
    that they do not. Returns: each check that held, in order. Raises `InputError`: the plan is for another model.
    Raises `VerificationError`: the first check that failed; `failure` is a key of `FAILURES`."""
    _check_target(graph, plan, target)
    check_counts(plan)
    try:
        return _verify(graph, plan, target, replay_bytes=replay_bytes)
    except InputError as error:  # of a graph or a target that the plan's own words were to make
        raise VerificationError("body", str(error)) from None


_OVER = {
    "orders": ", over all orders of what runs",
    "orders_and_regions": ", over all orders and tilings",
    "orders_and_joined_regions": ", over all orders and all tilings whose regions materialise their outputs",
}
"""Over what the peak is least, by `Plan.proved_over`; with nothing, over all orders of the graph."""


@dataclass(frozen=True)
class _Subject:
    """A plan, the user's graph, and the graph of the plan's order: with its new ops, `unaliased` and with aliases."""

    plan: Plan
    target: Target
    user_graph: Graph
    user_memory: CheckedMemory
    unaliased: Graph
    graph: Graph
    memory: CheckedMemory


def _verify(graph: Graph, plan: Plan, target: Target, *, replay_bytes: bool) -> Report:
    if plan.fission is not None:
        return verify_fission(graph, plan, target, lambda *what: _verify(*what, replay_bytes=replay_bytes))
    check_read(plan, target)
    subject = _subject(graph, plan, target)
    checks = _check_graph(subject)
    own = simulate(graph, subject.user_memory, graph.own_order)
    if plan.own_order_peak_bytes != own.peak:
        raise VerificationError(
            "own_order_peak", f"the file order needs {own.peak} bytes; the plan says {plan.own_order_peak_bytes}"
        )
    checks.append(HeldRule("own_order_peak", format_size(own.peak)))
    regions = "" if plan.moves is not None else check_regions(graph, plan, target)
    checks += _check_rewrites(subject)
    if plan.moves is not None:
        return _verify_spilling(subject.graph, plan, target, checks, own)
    steps = simulate(subject.graph, subject.memory, plan.order, claimed_pairs(subject.graph, plan, subject.memory))
    partly = f", {len(plan.overlap):,} over a part of one" if plan.overlap else ""
    over = format_count(len(plan.in_place), "op") if plan.in_place else "no op"
    written = f"{over} written over an input that no op reads later{partly}"
    checks.append(HeldRule("in_place", written))
    if plan.peak_bytes != steps.peak:
        raise VerificationError("peak", f"the order needs {steps.peak} bytes; the plan says {plan.peak_bytes}")
    checks.append(HeldRule("peak", format_size(steps.peak)))
    checks += _check_recomputed(subject, steps)
    checks += [HeldRule("regions", regions)] if regions else []
    seen, bound_note = check_bound(subject.graph, plan, subject.memory)
    checks.append(HeldRule("bound", f"{format_size(plan.lower_bound_bytes)}: {seen}"))
    over = _OVER.get(plan.proved_over or "", "")
    checks.append(HeldRule("optimal", f"yes{over}" if plan.optimal else "not proved"))
    numbers = {
        "own_order_peak_bytes": own.peak,
        "peak_bytes": steps.peak,
        "largest_single_op_bytes": largest_single_op(subject.graph, subject.memory),
        "storages": len(subject.memory.storages),
    }
    arena_checks, arena_note = _check_memories(subject, steps, numbers, replay_bytes=replay_bytes)
    checks += arena_checks
    checks += _check_claims(subject, own, steps, thorough=replay_bytes)
    return Report(tuple(checks), (bound_note, arena_note), numbers, steps.footprint)


def _subject(graph: Graph, plan: Plan, target: Target) -> _Subject:
    """The graphs that a plan speaks of."""
    memory, unaliased = work_out(graph, target), with_ops(graph, plan)
    check_clones_exactness(graph, plan)
    changed = aliased(unaliased, plan, target) if has_aliases(plan) else unaliased
    changed_memory = memory if changed is graph else work_out(changed, target)
    return _Subject(plan, target, graph, memory, unaliased, changed, changed_memory)


def _check_graph(subject: _Subject) -> list[HeldRule]:
    """The plan lists the ops and tensors of its graph, in an order that is possible."""
    check_new_names(subject.user_graph, subject.graph)
    checks = [
        HeldRule("ids", check_ids(subject.graph, subject.plan, subject.memory)),
        HeldRule("order", check_order(subject.graph, subject.plan.order)),
    ]
    kept = check_writes(subject.user_graph, subject.graph, subject.plan)
    return [*checks, HeldRule("writes", kept)] if kept else checks


def _check_rewrites(subject: _Subject) -> list[HeldRule]:
    """Loops, cuts and aliases, which the plan allows."""
    plan, checks = subject.plan, list[HeldRule]()
    check_allowed(plan)
    if plan.loops:
        checks.append(HeldRule("loops", check_loops(subject.user_graph, plan, subject.target)))
    elif has_cuts(plan):
        checks.append(HeldRule("parts", _check_cuts(subject.user_graph, subject.graph, plan)))
    if plan.moves is not None:
        return checks
    recomputes = plan.recomputation is not None and len(plan.order) > len(subject.user_graph.ops)
    if has_aliases(plan):
        checks.append(HeldRule("aliases", check_aliases(subject.unaliased, subject.graph, plan, subject.target)))
    elif not has_cuts(plan) and (plan.rewrites is not None) != recomputes:
        raise VerificationError("rewrites", "ops are recomputed in a plan that does not say what that costs")
    return checks


def _check_recomputed(subject: _Subject, steps: Simulation) -> list[HeldRule]:
    """What recomputation costs."""
    graph, memory, plan = subject.user_graph, subject.user_memory, subject.plan
    if plan.recomputation is None:
        return []
    if has_cuts(plan):
        return [HeldRule("recompute", check_recomputed_operations(graph, plan))]
    changed, target = (subject.graph, subject.memory), subject.target
    return [HeldRule("recompute", check_recomputation(graph, memory, plan, target, steps.footprint, *changed))]


def _check_memories(
    subject: _Subject, steps: Simulation, numbers: dict[str, int], *, replay_bytes: bool
) -> tuple[list[HeldRule], str]:
    """The arena, or several memories as one. Returns a note on its bound, and adds what was measured to `numbers`."""
    plan, target = subject.plan, subject.target
    if plan.arena_bytes is None:
        _check_no_arena(plan)
        return [], "arena: none in the plan"
    placed = plan
    if plan.memories is not None and plan.runtime_arenas is None:
        placed = as_one_arena(subject.graph, plan, subject.memory, steps)
    checks = _check_several(plan)
    load = aligned_load(subject.graph, subject.memory, steps, plan.order, target.alignment)
    numbers["arena_load_bytes"] = load
    checks += _check_arena(subject, placed, steps, replay_bytes=replay_bytes)
    checks += [HeldRule("fixed", check_fixed(subject.graph, plan, subject.memory, target))] if target.fixed else []
    if (placed.arena_lower_bound_bytes or 0) <= load:
        return checks, "arena bound: the most bytes live at once in this order, recounted"
    return checks, "arena bound: more than the most bytes live at once; --prove repeats the proof"


def _check_claims(subject: _Subject, own: Simulation, steps: Simulation, *, thorough: bool) -> list[HeldRule]:
    """What else the plan says: of the runtime, of conflicts, pictures and time; and its status."""
    graph, memory, plan, target = subject.graph, subject.memory, subject.plan, subject.target
    found = {
        "runtime_arena": check_runtime_arena(graph, plan, target, memory),
        "runtime_figures": check_figures(subject.unaliased, plan, target, thorough=thorough),
        "conflict": check_conflict(graph, plan, memory, steps),
        "profile": check_profile(plan, memory, own, steps),
        "cost": "" if plan.cost is None else _check_cost(plan, plan.cost),
    }
    statuses = None if plan.memories is None else allowed_statuses(graph, plan, memory)
    unchanged = plan.memories is None and graph is subject.user_graph and not plan.allow
    alone = unchanged and alone_too_large(graph, plan, memory)
    least = least_permitted(subject.user_graph, subject.user_memory, plan, target)
    fits, largest = check_largest_tensor(graph, plan, target)
    found["largest_tensor"] = largest
    status = check_budget(plan, target, least, statuses, alone=alone, tensors_fit=fits)
    return [*(HeldRule(name, seen) for name, seen in found.items() if seen), HeldRule("status", status)]


def _check_cost(plan: Plan, cost: PlanCost) -> str:
    """``cost``: what is said of time fits together; the times themselves are a cost file's, and predictions."""
    counts = (cost.measured, cost.between, cost.roofline)
    if min(counts) < 0 or sum(counts) != len(plan.order):
        raise VerificationError("cost", f"the times of {sum(counts):,} ops are known, and {len(plan.order):,} run")
    before, after = cost.uncut_seconds, cost.predicted_seconds
    if not (0 <= before < inf and 0 <= after < inf):
        raise VerificationError("cost", f"{after} s and {before} s are no times")
    overhead = after / before - 1 if before else cost.overhead
    if abs(overhead - cost.overhead) > 1e-6 * (1 + abs(overhead)):
        raise VerificationError("cost", f"the plan says an overhead of {cost.overhead}, and it is {overhead}")
    if cost.max_overhead is not None and overhead > cost.max_overhead + 1e-9:
        raise VerificationError("cost", f"an overhead of {overhead} is more than {cost.max_overhead}")
    return f"{100 * overhead:+.1f} % predicted time; the cost file is not looked at"


def _check_cuts(graph: Graph, changed: Graph, plan: Plan) -> str:
    """``parts``: the plan says how exact its tiles are; that each is right was checked when the graph was built."""
    rounds = rounds_of(graph, plan, before_cuts)
    exact = max((exactness(*one) for one in rounds), key=get_args(Exactness).index)
    if plan.exactness != exact:
        raise VerificationError("parts", f"the plan promises {plan.exactness!r}, its cuts {exact!r}")
    if plan.proved_over is None:
        raise VerificationError("parts", "the plan does not say over what its bound holds")
    halos = check_halos(rounds, plan)
    rewrites = [r for _, one in rounds for r in one.rewrites or ()]
    cut = sum(len(r.ops) for r in rewrites if isinstance(r, CutRegion | ConcatElimination))
    sections = sum(isinstance(r, Sections) for r in rewrites)
    apart = f"{format_count(sections, 'product')} by sections, " if sections else ""
    often = f" in {len(rounds)} passes" if len(rounds) > 1 else ""
    return (
        f"{apart}{format_count(cut, 'op')} tiled{often}, {len(changed.ops):,} ops in total; each tile has its rows"
        + ("" if halos is None else f"; {halos}")
    )


def _verify_spilling(graph: Graph, plan: Plan, target: Target, checks: list[HeldRule], own: Simulation) -> Report:
    """The rest of the checks of a plan with moves, whose sizes speak of the fast memory."""
    if plan.streams is not None:
        graph, plan, streamed = in_the_fast_memory(graph, plan, target)
        checks.append(HeldRule("streams", streamed))
    memory = counted_memory(graph, plan, target)
    seen, most = check_spilling(graph, plan, memory)
    if plan.alignment != target.alignment:
        raise VerificationError("alignment", f"the plan aligns to {plan.alignment}, the target to {target.alignment}")
    if plan.peak_bytes != most:
        raise VerificationError("peak", f"the fast memory holds {most} bytes; the plan says {plan.peak_bytes}")
    single = largest_single_op(graph, memory)
    if plan.lower_bound_bytes > single:
        raise VerificationError("bound", f"the lower bound is {plan.lower_bound_bytes}, and a single op needs {single}")
    if plan.proved_over not in (None, "orders"):
        raise VerificationError("regions", f"the plan spills, and its bound is said to hold over {plan.proved_over!r}")
    for name, failure in NOT_WITH_MOVES.items():
        if getattr(plan, name) is not None:
            raise VerificationError(failure, f"the plan spills, and has {name}")
    if not isinstance(plan.certificate, NoCertificate):
        raise VerificationError("certificate", "the plan spills, and certifies the peak of an order")
    if plan.status not in ("ok", "unproved") or (plan.status == "unproved" and plan.optimal):
        raise VerificationError("status", f"the status is {plan.status!r}")
    drawn = check_profile(plan, memory, own)
    seen += [HeldRule("profile", drawn)] if drawn else []
    note = f"traffic bound: {check_proof(graph, plan, target)}"
    return Report(
        (*checks, *seen, HeldRule("peak", format_size(most))), (note,), {"own_order_peak_bytes": own.peak}, ()
    )


def _check_several(plan: Plan) -> list[HeldRule]:
    """What several memories hold, and the runtime's arenas in them."""
    if plan.memories is None:
        return []
    checks = [HeldRule("memories", check_capacities(plan))]
    if plan.runtime_arenas is not None:
        checks.append(
            HeldRule("runtime_arenas", check_arenas(plan, plan.memories, plan.runtime_arenas, plan.runtime_parts))
        )
    return checks


def _check_no_arena(plan: Plan) -> None:
    for name in ("offsets", "workspace_offsets", "arena_lower_bound_bytes", "arena_optimal"):
        if getattr(plan, name):
            raise VerificationError("arena", f"the plan has {name} but no arena_bytes")


def _check_arena(subject: _Subject, plan: Plan, steps: Simulation, *, replay_bytes: bool) -> list[HeldRule]:
    """One arena, or several memories put end to end in `plan`."""
    graph, memory, target = subject.graph, subject.memory, subject.target
    arena, bound = plan.arena_bytes or 0, plan.arena_lower_bound_bytes
    if plan.alignment != target.alignment:
        raise VerificationError("alignment", f"the plan aligns to {plan.alignment}, the target to {target.alignment}")
    if arena % plan.alignment and plan.memories is None:
        raise VerificationError("arena", f"an arena of {arena} bytes is no multiple of {plan.alignment}")
    if arena < steps.peak:
        raise VerificationError("arena", f"an arena of {arena} bytes cannot hold a peak of {steps.peak}")
    if bound is not None and bound > arena:
        raise VerificationError("arena", f"the arena's lower bound is {bound}, above its {arena} bytes")
    if plan.arena_optimal is not None and plan.arena_optimal != (arena == bound):
        raise VerificationError(
            "arena_optimal", f"arena_optimal is {plan.arena_optimal}, with an arena of {arena} and a bound of {bound}"
        )
    seen, at = check_layout(graph, plan, memory, steps)
    checks = [HeldRule("offsets", seen), HeldRule("arena", format_size(arena))]
    if replay_bytes:
        checks.append(HeldRule("replay", replay(graph, plan, memory, steps, at).text))
    return checks
