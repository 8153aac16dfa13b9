"""Plans that recompute ops: the sequence as runs of the user's own ops, what it costs, and the bound on that.

A run of an op makes its tensors anew; an op reads a tensor from the last run before. Nothing here is shared with the
search: lives are found by walking the sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import frexp, inf

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import COUNTED, Recomputation, Swapping
from lowtide.target import Target
from lowtide.verify.check.bound import least_in_sequences, saved_in_sequences
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.price_bound import PricedGraph, makers_of_storages, ordered_ops, proved_peak, proved_units
from lowtide.verify.check.replaced_ops import origins
from lowtide.verify.check.swaps import check_rates, check_swapping, swaps_of, time_of, transfer_rates

NONE_MOVED: Mapping[int, tuple[int, bool]] = {}


def footprints_of_runs(
    graph: Graph, memory: CheckedMemory, order: Sequence[int], moved: Mapping[int, tuple[int, bool]] = NONE_MOVED
) -> list[int]:
    """Bytes live at each step of a sequence of ops that may run more than once, nothing written in place. `order`: ids
    of ops, and of transfers. `moved`: per id of a transfer the storage, and whether it is loaded: then its life begins
    anew, else it has been stored. Raises `VerificationError`: ``order``: an op reads what no run before it has made."""
    makers = makers_of_storages(graph, memory)
    sizes: list[int] = []
    lives: list[tuple[int, int]] = []  # first and last step of each of them
    latest: dict[int, int] = {}
    for i, storage in enumerate(memory.storages):
        if storage.at_start:
            latest[i] = len(lives)
            sizes.append(storage.size)
            lives.append((0, 0))
    for step, v in enumerate(order):
        if v in moved:
            i, load = moved[v]
            if load:
                latest[i] = len(lives)
                sizes.append(memory.storages[i].size)
                lives.append((step, step))
            lives[latest[i]] = (lives[latest[i]][0], step)
            continue
        for i in memory.touches[v]:
            alone = makers[i] == [v] and not memory.storages[i].at_start
            if alone or (i not in latest and v in makers[i]):
                latest[i] = len(lives)
                sizes.append(memory.storages[i].size)
                lives.append((step, step))
            elif i not in latest:
                raise VerificationError(
                    "order", f"{graph.op_by_id[v].label} at step {step} reads a tensor that is not live"
                )
            lives[latest[i]] = (lives[latest[i]][0], step)
    for i, run in latest.items():
        if memory.storages[i].at_end:
            lives[run] = (lives[run][0], len(order) - 1)
    live = [0 if v in moved else memory.workspace[v] for v in order]
    for size, (first, last) in zip(sizes, lives, strict=True):
        for step in range(first, min(last + 1, len(order))):
            live[step] += size
    return live


def _moved(memory: CheckedMemory, plan: Plan) -> dict[int, tuple[int, bool]]:
    """Per op that is a transfer the storage, and whether it is loaded."""
    moved: dict[int, tuple[int, bool]] = {}
    for s in swaps_of(plan):
        storage = memory.storage_of[s.tensor]
        moved[s.store] = storage, False
        moved |= {load.op: (storage, True) for load in s.loads}
    return moved


def _runs(plan: Plan) -> list[int]:
    """The plan's order in the user's own ops: a recomputed op is another run of its origin."""
    of = origins(plan)
    return [of.get(v, v) for v in plan.order]


def units_of(graph: Graph, claim: Recomputation, swapping: Swapping | None) -> tuple[dict[int, int], float]:
    """What each op costs in integer units, and how many of them one of what is counted has. Raises `VerificationError`:
    ``recompute``: nanoseconds are counted and no transfers are spoken of, or the other way round."""
    if (claim.counted == "nanoseconds") != (swapping is not None):
        raise VerificationError("recompute", f"costs are {claim.counted}, which they are with transfers alone")
    if swapping is not None:
        return dict(zip([op.id for op in graph.ops], swapping.op_nanoseconds, strict=True)), 1.0
    sizes = {t.id: t.size for t in graph.tensors}
    if claim.counted == "cost":
        given = {op.id: float(op.cost or 0) for op in graph.ops}
    elif claim.counted == "flops":
        given = {op.id: float(op.flops or 0) for op in graph.ops}
    else:
        given = {op.id: float(sum(sizes[t] for t in (*op.inputs, *op.outputs))) for op in graph.ops}
    total = sum(given.values())
    exact = total < 2**52 and all(cost == int(cost) for cost in given.values())
    scale = 1.0 if exact else 2.0 ** (52 - frexp(total)[1])
    return {v: round(cost * scale) for v, cost in given.items()}, scale


def check_recomputation(
    graph: Graph,
    memory: CheckedMemory,
    plan: Plan,
    target: Target,
    footprint: Sequence[int],
    changed: Graph,
    changed_memory: CheckedMemory,
) -> str:
    """Check what the plan says of recomputed ops, and of transfers. `graph`, `memory`: the user's own. `changed`,
    `changed_memory`: the plan's, with clones and transfers. `footprint`: of the plan's order on its rewritten graph,
    step by step. Raises `VerificationError`: ``recompute``: the sequence needs more without writing in place than
    there is room to save, costs are not what the ops add up to, or the bound is more than is proved."""
    claim, order, moved = plan.recomputation, _runs(plan), _moved(memory, plan)
    assert claim is not None, plan.graph
    _check_sequence(graph, memory, plan, footprint, changed_memory)
    if plan.swapping is not None:
        check_rates(plan.swapping, graph)
    units, scale = units_of(graph, claim, plan.swapping)
    once, ran = sum(units.values()), sum(units[v] for v in order if v not in moved)
    planned = ran
    if plan.swapping is not None:
        runs = {v: units[real] for v, real in zip(plan.order, order, strict=True) if v not in moved}
        planned = time_of(changed, changed_memory, plan, runs)
    for name, value, real in (("once", claim.once, once), ("planned", claim.planned, planned)):
        if value != real / scale:
            raise VerificationError("recompute", f"{name} is {value}; the ops add up to {real / scale}")
    saved = saved_in_sequences(graph, target)
    priced = PricedGraph(graph, memory, units, scale, transfer_rates(plan), plan.allow != ["offload"], saved)
    _check_cost_bound(priced, plan, claim)
    seen = _check_least_peak(priced, claim, planned)
    if plan.swapping is not None:
        sizes = {t: memory.storages[i].size for t, i in memory.storage_of.items()}
        seen += check_swapping(plan, sizes, ran, planned)
    added = f"{100 * claim.overhead:.3f} %, {100 * claim.least_overhead:.3f} % at least{seen}"
    return f"{len(order) - len(graph.ops) - len(moved):,} runs again add {added}; in {COUNTED[claim.counted]}"


def _check_sequence(
    graph: Graph, memory: CheckedMemory, plan: Plan, footprint: Sequence[int], changed_memory: CheckedMemory
) -> None:
    """Each step of the sequence of runs needs what the plan's graph needs there, but for what is written in place."""
    order = _runs(plan)
    twice = ordered_ops(graph).intersection(v for v, times in Counter(order).items() if times > 1)
    if twice:
        raise VerificationError("recompute", f"`after` names op {min(twice)}, which runs more than once")
    plain = footprints_of_runs(graph, memory, order, _moved(memory, plan))
    for step, (v, seen, bytes_) in enumerate(zip(plan.order, plain, footprint, strict=True)):
        # An earlier run's copy of a result may be written over, which the result itself must not be.
        saved = max(changed_memory.saved[v].values(), default=0)
        if not seen - saved <= bytes_ <= seen:
            raise VerificationError("recompute", f"step {step} needs {seen} bytes as runs of the ops, not {bytes_}")


def _check_cost_bound(priced: PricedGraph, plan: Plan, claim: Recomputation) -> None:
    """The bound on the cost is for plans of this kind and this budget, and is proved."""
    if set(plan.allow or ()) <= {"recompute", "offload"} and ("offload" in (plan.allow or ())) != (
        plan.swapping is not None
    ):
        raise VerificationError("recompute", f"the plan may change {plan.allow}, and its times are of other plans")
    if claim.certificate is not None and plan.budget_bytes is None:
        raise VerificationError("recompute", "a bound on the cost is said, and no budget that it is within")
    least = sum(priced.units.values())
    if claim.certificate is not None:
        least += proved_units(priced, (plan.budget_bytes or 0) - (plan.reserve_bytes or 0), claim.certificate)
    if claim.lower_bound > least / priced.scale:
        raise VerificationError("recompute", f"the bound is {claim.lower_bound}; proved is {least / priced.scale}")


def _check_least_peak(priced: PricedGraph, claim: Recomputation, planned: int) -> str:
    """The bound on the cost, and the least peak within it; `planned`: units that the plan takes."""
    if claim.max_overhead is None:
        if claim.least_peak_bytes is not None or claim.peak_certificate is not None:
            raise VerificationError("recompute", "a least peak is said, and no bound on the cost that it is within")
        return ""
    if not 0 <= claim.max_overhead < inf:
        raise VerificationError("recompute", f"an overhead of {claim.max_overhead} is none")
    once = sum(priced.units.values())
    extra = int(Fraction(str(claim.max_overhead)) * once)
    if planned - once > extra:
        raise VerificationError("recompute", f"{planned - once} units are recomputed, and {extra} are allowed")
    if claim.least_peak_bytes is None:
        return ""
    least = least_in_sequences(priced.graph, priced.memory, priced.saved)
    if claim.peak_certificate is not None:
        least = max(least, proved_peak(priced, extra, claim.peak_certificate))
    if claim.least_peak_bytes > least:
        raise VerificationError("recompute", f"no peak below {claim.least_peak_bytes} is said; proved is {least}")
    return f"; no peak below {least:,} bytes within {100 * claim.max_overhead:g} %"
