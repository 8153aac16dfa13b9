"""A plan with loops replayed in one array of bytes, with the tensors that the model's own runtime makes.

Before a position is computed, the bytes that it reads are taken from the arena where the plan has them, and compared
with the true tensor's; then the true position is written. What is not yet there is noise. So addresses, line buffers
and the schedule are run with real bytes; the arithmetic is the runtime's, and that a position needs no more than its
access says is what `lowtide research probe` proves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind
from lowtide.ops.raster import memory_dims
from lowtide.plan import Plan
from lowtide.rewrites import PlanLoop
from lowtide.verify.check.loop_play import Event, LoopPlay

Array = np.ndarray[Any, np.dtype[Any]]
_NOISE = 0x5A


def broken(why: str) -> VerificationError:
    """An error of the replay."""
    return VerificationError("simulation", why)


@dataclass
class LoopArena:
    """The arena of one run."""

    graph: Graph  # the user's
    plan: Plan
    values: Mapping[int, Array]  # what the runtime made of each tensor that is no constant, by id
    channels_last: bool = False  # whether images lie with their channels last in the arena; they do not in `values`
    # positions, compared_bytes: positions of ops that ran in loops; bytes that were read and compared, of untiled ops
    # too.
    positions: int = 0
    compared_bytes: int = 0
    arena: Array = field(init=False)

    def __post_init__(self) -> None:
        self.arena = np.full(self.plan.arena_bytes or 0, _NOISE, dtype=np.uint8)
        for t in self.graph.tensors:
            if t.kind is not Kind.CONSTANT and t.id in self.values and self.values[t.id].nbytes != t.size:
                size = self.values[t.id].nbytes
                raise InputError(f"{t.label} has {t.size} bytes in the plan and {size} in the runtime", t.label)

    def replay(self) -> None:
        """Run the plan's order. Raises `VerificationError`: ``simulation``: what an op reads is not there."""
        streamed = {int(t) for loop in self.plan.loops or () for t in loop.streamed}
        for t in self.graph.tensors:
            if t.kind is Kind.INPUT and t.id not in streamed:
                self._write(t.id)
        loops = {loop.op: loop for loop in self.plan.loops or ()}
        for o in self.plan.order:
            if o in loops:
                self._loop(loops[o])
            else:
                self._untiled(o)
        for t in self.graph.tensors:
            if t.kind is Kind.OUTPUT:
                self._look(t.id, "the end")

    def bytes_of(self, tensor: int) -> Array | None:
        """Where a complete tensor is; None if it has no bytes in the arena."""
        at, size = self.plan.offset_of(tensor), self.graph.tensor_by_id[tensor].size
        return None if at is None or not size else self.arena[at : at + size]

    def true(self, tensor: int) -> Array:
        """A tensor's bytes as the runtime made them, in the order in which they lie. Raises `InputError` if it does not
        say."""
        if tensor not in self.values:
            raise InputError(f"the runtime does not say what is in {self.graph.tensor_by_id[tensor].label}")
        lying, value = self.lying(tensor), self.values[tensor]
        if lying != tuple(range(len(lying))):
            value = value.reshape(self.graph.tensor_by_id[tensor].shape).transpose(lying)
        return np.ascontiguousarray(value).reshape(-1).view(np.uint8)

    def lying(self, tensor: int) -> tuple[int, ...]:
        """Dimensions of a complete tensor as they are in the arena, the slowest first."""
        return memory_dims(self.graph, tensor, channels_last=self.channels_last)

    def _write(self, tensor: int) -> None:
        room = self.bytes_of(tensor)
        if room is not None:
            room[:] = self.true(tensor)

    def _look(self, tensor: int, who: str) -> None:
        """What a complete tensor holds is compared with what it should."""
        room = self.bytes_of(tensor)
        if room is None:
            return
        self.compared_bytes += room.size
        if not np.array_equal(room, self.true(tensor)):
            raise broken(f"{who} finds other bytes in {self.graph.tensor_by_id[tensor].label}")

    def _untiled(self, op: int) -> None:
        """An op that runs outside of loops."""
        node = self.graph.op_by_id[op]
        for t in dict.fromkeys(node.inputs):
            self._look(t, node.label)
        for t in node.outputs:
            self._write(t)

    def _loop(self, loop: PlanLoop) -> None:
        """A loop, position by position."""
        play = LoopPlay(self.graph, loop)
        places = {t: Positions(self, loop, play, t) for t in play.dims}
        for line_buffer in loop.keep.values():
            if line_buffer.offset is not None:
                self._spoil(loop, line_buffer.offset, line_buffer.slots * line_buffer.bytes)
        outside = {
            op.id: [t for t in dict.fromkeys(op.inputs) if t not in play.dims and self.bytes_of(t) is not None]
            for op in play.ops
        }
        for event in play.events():
            if event.op is None:
                places[event.makes[0]].write(event.position)
            else:
                self._position(loop, play, places, outside, event)

    def _position(
        self,
        loop: PlanLoop,
        play: LoopPlay,
        places: Mapping[int, Positions],
        outside: Mapping[int, list[int]],
        event: Event,
    ) -> None:
        op = event.op
        assert op is not None, event
        self.positions += 1
        last = event.position + 1 == play.count(op)
        for t in outside[op]:
            if str(t) not in loop.behind and (event.position == 0 or last):
                self._look(t, self.graph.op_by_id[op].label)
        if loop.behind:
            self._look_outside(loop, play, event)
        for t, ((a, b), (c, d)) in event.reads:
            for row in range(a, b):
                self.compared_bytes += places[t].look(row, c, d, op)
        for t in event.makes:
            if t in places:
                places[t].write(event.position)
            elif last:
                self._write(t)
            else:
                self._unfinished(loop, t)

    def _spoil(self, loop: PlanLoop, begin: int, size: int) -> None:
        """Noise where nothing is yet, but not over an input that this overwrites."""
        free = np.ones(size, dtype=bool)
        for key in loop.behind:
            at, length = self.plan.offset_of(int(key)) or 0, self.graph.tensor_by_id[int(key)].size
            free[max(0, at - begin) : max(0, at + length - begin)] = False
        self.arena[begin : begin + size][free] = _NOISE

    def _look_outside(self, loop: PlanLoop, play: LoopPlay, event: Event) -> None:
        """What a position reads of an input that the loop writes over is compared with what it should be."""
        assert event.op is not None, event
        op = self.graph.op_by_id[event.op]
        for t, rows in play.outside(op, event.position):
            room = self.bytes_of(t)
            if str(t) in loop.behind and room is not None:
                lying, sizes = self.lying(t), self.graph.tensor_by_id[t].shape or ()
                shape = (*(sizes[d] for d in lying), -1)
                box = tuple(slice(*rows[d]) for d in lying)
                here, true = room.reshape(shape)[box], self.true(t).reshape(shape)[box]
                self.compared_bytes += here.size
                if not np.array_equal(here, true):
                    raise broken(f"{op.label} finds other bytes in {self.graph.tensor_by_id[t].label}")

    def _unfinished(self, loop: PlanLoop, tensor: int) -> None:
        """A result that is not added up yet: where it is being added up there is noise."""
        added = loop.sums.get(str(tensor))
        room = self.bytes_of(tensor)
        if added is not None and added.offset is not None:
            self.arena[added.offset : added.offset + added.bytes] = _NOISE
        if room is not None:
            room[:] = _NOISE


class Positions:
    """Where the positions of a tensor lie while a loop runs, and what they should hold."""

    def __init__(self, arena: LoopArena, loop: PlanLoop, play: LoopPlay, tensor: int) -> None:
        graph = arena.graph
        self.label = graph.tensor_by_id[tensor].label
        self.width = play.sizes(tensor)[1]
        dims, shape = play.dims[tensor], graph.tensor_by_id[tensor].shape or ()
        count = prod(play.sizes(tensor))
        unit = graph.tensor_by_id[tensor].size // prod(shape)
        rows = dict(zip(dims, play.rows(tensor), strict=True))  # each dimension as positions, then the rows of one
        lying = arena.lying(tensor)
        split = [n for d in lying for n in (shape[d] // rows.get(d, 1), rows.get(d, 1))]
        outer = [2 * lying.index(d) for d in dims]
        order = (*outer, *(k for k in range(len(split)) if k not in outer), len(split))
        sizes = tuple(split[k] for k in outer)

        def along(memory: Array) -> Array:
            return memory.reshape(*split, unit).transpose(order)

        self.true = np.ascontiguousarray(along(arena.true(tensor))).reshape(count, -1)
        home = tensor
        while str(home) in loop.keep and loop.keep[str(home)].over is not None:
            home = loop.keep[str(home)].over or 0
        line_buffer = loop.keep.get(str(home))
        self.slots = count if line_buffer is None else line_buffer.slots
        if line_buffer is None:
            room = arena.bytes_of(home)
            if room is None:
                raise broken(f"{self.label} has no place")
            self.room, self.sizes = along(room), sizes
        else:
            begin = line_buffer.offset or 0
            memory = arena.arena[begin : begin + line_buffer.slots * line_buffer.bytes]
            self.room, self.sizes = memory.reshape(line_buffer.slots, line_buffer.bytes), None

    def _at(self, position: int) -> Array:
        """The bytes of a position, as they lie."""
        if self.sizes is None:
            return self.room[position % self.slots]
        return self.room[position] if len(self.sizes) == 1 else self.room[divmod(position, self.width)]

    def write(self, position: int) -> None:
        """Put in what the runtime made."""
        room = self._at(position)
        room[...] = self.true[position].reshape(room.shape)

    def look(self, row: int, first: int, end: int, op: int) -> int:
        """Compare some positions of a row; how many bytes these are."""
        begin, stop = row * self.width + first, row * self.width + end
        if self.sizes is None:
            same = np.array_equal(self.room[np.arange(begin, stop) % self.slots], self.true[begin:stop])
        else:
            same = all(np.array_equal(self._at(p).reshape(-1), self.true[p]) for p in range(begin, stop))
        if not same:
            raise broken(f"op {op} finds other bytes in positions {begin} to {stop} of {self.label}")
        return (stop - begin) * self.true.shape[1]
