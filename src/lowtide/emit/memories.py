"""The arrays that tensors lie in: one arena, or one for each memory of the plan, with an address over all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from lowtide.emit.templates import filled
from lowtide.plan import Plan


@dataclass(frozen=True)
class Array:
    """A memory as the code has it: name in C, bytes, and where its addresses begin."""

    name: str
    size_bytes: int
    base: int


@dataclass(frozen=True)
class Memories:
    """Arrays of a plan; none if it has one arena."""

    arrays_used: tuple[Array, ...]  # memories that hold something, in the plan's order
    start: dict[str, int]  # address of each of the plan's memories

    @classmethod
    def of(cls, plan: Plan) -> Memories:
        """Of a plan."""
        listed = [] if plan.residency is None else [(m.name, m.size_bytes or 0) for m in plan.memories or ()]
        starts = list(accumulate((size for _, size in listed), initial=0))
        names = _identifiers([name for name, _ in listed])
        used = [Array(own, size, at) for own, (_, size), at in zip(names, listed, starts, strict=False) if size > 0]
        return cls(tuple(used), {name: at for (name, _), at in zip(listed, starts, strict=False)})

    def arrays(self, given: Sequence[int] = ()) -> str:
        """Definitions, and the function that finds a byte; `given`: where the addresses of inputs that the caller holds
        begin, above all others.
        """
        held, find = _given(given)
        if not self.arrays_used:
            return filled("one.c", {"GIVEN": held, "FIND": find})
        lines = [
            "/* Tensors at the plan's addresses, one array for each memory. What MODEL_IN_... is when compiling goes"
        ]
        lines += ['   before its definition: __attribute__((section(".psram"))), for one. */']
        for array in self.arrays_used:
            upper = array.name.upper()
            lines += [f"#ifndef MODEL_IN_{upper}", f"#define MODEL_IN_{upper}", "#endif"]
            size = f"MODEL_GUARD + MODEL_{upper}_BYTES + MODEL_GUARD"
            lines += [f"MODEL_IN_{upper} static int8_t memory_{array.name}[{size}];", ""]
        lines += [f"{held}static int8_t *bytes_at(int32_t place)", "{", *find.splitlines()]
        for array in reversed(self.arrays_used[1:]):
            found = f"&memory_{array.name}[MODEL_GUARD + (place - {array.base})]"
            lines += [f"    if (place >= {array.base}) {{", f"        return {found};", "    }"]
        first = self.arrays_used[0]
        lines += [f"    return &memory_{first.name}[MODEL_GUARD + place];", "}", ""]
        return "\n".join([*lines, ""])

    def guarded(self) -> str:
        """Elements of the table of arrays with marked bytes around them."""
        if not self.arrays_used:
            return "{memory, MODEL_ARENA_BYTES}"
        return ", ".join(f"{{memory_{a.name}, MODEL_{a.name.upper()}_BYTES}}" for a in self.arrays_used)

    def sizes(self) -> str:
        """Definitions of their sizes."""
        return "".join(
            f"#define MODEL_{a.name.upper()}_BYTES {a.size_bytes} /* of these, in this memory */\n"
            for a in self.arrays_used
        )


def _given(begins: Sequence[int]) -> tuple[str, str]:
    """Pointers to inputs that the caller holds, and statements that find a byte of one."""
    if not begins:
        return "", ""
    held = "/* Inputs where the caller has them: they are read, and never written. */\n"
    held += f"static int8_t *given_inputs[{len(begins)}];\n\n"
    find = ""
    for k, begin in reversed(list(enumerate(begins))):
        find += f"    if (place >= {begin}) {{\n        return &given_inputs[{k}][place - {begin}];\n    }}\n"
    return held, find


def _identifiers(names: list[str]) -> list[str]:
    """Names of memories as C has them, each its own.

    >>> _identifiers(["SRAM 1", "sram-1", "2nd"])
    ['bank_sram_1', 'bank_sram_1_2', 'bank_2nd']
    """
    result: list[str] = []
    for name in names:
        stem = "bank_" + re.sub(r"[^a-z0-9]", "_", name.lower())
        count = 1
        while (own := stem if count == 1 else f"{stem}_{count}") in result:
            count += 1
        result.append(own)
    return result
