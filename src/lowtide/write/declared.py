"""What firmware declares for a runtime that keeps data of its own beside the tensors: one size of one meaning.

TFLM is given an array of kTensorArenaSize bytes, or one for tensors and one for what it keeps. Whatever lowtide writes
or prints of that size, the header's ``ARENA_SIZE`` and the buffer plan's, and what `plan` and `check` call required, is
this one: the planned bytes and the persistent ones, each rounded up, or what starting takes where that is more.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.plan import Plan, RuntimeParts
from lowtide.sizes import round_up


@dataclass(frozen=True, slots=True)
class Declared:
    """An array that firmware declares.

    Attributes
    ----------
    bytes
        Its size, for an array whose address is a multiple of `alignment`.
    parts
        What it consists of, in words and in bytes; they add up to `bytes`.
    sure
        Of which build that is true, and how far.
    """

    bytes: int
    alignment: int
    parts: tuple[tuple[str, int], ...]
    sure: str

    def comment(self, what: str) -> list[str]:
        """Lines of a C comment: what is declared, its parts, and how sure that is."""
        lines = [f"/* {what}, at a multiple of {self.alignment} ({self.alignment - 1} B more anywhere else):"]
        lines += [f"     {size:>12,} {part}" for part, size in self.parts]
        return [*lines, f"   {self.sure}. */"]


def declared_of(plan: Plan) -> Declared | None:
    """The one array of a plan for TFLM; None for plans under other targets, whose arena is the declared one."""
    parts, size = plan.runtime_parts, plan.runtime_arena_bytes
    if parts is None or size is None:
        return None
    planned = round_up(parts.planned, parts.alignment)
    rows = [
        ("planned: tensors and scratch (TFLM's head)", parts.planned),
        ("alignment of the planned end", planned - parts.planned),
        ("persistent: what TFLM and its kernels keep (its tail)", parts.persistent),
        ("more for a moment while TFLM starts", size - planned - parts.persistent),
    ]
    return Declared(size, parts.alignment, tuple(row for row in rows if row[1]), sure_text(parts))


def sure_text(parts: RuntimeParts) -> str:
    """Of which build the sizes are true, and how far."""
    build = parts.build or "the pip build for x86-64"
    if parts.exact:
        return f"To the byte for {build}"
    if parts.unknown:
        return f"At least that for {build}: not known is what is kept by {', '.join(parts.unknown)}"
    return f"Enough for {build}, some bytes too many at most"
