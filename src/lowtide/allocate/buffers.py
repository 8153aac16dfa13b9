"""What is to be placed: buffers, and the load bound that no placement beats.

A buffer is a rigid group of rectangles in the plane of steps and bytes. Most are a single rectangle. Where an
op writes in place, its output is inside the storage that it overwrites, so the two are placed as one:

    bytes ^                                  storage A dies at step t, where the op writes its output B
          |  +-----------+                   over the tensor of A that begins `displacement` bytes in;
          |  |     A     |                   while the op runs all of A is still there, and holds B
          |  |           +---------+
          |  |           |    B    |  ^
          |  |           +---------+  | displacement
          |  +-----------+            v
          +--s-----------t+1-------e--> steps

Steps are half-open: a rectangle ``[start, end)`` is there at steps start, start + 1, ..., end - 1. Sizes are
bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from lowtide import _core
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, Overwrite
from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES
from lowtide.sizes import round_up


class Rectangle(NamedTuple):
    """A rectangle: there at steps `start` to `end - 1`, from `low` bytes above its buffer's offset on."""

    start: int
    end: int
    low: int
    size: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """What gets one offset."""

    name: str  # for messages and files
    size: int  # bytes from its offset to its end; every rectangle is inside
    # Ascending by their starts; those there at one step share no byte. None for a buffer that takes no room.
    rectangles: tuple[Rectangle, ...]
    alignment: int = 1  # its offset is a multiple of this, in bytes
    offset: int | None = None  # where it has to lie, or None if that is free

    def __post_init__(self) -> None:
        assert self.alignment > 0, self
        for k, (start, end, low, size) in enumerate(self.rectangles):
            assert start < end, self
            assert size > 0 <= low <= self.size - size, self
            assert not k or self.rectangles[k - 1].start <= start, self
            for other in self.rectangles[:k]:
                assert other.end <= start or other.low + other.size <= low or low + size <= other.low, self

    @property
    def start(self) -> int:
        """First step at which it is there; 0 if it takes no room."""
        return self.rectangles[0].start if self.rectangles else 0

    @property
    def end(self) -> int:
        """Step after the last one at which it is there; 0 if it takes no room."""
        return max((p.end for p in self.rectangles), default=0)

    @property
    def at_once(self) -> bool:
        """Whether several of its rectangles are there at one step."""
        return any(p.end > q.start for p, q in pairwise(self.rectangles))

    @property
    def area(self) -> int:
        """Bytes times steps."""
        return sum((p.end - p.start) * p.size for p in self.rectangles)


def block(name: str, start: int, end: int, size: int, alignment: int = 1) -> Buffer:
    """Buffer of a single rectangle; of none if `size` is 0."""
    return Buffer(name, size, (Rectangle(start, end, 0, size),) if size else (), alignment)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two buffers, by index, that may overlap where both are there at once.

    They may as long as `upper` begins `distance` bytes or more above `lower`; else `upper` ends where `lower` begins,
    or below. An op that writes front to back may so put its output over an input that dies, after what it has read. In
    place is distance 0; the size of `lower` says no more than that upper comes above lower or below it.
    """

    lower: int
    upper: int
    distance: int


@dataclass(frozen=True)
class Problem:
    """What engines place."""

    buffers: tuple[Buffer, ...]  # each gets one offset
    pairs: tuple[Pair, ...] = ()  # those that may overlap; no two buffers twice
    # Two buffers each, by index, that share no byte even if they are never there at the same time. None of them is a
    # pair.
    apart: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        n = len(self.buffers)
        tied = [(p.lower, p.upper) for p in self.pairs] + list(self.apart)
        assert all(0 <= i < n and 0 <= j < n and i != j for i, j in tied), tied
        assert len({frozenset(t) for t in tied}) == len(tied), "two buffers are tied twice"

    @cached_property
    def core(self) -> _core.Buffers:
        """The problem as the native core sees it. Raises `InputError`: two buffers have fixed offsets at which they
        overlap, or all together are too large to count."""
        buffers = self.buffers
        if sum(b.size + b.alignment for b in buffers) + max((b.offset or 0 for b in buffers), default=0) > MAX_BYTES:
            raise InputError(f"the buffers take more than {MAX_BYTES} bytes together")
        core = _core.Buffers(
            [b.size for b in buffers],
            [b.alignment for b in buffers],
            [-1 if b.offset is None else b.offset for b in buffers],
            [(i, start, end, low, size) for i, b in enumerate(buffers) for start, end, low, size in b.rectangles],
            [(p.lower, p.upper, p.distance) for p in self.pairs],
            list(self.apart),
        )
        clash = core.clash()
        if clash >= 0:
            name, offset = buffers[clash].name, buffers[clash].offset
            raise InputError(
                f"buffer {name} cannot be at its fixed offset {offset}: {_who(buffers, clash)} is in the way; "
                "move or free one of them"
            )
        return core

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def load_sections(buffers: Iterable[Buffer]) -> tuple[list[int], list[int]]:
    """Sweep over time: the steps at which something begins or ends, and the bytes live from each one on."""
    change: dict[int, int] = {}
    for buffer in buffers:
        for p in buffer.rectangles:
            change[p.start] = change.get(p.start, 0) + p.size
            change[p.end] = change.get(p.end, 0) - p.size
    steps = sorted(change)
    loads = []
    live = 0
    for step in steps:
        live += change[step]
        loads.append(live)
    return steps, loads


def load_bound(problem: Problem) -> int:
    """Bytes that no placement beats: the most live at once, or the end of the largest or a fixed buffer. What pairs
    may share counts once; a buffer kept apart from all that is live counts with it. Rounded up to the alignment if
    it is the same for all and every size is a multiple of it, for so is then every height."""
    return problem.core.load_bound()


def _who(buffers: Sequence[Buffer], clash: int) -> str:
    """Which fixed buffer has bytes of this one at the same time; one that is only tied to it is not named."""
    mine = buffers[clash]
    for i, other in enumerate(buffers):
        apart = (other.offset or 0) - (mine.offset or 0)
        if i != clash and other.offset is not None:
            for p in mine.rectangles:
                for q in other.rectangles:
                    below, above = p.low - q.size, p.low + p.size
                    if p.start < q.end and q.start < p.end and below < apart + q.low < above:
                        return f"{other.name}, fixed at {other.offset},"
    return "another fixed buffer"


def height_of(problem: Problem, offsets: Iterable[int]) -> int:
    """Bytes that a placement takes."""
    return max((offset + b.size for b, offset in zip(problem.buffers, offsets, strict=True)), default=0)


@dataclass(frozen=True)
class ArenaBuffers:
    """The buffers of an order, and what each holds."""

    # A buffer for each group of storages, by the index of the group's first storage; then the ops' workspaces. Sizes
    # are multiples of the alignment, but for rectangles that are unaligned in their buffer: those are exact.
    problem: Problem
    # Index of a storage to its buffer's index and the storage's bytes above that buffer's offset.
    place_of: dict[int, tuple[int, int]]
    workspace_of: dict[int, int]  # op id to the index of the buffer that is its workspace
    # The overwrites that the buffers respect; those with a distance are pairs of the problem.
    in_place: tuple[Overwrite, ...]


def arena_buffers(
    model: MemoryModel,
    order: Sequence[int],
    overwrites: Iterable[Overwrite],
    alignment: int,
    lifetimes: Profile | None = None,
) -> ArenaBuffers:
    """Make the buffers of an order given as positions in file order.

    An output is exactly over the input that it overwrites, and so at no multiple of the alignment where that input
    is part of a storage and does not.

    `model`: graph under a target. `order`: each position once, topological. `overwrites`: each of a storage that dies
    at its op. Of those without a distance at most one per op, as `profile(model, order).in_place` gives them.
    `alignment`: bytes. `lifetimes`: `profile(model, order)`, if it is known already.
    """
    lifetimes = lifetimes or profile(model, order)
    into: dict[int, tuple[int, int]] = {}
    applied = tuple(overwrites)
    paired = []
    for o in applied:
        assert order[lifetimes.last[o.storage]] == o.op, f"storage {o.storage} does not die at op {o.op}"
        if o.distance is not None:
            paired.append((model.storage_of[o.output], o.storage, o.distance))
        else:
            assert o.storage not in into, f"storage {o.storage} is overwritten twice"
            into[o.storage] = (model.storage_of[o.output], model.displacement[o.input])
    steps = max(len(order), 1)
    made = _StorageBuffers(model, alignment, lifetimes.first, [min(last + 1, steps) for last in lifetimes.last], into)
    buffers = made.buffers()
    workspace_of: dict[int, int] = {}
    step_of = {i: step for step, i in enumerate(order)}
    for i, op in enumerate(model.graph.ops):
        if model.workspace[i]:
            workspace_of[op.id] = len(buffers)
            size = round_up(model.workspace[i], alignment)
            buffers.append(block(f"workspace of {op.label}", step_of[i], step_of[i] + 1, size, alignment))
    place_of = made.place_of
    pairs = tuple(Pair(place_of[lower][0], place_of[upper][0], d) for lower, upper, d in paired)
    return ArenaBuffers(Problem(tuple(buffers), pairs), place_of, workspace_of, applied)


@dataclass
class _StorageBuffers:
    """Makes the buffers of storages, each live in steps ``[first, end)``.

    `into`: an overwritten storage to that which is written over it, and how many bytes above its start. `place_of` is
    filled as in `ArenaBuffers`.
    """

    model: MemoryModel
    alignment: int
    first: Sequence[int]
    end: Sequence[int]
    into: dict[int, tuple[int, int]]
    place_of: dict[int, tuple[int, int]] = field(default_factory=dict)

    def buffers(self) -> list[Buffer]:
        """A buffer for each group of storages, and each storage without a group, that overwrites no other."""
        model, made = self.model, list[Buffer]()
        group_of = {group[0][0]: group for group in model.groups}
        inner = {s for group in model.groups for s, _ in group[1:]} | {s for s, _ in self.into.values()}
        for root, storage in enumerate(model.storages):
            if root in inner or storage.size == 0:
                continue
            group = group_of.get(root, ((root, 0),))
            size = round_up(max(low + model.storages[s].size for s, low in group), self.alignment)
            rectangles = sorted(p for s, low in group for p in self._rectangles(len(made), s, low, root in group_of))
            name = model.graph.tensor_by_id[storage.tensors[0]].label
            offset = None
            if model.target.fixed:
                held = [(s, above) for s, (b, above) in self.place_of.items() if b == len(made)]
                offset = _fixed_offset(model, held, self.alignment)
            made.append(Buffer(name, size, tuple(rectangles), self.alignment, offset))
        return made

    def _rectangles(self, buffer: int, storage: int, low: int, exact: bool) -> Iterator[Rectangle]:
        """The rectangles of a storage `low` bytes above its buffer's offset, and of what is written over it in turn.
        Sizes are rounded up to the alignment, unless `exact`."""
        size = self.model.storages[storage].size
        rectangle = Rectangle(
            max(self.first[storage], 0), self.end[storage], low, size if exact else self._rounded(low, size)
        )
        self.place_of[storage] = (buffer, low)
        while storage in self.into:
            storage, displacement = self.into[storage]
            low += displacement
            self.place_of[storage] = (buffer, low)
            size = self.model.storages[storage].size
            if not exact:
                size = self._rounded(low, size)
            end = self.end[storage]
            if (rectangle.low, rectangle.size) == (low, size):
                rectangle = rectangle._replace(end=end)
            elif rectangle.end < end:
                yield rectangle
                rectangle = Rectangle(rectangle.end, end, low, size)
        yield rectangle

    def _rounded(self, low: int, size: int) -> int:
        return size if low % self.alignment else round_up(size, self.alignment)


def _fixed_offset(model: MemoryModel, held: Iterable[tuple[int, int]], alignment: int) -> int | None:
    """Where the target fixes a buffer that holds storages, each so many bytes above its offset; None if it is free."""
    agreed: int | None = None
    for s, above in held:
        for t in model.storages[s].tensors:
            tensor = model.graph.tensor_by_id[t]
            fixed = model.target.offset(tensor)
            if fixed is None:
                continue
            offset = fixed - above - model.displacement[t]
            if offset < 0 or offset % alignment:
                raise InputError(
                    f"{tensor.label} is fixed at {fixed}, which puts its storage at {offset}; that must be a multiple "
                    f"of {alignment}",
                    model.graph.source or model.graph.name,
                )
            if agreed is not None and agreed != offset:
                raise InputError(
                    f"{tensor.label} is fixed at {fixed}, where another tensor of its storage does not allow it",
                    model.graph.source or model.graph.name,
                )
            agreed = offset
    return agreed
