"""ONNX Resize and Upsample: which rows each row of the result mixes, fitted to an index."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor

from lowtide.ops.forms import Form, Piece
from lowtide.ops.index import Index, fit
from lowtide.ops.node import Node, NoForm

_TAPS = {"nearest": 0, "linear": 1, "cubic": 2}
_STEPS = 2**20
"""Scales are single-precision numbers; ratios of larger terms are no ratios of sizes."""


def _resize(node: Node) -> Form:
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    if coordinates == "tf_crop_and_resize":
        raise NoForm("a crop that a region of interest says")
    mode = node.text("mode", "nearest")
    if mode not in _TAPS:
        raise NoForm(f"no row for mode {mode!r}")
    rank = node.rank()
    axes = [node.dim(d, rank) for d in node.ints("axes", tuple(range(rank)))]
    scales = node.known(2) if node.given(2) else None
    if node.given(2):
        scales = node.values(2) or None
    scale_of = {} if scales is None else dict(zip(axes, scales, strict=True))
    rounding = node.text("nearest_mode", "round_prefer_floor")
    antialias = bool(node.attribute("antialias"))
    literal = tuple(i for i in range(1, len(node.operands)) if node.given(i))
    indices = []
    for d in range(rank):
        size, rows = node.shape()[d], node.result()[d]
        scale = Fraction(scale_of.get(d, Fraction(rows, size) if size else 1)).limit_denominator(_STEPS)
        indices.append(_row_index(d, size, rows, scale, mode, coordinates, rounding, antialias))
    taps = (2 * _TAPS[mode]) ** 2
    return Piece("resample", tuple(indices), literal, "bits" if mode == "nearest" else "kernel", taps)


def _row_index(
    d: int, size: int, rows: int, scale: Fraction, mode: str, coordinates: str, rounding: str, antialias: bool
) -> Index | None:
    if size == rows and scale == 1:
        return Index(d)
    if not size or not rows or scale <= 0:
        return None
    half = Fraction(1, 2)

    def place(i: int) -> Fraction:
        match coordinates:
            case "asymmetric":
                return i / scale
            case "align_corners":
                return Fraction(i * (size - 1), rows - 1) if rows > 1 else Fraction(0)
            case "pytorch_half_pixel" if rows == 1:
                return Fraction(0)
            case "half_pixel_symmetric":
                shrunk = Fraction(rows) / (scale * size)
                return Fraction(size, 2) * (1 - shrunk) + (i + half) / scale - half
            case _:
                return (i + half) / scale - half

    reach = _TAPS[mode]
    spread = max(Fraction(1), 1 / scale) if antialias else Fraction(1)

    def mixed(i: int) -> tuple[int, int]:
        at = place(i)
        if mode == "nearest":
            row = _nearest(at, rounding)
            first, last = row, row
        elif antialias:
            first, last = floor(at - reach * spread), ceil(at + reach * spread)
        else:
            first, last = floor(at) - reach + 1, floor(at) + reach
            if at == floor(at) and mode == "linear":
                last = first
        first, last = (min(max(row, 0), size - 1) for row in (first, last))
        return first, last + 1

    slope = 1 / scale
    if coordinates == "align_corners":
        slope = Fraction(size - 1, max(1, rows - 1))
    return fit(d, [mixed(i) for i in range(rows)], slope.numerator, slope.denominator)


def _nearest(at: Fraction, rounding: str) -> int:
    match rounding:
        case "floor":
            return floor(at)
        case "ceil":
            return ceil(at)
        case "round_prefer_ceil":
            return floor(at + Fraction(1, 2))
        case _:
            return ceil(at - Fraction(1, 2))


def _upsample(node: Node) -> Form:
    """Scales from an attribute (version 7) or an operand; places are those of `asymmetric`, rows rounded down."""
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}.get(node.text("mode", "nearest"))
    if mode is None:
        raise NoForm(f"no row for mode {node.text('mode')!r}")
    scales = node.values(1) if node.given(1) else node.attribute("scales")
    if not scales or len(scales) != node.rank():
        raise NoForm("its scales are not known")
    indices = tuple(
        _row_index(d, node.shape()[d], node.result()[d], Fraction(s).limit_denominator(_STEPS), mode, "asymmetric",
                   "floor", False)
        for d, s in enumerate(scales)
    )  # fmt: skip
    return Piece("resample", indices, node.literals(), "bits" if mode == "nearest" else "kernel", 4)


ROWS: dict[str, Callable[[Node], Form]] = {"Resize": _resize, "Upsample": _upsample}
