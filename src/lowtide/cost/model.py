"""How long the ops of a graph, and their parts, take by a cost file: in integer nanoseconds, so that sums are exact.

A part of an op along an axis takes what was measured of a part of as many rows; between two such, in a line. Below
the smallest that was measured the line ends at what a part takes whatever its rows: the launch, and what it reads in
full. Nothing measured: the family's line, from there to the untiled op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lowtide.cost.file import OTHER, CostFile
from lowtide.cost.signature import Signature, of_entry, of_op
from lowtide.errors import InputError
from lowtide.graph import Graph, Op
from lowtide.ops.forms import Convolution
from lowtide.ops.meaning import Meaning

if TYPE_CHECKING:
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import PartGraph

How = Literal["measured", "between", "roofline"]
"""An op's seconds were measured, lie in a line between measured ones, or are reckoned from operations and bytes."""

Anchors = tuple[tuple[int, int], ...]  # (rows of a part, nanoseconds), ascending from 0 rows to all

_FASTER = 0.85
"""Of its share of the whole op's time a part takes this at least, whatever was measured: what lies between parts stays
in the caches, but a search for the least time would find every measurement that came out too short."""
_NANO = 1_000_000_000
_MEBIBYTE = 1 << 20
_MOST, _MOST_A_MEBIBYTE = 1 << 40, 1 << 28
"""Nanoseconds above which times count as this, so that products with rows and bytes stay below 2^63."""


@dataclass(frozen=True)
class Prediction:
    """What some ops take."""

    nanoseconds: int  # together
    by: Counter[How]  # of how many ops it is known how (`How`)


class CostModel:
    """A cost file, looked up for one graph. Raises `InputError`: the file is of ops of another dialect."""

    def __init__(self, file: CostFile, cutter: Cutter, place: str = "cost file") -> None:
        graph = cutter.graph
        if file.dialect != graph.dialect:
            other = graph.dialect or "no format"
            raise InputError(f"it is of {file.dialect} ops, and the model is of {other}; measure the model", place)
        self.file, self.cutter = file, cutter
        self._of_kind: dict[tuple[object, ...], list[tuple[Signature, int]]] = {}
        self._seconds: dict[Signature, int] = {}
        for entry in file.entries:
            signature = of_entry(entry)
            self._seconds[signature] = _nano(entry.seconds)
            self._of_kind.setdefault(signature.kind, []).append((signature, _nano(entry.seconds)))
        self._anchors: dict[tuple[int, int], Anchors] = {}
        self._known: dict[tuple[int, int], frozenset[int]] = {}
        self._untiled: dict[int, tuple[int, How]] = {}
        self.glue = (self._glue("slice"), self._glue("join"), self._glue("merge"))
        """Of slices, joins and merges: nanoseconds of one, and of each mebibyte that it writes."""

    def _glue(self, name: str) -> tuple[int, int]:
        """A copy reads as many bytes as it writes, a sum twice as many."""
        family = self.file.families[name]
        moved = 3 if name == "merge" else 2
        rate = _nano(moved * family.seconds_per_byte * _MEBIBYTE)
        return _nano(family.launch_seconds), min(rate, _MOST_A_MEBIBYTE)

    def op(self, op: int) -> tuple[int, How]:
        """Nanoseconds of an untiled op of the graph, and how they are known."""
        if op not in self._untiled:
            graph, known = self.cutter.graph, self.cutter.meaning(op)
            found = self._seconds.get(of_op(graph, graph.op_by_id[op], known))
            roofline = self._roofline(graph.op_by_id[op], known)
            self._untiled[op] = (roofline, "roofline") if found is None else (found, "measured")
        return self._untiled[op]

    def _roofline(self, op: Op, op_meaning: Meaning | None) -> int:
        work = work_of(self.cutter.graph, op, op_meaning)
        family = self.file.families.get(work.family, self.file.families[OTHER])
        return _nano(family.seconds(work.flops, work.bytes))

    def anchors(self, op: int, axis: int) -> Anchors:
        """What parts of an op along an axis take."""
        if (op, axis) not in self._anchors:
            self._anchors[op, axis], self._known[op, axis] = self._find_anchors(op, axis)
        return self._anchors[op, axis]

    def _find_anchors(self, op_id: int, axis: int) -> tuple[Anchors, frozenset[int]]:
        graph, known = self.cutter.graph, self.cutter.meaning(op_id)
        assert known is not None, op_id
        op, size = graph.op_by_id[op_id], known.access.sizes[axis]
        measured = self._measured(op, known, axis)
        family = self.file.families.get(work_of(graph, op, known).family, self.file.families[OTHER])
        least = _nano(family.seconds(0, full_bytes(graph, op, known, axis)))
        known_rows = frozenset(measured)
        if not measured:
            measured = {size: self.op(op_id)[0]}
        elif size not in measured:  # in a line with the largest part, but never less than that
            rows = max(measured)
            measured[size] = max(measured[rows], measured[rows] * size // rows)
        untiled = measured[size]
        measured = {rows: max(taken, int(_FASTER * untiled * rows / size)) for rows, taken in measured.items()}
        least = min(least, *measured.values())
        return ((0, least), *sorted(measured.items())), known_rows

    def _measured(self, op: Op, op_meaning: Meaning, axis: int) -> dict[int, int]:
        """Rows of those parts of the op along the axis that were measured, with their nanoseconds."""
        untiled = of_op(self.cutter.graph, op, op_meaning)
        result = {}
        for other, nanoseconds in self._of_kind.get(untiled.kind, ()):
            rows = _rows(untiled, other, op_meaning, axis)
            if rows is not None:
                result[rows] = nanoseconds
        return result

    def part(self, op: int, axis: int, rows: int) -> tuple[int, How]:
        """Nanoseconds of a part of a given number of rows, and how they are known."""
        anchors = self.anchors(op, axis)
        known = self._known[op, axis]
        how: How = "measured" if rows in known else "between" if known else "roofline"
        return between(anchors, rows), how

    def between_parts(self, role: str, written: int) -> int:
        """Nanoseconds of a slice, a join, a merge, or another copy, that writes a given number of bytes."""
        fixed, per_mebibyte = self.glue[{"join": 1, "merge": 2}.get(role, 0)]
        return fixed + written * per_mebibyte // _MEBIBYTE

    def untiled(self) -> Prediction:
        """What the graph takes that is not cut."""
        return _total(self.op(op.id) for op in self.cutter.graph.ops)

    def parts(self, parts: PartGraph) -> Prediction:
        """What a graph in parts takes."""
        return _total(self._of_part_graph(parts, op.id) for op in parts.graph.ops)

    def _of_part_graph(self, parts: PartGraph, op: int) -> tuple[int, How]:
        part = parts.parts.get(op)
        if part is None or part.role == "whole":
            return self.op(op)
        if part.of is not None and part.axis is not None and part.rows is not None:
            return self.part(part.of, part.axis, part.rows[1] - part.rows[0])
        graph: Graph = parts.graph
        return self.between_parts(part.role, graph.tensor_by_id[graph.op_by_id[op].outputs[0]].size), "roofline"


def between(anchors: Anchors, rows: int) -> int:
    """Nanoseconds of a part of a given number of rows; between two anchors in a line, rounded down, as the core
    does."""
    below = (0, 0)
    for at in anchors:
        if at[0] == rows:
            return at[1]
        if rows < at[0]:
            return below[1] + (at[1] - below[1]) * (rows - below[0]) // (at[0] - below[0])
        below = at
    return below[1]


def _rows(untiled: Signature, other: Signature, op_meaning: Meaning, axis: int) -> int | None:
    """How many rows a part of `untiled` along an axis has if it is `other`; None: it is none."""
    sizes: set[int] = set()
    pairs = [(untiled.results[j], other.results[j], dims) for j, dims in enumerate(op_meaning.access.outputs)]
    for i, dims in enumerate(op_meaning.access.inputs):
        if i < len(untiled.operands):
            along = tuple(None if index is None or not index.same else index.axis for index in dims or ())
            pairs.append((untiled.operands[i], other.operands[i], along))
    for mine, theirs, axes in pairs:
        if mine is None or theirs is None:
            if mine is not theirs:
                return None
            continue
        for d, (size, part) in enumerate(zip(mine, theirs, strict=True)):
            if d < len(axes) and axes[d] == axis:
                sizes.add(part)
            elif size != part:
                return None
    rows = sizes.pop() if len(sizes) == 1 else None
    return rows if rows is not None and 0 < rows <= op_meaning.access.sizes[axis] else None


def _total(ops: Iterable[tuple[int, How]]) -> Prediction:
    total, by = 0, Counter[How]()
    for nanoseconds, how in ops:
        total += nanoseconds
        by[how] += 1
    return Prediction(total, by)


def _nano(seconds: float) -> int:
    return round(min(seconds * _NANO, _MOST))


@dataclass(frozen=True)
class Work:
    """What an op has to do."""

    family: str  # name of the `lowtide.cost.file.CostFamily` that it is estimated by
    flops: int  # operations
    bytes: int  # read and written


def work_of(graph: Graph, op: Op, op_meaning: Meaning | None) -> Work:
    """What an op has to do."""
    size = sum(graph.tensor_by_id[t].size for t in (*op.inputs, *op.outputs))
    flops = op.flops if op_meaning is None or op_meaning.opaque is not None else op_meaning.flops
    return Work(family_of(op_meaning), flops or 0, size)


def full_bytes(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> int:
    """Of these bytes those that every part along an axis reads or writes: weights of a convolution cut along rows."""
    total = 0
    for i, t in enumerate(op.operands or op.inputs):
        dims = op_meaning.access.inputs[i] if i < len(op_meaning.access.inputs) else None
        if t is not None and not any(index is not None and index.axis == axis for index in dims or ()):
            total += graph.tensor_by_id[t].size
    for j, t in enumerate(op.outputs):
        if axis not in op_meaning.access.outputs[j]:
            total += graph.tensor_by_id[t].size
    return total


def family_of(op_meaning: Meaning | None) -> str:
    """Name of the family: the op's own, convolutions by what kernels there are for them."""
    if op_meaning is None:
        return "opaque"
    form = op_meaning.form
    if isinstance(form, Convolution):
        taps = max((window.taps for _, window in form.windows), default=1)
        return f"{'grouped ' if form.groups > 1 else ''}convolution{' 1x1' if taps == 1 else ''}"
    return op_meaning.family
