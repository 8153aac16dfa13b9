"""Several memories: each buffer lies wholly in one of them for its whole life, and nothing is moved.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lowtide.allocate.arena import ENGINES, Engine, allocate_best
from lowtide.allocate.banks.assignment import WIDTHS, least_cost
from lowtide.allocate.banks.bank import Bank, Demand, Loads
from lowtide.allocate.banks.joint import place_jointly
from lowtide.allocate.buffers import Pair, Problem
from lowtide.stop import Limits

A_MOMENT_SECONDS = 1.0
"""What there is at least, where the search for an order has used up the time."""

ROUNDS = 12
"""How often a capacity is lowered before a placement is given up."""

LATE_ROUNDS = 4
"""How often of these once the time is over, or the user ended the search: by the greedies alone."""


@dataclass(frozen=True)
class BankPlacement:
    """Where each buffer lies.

    Attributes
    ----------
    bank_of
        Per buffer, the index of its memory.
    offsets
        Per buffer, bytes from the start of its memory.
    used_bytes
        Per memory, bytes up to the end of what ends highest. Where nothing fits, what it would have to be.
    slow_bytes
        The cost: bytes times the place of their memory in the buffer's list, the first being 0.
    slow_lower_bound_bytes
        No assignment that fits costs less.
    fits
        Whether every memory holds what is in it.
    impossible
        Whether it is proved that nothing fits.
    accesses_bytes
        Bytes read and written in an inference, times the place of the memory; the least found of equal cost.
    counters
        The search's own figures.
    interrupted
        Whether the user ended the search; this is the best so far.
    """

    bank_of: tuple[int, ...]
    offsets: tuple[int, ...]
    used_bytes: tuple[int, ...]
    slow_bytes: int
    slow_lower_bound_bytes: int
    fits: bool
    impossible: bool
    accesses_bytes: int = 0
    counters: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no assignment that fits costs less."""
        return self.fits and self.slow_bytes == self.slow_lower_bound_bytes


def place_in_banks(
    problem: Problem,
    banks: Sequence[Bank],
    demands: Sequence[Demand] | None = None,
    limits: Limits | None = None,
    engines: Sequence[Engine] = ENGINES,
) -> BankPlacement:
    """Choose a memory and an offset for every buffer.

    Parameters
    ----------
    problem
        Buffers; pairs and those kept apart count where both lie in one memory.
    banks
        The memories, fastest first.
    demands
        Per buffer, the memories that it may lie in and what its bytes count; all of them, and its size, if not given.
    limits
        For the sweeps, the engines, and the solver where a placement fails. `report` hears of the cost and its bound.

    Returns
    -------
    BankPlacement
        If nothing is found that fits, a placement whose `used_bytes` say what the memories would have to be: the last
        one is taken to be as large as needed, and all of them if that is not enough.
    """
    limits = limits or Limits()
    used = limits.seconds - limits.left_seconds
    limits = replace(limits, seconds=max(limits.seconds, used + A_MOMENT_SECONDS))
    if demands is None:
        demands = [Demand(tuple(range(len(banks))), b.size) for b in problem.buffers]
    loads = Loads(problem)
    capacities = [b.capacity for b in banks]
    first = assignment = least_cost(loads, demands, capacities, limits=limits)
    bound, counters = first.lower_bound, {"states": first.states}
    best: BankPlacement | None = None
    interrupted, late = assignment.interrupted, 0
    for _ in range(ROUNDS):
        if assignment.bank_of is None:
            break
        placed, stopped = _place(problem, banks, assignment.bank_of, limits, engines[:1] if interrupted else engines)
        interrupted |= stopped
        late += interrupted or limits.left_seconds <= 0
        over = [size - b.capacity for size, b in zip(placed[1], banks, strict=True)]
        if max(over, default=0) <= 0:
            best = _result(assignment.bank_of, placed, demands, bound, counters, fits=True)
            break
        if late > LATE_ROUNDS:
            break
        capacities = [max(0, c - max(0, o)) for c, o in zip(capacities, over, strict=True)]
        assignment = least_cost(loads, demands, capacities, () if late else WIDTHS, limits)
        interrupted |= assignment.interrupted
    impossible = first.bank_of is None and first.complete
    decided = impossible or (best is not None and best.optimal)
    joint = None
    try:
        joint = None if decided or interrupted else place_jointly(problem, banks, demands, limits)
    except KeyboardInterrupt:
        interrupted = True
    if joint is not None:
        bound, impossible = max(bound, joint.lower_bound), joint.impossible
        if joint.bank_of is not None:
            placed = joint.offsets, _heights(problem, joint.bank_of, joint.offsets, len(banks))
            other = _result(joint.bank_of, placed, demands, bound, counters, fits=True)
            if best is None or other.slow_bytes < best.slow_bytes:
                best = other
    if best is not None:
        return replace(best, slow_lower_bound_bytes=bound, interrupted=interrupted)
    unbounded = sum(b.size + b.alignment for b in problem.buffers)
    for roomy in ([b.capacity for b in banks[:-1]] + [unbounded], [unbounded] * len(banks)):
        assignment = least_cost(loads, demands, roomy, WIDTHS[:1])
        if assignment.bank_of is not None:
            placed, stopped = _place(
                problem, banks, assignment.bank_of, limits, engines[:1] if interrupted else engines
            )
            placement = _result(assignment.bank_of, placed, demands, bound, counters, fits=False, impossible=impossible)
            return replace(placement, interrupted=interrupted or stopped)
    raise AssertionError("everything fits memories without end")


def _place(
    problem: Problem, banks: Sequence[Bank], bank_of: Sequence[int], limits: Limits, engines: Sequence[Engine]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], bool]:
    """Offsets per buffer and bytes used per memory, and whether the user stopped an engine."""
    offsets = [0] * len(problem.buffers)
    used = []
    stopped = False
    for k, bank in enumerate(banks):
        members = [i for i, at in enumerate(bank_of) if at == k]
        part = part_of(problem, members, bank.alignment)
        for_bank = replace(limits, enough_bytes=bank.capacity, report=None)  # a memory's height is not the cost
        try:
            packing = allocate_best(part, for_bank, engines[:1] if stopped else engines)
        except KeyboardInterrupt:
            packing, stopped = allocate_best(part, for_bank, engines[:1]), True
        stopped |= packing.interrupted
        for i, offset in zip(members, packing.offsets, strict=True):
            offsets[i] = offset
        used.append(packing.height_bytes)
    return (tuple(offsets), tuple(used)), stopped


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
        if b.pieces:
            used[k] = max(used[k], offset + b.size)
    return tuple(used)


def _result(
    bank_of: Sequence[int],
    placed: tuple[tuple[int, ...], tuple[int, ...]],
    demands: Sequence[Demand],
    bound: int,
    counters: dict[str, int],
    *,
    fits: bool,
    impossible: bool = False,
) -> BankPlacement:
    slow = sum(d.bytes * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))
    accesses = sum(d.accesses * d.allowed.index(k) for d, k in zip(demands, bank_of, strict=True))
    return BankPlacement(tuple(bank_of), *placed, slow, bound, fits, impossible, accesses, counters)
