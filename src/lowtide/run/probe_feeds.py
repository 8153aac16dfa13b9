"""Numbers that an op is probed with: palettes of operands, and operands mixed from two of them.

A palette has operands, others to put in their place, and the results of the former. The first is normal numbers; then
positive ones (for roots and logarithms), few different ones (for comparisons), and half of them NaN (what is
multiplied by 0 is read all the same). Integers are small, so that they are equal now and then, and below what an
index may be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.ops.access import Shape

Arrays = list["np.ndarray | None"]
Kernel = Callable[[Arrays], list[np.ndarray]]
Slices = tuple[slice, ...]
PALETTES = 8
"""Each of the four kinds twice."""


class RefusedError(Exception):
    """A runtime does not run an op by itself; the message says why, for people."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What an operand looks like to a runtime: shape, element type by its name, and its value if that is fixed."""

    shape: Shape
    dtype: str
    value: np.ndarray | None = None


class Feeds:
    """Palettes of an op's operands, drawn when they are requested."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[Operand | None],
        limits: Mapping[int, int],
        rng: np.random.Generator,
    ):
        self._kernel = kernel
        self._operands = operands
        self._limits = limits
        self._rng = rng
        self._drawn: list[tuple[Arrays, Arrays, list[np.ndarray]] | RefusedError] = []

    def of(self, palette: int) -> tuple[Arrays, Arrays, list[np.ndarray]]:
        """Operands, others, and the results of the former. Raises `RefusedError`: the op does not run on such
        numbers."""
        while len(self._drawn) <= palette:
            at = len(self._drawn)
            base, other = self._draw(at), self._draw(at)
            try:
                self._drawn.append((base, other, self._kernel(base)))
            except RefusedError as error:
                self._drawn.append(error)
        feed = self._drawn[palette]
        if isinstance(feed, RefusedError):
            raise feed
        return feed

    def _draw(self, palette: int) -> Arrays:
        drawn: Arrays = []
        for i, operand in enumerate(self._operands):
            if operand is None or operand.value is not None:
                drawn.append(operand and operand.value)
            else:
                drawn.append(self._random(i, operand, palette))
        return drawn

    def _random(self, position: int, operand: Operand, palette: int) -> np.ndarray:
        dtype, shape, rng = np.dtype(operand.dtype), operand.shape, self._rng
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(dtype)
        if dtype.kind in "iu":
            limit = self._limits.get(position, (100, 3)[palette % 2])
            return rng.integers(0, max(1, limit), shape).astype(dtype)
        match palette % 4:
            case 0:
                values = rng.standard_normal(shape, dtype=np.float32)
            case 1:
                values = rng.uniform(0.25, 2, shape)
            case 2:
                values = rng.integers(-1, 2, shape)
            case _:
                values = np.where(rng.random(shape) < 0.5, np.nan, rng.standard_normal(shape))
        return np.asarray(values).astype(dtype)


def slab(boxes: Sequence[Slices | None], position: int, d: int, row: int) -> list[Slices | None]:
    """One row of one operand's box, and nothing of the others."""
    box = boxes[position] or ()
    return [(*box[:d], slice(row, row + 1), *box[d + 1 :]) if i == position else None for i in range(len(boxes))]


def mixed(base: Arrays, other: Arrays, boxes: Sequence[Slices | None]) -> Arrays:
    """Operands with the values in the boxes taken from the others."""
    result: Arrays = []
    for a, b, box in zip(base, other, boxes, strict=True):
        if a is not None and b is not None and box is not None:
            a = a.copy()
            a[box] = b[box]
        result.append(a)
    return result


def only(values: np.ndarray, box: Slices | None, merge: str) -> np.ndarray:
    """The values inside a box, and what adds nothing outside; None: nothing inside."""
    least = {"sum": 0.0, "max": -np.inf, "min": np.inf}[merge]
    if values.dtype.kind in "iu" and merge != "sum":
        least = np.iinfo(values.dtype).min if merge == "max" else np.iinfo(values.dtype).max
    if values.dtype.kind == "b":
        least = merge == "min"
    result = np.full_like(values, least)
    if box is not None:
        result[box] = values[box]
    return result
