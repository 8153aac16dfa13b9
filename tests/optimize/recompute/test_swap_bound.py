"""The bound on time where values leave memory: against brute force, its lines by the clock, its certificates."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import msgspec
import pytest

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.bound import PriceBound, certificate
from lowtide.optimize.recompute.sequence import Sequenced, least_possible, search
from lowtide.optimize.recompute.swap_bound import swap_peak_bound, swap_time_bound
from lowtide.optimize.recompute.swaps import Bandwidth, in_nanoseconds, with_swaps
from lowtide.rewrites import PriceCertificate
from lowtide.stop import Limits
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.price_bound import PricedGraph, proved_peak, proved_units
from support.sequences import STRICT, own
from support.swaps import least_time, swapping


def late(read_late: int = 20) -> tuple[Sequenced, Bandwidth]:
    """Ten bytes that are read first and last, ten that an op needs soon after: one byte a nanosecond each way, ops of
    three nanoseconds before it and `read_late` behind."""
    tensors = (Tensor(0, 10), Tensor(1, 2), Tensor(2, 10), Tensor(3, 1), Tensor(4, 1, Kind.OUTPUT))
    ops = (Op(0, (), (0,)), Op(1, (0,), (1,)), Op(2, (1,), (2,)), Op(3, (2,), (3,)), Op(4, (3, 0), (4,)))
    plain = in_nanoseconds(own(Graph("late", tensors, ops)), [3, 3, 0, read_late, 1])
    rate = Bandwidth(1e9, 1e9)
    return with_swaps(plain, rate, recompute=False), rate


@pytest.mark.slow
def test_what_must_leave_in_little_time_is_waited_for():
    """Ten bytes leave in ten nanoseconds, of which six pass anyway: four are waited, however long there is behind."""
    problem, rate = late()
    bound = swap_time_bound(problem, 12, [2], rate)
    assert (bound.units, bound.op) == (4, 2)
    assert bound.waits[0] > bound.waits[1]
    least = least_time(problem, 12, 100)
    assert least is not None
    assert least >= problem.costs.total + bound.units
    assert swap_time_bound(problem, 21, [2], rate) == PriceBound(0)


def test_both_sides_are_waited_for():
    """Where three nanoseconds are left behind, too, seven more of them."""
    problem, rate = late(2)
    assert swap_time_bound(problem, 12, [2], rate).units == 4 + 7


def test_bytes_within_a_time():
    """In a nanosecond of waiting seven of the ten bytes are away at most, so that fifteen are there; with no end to
    it what the op needs is."""
    problem, rate = late()
    assert swap_peak_bound(problem, 1, 12, [2], rate).bytes == 15
    assert swap_peak_bound(problem, 1000, 12, [2], rate).bytes == 12


@pytest.mark.slow
def test_the_bound_is_never_above_the_least_time():
    """On small random graphs, with runs again and without, by brute force; the checker finds the same in the flow."""
    positive, uneven, rng = 0, 0, Random(7)
    for _ in range(150):
        rate = Bandwidth(rng.choice((1, 2, 4)) * 2e8, rng.choice((1, 2, 4)) * 2e8)
        again = rng.random() < 0.5
        problem = swapping(rng, 4, again=again, bandwidth=rate)
        budget = max(least_possible(problem)[0], max(problem.core().footprints(range(4))) - rng.randint(1, 6))
        bound = swap_time_bound(problem, budget, range(4), rate)
        if not bound.units:
            continue
        positive += 1
        uneven += bound.waits[0] != bound.waits[1]
        assert least_time(problem, budget, problem.costs.total + bound.units - 1) is None
        assert proved(problem, budget, bound, rate, again=again) == bound.units
        peak = swap_peak_bound(problem, bound.units - 1, least_possible(problem)[0], range(4), rate)
        assert peak.bytes > budget
        shown = certificate(problem, peak.priced())
        assert shown is not None
        assert proved_peak(priced(problem, rate, again=again), bound.units - 1, shown) == peak.bytes
    assert positive >= 8
    assert uneven >= 3


def units_of(problem: Sequenced) -> dict[int, int]:
    """Nanoseconds by op."""
    return dict(zip([op.id for op in problem.model.graph.ops], problem.costs.units, strict=True))


def proved(problem: Sequenced, budget: int, bound: PriceBound, rate: Bandwidth, *, again: bool) -> int:
    """What verify finds that a bound's certificate proves."""
    shown = certificate(problem, bound)
    assert shown is not None
    return checked(problem, budget, shown, rate, again=again)


def checked(problem: Sequenced, budget: int, shown: PriceCertificate, rate: Bandwidth, *, again: bool) -> int:
    """The same of a certificate."""
    return proved_units(priced(problem, rate, again=again), budget, shown)


def priced(problem: Sequenced, rate: Bandwidth, *, again: bool) -> PricedGraph:
    """As the checker sees a problem."""
    graph = problem.model.graph
    return PricedGraph(graph, work_out(graph, STRICT), units_of(problem), 1, rate.per_nanosecond, again)


def test_certificates_that_say_more_are_refused():
    """Weights beyond one, a byte worth more than its ways, the time of the op itself, and more time than an op has."""
    problem, rate = late()
    shown = certificate(problem, swap_time_bound(problem, 12, [2], rate))
    assert shown is not None
    (p, q), (a, b) = shown.price, shown.waits
    times = [k for k, (tensor, source, _, _) in enumerate(shown.flow) if tensor is None and source is None]
    assert times
    longer = [(t, u, v, x + (k in times) * q * 100) for k, (t, u, v, x) in enumerate(shown.flow)]
    change = msgspec.structs.replace
    for broken in (
        change(shown, waits=(2 * q, b)), change(shown, waits=(a, -1)), change(shown, price=(3 * p, q)),
        change(shown, waits=(b, a)), change(shown, flow=[*shown.flow, (None, None, 2, 1)]),
        change(shown, flow=[*shown.flow, (None, None, 77, 1)]), change(shown, flow=longer),
    ):  # fmt: skip
        with pytest.raises(VerificationError, match="recompute"):
            checked(problem, 12, broken, rate, again=False)
    graph = problem.model.graph
    with pytest.raises(VerificationError, match="no weights"):
        proved_units(PricedGraph(graph, work_out(graph, STRICT), units_of(problem), 1), 12, shown)


def test_the_lines_of_the_proof_hold_of_sequences():
    """(1) to (4) of docs/proofs.md, section 16, at the first run of each op, by the clock."""
    rng, away, again = Random(3), 0, 0
    for _ in range(60):
        rate = Bandwidth(rng.choice((1, 2, 4)) * 2e8, rng.choice((1, 2, 4)) * 2e8)
        problem = swapping(rng, rng.randint(4, 9), bandwidth=rate)
        count = len(problem.ops)
        budget = max(least_possible(problem)[0], max(problem.core().footprints(range(count))) - rng.randint(1, 9))
        found = search(problem, range(count), budget, Limits(5), steps=40)
        if found.found:
            sides = [lines_hold(problem, list(found.order), at, budget, rate) for at in range(len(found.order))]
            away += any(side[0] for side in sides)
            again += any(side[1] for side in sides)
    assert away >= 5
    assert again >= 5


def lines_hold(problem: Sequenced, order: list[int], at: int, budget: int, rate: Bandwidth) -> tuple[int, int]:
    """Checks them where an entry of a sequence is an op's first run; bytes away, and nanoseconds made again."""
    count, ops, values = len(problem.ops), problem.ops, problem.values
    v = order[at]
    if v >= count or v in order[:at]:
        return 0, 0
    before = {i for i in order[:at] if i < count}
    held, away, again = 0, 0, set[int]()
    for x, value in enumerate(values):
        readers = {i for i in range(count) if x in ops[i].reads}
        wanted = value.kept or readers - before - {v}
        if x in (*ops[v].reads, *ops[v].makes) or not wanted or (value.maker >= 0 and value.maker not in before):
            continue
        source = next_source(problem, order, at, x)
        held += value.size if source == "there" else 0
        away += value.size if source == "loaded" else 0
        again |= {value.maker} if source == "made" else set()
    start, end = ends(problem, order, at), ends(problem, order, len(order))
    once = sum(problem.costs.units[i] for i in before)
    rest = problem.costs.total - once - problem.costs.units[v]
    out, back = rate.per_nanosecond
    assert held + problem.touched_bytes(v) <= budget
    assert away <= out * start
    assert away <= back * (end - start - problem.costs.units[v])
    runs_again = sum(problem.costs.units[i] for i in again)
    assert start >= once
    assert runs_again <= Fraction(end - start - problem.costs.units[v] - rest)
    return away, runs_again


def next_source(problem: Sequenced, order: list[int], at: int, x: int) -> str:
    """How a value that is read behind a place of a sequence comes to be there: the first such thing behind the place,
    if it comes before who reads it."""
    for entry in order[at + 1 :]:
        if entry >= len(problem.ops):
            row, load = problem.transfer_of(entry)
            if row.value == x:
                return "loaded" if load else "there"
        elif x in problem.ops[entry].reads:
            return "there"
        elif x in problem.ops[entry].makes:
            return "made"
    return "there"


def ends(problem: Sequenced, order: list[int], at: int) -> int:
    """When the op at a place begins, or, at its end, when a sequence has ended."""
    there = dict.fromkeys(range(len(problem.values)), 0)
    now = storing = loading = 0
    for i in order[:at]:
        if i >= len(problem.ops):
            row, load = problem.transfer_of(i)
            if load:
                loading = there[row.value] = max(loading, now) + row.load
            else:
                storing = max(storing, there[row.value]) + row.store
                now = max(now, storing)
            continue
        now = max([now, *(there[x] for x in problem.ops[i].reads)]) + problem.costs.units[i]
        there.update(dict.fromkeys(problem.ops[i].makes, now))
    if at < len(order):
        return max([now, *(there[x] for x in problem.ops[order[at]].reads)])
    return max([now, *(there[x] for x, value in enumerate(problem.values) if value.kept)])
