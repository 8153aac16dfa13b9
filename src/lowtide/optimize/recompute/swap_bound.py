"""Lower bound on the time of a plan whose values may leave memory while ops run.

When op v runs, every offloaded value was stored before by one engine and is loaded afterwards by another. Stores and
loads take ops' time or waiting time on their side of v; so does recomputation in place of a load. Let a unit of waiting
before v be worth ``a / q``, one afterwards ``b / q``, and a byte ``p / q``, no more than its transfers at these
weights. The least of all these sums is a minimum cut (`core/sequence/price_cut.h`; docs/proofs.md, section 16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from lowtide import _core
from lowtide.optimize.recompute.bound import CUT, PeakBound, PriceBound
from lowtide.optimize.recompute.sequence import Sequenced
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.stop import count

_MOST = 2**60
_WAYS = ((4, 4), (4, 0), (0, 4), (4, 2), (2, 4))
"""Weights of time before and after, in quarters of the larger."""

_FINEST = 80  # quarters of a power of two by which weights are lowered at most


@dataclass(frozen=True)
class _Cut:
    """A minimum cut at an op, and its prices."""

    op: int
    price: tuple[int, int]
    waits: tuple[int, int]
    flow: int

    def shown(self, problem: Sequenced) -> int:
        """The flow without what the op's surroundings take by themselves."""
        return self.flow - max(self.waits) * (problem.costs.total - problem.costs.units[self.op])


def swap_time_bound(
    problem: Sequenced,
    budget: int,
    ops: Sequence[int],
    bandwidth: Bandwidth,
    in_time: Callable[[], bool] = lambda: True,
) -> PriceBound:
    """Nanoseconds that any sequence within a budget takes longer than all ops once, at least. `budget`: bytes, sizes as
    they are. `ops`: positions to ask at, those first that promise most. `in_time`: whether to go on."""

    def worth(cut: _Cut) -> Fraction:
        p, q = cut.price
        return Fraction(cut.shown(problem) + p * (problem.touched_bytes(cut.op) - budget), q)

    found = _best(problem, ops, bandwidth, in_time, worth)
    if found is None or worth(found) <= 0:
        return PriceBound(0)
    return PriceBound(ceil(worth(found)), found.op, found.price, found.waits)


def swap_peak_bound(
    problem: Sequenced,
    extra: int,
    least: int,
    ops: Sequence[int],
    bandwidth: Bandwidth,
    in_time: Callable[[], bool] = lambda: True,
) -> PeakBound:
    """Bytes that no sequence needs less than that takes no more than `extra` nanoseconds longer than all ops once.
    `least`: bytes known to be needed. `ops`: positions to ask at, those first that promise most."""

    def worth(cut: _Cut) -> Fraction:
        p, q = cut.price
        return problem.touched_bytes(cut.op) + Fraction(cut.shown(problem) - q * extra, p)

    found = _best(problem, ops, bandwidth, in_time, worth)
    if found is None or ceil(worth(found)) <= least:
        return PeakBound(least)
    return PeakBound(ceil(worth(found)), found.op, found.price, found.waits)


def _best(
    problem: Sequenced,
    ops: Sequence[int],
    bandwidth: Bandwidth,
    in_time: Callable[[], bool],
    worth: Callable[[_Cut], Fraction],
) -> _Cut | None:
    """The cut that is worth most, over ops and weights. Along one way what a cut is worth rises and then falls."""
    best: _Cut | None = None
    prices, core = _Prices(problem, bandwidth), problem.core(bound=True)
    recompute = not all(op.once for op in problem.ops)
    for v in ops:
        for way in _WAYS:
            lowered, step = 0, 16 if recompute else 0  # without recomputation all weights may be the largest
            here = prices.cut(core, v, way, lowered)
            while here is not None and step and in_time():
                there = prices.cut(core, v, way, lowered + step) if 0 <= lowered + step <= _FINEST else None
                if there is not None and worth(there) > worth(here):
                    here, lowered = there, lowered + step
                else:
                    step = -step if step > 0 else -step // 2
            if here is not None and (best is None or worth(here) > worth(best)):
                best = here
            if not in_time():
                return best
    return best


class _Prices:
    """Weights of time, and what a byte is worth at them."""

    def __init__(self, problem: Sequenced, bandwidth: Bandwidth) -> None:
        self.out, self.back = bandwidth.per_nanosecond
        self.work = CUT * (len(problem.ops) + len(problem.values))
        sizes = sum(v.size for v in problem.values)
        largest = max(problem.costs.total, ceil(sizes / self.out + sizes / self.back), 1)
        self.scale = 1 << max(0, (_MOST // largest).bit_length() - 1)

    def cut(self, core: _core.SequenceProblem, v: int, way: tuple[int, int], lowered: int) -> _Cut | None:
        """At an op, weights lowered by so many quarters of a power of two; None where a byte is worth nothing."""
        weight = int(self.scale * 2 ** (-lowered / 4)) // 4
        before, after = way[0] * weight, way[1] * weight
        p = int(before / self.out + after / self.back)
        if p < 1:
            return None
        flow, *_ = _core.price_cut(core, v, p, self.scale, before, after)
        count(self.work)
        return _Cut(v, (p, self.scale), (before, after), flow)
