"""The integer program of `reuse.py`: one component, by CP-SAT. Needs the extra `solvers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, gcd
from typing import TYPE_CHECKING, Any

from lowtide.allocate.buffers import Problem
from lowtide.sizes import round_up
from lowtide.solvers.cp_sat import solve as run
from lowtide.stop import Limits

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

MOST_CELLS = 40_000
"""Pairs times units of the capacity up to which a buffer's place is one choice among all; else pairs are ordered."""


@dataclass(frozen=True)
class Part:
    """A component: buffers, pairs that never share, prices of others, and bytes there are. Pairs have the smaller
    index first."""

    problem: Problem
    hard: frozenset[tuple[int, int]]
    costs: Mapping[tuple[int, int], int]
    capacity: int

    def key(self, i: int, j: int) -> tuple[int, int]:
        """Of a pair."""
        return (i, j) if i < j else (j, i)

    @property
    def total(self) -> int:
        """What all of it would cost."""
        return sum(self.costs.values())

    def near(self, i: int, j: int) -> bool:
        """Whether two buffers are anything to each other."""
        key = self.key(i, j)
        return key in self.hard or key in self.costs


@dataclass(frozen=True)
class Solved:
    """Offsets in bytes, if any were found; what no placement costs less than; whether there is none at all."""

    offsets: tuple[int, ...] | None
    lower_bound: int
    impossible: bool
    interrupted: bool


class Grid:
    """A part in units: without loss all offsets are multiples of `unit`, sizes rounded up to it."""

    def __init__(self, part: Part) -> None:
        buffers = part.problem.buffers
        fine = gcd(*(b.alignment for b in buffers))
        sizes = [round_up(b.size, fine) for b in buffers]
        unit = gcd(*sizes)
        if any(unit % b.alignment for b in buffers) or any((b.offset or 0) % unit for b in buffers):
            unit = fine
        self.unit = unit
        self.sizes = [round_up(b.size, fine) // unit for b in buffers]
        self.steps = [max(1, b.alignment // unit) for b in buffers]
        self.last = [(part.capacity - b.size) // unit if b.size <= part.capacity else -1 for b in buffers]
        self.cells = max((last + size for last, size in zip(self.last, self.sizes, strict=True)), default=0)
        self.starts = [
            [b.offset // unit] if b.offset is not None else list(range(0, self.last[i] + 1, self.steps[i]))
            for i, b in enumerate(buffers)
        ]


def solve(part: Part, grid: Grid, start: Sequence[int] | None, limits: Limits, work: float | None = None) -> Solved:
    """Least cost, as far as the time goes; `start` is a placement to begin with, `work` deterministic seconds of CP-SAT
    that it may take."""
    from ortools.sat.python import cp_model

    if any(not places for places in grid.starts):
        return Solved(None, 0, True, False)
    model = cp_model.CpModel()
    shares = {pair: model.new_bool_var("") for pair in part.costs}
    _count(model, part, grid, shares)
    pairs = len(part.hard) + len(part.costs)
    choose = _by_place if pairs * grid.cells <= MOST_CELLS else _by_order
    places = choose(model, part, grid, shares)
    model.minimize(sum(cost * shares[pair] for pair, cost in part.costs.items()))
    if start is not None:
        for place, at in zip(places, start, strict=True):
            model.add_hint(place, at // grid.unit)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed
    solver.parameters.max_time_in_seconds = max(limits.left_seconds, 0.001)
    if work is not None:
        solver.parameters.max_deterministic_time = work
    solver.parameters.catch_sigint_signal = False
    try:
        status = run(solver, model)
    except KeyboardInterrupt:
        return Solved(None, 0, False, True)
    if status == cp_model.INFEASIBLE:
        return Solved(None, 0, True, False)
    bound = max(0, ceil(solver.best_objective_bound - 1e-6))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Solved(None, bound, False, False)
    return Solved(tuple(solver.value(place) * grid.unit for place in places), bound, False, False)


def _count(model: cp_model.CpModel, part: Part, grid: Grid, shares: Mapping[tuple[int, int], Any]) -> None:
    """Rows that hold of buffers each two of which are something to each other (the head of `reuse.py`)."""
    for members in _cliques(part):
        ranked = sorted(members, key=lambda i: (-grid.sizes[i], i))
        for n in range(2, len(ranked) + 1):
            some = ranked[:n]
            pairs = [pair for pair in combinations(sorted(some), 2) if pair in shares]
            overlapping = least_edges(n, grid.cells // grid.sizes[some[-1]])
            if overlapping and (n == len(ranked) or grid.sizes[ranked[n]] < grid.sizes[some[-1]]):
                model.add(sum(shares[pair] for pair in pairs) >= overlapping)
            cells = least_edges(sum(grid.sizes[i] for i in some), grid.cells)
            if cells:
                model.add(sum(min(grid.sizes[i], grid.sizes[j]) * shares[i, j] for i, j in pairs) >= cells)


def least_edges(vertices: int, independent: int) -> int:
    """Edges that a graph has at least, of so many vertices and at most so many independent ones; also pairs in the same
    bin, of so many things in so many bins."""
    if independent <= 0:
        return 0
    each, more = divmod(vertices, independent)
    return more * (each + 1) * each // 2 + (independent - more) * each * (each - 1) // 2


def _cliques(part: Part) -> list[tuple[int, ...]]:
    """For each pair a set around it, each two of which are something to each other; each once."""
    near: dict[int, set[int]] = {i: set() for i in range(len(part.problem.buffers))}
    for i, j in (*part.hard, *part.costs):
        near[i].add(j)
        near[j].add(i)
    found: dict[tuple[int, ...], None] = {}
    for i, j in sorted(part.costs):
        members, rest = [i, j], near[i] & near[j]
        while rest:
            most = max(sorted(rest), key=lambda k: len(near[k] & rest))
            members.append(most)
            rest &= near[most]
        found[tuple(sorted(members))] = None
    return list(found)


def _by_place(
    model: cp_model.CpModel, part: Part, grid: Grid, shares: Mapping[tuple[int, int], Any]
) -> list[cp_model.IntVar]:
    """A literal for each place of each buffer; two that share no byte do not cover a cell both."""
    begins = [{at: model.new_bool_var("") for at in places} for places in grid.starts]
    for literals in begins:
        model.add_exactly_one(literals.values())
    if len(set(grid.sizes)) == 1 and grid.sizes[0] == 1 and all(b.offset is None for b in part.problem.buffers):
        for i, literals in enumerate(begins):  # places have no order then: buffer i opens the next one at most
            for at, literal in literals.items():
                if at > i and set(grid.steps) == {1}:
                    model.add(literal == 0)
    covers = [
        [sum(literal for at, literal in literals.items() if at <= cell < at + grid.sizes[i])
         for cell in range(grid.cells)] for i, literals in enumerate(begins)
    ]  # fmt: skip
    for pair in (*sorted(part.hard), *sorted(shares)):
        both = shares.get(pair, 0)
        for cell in range(grid.cells):
            model.add(covers[pair[0]][cell] + covers[pair[1]][cell] <= 1 + both)
    places: list[cp_model.IntVar] = []
    for i, literals in enumerate(begins):
        place = model.new_int_var(0, max(grid.starts[i]), "")
        model.add(place == sum(at * literal for at, literal in literals.items()))
        places.append(place)
    return places


def _by_order(
    model: cp_model.CpModel, part: Part, grid: Grid, shares: Mapping[tuple[int, int], Any]
) -> list[cp_model.IntVar]:
    """Of each pair that shares no byte one is below the other."""
    places: list[cp_model.IntVar] = []
    for i, starts in enumerate(grid.starts):
        if len(starts) == 1:
            places.append(model.new_int_var(starts[0], starts[0], ""))
            continue
        step = model.new_int_var(0, grid.last[i] // grid.steps[i], "")
        place = model.new_int_var(0, grid.last[i], "")
        model.add(place == grid.steps[i] * step)
        places.append(place)
    for i, j in (*sorted(part.hard), *sorted(shares)):
        below, above = model.new_bool_var(""), model.new_bool_var("")
        model.add(places[i] + grid.sizes[i] <= places[j]).only_enforce_if(below)
        model.add(places[j] + grid.sizes[j] <= places[i]).only_enforce_if(above)
        model.add_bool_or(below, above, *([shares[i, j]] if (i, j) in shares else []))
    return places
