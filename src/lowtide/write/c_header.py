"""A layout as a C header, which C++ takes too: macros only, so that it costs nothing where it is not used.

::

    #include "net.h"
    static _Alignas(NET_ARENA_ALIGN) uint8_t arena[NET_ARENA_SIZE];
    int8_t *image = (int8_t *)(arena + NET_T_image_OFFSET);

Under TFLM the size is that of kTensorArenaSize, what the runtime keeps in addition to the tensors included; a comment
lists its parts. With several memories each has its own macros, `NET_ARENA_<MEMORY>_SIZE` and so on, and
`NET_T_<tensor>_MEMORY` is the number of the one that holds a tensor. Where TFLM's head and tail lie apart,
`NET_HEAD_ARENA_SIZE` and `NET_TAIL_ARENA_SIZE` are the sizes for `MicroAllocator::Create`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from lowtide.write.arena_map import ArenaMap, Region
from lowtide.write.declared import Declared

MAX_NAME = 200  # characters of a name that go into an identifier
_PER_LINE = 8


def c_header(layout: ArenaMap) -> bytes:
    """Text of a header with the size, alignment and capacity of each memory, and each place's offset and size. Every
    name becomes an identifier of ASCII letters, digits and single underscores; where two would be one, the later one
    gets a number. The model's own name follows it in a comment where it differs. Every macro begins with the
    layout's name. Only memories and places are needed."""
    net = identifier(layout.name, "net").upper()
    if net[0].isdigit():
        net = f"NET_{net}"
    types = comment(", ".join(layout.operators))
    operators = f"\n   Operators to register: {types}." if layout.operators else ""
    several = len(layout.memories) > 1
    bank_of = unique((m.name for m in layout.memories), "memory")
    lines = [
        f"/* {comment(layout.name or 'net')}: where each of {len(layout.places)} tensors and workspaces lies. Bytes.",
        f"   Made by lowtide; make it again when the model changes.{operators} */",
        f"#ifndef {net}_ARENA_H",
        f"#define {net}_ARENA_H",
        "",
    ]
    if several:
        lines.append(f"#define {net}_MEMORY_COUNT {len(layout.memories)}")
    for memory, bank in zip(layout.memories, bank_of, strict=True):
        stem = f"{net}_ARENA_{bank.upper()}" if several else f"{net}_ARENA"
        lines += _sizes(stem, memory, layout.declared.get(memory.name))
    if several and layout.head:
        lines += _arenas(net, layout, bank_of)
    number = {m.name: i for i, m in enumerate(layout.memories)}
    for group, letter, what in (("tensors", "T", "TENSOR"), ("workspaces", "W", "WORKSPACE")):
        places = [p for p in layout.places if (p.purpose == "workspace") == (group == "workspaces")]
        lines += ["", f"#define {net}_{what}_COUNT {len(places)}"]
        for place, name in zip(places, unique((p.name for p in places), group[0]), strict=True):
            stem = f"{net}_{letter}_{name}"
            note = "" if place.name == name else f" /* {comment(place.name)} */"
            lines.append(f"#define {stem}_OFFSET {place.offset}{note}")
            lines.append(f"#define {stem}_SIZE {place.size}")
            if several:
                lines.append(f"#define {stem}_MEMORY {number[place.memory]}")
        if places:
            lines += _table(f"{net}_{what}_OFFSETS", [p.offset for p in places])
            lines += _table(f"{net}_{what}_SIZES", [p.size for p in places])
    return "\n".join([*lines, "", "#endif", ""]).encode("ascii")


def _sizes(stem: str, memory: Region, declared: Declared | None) -> list[str]:
    """A memory's size, alignment and capacity: what is declared there, or what the layout takes."""
    lines = [] if declared is None else declared.comment("Bytes that firmware declares for the runtime's arena")
    lines.append(f"#define {stem}_SIZE {memory.size if declared is None else declared.bytes}")
    lines.append(f"#define {stem}_ALIGN {memory.alignment}")
    if memory.capacity is not None:
        lines.append(f"#define {stem}_CAPACITY {memory.capacity}")
    return lines


def _arenas(net: str, layout: ArenaMap, bank_of: list[str]) -> list[str]:
    """A runtime's arrays by what they hold: one, or one for its head and one for its tail."""
    stems = {m.name: f"{net}_ARENA_{bank.upper()}" for m, bank in zip(layout.memories, bank_of, strict=True)}
    parts = [("ARENA", layout.head)]
    if layout.head != layout.tail:
        parts = [("HEAD_ARENA", layout.head), ("TAIL_ARENA", layout.tail)]
    rows = [(part, stems[memory]) for part, memory in parts]
    return [f"#define {net}_{part}_{what} {stem}_{what}" for part, stem in rows for what in ("SIZE", "ALIGN")]


def identifier(name: str, other: str) -> str:
    """The name as part of a C identifier, `other` if nothing of it is left.

    >>> identifier("conv1/Relu:0", "t"), identifier("__é__", "t")
    ('conv1_Relu_0', 't')
    """
    kept = re.sub(r"[^A-Za-z0-9]+", "_", name[: 4 * MAX_NAME]).strip("_")[:MAX_NAME].strip("_")
    return kept or other


def unique(names: Iterable[str], other: str) -> list[str]:
    """An identifier for each name, no two alike even if letters' case is ignored.

    >>> unique(["a.b", "a_b", "A_B", "a_b_2"], "t")
    ['a_b', 'a_b_2', 'A_B_3', 'a_b_2_2']
    """
    taken: set[str] = set()
    counts: dict[str, int] = {}
    result = []
    for name in names:
        base = identifier(name, other)
        key = base.lower()
        distinct, n = base, counts.get(key, 1)
        while distinct.lower() in taken:
            n += 1
            distinct = f"{base}_{n}"
        counts[key] = n
        taken.add(distinct.lower())
        result.append(distinct)
    return result


def comment(text: str) -> str:
    """Text that can stand inside a C comment: ASCII, one line, no end and no beginning of a comment."""
    plain = "".join(c if c.isprintable() and c.isascii() else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??/", "?? /").rstrip("\\*/") or "-"


def _table(name: str, values: list[int]) -> list[str]:
    """The values as an initialiser: `const uint32_t offsets[] = NET_TENSOR_OFFSETS;`."""
    rows = [values[i : i + _PER_LINE] for i in range(0, len(values), _PER_LINE)]
    text = [", ".join(str(v) for v in row) for row in rows]
    body = ", \\\n    ".join(text)
    return [f"#define {name} {{ \\\n    {body} }}"]
