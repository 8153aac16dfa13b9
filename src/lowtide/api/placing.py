"""Placing plain buffers: in one arena, in several memories, and several models in one arena."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.banks import MemoryUse
from lowtide.api.job import check_time
from lowtide.api.planning import NO_PLACES
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.names import brief
from lowtide.plan import Status, exit_status
from lowtide.sizes import Size, parse_size
from lowtide.stop import Limits, Progress

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.banks.places import Banks, Places
    from lowtide.allocate.buffers import Buffer, Problem
    from lowtide.allocate.conflict import Conflict
    from lowtide.allocate.csv_buffers import BufferFile


@dataclass(frozen=True, repr=False)
class Placement:
    """Offsets of plain buffers, by name. `lower_bound_bytes` is what no placement beats.

    With several memories `offsets` are those in the memory that `memory_of` names, `height_bytes` is what all memories
    hold, `slow_bytes` what is in slow ones (bytes times the place in the buffer's list, the first being 0), and
    `optimal` says that `slow_bytes` is proved minimal. `conflict` names buffers that cannot share the capacity.
    With reuse as a cost `reuse_cost` is the sum of the penalties of pairs that share bytes, `reuse_lower_bound` what no
    placement within the capacity is below, and `optimal` says that they are the same; where no placement within it was
    found, there is no cost, and `offsets` reach above it. `interrupted`: Ctrl-C ended the search, and this is the best
    so far.
    """

    height_bytes: int
    lower_bound_bytes: int
    optimal: bool
    offsets: dict[str, int]
    seconds: float
    memory_of: dict[str, str] | None = None
    memories: list[MemoryUse] | None = None
    slow_bytes: int | None = None
    slow_lower_bound_bytes: int | None = None
    alone: int | None = None
    conflict: str | None = None
    status: Status | None = None
    interrupted: bool | None = None
    reuse_cost: int | None = None
    reuse_lower_bound: int | None = None

    def __repr__(self) -> str:
        return brief(self, "height_bytes lower_bound_bytes optimal offsets seconds")

    def exit_status(self, capacity: int | None) -> int:
        """0 if it fits or there is no limit, 3 if nothing that fits was found, 4 if nothing can, 130 interrupted."""
        status = self.status
        if status is None:
            never = capacity is not None and self.lower_bound_bytes > capacity
            fits = capacity is None or self.height_bytes <= capacity
            status = "ok" if fits else "impossible" if never else "over_budget"
        return exit_status(status, interrupted=bool(self.interrupted))


@typed
def allocate(
    buffers: str | Path | BufferFile | Sequence[Buffer] | Problem,
    capacity: Size | None = None,
    *,
    banks: Banks | None = None,
    board: str | Path | None = None,
    places: Places = NO_PLACES,
    spread: bool = False,
    reuse_cost: bool = False,
    time: float = 60.0,
    seed: int = 0,
    report: Callable[[Progress], None] | None = None,
) -> Placement:
    """Find offsets for buffers, as low as can be.

    Parameters
    ----------
    buffers
        A CSV file as minimalloc's, what `lowtide.allocate.csv_buffers.read_problem` read of one, buffers, or a problem
        with pairs and buffers kept apart.
    capacity
        Bytes there are; a search may stop once they suffice. None: those that the file names, if it does.
    banks, board
        Several memories, fastest first, as for `plan`: each buffer is in one of them.
    places
        Names of buffers, each with the memories that may hold it, in addition to those that a CSV names.
    spread
        Let buffers reuse bytes only where the capacity demands it: as many as can be have bytes of their own.
    reuse_cost
        Of all placements within the capacity, one whose penalties for shared bytes add up to least; they are a
        dsa-problem's, or `BufferFile.costs`.
    time
        Seconds of search.
    report
        Called now and then with the height and its bound, as by `plan`.

    Raises
    ------
    InputError
        The file or an argument is wrong.

    >>> from lowtide.allocate.buffers import block
    >>> placed = allocate([block("a", 0, 2, 16), block("b", 1, 3, 8)], banks={"fast": 16, "slow": 64})
    >>> placed.memory_of, placed.slow_bytes
    ({'a': 'fast', 'b': 'slow'}, 8)
    """
    from lowtide.allocate.banks.places import find_banks

    began = clock.perf_counter()
    capacity_bytes = None if capacity is None else parse_size(capacity, "capacity")
    check_time(time)
    regions = find_banks(banks, board)
    given = _given(buffers)
    problem, wanted = given.problem, {**given.places, **places}
    if wanted and not regions:
        raise InputError("buffers are placed, but in no memory; name memories with --bank or --board")
    if regions and (capacity is not None or spread):
        raise InputError("--capacity and --spread are for one arena; with --bank and --board every memory has its size")
    if capacity_bytes is None:
        capacity_bytes = given.capacity
    if spread and capacity_bytes is None:
        raise InputError("--spread needs --capacity: without a limit nothing would be reused")
    limits = Limits(time, seed=seed, report=report)
    if reuse_cost:
        _check_reuse(given, capacity_bytes, several=bool(regions), spread=spread)
        return _for_reuse(given, capacity_bytes or 0, limits, began)
    if given.costs:
        said = f"{given.place or 'buffers'}: {len(given.costs)} penalties for reuse are not weighed"
        warnings.warn(f"{said}; --reuse-cost (reuse_cost=True) weighs them", stacklevel=2)
    if regions:
        return _in_memories(problem, regions, wanted, limits, began)
    _check_fixed(given)
    return _in_one(problem, capacity_bytes, spread, limits, began)


def _check_reuse(given: BufferFile, capacity: int | None, *, several: bool, spread: bool) -> None:
    """Raise `InputError` for what reuse cannot be priced with."""
    place = given.place or "buffers"
    if several or spread:
        raise InputError("--reuse-cost is for one arena: leave out --bank, --board and --spread", place)
    if capacity is None:
        raise InputError("--reuse-cost needs --capacity: without a limit nothing would be reused", place)
    if not given.costs:
        raise InputError("there are no penalties to weigh; --reuse-cost is for a dsa-problem that has some", place)
    if given.problem.pairs or any(p.low or p.size != b.size for b in given.problem.buffers for p in b.rectangles):
        raise InputError("--reuse-cost is for plain buffers; some here may overlap or change their size", place)
    _check_fixed(given)


def _for_reuse(given: BufferFile, capacity: int, limits: Limits, began: float) -> Placement:
    """Least penalties within the capacity; where nothing fits it, a placement above it, and why."""
    from lowtide.allocate.reuse import least_reuse

    problem = given.problem
    placed = least_reuse(problem, given.costs, capacity, limits)
    if placed.offsets is None:
        above = _in_one(problem, capacity, spread=False, limits=limits, began=began)
        status: Status = "impossible" if placed.fits is False else "over_budget"
        return replace(above, status=status, optimal=False, reuse_lower_bound=placed.lower_bound)
    ends = [at + b.size for at, b in zip(placed.offsets, problem.buffers, strict=True) if b.rectangles]
    return Placement(
        max(ends, default=0),
        0,
        placed.optimal,
        {b.name: at for b, at in zip(problem.buffers, placed.offsets, strict=True)},
        clock.perf_counter() - began,
        status="ok",
        interrupted=placed.interrupted or None,
        reuse_cost=placed.cost,
        reuse_lower_bound=placed.lower_bound,
    )


def _check_fixed(given: BufferFile) -> None:
    """Raise `InputError`, with the file, for buffers that cannot lie where they are fixed."""
    try:
        _ = given.problem.core
    except InputError as error:
        raise InputError(str(error), given.place) from None


def _given(buffers: str | Path | BufferFile | Sequence[Buffer] | Problem) -> BufferFile:
    """The buffers, and what a file says of them."""
    from lowtide.allocate.buffers import Problem
    from lowtide.allocate.csv_buffers import BufferFile, read_problem

    if isinstance(buffers, Problem):
        return BufferFile(buffers, {})
    file = read_problem(buffers) if isinstance(buffers, str | Path) else buffers
    return file if isinstance(file, BufferFile) else BufferFile(Problem(tuple(file)), {})


def _in_one(problem: Problem, capacity: int | None, spread: bool, limits: Limits, began: float) -> Placement:
    from lowtide.allocate.arena import allocate_buffers
    from lowtide.allocate.conflict import find_conflict
    from lowtide.allocate.greedy import Packing
    from lowtide.allocate.placed import minimise_reuse

    placed = allocate_buffers(problem, capacity, limits)
    offsets, height, alone = placed.offsets, placed.height_bytes, None
    if spread and capacity is not None:
        packing_before = Packing(
            tuple(offsets[b.name] for b in problem.buffers), height, placed.lower_bound_bytes, placed.method, {}
        )
        packing, alone = minimise_reuse(problem, capacity, packing_before, limits)
        offsets = {b.name: at for b, at in zip(problem.buffers, packing.offsets, strict=True)}
        height = packing.height_bytes
    conflict = None
    if capacity is not None and placed.lower_bound_bytes > capacity:
        conflict = _conflict_text(problem, find_conflict(problem, capacity, limits))
    return Placement(
        height,
        placed.lower_bound_bytes,
        height == placed.lower_bound_bytes,
        offsets,
        clock.perf_counter() - began,
        alone=alone,
        conflict=conflict,
        interrupted=placed.interrupted or None,
    )


def _in_memories(
    problem: Problem,
    banks: Sequence[Bank],
    places: Mapping[str, str | Sequence[str]],
    limits: Limits,
    began: float,
) -> Placement:
    from lowtide.allocate.banks.places import place_buffers
    from lowtide.allocate.buffers import load_bound
    from lowtide.allocate.conflict import find_conflict, find_indivisible

    placed = place_buffers(problem, banks, places, limits)
    anywhere = replace(problem, buffers=tuple(replace(b, offset=None) for b in problem.buffers))
    conflict = None
    if not placed.fits:
        capacities = [b.capacity for b in banks]
        why = find_conflict(anywhere, sum(capacities), engines=()) or find_indivisible(anywhere, capacities)
        conflict = _conflict_text(problem, why, {b.name: b.capacity for b in banks})
    names = [b.name for b in problem.buffers]
    return Placement(
        sum(placed.used_bytes),
        load_bound(anywhere),
        placed.optimal,
        dict(zip(names, placed.offsets, strict=True)),
        clock.perf_counter() - began,
        {name: banks[k].name for name, k in zip(names, placed.bank_of, strict=True)},
        [
            MemoryUse(b.name, used, b.capacity, max(0, used - b.capacity), b.alignment)
            for b, used in zip(banks, placed.used_bytes, strict=True)
        ],
        placed.slow_bytes,
        placed.slow_lower_bound_bytes,
        conflict=conflict,
        status="ok" if placed.fits else "impossible" if placed.impossible and not placed.interrupted else "over_budget",
        interrupted=placed.interrupted or None,
    )


def _conflict_text(
    problem: Problem, conflict: Conflict | None, memories: Mapping[str, int] | None = None
) -> str | None:
    from lowtide.report.conflict import set_text

    if conflict is None:
        return None
    members = [(problem.buffers[i].name, problem.buffers[i].size) for i in conflict.members]
    at = None if conflict.step is None else f"step {conflict.step:,}"
    return set_text(members, conflict.capacity_bytes, conflict.needed_bytes, at, memories)
