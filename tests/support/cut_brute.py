"""The least bytes of any plan that cuts a small graph, by looking at every state, from what parts of ops read alone.

An op runs whole, or in parts of one grain along one axis. What it makes in parts is joined when all pieces are there,
or read piece by piece by readers that are cut along the dimension in which it is made. Slices take no bytes here, and
a sum is there once while terms of it are added up: a plan can only need more. Ops run on nothing else, so that bytes
of a target that writes nothing in place are meant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.access import Access
from lowtide.ops.meaning import meaning
from lowtide.ops.part import spelling
from support.small_nets import Nets

Mode = tuple[int | None, bool]
"""The axis along which an op is cut, and whether what it makes is joined; (None, False): whole."""

Region = tuple[tuple[int, int], ...]

OpState = tuple[Mode, int, bool] | None
"""How an op runs, which of its parts ran as bits, and whether its result is whole; None: it has not begun."""


KINDS = (
    *("Softmax", "MatMul", "MatMul", "Neg", "two", "two", "ReduceSum", "Concat"),
    *("Slice", "Pad", "MaxPool", "Transpose"),
)


def drawn_net(draw: random.Random) -> Nets:
    """A few ops on inputs of a few rows: some need all rows, some go along with them. In half of the nets one tensor is
    read by both kinds, one of which reads as well what it is made of."""
    nets = Nets(draw.choice)
    rows = draw.choice((2, 2, 3))
    at = [nets.input((1, rows, draw.choice((1, 1, 2)))) for _ in range(draw.choice((1, 1, 1, 2)))]

    def add(kind: str, x: str) -> None:
        wide = nets.shapes[x][-1]
        if kind == "Softmax":
            made = nets.node("Softmax", [x], axis=draw.choice((1, 2)))
        elif kind == "MatMul":
            made = nets.node("MatMul", [x, nets.floats((wide, draw.choice((1, 2, 3, 4))))])
        elif kind == "two":
            made = nets.node(
                "Add", [x, draw.choice([y for y in at if nets.shapes[y] in (nets.shapes[x], (1, 1, wide))])]
            )
        elif kind == "Concat":
            made = nets.node("Concat", [x, draw.choice([y for y in at if nets.shapes[y][2] == wide])], axis=1)
        elif kind == "ReduceSum":
            made = nets.node("ReduceSum", [x, nets.ints(1)], keepdims=1)
        elif kind == "Slice":
            made = nets.node("Slice", [x, nets.ints(0), nets.ints(nets.shapes[x][1] - 1), nets.ints(1)])
        elif kind == "Pad":
            made = nets.node("Pad", [x, nets.ints(0, 1, 0, 0, 0, 0)])
        elif kind == "MaxPool":
            made = nets.node("MaxPool", [x], kernel_shape=[2], pads=[0, 1])
        elif kind == "Transpose":
            made = nets.node("Transpose", [x], perm=[0, 2, 1])
        else:
            made = nets.node(kind, [x])
        if made and prod(nets.shapes[made[0]]) > 12:
            nets.undo()
        else:
            at.extend(made)

    if draw.random() < 0.5:
        (first,) = nets.node("MatMul", [at[0], nets.floats((nets.shapes[at[0]][-1], draw.choice((2, 3, 4))))])
        at.append(first)
        for _ in range(draw.choice((0, 1, 2, 2, 2))):
            at += nets.node("Softmax", [at[-1]], axis=2)
        head = at[-1]
        add(draw.choice(("Softmax", "ReduceSum")), head)
        at += nets.node("Add", [head, first])
    else:
        for _ in range(draw.randint(2, 4)):
            add(
                draw.choice(KINDS),
                draw.choice(at[-3:]),
            )
    read = {x for node in nets.nodes for x in node.input}
    for x in [x for x in at if x not in read and nets.shapes[x][-1] > 1]:
        if draw.random() < 0.7:
            nets.node("MatMul", [x, nets.floats((nets.shapes[x][-1], 1))])
    return nets


@dataclass
class Brute:
    """All states of a graph, each reached within a budget."""

    graph: Graph
    most: int = 60_000
    accesses: dict[int, Access] = field(default_factory=dict[int, Access])
    known_boxes: dict[tuple[object, ...], list[Region]] = field(
        default_factory=dict[tuple[object, ...], "list[Region]"]
    )
    grains: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])

    def __post_init__(self) -> None:
        for op in self.graph.ops:
            known = meaning(self.graph, op)
            self.grains[op.id] = {}
            if known is None:
                continue
            self.accesses[op.id] = known.access
            for axis in known.access.cuttable():
                how = spelling(self.graph, op, known, axis)
                if how is not None:
                    self.grains[op.id][axis] = how.grain

    def reaches(self, budget: int) -> bool | None:
        """Whether some plan needs no more; None: there are too many states."""
        start: tuple[OpState, ...] = (None,) * len(self.graph.ops)
        if self._live(start) > budget:
            return False
        seen: set[tuple[OpState, ...]] = {start}
        todo: list[tuple[OpState, ...]] = [start]
        while todo:
            state = todo.pop()
            if all(one is not None and one[2] for one in map(self._done, range(len(state)), state)):
                return True
            for bytes_used, after in self._next(state):
                if bytes_used <= budget and after not in seen:
                    if len(seen) >= self.most:
                        return None
                    seen.add(after)
                    todo.append(after)
        return False

    # one state

    @cached_property
    def _at(self) -> dict[int, int]:
        return {op.id: i for i, op in enumerate(self.graph.ops)}

    def _done(self, i: int, one: OpState) -> OpState:
        """An op as it is done if all parts ran and nothing is to be joined."""
        if one is None or one[2] or one[0][1]:
            return one
        return (one[0], one[1], one[1] == (1 << len(self._parts(i, one[0]))) - 1)

    def _parts(self, i: int, mode: Mode) -> list[tuple[int, int]]:
        op = self.graph.ops[i].id
        if mode[0] is None:
            return [(0, 0)]
        size, grain = self.accesses[op].sizes[mode[0]], self.grains[op][mode[0]]
        return [(a, min(size, a + grain)) for a in range(0, size, grain)]

    def _along(self, i: int, mode: Mode) -> int | None:
        """The dimension in which pieces are; None: the op is whole, or its parts are terms."""
        if mode[0] is None:
            return None
        dims = self.accesses[self.graph.ops[i].id].outputs[0]
        return dims.index(mode[0]) if mode[0] in dims else None

    def _takes(self, reader: Op, axis: int | None, t: int, dim: int | None) -> bool:
        """Whether parts of a reader along an axis read pieces that lie along a dimension."""
        if axis is None or dim is None:
            return False
        given = enumerate(reader.operands or reader.inputs)
        read = [(self.accesses[reader.id].inputs[k] or ())[dim] for k, u in given if u == t]
        return all(index is not None and index.axis == axis and index.num != 0 for index in read)

    def _modes(self, state: tuple[OpState, ...], i: int) -> Iterator[Mode]:
        op = self.graph.ops[i]
        kept = self.graph.tensor_by_id[op.outputs[0]].kind is Kind.OUTPUT
        for axis in (None, *self.grains[op.id]):
            fits = True
            for t in op.inputs:
                maker = self.graph.producer.get(t)
                one = None if maker is None else state[self._at[maker]]
                if maker is not None and one is not None and one[0][0] is not None and not one[0][1]:
                    fits = fits and self._takes(op, axis, t, self._along(self._at[maker], one[0]))
            if fits:
                yield from ((axis, joined) for joined in self._ways(i, axis, kept=kept))

    def _ways(self, i: int, axis: int | None, *, kept: bool) -> tuple[bool, ...]:
        if axis is None or self._along(i, (axis, False)) is None:
            return (False,)
        return (True,) if kept else (True, False)

    def _read(self, i: int, mode: Mode, part: tuple[int, int], t: int) -> list[Region]:
        """Boxes of a tensor that a part is given."""
        key = (i, mode[0], part, t)
        if key not in self.known_boxes:
            self.known_boxes[key] = self._boxes(i, mode, part, t)
        return self.known_boxes[key]

    def _boxes(self, i: int, mode: Mode, part: tuple[int, int], t: int) -> list[Region]:
        op = self.graph.ops[i]
        shape = self.graph.tensor_by_id[t].shape or ()
        if mode[0] is None:
            return [tuple((0, size) for size in shape)]
        access = self.accesses[op.id]
        boxes = list[Region]()
        for k, u in enumerate(op.operands or op.inputs):
            if u == t and not (mode[0] in access.reduce and k in access.once and part[0] > 0):
                indices = access.inputs[k] or ()
                box = access.need(k, shape, {mode[0]: part})
                own = [index is not None and index.axis == mode[0] for index in indices]
                boxes.append(tuple(r if o else (0, n) for r, o, n in zip(box, own, shape, strict=True)))
        return [box for box in boxes if all(a < b for a, b in box)]

    def _next(self, state: tuple[OpState, ...]) -> Iterator[tuple[int, tuple[OpState, ...]]]:
        live = self._live(state)
        for i, op in enumerate(self.graph.ops):
            one = self._done(i, state[i])
            if one is not None and one[2]:
                continue
            t = self.graph.tensor_by_id[op.outputs[0]]
            for mode in [one[0]] if one is not None else self._modes(state, i):
                parts = self._parts(i, mode)
                ran = one[1] if one is not None else 0
                dim = self._along(i, mode)
                if ran == (1 << len(parts)) - 1:  # pieces are joined
                    yield live + t.size, (*state[:i], (mode, ran, True), *state[i + 1 :])
                    continue
                for p, part in enumerate(parts):
                    if not ran >> p & 1 and self._there(state, i, mode, part):
                        size = t.size if dim is None else t.size * (part[1] - part[0]) // (t.shape or ())[dim]
                        new: OpState = (mode, ran | 1 << p, False)
                        if self._done(i, new) == (mode, ran | 1 << p, True):
                            new = (mode, ran | 1 << p, True)
                        yield live + size, (*state[:i], new, *state[i + 1 :])

    def _there(self, state: tuple[OpState, ...], i: int, mode: Mode, part: tuple[int, int]) -> bool:
        op = self.graph.ops[i]
        for t in op.inputs:
            maker = self.graph.producer.get(t)
            if maker is None:
                continue
            at = self._at[maker]
            one = self._done(at, state[at])
            boxes = self._read(i, mode, part, t)
            if one is None:
                if boxes:
                    return False
                continue
            whole = one[2] and (one[0][0] is None or one[0][1] or self._along(at, one[0]) is None)
            if whole or not boxes:
                continue
            dim = self._along(at, one[0])
            if dim is None or not self._takes(op, mode[0], t, dim):
                return False
            for box in boxes:
                for p, rows in enumerate(self._parts(at, one[0])):
                    if rows[0] < box[dim][1] and box[dim][0] < rows[1] and not one[1] >> p & 1:
                        return False
        return True

    def _live(self, state: tuple[OpState, ...]) -> int:
        total = 0
        for t in self.graph.tensors:
            if t.kind is Kind.CONSTANT:
                continue
            maker = self.graph.producer.get(t.id)
            whole: Region = tuple((0, size) for size in t.shape or ())
            if maker is None:
                total += t.size if self._awaited(state, t.id, whole, None) else 0
                continue
            i = self._at[maker]
            one = self._done(i, state[i])
            if one is None or one[1] == 0:
                continue
            dim = self._along(i, one[0])
            if dim is None or (one[2] and one[0][1]):  # in one place, or a sum
                used = t.kind is Kind.OUTPUT or not one[2] or self._awaited(state, t.id, whole, None)
                total += t.size if used else 0
                continue
            for p, rows in enumerate(self._parts(i, one[0])):
                piece = tuple(rows if d == dim else box for d, box in enumerate(whole))
                if one[1] >> p & 1 and (one[0][1] or self._awaited(state, t.id, piece, dim)):
                    total += t.size * (rows[1] - rows[0]) // (t.shape or ())[dim]
        return total

    def _awaited(self, state: tuple[OpState, ...], t: int, piece: Region, dim: int | None) -> bool:
        """Whether a piece of a tensor is read by a part that has not run; of a whole tensor, all of it is."""
        for v in self.graph.consumers.get(t, ()):
            i = self._at[v]
            one = state[i]
            if one is None:
                return True
            for p, part in enumerate(self._parts(i, one[0])):
                if one[1] >> p & 1:
                    continue
                for box in self._read(i, one[0], part, t):
                    if dim is None or (box[dim][0] < piece[dim][1] and piece[dim][0] < box[dim][1]):
                        return True
        return False


def floor_of(refuted: Any, most: int) -> int:
    """The greatest goal that is refuted, up to some bytes."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if refuted(middle) else (low, middle - 1)
    return low
