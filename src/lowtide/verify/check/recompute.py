"""Plans that run ops again: the sequence as runs of the user's own ops, what it costs, and the bound on that.

A run of an op makes its tensors anew; who reads one takes it from the last run before. Nothing here is shared with the
search: lives are found by walking the sequence, and the flow of a certificate is added up op by op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, frexp, inf

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op
from lowtide.ops.table import names_only
from lowtide.plan import Plan
from lowtide.rewrites import COUNTED, PriceCertificate, Recomputation, Recompute, Swapping
from lowtide.target import Target
from lowtide.verify.check.bound import least_in_sequences, saved_in_sequences
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.rewrites import why_not_recomputed
from lowtide.verify.check.swaps import check_rates, check_swapping, swaps_of, time_of, transfer_rates

NONE_MOVED: Mapping[int, tuple[int, bool]] = {}


def footprints_of_runs(
    graph: Graph, memory: CheckedMemory, order: Sequence[int], moved: Mapping[int, tuple[int, bool]] = NONE_MOVED
) -> list[int]:
    """Bytes live at each step of a sequence of ops that may run more than once, nothing written in place.

    Parameters
    ----------
    order
        Ids of ops, and of transfers.
    moved
        Per id of a transfer the storage, and whether it is loaded: then it is there anew, else it has been stored.

    Raises
    ------
    VerificationError
        ``order``: an op reads what no run before it has made.
    """
    makers = _makers(graph, memory)
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
                raise VerificationError("order", f"{graph.op_by_id[v].label} at step {step} reads what is not there")
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


@dataclass(frozen=True)
class Beside:
    """What a plan may do beside holding values: move them at these rates, bytes per unit of time each way, run ops
    again, and save so many bytes at each op by writing in place (left out: none)."""

    rates: tuple[Fraction, Fraction] | None = None
    again: bool = True
    saved: Mapping[int, int] = field(default_factory=dict[int, int])


ALONE = Beside()


def origins(plan: Plan) -> list[int]:
    """The plan's order in the user's own ops: a clone is a run of the op that it is one of."""
    of = {r.op: r.of for r in plan.rewrites or () if isinstance(r, Recompute)}
    return [of.get(v, v) for v in plan.order]


def units_of(graph: Graph, claim: Recomputation, swapping: Swapping | None) -> tuple[dict[int, int], float]:
    """What each op costs in whole units, and how many of them one of what is counted has.

    Raises
    ------
    VerificationError
        ``recompute``: nanoseconds are counted and no transfers are spoken of, or the other way round.
    """
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
    whole = total < 2**52 and all(cost == int(cost) for cost in given.values())
    scale = 1.0 if whole else 2.0 ** (52 - frexp(total)[1])
    return {v: round(cost * scale) for v, cost in given.items()}, scale


def check_recomputation(
    graph: Graph,
    memory: CheckedMemory,
    plan: Plan,
    target: Target,
    footprint: Sequence[int],
    whole: Graph,
    whole_memory: CheckedMemory,
) -> str:
    """Check what the plan says of running ops again, and of transfers.

    Parameters
    ----------
    graph, memory
        The user's own.
    whole, whole_memory
        The plan's, with clones and transfers.
    footprint
        Of the plan's order on its rewritten graph, step by step.

    Raises
    ------
    VerificationError
        ``recompute``: the sequence needs more without writing in place than there is room to save, costs are not what
        the ops add up to, or the bound is more than is proved.
    """
    claim = plan.recomputation
    assert claim is not None, plan.graph
    order = origins(plan)
    ordered = _ordered(graph)
    twice = ordered.intersection(v for v, times in Counter(order).items() if times > 1)
    if twice:
        raise VerificationError("recompute", f"`after` speaks of op {min(twice)}, which runs more than once")
    moved = _moved(memory, plan)
    plain = footprints_of_runs(graph, memory, order, moved)
    for step, (v, seen, bytes_) in enumerate(zip(plan.order, plain, footprint, strict=True)):
        # An earlier run's copy of a result may be written over, which the result itself must not be.
        saved = max(whole_memory.saved[v].values(), default=0)
        if not seen - saved <= bytes_ <= seen:
            raise VerificationError("recompute", f"step {step} needs {seen} bytes as runs of the ops, not {bytes_}")
    if plan.swapping is not None:
        check_rates(plan.swapping, graph)
    units, scale = units_of(graph, claim, plan.swapping)
    once, ran = sum(units.values()), sum(units[v] for v in order if v not in moved)
    planned = ran
    if plan.swapping is not None:
        runs = {v: units[real] for v, real in zip(plan.order, order, strict=True) if v not in moved}
        planned = time_of(whole, whole_memory, plan, runs)
    for name, value, real in (("once", claim.once, once), ("planned", claim.planned, planned)):
        if value != real / scale:
            raise VerificationError("recompute", f"{name} is {value}; the ops add up to {real / scale}")
    if set(plan.allow or ()) <= {"recompute", "swap"} and ("swap" in (plan.allow or ())) != (plan.swapping is not None):
        raise VerificationError("recompute", f"the plan may change {plan.allow}, and its times are of other plans")
    if claim.certificate is not None and plan.budget_bytes is None:
        raise VerificationError("recompute", "a bound on the cost is said, and no budget that it is within")
    beside = Beside(transfer_rates(plan), plan.allow != ["swap"], saved_in_sequences(graph, target))
    least = once
    if claim.certificate is not None:
        budget = (plan.budget_bytes or 0) - (plan.reserve_bytes or 0)
        least += proved_units(graph, memory, budget, claim.certificate, units, scale, beside)
    if claim.lower_bound > least / scale:
        raise VerificationError("recompute", f"the bound is {claim.lower_bound}; proved is {least / scale}")
    seen = _check_least_peak(graph, memory, plan, claim, (once, planned), units, scale, beside)
    again = len(order) - len(graph.ops) - len(moved)
    if plan.swapping is not None:
        sizes = {t: memory.storages[i].size for t, i in memory.storage_of.items()}
        seen += check_swapping(plan, sizes, ran, planned)
    added = f"{100 * claim.overhead:.3f} %, {100 * claim.least_overhead:.3f} % at least{seen}"
    return f"{again:,} runs again add {added}; in {COUNTED[claim.counted]}"


def _check_least_peak(
    graph: Graph,
    memory: CheckedMemory,
    plan: Plan,
    claim: Recomputation,
    spent: tuple[int, int],
    units: dict[int, int],
    scale: float,
    beside: Beside,
) -> str:
    """What is said of the bound on the cost, and of the peaks within it; `spent`: units of all ops once, as planned."""
    if claim.max_overhead is None:
        if claim.least_peak_bytes is not None or claim.peak_certificate is not None:
            raise VerificationError("recompute", "a least peak is said, and no bound on the cost that it is within")
        return ""
    once, planned = spent
    if not 0 <= claim.max_overhead < inf:
        raise VerificationError("recompute", f"an overhead of {claim.max_overhead} is none")
    extra = int(Fraction(str(claim.max_overhead)) * once)
    if planned - once > extra:
        raise VerificationError("recompute", f"{planned - once} units run again, and {extra} are allowed")
    if claim.least_peak_bytes is None:
        return ""
    least = least_in_sequences(graph, memory, beside.saved)
    if claim.peak_certificate is not None:
        least = max(least, proved_peak(graph, memory, extra, claim.peak_certificate, units, scale, beside))
    if claim.least_peak_bytes > least:
        raise VerificationError("recompute", f"no peak below {claim.least_peak_bytes} is said; proved is {least}")
    return f"; no peak below {least:,} bytes within {100 * claim.max_overhead:g} %"


def proved_peak(
    graph: Graph,
    memory: CheckedMemory,
    extra: int,
    certificate: PriceCertificate,
    units: dict[int, int],
    scale: float,
    beside: Beside = ALONE,
) -> int:
    """Bytes that are needed where running ops again and waiting may cost `extra` units more. Raises as
    `proved_units`."""
    touched, flow = _shown(graph, memory, certificate, units, scale, beside)
    p, q = certificate.price
    if p == 0:
        return 0
    return ceil(touched - Fraction(q * extra - flow, p))


def proved_units(
    graph: Graph,
    memory: CheckedMemory,
    budget: int,
    certificate: PriceCertificate,
    units: dict[int, int],
    scale: float,
    beside: Beside = ALONE,
) -> int:
    """Units that running ops again and waiting for transfers cost at least, within `budget` bytes.

    Raises
    ------
    VerificationError
        ``recompute``: the flow is none, or the certificate speaks of what is not there.
    """
    touched, flow = _shown(graph, memory, certificate, units, scale, beside)
    p, q = certificate.price
    return max(0, -(-(flow + p * (touched - budget)) // q))


def _shown(
    graph: Graph,
    memory: CheckedMemory,
    certificate: PriceCertificate,
    units: dict[int, int],
    scale: float,
    beside: Beside,
) -> tuple[int, int]:
    """Bytes that the certificate's op touches, and the flow that it shows, without what ops before and behind take."""
    v, (p, q) = certificate.op, certificate.price
    if v not in graph.index_of or certificate.scale != scale:
        raise VerificationError("recompute", "the certificate is for nothing that is there")
    if p < 0 or q <= 0:
        raise VerificationError("recompute", f"a price of {p} / {q} is none")
    (a, b), (out, back) = certificate.waits, beside.rates or (Fraction(1), Fraction(1))
    if not (0 <= a <= q and 0 <= b <= q) or (beside.rates is None and (a or b)):
        raise VerificationError("recompute", f"{a} and {b} of {q} are no weights of waiting")
    if beside.rates is not None and p > a / out + b / back:
        raise VerificationError("recompute", "a byte is worth more than what it takes to leave and come back")
    touched = sum(memory.storages[i].size for i in memory.touches[v]) + memory.workspace[v]
    touched -= beside.saved.get(v, 0)
    apart = max(certificate.waits) * (sum(units.values()) - units[v])
    return touched, _flow(graph, memory, certificate, units, beside) - apart


def _flow(
    graph: Graph, memory: CheckedMemory, certificate: PriceCertificate, units: dict[int, int], beside: Beside
) -> int:
    """The flow from what has run before the op to what runs later, all capacities kept."""
    v, (p, q), (a, b) = certificate.op, certificate.price, certificate.waits
    before, later = _ancestors(graph, v), _descendants(graph, v)
    times: dict[int | None, int] = {}
    makers = _makers(graph, memory)
    through: dict[int, int] = {}
    read: dict[int, int] = {}
    surplus: dict[int | None, int] = {}
    for tensor, source, goal, amount in certificate.flow:
        if amount < 0:
            raise VerificationError("recompute", f"an arc carries {amount}")
        if tensor is None and source is not None and goal is not None:
            if goal not in _needed(graph, source):
                raise VerificationError("recompute", f"op {source} does not wait for op {goal}")
        elif tensor is None:
            op = goal if source is None else source
            times[op] = times.get(op, 0) + amount
            if op == v or op not in units or (source is None) != (a > b):
                raise VerificationError("recompute", f"the time of op {op} is no arc")
        else:
            storage = memory.storage_of.get(tensor)
            if (
                storage is None
                or makers[storage] not in ([], [source])
                or (makers[storage] == [] and source is not None)
            ):
                raise VerificationError("recompute", f"op {source} does not make tensor {tensor} by itself")
            held = memory.storages[storage]
            if v in held.users or not (held.at_end if goal is None else goal in held.users):
                raise VerificationError("recompute", f"op {goal} does not wait for tensor {tensor}, or op {v} has it")
            through[storage] = through.get(storage, 0) + amount
            if goal is not None:
                read[goal] = read.get(goal, 0) + amount
        surplus[source] = surplus.get(source, 0) - amount
        surplus[goal] = surplus.get(goal, 0) + amount
    if any(op is None or amount > abs(a - b) * units[op] for op, amount in times.items()):
        raise VerificationError("recompute", "an op's time carries more than it is")
    _check_capacities(graph, memory, (through, read), makers, (p, q - b), units if beside.again else {})
    ends = {None, v, *before, *later}
    for op, amount in surplus.items():
        if amount and op not in ends:
            raise VerificationError("recompute", f"at op {op} {amount} is lost")
    arrived = sum(surplus.get(op, 0) for op in (v, *later))
    kept = sum(amount for *_, goal, amount in certificate.flow if goal is None)
    return arrived + kept


def _check_capacities(
    graph: Graph,
    memory: CheckedMemory,
    carried: tuple[dict[int, int], dict[int, int]],
    makers: list[list[int]],
    price: tuple[int, int],
    units: dict[int, int],
) -> None:
    """Through a storage goes no more than its bytes are worth, and from an op's storages no more than running it again
    and what comes through those that it reads; `carried`: through storages, and to ops."""
    (through, read), (p, q) = carried, price
    again: dict[int, int] = {}
    for storage, amount in through.items():
        if amount > p * memory.storages[storage].size:
            raise VerificationError("recompute", f"storage {storage} carries {amount}, more than its bytes are worth")
        for maker in makers[storage]:
            again[maker] = again.get(maker, 0) + amount
    fixed = _ordered(graph) | {maker for own in makers if len(own) > 1 for maker in own}
    fixed |= {maker for own, b in zip(makers, memory.storages, strict=True) if b.at_start for maker in own}
    for maker, amount in again.items():
        again_possible = maker not in fixed and why_not_recomputed(graph, graph.op_by_id[maker]) is None
        if again_possible and maker in units and amount - read.get(maker, 0) > q * units[maker]:
            raise VerificationError("recompute", f"{amount} comes from op {maker}, more than it and what it reads cost")


def _makers(graph: Graph, memory: CheckedMemory) -> list[list[int]]:
    """Per storage, the ops that write a tensor of it: not those that give one another name."""
    makers: list[list[int]] = [[] for _ in memory.storages]
    for op in graph.ops:
        view = names_only(op.type) or memory.views.issuperset(op.outputs)
        written = [t for t in op.outputs if t in memory.storage_of and not (view and _reads_there(memory, op, t))]
        for storage in {memory.storage_of[t] for t in written}:
            makers[storage].append(op.id)
    return makers


def _reads_there(memory: CheckedMemory, op: Op, tensor: int) -> bool:
    """Whether all that an op reads lies in the storage of what it makes."""
    return {memory.storage_of.get(t) for t in op.inputs} == {memory.storage_of[tensor]}


def _ordered(graph: Graph) -> set[int]:
    """Ops that `after` speaks of, which therefore run once."""
    return {u for op in graph.ops for u in op.after} | {op.id for op in graph.ops if op.after or op.writes}


def _needed(graph: Graph, op: int) -> set[int]:
    """Ops that an op directly waits for."""
    return {graph.ops[i].id for i in graph.predecessors[graph.index_of[op]]} if op in graph.index_of else set()


def _ancestors(graph: Graph, op: int) -> set[int]:
    found: set[int] = set()
    stack = [op]
    while stack:
        for u in _needed(graph, stack.pop()) - found:
            found.add(u)
            stack.append(u)
    return found


def _descendants(graph: Graph, op: int) -> set[int]:
    found = {op}
    for other in graph.ops[graph.index_of[op] + 1 :]:
        if found & _needed(graph, other.id):
            found.add(other.id)
    return found - {op}
