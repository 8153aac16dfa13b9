"""How large a C++ struct is, by its fields, under a compiler's rules: what TFLM keeps in its arena is structs.

A layout is a text with a letter for each field, in their order: ``p`` a pointer or `size_t`, ``i`` an int, int32_t or
float, ``h`` 16 bits, ``b`` a byte or bool, ``w`` an int64_t or double, ``e`` an enum; ``5i`` five of them, ``(pi)`` a
struct inside.

Sources: the psABIs of x86-64, i386, Arm (AAPCS32), RISC-V, Xtensa and WebAssembly. They differ in three things only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Abi:
    """Sizes that a compiler's rules settle, in bytes.

    `pointer`: of a pointer and of `size_t`. `wide`: alignment of int64_t and double; 8 but on i386, where it is 4.
    `enum`: of an enum without a type of its own; 4, or 1 with -fshort-enums, as arm-none-eabi-gcc has by default.
    """

    pointer: int
    wide: int = 8
    enum: int = 4


@cache
def size_of(layout: str, abi: Abi) -> tuple[int, int]:
    """Size and alignment of a struct. An assertion fails for a text that is no layout."""
    size, alignment, at = _fields(layout, 0, abi)
    assert at == len(layout), layout
    return _up(size, alignment), alignment


def _fields(layout: str, at: int, abi: Abi) -> tuple[int, int, int]:
    """End of the fields from `at` on, without padding after the last, their alignment, and where the text goes on."""
    letters = {"p": (abi.pointer,) * 2, "i": (4, 4), "h": (2, 2), "b": (1, 1), "w": (8, abi.wide), "e": (abi.enum,) * 2}
    end, most = 0, 1
    while at < len(layout) and layout[at] != ")":
        digits = at
        while layout[at].isdigit():
            at += 1
        times = int(layout[digits:at] or 1)
        if layout[at] == "(":
            inner, alignment, at = _fields(layout, at + 1, abi)
            size = _up(inner, alignment)
            assert layout[at : at + 1] == ")", layout
        else:
            size, alignment = letters[layout[at]]
        at += 1
        end = _up(end, alignment) + times * size
        most = max(most, alignment)
    return end, most, at


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
