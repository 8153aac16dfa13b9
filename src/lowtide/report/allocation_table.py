"""Addresses and lifetimes, as text: the quantities of Vela's `--verbose-allocation`, in a layout of our own."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.report.columns import columns
from lowtide.sizes import format_size
from lowtide.write.arena_map import ArenaMap, Block


def allocation_table(layout: ArenaMap) -> str:
    """A table for each memory, and what it takes compared with what must be live at once. A line is a block: its
    first and last step, its first and last address, its bytes, the bytes in use in the memory when it begins, what
    it is for, and its name. By first step, then by address."""
    parts = [f"allocation of {layout.name or 'net'}, {layout.steps:,} steps; steps and addresses inclusive"]
    for memory in layout.memories:
        blocks = [b for b in layout.blocks if b.memory == memory.name]
        load = live_bytes(blocks, layout.steps, layout.blocks)
        rows = [("steps", "", "addresses", "", "bytes", "in use", "purpose", "name")]
        for b in sorted(blocks, key=lambda b: (b.spans[0][0], b.offset, b.name)):
            first, last = b.spans[0][0], b.spans[-1][1] - 1
            purpose = "in place" if b.over is not None and b.purpose == "activation" else b.purpose
            rows.append(
                (
                    f"{first:,}", f"- {last:,}", f"0x{b.offset:08x}", f"- 0x{b.offset + b.size - 1:08x}",
                    f"{b.size:,}", f"{load[first]:,}", purpose, b.name,
                )
            )  # fmt: skip
        peak = max(load, default=0)
        over = memory.size - peak
        share = f" ({100 * over / peak:.1f} %)" if peak else ""
        figures = [
            ("alignment", f"{memory.alignment:,} B"),
            ("most in use at once", format_size(peak)),
            ("memory used", format_size(memory.size)),
            ("overhead", f"{over:,} B{share}"),
        ]
        if memory.capacity is not None:
            left = memory.capacity - memory.size
            verdict = f"{left:,} B free" if left >= 0 else f"{-left:,} B too small"
            figures.append(("capacity", f"{format_size(memory.capacity)}, {verdict}"))
        parts.append(f"{memory.name}:\n{columns(rows, right=[0, 4, 5])}")
        parts.append(columns(figures))
    return "\n\n".join(parts) + "\n"


def live_bytes(blocks: Sequence[Block], steps: int, everything: Sequence[Block]) -> list[int]:
    """Bytes in use at each step; those that an output has in common with the input it is written over count once."""
    change = [0] * (max(steps, max((b.spans[-1][1] for b in blocks), default=0)) + 1)
    for b in blocks:
        for start, end in b.spans:
            change[start] += b.size
            change[end] -= b.size
        if b.over is not None:
            under, start = everything[b.over], b.spans[0][0]
            common = min(b.offset + b.size, under.offset + under.size) - max(b.offset, under.offset)
            if under.spans[-1][1] > start and common > 0:
                change[start] -= common
                change[start + 1] += common
    loads = []
    live = 0
    for c in change[:-1]:
        live += c
        loads.append(live)
    return loads
