"""ONNX Resize and Upsample: which rows each row of the result mixes, fitted to an index."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from lowtide.ops.forms import Form, Indexed
from lowtide.ops.index import MOST_ROWS, Index, Range, fit
from lowtide.ops.node import Node, NoForm, Row

_TAPS = {"nearest": 0, "linear": 1, "cubic": 2}
_HALF = Fraction(1, 2)
_STEPS = 2**20
"""Scales are single-precision numbers; ratios of larger terms are no ratios of sizes."""


@dataclass(frozen=True)
class _Mixing:
    """How a resize mixes rows, as the attributes of Resize say."""

    mode: str
    coordinates: str
    rounding: str
    antialias: bool = False

    def place(self, i: int, size: int, rows: int, scale: Fraction) -> Fraction:
        """Where row i of `rows` is among `size` rows of the operand."""
        match self.coordinates:
            case "asymmetric":
                return i / scale
            case "align_corners":
                return Fraction(i * (size - 1), rows - 1) if rows > 1 else Fraction(0)
            case "pytorch_half_pixel" if rows == 1:
                return Fraction(0)
            case "half_pixel_symmetric":
                shrunk = Fraction(rows) / (scale * size)
                return Fraction(size, 2) * (1 - shrunk) + (i + _HALF) / scale - _HALF
            case _:
                return (i + _HALF) / scale - _HALF

    def rows(self, at: Fraction, size: int, scale: Fraction) -> Range:
        """Rows that are mixed for a place; those of weight 0 count, since not every number times 0 is 0."""
        reach = _TAPS[self.mode]
        if self.mode == "nearest":
            first = last = _nearest(at, self.rounding)
        elif self.antialias:
            spread = reach * max(Fraction(1), 1 / scale)
            first, last = ceil(at - spread), math.floor(at + spread)
        else:
            if self.mode == "linear":  # a place outside is moved to the border
                at = min(max(at, Fraction(0)), Fraction(size - 1))
            first, last = math.floor(at) - reach + 1, math.floor(at) + reach
        first, last = (min(max(row, 0), size - 1) for row in (first, last))
        return first, last + 1

    def index(self, d: int, rank: int, size: int, rows: int, scale: Fraction) -> Index | None:
        """Rows of dimension d that rows of the result read; None: it cannot be said."""
        unmixed = self.mode == "nearest" or (rank >= 4 and d < 2)
        if size == rows and scale == 1 and unmixed:
            return Index(d)
        if not size or not 0 < rows <= MOST_ROWS or scale <= 0:
            return None
        slope = 1 / scale
        if self.coordinates == "align_corners":
            slope = Fraction(size - 1, max(1, rows - 1))
        mixed = [self.rows(self.place(i, size, rows, scale), size, scale) for i in range(rows)]
        return fit(d, mixed, slope.numerator, slope.denominator)


def _resize(node: Node) -> Form:
    mode = node.text("mode", "nearest")
    mixing = _Mixing(
        mode,
        node.text("coordinate_transformation_mode", "half_pixel"),
        node.text("nearest_mode", "round_prefer_floor"),
        bool(node.attribute("antialias")),
    )
    if mixing.coordinates == "tf_crop_and_resize":
        raise NoForm("a crop that a region of interest says")
    axes = [node.dim(d, node.rank()) for d in node.ints("axes", tuple(range(node.rank())))]
    scales = node.values(2) if node.given(2) else ()
    literal = tuple(i for i in range(1, len(node.operands)) if node.given(i))
    return _resampled(node, mixing, dict(zip(axes, scales, strict=True)) if scales else {}, literal)


def _resampled(node: Node, mixing: _Mixing, scales: Mapping[int, float], literal: tuple[int, ...]) -> Form:
    """The form where a dimension without a scale has that of its sizes."""
    if mixing.mode not in _TAPS:
        raise NoForm(f"no row for mode {mixing.mode!r}")
    indices = []
    for d, (size, rows) in enumerate(zip(node.shape(), node.result(), strict=True)):
        scale = Fraction(scales.get(d, Fraction(rows, size) if size else 1)).limit_denominator(_STEPS)
        indices.append(mixing.index(d, node.rank(), size, rows, scale))
    exact = "bits" if mixing.mode == "nearest" else "kernel"
    return Indexed("resample", tuple(indices), literal, exact, (2 * _TAPS[mixing.mode]) ** 2)


def _nearest(at: Fraction, rounding: str) -> int:
    match rounding:
        case "floor":
            return math.floor(at)
        case "ceil":
            return ceil(at)
        case "round_prefer_ceil":
            return math.floor(at + _HALF)
        case _:
            return ceil(at - _HALF)


def upsample(node: Node) -> Form:
    """Scales from an attribute (version 7) or an operand; places are those of `asymmetric`, rows rounded down. Raises
    `NoForm` where they are not known."""
    mode = node.text("mode", "nearest")
    mixing = _Mixing(
        "linear" if mode == "bilinear" else mode, node.text("coordinate_transformation_mode", "asymmetric"), "floor"
    )
    scales = node.values(1) if node.given(1) else node.attribute("scales")
    if not scales or len(scales) != node.rank():
        raise NoForm("its scales are not known")
    return _resampled(node, mixing, dict(enumerate(scales)), node.literals())


ROWS: dict[str, Row] = {"Resize": _resize, "Upsample": upsample}
