"""Sizes as people write them: B, KB, KiB, MB, MiB, GB, GiB, and K, M, G.

KB is 1000 bytes, KiB is 1024, and so is K, as memories are made and linkers count. A part of a byte is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES

UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3}
UNITS |= {unit + ending: 1024**power for power, unit in enumerate("KMG", 1) for ending in ("", "IB")}
UNITS_TEXT = "B, KB, KiB, MB, MiB, GB, GiB: KB is 1000, KiB and K are 1024"
_GAP = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*", re.ASCII)
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)

Size = str | int  # bytes, also as text with a unit: ``"256KiB"``

Dims = Mapping[str, int | Sequence[int]]
"""What a call says of a model's sizes: a free dimension's by its name or as ``"INPUT:AXIS"``, a tensor's whole shape by
the tensor's name, as a sequence."""
NO_DIMS: Dims = {}


def split_dims(dims: Dims) -> tuple[dict[str, int], dict[str, tuple[int, ...]]]:
    """Sizes of dimensions, and shapes of tensors.

    >>> split_dims({"n": 4, "x": [1, 3]})
    ({'n': 4}, {'x': (1, 3)})
    """
    sizes = {name: size for name, size in dims.items() if not isinstance(size, Sequence)}
    return sizes, {name: tuple(shape) for name, shape in dims.items() if isinstance(shape, Sequence)}


def parse_size(text: str | int, what: str = "size", *, least: int = 1) -> int:
    """Bytes in a size such as ``"256KiB"``, ``"64K"``, ``"1.7 MiB"`` or ``262144``. Raises `InputError`: not a number
    with a known unit, below `least` (0 or 1), a part of a byte without a unit, or above 2^62.

    >>> parse_size("1.5KiB"), parse_size("64K"), parse_size("1.7MiB")
    (1536, 65536, 1782579)
    """
    number = "a positive number" if least else "a number"
    advice = f"write {number} of bytes, or one with a unit, as in 256KiB ({UNITS_TEXT})"
    if isinstance(text, bool):
        raise InputError(f"{what} is {text!r}; {advice}")
    match = _SIZE.fullmatch(str(text)[:100])
    if match is None or match[2].upper() not in UNITS:
        raise InputError(f"{what} is {str(text)[:100]!r}; {advice}")
    unit = UNITS[match[2].upper()]
    value = Fraction(match[1]) * unit
    if value < least or (unit == 1 and value.denominator != 1) or value > MAX_BYTES:
        raise InputError(f"{what} is {str(text)[:100]!r}; {advice}")
    return int(value)


def parse_gap(text: str | float) -> float:
    """The part of a peak that a bound may lack: ``"3%"`` or 0.03. Raises `InputError`: no number, or not from 0 to
    below 1.

    >>> parse_gap("3%"), parse_gap(0.5), parse_gap("0")
    (0.03, 0.5, 0.0)
    """
    match = _GAP.fullmatch(str(text)[:100])
    value = -1.0 if match is None else float(Fraction(match[1]) / (100 if match[2] else 1))
    if not 0 <= value < 1:
        raise InputError(f"gap is {str(text)[:100]!r}; write a part of the peak, as in 3% or 0.03")
    return value


def parse_overhead(text: str | float, what: str = "the overhead") -> float:
    """How much longer something may take, as a part: ``"10%"`` or 0.1. Raises `InputError`: no number, not from 0 to
    1000, or a text of 1 or more without a percent sign.

    >>> parse_overhead("10%"), parse_overhead(0.05), parse_overhead("250 %")
    (0.1, 0.05, 2.5)
    >>> parse_overhead(7e-05)
    7e-05
    >>> parse_overhead("20")
    Traceback (most recent call last):
    lowtide.errors.InputError: the overhead is '20'; write a part of the time, as in 20% or 0.2
    """
    match = _GAP.fullmatch(str(text)[:100])
    value = -1.0 if match is None else float(Fraction(match[1]) / (100 if match[2] else 1))
    value = value if isinstance(text, str) else float(text)  # 7e-05 is a number, and no text that people write
    if isinstance(text, str) and match is not None and not match[2] and 1 <= value <= 1000:
        raise InputError(f"{what} is {text[:100]!r}; write a part of the time, as in {value:g}% or {value / 100:g}")
    if not 0 <= value <= 1000:
        raise InputError(f"{what} is {str(text)[:100]!r}; write a part of the time, as in 10% or 0.1")
    return value


def parse_share(text: str | int, what: str) -> float:
    """The part that a text such as ``"70%"`` says. Raises `InputError`: no number of per cent above 0.

    >>> parse_share("70%", "budget"), parse_share("12.5 %", "budget")
    (0.7, 0.125)
    """
    match = _GAP.fullmatch(str(text)[:100])
    value = 0.0 if match is None or not match[2] else float(Fraction(match[1]) / 100)
    if not 0 < value <= 100:
        raise InputError(f"{what} is {str(text)[:100]!r}; write a part of the file order's peak, as in 70%, or a size")
    return value


def round_up(size: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `size`.

    >>> round_up(65, 64), round_up(64, 64), round_up(0, 64)
    (128, 64, 0)
    """
    return -(-size // unit) * unit


def format_size(size: int) -> str:
    """A size for people: exact bytes, and also KiB, MiB or GiB where that is shorter.

    >>> format_size(1536), format_size(12)
    ('1,536 B (1.50 KiB)', '12 B')
    """
    for unit, scale in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if abs(size) >= scale:
            return f"{size:,} B ({size / scale:.2f} {unit})"
    return f"{size:,} B"


def format_count(n: int, noun: str) -> str:
    """A number of things, thousands separated.

    >>> format_count(1, "op"), format_count(2000, "op")
    ('1 op', '2,000 ops')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
