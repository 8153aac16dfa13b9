"""Proves what an op is said to read, by running it: dependence probing.

For one op and one part, everything that the map leaves out is replaced by other random numbers: no bit of the part may
move. Other numbers inside, and at the first and last row inside, must move something, or the map is wider than the op.
Where an axis is reduced, results of the parts are merged and compared with the full result. The op is run by itself in
the runtime it comes from (`Runner`), so that nothing of the map goes into what it is compared with.

A zero, a clip or a comparison can hide that a row is read, so numbers are drawn from several palettes before a row is
called unread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lowtide.graph import Graph, Op
from lowtide.ops.access import Access, Box, Part, Shape
from lowtide.ops.forms import Custom, Form, Labelled
from lowtide.ops.index import Range
from lowtide.run.probe_feeds import PALETTES, Arrays, Feeds, Kernel, Operand, RefusedError, Slices, mixed, only, slab

__all__ = ["Arrays", "Findings", "Kernel", "Operand", "Probe", "RefusedError", "Runner"]

_FEW = 8
_LONGER = 2
_EDGED = 2
_SMALL = 4096
_TOLERANCE = 1e-4


class Runner:
    """Runs single ops of a dialect in its runtime, on numbers of the element types `drawn`."""

    drawn: ClassVar[Collection[str]]

    def dtype(self, name: str) -> np.dtype:
        """Numpy's type for an element type. Raises `RefusedError`: no number is drawn for it."""
        if name not in self.drawn:
            raise RefusedError(f"elements of type {name or 'unknown'} are not drawn")
        return np.dtype(name)

    def value_of(self, dtype: str, value: bytes, shape: Shape) -> np.ndarray:
        """A constant's value. Raises as `dtype`."""
        return np.frombuffer(value, self.dtype(dtype).newbyteorder("<")).reshape(shape).astype(self.dtype(dtype))

    def open(self, graph: Graph, op: Op, operands: Sequence[Operand | None]) -> Kernel:
        """A function from operands (None: left out) to results; fixed values need not be looked at when it is
        called. Raises `RefusedError`: the runtime does not take the op."""
        raise NotImplementedError


@dataclass
class Findings:
    """What probing an op showed."""

    parts: int = 0  # parts probed from outside: not a bit moved, but in those that `wrong` tells of
    sums: int = 0  # reduced axes whose parts were merged
    wrong: list[str] = field(default_factory=list)  # what contradicts the map, one line each
    # inside, inside_moved: parts whose inside was changed, and those that moved.
    inside: int = 0
    inside_moved: int = 0
    # edges, edges_moved: first and last rows inside that were changed alone, and those that moved something: rows that
    # an index names.
    edges: int = 0
    edges_moved: int = 0
    # wholes, wholes_moved: the same of dimensions that are read in full.
    wholes: int = 0
    wholes_moved: int = 0
    loose: str = ""  # an example of a row that an index names and that did not move anything


class Probe:
    """One op in its runtime, and an access to prove."""

    def __init__(self, kernel: Kernel, operands: Sequence[Operand | None], form: Form, access: Access, seed: int):
        self._kernel = kernel
        self._operands = operands
        self._access = access
        self._rng = np.random.default_rng(seed)
        limits = dict(form.limits) if isinstance(form, Labelled | Custom) else {}
        self._feeds = Feeds(kernel, operands, limits, self._rng)
        self._shapes: tuple[Shape, ...] | None = None
        self._small = False
        self.findings = Findings()

    def expect(self, shapes: tuple[Shape, ...]) -> None:
        """Say which shapes the results must have: what the graph says of them is part of what is proved."""
        self._shapes = shapes

    def run(self) -> Findings:
        """Probe parts of every axis that can be cut, parts of all of them at once, and reduced axes.

        Raises
        ------
        RefusedError
            The runtime does not run the op on drawn numbers, or its results have other shapes than the graph says.
        """
        if not self._access.cuttable():
            return self.findings
        side = [a for a in self._access.cuttable() if any(a in dims for dims in self._access.outputs)]
        expected = self._feeds.of(0)[2]
        shapes = tuple(y.shape for y in expected)
        if self._shapes is not None and shapes != self._shapes:
            raise RefusedError(f"its results have shapes {shapes}, and the graph says {self._shapes}")
        self._check_sizes(shapes)
        self._small = (
            sum(y.size for y in expected) + sum(x.size for x in self._feeds.of(0)[0] if x is not None) <= _SMALL
        )
        for axis in side:
            for count, part in enumerate(self._parts(axis)):
                self._part({axis: part}, edges=self._small or count < _EDGED)
        if len(side) > 1:
            for _ in range(2):
                self._part({axis: self._some(axis) for axis in side}, edges=False)
        for axis in self._access.cuttable():
            if axis in self._access.reduce:
                self._sum(axis)
        return self.findings

    def _check_sizes(self, shapes: Sequence[Shape]) -> None:
        """Axes are as long as the dimensions that run along them; a result of no element has no rows to be wrong."""
        for j, (dims, shape) in enumerate(zip(self._access.outputs, shapes, strict=True)):
            long = [axis is None or self._access.sizes[axis] == size for axis, size in zip(dims, shape, strict=False)]
            if 0 not in shape and not (len(dims) == len(shape) and all(long)):
                self.findings.wrong.append(f"result {j} has shape {shape}, and its axes are {dims}")

    def _parts(self, axis: int) -> Iterator[Range]:
        """The first grain, the last and one between, some longer ranges, and every grain if there are few."""
        size, grain = self._access.sizes[axis], self._access.grain_of(axis)
        grains = -(-size // grain)
        single = range(grains) if grains <= _FEW else (0, grains - 1, grains // 2)
        ranges = [(at * grain, min(size, (at + 1) * grain)) for at in single]
        ranges += [self._some(axis) for _ in range(_LONGER)]
        yield from dict.fromkeys(ranges)

    def _some(self, axis: int) -> Range:
        size, grain = self._access.sizes[axis], self._access.grain_of(axis)
        grains = -(-size // grain)
        first = int(self._rng.integers(0, grains))
        end = int(self._rng.integers(first + 1, grains + 1))
        return first * grain, min(size, end * grain)

    def _part(self, part: Part, *, edges: bool) -> None:
        """The inside first: under the palettes where it matters the outside must not."""
        boxes = self._boxes(part)
        some = any(box is not None and all(at.start < at.stop for at in box) for box in boxes)
        telling = self._matters(part, boxes) if some else None
        self.findings.inside += some
        self.findings.inside_moved += telling is not None
        self.findings.parts += 1
        for palette in range(PALETTES) if self._small else {0, telling or 0}:
            try:
                moved = self._outside(part, boxes, palette)
            except RefusedError:  # numbers that the op does not take
                continue
            if moved is not None:
                self.findings.wrong.append(f"{_named(part)}: result {moved} moves with what lies outside")
                break
        for position, d, row, indexed in self._edges(part) if edges else ():
            moved = self._matters(part, slab(boxes, position, d, row)) is not None
            self._count(moved, indexed, part, f"row {row} of dimension {d} of operand {position}")

    def _outside(self, part: Part, boxes: Sequence[Slices | None], palette: int) -> int | None:
        """The result whose part depends on values outside these boxes, if there is one."""
        base, other, expected = self._feeds.of(palette)
        around = [a if box is None else b for a, b, box in zip(base, other, boxes, strict=True)]
        return self._moved(mixed(around, base, boxes), expected, part)

    def _matters(self, part: Part, boxes: Sequence[Slices | None]) -> int | None:
        """The first palette under which other numbers in these boxes move the part."""
        for palette in range(PALETTES):
            try:
                base, other, expected = self._feeds.of(palette)
                if self._moved(mixed(base, other, boxes), expected, part) is not None:
                    return palette
            except RefusedError:  # numbers that the op does not take: another palette may do
                continue
        return None

    def _boxes(self, part: Part) -> list[Slices | None]:
        """What the part needs of each operand that is drawn."""
        return [
            None
            if operand is None or operand.value is not None or i in self._access.literal
            else _slices(self._access.need(i, operand.shape, part))
            for i, operand in enumerate(self._operands)
        ]

    def _edges(self, part: Part) -> Iterator[tuple[int, int, int, bool]]:
        """First and last rows of what the part needs, of dimensions that a cut axis runs along and of those read in
        full. Operand, dimension, row, and whether an index names it."""
        for i, operand in enumerate(self._operands):
            if operand is None or operand.value is not None or i in self._access.literal:
                continue
            box = self._access.need(i, operand.shape, part)
            if not all(first < end for first, end in box):
                continue
            for d, index in enumerate(self._access.inputs[i] or ()):
                if index is None or index.axis in part:
                    yield from ((i, d, row, index is not None) for row in sorted({box[d][0], box[d][1] - 1}))

    def _moved(self, given: Arrays, expected: Sequence[np.ndarray], part: Part) -> int | None:
        """The first result whose part has other bits than the full run's; one that lacks an axis has no part."""
        for j, (was, now) in enumerate(zip(expected, self._kernel(given), strict=True)):
            if not set(part).issubset(self._access.outputs[j]):
                continue
            box = _slices(self._access.written(j, was.shape, part))
            if was.shape != now.shape or was[box].tobytes() != now[box].tobytes():
                return j
        return None

    def _sum(self, axis: int) -> None:
        """Results of two or three parts of a reduced axis, the rest filled with what adds nothing."""
        base, _, expected = self._feeds.of(0)
        merge = {"sum": np.add, "max": np.maximum, "min": np.minimum}[self._access.merge]
        merged: list[np.ndarray] | None = None
        reduced = [j for j, dims in enumerate(self._access.outputs) if axis not in dims]
        before: list[Slices | None] = [None] * len(base)
        for part in self._access.parts(axis, 3):
            boxes = self._boxes({axis: part})
            self._overlaps(axis, part, before, boxes)
            before = boxes
            given: Arrays = []
            for i, (a, box) in enumerate(zip(base, boxes, strict=True)):
                if a is None or box is None:
                    given.append(a)
                    continue
                alone = i in self._access.once and part[0] > 0
                given.append(only(a, None if alone else box, self._access.merge))
            results = self._kernel(given)
            self._sum_edges({axis: part}, boxes, given, results)
            if merged is None:
                merged = results
            else:
                merged = [
                    merge(a, b) if j in reduced else b for j, (a, b) in enumerate(zip(merged, results, strict=True))
                ]
        self.findings.sums += 1
        for j in reduced:
            a, b = expected[j].astype(np.float64), (merged or expected)[j].astype(np.float64)
            if not np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * max(1.0, float(np.abs(a).max(initial=0)))):
                self.findings.wrong.append(f"axis {axis}: parts of result {j} do not merge by {self._access.merge}")

    def _overlaps(
        self,
        axis: int,
        part: Range,
        before: Sequence[Slices | None],
        boxes: Sequence[Slices | None],
    ) -> None:
        """Parts of a reduced axis share no row: a largest number would not tell."""
        for i, (last, box) in enumerate(zip(before, boxes, strict=True)):
            for d, index in enumerate(self._access.inputs[i] or () if last and box else ()):
                if index is not None and index.axis == axis and last and box and box[d].start < last[d].stop:
                    self._count(False, True, {axis: part}, f"row {box[d].start} of dimension {d} of operand {i}")

    def _sum_edges(self, part: Part, boxes: Sequence[Slices | None], given: Arrays, results: list[np.ndarray]) -> None:
        """Whether the first and last row inside a part of a sum move it, where nothing else is there."""
        other = self._feeds.of(0)[1]
        for position, d, row, indexed in self._edges(part):
            if position in self._access.once:
                continue
            moved = self._moved(mixed(given, other, slab(boxes, position, d, row)), results, {}) is not None
            self._count(moved, indexed, part, f"row {row} of dimension {d} of operand {position}")

    def _count(self, moved: bool, indexed: bool, part: Part, row: str) -> None:
        findings = self.findings
        if not indexed:
            findings.wholes += 1
            findings.wholes_moved += moved
            return
        findings.edges += 1
        findings.edges_moved += moved
        if not moved and not findings.loose:
            findings.loose = f"{_named(part)}: {row}"


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(first, end) for first, end in box)


def _named(part: Part) -> str:
    return ", ".join(f"axis {axis} [{first}, {end})" for axis, (first, end) in part.items())
