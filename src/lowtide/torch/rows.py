"""Ops of a step that can run for some rows at a time: found from what each op reads for a part of its result.

The loss of a language model is where a step is highest: scores of every word for every token, their logarithms, and the
gradients of both. Each row of these hangs on one token alone::

    hidden (n, d) --mm--> scores (n, v) --log_softmax--> (n, v) --nll--> loss             sums over rows
                             |                             |
    gradient (n, d) <--mm-- (n, v) <--log_softmax_backward-+---nll_backward
    gradient (v, d) <--mm----+                                                            a sum over rows

A region is all that makes or reads tensors above a size which run along one axis, closed so that nothing is between
its ops. Where each result has that axis or is a sum over it, some rows of everything can be made, used and dropped
before the next ones. Which axis is which says `lowtide.ops`, the same accesses that cuts of ONNX models rest on.

Attention is read twice, far apart: by its own product, and after the loss by its gradient. A region on one side of the
loss makes what it reads of the other side **a second time**, row by row, and does not keep it::

    q, k --bmm--> (b h, n, n) --softmax--> (b, h, n, n) --bmm--> values          ops up to the loss: one region
    q, k --bmm--> (b h, n, n) --softmax--> (b, h, n, n)                          the same ops, in the other
                                             |     gradient of values --bmm--> (b h, n, n)
    gradients of q, k, v <--bmm-- (b, h, n, n) <--softmax_backward--+
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.graph import Graph
from lowtide.ops.access import Access
from lowtide.ops.index import NOTHING, Index
from lowtide.read.aten.trace import Ref
from lowtide.torch.along import Along, Seen, back
from lowtide.torch.cost import signature
from lowtide.torch.program import Action, Call, Program, refs
from lowtide.torch.readings import Read, Reading, reading

_ROUNDS = 8  # times that a region is closed over what is between its ops
_SMALLEST = 16  # tensors down to this part of the largest op's largest may set the size above which a region reaches
Start = tuple[int, int]  # an axis of an op, and how many of its places are one row


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that an op reads: its position among the arguments, the view that is read and its chain, and where
    the rows are in it (None: it is untiled)."""

    position: int
    value: Ref | Call
    chain: tuple[Seen, ...]
    along: Along | None

    @property
    def root(self) -> str:
        """Whose memory it is in."""
        return next(refs(self.value)).name


@dataclass(frozen=True, slots=True)
class Row:
    """An op of a region: its position in the program, the axis of its rows, its operands, and for each result where the
    rows lie in it; None: it is a sum over them. `recomputed`: it also runs at its own place, and no op outside reads
    what it makes here."""

    index: int
    start: Start
    operands: tuple[Operand, ...]
    dims: tuple[Along | None, ...]
    recomputed: bool = False


@dataclass(frozen=True)
class Region:
    """Ops in file order that can run for some of `rows` rows at a time; `given`: names that they read and do not make,
    `made`: names of theirs that are read elsewhere."""

    ops: tuple[Row, ...]
    rows: int
    given: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """Positions of the ops that run here alone."""
        return tuple([row.index for row in self.ops if not row.recomputed])

    @property
    def recomputed(self) -> tuple[int, ...]:
        """Positions of those that run elsewhere, too."""
        return tuple([row.index for row in self.ops if row.recomputed])

    @property
    def start(self) -> Start:
        """The axis of the first of all these."""
        return min(self.ops, key=lambda row: row.index).start


def regions(torch: Any, program: Program, graph: Graph, seed: int) -> list[Region]:
    """The regions around an op, smallest first, those that recompute nothing before those that do; none where it
    cannot be cut. `graph`: the program's (`storages.as_graph`). `seed`: position of the op: the largest, say."""
    return [group[0] for group in groups(torch, program, graph, seed)]


def groups(torch: Any, program: Program, graph: Graph, seed: int) -> list[tuple[Region, ...]]:
    """The regions around an op, as `regions` has them, each with those of the same kind around ops like it: those of
    other layers."""
    finder = _Finder(torch, program, graph)
    sizes = {name: program.forms[name].extent_bytes for name in (*finder.maker, *finder.writers)}
    action = program.actions[seed]
    touched = [name for name in (*(ref.name for ref in refs(action.call)), *action.outputs) if name in sizes]
    most = max((sizes[str(name)] for name in touched), default=0)
    found: dict[tuple[Start, tuple[int, ...], tuple[int, ...]], _Found] = {}
    starts = {apart: finder.starts(seed) for apart in (False, True)}
    counted = [sizes[name] for name in dict.fromkeys([*finder.maker, *touched])]
    above = {s for s in counted if most // _SMALLEST <= s <= most and s > 0}
    if has_workspace(action):
        above.add(max(sizes.values()) + 1)  # nothing is as large: the op alone
    for size in sorted(above, reverse=True):
        large = {name for name, s in sizes.items() if s >= size}
        for apart in (False, True):
            for along in starts[apart]:
                one = finder.first(seed, along, large, apart)
                if one is not None:
                    found.setdefault((one.region.start, one.region.indices, one.region.recomputed), one)
    ordered = sorted(found.values(), key=lambda one: (bool(one.region.recomputed), len(one.region.ops)))
    return [finder.alike(one, seed) for one in ordered]


def region_of(
    torch: Any, program: Program, graph: Graph, ops: Collection[int], recomputed: Collection[int], start: Start
) -> Region | None:
    """The region of just these ops, `start` the axis of the first; None if they are none."""
    finder, inside = _Finder(torch, program, graph), {*ops, *recomputed}
    if not inside or not all(0 <= k < len(program.actions) for k in inside):
        return None
    try:
        axes = finder.grown(
            min(inside), start, {*finder.maker, *finder.writers}, finder.side(min(ops)) if recomputed else None, inside
        )
        region = None if axes.keys() != inside else finder.checked(axes, set(recomputed))
    except _Contradiction:
        return None
    return region if region is not None and not finder.between(region.indices) else None


class _Contradiction(Exception):
    """No region: an op would have to be cut along two axes, or reads a row of all rows."""


@dataclass(frozen=True)
class _Found:
    """A region, and how it was found: from where, above which tensors, on one side of the loss alone or not."""

    region: Region
    start: Start
    large: set[str]
    apart: bool


class _Finder:
    """Looks for regions of one program."""

    def __init__(self, torch: Any, program: Program, graph: Graph) -> None:
        self.torch, self.program, self.graph = torch, program, graph
        self.maker: dict[str, int] = {}
        self.readers: dict[str, list[int]] = {}
        self.readings: dict[int, Reading | None] = {}
        self.writers: dict[str, list[int]] = {}
        for k, action in enumerate(program.actions):
            self.maker.update({name: k for name in action.outputs if name is not None})
            for name in dict.fromkeys(ref.name for ref in refs(action.call)):
                self.readers.setdefault(name, []).append(k)
            for name in action.writes:
                self.writers.setdefault(name, []).append(k)
        self.ends = {ref.name for result in program.results for ref in refs(result.value)}
        losses = [ref.name for r in program.results if r.kind == "loss" for ref in refs(r.value)]
        self.early = self._with_all_before([self.maker[name] for name in losses if name in self.maker])

    def _with_all_before(self, ops: Iterable[int]) -> set[int]:
        found, before = set(ops), self.graph.predecessors
        for k in reversed(range(len(self.program.actions))):
            if k in found:
                found.update(before[k])
        return found

    def side(self, k: int) -> bool:
        """Of the loss: whether it hangs on an op."""
        return k in self.early

    def reading(self, k: int) -> Reading | None:
        """Of an op; None if it cannot stand in a region."""
        if k not in self.readings:
            self.readings[k] = reading(self.torch, self.program, self.program.actions[k])
        return self.readings[k]

    def starts(self, k: int) -> list[list[Start]]:
        """For each axis of an op that can be cut, how many of its places may be one row: few first."""
        known, forms = self.reading(k), self.program.forms
        if known is None:
            return []
        counts = sorted({n for name in self.maker for n in forms[name].shape if n > 1}, reverse=True)
        sizes = known.access.sizes
        return [[(a, sizes[a] // n) for n in counts if sizes[a] % n == 0] for a in known.access.cuttable()]

    def first(self, seed: int, starts: list[Start], large: set[str], apart: bool) -> _Found | None:
        """The region of the first of these starts that has one. Those that contradict themselves are struck out: with
        more tensors they would as well."""
        for start in list(starts):
            try:
                region = self.region(seed, start, large, apart)
            except _Contradiction:
                starts.remove(start)
                continue
            if region is not None:
                return _Found(region, start, large, apart)
        return None

    def alike(self, one: _Found, seed: int) -> tuple[Region, ...]:
        """A region, and those around ops like its seed that are of the same ops and share none."""
        actions = self.program.actions
        kinds = [actions[row.index].call.target for row in one.region.ops]
        found, taken = [one.region], {seed, *one.region.indices}
        for k, action in enumerate(actions):
            target = action.call.target
            if k in taken or target != actions[seed].call.target or self._form_of(k) != self._form_of(seed):
                continue
            try:
                other = self.region(k, one.start, one.large, one.apart)
            except _Contradiction:
                continue
            ops = () if other is None else other.ops
            if other is None or [actions[row.index].call.target for row in ops] != kinds:
                continue
            if taken.isdisjoint(other.indices):
                found.append(other)
                taken.update(other.indices)
        return tuple(found)

    def _form_of(self, k: int) -> str:
        return signature(self.program, self.program.actions[k])

    def region(self, seed: int, start: Start, large: set[str], apart: bool) -> Region | None:
        """All ops that touch large tensors on the rows of the seed's; `apart`: those on its side of the loss, with what
        they read of the other side a second time. None if they are no region; raises `_Contradiction`."""
        side, wide = self.side(seed) if apart else None, set(large)
        for _ in range(_ROUNDS):
            axes = self.grown(seed, start, wide, side)
            recomputed = {k for k in axes if side is not None and self.side(k) != side}
            between = self.between([k for k in axes if k not in recomputed])
            if not between:
                return self.checked(axes, recomputed)
            for k in between:
                action = self.program.actions[k]
                names = (*action.outputs, *(ref.name for ref in refs(action.call)))
                wide |= {name for name in names if name in self.maker}
        return None

    def grown(
        self, seed: int, start: Start, large: set[str], side: bool | None, inside: Collection[int] | None = None
    ) -> dict[int, Start]:
        """The axis of each op that a large tensor of these rows leads to; with a side, of the other one only what made
        what is read; none but those `inside`."""
        axes, places, waiting = {seed: start}, dict[str, Along](), [seed]
        while waiting:
            k = waiting.pop()
            for name, along in self._places(k, axes[k]):
                if places.setdefault(name, along) != along:
                    raise _Contradiction
                if name not in large:
                    continue
                for other in self._touching(k, name, side, large):
                    if inside is not None and other not in inside:
                        continue
                    found = self._axis(other, name, along)
                    if found is None or found == axes.get(other):
                        continue
                    if other in axes:
                        raise _Contradiction
                    axes[other] = found
                    waiting.append(other)
        return axes

    def _touching(self, k: int, name: str, side: bool | None, large: set[str]) -> list[int]:
        """Ops that make or read what an op does: of what the step changes those alone that change something, too."""
        readers = self.readers.get(name, ())
        if name not in self.maker:
            return [r for r in readers if self.program.actions[r].writes]
        return [self.maker[name], *(r for r in readers if self._follows(r, side, large))]

    def _follows(self, k: int, side: bool | None, large: set[str]) -> bool:
        """Whether an op that reads what a region has belongs to it: on the other side of the loss one whose large
        result is read on this one, so that it is recomputed with the rest."""
        if side is None or self.side(k) == side:
            return True
        made = [name for name in self.program.actions[k].outputs if name in large]
        return not side and any(self.side(r) == side for name in made for r in self.readers.get(str(name), ()))

    def _places(self, k: int, start: Start) -> Iterator[tuple[str, Along]]:
        """Names that an op makes or reads, of those that the step makes, and where the rows of its axis lie in them."""
        known, (axis, each) = self._required(k), start
        if known.access.sizes[axis] % each:
            raise _Contradiction
        for name, dims in zip(self.program.actions[k].outputs, known.outputs, strict=True):
            if name is not None and axis in dims:
                yield name, Along(dims.index(axis), each)
        for n, read in enumerate(known.reads):
            seen = _along(known.access, n, start)
            changes = bool(self.program.actions[k].writes) and read.root in self.writers
            place = None if seen is None or not (changes or read.root in self.maker) else read.back(seen)
            if place is not None:
                yield read.root, place

    def _axis(self, k: int, name: str, along: Along) -> Start | None:
        """The axis of an op on which rows of what it makes or reads lie; None: it asks for the shape."""
        known = self._required(k)
        for made, dims in zip(self.program.actions[k].outputs, known.outputs, strict=True):
            if made == name:
                axis = dims[along.dim]
                if axis is None:
                    raise _Contradiction
                return axis, along.each
        found: set[Start] = set()
        for n, read in enumerate(known.reads):
            indices = known.access.inputs[n]
            if read.root != name or indices is None:
                continue
            place = read.forth(along)
            index = None if place is None else indices[place.dim]
            if place is None or index is None:
                raise _Contradiction
            if index != NOTHING:
                found.add((index.axis, place.each))
        if len(found) > 1:
            raise _Contradiction
        return next(iter(found), None)

    def _required(self, k: int) -> Reading:
        known = self.reading(k)
        if known is None:
            raise _Contradiction
        return known

    def between(self, ops: Collection[int]) -> list[int]:
        """Ops that must run after one of these and before another."""
        before, own = self.graph.predecessors, set(ops)
        first, last = min(own), max(own)
        behind, ahead = set(own), set(own)
        for k in range(first, last):
            if not behind.isdisjoint(before[k]):
                behind.add(k)
        for k in range(last, first, -1):
            if k in ahead:
                ahead.update(before[k])
        return sorted((behind & ahead) - own)

    def checked(self, axes: Mapping[int, Start], recomputed: set[int]) -> Region | None:
        """The region of these ops, if each of them can run for some rows."""
        rows: list[Row] = []
        dims: dict[str, Along | None] = {}
        counts = set[int]()
        for k in sorted(axes, key=lambda k: (k not in recomputed, k)):
            known, (axis, each), action = self._required(k), axes[k], self.program.actions[k]
            counts.add(known.access.sizes[axis] // each)
            outputs = tuple([Along(d.index(axis), each) if axis in d else None for d in known.outputs])
            made = [d for d, name in zip(outputs, action.outputs, strict=True) if name is not None]
            if None in made and (k in recomputed or not _adds_up(known.access, axis)):
                return None
            operands = []
            for n, read in enumerate(known.reads):
                operand = Operand(read.position, read.value, read.chain or (), _along(known.access, n, axes[k]))
                asked = known.access.inputs[n]
                shape_only = bool(asked) and all(index == NOTHING for index in asked or ())
                if not self._fits(operand, read, dims, shape_only, action):
                    return None
                operands.append(operand)
            dims.update({name: d for name, d in zip(action.outputs, outputs, strict=True) if name is not None})
            rows.append(Row(k, axes[k], tuple(operands), outputs, k in recomputed))
        alone = [k for k in axes if k not in recomputed]
        own = [n for k in sorted(alone) for n in self.program.actions[k].outputs if n is not None]
        made = [n for n in own if n in self.ends or any(r not in alone for r in self.readers.get(n, ()))]
        given = dict.fromkeys(o.root for row in rows for o in row.operands if o.root not in dims)
        read_twice = {o.root for row in rows if row.recomputed for o in row.operands}
        if len(counts) != 1 or not self._is_worth(rows) or self._is_overwritten(read_twice, alone):
            return None
        if any(self.program.actions[k].writes for k in recomputed) or not self._is_changed_in_rows(rows):
            return None
        return Region(tuple(rows), counts.pop(), tuple(given), tuple(made))

    def _is_worth(self, rows: Sequence[Row]) -> bool:
        """Whether these ops take less in parts: a single one if its kernel has workspace."""
        return len(rows) > 1 or has_workspace(self.program.actions[rows[0].index])

    def _is_changed_in_rows(self, rows: Sequence[Row]) -> bool:
        """Whether all that reads what these ops change reads the rows that are changed, and no others."""
        changed = {name for row in rows for name in self.program.actions[row.index].writes}
        places: dict[str, set[Along | None]] = {}
        for operand in (o for row in rows for o in row.operands if o.root in changed):
            place = None if operand.along is None else back(operand.chain, operand.along)
            places.setdefault(operand.root, set()).add(place)
        return all(len(found) == 1 and None not in found for found in places.values())

    def _is_overwritten(self, names: Iterable[str], alone: Collection[int]) -> bool:
        """Whether something that is read a second time is changed before all of these ops may run."""
        needed, first = self._with_all_before(alone), min(alone, default=0)
        return any(w < first or w in needed for name in names for w in self.writers.get(name, ()))

    def _fits(
        self, operand: Operand, read: Read, dims: Mapping[str, Along | None], shape_only: bool, action: Action
    ) -> bool:
        """Whether rows of an operand are at hand when rows of the others are."""
        if operand.root not in dims:
            return not shape_only
        own = dims[operand.root]
        if own is None:
            return is_total_weight(action, operand.position)
        place = read.forth(own)
        return place is not None and (shape_only or operand.along == place)


def has_workspace(action: Action) -> bool:
    """Whether an op takes memory while it runs, as kernels of convolutions and updates of parameters do."""
    return action.call.target.startswith("aten.convolution") or bool(action.writes)


def is_total_weight(action: Action, position: int) -> bool:
    """Whether that argument is the number of rows that count, which is known before the first of them."""
    return action.call.target.startswith("aten.nll_loss_backward.") and position == 6


def _along(access: Access, operand: int, start: Start) -> Along | None:
    """Where in an operand the rows at the same place are read. Raises `_Contradiction` for other rows."""
    found, (axis, each) = None, start
    for dim, index in enumerate(access.inputs[operand] or ()):
        if index is not None and index.axis == axis:
            if index != Index(axis) or found is not None:
                raise _Contradiction
            found = Along(dim, each)
    return found


def _adds_up(access: Access, axis: int) -> bool:
    return axis in access.reduce and access.merge == "sum" and not access.once and access.merged != "never"
