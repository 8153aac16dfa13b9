"""Aliases: tensors stored inside others. Operands of a concat are written in place, slices are read in place. No op is
added or removed, and no bit changes.

    concat of a, b, c      result  |  a  |   b   | c |      the producers of a, b, c write there
    slice, split of y      y       |     | v | |            the consumers of v read there
    relu of p to a         result  |  a  |                  p has the memory of a until a overwrites it
                                   |  p  |

An **alias** puts one tensor in another: row i of it is `run` bytes, `first + i * pitch` from the other's start. One row
is a contiguous range, which any kernel can write; several rows need kernels with a pitch. Each tensor has at most one
containing tensor, so aliases are a forest, and all tensors of a tree share the memory of its root. A concat whose
operands are consecutive operands of another concat may be an alias of that one: then each operand has one place for
both.

Aliases are legal if no order makes them wrong:

- slices of one tensor are disjoint, and no op writes other bytes into a slice,
- except for an in-place op: all other ops that touch its bytes run before it in every order.

Contiguous slices are live by themselves; a strided tensor is one storage, from the first write to the last read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, NamedTuple

from lowtide.graph import Graph, Kind, Op
from lowtide.target import Target
from lowtide.transform.change import Change

How = Literal["join", "nested", "take", "same", "over"]
"""join: an operand of a concat. nested: a concat in one that has all of its operands. take: a slice or a part of a
split. same: what a view reads, where its result lies. over: what an op reads and may write over."""


@dataclass(frozen=True, slots=True)
class Alias:
    """Tensor `tensor` is stored in tensor `of`, because of op `op`; see the module."""

    tensor: int
    of: int
    op: int
    how: How
    first: int
    run: int
    pitch: int


Aliases = tuple[Alias, ...]
"""The decision: which tensors lie in which."""


class Place(NamedTuple):
    """The range of a tensor in the root of its tree: row i is `run` bytes, `first + i * pitch` from the root's
    start."""

    root: int
    first: int
    run: int
    pitch: int


def box_place(shape: Sequence[int], box: Sequence[tuple[int, int]], element: int) -> tuple[int, int, int] | None:
    """First byte, run and pitch of a box in a tensor of `element` bytes each; None if it is no rows of equal pitch.

    >>> box_place((1, 8, 2, 2), ((0, 1), (3, 5), (0, 2), (0, 2)), 4)  # channels 3 and 4: one stretch
    (48, 32, 128)
    >>> box_place((4, 8), ((0, 4), (3, 5)), 1)  # columns: a row for each of the four
    (3, 2, 8)
    """
    total = prod(shape) * element
    cut = [d for d, (size, rows) in enumerate(zip(shape, box, strict=True)) if rows != (0, size)]
    if not cut:
        return (0, total, total)
    last = cut[-1]
    inner = prod(shape[last + 1 :]) * element
    low, high = box[last]
    if all(end - start == 1 for start, end in box[:last]):
        first = sum(rows[0] * prod(shape[d + 1 :]) for d, rows in enumerate(box)) * element
        return (first, (high - low) * inner, total)
    return (low * inner, (high - low) * inner, shape[last] * inner) if len(cut) == 1 else None


class Forest:
    """Legal aliases: the containing tensor of each tensor, and its place in the root of the tree."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.above: dict[int, Alias] = {}
        self.below: dict[int, dict[int, Alias]] = {}
        self.places: dict[int, Place] = {}
        self._sizes = {t.id: t.size for t in graph.tensors}
        self._source_of: dict[int, int] = {}
        self._views: dict[int, list[int]] = {}
        for op in graph.ops:
            source = target.view_source(graph, op)
            if source is not None:
                self._source_of[op.outputs[0]] = source
                self._views.setdefault(source, []).append(op.outputs[0])
        self._before: dict[int, set[int]] = {}

    @property
    def aliases(self) -> Aliases:
        """All of them, by tensor."""
        return tuple(self.above[t] for t in sorted(self.above))

    def add(self, aliases: Collection[Alias]) -> str | None:
        """Put some more tensors in others, all of these or none. Returns why not, None if they can be."""
        new = [alias for alias in aliases if self.above.get(alias.tensor) != alias]
        if len({alias.tensor for alias in new} - self.above.keys()) < len(new):
            return "a tensor would lie in two others"
        self._put(new)
        reason = self._check({alias.of for alias in new})
        if reason is not None:
            self.remove([alias.tensor for alias in new])
        return reason

    def remove(self, tensors: Collection[int]) -> None:
        """Give tensors, with their aliases, memory of their own."""
        for t in tensors:
            del self.below[self.above.pop(t).of][t]
        for t in tensors:
            self._check({t, self._root(t)})

    def _put(self, aliases: Collection[Alias]) -> None:
        for alias in aliases:
            self.above[alias.tensor] = alias
            self.below.setdefault(alias.of, {})[alias.tensor] = alias

    def _root(self, t: int) -> int | None:
        """The root of the tree that a tensor is in; None if there is none, as tensors lie in each other."""
        seen: set[int] = set()
        while t in self.above:
            if t in seen:
                return None
            seen.add(t)
            t = self.above[t].of
        return t

    def _check(self, tensors: Collection[int | None]) -> str | None:
        """Walk down from the roots of the trees that some tensors are in."""
        roots = {None if t is None else self._root(t) for t in tensors}
        if None in roots:
            return "tensors would lie in each other"
        over: list[Alias] = []
        for root in sorted(r for r in roots if r is not None):
            reason = self._walk(root, over)
            if reason is not None:
                return reason
        return next((reason for alias in over if (reason := self._spoilt(alias)) is not None), None)

    def _walk(self, root: int, over: list[Alias]) -> str | None:
        """Find the places in a tree, and the aliases that write over what they read."""
        self.places[root] = Place(root, 0, self._sizes[root], self._sizes[root])
        todo = [root]
        while todo:
            at = todo.pop()
            inside = self.below.get(at, {}).values()
            if sum(alias.how == "over" for alias in inside) > 1:
                return f"two tensors would lie under {self._label(at)}"
            over += [alias for alias in inside if alias.how == "over"]
            for alias in inside:
                own = self._sizes[alias.tensor]
                place = _within(self.places[at], alias, self._sizes[at], own, self._sizes[root])
                if place is None:
                    return f"{self._label(alias.tensor)} has no rows of one pitch in {self._label(root)}"
                if place.run < own and self._is_named(alias.tensor):
                    return f"{self._label(alias.tensor)} lies row by row, and is taken as one stretch elsewhere"
                self.places[alias.tensor] = place
                todo.append(alias.tensor)
        return None

    def _label(self, t: int) -> str:
        return self.graph.tensor_by_id[t].label

    def _is_named(self, t: int) -> bool:
        """Whether the caller or a view needs a tensor as one contiguous range."""
        return self.graph.tensor_by_id[t].kind is not Kind.ACTIVATION or t in self._views or t in self._source_of

    def _spoilt(self, alias: Alias) -> str | None:
        """Why an op cannot overwrite its operand: another op may still read the bytes, or the op reads them elsewhere,
        too."""
        graph, op = self.graph, self.graph.op_by_id[alias.op]
        inside = self._subtree(alias.tensor)
        if any(graph.tensor_by_id[t].kind is not Kind.ACTIVATION for t in inside):
            return f"{self._label(alias.tensor)} is also for the caller"
        mine = self.places[alias.tensor]
        for t in op.inputs:
            place = self._place(t)
            if t != alias.tensor and place is not None and place.root == mine.root and not _apart(place, mine):
                return f"{op.label} reads {self._label(t)} there too"
        touching = {graph.producer[t] for t in inside} | {o for t in inside for o in graph.consumers.get(t, ())}
        if op.id not in self._before:
            self._before[op.id] = ancestors(graph, op.id)
        late = next((o for o in sorted(touching) if o != op.id and o not in self._before[op.id]), None)
        return None if late is None else f"{graph.op_by_id[late].label} may run after {op.label} writes there"

    def _place(self, t: int) -> Place | None:
        """The place of a tensor, or of the one that it is a view of; None if it is in no tree."""
        while t not in self.above and t in self._source_of:
            t = self._source_of[t]
        return self.places[t] if t in self.above or self.below.get(t) else None

    def _subtree(self, top: int) -> list[int]:
        result, todo = [], [top]
        while todo:
            t = todo.pop()
            result.append(t)
            todo += self.below.get(t, ())
            todo += [v for v in self._views.get(t, ()) if v not in self.above]
        return result


def _within(above: Place, alias: Alias, size: int, own: int, root: int) -> Place | None:
    """The place of a tensor of `own` bytes in the root of `root` bytes, if rows of one pitch describe it; `size` is
    that of the containing tensor."""
    first = above.first + alias.first
    if above.run == size:
        return Place(above.root, first, alias.run, root if alias.run == own else alias.pitch)
    if (alias.first, alias.run, own) == (0, size, size):
        return above
    if alias.run == own:
        return Place(above.root, first, own, root) if alias.first + own <= above.run else None
    if alias.pitch == above.run and alias.first + alias.run <= above.run:
        return Place(above.root, first, alias.run, above.pitch)
    return None


def _apart(a: Place, b: Place) -> bool:
    """Whether two tensors of one root surely share no byte: rows of one pitch, none over the end of the pitch."""
    if a.pitch != b.pitch or any(p.first % p.pitch + p.run > p.pitch for p in (a, b)):
        return False
    low, high = sorted((p.first % p.pitch, p.run) for p in (a, b))
    return low[0] + low[1] <= high[0]


def ancestors(graph: Graph, op: int) -> set[int]:
    """Ops that run before one in every order."""
    result: set[int] = set()
    todo = [graph.index_of[op]]
    while todo:
        for i in graph.predecessors[todo.pop()]:
            if graph.ops[i].id not in result:
                result.add(graph.ops[i].id)
                todo.append(i)
    return result


def why_not(graph: Graph, target: Target, aliases: Aliases) -> str | None:
    """Why these aliases, each of which may be by itself, cannot be together; None if they can."""
    return Forest(graph, target).add(aliases)


def apply(graph: Graph, target: Target, aliases: Aliases) -> Change[Aliases]:
    """The graph with aliases. No op and no tensor is new.

    Kernels that read a tensor row by row do not overwrite it, since their result is contiguous.
    """
    forest = Forest(graph, target)
    reason = forest.add(aliases)
    assert reason is None, reason
    containing = forest.above
    places = {t: forest.places[t] for t in {*containing, *(alias.of for alias in aliases)}}
    by_rows = {t: p.root for t, p in places.items() if p.run < graph.tensor_by_id[t].size}
    rows = set(by_rows.values())
    tensors = tuple(
        replace(
            t, alias_of=containing[t.id].of, alias_offset=containing[t.id].first, piece=places[t.id].root not in rows
        )
        if t.id in containing
        else t
        for t in graph.tensors
    )
    ops = tuple(_unspoilt(graph, target, op, by_rows, places) for op in graph.ops) if by_rows else graph.ops
    return Change(aliases, replace(graph, tensors=tensors, ops=ops), {}, {})


def _unspoilt(graph: Graph, target: Target, op: Op, by_rows: Mapping[int, int], places: Mapping[int, Place]) -> Op:
    """The op with what it may still write over."""
    roots: Collection[int] = {by_rows[t] for t in op.inputs if t in by_rows}
    if not roots:
        return op
    kept = [t for t in target.overwritable_inputs(graph, op) if t not in places or places[t].root not in roots]
    return replace(op, overwrites=tuple(kept)) if len(op.outputs) == 1 else op
