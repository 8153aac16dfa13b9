"""A layout as JSON with the records of TVM's unified static memory planner: PoolInfo, BufferInfo, PoolAllocation.

::

    {"pools": [{"pool_name", "size_hint_bytes", "clock_frequency_hz", "read_bandwidth_bytes_per_cycle",
                "write_bandwidth_bytes_per_cycle", "read_latency_cycles", "write_latency_cycles", "used_bytes"}],
     "buffers": [{"name_hint", "size_bytes", "alignment", "pool_candidates": [pool_name], "conflicts": [name_hint],
                  "kind", "first_step", "last_step"}],
     "allocations": [{"name_hint", "pool_name", "byte_offset"}]}

The names are TVM's; -1 says "not restricted" or "not known", as there. TVM keeps these as objects and has no file of
its own for them: a script reads this one with a dozen lines. Two buffers conflict if they are in use in one step; an
output that is written over an input that dies there does not conflict with it. `used_bytes`, `kind` and the steps are
ours.

Source: TVM, include/tvm/ir/memory_pools.h (PoolInfo) and include/tvm/tir/usmp/utils.h (BufferInfo, PoolAllocation).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lowtide.names import FreeNames
from lowtide.write.arena_map import ArenaMap, Block


def usmp_json(layout: ArenaMap) -> bytes:
    """The JSON, UTF-8, one line for each pool, buffer and allocation; buffers in the order of the layout's blocks."""
    free = FreeNames(first=2)  # in TVM a buffer goes by its name
    names = [free.take(b.name) for b in layout.blocks]
    against = conflicts(layout.blocks)
    pools = [
        {
            "pool_name": m.name,
            "size_hint_bytes": -1 if m.capacity is None else m.capacity,
            "clock_frequency_hz": -1,
            "read_bandwidth_bytes_per_cycle": -1,
            "write_bandwidth_bytes_per_cycle": -1,
            "read_latency_cycles": 0,
            "write_latency_cycles": 0,
            "used_bytes": m.size,
        }
        for m in layout.memories
    ]
    buffers = [
        {
            "name_hint": name,
            "size_bytes": b.size,
            "alignment": b.alignment,
            "pool_candidates": [m.name for m in layout.memories],
            "conflicts": [names[j] for j in against[i]],
            "kind": b.purpose,
            "first_step": b.spans[0][0],
            "last_step": b.spans[-1][1] - 1,
        }
        for i, (b, name) in enumerate(zip(layout.blocks, names, strict=True))
    ]
    allocations = [
        {"name_hint": name, "pool_name": b.memory, "byte_offset": b.offset}
        for b, name in zip(layout.blocks, names, strict=True)
    ]
    parts = [
        b'"%s": [\n%s\n]' % (key.encode(), b",\n".join(msgspec.json.encode(row) for row in rows))
        for key, rows in (("pools", pools), ("buffers", buffers), ("allocations", allocations))
    ]
    return b"{" + b",\n".join(parts) + b"}\n"


def conflicts(blocks: Sequence[Block]) -> list[list[int]]:
    """For each block the indices, ascending, of those that may not share a byte with it."""
    begins = sorted((start, end, i) for i, b in enumerate(blocks) for start, end in b.spans)
    against: list[set[int]] = [set() for _ in blocks]
    live: list[tuple[int, int]] = []
    for start, end, i in begins:
        live = [(until, j) for until, j in live if until > start]
        for _, j in live:
            if j != i and blocks[i].over != j and blocks[j].over != i:
                against[i].add(j)
                against[j].add(i)
        live.append((end, i))
    return [sorted(others) for others in against]
