"""Segments played call by call on an arena of labels: every byte that a call reads is what was written there for it.

Nothing of the search is used but its result. Each byte of the arena has the label of what it holds: a row of a tensor,
accumulators, or scratch. A call's operands must still have their labels; its result and scratch get theirs.
"""

from __future__ import annotations

import numpy as np

from lowtide.emit.cmsis_nn.arena import Arena, Key, scratch_of, sums_of
from lowtide.emit.cmsis_nn.choice import Chosen
from lowtide.emit.cmsis_nn.layers import IN_PLACE, NO_TENSOR, Layer, Layers
from lowtide.emit.cmsis_nn.stripes import Call, Flow, Move, Segment
from lowtide.errors import VerificationError
from lowtide.graph import Kind

_SCRATCH = -1
Bytes = tuple[int, int]
"""Of the arena, half-open."""


class _Play:
    def __init__(self, layers: Layers, arena: Arena) -> None:
        self.layers, self.arena, self.flow = layers, arena, Flow(layers)
        self.labels = np.zeros(arena.size, np.int64)
        self.fronts: dict[int, int] = {}
        self.done = dict.fromkeys(range(len(layers.listed)), 0)

    def label(self, tensor: int, row: int) -> int:
        """Of a row; row -1: accumulators."""
        return 1 + tensor * (1 << 24) + row + 1

    def row(self, tensor: int, row: int) -> Bytes:
        """Where a row is."""
        size = self.layers.row_bytes(tensor)
        key: Key = ("rows" if tensor in self.fronts else "tensor", tensor)
        begin = self.arena.at[key] + (row - self.fronts.get(tensor, 0)) * size
        return begin, begin + size

    def write(self, place: Bytes, label: int, why: str) -> None:
        """Bytes hold something new."""
        if not 0 <= place[0] <= place[1] <= self.arena.size:
            raise VerificationError("arena", f"{why}: writes bytes {place} of {self.arena.size}")
        self.labels[place[0] : place[1]] = label

    def read(self, tensor: int, row: int, why: str) -> Bytes:
        """A row must be there."""
        place = self.row(tensor, row)
        if not (self.labels[place[0] : place[1]] == self.label(tensor, row)).all() or place[0] < 0:
            raise VerificationError("arena", f"{why}: row {row} of tensor {tensor} is not where it is read")
        return place

    def complete(self, tensor: int) -> None:
        """All rows of a tensor are written."""
        for row in range(self.layers.height(tensor)):
            self.write(self.row(tensor, row), self.label(tensor, row), f"tensor {tensor}")

    def call(self, call: Call, scratch: Bytes, sums: dict[int, int]) -> None:
        """One call."""
        layer = self.layers.listed[call.layer]
        why = layer.op.label
        if call.first != self.done[call.layer]:
            raise VerificationError("arena", f"{why}: rows from {call.first} on follow {self.done[call.layer]}")
        self.done[call.layer] = call.end
        read = [
            (row, self.read(o.tensor, row, why))
            for o in layer.operands
            for row in range(*self.layers.reads(layer, o, call.first, call.end))
            if o.tensor != layer.result  # of the other branch of an IF
        ]
        own = [scratch] if self.layers.scratch(layer, call.first, call.end) else []
        if layer.result in sums:
            at = self.arena.at[("sums", layer.result)]
            own.append((at, at + sums[layer.result]))
            label = self.label(layer.result, -1)
            if call.first and not (self.labels[at : own[-1][1]] == label).all():
                raise VerificationError("arena", f"{why}: its sums were overwritten")
        made = self._rows_written(layer, call)
        for place in own:
            if any(_meet(place, other) for *_, other in (*read, *made)):
                raise VerificationError("arena", f"{why}: its scratch is not its own")
            self.write(place, _SCRATCH if place == scratch else self.label(layer.result, -1), why)
        for tensor, row, place in made:
            for from_row, other in read:  # in place, rows before this one have been read
                in_turn = layer.kind in IN_PLACE and (from_row < row or place[0] <= other[0])
                if _meet(place, other) and not in_turn:
                    raise VerificationError("arena", f"{why}: it writes over what the call reads")
            self.write(place, self.label(tensor, row), why)

    def _rows_written(self, layer: Layer, call: Call) -> list[tuple[int, int, Bytes]]:
        """Tensor and rows that a call writes, and where."""
        if layer.result == NO_TENSOR:
            return []
        more = [(t, row, self.row(t, row)) for t in layer.more for row in range(self.layers.height(t))]
        last = call.end == layer.rows
        if layer.writes_last or not layer.streams:
            rows = range(self.layers.height(layer.result)) if last else range(0)
        else:
            rows = range(call.first, call.end)
        return [*((layer.result, row, self.row(layer.result, row)) for row in rows), *more]

    def move(self, move: Move) -> None:
        """Rows that are still needed go to the front."""
        front = self.fronts[move.tensor]
        moved = [self.read(move.tensor, front + move.rows + i, "a move") for i in range(move.kept)]
        labels = [self.labels[a:b].copy() for a, b in moved]
        self.fronts[move.tensor] = front + move.rows
        for i, kept in enumerate(labels):
            begin, end = self.row(move.tensor, front + move.rows + i)
            self.labels[begin:end] = kept

    def play(self, part: Segment) -> None:
        """A segment."""
        self.fronts = dict.fromkeys(part.buffers, 0)
        begin = self.arena.at.get(("scratch", part.begin), 0)
        scratch = (begin, begin + scratch_of(self.flow, part))
        sums = sums_of(self.flow, part)
        for step in part.steps:
            if isinstance(step, Move):
                self.move(step)
            else:
                self.call(step, scratch, sums)


def _meet(one: Bytes, other: Bytes) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def check_segments(layers: Layers, chosen: Chosen) -> None:
    """See that segments compute the model in their arena. Raises `VerificationError`: ``arena``: a call would read what
    is not there, or layers are missing."""
    play = _Play(layers, chosen.arena)
    for t in layers.graph.tensors:
        if t.kind is Kind.INPUT and ("tensor", t.id) in chosen.arena.at:
            play.complete(t.id)
    for part in chosen.parts:
        play.play(part)
    for k, layer in enumerate(layers.listed):
        if play.done[k] != layer.rows:
            raise VerificationError("arena", f"{layer.op.label}: {play.done[k]} of {layer.rows} rows are made")
    play.fronts = {}
    for t in layers.graph.tensors:
        if t.kind is Kind.OUTPUT:
            for row in range(layers.height(layers.held(t.id))):
                play.read(layers.held(t.id), row, "the caller")
