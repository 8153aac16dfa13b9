"""A loop of a plan, position by position, as the checker works it out from `docs/transformations.md`.

The driving op's positions are requested one after the other. Before an op runs a position, it requests what that
position needs and is not made, operand by operand. When a position is made, ops of which the driving op needs nothing
run as far as they can. At the end the remaining positions of all results that leave are requested, op by op.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Access
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import meaning
from lowtide.rewrites import PlanLoop

T = TypeVar("T")

Rows = tuple[int, int]
Span = tuple[Rows, Rows]
"""Rows of the first dimension and of the second one, half-open; of one dimension the second is ``(0, 1)``."""


_Table = tuple[int, list[Rows]]
"""Which of an op's axes, the first or the second, and the rows that each row of it reads."""


def fail(why: str) -> VerificationError:
    """An error about the loops of a plan."""
    return VerificationError("loops", why)


@dataclass(frozen=True)
class Event:
    """Position `position` of op `op` runs (None: an input's is streamed in); it reads `reads`, and makes `makes`."""

    op: int | None
    position: int
    reads: tuple[tuple[int, Span], ...]
    makes: tuple[int, ...]


@dataclass
class LoopPlay:
    """A loop as the checker plays it."""

    graph: Graph
    loop: PlanLoop
    ops: list[Op] = field(init=False)
    access: dict[int, Access] = field(init=False)  # of each op
    along: dict[int, tuple[int, ...]] = field(init=False)  # axes of each op
    dims: dict[int, tuple[int, ...]] = field(init=False)  # dimensions of each tensor that is kept or written in tiles
    given: list[int] = field(init=False)  # inputs that are streamed in
    _tables: dict[int, list[tuple[int, _Table, _Table]]] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)
    _sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    _maker: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loop, graph = self.loop, self.graph
        if len(set(loop.ops)) != len(loop.ops):
            raise fail(f"loop {loop.op} has an op twice")
        self.ops = [graph.op_by_id[o] for o in loop.ops]
        self.access = {}
        for op in self.ops:
            known = meaning(graph, op)
            tied = op.after or op.writes or any(op.id in other.after for other in graph.ops)
            if known is None or known.random or known.mutates or op.bodies or tied:
                raise fail(f"{op.label} cannot run in tiles")
            self.access[op.id] = known.access
        self.along = {o: tuple(axes) for o, axes in ids_of(loop.along) if o in self.access}
        self.dims = {t: tuple(dims) for t, dims in ids_of(loop.axis)}
        self.given = [int(t) for t in loop.streamed]
        if set(self.along) != set(self.access) or len(loop.along) != len(self.along):
            raise fail(f"loop {loop.op} does not say the axes of each of its ops")
        for t, dims in self.dims.items():
            shape = graph.tensor_by_id[t].shape if t in graph.tensor_by_id else None
            if shape is None or any(not 0 <= d < len(shape) for d in dims) or not 1 <= len(dims) <= 2:
                raise fail(f"tensor {t} has no dimensions {dims}")
        for op in self.ops:
            self._check_axes(op)
        made = [t for op in self.ops for t in op.outputs]
        self._maker.update({t: op.id for op in self.ops for t in op.outputs})
        for op in self.ops:
            for t, _ in self.operands(op):
                if t not in self.dims and (t in made or t in self.given):
                    raise fail(f"{op.label} reads tensor {t} before it is complete")
        if set(self.dims) - set(made) - set(self.given):
            raise fail(f"loop {loop.op} says dimensions of a tensor that it does not make")
        if loop.parts != self.count(self.ops[-1].id):
            raise fail(f"loop {loop.op} has {self.count(self.ops[-1].id)} parts; the plan says {loop.parts}")

    def _check_axes(self, op: Op) -> None:
        """An op runs along one or two axes that can be cut, all of them of its results, or all summed over."""
        access, axes = self.access[op.id], self.along[op.id]
        levels = {len(a) for a in self.along.values()} | {len(d) for d in self.dims.values()}
        if len(levels) != 1 or len(set(axes)) != len(axes) or any(not 0 <= a < len(access.sizes) for a in axes):
            raise fail(f"{op.label} has no axes {axes}")
        if any(access.sizes[a] % access.grain_of(a) for a in axes):
            raise fail(f"{op.label} cannot run in equal groups of rows of axes {axes}")
        summed = [a in access.reduce for a in axes]
        if any(summed) and not all(summed):
            raise fail(f"{op.label} sums over one of axes {axes}, and not the other")
        if (access.exact if not any(summed) else "bits") == "never":
            raise fail(f"{op.label} cannot run in tiles")
        for j, t in enumerate(op.outputs):
            listed = access.outputs[j]
            dims = None if any(summed) else tuple(listed.index(a) for a in axes)
            if self.dims.get(t) != dims:
                raise fail(f"tensor {t} is made along dimensions {dims}; the plan says {self.dims.get(t)}")

    def summed(self, op: int) -> bool:
        """Whether an op adds its positions up."""
        return self.along[op][0] in self.access[op].reduce

    def count(self, op: int) -> int:
        """Positions of an op."""
        if op not in self._counts:
            self._counts[op] = prod(self._groups(op, a) for a in self.along[op])
        return self._counts[op]

    def _groups(self, op: int, axis: int) -> int:
        """Positions of an op along an axis: rows, or as many at once as no cut divides."""
        return self.access[op].sizes[axis] // self.access[op].grain_of(axis)

    def rows(self, tensor: int) -> list[int]:
        """Rows that a position has of each dimension along which a tensor is there in parts: as many as its maker makes
        at once."""
        maker = self._maker.get(tensor)
        if maker is None:
            return [1] * len(self.dims[tensor])
        access = self.access[maker]
        along = access.outputs[self.graph.op_by_id[maker].outputs.index(tensor)]
        return [1 if (axis := along[d]) is None else access.grain_of(axis) for d in self.dims[tensor]]

    def sizes(self, tensor: int) -> tuple[int, int]:
        """Positions of a tensor along its first dimension and along its second one."""
        if tensor not in self._sizes:
            shape = self.graph.tensor_by_id[tensor].shape or ()
            many = [shape[d] // rows for d, rows in zip(self.dims[tensor], self.rows(tensor), strict=True)]
            self._sizes[tensor] = (many[0], many[1] if len(many) == 2 else 1)
        return self._sizes[tensor]

    def position(self, op: int, number: int) -> tuple[int, ...]:
        """A position's index along each of an op's axes, the last one innermost."""
        along = self.along[op]
        return (number,) if len(along) == 1 else divmod(number, self._groups(op, along[1]))

    def operands(self, op: Op) -> list[tuple[int, tuple[Index | None, ...]]]:
        """Operands that are no constants, with how each is read."""
        given = op.operands or op.inputs
        known = self.access[op.id].inputs
        return [
            (t, known[i] or ())
            for i, t in enumerate(given)
            if t is not None and self.graph.tensor_by_id[t].kind is not Kind.CONSTANT
        ]

    def reads(self, op: Op, number: int) -> tuple[tuple[int, Span], ...]:
        """Of each tensor that is there in parts the rows that one position of an op reads."""
        if op.id not in self._tables:
            self._tables[op.id] = [(t, *self._table(op.id, read, t)) for t, read in self.operands(op) if t in self.dims]
        at = self.position(op.id, number)
        return tuple((t, (rows[at[i]], columns[at[j]])) for t, (i, rows), (j, columns) in self._tables[op.id])

    def outside(self, op: Op, number: int) -> list[tuple[int, tuple[Rows, ...]]]:
        """Of each operand that is materialised outside of the loop the rows of each dimension that one position
        reads."""
        at: dict[int, Rows] = {}
        for axis, k in zip(self.along[op.id], self.position(op.id, number), strict=True):
            grain = self.access[op.id].grain_of(axis)
            at[axis] = (k * grain, (k + 1) * grain - 1)
        result = []
        for t, read in self.operands(op):
            if t not in self.dims:
                shape = self.graph.tensor_by_id[t].shape or ()
                result.append((t, tuple(_rows(index, at, size) for index, size in zip(read, shape, strict=True))))
        return result

    def _table(self, op: int, read: Sequence[Index | None], tensor: int) -> tuple[_Table, _Table]:
        """Positions along a tensor's first and second dimension for each position along the axis that they go with."""
        shape = self.graph.tensor_by_id[tensor].shape or ()
        result = []
        for d, unit in zip(self.dims[tensor], self.rows(tensor), strict=True):
            index = read[d]
            axis = None if index is None or index.axis not in self.along[op] else index.axis
            level = 0 if axis is None else self.along[op].index(axis)
            grain = self.access[op].grain_of(self.along[op][level])
            listed: list[Rows] = []
            for k in range(self._groups(op, self.along[op][level])):
                first, end = _rows(index, {} if axis is None else {axis: (k * grain, (k + 1) * grain - 1)}, shape[d])
                listed.append((first // unit, -(-end // unit)))
            result.append((level, listed))
        many = self._groups(op, self.along[op][0])
        return result[0], result[1] if len(result) == 2 else (0, [(0, 1)] * many)

    def events(self) -> Iterator[Event]:
        """All positions that run or are streamed in, in turn."""
        return _Replay(self).events()

    def asides(self) -> tuple[set[int], list[int]]:
        """Ops of which the driving op needs nothing, not through others either; and those of them that run as far as
        they can whenever a position is there, the last one first: they read, themselves or through such ops, of what
        other ops make."""
        maker = {t: op for op in self.ops for t in op.outputs}
        aside = set(self.access)
        needed = [self.ops[-1]]
        while needed:
            op = needed.pop()
            if op.id in aside:
                aside.remove(op.id)
                needed += [maker[t] for t, _ in self.operands(op) if t in maker]
        makers = {o: {maker[t].id if t in maker else -1 for t, _ in self.operands(self.graph.op_by_id[o])
                      if t in self.dims} for o in aside}  # fmt: skip
        late: set[int] = set()
        while more := {o for o in aside - late if makers[o] - aside or makers[o] & late}:
            late |= more
        return aside, [op.id for op in reversed(self.ops) if op.id in late]


class _Replay:
    """A loop while it runs: how far each op and each tensor is."""

    def __init__(self, play: LoopPlay) -> None:
        self.play, self.driver = play, play.ops[-1]
        self.maker = {t: op for op in play.ops for t in op.outputs}
        self.aside, late = play.asides()
        self.late = [play.graph.op_by_id[o] for o in late]
        self.done = dict.fromkeys(play.access, 0)
        self.made = dict.fromkeys(play.dims, 0)
        self.streamed = dict.fromkeys(play.given, 0)
        self.waits: dict[int, tuple[int, int]] = {}  # of an op the positions of a tensor without which it cannot run
        self.wanted: dict[int, tuple[tuple[int, Span], ...]] = {}  # of an op what its next position reads

    def events(self) -> Iterator[Event]:
        """The driving op's positions, each with what it needs; then what is left of the ops whose results leave."""
        play = self.play
        for _ in range(play.loop.parts):
            yield from self._request(self.driver)
        read = {t for op in play.ops for t, _ in play.operands(op)}
        for op in play.ops[:-1]:
            leaves = not read.intersection(op.outputs) or any(str(t) not in play.loop.keep for t in op.outputs)
            while leaves and not self._is_done(op):
                yield from self._request(op)

    def _is_done(self, op: Op) -> bool:
        return self.done[op.id] == self.play.count(op.id)

    def _reads(self, op: Op) -> tuple[tuple[int, Span], ...]:
        if op.id not in self.wanted:
            self.wanted[op.id] = self.play.reads(op, self.done[op.id])
        return self.wanted[op.id]

    def _missing(self, op: Op) -> tuple[int, int] | None:
        """A tensor, and positions of it that an op needs and that are not made; None if the op can run."""
        for t, ((first, end), (left, last)) in self._reads(op):
            least = (end - 1) * self.play.sizes(t)[1] + last
            if first < end and left < last and self.made[t] < least:
                return t, least
        return None

    def _run(self, op: Op) -> Event:
        """Run an op's next position."""
        event = Event(op.id, self.done[op.id], self._reads(op), op.outputs)
        del self.wanted[op.id]
        self.done[op.id] += 1
        for t in op.outputs:
            if t in self.made:
                self.made[t] += 1
        return event

    def _request(self, op: Op) -> Iterator[Event]:
        """Run an op's next position, after what it needs."""
        waiting: list[Op | int] = [op]
        while waiting:
            top = waiting[-1]
            if isinstance(top, int):
                yield Event(None, self.streamed[top], (), (top,))
                self.streamed[top] += 1
                self.made[top] += 1
            elif self._is_done(top):
                waiting.pop()
                continue
            elif (needed := self._missing(top)) is not None:
                waiting.append(needed[0] if needed[0] in self.streamed else self.maker[needed[0]])
                continue
            else:
                yield self._run(top)
            waiting.pop()
            yield from self._keep_up()

    def _keep_up(self) -> Iterator[Event]:
        """Run the ops of which the driving op needs nothing, as far as they can."""
        while (now := next((o for op in self.late if (o := self._ready(op)) is not None), None)) is not None:
            yield self._run(now)

    def _ready(self, op: Op) -> Op | None:
        """The op, or one that it waits for and of which the driving op needs nothing either, if that can run."""
        t, least = self.waits.get(op.id, (-1, 0))
        if self._is_done(op) or self.made.get(t, 0) < least:
            return None
        at = op
        while (needed := self._missing(at)) is not None:
            if needed[0] in self.streamed or self.maker[needed[0]].id not in self.aside:
                self.waits[op.id] = needed
                return None
            at = self.maker[needed[0]]
        return at


def _rows(index: Index | None, at: Mapping[int, Rows], size: int) -> Rows:
    """Rows of a dimension that one position reads, its first and last row of an axis given; all of them unless it runs
    along an axis of the loop."""
    if index is None:
        return (0, size)
    if index.axis == FIXED:
        low, high = index.lo, index.hi
    elif index.axis in at:
        first, last = at[index.axis] if index.num >= 0 else at[index.axis][::-1]
        low, high = (first * index.num + index.lo) // index.den, (last * index.num + index.hi) // index.den
    else:
        return (0, size)
    low, high = max(0, low), min(size - 1, high)
    return (low, high + 1) if low <= high else (0, 0)


def ids_of(table: Mapping[str, T]) -> list[tuple[int, T]]:
    """A table of the plan with ids for keys. Raises `VerificationError`: ``loops``: an id is written otherwise than in
    the other tables, which look it up by its text. Raises `ValueError`: a key is no number."""
    for key in table:
        if str(int(key)) != key:
            raise fail(f"{key!r} is no id")
    return [(int(key), value) for key, value in table.items()]
