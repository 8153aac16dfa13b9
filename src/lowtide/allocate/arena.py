"""The front door: the arena of an order, and the placement of plain buffers.

An engine packs buffers. `allocate_best` asks the engines in turn and stops at a proof; a new one is one more entry in
`ENGINES`. An arena that the quick ones get down to the load bound costs nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, runtime_checkable

from lowtide.allocate.buffers import ArenaBuffers, Buffer, Problem, arena_buffers, load_sections
from lowtide.allocate.clique import Cliques
from lowtide.allocate.cp_sat import CpSat
from lowtide.allocate.exact import ExactFit
from lowtide.allocate.greedy import Packing, Portfolio
from lowtide.allocate.peak_first import PeakFirst
from lowtide.allocate.squeaky import MOST_FOR_WHEEL, SqueakyWheel, Sweep
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, Overwrite
from lowtide.errors import InputError
from lowtide.sizes import round_up
from lowtide.stop import Limits, count


class Engine(Protocol):
    """A way to pack buffers."""

    name: ClassVar[str]

    def supports(self, problem: Problem) -> str | None:
        """None if the engine can pack this, else the reason why not, in a few words."""
        ...

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Pack within the limits; the result holds every buffer."""
        ...


@runtime_checkable
class Improver(Engine, Protocol):
    """An engine that goes on from what is known already."""

    def improve(self, problem: Problem, limits: Limits, best: Packing) -> Packing:
        """Pack lower than `best`, or prove more; else return it."""
        ...


ENGINES: tuple[Engine, ...] = (Portfolio(), PeakFirst(), Sweep(), SqueakyWheel(), ExactFit())
"""In the order in which they run; the first one packs everything."""

THOROUGH: tuple[Engine, ...] = (
    *ENGINES[:-1],
    Cliques(),
    ExactFit(work=1_000_000_000, question=40_000_000),
    CpSat(),
    ExactFit(work=None, question=160_000_000),
)
"""For plain buffers: a bound for those kept apart, more of the exact search, CP-SAT for a second opinion, then that
search until the time is over."""


_BUFFER = 100_000  # nanoseconds for a buffer and the quick engines
MOST_FOR_FREER = 20_000  # up to this many buffers, an arena above its bound is retried with fewer overwrites


@dataclass(frozen=True)
class Allocation:
    """The arena of an order."""

    # Tensor id to bytes from the arena's start: the storage's offset plus the tensor's displacement. Every tensor that
    # takes room; no others.
    offsets: dict[int, int]
    workspace_offsets: dict[int, int]  # op id to the offset of its workspace; ops without one are absent
    arena_bytes: int  # size of the arena: the end of whatever ends highest, rounded up to the alignment
    # No arena for this order and these in-place choices is smaller, sizes rounded up to the alignment.
    lower_bound_bytes: int
    # Pairs of output and input tensor id that share memory, in the order of the steps.
    in_place: tuple[tuple[int, int], ...]
    # Pairs that were requested and are not in place: the arena is smaller without them and the peak no larger.
    dropped: tuple[tuple[int, int], ...]
    method: str  # which engine, or which of its rules, placed them
    counters: dict[str, int] = field(default_factory=dict)  # the engine's own figures
    # Output and input tensor id that share memory in part, or at different offsets, and the bytes they share.
    overlap: tuple[tuple[int, int, int], ...] = ()
    interrupted: bool = False  # whether the user stopped an engine

    @property
    def optimal(self) -> bool:
        """Whether no arena for this order and these in-place choices is smaller."""
        return self.arena_bytes == self.lower_bound_bytes


@dataclass(frozen=True)
class BufferAllocation:
    """Offsets of plain buffers. `fits`: whether they fit the capacity; None if unknown, or none was given."""

    offsets: dict[str, int]
    height_bytes: int
    lower_bound_bytes: int
    fits: bool | None
    method: str
    counters: dict[str, int]
    interrupted: bool = False

    @property
    def optimal(self) -> bool:
        """Whether the height is proved optimal."""
        return self.height_bytes == self.lower_bound_bytes


def allocate(
    model: MemoryModel,
    order: Sequence[int],
    overwrites: Iterable[Overwrite],
    alignment: int | None = None,
    limits: Limits | None = None,
    engines: Sequence[Engine] = ENGINES,
    lifetimes: Profile | None = None,
) -> Allocation:
    """Place what an order needs in one arena.

    If the first engine's arena is above the load bound, it is tried once more without those overwrites that the peak
    does not need, and the smaller arena is kept (up to `MOST_FOR_FREER` buffers).

    `model`: graph under a target. `order`: positions in file order, each once, topological. `overwrites`: the in-place
    choices, as `profile(model, order).in_place` gives them. `alignment`: bytes; the target's if not given. `limits`:
    for engines that search. `engines`: to be run in turn; the first one packs everything. `lifetimes`:
    `profile(model, order)`, if it is known already.
    """
    lifetimes = lifetimes or profile(model, order)
    alignment = model.alignment if alignment is None else alignment
    limits = limits or Limits()
    dying = (o for step, i in enumerate(order) for o in model.overwrites[i] if lifetimes.last[o.storage] == step)
    wanted = tuple(overwrites if model.target.overlap == "never" else dying)
    arena = arena_buffers(model, order, wanted, alignment, lifetimes)
    count(_BUFFER * len(arena.problem.buffers))
    packing = allocate_best(arena.problem, limits, engines[:1])
    if not packing.optimal and len(arena.problem.buffers) <= MOST_FOR_FREER:
        needed = arena.in_place if arena.problem.pairs else _needed(model, order, arena, alignment, lifetimes)
        if len(needed) < len(arena.in_place):
            freer = arena_buffers(model, order, needed, alignment, lifetimes)
            other = allocate_best(freer.problem, limits, engines[:1])
            if other.height_bytes < packing.height_bytes:
                arena, packing = freer, other
    if arena.problem.pairs:
        # What an op can share counts in the footprint: no placement needs less than the largest of them.
        least = round_up(lifetimes.peak, alignment)
        packing = replace(packing, lower_bound_bytes=max(packing.lower_bound_bytes, least))
    packing = allocate_best(arena.problem, limits, engines[1:], packing)
    return _allocation(model, order, arena, packing, wanted)


def _allocation(
    model: MemoryModel, order: Sequence[int], arena: ArenaBuffers, packing: Packing, wanted: Sequence[Overwrite]
) -> Allocation:
    """The allocation of packed buffers: offsets of tensors, and which of the requested overwrites hold there."""
    storage_offset = {s: packing.offsets[b] + above for s, (b, above) in arena.place_of.items()}
    tensors = model.graph.tensor_by_id
    offsets = {
        t: storage_offset[s] + model.displacement[t]
        for t, s in model.storage_of.items()
        if s in storage_offset and tensors[t].size
    }
    step_of = {i: step for step, i in enumerate(order)}
    in_place, overlap = [], []
    for o in sorted(arena.in_place, key=lambda o: step_of[o.op]):
        (low, size), (at, read) = ((offsets[t], tensors[t].size) for t in (o.output, o.input))
        shared = min(low + size, at + read) - max(low, at)
        if o.distance is None or (low == at and size == read):
            in_place.append((o.output, o.input))
        elif shared > 0:
            overlap.append((o.output, o.input, shared))
    kept = {o.op for o in arena.in_place}
    return Allocation(
        offsets,
        {op: packing.offsets[b] for op, b in arena.workspace_of.items()},
        packing.height_bytes,
        packing.lower_bound_bytes,
        tuple(in_place),
        tuple((o.output, o.input) for o in wanted if o.op not in kept),
        packing.engine,
        packing.counters,
        tuple(overlap),
        packing.interrupted,
    )


def allocate_best(
    problem: Problem, limits: Limits, engines: Sequence[Engine] = ENGINES, best: Packing | None = None
) -> Packing:
    """Run the engines in turn, keep the lowest packing and the highest bound, and stop when they meet.

    `best`: a packing that is known already. Problems of more than `MOST_FOR_WHEEL` buffers mostly are networks of many
    equal cells, whose live bytes have many equal maxima: for these `PeakFirst`, which starts at the highest one, runs
    last.
    """
    if len(problem.buffers) > MOST_FOR_WHEEL:
        engines = sorted(engines, key=lambda engine: isinstance(engine, PeakFirst))
    for engine in engines:
        enough = -1 if limits.enough_bytes is None else limits.enough_bytes
        if best is not None and (best.optimal or best.height_bytes <= enough or best.interrupted):
            break
        if engine.supports(problem) is not None:
            continue
        if best is None:
            packing = engine.pack(problem, limits)
        else:
            go_on = isinstance(engine, Improver)
            packing = engine.improve(problem, limits, best) if go_on else engine.pack(problem, limits)
            bound = max(best.lower_bound_bytes, packing.lower_bound_bytes)
            kept = packing if packing.height_bytes < best.height_bytes else best
            counters = best.counters | packing.counters
            packing = Packing(kept.offsets, kept.height_bytes, bound, kept.engine, counters, packing.interrupted)
        best = packing
    assert best is not None, "no engine packs this problem"
    return best


def allocate_buffers(
    problem: Problem, capacity: int | None = None, limits: Limits | None = None, engines: Sequence[Engine] = THOROUGH
) -> BufferAllocation:
    """Place plain buffers, with names of their own, as low as can be. With a capacity the question is whether they
    fit: the search ends with the first placement that does, or with the proof that there is none. Raises
    `InputError`: two buffers have one name, or fixed offsets at which they overlap or are not aligned."""
    names: set[str] = set()
    for b in problem.buffers:
        if b.name in names:
            raise InputError(f"two buffers are named {b.name}; give every buffer a name of its own")
        names.add(b.name)
        if b.offset is not None and b.offset % b.alignment:
            raise InputError(f"buffer {b.name} has offset {b.offset}, no multiple of its alignment {b.alignment}")
    limits = limits or Limits()
    packing = allocate_best(problem, limits if capacity is None else replace(limits, enough_bytes=capacity), engines)
    fits = None
    if capacity is not None and packing.height_bytes <= capacity:
        fits = True
    elif capacity is not None and packing.lower_bound_bytes > capacity:
        fits = False
    return BufferAllocation(
        {b.name: offset for b, offset in zip(problem.buffers, packing.offsets, strict=True)},
        packing.height_bytes,
        packing.lower_bound_bytes,
        fits,
        packing.engine,
        packing.counters,
        packing.interrupted,
    )


def _needed(
    model: MemoryModel, order: Sequence[int], arena: ArenaBuffers, alignment: int, lifetimes: Profile
) -> tuple[Overwrite, ...]:
    """Overwrites without which the peak would rise, in exact bytes or in aligned ones. An overwrite lowers the
    footprint of its own step only, so each is judged alone."""
    step_of = {i: step for step, i in enumerate(order)}
    needed: set[Overwrite] = set()
    for unit in {1, alignment}:
        same = arena if unit == alignment else arena_buffers(model, order, arena.in_place, unit, lifetimes)
        loads = _load_per_step(same.problem.buffers, len(order))
        peak = max(loads)
        for o in arena.in_place:
            saving = round_up(o.saving, unit)
            if loads[step_of[o.op]] + saving > peak:
                needed.add(o)
    return tuple(o for o in arena.in_place if o in needed)


def _load_per_step(buffers: Sequence[Buffer], steps: int) -> list[int]:
    at, loads = load_sections(buffers)
    result: list[int] = []
    for k, load in enumerate(loads):
        until = at[k + 1] if k + 1 < len(at) else steps
        result += [load] * (until - at[k]) if k else [0] * at[0] + [load] * (until - at[0])
    return result
