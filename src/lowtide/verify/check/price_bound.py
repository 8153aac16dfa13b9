"""Re-checks bounds on what recomputation and transfers cost, and on the peak within a cost, by a certificate's flow.

The flow of a certificate is added up op by op (docs/proofs.md, section 16). Nothing here is shared with the search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op
from lowtide.ops.kinds import names_only
from lowtide.rewrites import PriceArc, PriceCertificate
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import ancestors, descendants, needed
from lowtide.verify.check.rewrites import why_not_recomputed


@dataclass(frozen=True)
class PricedGraph:
    """The user's graph, what its ops cost, and what a plan may do in addition to holding values."""

    graph: Graph
    memory: CheckedMemory
    units: Mapping[int, int]  # of each op what it costs, in integer units
    scale: float  # units of one of what is counted
    rates: tuple[Fraction, Fraction] | None = None  # bytes per unit of time to the host and back; None: no transfers
    recompute: bool = True  # whether ops may be recomputed
    # Bytes that each op may save by writing in place; left out: none.
    saved: Mapping[int, int] = field(default_factory=dict[int, int])


def proved_peak(priced: PricedGraph, extra: int, certificate: PriceCertificate) -> int:
    """Bytes that are needed where recomputation and waiting may cost `extra` units. Raises as `proved_units`."""
    touched, flow = _shown(priced, certificate)
    p, q = certificate.price
    if p == 0:
        return 0
    return ceil(touched - Fraction(q * extra - flow, p))


def proved_units(priced: PricedGraph, budget: int, certificate: PriceCertificate) -> int:
    """Units that recomputation and waiting for transfers cost at least, within `budget` bytes. Raises
    `VerificationError`: ``recompute``: the flow is none, or the certificate speaks of another graph."""
    touched, flow = _shown(priced, certificate)
    p, q = certificate.price
    return max(0, -(-(flow + p * (touched - budget)) // q))


def _fail(why: str) -> VerificationError:
    return VerificationError("recompute", why)


def _shown(priced: PricedGraph, certificate: PriceCertificate) -> tuple[int, int]:
    """Bytes that the certificate's op touches, and the flow that it shows, without what ops before and after take."""
    memory, v, (p, q) = priced.memory, certificate.op, certificate.price
    if v not in priced.graph.index_of or certificate.scale != priced.scale:
        raise _fail("the certificate is for another graph or other costs")
    if p < 0 or q <= 0:
        raise _fail(f"a price of {p} / {q} is none")
    (a, b), (out, back) = certificate.waits, priced.rates or (Fraction(1), Fraction(1))
    if not (0 <= a <= q and 0 <= b <= q) or (priced.rates is None and (a or b)):
        raise _fail(f"{a} and {b} of {q} are no weights of waiting")
    if priced.rates is not None and p > a / out + b / back:
        raise _fail("a byte is worth more than what it takes to leave and come back")
    touched = sum(memory.storages[i].size for i in memory.touches[v]) + memory.workspace[v]
    touched -= priced.saved.get(v, 0)
    apart = max(certificate.waits) * (sum(priced.units.values()) - priced.units[v])
    return touched, _flow(priced, certificate) - apart


def _flow(priced: PricedGraph, certificate: PriceCertificate) -> int:
    """The flow from what has run before the op to what runs later, all capacities kept."""
    graph, memory, v, (a, b) = priced.graph, priced.memory, certificate.op, certificate.waits
    makers = makers_of_storages(graph, memory)
    times, surplus = Counter[int | None](), Counter[int | None]()
    through, read = Counter[int](), Counter[int]()
    for arc in certificate.flow:
        tensor, source, goal, amount = arc
        if amount < 0:
            raise _fail(f"an arc carries {amount}")
        if tensor is not None:
            through[_storage_of(priced, makers, v, arc)] += amount
            if goal is not None:
                read[goal] += amount
        elif source is not None and goal is not None:
            if goal not in needed(graph, source):
                raise _fail(f"op {source} does not wait for op {goal}")
        else:
            op = goal if source is None else source
            times[op] += amount
            if op == v or op not in priced.units or (source is None) != (a > b):
                raise _fail(f"the time of op {op} is no arc")
        surplus[source] -= amount
        surplus[goal] += amount
    if any(op is None or amount > abs(a - b) * priced.units[op] for op, amount in times.items()):
        raise _fail("an op's time carries more than it is")
    _check_storages(priced, certificate, through)
    if priced.recompute:
        _check_makers(priced, certificate, makers, through, read)
    later = descendants(graph, v)
    ends = {None, v, *ancestors(graph, v), *later}
    for op, amount in surplus.items():
        if amount and op not in ends:
            raise _fail(f"at op {op} {amount} is lost")
    arrived = sum(surplus[op] for op in (v, *later))
    kept = sum(amount for *_, goal, amount in certificate.flow if goal is None)
    return arrived + kept


def _storage_of(priced: PricedGraph, makers: Sequence[list[int]], v: int, arc: PriceArc) -> int:
    """The storage that an arc goes through: from its only maker to an op that reads it, and not by way of op `v`."""
    tensor, source, goal, _ = arc
    storage = None if tensor is None else priced.memory.storage_of.get(tensor)
    if storage is None or makers[storage] not in ([], [source]) or (makers[storage] == [] and source is not None):
        raise _fail(f"op {source} does not make tensor {tensor} by itself")
    held = priced.memory.storages[storage]
    if v in held.users or not (held.at_end if goal is None else goal in held.users):
        raise _fail(f"op {goal} does not wait for tensor {tensor}, or op {v} has it")
    return storage


def _check_storages(priced: PricedGraph, certificate: PriceCertificate, through: Mapping[int, int]) -> None:
    """Through a storage goes no more than its bytes are worth."""
    for storage, amount in through.items():
        if amount > certificate.price[0] * priced.memory.storages[storage].size:
            raise _fail(f"storage {storage} carries {amount}, more than its bytes are worth")


def _check_makers(
    priced: PricedGraph,
    certificate: PriceCertificate,
    makers: Sequence[list[int]],
    through: Mapping[int, int],
    read: Mapping[int, int],
) -> None:
    """From an op's storages goes no more than its recomputation costs and what comes `through` those that it reads."""
    graph, limit = priced.graph, certificate.price[1] - certificate.waits[1]
    made = Counter[int]()
    for storage, amount in through.items():
        for maker in makers[storage]:
            made[maker] += amount
    fixed = ordered_ops(graph) | {maker for own in makers if len(own) > 1 for maker in own}
    fixed |= {maker for own, b in zip(makers, priced.memory.storages, strict=True) if b.at_start for maker in own}
    for maker, amount in made.items():
        may_rerun = maker not in fixed and why_not_recomputed(graph, graph.op_by_id[maker]) is None
        if may_rerun and amount - read.get(maker, 0) > limit * priced.units[maker]:
            raise _fail(f"{amount} comes from op {maker}, more than it and what it reads cost")


def makers_of_storages(graph: Graph, memory: CheckedMemory) -> list[list[int]]:
    """Per storage, the ops that write a tensor of it: not those that give one another name."""
    makers: list[list[int]] = [[] for _ in memory.storages]
    for op in graph.ops:
        view = names_only(op.type) or memory.views.issuperset(op.outputs)
        written = [t for t in op.outputs if t in memory.storage_of and not (view and _shares_all(memory, op, t))]
        for storage in {memory.storage_of[t] for t in written}:
            makers[storage].append(op.id)
    return makers


def _shares_all(memory: CheckedMemory, op: Op, tensor: int) -> bool:
    """Whether all that an op reads is in the storage of what it makes."""
    return {memory.storage_of.get(t) for t in op.inputs} == {memory.storage_of[tensor]}


def ordered_ops(graph: Graph) -> set[int]:
    """Ops that `after` speaks of, which therefore run once."""
    return {u for op in graph.ops for u in op.after} | {op.id for op in graph.ops if op.after or op.writes}
