"""What firmware declares for a runtime that keeps data in addition to the tensors: one size of one meaning.

TFLM is given an array of kTensorArenaSize bytes, or one for tensors and one for what it keeps. Whatever lowtide writes
or prints of that size, the header's ``ARENA_SIZE`` and the buffer plan's, and what `plan` and `check` call required, is
this one: the planned bytes and the persistent ones, each rounded up, or what starting takes where that is more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.plan import Plan, RuntimeParts
from lowtide.rules.tflm.libraries import libraries_text
from lowtide.sizes import round_up


@dataclass(frozen=True, slots=True)
class Declared:
    """An array that firmware declares."""

    bytes: int  # its size, for an array whose address is a multiple of `alignment`
    alignment: int
    parts: tuple[tuple[str, int], ...]  # what it consists of, in words and in bytes; they add up to `bytes`
    sure: str  # of which build that is true, and how far; more of it on further lines

    def comment(self, what: str) -> list[str]:
        """Lines of a C comment: what is declared, its parts, and how sure that is."""
        lines = [f"/* {what}, at a multiple of {self.alignment} ({self.alignment - 1} B more anywhere else):"]
        lines += [f"     {size:>12,} {part}" for part, size in self.parts]
        return [*lines, *(f"   {line}" for line in f"{self.sure}. */".splitlines())]


def declared_of(plan: Plan) -> dict[str, Declared]:
    """What a plan for TFLM declares in each of its memories, ``""`` where there is only one. Empty for plans under
    other targets, whose arena is the declared one."""
    parts, size, arenas = plan.runtime_parts, plan.runtime_arena_bytes, plan.runtime_arenas
    if parts is None or size is None:
        return {}
    planned, sure = round_up(parts.planned, parts.alignment), sure_text(parts)
    head = [
        ("planned: tensors and scratch (TFLM's head)", parts.planned),
        ("alignment of the planned end", planned - parts.planned),
    ]
    tail = [("persistent: what TFLM and its kernels keep (its tail)", parts.persistent)]
    moment = "more for a moment while TFLM starts"
    if arenas is not None and arenas.has_two_arrays:
        rest = size - planned - parts.persistent
        first = _array([*head, (moment, rest)], parts.alignment, sure)
        return {arenas.head_memory: first, arenas.tail_memory: _array(tail, parts.alignment, sure)}
    parts_of_one = [*head, *tail, (moment, size - planned - parts.persistent)]
    return {"" if arenas is None else arenas.head_memory: _array(parts_of_one, parts.alignment, sure)}


def _array(rows: Sequence[tuple[str, int]], alignment: int, sure: str) -> Declared:
    return Declared(sum(size for _, size in rows), alignment, tuple(row for row in rows if row[1]), sure)


def sure_text(parts: RuntimeParts) -> str:
    """Of which build the sizes are true, and how far; whose kernels decide them, where none are named."""
    build = parts.build or "the pip build for x86-64"
    sure = f"Enough for {build}, some bytes too many at most"
    if parts.exact:
        sure = f"To the byte for {build}"
    elif parts.unknown:
        sure = f"At least that for {build}: not known is what is kept by {', '.join(parts.unknown)}"
    if parts.arenas:
        sure += f";\nenough whichever kernels run: {libraries_text(parts.arenas)}"
    if parts.beyond:
        sure += f";\nmore is needed, and those kernels named, with {libraries_text(parts.beyond)}"
    return sure
