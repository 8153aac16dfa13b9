"""A plan as TFLM's `BufferPlan`, for firmware that places buffers itself instead of by metadata in the model.

TFLM's `NonPersistentMemoryPlannerShim` takes the offsets of all buffers in the order in which the allocator adds them:
tensors that need memory as they stand in the file, subgraph by subgraph, then scratch buffers as the operators ask for
them. The model must be the planned file: its operators in the plan's order.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.write.c_header import comment, identifier
from lowtide.write.declared import Declared

_PER_LINE = 8


def buffer_plan(name: str, offsets: Sequence[int], head_bytes: int, arena: Declared) -> bytes:
    """Text of a C++ header with the struct and the arena's size. `name`: of the model; identifiers are made of it.
    `offsets`: of each buffer, in bytes, in the order in which TFLM adds them. `head_bytes`: bytes that they take.
    `arena`: the smallest kTensorArenaSize, with its parts."""
    stem = identifier(name, "net").lower()
    stem = f"net_{stem}" if stem[0].isdigit() else stem
    upper = stem.upper()
    rows = [", ".join(map(str, offsets[i : i + _PER_LINE])) for i in range(0, len(offsets), _PER_LINE)]
    lines = [
        f"/* {comment(name or 'net')}: where TFLM's {len(offsets)} buffers lie. Bytes.",
        "   Made by lowtide for the planned file; make it again when the model changes.",
        "",
        f"   alignas(16) static uint8_t arena[{upper}_ARENA_SIZE];",
        "   static tflite::NonPersistentMemoryPlannerShim planner(",
        f"       reinterpret_cast<const tflite::BufferPlan*>(&{stem}_buffer_plan));",
        f"   auto* allocator = tflite::MicroAllocator::Create(arena, {upper}_ARENA_SIZE, &planner); */",
        f"#ifndef {upper}_BUFFER_PLAN_H",
        f"#define {upper}_BUFFER_PLAN_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define {upper}_PLANNED_SIZE {head_bytes}",
        *arena.comment("Bytes that firmware declares, the smallest kTensorArenaSize"),
        f"#define {upper}_ARENA_SIZE {arena.bytes}",
        f"#define {upper}_BUFFER_COUNT {len(offsets)}",
        "",
        "static const struct {",
        "  int32_t buffer_count;",
        f"  int32_t buffer_plan_entries[{max(len(offsets), 1)}];",
        f"}} {stem}_buffer_plan = {{",
        f"    {upper}_BUFFER_COUNT,",
        "    {" + (",\n     ".join(rows) or "0") + "},",
        "};",
        "",
        "#endif",
        "",
    ]
    return "\n".join(lines).encode("ascii", "replace")
