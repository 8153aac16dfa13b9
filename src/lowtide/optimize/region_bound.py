"""Lower bound over all choices of regions: at every op, the live bytes if it runs untiled, and if it is tiled.

A plan runs an op untiled or in tiles. A tensor that tiles make is then materialised after the last tile, or every
reader reads it in tiles. If regions materialise what others read, the readers in tiles are in the same region. So from
a tiled op the bound follows the readers to a tensor that is materialised, where it is live twice, or to readers that
are tiled as well:

    untiled    its operands, its results, and what is held across
    tiled      per result, the lesser of    materialised: the tensor twice, and what is held across
                                            read in tiles: the maximum over its readers, tiled
               and at least the rows of one tile

*Held across* is what every plan makes before and reads untiled afterwards. After the concatenation of tiles, only those
readers count that can read no tile, and the ops that wait for these: any other reader may have run before. Two ops
share no region if an op on a path between them cannot be tiled with them. Theorem and proof: docs/proofs.md, section
15. `lowtide.verify.check.regions` recomputes the numbers by other means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Literal

from lowtide.analyse.model import MemoryModel
from lowtide.graph import Kind, Op
from lowtide.ops.forms import Concat
from lowtide.ops.index import FIXED, Index, Range
from lowtide.ops.kinds import kind_of
from lowtide.optimize.last_results import last_results
from lowtide.optimize.loop_flow import members
from lowtide.rewrites import RegionBound
from lowtide.stop import Limits, count
from lowtide.transform.cut import Cutter, needed

Event = tuple[Literal["ran"], int] | tuple[Literal["joined"], int, frozenset[int]]
"""An untiled op runs, or a tensor is materialised from its tiles for some readers that wait."""

_OP = 6_500  # nanoseconds of a bound at an op, for each op of the graph
MOST_BETWEEN = 64  # ops from one to another of a region that are looked at; further apart, they may be in one


def region_bound(
    cutter: Cutter,
    memory: MemoryModel,
    footprint: Sequence[int],
    goal: int,
    limits: Limits,
    *,
    materialised: bool = False,
) -> RegionBound:
    """The greatest bound over the ops of a graph, or the first that reaches the goal; the time limit ends it, too.

    `footprint`: bytes at each op, by position, in some order of the untiled ops: no bound at an op is above it. `goal`:
    bytes that a plan reaches. `materialised`: whether it holds only for plans whose regions materialise what others
    read.
    """
    bounds = RegionBounds(cutter, memory, materialised=materialised)
    best = RegionBound(bytes=bounds.ends(), op=None, joined=materialised)
    for i in sorted(range(len(footprint)), key=lambda i: (-footprint[i], i)):
        if footprint[i] <= best.bytes or best.bytes >= goal or limits.over():
            break
        count(_OP * len(footprint))
        op = cutter.graph.ops[i].id
        value = bounds.at(op, best.bytes)
        if value > best.bytes:
            best = RegionBound(bytes=value, op=op, joined=materialised)
    return best


class RegionBounds:
    """Bounds at single ops. `cutter`: what may be tiled. `memory`: the graph under a target. `materialised`: whether
    they hold only for plans whose regions materialise what others read."""

    def __init__(self, cutter: Cutter, memory: MemoryModel, *, materialised: bool = False) -> None:
        self._joins = materialised
        self.cutter, self.graph, self.target = cutter, memory.graph, memory.target
        self._cut: dict[tuple[int, int], int] = {}
        self._known = len(memory.graph.ops)
        self.axes = cache(cutter.axes)
        self.reads_all, self.runs_all = cache(self._reads_all), cache(self._runs_all)
        for op in reversed(self.graph.ops):  # readers first: no deep recursion
            self.runs_all(op.id)
        self.waiting = cache(self._waiting)
        self.concatenated = cache(self._concatenated)
        self._between = cache(self._ops_between)

    def ends(self) -> int:
        """What is there at the start, and at the end."""
        inputs = [t.id for t in self.graph.tensors if t.kind is Kind.INPUT and t.id in self.graph.consumers]
        return max(self._sum(inputs), last_results(self))

    def bytes_of(self, tensors: Iterable[int]) -> int:
        """Of some tensors, of those that may share a storage of the largest alone."""
        return self._sum(tensors)

    def group_of(self, tensor: int) -> int:
        """The same number for all tensors that may share a storage."""
        return self._group[tensor]

    def is_given_all(self, op: int, tensor: int) -> bool:
        """Whether all of a tensor is given to an op, however it runs."""
        return self.reads_all(op, tensor)

    def may_be_cut(self, op: int) -> bool:
        """Whether an op can run in parts."""
        return bool(self.axes(op))

    def before(self, tensor: int) -> set[int]:
        """Tensors all of which are made in every plan before all of one is, and that one."""
        return {*self._tensors(self._before[tensor])}

    def at(self, op: int, least: int = 0) -> int:
        """What a plan needs at an op at least, however it runs; any number up to `least` if it is no more than that."""
        value = self.untiled(op)
        for axis in self.axes(op):
            if value <= least:
                break
            value = min(value, self.cut(op, axis))
        return value

    def untiled(self, op: int) -> int:
        """Live bytes while an untiled op runs; 0 if it may leave some rows out."""
        if not self.runs_all(op):
            return 0
        own = self.graph.op_by_id[op]
        after = self._needed[self._event[("ran", op)]]
        held = [*self._tensors(self._there(self._given(own)) & after)]
        made = {*own.outputs, *held}
        reads = {t for t in own.inputs if self.reads_all(op, t)}
        if self.in_place(own):
            return max(self._sum({*reads, *held}), self._sum(made))
        return self._sum(reads | made)

    def _concatenated(self, tensor: int, axis: int) -> int:
        """Live bytes when the tiles of a tensor along an axis are concatenated; 0: no plan has to."""
        graph, own = self.graph, self._group[tensor]
        readers = graph.consumers.get(tensor, ())
        output = graph.tensor_by_id[tensor].kind is Kind.OUTPUT
        if not output and (not readers or not all(self.reads_all(op, tensor) for op in readers)):
            return 0
        after = self._results if output else self._needed[self._event[("joined", tensor, self.waiting(tensor, axis))]]
        there = self._there(self._before[tensor]) & after
        held = [t for t in self._tensors(there) if self._group[t] != own]
        return self._sum([tensor]) + graph.tensor_by_id[tensor].size + self._sum(held)

    def cut(self, op: int, axis: int) -> int:
        """What a plan needs at least if it cuts an op along an axis in two parts or more."""
        ops = self.graph.ops
        while self._known > self.graph.index_of[op]:  # readers first
            self._known -= 1
            at = ops[self._known]
            for a in self.axes(at.id):
                leaves = (self._leaves(at.id, a, t) for t in at.outputs)
                self._cut[(at.id, a)] = max([self._part(at.id, a), *leaves])
        return self._cut[(op, axis)]

    def _leaves(self, op: int, axis: int, tensor: int) -> int:
        """Bytes of a tensor that tiles make: materialised, or read in tiles by all its readers."""
        materialised = self.concatenated(tensor, axis)
        output = self.graph.tensor_by_id[tensor].kind is Kind.OUTPUT
        if not materialised or output or self.cutter.dim(op, tensor, axis) is None:
            return materialised
        most = 0
        for reader in self.graph.consumers.get(tensor, ()):
            axes = self.together(op, axis, reader) if self._joins else self._tiled_reads(op, axis, tensor, reader)
            if not axes:
                return materialised
            most = max(most, min(self._cut[(reader, other)] for other in axes))
        return min(materialised, most)

    def _part(self, op: int, axis: int) -> int:
        """What some part holds of what it reads and makes: the most of three grains, as each is in some part; 0 where
        some rows may be left out."""
        if not self.runs_all(op):
            return 0
        own, known, how = self.graph.op_by_id[op], self.cutter.meaning(op), self.cutter.spelling(op, axis)
        assert known is not None, own.label
        assert how is not None, own.label
        size, grain, access = known.access.sizes[axis], how.grain, known.access
        most = 0
        for at in {0, size // grain // 2 * grain, (size - 1) // grain * grain}:
            rows = (at, min(size, at + grain))
            around = access.aligned({axis: rows})[axis]
            reads: dict[int, int] = {}
            for i, t, dims in self.cutter.reads(op):
                if axis not in access.reduce or i not in access.once:
                    reads[t] = max(reads.get(t, 0), self._rows_bytes(t, dims, axis, around))
            writes: dict[int, int] = {}
            for t in own.outputs:
                d = self.cutter.dim(op, t, axis)
                writes[t] = self._bytes(t) if d is None else self._bytes(t) * (rows[1] - rows[0]) // self._shape(t)[d]
            together = [reads, writes] if self.in_place(own, cut=True) else [{**reads, **writes}]
            most = max(most, *map(self._most, together))
        return most

    def _rows_bytes(self, t: int, dims: Sequence[Index | None], axis: int, rows: Range) -> int:
        size = self._bytes(t)
        for index, length in zip(dims, self._shape(t), strict=True):
            if index is not None and index.axis == axis and length:
                first, end = index.need(*rows, length)
                size = size * (end - first) // length
        return size

    def _shape(self, t: int) -> tuple[int, ...]:
        return self.graph.tensor_by_id[t].shape or ()

    # bytes

    @cached_property
    def _group(self) -> dict[int, int]:
        """For each tensor a representative of all tensors that may share its storage in some plan."""
        above: dict[int, int] = {}

        def root(t: int) -> int:
            while above.get(t, t) != t:
                t = above[t]
            return t

        for t in self.graph.tensors:
            if t.alias_of is not None:
                above[root(t.id)] = root(t.alias_of)
        for op in self.graph.ops:
            if op.outputs and (source := self._source(op)) is not None:
                above[root(op.outputs[0])] = root(source)
        return {t.id: root(t.id) for t in self.graph.tensors}

    def _source(self, op: Op) -> int | None:
        """The tensor that an op, or a part of it, may hand on as a view."""
        source, row = self.target.view_source(self.graph, op), kind_of(op.type)
        return op.inputs[0] if source is None and row is not None and row.view and op.inputs else source

    @cached_property
    def _free(self) -> frozenset[int]:
        """Groups that may cost nothing: of constants, and of inputs that are the caller's."""
        kinds = {Kind.CONSTANT} if self.target.count_inputs else {Kind.CONSTANT, Kind.INPUT}
        return frozenset(self._group[t.id] for t in self.graph.tensors if t.kind in kinds)

    def _bytes(self, t: int) -> int:
        return 0 if self._group[t] in self._free else self.graph.tensor_by_id[t].size

    def _sum(self, tensors: Iterable[int]) -> int:
        return self._most({t: self._bytes(t) for t in tensors})

    def _most(self, sizes: dict[int, int]) -> int:
        """Bytes of tensors, only the largest of those that may share a storage."""
        groups: dict[int, int] = {}
        for t, size in sizes.items():
            groups[self._group[t]] = max(groups.get(self._group[t], 0), size)
        return sum(groups.values())

    def in_place(self, op: Op, *, cut: bool = False) -> bool:
        """Whether what an op, or a part of it, makes may lie where what it reads lay."""
        target = self.target
        if target.in_place_inputs(self.graph, op) or target.overlap_inputs(self.graph, op):
            return True
        may = target.rule or op.overwrites is not None or op.type in target.elementwise_types
        return cut and bool(may or (target.in_place != "never" and kind_of(op.type) is not None))

    # what is before and after in every plan: sets of tensors, and of ops, as bits

    @cached_property
    def _bit(self) -> dict[int, int]:
        return {t.id: 1 << i for i, t in enumerate(self.graph.tensors)}

    @cached_property
    def _results(self) -> int:
        return sum(self._bit[t.id] for t in self.graph.tensors if t.kind is Kind.OUTPUT)

    @cached_property
    def _inputs(self) -> int:
        return sum(self._bit[t.id] for t in self.graph.tensors if t.kind is Kind.INPUT)

    def _tensors(self, bits: int) -> Iterator[int]:
        tensors = self.graph.tensors
        while bits:
            low = bits & -bits
            yield tensors[low.bit_length() - 1].id
            bits ^= low

    def _reads_all(self, op: int, t: int) -> bool:
        """Whether an op is given all of a tensor: by all its parts together, or by one part that is all of it."""
        if not self.axes(op):
            return True
        covered = any(read == t and self._covers(op, t, dims) for _, read, dims in self.cutter.reads(op))
        return covered and self.runs_all(op)

    def _runs_all(self, op: int) -> bool:
        """Whether all rows of an op run in every plan: tiles without a consumer never run."""
        graph, made = self.graph, self.graph.op_by_id[op].outputs
        if not self.axes(op) or any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in made):
            return True
        readers = [(reader, t) for t in made for reader in graph.consumers.get(t, ())]
        return not readers or any(self.reads_all(reader, t) for reader, t in readers)

    def _covers(self, op: int, t: int, dims: Sequence[Index | None]) -> bool:
        known = self.cutter.meaning(op)
        assert known is not None
        for index, size in zip(dims, self._shape(t), strict=True):
            if index is None or index.axis == FIXED or index.axis not in self.axes(op):
                continue
            gapless = 0 < index.num <= index.hi - index.lo + index.den
            if not gapless or needed(known, index.axis, index, (0, known.access.sizes[index.axis]), size) != (0, size):
                return False
        return True

    @cached_property
    def _before(self) -> dict[int, int]:
        """For each tensor, it and those that are complete before it."""
        result: dict[int, int] = {t.id: self._bit[t.id] for t in self.graph.tensors}
        for op in self.graph.ops:
            bits = 0
            for t in op.inputs:
                bits |= result[t] if self.reads_all(op.id, t) else 0
            for t in op.outputs:
                result[t] |= bits
        return result

    def _given(self, op: Op) -> int:
        """Tensors that are complete before an untiled op runs."""
        bits = 0
        for t in op.inputs:
            bits |= self._before[t] if self.reads_all(op.id, t) else 0
        return bits

    def _there(self, before: int) -> int:
        return before | self._inputs

    @cached_property
    def _needed(self) -> dict[int, int]:
        """For each bit of `_event` the tensors that every plan needs untiled afterwards; outputs always are."""
        graph, event = self.graph, self._event
        above: dict[int, int] = {}
        for op in graph.ops:
            bits = 0
            for i, t in enumerate(self._followed(op)):
                made = above.get(graph.producer.get(t, -1), 0) | self._waited_for(op.id, t)
                bits = bits & made if i and self._is_concat(op) else bits | made
            above[op.id] = bits | event[("ran", op.id)]
        needed_behind = dict.fromkeys(event.values(), self._results)
        for op in reversed(graph.ops):
            ran = event[("ran", op.id)]
            within = needed_behind[ran]
            for t in op.inputs:
                within |= self._bit[t] if self.reads_all(op.id, t) else 0
            waits = above[op.id] ^ ran
            if not self._is_concat(op):  # what is further above goes on from the ops between
                waits = 0
                for t in self._followed(op):
                    waits |= self._waited_for(op.id, t)
                    waits |= event[("ran", graph.producer[t])] if t in graph.producer else 0
            for k in members(waits):
                needed_behind[1 << k] |= within
        return needed_behind

    def _waiting(self, tensor: int, axis: int) -> frozenset[int]:
        """Consumers of a tensor that can read no tile of it, as its op makes it along an axis."""
        maker = self.graph.producer[tensor]
        readers = self.graph.consumers.get(tensor, ())
        return frozenset(op for op in readers if not self._tiled_reads(maker, axis, tensor, op))

    def _waited_for(self, op: int, tensor: int) -> int:
        """The events, as bits, at which a tensor is put together that an op can read nothing of before."""
        return self._joins_waited_for.get((op, tensor), 0)

    @cached_property
    def _joins_waited_for(self) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for event, bit in self._event.items():
            if event[0] == "joined":
                for op in event[2]:
                    found[(op, event[1])] = found.get((op, event[1]), 0) | bit
        return found

    @cached_property
    def _event(self) -> dict[Event, int]:
        """A bit for each untiled op, and for each materialised tensor with its readers that wait."""
        ran: list[Event] = [("ran", op.id) for op in self.graph.ops]
        materialised: dict[Event, None] = {
            ("joined", t, self.waiting(t, axis)): None
            for op in self.graph.ops
            for axis in self.axes(op.id)
            for t in op.outputs
        }
        return {event: 1 << i for i, event in enumerate((*ran, *materialised))}

    def _is_concat(self, op: Op) -> bool:
        known = self.cutter.meaning(op.id)
        return known is not None and isinstance(known.form, Concat) and bool(self.axes(op.id))

    def _followed(self, op: Op) -> list[int]:
        """Tensors of each of which each part of an op reads something; of those of a join, one at least."""
        known = self.cutter.meaning(op.id)
        if known is None or not self.axes(op.id):
            return list(op.inputs)
        once = known.access.once
        return [t for i, t in enumerate(op.operands or op.inputs) if t is not None and i not in once]

    def _tiled_reads(self, op: int, axis: int, tensor: int, reader: int) -> frozenset[int]:
        """Axes of a reader along which it can read a tensor in the tiles that an op makes, in any region."""
        d = self.cutter.dim(op, tensor, axis)
        reads = [dims[d] for _, read, dims in self.cutter.reads(reader) if read == tensor and d is not None]
        found = {None if index is None or index.num <= 0 else index.axis for index in reads}
        along = found.pop() if len(found) == 1 else None
        return frozenset({along}) & frozenset(self.axes(reader)) if along is not None else frozenset()

    # who can be in one region

    def together(self, op: int, axis: int, reader: int) -> frozenset[int]:
        """Axes of a reader along which it can be in the region of an op that is cut along an axis."""
        axes: dict[int, frozenset[int]] = {op: frozenset({axis})}
        for at in self._between(op, reader):
            makers = {self.graph.producer.get(t) for t in self.graph.op_by_id[at].inputs}
            allowed = frozenset(self.axes(at))
            for maker in makers:
                if maker in axes and maker is not None:
                    allowed &= frozenset(b for a in axes[maker] for b in self._linked(maker, a, at))
            axes[at] = allowed
        return axes[reader]

    def _ops_between(self, op: int, reader: int) -> tuple[int, ...]:
        """Ops on the ways from one to another, and the last one; that alone if they are too far apart."""
        graph = self.graph
        start, end = graph.index_of[op], graph.index_of[reader]
        if end - start > MOST_BETWEEN:
            return (reader,)
        ahead, back = {op}, {reader}
        for at in graph.ops[start + 1 : end]:
            if any(graph.producer.get(t) in ahead for t in at.inputs):
                ahead.add(at.id)
        for at in reversed(graph.ops[start + 1 : end]):
            if any(r in back for t in at.outputs for r in graph.consumers.get(t, ())):
                back.add(at.id)
        return (*(at.id for at in graph.ops[start + 1 : end] if at.id in ahead & back), reader)

    def _linked(self, maker: int, axis: int, reader: int) -> set[int]:
        """Axes along which a reader reads in parts what an op makes in parts along its axis."""
        found: list[set[int]] = []
        for t in self.graph.op_by_id[maker].outputs:
            d = self.cutter.dim(maker, t, axis)
            for dims in (dims for _, read, dims in self.cutter.reads(reader) if read == t):
                index = None if d is None else dims[d]
                found.append({index.axis} if index is not None and index.axis != FIXED and index.num > 0 else set())
        return set.intersection(*found) if found else set()
