"""Row streaming: ops that run together, one row of the last op at a time, with a line buffer for each tensor between.

    x ==[ conv ]~~ buffer ~~[ depthwise ]~~ buffer ~~[ conv ]== y       == materialised, written row by row
                   row j is in slot j mod R

The last op **drives**: its rows run in turn, and each other op runs, row by row, until the next row of its consumer has
its operands. Every row is made once. A line buffer has as many rows as are ever live: from the lowest that some
consumer still needs to the last one made. Ops without a consumer in the loop, other than the driving op, run as soon as
they can; at the end, all results of the loop are completed. Operands from outside are materialised, or in a line buffer
if the caller streams a graph input row by row.

A row is a row of an axis of the op's access, or an indivisible group of rows (its grain: channels of a group, a head),
or, with two axes, a pixel: positions run through both, the second one inside the first. A reduction axis gives a
materialised result, with an accumulator as large.

Source: the rows that msf-CNN (NeurIPS 2025) and MCUNetV2 keep of chains, for any convex set of ops and any axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Any

from lowtide.graph import MAX_BYTES, Graph, Kind, Op
from lowtide.ops.index import FIXED, Index
from lowtide.ops.meaning import Meaning, meaning
from lowtide.ops.raster import memory_dims
from lowtide.sizes import round_up
from lowtide.target import Target

Axes = tuple[int, ...]
"""One axis of an op's access, or two, the second one inside the first; likewise dimensions of a tensor."""

ACCUMULATORS = {"int8": 4, "uint8": 4, "int16": 8, "uint16": 8, "float16": 4, "bfloat16": 4}
"""Bytes of an accumulator for an element that is too short to be one; of a longer type the result is its own. TFLite
adds 8-bit integers up in 32 bits and 16-bit ones in 64."""


@dataclass(frozen=True)
class LineBuffer:
    """Circular line buffer: positions (rows or pixels) of a tensor that a loop keeps."""

    tensor: int  # id
    # slots, slot_bytes: number of positions, and bytes of each.
    slots: int
    slot_bytes: int
    # The tensor whose memory it shares, position by position: the op between overwrites what it has read.
    over: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of a buffer with memory of its own, else 0."""
        return 0 if self.over is not None else self.slots * self.slot_bytes


@dataclass(frozen=True)
class Over:
    """Memory of a loop that overlaps an input which dies in it: writes stay after the reads."""

    tensor: int | None  # a result; None: all line buffers and accumulators, as one block
    input: int  # id
    distance: int  # bytes that it has to begin below the input, at least; a multiple of the alignment
    saving: int  # bytes that both share at most


@dataclass(frozen=True)
class Loop:
    """Ops that run together."""

    ops: tuple[int, ...]  # ids in the order of the untiled ops; the last one drives
    axes: tuple[Axes, ...]  # of each op
    # Dimensions along these axes, of each tensor that the loop makes or receives in slices.
    dims: tuple[tuple[int, Axes], ...]
    streamed: tuple[int, ...]  # graph inputs that the caller streams position by position
    line_buffers: tuple[LineBuffer, ...]  # of every tensor that is not materialised
    # (tensor, bytes) of each result that is accumulated at a higher precision.
    accumulators: tuple[tuple[int, int], ...]
    iterations: int  # positions of the driving op
    over: Over | None = None  # memory that overlaps an input which dies in the loop
    # Tensors of line buffers and accumulators in the order of their memory, if not line buffers first.
    laid: tuple[int, ...] = ()
    # If some line buffers share memory: (tensor, offset in bytes) of each line buffer and accumulator.
    shared: tuple[tuple[int, int], ...] = ()

    def buffers(self) -> list[tuple[int, int]]:
        """(tensor, bytes) of each line buffer with own memory and of each accumulator, in the order of their memory."""
        listed = [(r.tensor, r.bytes) for r in self.line_buffers if r.over is None] + list(self.accumulators)
        return sorted(listed, key=lambda buffer: self.laid.index(buffer[0])) if self.laid else listed

    def places(self, alignment: int) -> dict[int, int]:
        """Offset in bytes of each line buffer with own memory and of each accumulator."""
        if self.shared:
            return dict(self.shared)
        sizes = [round_up(size, alignment) for _, size in self.buffers()]
        return {t: begin for (t, _), begin in zip(self.buffers(), accumulate(sizes, initial=0), strict=False)}

    def workspace(self, alignment: int) -> int:
        """Bytes of its line buffers and accumulators, each rounded up to the alignment."""
        at = self.places(alignment)
        return max((at[t] + round_up(size, alignment) for t, size in self.buffers()), default=0)


class LoopRules:
    """The loops that a graph allows under a target. `exact_bits`: whether only loops count that cannot change a bit,
    whatever kernel computes a row. `share`: whether line buffers that are never live together may share memory."""

    def __init__(self, graph: Graph, target: Target, *, exact_bits: bool = False, share: bool = True) -> None:
        self.graph, self.target, self.exact_bits, self.share = graph, target, exact_bits, share
        self.most_rows = 1 if graph.dialect == "tflite" else MAX_BYTES  # C that is written for it takes single rows
        self._meanings: dict[int, Meaning | None] = {}
        self._reads: dict[int, list[tuple[int, tuple[Index | None, ...]]]] = {}
        self._may: dict[tuple[int, Axes], bool] = {}
        self._read_along: dict[tuple[int, int, Axes], Axes | None] = {}
        self._axes_reading: dict[tuple[int, int, Axes], Axes | None] = {}
        self._over: dict[int, list[int]] = {}
        self._views: dict[int, int | None] = {}
        self._grain: dict[tuple[int, int], int] = {}
        self._slot: dict[tuple[int, Axes], int | None] = {}
        self.plays: dict[Hashable, Any] = {}
        """What playing loops gave: of each problem of `lowtide.optimize.loop_rings`."""

    def meaning(self, op: int) -> Meaning | None:
        """What an op means; None if nothing is known, or it may not run in parts at all."""
        if op not in self._meanings:
            self._meanings[op] = self._meaning(self.graph.op_by_id[op])
        return self._meanings[op]

    def _meaning(self, op: Op) -> Meaning | None:
        known = meaning(self.graph, op)
        if known is None or known.opaque or known.random or known.mutates or op.bodies or op.id in self._tied:
            return None
        tensors = [self.graph.tensor_by_id[t] for t in (*op.inputs, *op.outputs)]
        if any(t.id in self._aliased and t.kind is not Kind.CONSTANT for t in tensors) or not op.outputs:
            return None
        return known

    @cached_property
    def _tied(self) -> set[int]:
        """Ops that have to run before or after others although no tensor says so."""
        return {o for op in self.graph.ops for o in (*op.after, *((op.id,) if op.after or op.writes else ()))}

    @cached_property
    def _aliased(self) -> set[int]:
        """Tensors that the graph itself puts into one storage."""
        pairs = [(t.id, t.alias_of) for t in self.graph.tensors if t.alias_of is not None]
        return {t for pair in pairs for t in pair if t is not None}

    def reads(self, op: int) -> list[tuple[int, tuple[Index | None, ...]]]:
        """(tensor, index of each dimension) of each operand of an op that is no constant."""
        if op not in self._reads:
            known = self.meaning(op)
            assert known is not None, op
            node = self.graph.op_by_id[op]
            given = node.operands or node.inputs
            self._reads[op] = [
                (t, known.access.inputs[i] or ())
                for i, t in enumerate(given)
                if t is not None and self.graph.tensor_by_id[t].kind is not Kind.CONSTANT
            ]
        return self._reads[op]

    def may(self, op: int, axes: Axes) -> bool:
        """Whether an op may run position by position along these axes."""
        key = (op, axes)
        if key not in self._may:
            self._may[key] = self._may_run(op, axes)
        return self._may[key]

    def _may_run(self, op: int, axes: Axes) -> bool:
        known = self.meaning(op)
        if known is None or len(set(axes)) != len(axes):
            return False
        access = known.access
        reduced = [a in access.reduce for a in axes]
        if any(reduced) and (not all(reduced) or not self._adds_up(op)):
            return False
        if any(access.sizes[a] % access.grain_of(a) or access.grain_of(a) > self.most_rows for a in axes):
            return False
        classes = {access.exact} if not any(reduced) else {self._summed(op)}
        return "never" not in classes and (not self.exact_bits or classes == {"bits"})

    def _adds_up(self, op: int) -> bool:
        """Whether what the op makes can be added up part by part, as far as its type is known."""
        tensors = [self.graph.tensor_by_id[t] for t in self.graph.op_by_id[op].outputs]
        return all(t.shape is not None and (t.dtype in ACCUMULATORS or t.dtype in _SELF) for t in tensors)

    def _summed(self, op: int) -> str:
        """What adding up in the order of the positions does to the bits."""
        known = self.meaning(op)
        assert known is not None, op
        dtype = self.graph.tensor_by_id[self.graph.op_by_id[op].outputs[0]].dtype or ""
        return "sum" if "float" in dtype and known.access.merge == "sum" else "bits"

    def exactness(self, op: int, axes: Axes) -> str:
        """What running an op along these axes does to its numbers: bits, kernel or sum."""
        known = self.meaning(op)
        assert known is not None, op
        return self._summed(op) if axes[0] in known.access.reduce else known.access.exact

    def starts(self, op: int) -> list[Axes]:
        """Axes along which an op may drive: each of more than one row, and each two neighbouring dimensions."""
        known = self.meaning(op)
        if known is None:
            return []
        access = known.access
        long = [a for a, size in enumerate(access.sizes) if size > access.grain_of(a)]
        single = [(a,) for a in long if self.may(op, (a,))]
        both = [(a, b) for a, b in pairwise(access.outputs[0]) if a in long and b in long and self.may(op, (a, b))]
        return [*single, *both]

    def counts(self, op: int, axes: Axes) -> list[int]:
        """How many positions an op runs through along each axis: rows, or groups of rows that no cut divides."""
        known = self.meaning(op)
        assert known is not None, op
        return [known.access.sizes[a] // known.access.grain_of(a) for a in axes]

    def positions(self, op: int, axes: Axes) -> int:
        """How many positions an op runs through."""
        return prod(self.counts(op, axes))

    def grain(self, tensor: int, dim: int) -> int:
        """Rows of a dimension in one position: as many as the producer of the tensor makes together."""
        key = (tensor, dim)
        if key not in self._grain:
            self._grain[key] = self._grain_of(tensor, dim)
        return self._grain[key]

    def _grain_of(self, tensor: int, dim: int) -> int:
        maker = self.graph.producer.get(tensor)
        known = None if maker is None else self.meaning(maker)
        if maker is None or known is None:
            return 1
        axis = known.access.outputs[self.graph.op_by_id[maker].outputs.index(tensor)][dim]
        return 1 if axis is None else known.access.grain_of(axis)

    def memory_dims(self, tensor: int) -> Axes:
        """Dimensions of a materialised tensor by their stride under the target, the slowest first."""
        return memory_dims(self.graph, tensor, channels_last=self.target.channels_last)

    def tensor_counts(self, tensor: int, dims: Axes) -> list[int]:
        """How many positions a tensor has along each of its dimensions."""
        shape = self.graph.tensor_by_id[tensor].shape or ()
        return [shape[d] // self.grain(tensor, d) for d in dims]

    def index(self, op: int, read: Index, tensor: int, dim: int) -> Index:
        """Which positions of a dimension are read for a position of an op, as `read` gives it for rows. Position p
        of the op is its rows p g to p g + g - 1, position q of the tensor its rows q u to q u + u - 1. Integer
        divisions nest: (x // den) // u = x // (den u)."""
        known = self.meaning(op)
        assert known is not None, op
        if read.axis == FIXED:
            return read
        g, u = known.access.grain_of(read.axis), self.grain(tensor, dim)
        if g == u == 1:
            return read
        return Index(read.axis, read.num * g, read.den * u, read.lo, read.hi + (g - 1) * read.num)

    def made_along(self, op: int, tensor: int, axes: Axes) -> Axes | None:
        """Dimensions of an op's result along its axes; None if it is untiled or summed."""
        known = self.meaning(op)
        assert known is not None, op
        along = known.access.outputs[self.graph.op_by_id[op].outputs.index(tensor)]
        return tuple(along.index(a) for a in axes) if all(a in along for a in axes) else None

    def read_along(self, op: int, tensor: int, axes: Axes) -> Axes | None:
        """Dimensions of an operand that an op reads in parts, never backwards, as it runs along its axes. None if it
        does not read each axis along one dimension, or two of its operands are this tensor in other ways."""
        key = (op, tensor, axes)
        if key not in self._read_along:
            result = {self._along(dims, axes) for t, dims in self.reads(op) if t == tensor}
            self._read_along[key] = result.pop() if len(result) == 1 else None
        return self._read_along[key]

    @staticmethod
    def _along(dims: Sequence[Index | None], axes: Axes) -> Axes | None:
        listed = []
        for axis in axes:
            at = [d for d, index in enumerate(dims) if index is not None and index.axis == axis]
            if len(at) != 1:
                return None
            index = dims[at[0]]
            if index is None or index.num <= 0:
                return None
            listed.append(at[0])
        return tuple(listed)

    def axes_reading(self, op: int, tensor: int, dims: Axes) -> Axes | None:
        """Axes of an op along which it reads these dimensions of an operand; None if it reads one of them untiled."""
        key = (op, tensor, dims)
        if key not in self._axes_reading:
            self._axes_reading[key] = None if self.meaning(op) is None else self._reading(op, tensor, dims)
        return self._axes_reading[key]

    def _reading(self, op: int, tensor: int, dims: Axes) -> Axes | None:
        result: set[Axes | None] = set()
        for t, read in self.reads(op):
            if t == tensor:
                picked = [read[d] if d < len(read) else None for d in dims]
                known = [i.axis for i in picked if i is not None and i.axis != FIXED]
                result.add(tuple(known) if len(known) == len(dims) else None)
        return result.pop() if len(result) == 1 else None

    def axes_making(self, op: int, tensor: int, dims: Axes) -> Axes | None:
        """Axes of an op along which it makes these dimensions of its result; None if one of them is untiled."""
        known = self.meaning(op)
        if known is None:
            return None
        along = known.access.outputs[self.graph.op_by_id[op].outputs.index(tensor)]
        listed = tuple(along[d] for d in dims)
        return None if None in listed else tuple(a for a in listed if a is not None)

    def slot_bytes(self, tensor: int, dims: Axes) -> int | None:
        """Bytes of one position of a tensor; None if they are no integer."""
        key = (tensor, dims)
        if key not in self._slot:
            self._slot[key] = self._slot_bytes(tensor, dims)
        return self._slot[key]

    def _slot_bytes(self, tensor: int, dims: Axes) -> int | None:
        t, shape = self.graph.tensor_by_id[tensor], self.graph.tensor_by_id[tensor].shape or ()
        count = prod(self.tensor_counts(tensor, dims))
        exact = all(shape[d] % self.grain(tensor, d) == 0 for d in dims)
        return t.size // count if count and exact and t.size % count == 0 else None

    def view_source(self, op: int) -> int | None:
        """The tensor that an op's result is a view of; None if it is none."""
        if op not in self._views:
            self._views[op] = self.target.view_source(self.graph, self.graph.op_by_id[op])
        return self._views[op]

    def written_over(self, op: int) -> list[int]:
        """Inputs that an op may write over position by position: it reads nothing else of them, nor a second time."""
        if op not in self._over:
            self._over[op] = self._written_over(op)
        return self._over[op]

    def _written_over(self, op: int) -> list[int]:
        node = self.graph.op_by_id[op]
        if len(node.outputs) != 1:
            return []
        view = self.view_source(op)
        allowed = list(self.target.in_place_inputs(self.graph, node)) if view is None else [view]
        return [t for t in allowed if [r for r, _ in self.reads(op)].count(t) == 1]


_SELF = frozenset({"float32", "float64", "int32", "int64", "uint32", "uint64"})
"""Types whose sums need no longer numbers."""


def stream_dimension(graph: Graph, tensor: int) -> int | None:
    """Dimension along which a caller hands an input over: rows of an image, else the first with more than one row.
    Images are ``[N, H, W, C]`` in TFLite, ``[N, C, H, W]`` elsewhere. None if there is no such dimension."""
    shape = graph.tensor_by_id[tensor].shape or ()
    if graph.dialect != "tflite" and len(shape) == 4:
        return 2 if shape[2] > 1 else None
    return next((d for d, size in enumerate(shape) if size > 1), None)
