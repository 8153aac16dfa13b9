"""Transfers beside checkpoints of chains: small answers known by hand, and the least time by brute force."""

from __future__ import annotations

from random import Random

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.optimize.recompute.pofo import Pofo, with_transfers
from lowtide.optimize.recompute.rotor import Rotor
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.optimize.recompute.swaps import Bandwidth, clock, in_nanoseconds, with_swaps
from lowtide.stop import Limits
from support.chains import chain_with_skips, step_of_a_chain
from support.swaps import least_time


def timed(problem: Sequenced, rate: float, each: int = 10) -> Sequenced:
    """Ops of so many nanoseconds, and `rate` bytes a nanosecond each way."""
    return with_swaps(in_nanoseconds(problem, [each] * len(problem.ops)), Bandwidth(rate * 1e9, rate * 1e9))


def test_what_leaves_and_comes_back_beside_ops_costs_nothing():
    """Of eight ops and eight back two bytes fewer stay, and no op runs again, where a byte takes as long as an op; at a
    hundredth of that ops run again, as rotor has it."""
    fast, slow = timed(step_of_a_chain(8), 0.1), timed(step_of_a_chain(8), 0.001)
    assert max(fast.core().footprints(range(16))) == 9
    quick = Pofo().repeat(fast, range(16), 7, Limits(20))
    assert clock(fast, quick.order) == 160
    assert peak_of(fast, quick.order) <= 7
    again = Pofo().repeat(slow, range(16), 7, Limits(20))
    rotor = Rotor().repeat(slow, range(16), 7, Limits(20))
    assert clock(slow, again.order) == clock(slow, rotor.order) > 160


@pytest.mark.slow
def test_it_never_takes_longer_than_rotor_of_more_blocks():
    """Where its own chain has fewer blocks than rotor's, with which rotor takes longer or finds nothing."""
    problem, coarser = timed(step_of_a_chain(12), 0.0001), 0
    for budget in range(4, 13):
        rotor, coarse, pofo = (
            method.repeat(problem, range(24), budget, Limits(20)).order
            for method in (Rotor(), Rotor(most_blocks=3), Pofo(slots=2, most_blocks=3))
        )
        if rotor:
            assert clock(problem, pofo) <= clock(problem, rotor)
            coarser += not coarse or clock(problem, coarse) > clock(problem, rotor)
    assert coarser > 2


def test_stores_stand_where_they_end():
    """One byte of the first op leaves while two ops run, and begins to come back two before it is read."""
    problem = timed(step_of_a_chain(4), 0.05)
    store = len(problem.ops) + 2 * next(k for k, row in enumerate(problem.transfers) if row.value == 0)
    assert with_transfers(problem, range(8), [0], 99) == [0, 1, 2, store, 3, 4, store + 1, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_the_least_time_of_a_small_step(rate: float):
    """By brute force over all orders, repetitions and transfers; where they are too slow an op runs again."""
    problem = timed(step_of_a_chain(4), rate)
    result = Pofo().repeat(problem, range(8), 4, Limits(20))
    assert peak_of(problem, result.order) <= 4
    spent = clock(problem, result.order)
    assert least_time(problem, 4, spent) == spent


@pytest.mark.slow
def test_answers_fit_and_take_no_longer_than_without_transfers():
    """With values of all sizes and ops of all times, each budget down to rotor's last."""
    rng, moved = Random(2), 0
    for _ in range(8):
        plain = chain_with_skips(rng.randint(3, 5))
        count = len(plain.ops)
        times = [rng.randint(1, 20) for _ in range(count)]
        problem = with_swaps(in_nanoseconds(plain, times), Bandwidth(rng.choice((0.1, 0.3)) * 1e9, 0.2e9))
        peak = max(problem.core().footprints(range(count)))
        for budget in range(peak - 1, 4, -1):
            result = Pofo().repeat(problem, range(count), budget, Limits(20))
            rotor = Rotor().repeat(problem, range(count), budget, Limits(20))
            assert not rotor.order or clock(problem, result.order) <= clock(problem, rotor.order)
            if result.order:
                assert peak_of(problem, result.order) <= budget
                moved += any(i >= count for i in result.order)
    assert moved >= 8


def test_a_plan_is_verified_and_other_calls_are_refused():
    """By name where transfers are not allowed."""
    graph = chain_with_skips(4).model.graph
    plan = lowtide.research.plan(
        graph, allow="recompute,offload", method="pofo", budget="70%", target="strict", time=20
    )
    assert (plan.method, plan.status) == ("pofo", "ok")
    with pytest.raises(InputError, match="recompute,offload"):
        lowtide.research.plan(graph, allow="recompute", method="pofo", budget="70%", target="strict", time=5)
    with pytest.raises(InputError, match=r"pofo\.slots"):
        Pofo(slots=0)
    assert Pofo().supports(step_of_a_chain(2)) is not None
