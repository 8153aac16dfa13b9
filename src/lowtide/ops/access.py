"""What part of each operand an op needs for a part of its result.

An `Access` has iteration axes, each with a size. A dimension of a result runs along one axis or is untiled: the same in
every part; a dimension of an operand has an `Index` along one axis or is read in full. A **part** gives half-open
ranges to some axes and leaves the others untiled. Cutting an axis that a result has yields parts of that result that
are concatenated; cutting an axis of `reduce` yields full results that are merged::

    Conv, 1 group     axes      n o y x c          c: input channels, in no result
                      result    (n, o, y, x)
                      data      (n, c, window y, window x)
                      weights   (o, c, full, full)
                      bias      (o), of one part of c only
                      reduce    (c), merge: sum

The same op, run on what `need` says of its operands (padding only where the operand really ends, literal shapes
rewritten, constants that hang on a size kept as they were), gives the part that `written` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Literal

from lowtide.ops.index import FIXED, Index, Range

Shape = tuple[int, ...]
Shapes = tuple[Shape | None, ...]
Box = tuple[Range, ...]
"""Half-open range of every dimension of a tensor."""
Part = Mapping[int, Range]  # range of each axis that is cut; the others are complete

Exact = Literal["bits", "kernel", "sum", "never"]
"""bits: the same arithmetic on the same operands. kernel: the same arithmetic, but a runtime may choose another kernel
for another shape (float convolutions, matrix products). sum: added up in another order. never: what is known does not
suffice for a cut, although an op of another type could take part (8-bit results would need 32-bit sums)."""

Merge = Literal["sum", "max", "min"]
"""How results of parts of a reduced axis become one. A mean is a sum: its divisor is that of the uncut op."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which rows of every operand an op reads for rows of its results."""

    sizes: tuple[int, ...]  # rows of each axis
    # For each result and dimension the axis that it runs along; None: untiled, in full in every part.
    outputs: tuple[tuple[int | None, ...], ...]
    # For each operand, at the position that the format numbers, and each dimension the rows read; None for a dimension:
    # all; None for an operand: left out.
    inputs: tuple[tuple[Index | None, ...] | None, ...]
    reduce: tuple[int, ...] = ()  # axes that some result does not have and over which that result is merged
    merge: Merge = "sum"  # how
    # exact, merged: exactness of a cut of an axis that every result has, and of one of `reduce`.
    exact: Exact = "bits"
    merged: Exact = "sum"
    # Parts of an axis begin and end at multiples of this (but for the end of the axis); what a part between needs is
    # what the aligned one around it needs. Empty: 1 everywhere.
    grain: tuple[int, ...] = ()
    once: tuple[int, ...] = ()  # operands that go to one part of a reduced axis alone: a bias
    # Operands whose constant values the form holds: axes, shapes, pads. A part is given values of its own.
    literal: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        axes = range(len(self.sizes))
        if self.grain and len(self.grain) != len(self.sizes):
            raise ValueError(f"{len(self.grain)} grains for {len(self.sizes)} axes")
        for dims in self.outputs:
            named = [axis for axis in dims if axis is not None]
            if len(set(named)) < len(named) or not set(named).issubset(axes):
                raise ValueError(f"a result runs along {named}; axes are {list(axes)}, each at most once")
        for index in (index for dims in self.inputs for index in dims or () if index is not None):
            if index.axis != FIXED and index.axis not in axes:
                raise ValueError(f"{index} is along no axis of {list(axes)}")
        read = {index.axis for dims in self.inputs for index in dims or () if index is not None}
        for axis in axes:
            if axis in self.reduce and axis not in read:
                raise ValueError(f"axis {axis} is reduced, and no operand runs along it")
            if axis not in self.reduce and not all(axis in dims for dims in self.outputs):
                raise ValueError(f"axis {axis} is neither in every result nor reduced")

    def grain_of(self, axis: int) -> int:
        """Rows of the axis that no cut divides."""
        return self.grain[axis] if self.grain else 1

    def cuttable(self) -> tuple[int, ...]:
        """Axes that can be cut in two at least, ascending; none whose parts do not add up."""
        return tuple(
            axis
            for axis, size in enumerate(self.sizes)
            if size > self.grain_of(axis) and self.exactness(axis) != "never"
        )

    def exactness(self, axis: int) -> Exact:
        """What a cut of an axis does to the numbers."""
        return self.merged if axis in self.reduce else self.exact

    def aligned(self, part: Part) -> dict[int, Range]:
        """The least part around `part` that a cut can yield."""
        result = {}
        for axis, (a, b) in part.items():
            grain = self.grain_of(axis)
            result[axis] = (a // grain * grain, min(self.sizes[axis], -(-b // grain) * grain)) if a < b else (a, b)
        return result

    def need(self, operand: int, shape: Shape, part: Part) -> Box:
        """Rows of every dimension of an operand of `shape` that `part` needs. `operand`: position; it must not be left
        out. `shape`: the full operand's. Raises `ValueError`: the operand is left out, or has another number of
        dimensions."""
        dims = self.inputs[operand]
        if dims is None or len(dims) != len(shape):
            raise ValueError(f"operand {operand} of shape {shape} is read as {dims}")
        around = self.aligned(part)
        return tuple(
            (0, size) if index is None else index.need(*self._range(index.axis, around), size)
            for index, size in zip(dims, shape, strict=True)
        )

    def written(self, output: int, shape: Shape, part: Part) -> Box:
        """Rows of every dimension of a result of `shape` that `part` yields: of `part` itself, not aligned."""
        return tuple(
            (0, size) if axis is None else self._range(axis, part)
            for axis, size in zip(self.outputs[output], shape, strict=True)
        )

    def _range(self, axis: int, part: Part) -> Range:
        return (0, 1) if axis == FIXED else part.get(axis, (0, self.sizes[axis]))

    def parts(self, axis: int, count: int) -> list[Range]:
        """At most `count` ranges that divide an axis, as equal as its grain allows."""
        size, grain = self.sizes[axis], self.grain_of(axis)
        grains = -(-size // grain)
        count = max(1, min(count, grains))
        bounds = [grains * i // count * grain for i in range(count)] + [size]
        return [(a, b) for a, b in pairwise(bounds) if a < b]


def opaque(reads: Shapes, writes: Shapes) -> Access:
    """Access of an op of which nothing is known: everything needs everything."""
    return Access(
        (),
        tuple((None,) * len(shape or ()) for shape in writes),
        tuple(None if shape is None else (None,) * len(shape) for shape in reads),
    )


def labelled(
    reads: tuple[tuple[int | None, ...] | None, ...],
    writes: tuple[tuple[int | None, ...], ...],
    read_shapes: Shapes,
    write_shapes: Shapes,
    *,
    broadcast: bool = True,
) -> Access:
    """Access of an op whose dimensions have labels, as in einsum: the same label, the same row. With `broadcast`, an
    operand's dimension of size 1 under a label of another size is read in full. A label that some result does not
    have is merged. A label that occurs twice in one result is untiled. `reads`, `writes`: label of each dimension of
    each operand and result; None: untiled; None for an operand: left out."""
    shapes = [*zip(writes, write_shapes, strict=True), *zip(reads, read_shapes, strict=True)]
    sizes: dict[int, int] = {}
    for labels, shape in shapes:
        for label, size in zip(labels or (), shape or (), strict=True):
            if label is not None and size != 1:
                sizes.setdefault(label, size)
            elif label is not None:
                sizes.setdefault(label, 0)
    twice = {label for labels in writes for label in labels if labels.count(label) > 1}
    number = {label: i for i, label in enumerate(label for label in sizes if label not in twice)}
    lengths = tuple(sizes[label] or 1 for label in number)

    def index(label: int | None, size: int) -> Index | None:
        if label is None or label not in number or (broadcast and size == 1 != lengths[number[label]]):
            return None
        return Index(number[label])

    outputs = tuple(tuple(None if label is None else number.get(label) for label in labels) for labels in writes)
    return Access(
        lengths,
        outputs,
        tuple(
            None
            if labels is None or shape is None
            else tuple(index(label, size) for label, size in zip(labels, shape, strict=True))
            for labels, shape in zip(reads, read_shapes, strict=True)
        ),
        tuple(axis for axis in number.values() if not all(axis in dims for dims in outputs)),
    )


def box_elements(box: Box) -> int:
    """Elements of a box."""
    return prod(end - first for first, end in box)
