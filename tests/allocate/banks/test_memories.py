from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate.banks import assignment, memories
from lowtide.allocate.banks.assignment import cost_of, least_cost
from lowtide.allocate.banks.bank import Bank, Demand, Loads
from lowtide.allocate.banks.memories import BankPlacement, part_of, place_in_banks
from lowtide.allocate.banks.prices import find_prices
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block
from lowtide.stop import Limits, Progress
from support.small_problems import check, least_height, random_buffers, with_ties

#  step  0 1 2 3 4
#   a    #####        4 bytes each; b is the longest
#   b      #######
#   c          ###
THREE = Problem((block("a", 0, 3, 4), block("b", 1, 5, 4), block("c", 3, 5, 4)))


def least_slow(problem: Problem, banks: list[Bank], demands: list[Demand]) -> int | None:
    """Least cost of all assignments that can be placed, by trying every offset in each; None if there is none."""
    best: int | None = None
    for bank_of in product(*(d.allowed for d in demands)):
        cost = cost_of(demands, bank_of)
        if best is not None and cost >= best:
            continue
        parts = [part_of(problem, [i for i, at in enumerate(bank_of) if at == k], b.alignment)
                 for k, b in enumerate(banks)]  # fmt: skip
        if all(least_height(part) <= b.capacity for part, b in zip(parts, banks, strict=True)):
            best = cost
    return best


def check_placement(problem: Problem, banks: list[Bank], demands: list[Demand], placement: BankPlacement) -> None:
    """Every memory by itself, byte by byte; and that cost and sizes are what is said."""
    for k, bank in enumerate(banks):
        members = [i for i, at in enumerate(placement.bank_of) if at == k]
        part = part_of(problem, members, bank.alignment)
        check(part, [placement.offsets[i] for i in members])
        ends = [placement.offsets[i] + problem.buffers[i].size for i in members]
        assert max(ends, default=0) <= placement.used_bytes[k]
        assert not placement.fits or placement.used_bytes[k] <= bank.capacity
    assert all(k in d.allowed for k, d in zip(placement.bank_of, demands, strict=True))
    assert placement.slow_bytes == cost_of(demands, placement.bank_of)


def test_what_fits_the_fastest_stays_there():
    """With room for all, the slow memory holds nothing."""
    found = place_in_banks(THREE, [Bank("fast", 8), Bank("slow", 100)])
    assert (found.bank_of, found.slow_bytes, found.used_bytes) == ((0, 0, 0), 0, (8, 0))
    assert found.fits
    assert found.optimal


def test_the_fewest_bytes_go_to_the_slow_memory():
    """One buffer of the three, the one that is in the way of both others."""
    found = place_in_banks(THREE, [Bank("fast", 4), Bank("slow", 100)])
    assert (found.bank_of, found.slow_bytes, found.optimal) == ((0, 1, 0), 4, True)


def test_accesses_decide_among_equal_bytes():
    """Of two buffers of equal size, the one less often touched goes."""
    two = Problem((block("a", 0, 2, 4), block("b", 0, 2, 4)))
    banks = [Bank("fast", 4), Bank("slow", 4)]
    for hot in (0, 1):
        demands = [Demand((0, 1), 4, 12 if i == hot else 8) for i in (0, 1)]
        found = place_in_banks(two, banks, demands)
        assert found.bank_of[hot] == 0
        assert found.accesses_bytes == 8


def test_what_nothing_holds_is_impossible_and_reported_per_memory():
    """A byte too few in all: proved, and the last memory is told as large as it would have to be."""
    banks = [Bank("fast", 4), Bank("slow", 3)]
    found = place_in_banks(THREE, banks)
    assert (found.fits, found.impossible) == (False, True)
    assert found.used_bytes == (4, 4)


def test_a_buffer_that_may_only_be_fast_and_does_not_fit():
    """The preference is kept, and the fast memory is the one that is too small."""
    demands = [Demand((0,), 4), Demand((0, 1), 4), Demand((0, 1), 4)]
    found = place_in_banks(THREE, [Bank("fast", 3), Bank("slow", 100)], demands)
    assert (found.fits, found.impossible) == (False, True)
    assert found.bank_of[0] == 0
    assert found.used_bytes[0] >= 4


def test_preferences_go_before_speed():
    """A buffer that names the slow memory first lies there although the fast one has room."""
    demands = [Demand((1, 0), 4), Demand((0, 1), 4), Demand((1,), 4)]
    found = place_in_banks(THREE, [Bank("fast", 100), Bank("slow", 100)], demands)
    assert (found.bank_of, found.slow_bytes) == ((1, 0, 1), 0)


def test_the_alignment_of_each_memory():
    """Offsets are multiples of the memory's alignment, or of the buffer's where that is larger."""
    several = Problem(tuple(replace(b, alignment=2) for b in THREE.buffers))
    found = place_in_banks(several, [Bank("fast", 4, 1), Bank("slow", 40, 16)])
    assert all(offset % (16 if k else 2) == 0 for k, offset in zip(found.bank_of, found.offsets, strict=True))


def test_gaps_are_free_for_others():
    """What lies in the gap of another takes its place."""
    gapped = Buffer("g", 4, (Rectangle(0, 1, 0, 4), Rectangle(3, 4, 0, 4)))
    found = place_in_banks(Problem((gapped, block("b", 1, 3, 4))), [Bank("fast", 4), Bank("slow", 4)])
    assert (found.bank_of, found.slow_bytes) == ((0, 0), 0)


def drawn(seed: int, n: int, ties: bool) -> tuple[Problem, list[Bank], list[Demand]]:
    """A random problem, two or three memories that hardly hold it, and random preferences."""
    rng = Random(seed)
    buffers = random_buffers(seed, n, 5, 4, (1, 1, 2))
    problem = with_ties(seed, buffers) if ties else Problem(buffers)
    banks = [Bank(f"m{k}", rng.randint(1, 7), rng.choice((1, 1, 2))) for k in range(rng.randint(2, 3))]
    demands = []
    for b in buffers:
        ranks = list(range(len(banks)))
        if rng.random() < 0.3:
            rng.shuffle(ranks)
            ranks = ranks[: rng.randint(1, len(banks))]
        demands.append(Demand(tuple(ranks), b.size, rng.randint(0, 9)))
    return problem, banks, demands


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 4), st.booleans())
def test_memories_against_every_assignment_and_every_offset(seed: int, n: int, ties: bool):
    """What is placed holds; a cost called least is; a bound holds; impossible is said only of what is."""
    problem, banks, demands = drawn(seed, n, ties)
    found = place_in_banks(problem, banks, demands)
    check_placement(problem, banks, demands, found)
    least = least_slow(problem, banks, demands)
    assert not (found.impossible and least is not None)
    assert not (found.fits and least is None)
    if least is not None:
        assert found.slow_lower_bound_bytes <= least
    if found.fits:
        assert least is not None
        assert found.slow_bytes >= least
        assert not found.optimal or found.slow_bytes == least


@pytest.mark.slow
def test_small_instances_are_nearly_all_decided():
    """Without ties, 200 random ones: each is placed at the least cost with proof, or proved impossible."""
    pytest.importorskip("ortools")
    for seed in range(200):
        problem, banks, demands = drawn(seed, 4, ties=False)
        found = place_in_banks(problem, banks, demands)
        assert found.optimal or found.impossible, seed


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 4))
def test_a_narrow_sweep_bounds_from_below(seed: int, n: int, width: int):
    """With few states kept the bound is at most the least cost of the loads, and the assignment's loads fit."""
    problem, banks, demands = drawn(seed, n, ties=False)
    loads, capacities = Loads(problem), [b.capacity for b in banks]
    exact = assignment.AssignmentSweep(loads, demands, capacities).run()
    assert exact.complete
    swept = assignment.AssignmentSweep(loads, demands, capacities, width=width).run()
    if exact.bank_of is None:
        assert swept.bank_of is None
        return
    least = cost_of(demands, exact.bank_of)
    assert least == exact.lower_bound
    assert swept.lower_bound <= least
    if swept.bank_of is not None:
        assert cost_of(demands, swept.bank_of) >= least
        for section in loads.sections:
            for k, capacity in enumerate(capacities):
                assert sum(s for i, s in section.live.items() if swept.bank_of[i] == k) <= capacity
    if swept.complete:
        assert swept.bank_of is not None
        assert cost_of(demands, swept.bank_of) == least


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(14, 18))
def test_prices_bound_from_below_and_leave_the_best(seed: int, n: int):
    """With more buffers than a sweep does without prices: the bound holds, and what it leaves out is not missed."""
    problem, banks, demands = drawn(seed, n, ties=False)
    loads, capacities = Loads(problem), [b.capacity for b in banks]
    plain = assignment.AssignmentSweep(loads, demands, capacities)
    plain.prices, plain.states = None, {0: (0, 0, 0.0, (0,) * len(banks), None)}
    exact = plain.run()
    assert exact.complete
    found = least_cost(loads, demands, capacities)
    assert found.complete
    assert (found.bank_of is None) == (exact.bank_of is None)
    if found.bank_of is not None and exact.bank_of is not None:
        least = cost_of(demands, exact.bank_of)
        assert cost_of(demands, found.bank_of) == least == found.lower_bound
        assert find_prices(loads, demands, capacities, least).bound <= least + 1e-6


def test_many_live_at_once():
    """Sixty buffers live together, more states than are kept: the least cost is still found, here with a proof."""
    rng = Random(1)
    sizes = [rng.randint(1, 50) for _ in range(60)]
    problem = Problem(tuple(block(f"b{i}", i % 7, 20 + i % 5, size) for i, size in enumerate(sizes)))
    demands = [Demand((0, 1), size) for size in sizes]
    found = least_cost(Loads(problem), demands, [sum(sizes) // 2, sum(sizes)])
    assert found.complete
    assert found.bank_of is not None
    assert cost_of(demands, found.bank_of) == sum(sizes) - sum(sizes) // 2 == found.lower_bound


def test_a_memory_that_its_load_fits_and_its_placement_does_not(monkeypatch: pytest.MonkeyPatch):
    """Loads within the capacity that no placement reaches: something more goes to the slow memory."""
    monkeypatch.setattr(memories, "place_jointly", lambda *_: None)
    rng = Random(5)
    for seed in range(4000):
        buffers = random_buffers(seed, 5, 6, 3)
        problem = Problem(buffers)
        load = max((sum(s.live.values()) for s in Loads(problem).sections), default=0)
        least = least_height(problem)
        if least > load:
            banks = [Bank("fast", load), Bank("slow", 100)]
            demands = [Demand((0, 1), b.size, rng.randint(0, 3)) for b in buffers]
            found = place_in_banks(problem, banks, demands)
            assert found.fits
            assert found.slow_bytes >= (least_slow(problem, banks, demands) or 0) > 0
            assert not found.optimal or found.slow_bytes == least_slow(problem, banks, demands)
            return
    raise AssertionError("no such instance was drawn")


def many(seed: int) -> tuple[Loads, list[Demand], list[int], Problem]:
    """Forty buffers of which no narrow sweep finds the least cost, and capacities for half of the load."""
    rng = Random(seed)
    starts = [rng.randrange(30) for _ in range(40)]
    problem = Problem(
        tuple(block(f"b{i}", t, t + rng.randint(5, 25), rng.randint(20, 90)) for i, t in enumerate(starts))
    )
    load = max(sum(s.live.values()) for s in Loads(problem).sections)
    return Loads(problem), [Demand((0, 1), b.size) for b in problem.buffers], [load // 2, 2 * load], problem


@pytest.mark.slow
def test_no_wider_sweep_begins_when_the_time_is_over():
    """The first one is made in any case; what is then said is true, and is no proof."""
    loads, demands, capacities, _ = many(1)
    first = least_cost(loads, demands, capacities, assignment.WIDTHS[:1])
    timed = least_cost(loads, demands, capacities, limits=Limits(0.0))
    full = least_cost(loads, demands, capacities)
    assert not first.complete
    assert timed == first
    assert full.states > first.states
    assert full.bank_of is not None
    assert timed.bank_of is not None
    assert timed.lower_bound <= full.lower_bound <= cost_of(demands, full.bank_of) <= cost_of(demands, timed.bank_of)


@pytest.mark.slow
def test_an_interrupt_ends_with_the_best_placement_so_far():
    """Whenever it comes: every buffer has a place, bounds hold, and the progress before it was of the cost."""
    _, demands, capacities, problem = many(1)
    banks = [Bank("fast", capacities[0]), Bank("slow", capacities[1])]
    for after in (1, 30, 70):
        heard: list[Progress] = []

        def stop(progress: Progress, after: int = after, heard: list[Progress] = heard) -> None:
            heard.append(progress)
            if len(heard) == after:
                raise KeyboardInterrupt

        found = place_in_banks(problem, banks, demands, Limits(report=stop))
        assert found.interrupted
        assert found.fits
        check_placement(problem, banks, demands, found)
        assert all(p.bound_bytes <= found.slow_bytes for p in heard)
