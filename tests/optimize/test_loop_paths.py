"""Paths over steps that change between walks: what a search knows is what it would work out anew."""

from __future__ import annotations

from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from lowtide.optimize.loop_paths import LoopPaths, Shared, Step

PLACES = 2
Drawn = tuple[int, int, int, bool, bool]
STEPS = st.lists(
    st.tuples(st.integers(0, PLACES - 1), st.integers(1, PLACES), st.integers(1, 9), st.booleans(), st.booleans()),
    min_size=4,
    max_size=10,
)


def _steps(drawn: list[Drawn]) -> list[Step]:
    return [
        Step(begin, begin + 1 + length % (PLACES - begin), (0,) if looped else None, bytes_, exact)
        for begin, length, bytes_, exact, looped in drawn
    ]


def _every_path(steps: list[Step], at: int = 0) -> list[list[Step]]:
    if at == PLACES:
        return [[]]
    return [[step, *rest] for step in steps if step.begin == at for rest in _every_path(steps, step.end)]


def _least_peak(steps: list[Step], limit: int) -> int | None:
    paths = _every_path([s for s in steps if s.bytes <= limit])
    return min((max(s.bytes for s in path) for path in paths), default=None)


def _fewest(steps: list[Step], limit: int) -> tuple[int, int] | None:
    paths = _every_path([s for s in steps if s.bytes <= limit])
    return min(((sum(s.looped for s in path), len(path)) for path in paths), default=None)


def _holds(paths: LoopPaths, limit: int, exact: bool) -> None:
    steps = list(paths)
    path, peak = paths.walk(limit, exact=exact)
    best = _least_peak([s for s in steps if s.exact or not exact], limit)
    assert (None if path is None else peak) == best
    fewest, _ = paths.walk_within(limit)
    assert (None if fewest is None else (sum(s.looped for s in fewest), len(fewest))) == _fewest(steps, limit)
    reached = {0}
    for end in range(1, PLACES + 1):
        if any(s.begin in reached and s.end == end and s.bytes <= limit for s in steps):
            reached.add(end)
    assert paths.reach(limit) == max(reached)


@given(
    STEPS,
    STEPS,
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.booleans()), min_size=1, max_size=8),
    st.sampled_from((3, 7, 20)),
    st.booleans(),
)
def test_two_searches_that_share_steps_know_what_all_paths_say(
    drawn: list[Drawn], later: list[Drawn], changes: list[tuple[int, int, bool]], limit: int, exact: bool
) -> None:
    """Whichever of them works steps out, and whatever is taken in between."""
    shared = Shared()
    one = LoopPaths([[] for _ in range(PLACES)], shared)
    one.add(_steps(drawn))
    other = LoopPaths([list(steps) for steps in one.steps], shared)
    for (place, more, first), new in zip_longest(changes, later[: len(changes)]):
        for paths in (one, other):
            _holds(paths, limit, exact)
        active, passive = (one, other) if first else (other, one)
        listed = [step for step in active if not step.exact]
        if listed:
            step = listed[place % len(listed)]
            active.work_out(step, step.bytes + more)
        _holds(active, limit, exact)
        passive.add(_steps([new] if new else []))
    for paths in (one, other):
        _holds(paths, limit, exact)
