"""Reuse as a cost: of all placements within a capacity, one whose penalties for shared bytes add up to least.

Two buffers that are never there at once may share bytes, and for some of them that costs: the second has to wait for
the first. A penalty is paid once for its pair, however many bytes they share.

    bytes ^  +---+ +---+            a and c, b and c may share; a penalty of 3 on (a, c) makes c lie over b
          |  | b | | c |
          |  +---+ +---+
          |  | a |
          +--+---+-----> steps

- Buffers that neither never share nor have a penalty are nothing to each other: each component of the rest is placed by
  itself, from 0 up to the capacity.
- Kept apart where a penalty is, do they fit? Then nothing is paid, and the allocator has proved it by placing them.
- Else an integer program (CP-SAT), from a greedy placement; what it leaves open is searched by Russian dolls
  (`reuse_search.py`) where that is small. In addition to the rows that define it, the program has two counts
  that hold for buffers each two of which never share or have a penalty. At most k = capacity // least size of
  them fit in one capacity without overlap, so of n at least as many pairs overlap as a graph of n vertices without k +
  1 independent ones has edges. And bytes: n_a buffers at address a are n_a (n_a - 1) / 2 pairs there, a pair shares at
  most the smaller one's bytes, and the sum of the n_a is the sum of the sizes.
- Where all sizes are multiples of a unit, so are all offsets, without loss: rounding each down to the unit moves no two
  apart over each other.

Source: the problem is dsa-solver's "DSA with reuse penalties" (github.com/tonibohnlein/dsa-solver, commit a8d1257); the
first count is Turan's theorem (1941). docs/proofs.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec

from lowtide.allocate.arena import ENGINES, allocate_buffers
from lowtide.allocate.buffers import Problem
from lowtide.allocate.clique import Cliques, bits_of, never_share
from lowtide.allocate.exact import ExactFit
from lowtide.allocate.reuse_model import Grid, Part, Solved, solve
from lowtide.allocate.reuse_search import search
from lowtide.stop import Limits

FREE = (*ENGINES[:-1], Cliques(), ExactFit(work=30_000_000))  # engines that look for a placement of cost 0
SLICE = 0.5  # deterministic seconds of CP-SAT before Russian dolls; one is about ten of CPU time on hard ones

Costs = Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class ReusePlacement:
    """A placement within a capacity, and what its reuse costs."""

    offsets: tuple[int, ...] | None  # per buffer, bytes; None where no placement within the capacity was found
    # cost: sum of the penalties of pairs that share bytes. lower_bound: of the cost of any placement in the capacity.
    cost: int
    lower_bound: int
    fits: bool | None  # whether there is a placement within the capacity; None if that is not known
    interrupted: bool = False  # whether the user ended the search

    @property
    def optimal(self) -> bool:
        """Whether the cost is proved optimal."""
        return self.offsets is not None and self.cost == self.lower_bound


def least_reuse(problem: Problem, costs: Costs, capacity: int, limits: Limits) -> ReusePlacement:
    """Place within a capacity for the least sum of penalties. `problem`: blocks of one rectangle, without pairs that
    may overlap. `costs`: of pairs of buffers, the smaller index first, what it costs that they share bytes; positive.
    What never shares costs nothing. `capacity`: bytes."""
    assert not problem.pairs, "pairs overlap without a price"
    neighbours = never_share(problem)
    soft = {pair: cost for pair, cost in costs.items() if not neighbours[pair[0]] >> pair[1] & 1}
    offsets = [0] * len(problem.buffers)
    bound = 0
    fits: bool | None = True
    interrupted = False
    for members in _components(neighbours, soft):
        part = _part(problem, neighbours, soft, members, capacity)
        placed = _place(part, limits)
        interrupted |= placed.interrupted
        bound += placed.lower_bound
        if placed.offsets is None:
            fits = False if placed.fits is False or fits is False else None
            continue
        for i, at in zip(members, placed.offsets, strict=True):
            offsets[i] = at
    if fits is not True:
        return ReusePlacement(None, 0, bound, fits, interrupted)
    return ReusePlacement(tuple(offsets), reuse_cost(problem, soft, offsets), bound, True, interrupted)


def reuse_cost(problem: Problem, costs: Costs, offsets: Sequence[int]) -> int:
    """Sum of the penalties of pairs whose bytes overlap; `costs` without pairs that are there at once."""
    ends = [at + (b.size if b.rectangles else 0) for at, b in zip(offsets, problem.buffers, strict=True)]
    return sum(cost for (i, j), cost in costs.items() if max(offsets[i], offsets[j]) < min(ends[i], ends[j]))


def _components(neighbours: Sequence[int], soft: Costs) -> list[list[int]]:
    """Buffers that are something to each other, directly or by others; ascending."""
    near = list(neighbours)
    for i, j in soft:
        near[i] |= 1 << j
        near[j] |= 1 << i
    left = (1 << len(near)) - 1
    result: list[list[int]] = []
    while left:
        seen = rest = left & -left
        while rest:
            i = (rest & -rest).bit_length() - 1
            rest = (rest & ~(1 << i)) | (near[i] & ~seen)
            seen |= near[i]
        result.append(bits_of(seen))
        left &= ~seen
    return result


def _part(problem: Problem, neighbours: Sequence[int], soft: Costs, members: Sequence[int], capacity: int) -> Part:
    at = {i: k for k, i in enumerate(members)}
    hard = {(at[i], at[j]) for i in members for j in bits_of(neighbours[i]) if i < j}
    prices = {(at[i], at[j]): cost for (i, j), cost in soft.items() if i in at}
    apart = tuple((at[i], at[j]) for i, j in problem.apart if i in at and j in at)
    buffers = tuple(problem.buffers[i] for i in members)
    return Part(Problem(buffers, (), apart), frozenset(hard), prices, capacity)


def _place(part: Part, limits: Limits) -> ReusePlacement:
    """One component."""
    apart = replace(part.problem, apart=(*part.problem.apart, *(p for p in part.costs if p not in part.hard)))
    free = allocate_buffers(apart, part.capacity, limits, FREE)
    if free.fits:
        return ReusePlacement(tuple(free.offsets[b.name] for b in part.problem.buffers), 0, 0, True, free.interrupted)
    if not part.costs:
        return ReusePlacement(None, 0, 0, free.fits, free.interrupted)
    least = min(part.costs.values()) if free.fits is False else 0
    start = _greedy(part)
    if start is None:
        plain = allocate_buffers(part.problem, part.capacity, limits, FREE)
        if plain.fits is False:
            return ReusePlacement(None, 0, least, False, plain.interrupted)
        if plain.fits:
            start = tuple(plain.offsets[b.name] for b in part.problem.buffers)
    known = ReusePlacement(start, 0 if start is None else reuse_cost(part.problem, part.costs, start), least,
                           None if start is None else True, free.interrupted)  # fmt: skip
    if known.optimal or known.interrupted or limits.left_seconds <= 0:
        return known
    return _searched(part, known, limits)


def _searched(part: Part, placement: ReusePlacement, limits: Limits) -> ReusePlacement:
    """CP-SAT for a while, then Russian dolls, then CP-SAT to the end; at the worst what is known."""
    grid = Grid(part)
    with_solver = find_spec("ortools") is not None
    if with_solver:
        placement = _better(part, placement, solve(part, grid, placement.offsets, limits, work=SLICE))
    if placement.optimal or placement.fits is False or placement.interrupted or limits.left_seconds <= 0:
        return placement
    if placement.offsets is not None:
        found = search(part, grid, placement.offsets, limits)
        if found is not None:
            cost, places = found
            offsets = tuple(at * grid.unit for at in places)
            return replace(placement, offsets=offsets, cost=cost, lower_bound=cost)
    return _better(part, placement, solve(part, grid, placement.offsets, limits)) if with_solver else placement


def _better(part: Part, placement: ReusePlacement, solved: Solved) -> ReusePlacement:
    """What is known, with what was found."""
    if solved.impossible:
        return ReusePlacement(None, 0, placement.lower_bound, False)
    bound = max(placement.lower_bound, solved.lower_bound)
    offsets, cost = placement.offsets, placement.cost
    if solved.offsets is not None:
        paid = reuse_cost(part.problem, part.costs, solved.offsets)
        if offsets is None or paid < cost:
            offsets, cost = solved.offsets, paid
    if offsets is None:
        return replace(placement, lower_bound=bound, interrupted=solved.interrupted)
    return ReusePlacement(offsets, cost, min(bound, cost), True, solved.interrupted)


def _greedy(part: Part) -> tuple[int, ...] | None:
    """The cheapest of some placements buffer by buffer, each where it costs least, then lowest; None if none fits."""
    buffers = part.problem.buffers
    paid = [0] * len(buffers)
    for (i, j), cost in part.costs.items():
        paid[i] += cost
        paid[j] += cost
    keys = (
        lambda i: (-buffers[i].size, buffers[i].start, i), lambda i: (-buffers[i].size, -paid[i], i),
        lambda i: (buffers[i].start, -buffers[i].size, i), lambda i: (-buffers[i].area, i),
        lambda i: (-paid[i], -buffers[i].size, i), lambda i: (-buffers[i].end, -buffers[i].size, i),
    )  # fmt: skip
    best: tuple[int, tuple[int, ...]] | None = None
    for key in keys:
        order = sorted(range(len(buffers)), key=key)
        order.sort(key=lambda i: buffers[i].offset is None)
        offsets = _one_by_one(part, order)
        if offsets is not None:
            cost = reuse_cost(part.problem, part.costs, offsets)
            best = (cost, offsets) if best is None or cost < best[0] else best
    return None if best is None else best[1]


def _one_by_one(part: Part, order: Iterable[int]) -> tuple[int, ...] | None:
    buffers = part.problem.buffers
    offsets: dict[int, int] = {}
    for i in order:
        b = buffers[i]
        near = [(j, at, at + buffers[j].size) for j, at in offsets.items() if part.near(i, j)]
        tops = {0, *(-(-end // b.alignment) * b.alignment for _, _, end in near)}
        best: tuple[int, int] | None = None
        for at in sorted(tops) if b.offset is None else (b.offset,):
            if at + b.size > part.capacity:
                continue
            over = [j for j, low, high in near if at < high and low < at + b.size]
            if any(part.key(i, j) in part.hard for j in over):
                continue
            cost = sum(part.costs[part.key(i, j)] for j in over)
            best = (cost, at) if best is None or (cost, at) < best else best
        if best is None:
            return None
        offsets[i] = best[1]
    return tuple(offsets[i] for i in range(len(buffers)))
