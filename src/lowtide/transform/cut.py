"""Tiling of regions: ops that run in stripes, so that fewer bytes of each tensor are live.

    region: conv -> relu -> conv          stripe 0   conv[0:9]  relu[0:9]  conv[0:8]
                                          stripe 1   conv[9:17] relu[9:17] conv[8:16]     rows 7:9 are cached
                                          ...

A region has some ops, each with a tiled axis of its access and, for every stripe, the row up to which it has then run.
Cached halo: rows that a later stripe reads are kept, and every row runs once. Recomputed halo, for ops that make more
than they read:

    region: expand -> depthwise           stripe 0   expand[0:9]  depthwise[0:8]
                                          stripe 1   expand[7:17] depthwise[8:16]         rows 7:9 are recomputed

Then no row of the result is kept or concatenated; rows of the operand are kept, which are smaller. A tensor between ops
of the region is live a few rows at a time. Tensors that the region reads from elsewhere, or makes for other ops, are
materialised. An op with a tiled reduction axis accumulates.

Source: MAGIS (ASPLOS 2024, section 4.1: fission along dimensions); patch-wise inference with cached halos (msf-CNN) or
recomputed halos (MCUNetV2, NeurIPS 2021, for all ops; the restriction to ops that make more than they read is ours).
The axes are those of `lowtide.ops.access`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from lowtide.graph import Graph, Kind
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.part import Accumulating, Spelling, accumulating, spelling

Pace = Literal["pull", "push", "late", "pull again", "late again"]
"""What stripes of a region are equal parts of. pull: of what the last ops make, and the others run as far as they are
needed. push: of what the first ones make, and the others run as far as they can. late: likewise, but who makes no less
than it reads runs no further than its readers do. again: recomputed halos, where that is less to
keep (`Cutter.recomputed_ops`)."""
PACES: tuple[Pace, ...] = ("pull", "push", "late")
RECOMPUTED_HALO: tuple[Pace, ...] = ("pull again", "late again")


@dataclass(frozen=True)
class Cut:
    """A tiled op."""

    op: int  # id
    axis: int  # of the op's access
    ends: tuple[int, ...]  # for each stripe, how many rows of the axis have run when it is over; never falling
    # For each stripe, its first row, if the halo is recomputed: nothing is kept for later stripes. Empty: every row
    # runs once.
    begins: tuple[int, ...] = ()

    def rows(self, stripe: int) -> tuple[int, int]:
        """Rows of the axis that a stripe runs."""
        return (self.begins[stripe] if self.begins else self.done(stripe), self.ends[stripe])

    def done(self, stripe: int) -> int:
        """How many rows have run before a stripe."""
        return self.ends[stripe - 1] if stripe else 0


@dataclass(frozen=True)
class Region:
    """Ops that are cut together, in the order in which each stripe runs them."""

    cuts: tuple[Cut, ...]

    @property
    def stripes(self) -> int:
        """How many times the ops take turns."""
        return len(self.cuts[0].ends)

    @cached_property
    def of(self) -> Mapping[int, Cut]:
        """The cut of each op."""
        return {cut.op: cut for cut in self.cuts}


class Cutter:
    """A graph with the meaning of its ops, looked up once.

    `exact_bits`: whether only tilings count that cannot change a bit, whatever kernel the runtime chooses for another
    shape. `only`: ids of the ops that may be tiled; None: any. `recompute`: whether a search may use regions with
    recomputed halos.
    """

    def __init__(
        self, graph: Graph, *, exact_bits: bool = False, only: Collection[int] | None = None, recompute: bool = False
    ) -> None:
        self.graph, self.exact_bits, self.only, self.recompute = graph, exact_bits, only, recompute
        self._meanings: dict[int, Meaning | None] = {}
        self._spellings: dict[tuple[int, int], Spelling | None] = {}
        self._reads: dict[int, tuple[tuple[int, int, tuple[Index | None, ...]], ...]] = {}
        # Bytes that the kernels of tiles take, by the target and all that they depend on (`optimize/workspace.py`).
        self.kernel_bytes: dict[Hashable, list[tuple[int, int]]] = {}

    def without_recompute(self) -> Cutter:
        """The same for searches in which every halo is cached. What is known of the ops is shared."""
        other = copy(self)
        other.recompute = False
        return other

    def meaning(self, op: int) -> Meaning | None:
        """What an op means."""
        if op not in self._meanings:
            self._meanings[op] = meaning(self.graph, self.graph.op_by_id[op])
        return self._meanings[op]

    def spelling(self, op: int, axis: int) -> Spelling | None:
        """How tiles of an op are lowered to the format; None: it cannot be tiled along the axis."""
        key = (op, axis)
        if key not in self._spellings:
            known = self.meaning(op)
            how = None
            may = self.only is None or op in self.only
            if may and known is not None and axis in known.access.cuttable() and self._exact(known, axis):
                how = spelling(self.graph, self.graph.op_by_id[op], known, axis)
            self._spellings[key] = how
        return self._spellings[key]

    def accumulating(self, op: int, axis: int) -> Accumulating | None:
        """The op that adds a part of this one to the sum of those before."""
        known = self.meaning(op)
        if known is None or self.exact_bits:
            return None
        return accumulating(self.graph, self.graph.op_by_id[op], known, axis)

    def _exact(self, op_meaning: Meaning, axis: int) -> bool:
        return not self.exact_bits or op_meaning.access.exactness(axis) == "bits"

    def axes(self, op: int) -> tuple[int, ...]:
        """Axes that an op can be cut along."""
        known = self.meaning(op)
        return () if known is None else tuple(a for a in known.access.cuttable() if self.spelling(op, a) is not None)

    def dim(self, op: int, tensor: int, axis: int) -> int | None:
        """Dimension of an op's result along an axis; None: every tile makes all of it."""
        known = self.meaning(op)
        if known is None:
            return None
        dims = known.access.outputs[self.graph.op_by_id[op].outputs.index(tensor)]
        return dims.index(axis) if axis in dims else None

    def reads(self, op: int) -> tuple[tuple[int, int, tuple[Index | None, ...]], ...]:
        """Operands of an op that are no constants: (position, tensor, index of each dimension)."""
        if op not in self._reads:
            known, graph = self.meaning(op), self.graph
            given = graph.op_by_id[op].operands or graph.op_by_id[op].inputs
            self._reads[op] = tuple(
                (i, t, known.access.inputs[i] or ())
                for i, t in enumerate(given)
                if t is not None and known is not None and graph.tensor_by_id[t].kind is not Kind.CONSTANT
            )
        return self._reads[op]

    def grow(self, ops: Iterable[int], op: int, axis: int) -> dict[int, int] | None:
        """The axis of each op that is tiled with `op`, among `ops`; None if they cannot be tiled together. Consumers
        of a tiled result are tiled as well; producers of tiled operands are tiled if they can be. Ops of `ops` that
        are not in the result run before it: they read nothing that is tiled."""
        within = set(ops)
        axes = {op: axis}
        queue = [op]
        while queue:
            at = queue.pop()
            if self.spelling(at, axes[at]) is None:
                return None
            wanted = self._readers(at, axes[at], within)
            if wanted is None:
                return None
            for other, other_axis in (*wanted, *self._makers(at, axes[at], within)):
                if other not in axes:
                    axes[other] = other_axis
                    queue.append(other)
                elif axes[other] != other_axis:
                    return None
        return axes if all(self._agree(o, axes) for o in axes) else None

    def _readers(self, op: int, axis: int, within: set[int]) -> list[tuple[int, int]] | None:
        """Ops that have to be cut because they read what this one makes, with their axes; None: one cannot be."""
        wanted = []
        for t in self.graph.op_by_id[op].outputs:
            d = self.dim(op, t, axis)
            for reader in self.graph.consumers.get(t, ()):
                if reader not in within:
                    continue
                for _, read, dims in self.reads(reader):
                    if read != t:
                        continue
                    index = dims[d] if d is not None and d < len(dims) else None
                    if index is None or index.axis == FIXED or index.num <= 0:
                        return None
                    wanted.append((reader, index.axis))
                if t not in (read for _, read, _ in self.reads(reader)):  # a body reads it
                    return None
        return wanted

    def _makers(self, op: int, axis: int, within: set[int]) -> list[tuple[int, int]]:
        """Ops that can be cut since this one reads in parts what they make, with their axes."""
        wanted = []
        for _, t, dims in self.reads(op):
            maker = self.graph.producer.get(t)
            if maker is None or maker not in within:
                continue
            known = self.meaning(maker)
            for d, index in enumerate(dims):
                if index is None or index.axis != axis or known is None:
                    continue
                other = known.access.outputs[self.graph.op_by_id[maker].outputs.index(t)][d]
                if other is not None and self.spelling(maker, other) is not None:
                    wanted.append((maker, other))
        return wanted

    def _agree(self, op: int, axes: Mapping[int, int]) -> bool:
        """Whether an op reads of every tensor that is cut its parts along one dimension, and rows never backwards."""
        for _, t, dims in self.reads(op):
            along = [(d, index) for d, index in enumerate(dims) if index is not None and index.axis == axes[op]]
            if len(along) > 1 or any(index.num <= 0 for _, index in along):
                return False
            maker = self.graph.producer.get(t)
            if maker in axes and maker is not None:
                cut = self.dim(maker, t, axes[maker])
                if cut is None or [d for d, _ in along] != [cut]:
                    return False
        return True

    def region(self, order: Sequence[int], axes: Mapping[int, int], stripes: int, pace: Pace = "pull") -> Region:
        """The ops of `axes` in `stripes` stripes. `order`: op ids; the stripes run them in this order."""
        within = [op for op in order if op in axes]
        recomputed = self.recomputed_ops(within, axes) if pace in RECOMPUTED_HALO else frozenset[int]()
        pulls = pace.startswith("pull")
        ends: dict[int, tuple[int, ...]] = {}
        for op in within if not pulls else ():
            ends[op] = self._pushed(op, axes, stripes, ends)
        for op in reversed(within) if pace != "push" else ():
            if pulls:
                ends[op] = self._pulled(op, axes, stripes, ends)
            elif op in recomputed or self._may_wait(op, axes):
                ends[op] = tuple(map(min, self._pulled(op, axes, stripes, ends), ends[op]))
        cuts: dict[int, Cut] = {}
        for op in reversed(within):
            ends[op] = self._read(op, axes, ends, cuts)
            cuts[op] = Cut(op, axes[op], ends[op], self.begins(op, axes, ends[op], cuts) if op in recomputed else ())
        return Region(tuple([cuts[op] for op in within]))

    def recomputed_ops(self, within: Sequence[int], axes: Mapping[int, int]) -> frozenset[int]:
        """Ops of a region with recomputed halos: they make more than they read, all of it for the region. If a
        consumer needs no halo of such an op, the kept operands of the op count in place of its result: so an
        activation joins the convolution before it."""
        kept_for: dict[int, frozenset[int]] = {}  # of ops with recomputed halos: the tensors kept in their place
        for op in within:
            instead: set[int] = set()
            for _, t, dims in self.reads(op):
                maker = self.graph.producer.get(t, -1)
                alone = all(i is None or i.axis != axes[op] or i.lo == i.hi for i in dims)
                instead |= kept_for[maker] if maker in kept_for and alone else {t}
            made = self.graph.op_by_id[op].outputs
            more = sum(self.graph.tensor_by_id[t].size for t in made) > sum(
                self.graph.tensor_by_id[t].size for t in instead
            )
            if more and self.stays(op, axes):
                kept_for[op] = frozenset(instead)
        return frozenset(kept_for)

    def stays(self, op: int, inside: Collection[int]) -> bool:
        """Whether an op's results have consumers, and all of them are in `inside`."""
        made = self.graph.op_by_id[op].outputs
        readers = {r for t in made for r in self.graph.consumers.get(t, ())}
        leaves = any(self.graph.tensor_by_id[t].kind is Kind.OUTPUT for t in made)
        return bool(readers) and not leaves and all(r in inside for r in readers)

    def begins(
        self, op: int, axes: Mapping[int, int], ends: Sequence[int], readers: Mapping[int, Cut]
    ) -> tuple[int, ...]:
        """The first row that each stripe of an op runs, so that its readers find in what it makes all that they read;
        empty if they read no row that ran before."""
        made, (size, grain) = self.graph.op_by_id[op].outputs, self._size(op, axes[op])
        result = done = [0, *ends[:-1]]
        for reader in dict.fromkeys(r for t in made for r in self.graph.consumers.get(t, ())):
            cut, known = readers[reader], self.meaning(reader)
            assert known is not None, reader
            for index in (i for _, t, dims in self.reads(reader) if t in made for i in dims):
                if index is not None and index.axis == cut.axis:
                    spans = [needed(known, cut.axis, index, cut.rows(i), size) for i in range(len(ends))]
                    result = [min(x, a) if a < b else x for x, (a, b) in zip(result, spans, strict=True)]
        begins = tuple([x // grain * grain for x in result])
        return begins if list(begins) != done else ()

    def _read(
        self, op: int, axes: Mapping[int, int], ends: Mapping[int, tuple[int, ...]], cuts: Mapping[int, Cut]
    ) -> tuple[int, ...]:
        """The ends of an op where a tile without consumers runs with the next tile, or not at all."""
        spans = self._read_rows(op, axes, cuts)
        if not spans:
            return ends[op]
        result, at = [], 0
        for end in ends[op]:
            if any(a < end and at < b for a, b in spans):
                at = max(at, end)
            result.append(at)
        return tuple(result)

    def _read_rows(self, op: int, axes: Mapping[int, int], cuts: Mapping[int, Cut]) -> list[tuple[int, int]]:
        """Rows of what an op makes that parts of the region read; none if others read it, too."""
        graph, size, spans = self.graph, self._size(op, axes[op])[0], []
        for t in graph.op_by_id[op].outputs:
            readers = graph.consumers.get(t, ())
            if graph.tensor_by_id[t].kind is Kind.OUTPUT or any(reader not in axes for reader in readers):
                return []
            for reader in readers:
                known = self.meaning(reader)
                assert known is not None, reader
                for index in (i for _, read, dims in self.reads(reader) if read == t for i in dims):
                    if index is not None and index.axis == axes[reader]:
                        parts = map(cuts[reader].rows, range(len(cuts[reader].ends)))
                        spans += [needed(known, axes[reader], index, rows, size) for rows in parts]
        return [(a, b) for a, b in spans if a < b]

    def _may_wait(self, op: int, axes: Mapping[int, int]) -> bool:
        """Whether an op makes no less than it reads, and all of it for others of the region."""
        written = sum(self.graph.tensor_by_id[t].size for t in self.graph.op_by_id[op].outputs)
        read = sum(self.graph.tensor_by_id[t].size for _, t, _ in self.reads(op))
        return written >= read and self.stays(op, axes)

    def _size(self, op: int, axis: int) -> tuple[int, int]:
        """Rows of an axis, and at multiples of how many of them parts begin."""
        known, how = self.meaning(op), self.spelling(op, axis)
        assert known is not None, op
        assert how is not None, op
        return known.access.sizes[axis], how.grain

    def _pulled(
        self, op: int, axes: Mapping[int, int], stripes: int, ends: Mapping[int, tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The ends of an op from those of its readers."""
        graph = self.graph
        size, grain = self._size(op, axes[op])
        wanted, leaves = [0] * stripes, False
        for t in graph.op_by_id[op].outputs:
            readers = [r for r in graph.consumers.get(t, ()) if r in axes]
            outside = len(readers) < len(graph.consumers.get(t, ()))
            leaves = leaves or outside or not readers or graph.tensor_by_id[t].kind is Kind.OUTPUT
            for reader in readers:
                for i, end in enumerate(self._needed(reader, t, axes[reader], ends[reader], size)):
                    wanted[i] = max(wanted[i], end)
        if not any(wanted):
            wanted = [-(-size * (i + 1) // stripes) for i in range(stripes)]
        elif leaves:
            wanted[-1] = size
        return tuple(min(size, -(-end // grain) * grain) for end in wanted)

    def _pushed(
        self, op: int, axes: Mapping[int, int], stripes: int, ends: Mapping[int, tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The ends of an op from those of the ops that it reads from."""
        size, grain = self._size(op, axes[op])
        makers = [(t, self.graph.producer[t]) for _, t, _ in self.reads(op) if self.graph.producer.get(t) in axes]
        if not makers:
            return tuple(min(size, -(-size * (i + 1) // (stripes * grain)) * grain) for i in range(stripes))
        result, at, count = [], 0, -(-size // grain)
        every = [min(size, grain * (k + 1)) for k in range(count)]
        needs = [(self._needed(op, t, axes[op], every, self._size(m, axes[m])[0]), ends[m]) for t, m in makers]
        for i in range(stripes):
            while at < count and all(need[at] <= made[i] for need, made in needs):
                at += 1
            result.append(min(size, at * grain))
        return tuple(result)

    def _needed(self, op: int, tensor: int, axis: int, ends: Sequence[int], size: int) -> list[int]:
        """For each stripe of an op, the end of the rows of a tensor that it reads."""
        known = self.meaning(op)
        assert known is not None
        rows = [known.access.aligned({axis: (0, end)})[axis][1] for end in ends]
        result = [0] * len(ends)
        for _, t, dims in self.reads(op):
            for index in dims if t == tensor else ():
                if index is not None and index.axis == axis:
                    result = [max(least, index.need(0, end, size)[1]) for least, end in zip(result, rows, strict=True)]
        return result


def needed(op_meaning: Meaning, axis: int, index: Index, rows: tuple[int, int], size: int) -> tuple[int, int]:
    """Rows of a dimension of `size` rows that a part of an op needs."""
    if rows[0] >= rows[1]:
        return (0, 0)
    return index.need(*op_meaning.access.aligned({axis: rows})[axis], size)
