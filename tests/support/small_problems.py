"""Small problems of placing, drawn at random; what placements have to keep; the least height by trying everything."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from random import Random

from lowtide import _core
from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle, block


def check(problem: Problem, offsets: Sequence[int]) -> None:
    """Byte by byte and step by step: nothing below 0, alignments, fixed offsets, overlaps, pairs and buffers apart."""
    for b, offset in zip(problem.buffers, offsets, strict=True):
        assert offset >= 0
        assert offset % b.alignment == 0
        assert b.offset in (None, offset)
    cells = [_cells(b, offset) for b, offset in zip(problem.buffers, offsets, strict=True)]
    pair_of = {frozenset((p.lower, p.upper)): p for p in problem.pairs}
    for i, j in combinations(range(len(cells)), 2):
        pair = pair_of.get(frozenset((i, j)))
        if cells[i] & cells[j] and pair is not None:
            assert offsets[pair.lower] + pair.distance <= offsets[pair.upper], (problem.buffers[i], problem.buffers[j])
        elif cells[i] & cells[j]:
            raise AssertionError(f"{problem.buffers[i]} over {problem.buffers[j]}")
    for i, j in problem.apart:
        assert not {byte for _, byte in cells[i]} & {byte for _, byte in cells[j]}, (i, j)


def least_height(problem: Problem) -> int:
    """Least height of all placements, by trying every offset of every buffer."""
    buffers = problem.buffers
    best = sum(b.size + b.alignment for b in buffers) + max((b.offset or 0 for b in buffers), default=0) + 1
    order = sorted(range(len(buffers)), key=lambda i: buffers[i].offset is None)
    pair_of = {frozenset((p.lower, p.upper)): p for p in problem.pairs}
    apart = {frozenset(t) for t in problem.apart}
    placed: dict[int, tuple[int, set[tuple[int, int]], set[int]]] = {}
    known: dict[tuple[int, int], tuple[set[tuple[int, int]], set[int]]] = {}

    def allowed(i: int, at: int, cells: set[tuple[int, int]], used: set[int]) -> bool:
        for j, (other, theirs, bytes_) in placed.items():
            both = frozenset((i, j))
            if both in apart and used & bytes_:
                return False
            if not cells & theirs:
                continue
            pair = pair_of.get(both)
            if pair is None:
                return False
            lower, upper = (at, other) if pair.lower == i else (other, at)
            if lower + pair.distance > upper:
                return False
        return True

    def go(depth: int, height: int) -> None:
        nonlocal best
        if height >= best:
            return
        if depth == len(order):
            best = height
            return
        i = order[depth]
        b = buffers[i]
        offsets = range(0, best - b.size, b.alignment) if b.offset is None else (b.offset,)
        for at in offsets:
            if (i, at) not in known:
                cells = _cells(b, at)
                known[i, at] = cells, {byte for _, byte in cells}
            cells, used = known[i, at]
            if allowed(i, at, cells, used):
                placed[i] = (at, cells, used)
                go(depth + 1, max(height, at + b.size))
                del placed[i]

    go(0, 0)
    return best


def _cells(b: Buffer, offset: int) -> set[tuple[int, int]]:
    return {
        (step, offset + byte)
        for p in b.rectangles
        for step in range(p.start, p.end)
        for byte in range(p.low, p.low + p.size)
    }


def random_buffer(rng: Random, name: str, steps: int, most: int, alignments: tuple[int, ...]) -> Buffer:
    """One rectangle, or at times a rigid group of up to three, nested or with a gap in time."""
    start = rng.randrange(steps)
    end = rng.randint(start + 1, steps)
    size = rng.randint(1, most)
    rectangles = [Rectangle(start, end, 0, size)]
    if end - start >= 2 and rng.random() < 0.4:
        cuts = sorted({start, *(rng.randint(start, end) for _ in range(2)), end})
        rectangles = []
        for begin, until in pairwise(cuts):
            low = rng.randrange(size)
            if rectangles and until < end and rng.random() < 0.3:
                continue
            rectangle = Rectangle(begin, until, low, rng.randint(1, size - low))
            if rectangles and (rectangles[-1].end, rectangles[-1].low, rectangles[-1].size) == (
                begin,
                low,
                rectangle.size,
            ):
                continue  # equal neighbours would be one piece
            rectangles.append(rectangle)
    return Buffer(name, size, tuple(rectangles), rng.choice(alignments))


def side_by_side(rng: Random, b: Buffer) -> Buffer:
    """The buffer as a whole of up to three pieces, side by side, each there at steps of its own."""
    cuts = sorted({0, *(rng.randrange(b.size) for _ in range(2)), b.size})
    rectangles: list[Rectangle] = []
    for low, high in pairwise(cuts):
        start = rng.randrange(b.start, b.end)
        rectangles.append(Rectangle(start, rng.randint(start + 1, b.end), low, high - low))
    return replace(b, rectangles=tuple(sorted(rectangles)))


def random_buffers(seed: int, n: int, steps: int, most: int, alignments: tuple[int, ...] = (1,)) -> tuple[Buffer, ...]:
    """Random buffers; the same arguments give the same ones."""
    rng = Random(seed)
    return tuple(random_buffer(rng, f"b{i}", steps, most, alignments) for i in range(n))


def with_ties(seed: int, buffers: Sequence[Buffer], least_distance: int = 0) -> Problem:
    """A problem of these buffers: some of them pairs that may overlap, some of them kept apart."""
    rng = Random(seed)
    pairs: list[Pair] = []
    apart: list[tuple[int, int]] = []
    for i, j in combinations(range(len(buffers)), 2):
        drawn = rng.random()
        lower, upper = rng.sample((i, j), 2)
        if drawn < 0.25:
            pairs.append(Pair(lower, upper, rng.randint(least_distance, buffers[lower].size)))
        elif drawn < 0.4:
            apart.append((i, j))
    return Problem(tuple(buffers), tuple(pairs), tuple(apart))


def full_memory(rng: Random, steps: int, load: int, most: int) -> Problem:
    """Exactly `load` bytes live at every step: at each, some buffers end and others take their bytes."""
    return Problem(tuple(block(f"b{k}", *row) for k, row in enumerate(_full(rng, steps, load, most))))


def _full(rng: Random, steps: int, load: int, most: int) -> list[tuple[int, int, int]]:
    live: list[tuple[int, int]] = []
    made: list[tuple[int, int, int]] = []
    for step in range(steps):
        rng.shuffle(live)
        for start, size in live[: rng.randint(1, max(1, len(live) - 1))]:
            made.append((start, step, size))
            live.remove((start, size))
        while free := load - sum(size for _, size in live):
            live.append((step, rng.randint(1, min(free, most))))
    return [*made, *((start, steps, size) for start, size in live)]


FULL_WITHOUT_SMALL = (
    (0, 1, 4), (0, 1, 4), (1, 2, 3), (0, 3, 7), (3, 4, 4), (2, 4, 3), (1, 5, 5), (5, 6, 5), (3, 6, 3), (4, 7, 7),
    (6, 7, 4), (6, 8, 4), (7, 8, 3), (7, 8, 3), (7, 8, 5),
)  # fmt: skip
"""Start, end and size of buffers of 3 bytes and more: 15 bytes live at every step, no placement in 15, one in 17."""


def linked(rng: Random) -> Problem:
    """Two full memories on a link, to be placed in 18 bytes, where a state depends on what was placed last.

    The link is a byte below or above two that are there for a step. On the left nothing else changes with that; on the
    right there is a placement only with the byte below. That takes a long search to see, and in it the state on the
    left comes back, placed last being the byte or the two: with the same offsets to go on from, and other ones passed.
    """
    steps = rng.randint(3, 6)
    begin = 8 - steps
    left = _full(rng, steps, rng.randint(12, 16), 6)
    tie = len(left) - 1  # goes on above the link
    buffers = [block(f"l{k}", start + begin, end + begin + (k == tie), z) for k, (start, end, z) in enumerate(left)]
    buffers += [block("first", begin, 8, 1), block("second", rng.randint(begin, 7), 8, 1)]
    buffers += [block("byte", 8, 17, 1), block("two", 8, 9, 2)]
    buffers.append(replace(block("lid", 8, 9, 15 - left[tie][2]), offset=3))
    buffers += [block(f"r{k}", start + 9, end + 9, size) for k, (start, end, size) in enumerate(FULL_WITHOUT_SMALL)]
    return Problem(tuple(buffers))


def small_problem(seed: int) -> Problem:
    """One to six buffers: plain or rigid groups, at times aligned, fixed, equal, paired or kept apart."""
    rng = Random(seed)
    n = rng.randint(1, 6)
    drawn = random_buffers(seed, n, rng.choice((3, 5, 7)), rng.choice((2, 4)), rng.choice(((1,), (1, 2))))
    buffers = list(drawn) if seed % 2 else [block(b.name, b.start, b.end, b.size, b.alignment) for b in drawn]
    if seed % 4 == 1:
        buffers = [side_by_side(rng, b) if rng.random() < 0.6 else b for b in buffers]
    if n > 1 and seed % 5 == 0:
        buffers[1] = replace(buffers[0], name="twin")
    if seed % 7 == 0:
        i = rng.randrange(n)
        buffers[i] = replace(buffers[i], offset=rng.randrange(4) * buffers[i].alignment)
    return Problem(tuple(buffers)) if seed % 3 == 0 else with_ties(seed, buffers, 0 if seed % 4 else -1)


def ask(
    problem: Problem,
    capacity: int,
    switches: Mapping[str, bool],
    key: str = "area",
    seed: int = 0,
    leaps: bool = False,
) -> tuple[bool | None, list[int]]:
    """The core's answer for all stretches together, without a limit on its work; None where it may not prove."""
    core = _core.Exact(problem.core)
    offsets = [b.offset or 0 for b in problem.buffers]
    answer: bool | None = True
    for k in range(len(core)):
        part = core.part(k)
        found = core.fits(k, core.order(k, key, seed), leaps, capacity, 10**9, dict(switches))
        if found.fits is None:
            assert leaps or not part.proves
            answer = None
        elif not found.fits:
            return False, []
        for i, offset in zip(part.members, found.offsets, strict=False):
            offsets[i] = offset
    return answer, offsets


FULL = Problem(
    tuple(
        block(f"b{k}", *row)
        for k, row in enumerate(
            [
                (0, 1, 4), (0, 2, 6), (1, 3, 3), (2, 3, 3), (0, 3, 6), (2, 3, 2), (3, 4, 7), (1, 4, 1), (4, 5, 1),
                (4, 5, 3), (2, 5, 1), (5, 6, 5), (3, 6, 7), (6, 7, 6), (6, 8, 1), (6, 8, 3), (4, 8, 4), (6, 8, 2),
                (7, 8, 1), (7, 8, 5),
            ]
        )
    )
)  # fmt: skip
"""16 bytes live at every step, and yet no placement in 16 bytes."""
