from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.allocate.buffers import Buffer, Problem, block, load_bound, load_sections
from lowtide.allocate.greedy import KEYS
from support.small_problems import check, random_buffers, side_by_side, with_ties


def reference(problem: Problem, order: Sequence[int], best_fit: bool, ceiling: int | None) -> list[int] | None:
    """Places as the core does, slowly: every pair of pieces is looked at, every forbidden stretch sorted."""
    buffers = problem.buffers
    distance = {(p.lower, p.upper): p.distance for p in problem.pairs}
    apart = {*problem.apart, *((j, i) for i, j in problem.apart)}
    offsets = [0] * len(buffers)
    done: list[int] = []
    for i in sorted(order, key=lambda i: buffers[i].offset is None):
        b = buffers[i]
        if not b.rectangles:
            continue
        forbidden: list[tuple[int, int]] = []
        for p in b.rectangles:
            for j in done:
                for q in buffers[j].rectangles:
                    if (p.start < q.end and q.start < p.end) or (i, j) in apart:
                        below, above = offsets[j] + q.low - p.low - p.size, offsets[j] + q.low + q.size - p.low
                        below = max(below, offsets[j] - distance[i, j]) if (i, j) in distance else below
                        above = min(above, offsets[j] + distance[j, i]) if (j, i) in distance else above
                        forbidden += [(below, above)] if below < above else []
        forbidden.sort()
        gaps = []
        at = 0
        for below, above in forbidden:
            if below >= at:
                gaps.append((below - at, at))
            if above > at:
                at = -(-above // b.alignment) * b.alignment
        if gaps:
            at = min(gaps)[1] if best_fit else gaps[0][1]
        offsets[i] = at if b.offset is None else b.offset
        if ceiling is not None and offsets[i] + b.size >= ceiling:
            return None
        done.append(i)
    return offsets


def keys(buffers: Sequence[Buffer], name: str) -> list[tuple[int, ...]]:
    """What each rule sorts by, ascending, as its authors define it."""
    last = max((b.end for b in buffers), default=0)
    steps, loads = load_sections(buffers)
    result: list[tuple[int, ...]] = []
    for i, b in enumerate(buffers):
        around = [load for step, load in zip(steps, loads, strict=True) if b.start <= step < b.end]
        most, width = max(around, default=0), b.end - b.start
        always = b.start == 0 and b.end == last
        result.append(
            {
                "tflm": (-b.size, -i),
                "tflite": (0, i) if always else (1, -b.size, b.start, i),
                "size": (-b.size, -width, i),
                "area": (-b.area, i),
                "duration": (-width, -b.size, i),
                "start": (b.start, -b.size, i),
                "contention": (-most, -width, -b.area, i),
                "contention-area": (-most, -b.area, -width, i),
            }[name]
        )
    return result


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.booleans(), st.sampled_from([5, 30, 200]))
def test_both_kernels_place_as_the_reference(seed: int, n: int, best_fit: bool, steps: int) -> None:
    """Lists of neighbours and the tree of runs give the offsets of the reference; rigid groups, also side by side."""
    rng = Random(seed)
    buffers = list(random_buffers(seed, n, steps, 9, rng.choice(((1,), (1, 2, 4), (8,)))))
    if seed % 4 == 1:
        buffers = [side_by_side(rng, b) if rng.random() < 0.6 else b for b in buffers]
    if seed % 3 == 0:
        i, height = rng.randrange(n), rng.randrange(20)
        b = buffers[i]
        buffers[i] = Buffer(b.name, b.size, b.rectangles, b.alignment, height * b.alignment)
    order = rng.sample(range(n), n)
    ceiling = rng.choice((None, sum(b.size for b in buffers) // 2))
    core = Problem(tuple(buffers)).core
    expected = reference(Problem(tuple(buffers)), order, best_fit, ceiling)
    for kernel in ("lists", "tree"):
        assert core.place(order, best_fit, -1 if ceiling is None else ceiling, kernel) == expected


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 25), st.booleans(), st.sampled_from([4, 20]))
def test_pairs_and_buffers_apart_place_as_the_reference(seed: int, n: int, best_fit: bool, steps: int) -> None:
    """Distances of either sign, rigid groups, fixed ones: the reference's offsets, whichever kernel is asked for."""
    rng = Random(seed)
    buffers = list(random_buffers(seed, n, steps, 9, rng.choice(((1,), (1, 2, 4), (8,)))))
    if seed % 4 == 1:
        buffers = [side_by_side(rng, b) if rng.random() < 0.6 else b for b in buffers]
    if seed % 3 == 0:
        i, height = rng.randrange(n), rng.randrange(20)
        buffers[i] = replace(buffers[i], offset=height * buffers[i].alignment)
    problem = with_ties(seed, buffers, least_distance=-3)
    order = rng.sample(range(n), n)
    expected = reference(problem, order, best_fit, None)
    assert expected is not None
    check(problem, expected)
    assert problem.core.place(order, best_fit, -1, "tree") == expected


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30))
def test_orders_are_those_of_the_rules(seed: int, n: int) -> None:
    """Each key sorts as its definition does, ties by index."""
    buffers = random_buffers(seed, n, 7, 4)
    core = Problem(tuple(buffers)).core
    for name in KEYS:
        by = keys(buffers, name)
        assert core.order(name) == sorted(range(n), key=by.__getitem__)


def test_steps_and_sizes_near_the_limit() -> None:
    """Areas are counted in 128 bits: steps and bytes may both be large."""
    buffers = (block("a", 0, 2**62, 2**59), block("b", 0, 2**61, 2**60), block("c", 2**62, 2**62 + 1, 2**60))
    assert Problem(tuple(buffers)).core.order("area") == [0, 1, 2]
    assert load_bound(Problem(buffers)) == 2**59 + 2**60


@pytest.mark.slow
def test_ten_thousands_of_buffers() -> None:
    """Thirty thousand buffers, two million pairs: the tree's offsets are those of the lists."""
    rng = Random(5)
    buffers = []
    for k in range(30_000):
        start = rng.randrange(30_000)
        buffers.append(block(f"b{k}", start, start + 1 + int(rng.expovariate(1 / 70)), 64 * rng.randint(1, 99), 64))
    core = Problem(tuple(buffers)).core
    order = core.order("size")
    by_tree = core.place(order, True, kernel="tree")
    assert by_tree is not None
    assert by_tree == core.place(order, True, kernel="lists")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_what_is_there_at_the_peak(seed: int, n: int) -> None:
    """The first step of most load, the pieces there, and buffers fixed without touching the others."""
    buffers = random_buffers(seed, n, 7, 6, (1, 2))
    core = Problem(buffers).core
    steps, loads = load_sections(buffers)
    peak = steps[loads.index(max(loads))] if steps else 0
    there = [(i, p.low, p.size) for i, b in enumerate(buffers) for p in b.rectangles if p.start <= peak < p.end]
    assert core.at_peak() == there
    offsets = [3 * b.alignment for b in buffers]
    assert core.height(offsets) == max((o + b.size for o, b in zip(offsets, buffers, strict=True)), default=0)
    if there:
        last = there[-1][0]
        fixed = core.fixed_at([(last, offsets[last])])
        moved = tuple(replace(b, offset=offsets[i]) if i == last else b for i, b in enumerate(buffers))
        assert fixed.place(range(n), False) == Problem(moved).core.place(range(n), False)
        assert core.place(range(n), False) == Problem(buffers).core.place(range(n), False)


def test_unknown_names_are_refused() -> None:
    """A key that does not exist is a mistake of ours, said at once."""
    with pytest.raises(KeyError):
        Problem(()).core.order("colour")
