"""How much time a plan within a budget spends at least on running ops again.

Two bounds. The price cut holds for every order (`core/sequence/price_cut.h`): for one op and one price of a byte it is
a minimum cut; it is concave in the price, so that the best price is found by halving. What runs again needs what it
reads, so that whole chains count. The knapsack holds for one order
of first runs: before each op, what was made and is still to be read is held or made again.

Where values may leave memory while ops run, `lowtide.optimize.recompute.swap_bound` has the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from lowtide import _core
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.rewrites import PriceArc, PriceCertificate

_MOST = 2**60
_HALVINGS = 24

_COARSER = 12
"""Bits fewer that a price has behind the point where a byte is worth more."""


@dataclass(frozen=True)
class PriceBound:
    """Units of cost that running ops again takes at least, whatever the order; the op and the price that show it, and
    the weights of waiting before and behind the op, of which the price's second number is one."""

    units: int
    op: int = -1
    price: tuple[int, int] = (0, 1)
    waits: tuple[int, int] = (0, 0)


def price_bound(
    problem: Sequenced,
    budget: int,
    ops: Sequence[int],
    in_time: Callable[[], bool] = lambda: True,
) -> PriceBound:
    """The best price cut over some ops.

    Parameters
    ----------
    budget
        Bytes, sizes as they are.
    ops
        Positions to ask at, those first that promise most.
    in_time
        Whether to go on.
    """
    best = PriceBound(0)
    for v, (p, q), flow in _price_cuts(problem, ops, lambda: budget, in_time):
        value = -(-(flow + p * (problem.touched_bytes(v) - budget)) // q)
        if value > best.units:
            best = PriceBound(value, v, (p, q))
    return best


def _price_cuts(
    problem: Sequenced, ops: Sequence[int], room: Callable[[], int], in_time: Callable[[], bool]
) -> Iterator[tuple[int, tuple[int, int], int]]:
    """Minimum cuts at some ops, at prices of a byte halved towards that at which `room()` bytes are held: the op, the
    price, and the flow. It ends when time is up."""
    core, scales = problem.core(bound=True), _scales(problem)
    for v in ops:
        for q, dearest in scales:
            low, high = 0, dearest
            for halving in range(_HALVINGS):
                if not in_time():
                    return
                p = dearest if halving == 0 else max(1, _middle(low, high))
                flow, held, _ = _core.price_cut(core, v, p, q)
                yield v, (p, q), flow
                # Where more is held than there is room for, a byte is worth more.
                if held - problem.untouched_bytes(v) > room():
                    low = p
                else:
                    high = p
                if high - low <= 1:
                    break
            if low < dearest:
                break


@dataclass(frozen=True)
class PeakBound:
    """Bytes that no sequence within a bound on its cost needs less than, whatever the order; the op and the price of a
    byte that show it, -1 if it is what a single op needs; `waits` as in `PriceBound`."""

    bytes: int
    op: int = -1
    price: tuple[int, int] = (0, 1)
    waits: tuple[int, int] = (0, 0)

    def priced(self) -> PriceBound:
        """The price cut that shows it, for `certificate`."""
        return PriceBound(1 if self.op >= 0 else 0, self.op, self.price, self.waits)


def peak_bound(
    problem: Sequenced,
    extra: int,
    least: int,
    ops: Sequence[int],
    in_time: Callable[[], bool] = lambda: True,
) -> PeakBound:
    """The best price cut over some ops, read the other way round: bytes for a bound on time.

    At price p / q of a byte, running ops again takes at least (flow + p (touched - peak)) / q units; where that may be
    no more than `extra`, the peak is at least touched + (flow - q extra) / p.

    Parameters
    ----------
    extra
        Units of cost that running ops again may take.
    least
        Bytes known to be needed.
    ops
        Positions to ask at, those first that promise most.
    """
    best = PeakBound(least)

    def own_bytes() -> int:
        """The price at which the cut's bytes are the bound's own gives the most."""
        return best.bytes

    for v, (p, q), flow in _price_cuts(problem, ops, own_bytes, in_time):
        value = ceil(problem.touched_bytes(v) - Fraction(q * extra - flow, p))
        if value > best.bytes:
            best = PeakBound(value, v, (p, q))
    return best


def _middle(low: int, high: int) -> int:
    """Between two prices, by their logarithms as long as they are far apart."""
    if low and high > 4 * low:
        return 1 << ((low.bit_length() + high.bit_length()) // 2)
    if not low and high > 2**20:
        return 1 << (high.bit_length() // 2)
    return (low + high) // 2


def _scales(problem: Sequenced) -> list[tuple[int, int]]:
    """Powers of two by which prices are whole numbers, such that costs times them stay in 62 bits, and of each the
    dearest price such that all bytes do, too; down to the one by which a byte may cost as much as all ops."""
    total, sizes = max(1, problem.costs.total), max(1, sum(v.size for v in problem.values))
    q, scales = 1 << max(0, (_MOST // total).bit_length() - 1), list[tuple[int, int]]()
    while True:
        scales.append((q, max(1, min(total * q + 1, _MOST // sizes))))
        if q == 1 or scales[-1][1] > total * q:
            return scales
        q = max(1, q >> _COARSER)


def certificate(problem: Sequenced, bound: PriceBound) -> PriceCertificate | None:
    """The flow that shows a bound; None if there is nothing to show."""
    if bound.units <= 0:
        return None
    _, _, arcs = _core.price_cut(problem.core(bound=True), bound.op, *bound.price, *bound.waits, with_proof=True)
    graph = problem.model.graph
    ids = [op.id for op in graph.ops]

    def arc(row: tuple[int, int, int, int]) -> PriceArc:
        value, source, goal, amount = row
        tensor = None if value < 0 else problem.model.storages[value].tensors[0]
        return tensor, None if source < 0 else ids[source], None if goal < 0 else ids[goal], amount

    return PriceCertificate(
        op=ids[bound.op],
        price=bound.price,
        waits=bound.waits,
        scale=problem.costs.scale,
        flow=[arc(row) for row in arcs],
    )


def first_run_bound(problem: Sequenced, budget: int, order: Sequence[int]) -> int:
    """Units that any sequence takes again at least whose first runs come in this order.

    Parameters
    ----------
    order
        Positions; only the first of each counts.
    """
    order = list(dict.fromkeys(order))
    step_of = {i: step for step, i in enumerate(order)}
    last: dict[int, int] = {}
    for i, op in enumerate(problem.ops):
        for x in op.reads:
            last[x] = max(last.get(x, 0), step_of[i])
    best = 0
    for step, v in enumerate(order):
        touched = {*problem.ops[v].reads, *problem.ops[v].makes}
        room = budget - problem.touched_bytes(v)
        held: dict[int, int] = {}
        for x, value in enumerate(problem.values):
            begun = value.maker < 0 or step_of[value.maker] < step
            if x in touched or value.shared or not begun or not (value.kept or last.get(x, -1) > step):
                continue
            if value.maker < 0 or problem.ops[value.maker].once:
                room -= value.size
            else:
                held[value.maker] = held.get(value.maker, 0) + value.size
        best = max(best, _knapsack([(problem.costs.units[u], size) for u, size in held.items()], room))
    return best


def _knapsack(items: list[tuple[int, int]], room: int) -> int:
    """Least cost, rounded up, of what cannot stay: parts of items may, which only lowers it."""
    excess = sum(size for _, size in items) - room
    spent = Fraction(0)
    for cost, size in sorted(items, key=lambda item: Fraction(item[0], item[1]) if item[1] else Fraction(0)):
        if excess <= 0:
            break
        if size:
            part = min(excess, size)
            spent += Fraction(cost * part, size)
            excess -= part
    return -(-spent.numerator // spent.denominator)
