"""Lower bounds on the time that a plan within a budget spends on recomputation.

Two bounds. The price cut holds for every order (`core/sequence/price_cut.h`): for one op and one price of a byte it is
a minimum cut. It is concave in the price, so bisection finds the best price. A recomputed op needs its operands, so
chains of recomputed ops count. For one order of first runs, the same cut knows which ops have run before the op.

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
from lowtide.stop import count

_MOST = 2**60
_HALVINGS = 24

CUT = 300  # nanoseconds that a price cut takes for each op and value

_COARSER = 12  # bits fewer that a price has after the point where a byte is worth more


@dataclass(frozen=True)
class PriceBound:
    """Least units of cost of recomputation in any order; the op and the price that prove it, and the weights of waiting
    before and after the op, of which the price's second number is one."""

    units: int
    op: int = -1
    price: tuple[int, int] = (0, 1)
    waits: tuple[int, int] = (0, 0)


def price_bound(
    problem: Sequenced,
    budget: int,
    ops: Sequence[int],
    in_time: Callable[[], bool] = lambda: True,
    first: Sequence[int] = (),
) -> PriceBound:
    """The best price cut over some ops. `budget`: bytes, sizes as they are. `ops`: positions to ask at, those first
    that promise most. `in_time`: whether to go on. `first`: positions in the order of the first runs, for the bound
    over sequences with these; empty: over all orders."""
    best = PriceBound(0)

    def goal() -> tuple[int, int]:
        """The bytes, and the units that are shown for them."""
        return budget, best.units

    for cut in _price_cuts(problem, ops, goal, in_time, first):
        value = -(-(cut.flow + cut.p * (problem.touched_bytes(cut.op) - budget)) // cut.q)
        if value > best.units:
            best = PriceBound(value, cut.op, (cut.p, cut.q))
    return best


@dataclass(frozen=True)
class _Cut:
    """A minimum cut at an op at price p / q of a byte: its flow, and the bytes that it holds."""

    op: int
    p: int
    q: int
    flow: int
    held: int


def _price_cuts(
    problem: Sequenced,
    ops: Sequence[int],
    goal: Callable[[], tuple[int, int]],
    in_time: Callable[[], bool],
    first: Sequence[int] = (),
) -> Iterator[_Cut]:
    """Minimum cuts at some ops, at prices halved towards that which shows most, as long as one may show that within so
    many bytes more than a given number of units are needed: `goal`, asked each time. It ends when time is up."""
    core, scales, first = problem.core(bound=True), _scales(problem), list(first)
    for v in ops:
        touched, unseen = problem.touched_bytes(v), problem.untouched_bytes(v)
        for q, dearest in scales:
            low, high = _Tangent(0, 0, None), None
            while high is None or high.p - low.p > 1:
                if not in_time():
                    return
                p = dearest if high is None else max(1, _middle(low.p, high.p))
                flow, held, *_ = _core.price_cut(core, v, p, q, first=first)
                count(CUT * (len(problem.ops) + len(problem.values)))
                yield _Cut(v, p, q, flow, held - unseen)
                room, units = goal()
                # Where more is held than there is room for, a byte is worth more.
                slope = held - unseen - room
                at = _Tangent(p, flow + p * (touched - room) - q * units, slope)
                if slope > 0:
                    low = at
                    if high is None:
                        break
                else:
                    high = at
                if not _above_zero(low, high):
                    break
            if high is not None:
                break


@dataclass(frozen=True)
class _Tangent:
    """What a price shows beyond the goal, times q, and how that grows with the price: it is concave. None: it
    may grow as it likes."""

    p: int
    value: int
    slope: int | None


def _above_zero(low: _Tangent, high: _Tangent) -> bool:
    """Whether a concave function with these tangents may be above zero between them."""
    assert high.slope is not None
    apart = high.p - low.p
    if low.slope is None:
        return high.value > high.slope * apart
    return low.slope * high.value > high.slope * (low.value + low.slope * apart)  # where both meet


@dataclass(frozen=True)
class PeakBound:
    """Least bytes of any sequence within a bound on its cost, in any order; the op and the price of a byte that prove
    it, -1 if a single op needs them; `waits` as in `PriceBound`."""

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
    """The best price cut over some ops, as a bound on bytes for given time.

    At price p / q of a byte, recomputation takes at least (flow + p (touched - peak)) / q units. If that may be no more
    than `extra`, the peak is at least touched + (flow - q extra) / p.

    `extra`: units of cost that recomputation may take. `least`: bytes known to be needed. `ops`: positions to try, the
    most promising first.
    """
    best = PeakBound(least)

    def goal() -> tuple[int, int]:
        """The bytes that are shown for the units."""
        return best.bytes, extra

    for cut in _price_cuts(problem, ops, goal, in_time):
        value = ceil(problem.touched_bytes(cut.op) - Fraction(cut.q * extra - cut.flow, cut.p))
        if value > best.bytes:
            best = PeakBound(value, cut.op, (cut.p, cut.q))
    return best


def _middle(low: int, high: int) -> int:
    """Between two prices, by their logarithms as long as they are far apart."""
    if low and high > 4 * low:
        return 1 << ((low.bit_length() + high.bit_length()) // 2)
    if not low and high > 2**20:
        return 1 << (high.bit_length() // 2)
    return (low + high) // 2


def _scales(problem: Sequenced) -> list[tuple[int, int]]:
    """Powers of two that scale prices to integers with costs within 62 bits, and for each the highest price with bytes
    within 62 bits; down to the scale at which a byte may cost as much as all ops."""
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
    _, _, arcs, _ = _core.price_cut(problem.core(bound=True), bound.op, *bound.price, *bound.waits, with_proof=True)
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


def first_run_bound(
    problem: Sequenced, budget: int, order: Sequence[int], in_time: Callable[[], bool] = lambda: True
) -> int:
    """Least units of recomputation of any sequence with this order of first runs: the best price cut over all its ops,
    the highest ones first. `order`: positions; only the first of each counts."""
    order = list(dict.fromkeys(order))
    heights = problem.core().footprints(order)
    steps = sorted(range(len(order)), key=lambda step: (-heights[step], step))
    return price_bound(problem, budget, [order[step] for step in steps], in_time, order).units
