"""Small problems in which reuse has a price, and their least cost by trying every placement."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

from hypothesis import strategies as st

from lowtide.allocate.buffers import Buffer, Problem, Rectangle

Costs = dict[tuple[int, int], int]


def together(problem: Problem, i: int, j: int) -> bool:
    """Whether two buffers never share a byte, step by step."""
    steps = [{t for p in problem.buffers[k].rectangles for t in range(p.start, p.end)} for k in (i, j)]
    return bool(steps[0] & steps[1]) or (i, j) in problem.apart


def least(problem: Problem, costs: Costs, capacity: int) -> int | None:
    """Of all placements within the capacity the least cost; None if there is none."""
    buffers = problem.buffers
    places = [
        [b.offset] if b.offset is not None else list(range(0, capacity - b.size + 1, b.alignment)) for b in buffers
    ]
    best = None
    for offsets in product(*places):
        cost = 0
        for i, j in combinations(range(len(buffers)), 2):
            if max(offsets[i], offsets[j]) < min(offsets[i] + buffers[i].size, offsets[j] + buffers[j].size):
                if together(problem, i, j):
                    break
                cost += costs.get((i, j), 0)
        else:
            best = cost if best is None else min(best, cost)
    return best


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, Costs, int]:
    """Up to five small buffers, penalties of some pairs, and a capacity."""
    unit = draw(st.sampled_from((1, 1, 2)))
    size = draw(st.sampled_from((st.just(2), st.integers(1, 3), st.sampled_from((2, 4)))))
    buffers: list[Buffer] = []
    for k in range(draw(st.integers(2, 5))):
        start, length = draw(st.tuples(st.integers(0, 8), st.integers(1, 3)))
        bytes_ = draw(size)
        buffers.append(Buffer(f"b{k}", bytes_, (Rectangle(start, start + length, 0, bytes_),), unit))
    pairs = list(combinations(range(len(buffers)), 2))
    apart = tuple(pair for pair in pairs if draw(st.integers(0, 5)) == 0)
    costs = {pair: draw(st.integers(1, 4)) for pair in pairs if draw(st.integers(0, 3))}
    if draw(st.integers(0, 3)) == 0:
        buffers[0] = replace(buffers[0], offset=unit * draw(st.integers(0, 1)))
    return Problem(tuple(buffers), (), apart), costs, draw(st.integers(3, 7))
