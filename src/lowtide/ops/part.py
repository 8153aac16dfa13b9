"""A part of an op, as a format can spell it: the same op type, with attributes and literal operands of its own.

`Access` says what a part of an op reads; whether there is a node that computes it is the format's to say. A dialect
that can spell parts has a module as `Adapter` has it; where there is none, and where it refuses, nothing is cut. A part
is given its operands as `given_box` says: the rows that it needs along the axis that is cut, and all of every other
dimension, since the op's own attributes speak of those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, Protocol, cast

from lowtide.graph import Graph, Op
from lowtide.ops.access import Access, Box, Merge, Shape
from lowtide.ops.forms import Concat
from lowtide.ops.index import Index, Range
from lowtide.ops.meaning import Meaning

_SPELLERS = {"onnx": "lowtide.ops.onnx.part", "tflite": "lowtide.ops.tflite.part"}
"""Module of each dialect that can spell parts, imported on first use."""


@dataclass(frozen=True)
class Written:
    """What a part of an op has of its own."""

    attributes: Mapping[str, Any]  # all of them, as `Op.attributes`
    # Values of those literal operands that differ from the op's, by position.
    literals: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    # For each dimension of operand 0 the rows of padding that an op of its own puts before and after it; empty: none.
    padding: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Padded:
    """What parts of a window along an axis are given, where the op cannot say the padding that a part needs."""

    row_elements: int  # of a row of operand 0 with the padding next to it
    other_axes: bool  # whether there is padding along another dimension than the axis


@dataclass(frozen=True)
class Stretch:
    """What parts of a resize make: so many rows for each row that they read, their own and some neighbours.

    Neighbour rows are those whose neighbours are in another part: what they hold is not the resize's, and they are cut
    away.
    """

    index: Index  # from the rows of the result to those of operand 0; its `den` is how many rows there are for each
    size: int  # rows of operand 0

    def around(self, rows: Range) -> Range:
        """Rows that a part makes which keeps `rows`."""
        first, end = self.index.need(*rows, self.size)
        return (first * self.index.den, end * self.index.den)


@dataclass(frozen=True)
class Spelling:
    """How parts of an op along one axis are written in a format."""

    grain: int  # rows of the axis at multiples of which parts may begin
    # From the rows of a part and the shapes of what it makes to what it has of its own.
    spell: Callable[[Range, tuple[Shape, ...]], Written]
    padded: Padded | None = None  # If parts may have padding of their own (`Written.padding`)
    stretch: Stretch | None = None  # If parts make rows of their neighbours

    def around(self, rows: Range) -> Range:
        """Rows of the axis that a part makes: its own, and those that are cut away."""
        return rows if self.stretch is None else self.stretch.around(rows)


@dataclass(frozen=True)
class Glue:
    """An op of a format that holds parts together: a slice, a join, a merge or padding."""

    # type, attributes: as of an op.
    type: str
    attributes: Mapping[str, Any]
    literals: tuple[tuple[int, ...], ...] = ()  # integers that it has as operands after its tensors
    columns: int = 0  # numbers in a row of the literals, which then have two dimensions; 0: they have one


@dataclass(frozen=True)
class Accumulating:
    """An op that adds a part of a sum to what there is of it, in one step."""

    type: str  # what it is called
    operand: int  # position of the sum so far
    # Attributes that the part which is added last alone has: what follows the sum.
    at_the_end: frozenset[str] = frozenset()


class Adapter(Protocol):
    """What the module of a dialect that can spell parts offers.

    `NUMBERS` is the element type of literal operands, `MOST_OPERANDS` how many operands a concat may have (0: any
    number).
    """

    NUMBERS: Literal["int32", "int64"]
    MOST_OPERANDS: int

    def spelling(self, graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
        """How parts of an op along an axis of its access are written in the format; None: they cannot be."""
        ...

    def slicing(self, graph: Graph, rows: Mapping[int, Range], shape: Shape) -> Glue:
        """The op that copies some rows of some dimensions, ``{dimension: rows}``, of a tensor of that shape."""
        ...

    def padding(self, rows: tuple[tuple[int, int], ...]) -> Glue:
        """The op that puts so many rows of padding before and after each dimension."""
        ...

    def joining(self, dim: int) -> Glue:
        """The op that puts its operands side by side along a dimension."""
        ...

    def merging(self, merge: Merge) -> Glue:
        """The op that makes one of the results over two parts of a reduced axis."""
        ...


def adapter(graph: Graph) -> Adapter | None:
    """What spells parts in the graph's format, if anything does."""
    name = _SPELLERS.get(graph.dialect)
    return None if name is None else cast(Adapter, import_module(name))


def accumulating(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Accumulating | None:
    """The op that adds a part of an op along an axis to the sum of those before; None: its format has none."""
    offered = getattr(adapter(graph), "accumulating", None)
    if offered is None or not _is_by_itself(op, op_meaning) or axis not in op_meaning.access.reduce:
        return None
    return offered(graph, op, op_meaning)


def _is_by_itself(op: Op, op_meaning: Meaning) -> bool:
    """Whether an op is known, and computes from its operands alone."""
    return op_meaning.opaque is None and not (op.bodies or op.after or op.writes)


def spelling(graph: Graph, op: Op, op_meaning: Meaning, axis: int) -> Spelling | None:
    """How parts of an op along an axis of its access are written in its format; None if they cannot be."""
    module = adapter(graph)
    if module is None or not _is_by_itself(op, op_meaning) or op_meaning.random or op_meaning.mutates:
        return None
    if op_meaning.access.exactness(axis) == "never":
        return None
    how = module.spelling(graph, op, op_meaning, axis)
    if how is None or isinstance(op_meaning.form, Concat):
        return how
    return how if _reads_all_along(graph, op, op_meaning, axis, how.grain) else None


def _reads_all_along(graph: Graph, op: Op, op_meaning: Meaning, axis: int, grain: int) -> bool:
    """Whether every part reads rows of each operand that is cut; an operand of no rows is none. Windows may see
    padding alone, scattered rows end before what they are scattered into. Indices never fall, or never rise, so that
    the ends of the axis tell."""
    size = op_meaning.access.sizes[axis]
    ends = ((0, min(grain, size)), ((size - 1) // grain * grain, size))
    for i, t in enumerate(op.operands or op.inputs):
        shape = () if t is None else graph.tensor_by_id[t].shape or ()
        dims = op_meaning.access.inputs[i] or ()
        for index, rows in zip(dims, shape, strict=True):
            if index is not None and index.axis == axis and any(index.need(*end, rows) == (0, 0) for end in ends):
                return False
    return True


def given_box(access: Access, operand: int, shape: Shape, axis: int, rows: Range) -> Box:
    """Rows of every dimension of an operand that a part of the axis is given. Raises `ValueError`: the operand is left
    out, or has another number of dimensions."""
    dims = access.inputs[operand]
    if dims is None or len(dims) != len(shape):
        raise ValueError(f"operand {operand} of shape {shape} is read as {dims}")
    around = access.aligned({axis: rows})[axis]
    return tuple(
        index.need(*around, size) if index is not None and index.axis == axis else (0, size)
        for index, size in zip(dims, shape, strict=True)
    )
