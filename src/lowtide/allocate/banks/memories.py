"""Several memories: each buffer is wholly in one of them for all its life, and nothing is moved.

    bytes ^  fast                     slow
          |  +-----+  +--------+      +---------------+
          |  |  b  |  |   c    |      |       d       |    a, b and c fit the fast memory at every step; with d they
          |  +-----+--+-+------+      |               |    would not, and its bytes are the fewest that make room
          |  |    a     |             +---------------+
          +--+----------+---> steps

A byte in the first memory of a buffer's list costs nothing, in the second 1, in the third 2, and so on. The least cost
over all assignments that keep every memory's load within its capacity is found by going through time with all
assignments of what is live (a temporal knapsack, `assignment.py`), exactly unless there are too many. Then each
memory is placed by the engines. Loads that fit can nearly always be placed; where one cannot, its capacity is taken to
be smaller and the search goes on, and the cost is called least only if it is that of the loads alone.

Memory and offset at once, by CP-SAT: for the few small instances whose loads fit and whose placements do not.

Source of the model: two-dimensional strip packing with optional rectangles (ortools, NoOverlap2D).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import Any

from lowtide.allocate.arena import ENGINES, allocate_best
from lowtide.allocate.banks.assignment import WIDTHS, Assignment, cost_of, least_cost
from lowtide.allocate.banks.bank import Bank, Demand, Loads
from lowtide.allocate.buffers import Buffer, Pair, Problem
from lowtide.solvers.cp_sat import solve
from lowtide.stop import Limits

A_MOMENT_SECONDS = 1.0  # what there is at least, where the search for an order has used up the time
ROUNDS = 12  # how often a capacity is lowered before a placement is given up
LATE_ROUNDS = 4  # how often of these once the time is over, or the user ended the search: by the greedies alone


@dataclass(frozen=True)
class BankPlacement:
    """The memory and the offset of each buffer."""

    bank_of: tuple[int, ...]  # per buffer, the index of its memory
    offsets: tuple[int, ...]  # per buffer, bytes from the start of its memory
    # Per memory, bytes up to the end of what ends highest. Where nothing fits, what it would have to be.
    used_bytes: tuple[int, ...]
    slow_bytes: int  # the cost: bytes times the place of their memory in the buffer's list, the first being 0
    slow_lower_bound_bytes: int  # no assignment that fits costs less
    fits: bool  # whether every memory holds what is in it
    impossible: bool  # whether it is proved that nothing fits
    # Bytes read and written in an inference, times the place of the memory; the least found of equal cost.
    accesses_bytes: int = 0
    counters: dict[str, int] = field(default_factory=dict)  # the search's own figures
    interrupted: bool = False  # whether the user ended the search; this is the best so far

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no assignment that fits costs less."""
        return self.fits and self.slow_bytes == self.slow_lower_bound_bytes


def place_in_banks(
    problem: Problem, banks: Sequence[Bank], demands: Sequence[Demand] | None = None, limits: Limits | None = None
) -> BankPlacement:
    """Choose a memory and an offset for every buffer.

    `problem`: buffers; pairs and those kept apart count where both are in one memory.
    `banks`: the memories, fastest first.
    `demands`: per buffer, the memories that it may be in and what its bytes count; all of them, and its size, if not
      given.
    `limits`: for the sweeps, the engines, and the solver where a placement fails. `report` hears of the cost and its
      bound.
    Returns: If nothing is found that fits, a placement whose `used_bytes` say what the memories would have to be: the
      last one is taken to be as large as needed, and all of them if that is not enough.
    """
    limits = limits or Limits()
    used = limits.spent_seconds
    limits = replace(limits, seconds=max(limits.seconds, used + A_MOMENT_SECONDS))
    if demands is None:
        demands = [Demand(tuple(range(len(banks))), b.size) for b in problem.buffers]
    search = _Search(problem, banks, demands, limits)
    loads = Loads(problem)
    first = least_cost(loads, demands, [b.capacity for b in banks], limits=limits)
    search.interrupted = first.interrupted
    best = search.by_loads(loads, first)
    bound, impossible = first.lower_bound, first.bank_of is None and first.complete
    joint = None
    if not (impossible or search.interrupted or (best is not None and best.slow_bytes == bound)):
        try:
            joint = place_jointly(problem, banks, demands, limits)
        except KeyboardInterrupt:
            search.interrupted = True
    if joint is not None:
        bound, impossible = max(bound, joint.lower_bound), joint.impossible
        if joint.bank_of is not None:
            used_bytes = _heights(problem, joint.bank_of, joint.offsets, len(banks))
            other = search.placement(joint.bank_of, joint.offsets, used_bytes)
            if best is None or other.slow_bytes < best.slow_bytes:
                best = other
    return replace(
        best or search.without_capacities(loads),
        slow_lower_bound_bytes=bound,
        fits=best is not None,
        impossible=best is None and impossible,
        counters={"states": first.states},
        interrupted=search.interrupted,
    )


@dataclass
class _Search:
    """Placements of one problem; `interrupted`: whether the user ended the search."""

    problem: Problem
    banks: Sequence[Bank]
    demands: Sequence[Demand]
    limits: Limits
    interrupted: bool = False

    def by_loads(self, loads: Loads, assignment: Assignment) -> BankPlacement | None:
        """Place the assignment; where a memory overflows, lower its capacity and assign anew. None if none fits."""
        capacities = [b.capacity for b in self.banks]
        late = 0
        for _ in range(ROUNDS):
            if assignment.bank_of is None:
                return None
            placed = self.place(assignment.bank_of)
            late += self.interrupted or self.limits.left_seconds <= 0
            over = [size - b.capacity for size, b in zip(placed.used_bytes, self.banks, strict=True)]
            if max(over, default=0) <= 0:
                return placed
            if late > LATE_ROUNDS:
                return None
            capacities = [max(0, c - max(0, o)) for c, o in zip(capacities, over, strict=True)]
            assignment = least_cost(loads, self.demands, capacities, () if late else WIDTHS, self.limits)
            self.interrupted |= assignment.interrupted
        return None

    def without_capacities(self, loads: Loads) -> BankPlacement:
        """A placement in memories that are larger than they are: the last one, or all of them."""
        unbounded = sum(b.size + b.alignment for b in self.problem.buffers)
        for capacities in ([b.capacity for b in self.banks[:-1]] + [unbounded], [unbounded] * len(self.banks)):
            assignment = least_cost(loads, self.demands, capacities, WIDTHS[:1])
            if assignment.bank_of is not None:
                return self.place(assignment.bank_of)
        raise AssertionError("everything fits memories without end")

    def place(self, bank_of: Sequence[int]) -> BankPlacement:
        """Offsets of an assignment, memory by memory; by the first engine alone once the user ended the search."""
        offsets = [0] * len(self.problem.buffers)
        used = []
        for k, bank in enumerate(self.banks):
            members = [i for i, at in enumerate(bank_of) if at == k]
            part = part_of(self.problem, members, bank.alignment)
            # A memory's height is not the cost, so nothing is reported.
            limits = replace(self.limits, enough_bytes=bank.capacity, report=None)
            try:
                packing = allocate_best(part, limits, ENGINES[:1] if self.interrupted else ENGINES)
            except KeyboardInterrupt:
                self.interrupted = True
                packing = allocate_best(part, limits, ENGINES[:1])
            self.interrupted |= packing.interrupted
            for i, offset in zip(members, packing.offsets, strict=True):
                offsets[i] = offset
            used.append(packing.height_bytes)
        return self.placement(bank_of, offsets, used)

    def placement(self, bank_of: Sequence[int], offsets: Sequence[int], used_bytes: Sequence[int]) -> BankPlacement:
        """A placement with its cost, as far as it is known before the bounds."""
        accesses = sum(d.accesses * d.allowed.index(k) for d, k in zip(self.demands, bank_of, strict=True))
        cost = cost_of(self.demands, bank_of)
        return BankPlacement(tuple(bank_of), tuple(offsets), tuple(used_bytes), cost, 0, False, False, accesses)


def part_of(problem: Problem, members: Sequence[int], alignment: int = 1) -> Problem:
    """The buffers `members` by themselves, with the pairs among them, on multiples of `alignment` at least."""
    at = {i: j for j, i in enumerate(members)}
    buffers = (problem.buffers[i] for i in members)
    return Problem(
        tuple(b if b.alignment >= alignment else replace(b, alignment=alignment) for b in buffers),
        tuple(Pair(at[p.lower], at[p.upper], p.distance) for p in problem.pairs if p.lower in at and p.upper in at),
        tuple((at[i], at[j]) for i, j in problem.apart if i in at and j in at),
    )


def _heights(problem: Problem, bank_of: Sequence[int], offsets: Sequence[int], count: int) -> tuple[int, ...]:
    used = [0] * count
    for b, k, offset in zip(problem.buffers, bank_of, offsets, strict=True):
        if b.rectangles:
            used[k] = max(used[k], offset + b.size)
    return tuple(used)


MOST_BUFFERS = 120  # above that the solver is not run

DETERMINISTIC_SECONDS = 8.0


@dataclass(frozen=True)
class Joint:
    """The memory and the offset of each buffer, None if none was found; `impossible` if there is none."""

    bank_of: tuple[int, ...] | None
    offsets: tuple[int, ...]
    lower_bound: int
    impossible: bool


def place_jointly(problem: Problem, banks: Sequence[Bank], demands: Sequence[Demand], limits: Limits) -> Joint | None:
    """Solve, if ortools is there, the instance is small, and it has no pairs and none kept apart; else None. Raises
    `KeyboardInterrupt`: Ctrl-C ended the solver."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        return None
    buffers = problem.buffers
    if len(buffers) > MOST_BUFFERS or problem.pairs or problem.apart or limits.left_seconds <= 0:
        return None
    model = cp_model.CpModel()
    inside = [{k: model.new_bool_var("") for k in d.allowed} for d in demands]
    rectangles: list[list[tuple[Any, Any]]] = [[] for _ in banks]
    offsets = [
        {k: at for k, x in row.items() if (at := _offset(model, b, banks[k], x, rectangles[k])) is not None}
        for b, row in zip(buffers, inside, strict=True)
    ]
    for row in inside:
        model.add_exactly_one(row.values())
    for pairs in rectangles:
        model.add_no_overlap_2d([a for a, _ in pairs], [u for _, u in pairs])
    model.minimize(
        sum(x * (d.bytes * d.allowed.index(k)) for d, row in zip(demands, inside, strict=True) for k, x in row.items())
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = limits.seed % 2**31
    solver.parameters.max_deterministic_time = DETERMINISTIC_SECONDS
    solver.parameters.max_time_in_seconds = limits.left_seconds
    solver.parameters.catch_sigint_signal = False  # it would leave Ctrl-C to end the process
    status = solve(solver, model)
    if status == cp_model.INFEASIBLE:
        return Joint(None, (), 0, True)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Joint(None, (), 0, False)
    bank_of = tuple(next(k for k, x in row.items() if solver.boolean_value(x)) for row in inside)
    chosen = [at[k] for at, k in zip(offsets, bank_of, strict=True)]
    return Joint(
        bank_of, tuple(solver.value(y) * unit for y, unit in chosen), round(solver.best_objective_bound), False
    )


def _offset(
    model: Any, buffer: Buffer, bank: Bank, inside: Any, rectangles: list[tuple[Any, Any]]
) -> tuple[Any, int] | None:
    """Variable and unit of a buffer's offset in a memory; None, and `inside` is false, if it cannot be there. Adds
    the rectangles that the buffer has in that memory where `inside` is true."""
    unit = lcm(buffer.alignment, bank.alignment)
    most = bank.capacity - buffer.size
    if not buffer.rectangles:
        return model.new_constant(0), unit
    if most < 0 or (buffer.offset is not None and (buffer.offset > most or buffer.offset % unit)):
        model.add(inside == 0)
        return None
    low, high = (0, most // unit) if buffer.offset is None else (buffer.offset // unit,) * 2
    y = model.new_int_var(low, high, "")
    for p in buffer.rectangles:
        across = model.new_optional_fixed_size_interval_var(p.start, p.end - p.start, inside, "")
        up = model.new_optional_fixed_size_interval_var(y * unit + p.low, p.size, inside, "")
        rectangles.append((across, up))
    return y, unit
