from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle, block, height_of, load_bound
from lowtide.allocate.greedy import RULES, GreedyRule, Portfolio
from lowtide.allocate.squeaky import SqueakyWheel, Sweep
from lowtide.errors import InputError
from lowtide.stop import Limits
from support.small_problems import check, least_height, random_buffers, with_ties

#  step   0 1 2 3 4 5   size  area  most live around it
#    A    # # # #        2     8     6
#    B    # #            3     6     6
#    C        # # # #    3    12     8
#    D            # #    4     8     8
#    E      # # # #      1     4     8
#  live   5 6 6 6 8 7
FIVE = Problem(
    (
        block("A", 0, 4, 2),
        block("B", 0, 2, 3),
        block("C", 2, 6, 3),
        block("D", 4, 6, 4),
        block("E", 1, 5, 1),
    )
)


@pytest.mark.parametrize("best_fit", [False, True])
@pytest.mark.parametrize(
    ("key", "order", "offsets", "height"),
    [
        # D at 0, C on D, B at 0 (meets neither), A over C, E over A
        ("tflm", "DCBAE", (7, 0, 4, 0, 9), 10),
        # as above, but B, which starts earlier, before C
        ("tflite", "DBCAE", (7, 0, 4, 0, 9), 10),
        ("size", "DCBAE", (7, 0, 4, 0, 9), 10),
        # C at 0, A and D on C, B under A, E over D
        ("area", "CADBE", (3, 0, 0, 3, 7), 8),
        # C at 0, A on C, E on A, D over E, B under A
        ("duration", "CAEDB", (3, 0, 0, 6, 5), 10),
        # B at 0, A on B, E on A, C under A, D over E
        ("start", "BAECD", (3, 0, 0, 6, 5), 10),
        # C at 0, E on C, D and A on E, B under E
        ("contention", "CEDAB", (4, 0, 0, 4, 3), 8),
        # C at 0, D on C, E over D, A on C, B under A
        ("contention-area", "CDEAB", (3, 0, 0, 3, 7), 8),
    ],
)
def test_rules_on_five_buffers(
    key: str,
    order: str,
    offsets: tuple[int, ...],
    height: int,
    best_fit: bool,
) -> None:
    """Every rule gives the order and the offsets worked out by hand; there is never a choice of gaps."""
    rule = GreedyRule("by hand", key, best_fit)
    assert "".join(FIVE.buffers[i].name for i in rule.order(FIVE)) == order
    assert rule.place(FIVE) == offsets
    assert height_of(FIVE, offsets) == height
    assert load_bound(FIVE) == 8


def test_best_fit_takes_the_tightest_gap_and_first_fit_the_lowest() -> None:
    """Z (2 bytes) finds the gaps [0, 10) and [14, 16) at step 5.

    S at 0, P at 0, W over S at 16, V over P and under W at 10, by decreasing size.
    """
    buffers = (
        block("S", 8, 9, 16),
        block("P", 0, 2, 10),
        block("W", 5, 9, 6),
        block("V", 1, 6, 4),
        block("Z", 5, 6, 2),
    )
    assert GreedyRule("first", "size", best_fit=False).place(Problem(buffers)) == (0, 0, 16, 10, 0)
    assert GreedyRule("best", "size", best_fit=True).place(Problem(buffers)) == (0, 0, 16, 10, 14)


def test_tflite_places_what_is_there_all_the_time_first() -> None:
    """L lives from the first step to the end, so TFLite puts it at 0 although M is larger; TFLM does not."""
    buffers = (block("M", 0, 3, 5), block("L", 0, 6, 1), block("N", 3, 6, 4))
    assert GreedyRule("tflite", "tflite", best_fit=True).place(Problem(buffers)) == (1, 0, 1)
    assert GreedyRule("tflm", "tflm", best_fit=False).place(Problem(buffers)) == (0, 5, 0)


def test_tflm_breaks_ties_by_the_last_one_added() -> None:
    """TFLM fills its list from the tail, so of equal sizes the last is at 0; by size alone the first is."""
    buffers = (block("a", 0, 2, 4), block("b", 0, 2, 4))
    assert GreedyRule("tflm", "tflm", best_fit=False).place(Problem(buffers)) == (4, 0)
    assert GreedyRule("size", "size", best_fit=False).place(Problem(buffers)) == (0, 4)


def test_names_of_rules_are_their_own() -> None:
    """No two rules share a name, and the runtimes' come first."""
    assert [rule.name for rule in RULES][:2] == ["tflm", "tflite"]
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_alignment_rounds_offsets_up() -> None:
    """b must start at a multiple of 4 above a's 3 bytes; c fits in the byte between them."""
    buffers = (block("a", 0, 1, 3), block("b", 0, 1, 2, alignment=4), block("c", 0, 1, 1))
    assert GreedyRule("size", "size", best_fit=False).place(Problem(buffers)) == (0, 4, 3)


def test_fixed_offsets_hold() -> None:
    """The fixed one stays at 5, and the others go under and over it."""
    fixed = Buffer("f", 2, (Rectangle(0, 9, 0, 2),), offset=5)
    buffers = (block("a", 0, 9, 4), fixed, block("b", 0, 9, 3))
    assert GreedyRule("size", "size", best_fit=False).place(Problem(buffers)) == (0, 5, 7)
    assert Portfolio().pack(Problem((fixed,)), Limits()).lower_bound_bytes == 7


def test_fixed_offsets_that_overlap_are_refused() -> None:
    """Two fixed buffers at the same time and bytes cannot be; after one another they can."""
    buffers = tuple(Buffer(n, 4, (Rectangle(0, 2, 0, 4),), offset=o) for n, o in (("a", 0), ("b", 3)))
    with pytest.raises(InputError, match="buffer b cannot be at its fixed offset 3: a, fixed at 0, is in the way"):
        Portfolio().pack(Problem(buffers), Limits())
    later = Buffer("b", 4, (Rectangle(2, 3, 0, 4),), offset=3)
    assert Portfolio().pack(Problem((buffers[0], later)), Limits()).offsets == (0, 3)


def test_buffers_too_large_to_count_are_refused() -> None:
    """The core counts in 64 bits; a height that may not fit is said, not wrapped around."""
    with pytest.raises(InputError, match="more than 4611686018427387904 bytes"):
        Portfolio().pack(Problem((block("a", 0, 1, 2**61), block("b", 0, 1, 2**61))), Limits())


def test_a_rigid_group_leaves_its_hollow_free() -> None:
    """The group is 8 bytes high at step 0 and bytes 4 to 6 only at step 1; the others fit around it."""
    group = Buffer("g", 8, (Rectangle(0, 1, 0, 8), Rectangle(1, 2, 4, 2)))
    buffers = (group, block("low", 1, 2, 4), block("high", 1, 2, 2))
    packing = Portfolio().pack(Problem(buffers), Limits())
    check(Problem(buffers), packing.offsets)
    assert packing.height_bytes == packing.lower_bound_bytes == 8


def test_split_at_steps_that_nothing_crosses() -> None:
    """c begins where a ends; nothing crosses step 2; what takes no room belongs nowhere."""
    buffers = (
        block("a", 0, 2, 1),
        block("c", 2, 4, 1),
        block("b", 1, 2, 1),
        block("d", 3, 5, 1),
        block("0", 0, 9, 0),
    )
    assert Problem(buffers).core.split() == [[0, 2], [1, 3]]


def test_the_portfolio_is_as_good_as_its_best_rule() -> None:
    """On the five buffers it finds 8, the load bound, with the first rule that does."""
    packing = Portfolio().pack(FIVE, Limits())
    assert (packing.height_bytes, packing.lower_bound_bytes, packing.optimal) == (8, 8, True)
    assert packing.engine == "contention/first"
    assert packing.counters["passes"] == 3


def test_the_portfolio_spends_no_more_than_its_work() -> None:
    """With no work allowed only the first rule runs."""
    packing = Portfolio(work=0).pack(FIVE, Limits())
    assert (packing.height_bytes, packing.engine, packing.counters["passes"]) == (10, "tflm", 1)


def test_nothing_to_place() -> None:
    """No buffers, and buffers without bytes, take no room."""
    assert Portfolio().pack(Problem(()), Limits()).height_bytes == 0
    packing = Portfolio().pack(Problem((block("a", 0, 3, 0),)), Limits())
    assert (packing.offsets, packing.height_bytes, packing.optimal) == ((0,), 0, True)


def test_a_pass_gives_up_at_its_ceiling() -> None:
    """A ceiling that the rule cannot stay below ends the pass; one byte more lets it through."""
    core = FIVE.core
    order = core.order("size")
    assert core.place(order, False, 10) is None
    assert core.place(order, False, 11) is not None


@pytest.mark.slow
@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 14), st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_no_rule_overlaps_and_none_beats_the_load_bound(
    seed: int, n: int, steps: int, most: int, aligned: bool
) -> None:
    """Random problems, rigid groups and alignments among them, through a rule and the whole portfolio."""
    buffers = random_buffers(seed, n, steps, most, (1, 2, 4) if aligned else (1,))
    bound = load_bound(Problem(buffers))
    live = [0] * steps
    for b in buffers:
        for p in b.rectangles:
            for step in range(p.start, p.end):
                live[step] += p.size
    most = max(max(live), max(b.size for b in buffers))
    unit = buffers[0].alignment
    if all(b.alignment == unit and b.size % unit == 0 for b in buffers):
        most = -(-most // unit) * unit
    assert bound == most
    packing = Portfolio().pack(Problem(buffers), Limits())
    check(Problem(buffers), packing.offsets)
    assert packing.height_bytes == max(bound, height_of(Problem(buffers), packing.offsets))
    rule = RULES[seed % len(RULES)]
    offsets = rule.place(Problem(buffers))
    check(Problem(buffers), offsets)
    assert bound <= packing.height_bytes <= height_of(Problem(buffers), offsets)


@pytest.mark.slow
@settings(max_examples=700, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
def test_nothing_beats_brute_force(seed: int, n: int, aligned: bool) -> None:
    """On up to five small buffers no rule is below the least height, nor is the load bound above it."""
    buffers = random_buffers(seed, n, 5, 4, (1, 2) if aligned else (1,))
    least = least_height(Problem(buffers))
    packing = Portfolio().pack(Problem(buffers), Limits())
    assert packing.lower_bound_bytes <= least <= packing.height_bytes
    assert not packing.optimal or packing.height_bytes == least


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.booleans())
def test_the_bound_holds_with_pairs_and_buffers_apart(seed: int, n: int, aligned: bool) -> None:
    """What pairs may share counts once at most, what is kept apart counts together: never above the least height."""
    problem = with_ties(seed, random_buffers(seed, n, 5, 4, (1, 2) if aligned else (1,)), least_distance=-2)
    least = least_height(problem)
    assert load_bound(problem) <= least
    for engine in (Portfolio(), Sweep(RULES[:3], segments=(1,)), SqueakyWheel(RULES[:3])):
        if engine.supports(problem) is None:
            packing = engine.pack(problem, Limits())
            check(problem, packing.offsets)
            assert load_bound(problem) == packing.lower_bound_bytes <= least <= packing.height_bytes


def test_an_output_over_its_dying_input() -> None:
    """Input a (6 bytes) dies where output b (5) is made: b may begin 2 bytes above a, so 7 bytes are enough, not 11."""
    buffers = (block("a", 0, 2, 6), block("b", 1, 3, 5))
    problem = Problem(buffers, (Pair(0, 1, 2),))
    assert load_bound(problem) == 7
    assert GreedyRule("start", "start", best_fit=False).place(problem) == (0, 2)
    assert load_bound(Problem(buffers, (Pair(0, 1, 0),))) == 6
    assert load_bound(Problem(buffers, (Pair(0, 1, 6),))) == 11
    assert load_bound(Problem(buffers)) == 11


def test_an_output_over_two_dying_inputs_counts_once() -> None:
    """b (4 bytes) may lie over a and over c (3 each), in place: 6 bytes are there at the least, and enough."""
    buffers = (block("a", 0, 2, 3), block("b", 1, 3, 4), block("c", 0, 2, 3))
    problem = Problem(buffers, (Pair(0, 1, 0), Pair(2, 1, -3)))
    assert load_bound(problem) == least_height(problem) == 6


def test_buffers_kept_apart_share_no_byte_at_any_time() -> None:
    """One after another two buffers need the room of the larger; kept apart, that of both, in one stretch."""
    buffers = (block("a", 0, 2, 3), block("b", 2, 4, 4), block("c", 2, 3, 1))
    problem = Problem(buffers, (), ((0, 1),))
    assert problem.core.split() == [[0, 1, 2]]
    packing = Portfolio().pack(problem, Limits())
    check(problem, packing.offsets)
    assert packing.height_bytes == packing.lower_bound_bytes == 7
    assert Portfolio().pack(Problem(buffers), Limits()).height_bytes == 5
    assert Sweep().supports(problem) == "buffers kept apart"


def test_fixed_buffers_that_clash_for_their_ties() -> None:
    """Fixed over one another a pair may be, in its order; two kept apart may not, however far apart in time."""
    low, high = (Buffer(n, 4, (Rectangle(0, 2, 0, 4),), offset=o) for n, o in (("low", 0), ("high", 3)))
    assert Portfolio().pack(Problem((low, high), (Pair(0, 1, 3),)), Limits()).height_bytes == 7
    with pytest.raises(InputError, match="buffer high cannot be at its fixed offset 3"):
        Portfolio().pack(Problem((low, high), (Pair(0, 1, 4),)), Limits())
    later = Buffer("later", 4, (Rectangle(5, 6, 0, 4),), offset=3)
    with pytest.raises(InputError, match="buffer later cannot be"):
        Portfolio().pack(Problem((low, later), (), ((0, 1),)), Limits())


def test_the_squeaky_wheel_improves_an_order_by_hand() -> None:
    """By size E comes last and lies at 9, A at 7: both end above 8. Placed first they leave room for the rest.

    A at 0, E on A at 2; D over E at 3; C, which meets both, over D at 7: 10 again, and only C is to blame. C first:
    C at 0, A on C at 3; E on A at 5; D over E at 6, to blame; D first: C on D at 4, A at 0 under C, E over C at 7,
    B over A at 2: 8.
    """
    rule = GreedyRule("size", "size", best_fit=False)
    order = rule.order(FIVE)
    core = FIVE.core
    heights = []
    for _ in range(4):
        offsets = core.place(order, False)
        assert offsets is not None
        heights.append(height_of(FIVE, offsets))
        blamed = [offsets[i] + b.size > 8 for i, b in enumerate(FIVE.buffers)]
        order = sorted(order, key=lambda i: not blamed[i])
    assert heights == [10, 10, 10, 8]
    packing = SqueakyWheel((rule,)).pack(FIVE, Limits())
    check(FIVE, packing.offsets)
    assert packing.optimal
    assert packing.engine == "squeaky wheel on size"


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 14), st.integers(1, 9))
def test_the_squeaky_wheel_is_as_good_as_its_rules(seed: int, n: int, most: int) -> None:
    """It overlaps nothing, keeps its bound, is no higher than any of its rules alone, and repeats itself."""
    buffers = random_buffers(seed, n, 9, most, (1, 2, 4) if seed % 2 else (1,))
    engine = SqueakyWheel(RULES[:3], rounds=5)
    packing = engine.pack(Problem(buffers), Limits())
    check(Problem(buffers), packing.offsets)
    assert packing.lower_bound_bytes == load_bound(Problem(buffers)) <= packing.height_bytes
    assert packing.height_bytes <= min(height_of(Problem(buffers), rule.place(Problem(buffers))) for rule in RULES[:3])
    assert packing == engine.pack(Problem(buffers), Limits())


def test_the_squeaky_wheel_spends_no_more_than_its_work() -> None:
    """With no work allowed it places once and stops."""
    packing = SqueakyWheel((RULES[0],), work=0).pack(FIVE, Limits())
    assert (packing.height_bytes, packing.counters["squeaky passes"]) == (10, 1)


@pytest.mark.slow
@settings(max_examples=350, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([4, 40]), st.integers(1, 9))
def test_a_sweep_overlaps_nothing(seed: int, n: int, steps: int, least: int) -> None:
    """Short segments, windows packed again, fixed offsets: every byte is checked, and it repeats itself."""
    buffers = random_buffers(seed, n, steps, 9, (1, 2, 4) if seed % 2 else (1,))
    if n and seed % 3 == 0:
        buffers = (replace(buffers[0], offset=3 * buffers[0].alignment), *buffers[1:])
    engine = Sweep(RULES[:3], segments=(least,), rounds=4)
    packing = engine.pack(Problem(buffers), Limits())
    check(Problem(buffers), packing.offsets)
    assert packing.lower_bound_bytes == load_bound(Problem(buffers)) <= packing.height_bytes
    assert packing.height_bytes == max(load_bound(Problem(buffers)), height_of(Problem(buffers), packing.offsets))
    assert packing == engine.pack(Problem(buffers), Limits())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 5), st.sampled_from(["", "fixed", "empty", "pairs"]))
def test_a_sweep_that_recalls_windows_packs_the_same(seed: int, n: int, least: int, extra: str) -> None:
    """Cells repeated: each window alike is packed once, and every offset is what packing each of them gives."""
    cell = random_buffers(seed, n, 8, 9, (1, 2) if seed % 2 else (1,))
    buffers = [
        replace(b, rectangles=tuple(p._replace(start=p.start + 6 * k, end=p.end + 6 * k) for p in b.rectangles))
        for k in range(12)
        for b in cell
    ]
    if extra == "fixed":
        buffers[-1] = replace(buffers[-1], offset=2 * buffers[-1].alignment)
    if extra == "empty":
        buffers[len(buffers) // 2] = Buffer("nothing", 0, ())
    problem = with_ties(seed, buffers, 1) if extra == "pairs" else Problem(tuple(buffers))
    problem = replace(problem, apart=())
    rules = [(r.key, r.best_fit) for r in RULES[:6]]
    swept = [problem.core.sweep(rules, 4, 3_000_000, 10**12, (least, 7), recall) for recall in (False, True)]
    assert swept[0].offsets == swept[1].offsets
    assert swept[0].passes >= swept[1].passes
    if extra != "pairs":
        check(problem, tuple(swept[1].offsets))


def test_a_window_asked_before_costs_no_pass() -> None:
    """Forty equal cells that no rule packs: a sweep packs the first of them, and then knows."""
    made = [block(b.name, b.start + 6 * k, b.end + 6 * k, b.size) for k in range(40) for b in FIVE.buffers]
    crossing = [block("tie", 6 * k + 5, 6 * k + 9, 1) for k in range(40)]
    core = Problem((*made, *crossing)).core
    rules = [(r.key, r.best_fit) for r in RULES[:8]]
    each, known = (core.sweep(rules, 30, 3_000_000, 10**12, (6,), recall) for recall in (False, True))
    assert each.offsets == known.offsets
    assert 3 * known.passes < each.passes


def test_a_sweep_without_work_is_its_first_rule() -> None:
    """Where no sweep can end, everything is placed all the same."""
    buffers = random_buffers(3, 60, 200, 9)
    packing = Sweep(segments=(2,), work=0).pack(Problem(buffers), Limits())
    assert packing.offsets == RULES[0].place(Problem(buffers))


def test_a_sweep_packs_what_one_order_cannot() -> None:
    """Sixty copies of the five buffers in turn, each tied to the next by one that crosses: no rule packs them all.

    Each copy needs an order of its own; a sweep finds one after the other.
    """
    rng = Random(2)
    made: list[Buffer] = []
    for k in range(60):
        shift = 6 * k
        made += [block(b.name, b.start + shift, b.end + shift, b.size) for b in FIVE.buffers]
        made.append(block("tie", shift + 5, shift + 9, rng.randint(1, 2)))
    buffers = tuple(made)
    greedy, swept = Portfolio().pack(Problem(buffers), Limits()), Sweep().pack(Problem(buffers), Limits())
    check(Problem(buffers), swept.offsets)
    assert swept.height_bytes < greedy.height_bytes
    assert swept.optimal


def test_pairs_are_counted() -> None:
    """A meets B, C, E; B meets E; C meets D, E; D meets E; B and C only touch."""
    assert Portfolio().pack(FIVE, Limits()).counters["pairs"] == 7
    assert Portfolio().pack(Problem((block("a", 0, 2, 1), block("b", 2, 4, 1))), Limits()).counters["pairs"] == 0
