from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide import _core
from lowtide.allocate.arena import ENGINES, allocate_best, allocate_buffers
from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle, block, height_of, load_bound
from lowtide.allocate.exact import KEYS, RULES, ExactFit
from lowtide.allocate.greedy import Portfolio
from lowtide.stop import Limits, Progress
from support.small_problems import FULL, ask, check, full_memory, least_height, random_buffers, small_problem


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(RULES)), st.sampled_from(KEYS), st.integers(0, 50), st.booleans())
def test_every_combination_of_rules_answers_as_brute_force(
    seed: int, left_out: set[str], key: str, near: int, leaps: bool
) -> None:
    """Whatever is left out: yes at the least height, with a placement that holds, and never a wrong no."""
    problem = small_problem(seed)
    least = least_height(problem)
    switches = dict.fromkeys(left_out, False)
    for capacity in {least, least - 1, load_bound(problem)} - {-1}:
        answer, offsets = ask(problem, capacity, switches, key, near, leaps)
        if answer:
            check(problem, offsets)
            assert least <= height_of(problem, offsets) <= capacity
        elif answer is False:
            assert capacity < least


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_all_engines_against_brute_force(seed: int) -> None:
    """Each engine is at the least height or above, each bound at or below it; the exact one closes the gap."""
    problem = small_problem(seed)
    least = least_height(problem)
    for engine in ENGINES:
        if engine.supports(problem) is None:
            packing = engine.pack(problem, Limits())
            check(problem, packing.offsets)
            assert packing.lower_bound_bytes <= least <= packing.height_bytes
    best = allocate_best(problem, Limits())
    check(problem, best.offsets)
    core = _core.Exact(problem.core)
    if all(core.part(k).proves for k in range(len(core))):
        assert best.lower_bound_bytes == best.height_bytes == least


def test_a_load_that_fits_and_buffers_that_do_not() -> None:
    """All 16 bytes are in use all the time; that no placement does it is proved, whichever rule is left out."""
    assert load_bound(FULL) == 16
    for rule in RULES:
        packing = ExactFit(without=(rule,), keys=("size",)).pack(FULL, Limits())
        check(FULL, packing.offsets)
        assert packing.lower_bound_bytes == packing.height_bytes == 17
    assert allocate_buffers(FULL).optimal


def test_full_memories_are_packed_or_refuted() -> None:
    """Bytes handed on from step to step without a byte to spare: always optimal, nearly always at the load."""
    rng = Random(4)
    for _ in range(150):
        problem = full_memory(rng, 7, 14, 6)
        packing = ExactFit().pack(problem, Limits())
        check(problem, packing.offsets)
        assert packing.optimal


def test_buffers_at_their_bound_cost_nothing() -> None:
    """What the greedies close is not asked again."""
    problem = Problem((block("a", 0, 2, 4), block("b", 1, 3, 4)))
    packing = ExactFit().pack(problem, Limits())
    assert packing.counters["questions"] == 0
    assert packing.optimal


def test_interlocking_groups_are_not_proved() -> None:
    """j may lie between the pieces of i, room that the search gives up: no placement found is no proof of anything."""
    group = Buffer("i", 9, (Rectangle(0, 2, 0, 3), Rectangle(2, 4, 6, 3)))
    bar = Buffer("j", 3, (Rectangle(1, 3, 0, 3),))
    other = block("k", 0, 4, 1)
    problem = Problem((group, bar, other))
    core = _core.Exact(problem.core)
    assert not core.part(0).proves
    assert core.fits(0, core.order(0, "area", 0), False, 9, 10**6, {}).fits is None
    packing = ExactFit(work=10**6).pack(problem, Limits())
    check(problem, packing.offsets)
    assert packing.lower_bound_bytes == load_bound(problem)


def test_groups_with_an_overhang_are_proved() -> None:
    """What lies under an overhang begins above the group's offset, yet below its piece: shifts keep the order."""
    group = Buffer("g", 8, (Rectangle(0, 2, 0, 2), Rectangle(2, 4, 6, 2)))
    problem = Problem((group, block("under", 2, 4, 5), block("on", 0, 2, 6)))
    core = _core.Exact(problem.core)
    assert core.part(0).proves
    packing = ExactFit().pack(problem, Limits())
    check(problem, packing.offsets)
    assert packing.height_bytes == 8


def test_heights_are_multiples_of_what_all_sizes_share() -> None:
    """Sizes of 1024 bytes each: the bound is raised in such steps."""
    rng = Random(5)
    for _ in range(60):
        plain = random_buffers(rng.randrange(2**32), 7, 5, 4)
        large = tuple(block(b.name, b.start, b.end, 1024 * b.size) for b in plain)
        small = tuple(block(b.name, b.start, b.end, b.size) for b in plain)
        found = ExactFit().pack(Problem(large), Limits())
        assert found.lower_bound_bytes == 1024 * ExactFit().pack(Problem(small), Limits()).lower_bound_bytes


@pytest.mark.slow
def test_the_same_every_time_and_no_work_without_leave() -> None:
    """The result does not depend on the clock; with no time, or no work, what is known is returned."""
    problem = Problem(random_buffers(3, 36, 14, 9))
    assert ExactFit(work=10**7).pack(problem, Limits()) == ExactFit(work=10**7).pack(problem, Limits())
    known = Portfolio().pack(problem, Limits())
    assert not known.optimal
    for engine, limits in ((ExactFit(), Limits(seconds=0)), (ExactFit(work=0), Limits())):
        packing = engine.pack(problem, limits)
        assert packing.offsets == known.offsets
        assert packing.counters["exact nodes"] == 0


def test_with_a_capacity_it_ends_at_the_first_fit_or_at_the_proof() -> None:
    """Enough is enough; and a capacity below the least height is proved to be too small."""
    assert allocate_buffers(FULL, 17).fits is True
    assert allocate_buffers(FULL, 16).fits is False
    assert allocate_buffers(FULL, 16, engines=(Portfolio(), ExactFit(work=0))).fits is None
    greedy = Portfolio().pack(FULL, Limits()).height_bytes
    assert "questions" not in allocate_buffers(FULL, greedy).counters


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_found() -> None:
    """Ctrl-C while it reports: the best so far, marked as such, and no other engine is asked."""
    problem = Problem(random_buffers(3, 36, 14, 9))
    seen: list[Progress] = []

    def stop(progress: Progress) -> None:
        seen.append(progress)
        raise KeyboardInterrupt

    packing = allocate_best(problem, Limits(report=stop))
    check(problem, packing.offsets)
    assert packing.interrupted
    assert len(seen) == 1
    assert seen[0].bound_bytes <= seen[0].best_bytes
    assert allocate_buffers(problem, limits=Limits(report=stop)).interrupted


def test_pairs_in_a_chain() -> None:
    """Each output may begin 1 byte above its dying input: 4 + 1 + 1 bytes where three are tied; in place 4."""
    buffers = tuple(block(f"t{k}", k, k + 2, 4) for k in range(4))
    for distance, height in ((1, 5), (0, 4), (4, 8)):
        problem = Problem(buffers, tuple(Pair(k, k + 1, distance) for k in range(3)))
        packing = ExactFit().pack(problem, Limits())
        check(problem, packing.offsets)
        assert packing.optimal
        assert packing.height_bytes == least_height(problem)
        assert packing.lower_bound_bytes >= height


def test_unknown_rules_are_refused() -> None:
    """A rule that does not exist is a mistake of ours, said at once."""
    core = _core.Exact(Problem((block("a", 0, 1, 1),)).core)
    with pytest.raises(KeyError):
        core.fits(0, core.order(0, "area", 0), False, 1, 10, {"colour": False})


def test_very_large_problems_are_left_to_the_others() -> None:
    """Every pair of buffers that meet is listed, so there is a limit; it is a reason, not a failure."""
    buffers = tuple(block(f"b{k}", 0, 1, 1) for k in range(3_001))
    assert ExactFit().supports(Problem(buffers)) == "too many buffers"
    assert ExactFit().supports(Problem(buffers[1:])) is None


@pytest.mark.slow
def test_a_climb_finds_what_greedy_orders_do_not() -> None:
    """103 buffers, 40 bytes live all the time: by no greedy order soon, by climbing from the best at its load."""
    problem = full_memory(Random(49), 24, 40, 14)
    work = 40_000_000
    packing = ExactFit(work=work, question=work).pack(problem, Limits())
    check(problem, packing.offsets)
    assert packing.optimal
    core = _core.Exact(problem.core)
    for turn in range(12):
        order = core.order(0, KEYS[turn % 4], turn // 4)
        found = core.fits(0, order, True, 40, 1_000_000, {})
        assert found.fits is None
        assert 0 < found.most < len(problem.buffers)
        assert found.work >= 1_000_000


def test_an_order_names_each_buffer_once() -> None:
    """Anything else is a mistake of ours, said at once."""
    core = _core.Exact(Problem((block("a", 0, 1, 1), block("b", 0, 1, 2))).core)
    for order in ([0], [0, 0], [0, 2], [-1, 0]):
        with pytest.raises(ValueError, match="not an order"):
            core.fits(0, order, False, 3, 10, {})
    found = core.fits(0, [1, 0], False, 3, 10, {})
    assert (found.fits, found.offsets, found.most) == (True, [2, 0], 2)
