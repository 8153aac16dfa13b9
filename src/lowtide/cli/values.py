"""Values of options that more than one parser reads, and the options that every command has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from lowtide.errors import InputError
from lowtide.sizes import Dims

MOST_SIZES = 8
"""Sizes of a range that are planned."""


def seed(text: str) -> int:
    """A seed of a generator; `argparse.ArgumentTypeError` if it is none."""
    if not (text.isascii() and text.isdigit() and int(text[:20]) < 2**32):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 0 to 4294967295")
    return int(text)


def seconds(text: str) -> float:
    """A limit on time; `argparse.ArgumentTypeError` if it is no number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds") from None


def count(text: str) -> int:
    """How many there may be, 1 or more; `argparse.ArgumentTypeError` if it is no such number."""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < 2**31):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number from 1 to 2147483647")
    return int(text)


def dim(text: str) -> tuple[str, int]:
    """The size of a free dimension, ``NAME=SIZE``; `argparse.ArgumentTypeError` if it is none."""
    name, _, size = text.rpartition("=")
    if not (name and size.isascii() and size.isdigit() and 0 < int(size[:20]) < 2**62):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not NAME=SIZE with a whole number above 0 and below 2^62")
    return name, int(size)


def dim_or_dims(text: str) -> tuple[str, int | list[int]]:
    """As `dim`, or several sizes by commas, or a range as ``1..8``, which are a list."""
    name, _, sizes = text.rpartition("=")
    if ".." in sizes:
        first, last = (dim(f"{name}={end}")[1] for end in sizes.split("..", 1))
        return name, _between(first, last)
    if "," not in sizes:
        return dim(text)
    return name, [dim(f"{name}={size.strip()}")[1] for size in sizes.split(",")]


def _between(first: int, last: int) -> list[int]:
    """All sizes of a range, or `MOST_SIZES` of them at equal distances, the ends among them.

    >>> _between(1, 4), _between(1, 15)
    ([1, 2, 3, 4], [1, 3, 5, 7, 9, 11, 13, 15])
    """
    if not first < last:
        raise argparse.ArgumentTypeError(f"{first}..{last} is no range of sizes; write the smaller one first")
    count = min(MOST_SIZES, last - first + 1)
    return [first + (last - first) * k // (count - 1) for k in range(count)]


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """A tensor's shape, ``NAME=1x3x224x224``; `argparse.ArgumentTypeError` if it is none."""
    name, _, spelt = text.rpartition("=")
    sizes = spelt.lower().split("x")
    if not name or not all(size.isascii() and size.isdigit() and len(size) < 19 for size in sizes):
        message = "is not a tensor's name and its size along each axis, as in image=1x3x224x224"
        raise argparse.ArgumentTypeError(f"{text[:80]!r} {message}")
    return name, tuple(map(int, sizes))


def model_sizes(parser: Any, *, several: bool = False) -> None:
    """Options on the sizes of a model that leaves some open; `several`: also a range of them."""
    table = "; 1..8 prints a table, and with -o OUT writes one file for these sizes" if several else ""
    parser.add_argument(
        "--dim", dest="dims", action="append", default=[], type=dim_or_dims, metavar="NAME=SIZE",
        help=f"size of a free dimension, by its name or as INPUT:AXIS=SIZE; repeatable{table}",
    )  # fmt: skip
    parser.add_argument(
        "--shape", dest="dims", action="append", type=shape, metavar="NAME=AxBxC",
        help="shape of an input, as image=1x3x640x640, or of an inner tensor whose shape is known only at run time; "
        "repeatable",
    )  # fmt: skip


def dims_of(given: Sequence[tuple[str, int | Sequence[int]]]) -> Dims:
    """One size for each dimension, one shape for each tensor. Raises `InputError` if there are two, or a list."""
    dims: dict[str, int | Sequence[int]] = {}
    for name, size in given:
        if isinstance(size, list):
            raise InputError(f"--dim {name} has several sizes; only `plan` takes them: give one")
        if dims.setdefault(name, size) != size:
            option = "--dim" if isinstance(size, int) else "--shape"
            raise InputError(f"{option} gives {name} two sizes, {dims[name]} and {size}; give one")
    return dims


def name_list(text: str) -> list[str]:
    """The parts of a list; a comma inside a network's parameters does not end it.

    >>> name_list("a, b:n=4,filters=16")
    ['a', 'b:n=4,filters=16']
    """
    names: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if names and "=" in part and ":" not in part:
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    return names


def printing(parser: Any) -> None:
    """Options on what is printed."""
    group = parser.add_argument_group("what is printed")
    group.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else on stdout")
    loud = group.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="print only the result and errors")
    loud.add_argument("-v", "--verbose", action="store_true", help="print more figures, and tracebacks")


def move_cost(text: str) -> tuple[str, str]:
    """What a move costs, NAME=VALUE; `argparse.ArgumentTypeError` if it is not that."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not NAME=VALUE, as in write_once=false")
    return name, value


def tensor_offset(text: str) -> tuple[str, int]:
    """A tensor and its offset in bytes; `argparse.ArgumentTypeError` if it is not that."""
    name, _, offset = text.rpartition("=")
    base = 16 if offset.lower().startswith("0x") else 10
    digits = offset[2:] if base == 16 else offset
    valid = digits.isascii() and digits.isalnum() and (base == 16 or digits.isdigit()) and len(digits) < 20
    try:
        offset_bytes = int(digits, base) if name and valid else -1
    except ValueError:
        offset_bytes = -1
    if not 0 <= offset_bytes < 2**62:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not TENSOR=OFFSET with bytes from 0 on, or 0x...")
    return name, offset_bytes


def tensor_place(text: str) -> tuple[str, str]:
    """A tensor and the memories in which it may lie; `argparse.ArgumentTypeError` if it is not that."""
    name, equals, memories = text.rpartition("=")
    if not (equals and name and memories):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not TENSOR=MEMORY")
    return name, memories


def setting(text: str) -> tuple[str, str, str]:
    """An option of a method, or of the target; `argparse.ArgumentTypeError` if it is not that."""
    left, equals, value = text.partition("=")
    method, dot, option = left.partition(".")
    if not (equals and method and (option or not dot)):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not METHOD.OPTION=VALUE")
    return (method, option, value) if dot else ("target", left, value)


def varied(text: str) -> tuple[str, list[str]]:
    """An option and its values; with a semicolon among them commas are parts of a value.

    >>> varied("allow=,tile"), varied("allow=alias;tile,recompute")
    (('allow', ['', 'tile']), ('allow', ['alias', 'tile,recompute']))
    """
    name, equals, values = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not OPTION=A,B")
    return name.replace("-", "_"), values.split(";" if ";" in values else ",")
