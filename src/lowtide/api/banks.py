"""Boards, and what a plan takes of each of several memories."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.arguments import typed

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.banks.boards import Board
    from lowtide.plan import Plan
    from lowtide.spill_plan import PlanMemory


@dataclass(frozen=True)
class MemoryUse:
    """A memory: bytes that the layout requires of it, bytes there are, and bytes too many (0 if it fits).

    `alignment` is what all offsets in it are multiples of, and its own address has to be.
    """

    name: str
    required_bytes: int
    available_bytes: int
    excess_bytes: int
    alignment: int = 1


def memory_uses(plan: Plan) -> list[MemoryUse]:
    """What a plan requires of each of its memories."""
    return uses_of(plan.memories or [], plan.alignment)


def uses_of(memories: Sequence[PlanMemory], alignment: int) -> list[MemoryUse]:
    """What is required of each of some memories, in which all offsets are multiples of `alignment`."""
    return [
        MemoryUse(m.name, size, m.capacity_bytes, max(0, size - m.capacity_bytes), max(alignment, m.alignment))
        for m in memories
        for size in (m.size_bytes or 0,)
    ]


def boards() -> dict[str, str]:
    """Names of the built-in boards, each with its memories and a line about it."""
    from lowtide.allocate.banks.boards import boards as built_in

    return {name: f"{_banks_text(b.banks)}; {b.about}" for name, b in built_in().items()}


@typed
def board(name: str | Path) -> Board:
    """Find a board by name, or read it from a TOML file.

    Raises
    ------
    InputError
        No such board, or the file is wrong.

    >>> [(b.name, b.capacity) for b in board("rp2040").banks]
    [('sram', 270336)]
    """
    from lowtide.allocate.banks.boards import find_board

    return find_board(name)


def _banks_text(banks: Iterable[Bank]) -> str:
    return ", ".join(f"{b.name} {_size_text(b.capacity)}" for b in banks)


def _size_text(size: int) -> str:
    for unit, name in ((2**20, "MiB"), (1024, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size:,} B"
