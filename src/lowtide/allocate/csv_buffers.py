"""Buffers as minimalloc's CSV: `id,lower,upper,size[,alignment,offset,gaps]`, lifetimes half-open.

A buffer is there from step `lower` up to, not including, `upper`. `gaps` is a list, separated by blanks, of
`lo-hi` (not there in these steps) and `lo-hi@wlo:whi` (only its bytes from wlo up to, not including, whi).
Other names of columns: `buffer` or `buffer_id` for `id`, `start` or `begin` for `lower`, and `end` for the
last step of the lifetime, inclusive (gaps then end inclusively too). `hint` is ignored. `offset` fixes a
buffer on input (-1 or nothing: free) and is its offset on output. No quoting; reading stops at the first
empty line.

Three columns are lowtide's own; minimalloc takes no notice of them. Each is a list, separated by blanks:

`over`      ids of buffers that this one may lie over where both are there, as an output over an input that dies: at the
            same offset or below, or with ``id@distance`` that many bytes or more below
`apart`     ids of buffers that this one shares no byte with, even if they are never there at the same time
`memory`    the memories that may hold it, the preferred one first; on output the one that holds it

Source: minimalloc (github.com/google/minimalloc), src/converter.h and converter.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowtide.allocate.buffers import Buffer, Pair, Problem, Rectangle
from lowtide.errors import InputError
from lowtide.files import read_all
from lowtide.graph import MAX_BYTES
from lowtide.names import did_you_mean
from lowtide.read.dsa_problem import PoolProblem, read_dsa_problem

_OTHER_NAMES = {"buffer": "id", "buffer_id": "id", "start": "lower", "begin": "lower"}
_COLUMNS = ("id", "lower", "upper", "size", "alignment", "offset", "gaps", "hint", "end", "over", "apart", "memory")
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_GAP = re.compile(r"([0-9]{1,19})-([0-9]{1,19})(?:@([0-9]{1,19}):([0-9]{1,19}))?", re.ASCII)


@dataclass(frozen=True)
class BufferFile:
    """What a file of buffers says: the problem, and by name the memories that a buffer may lie in.

    `capacity` is the bytes that there are, if it says so; `place` names the file; `costs` are penalties for shared
    bytes, by pairs of indices, the smaller first.
    """

    problem: Problem
    places: dict[str, tuple[str, ...]]
    capacity: int | None = None
    place: str = ""
    costs: Mapping[tuple[int, int], int] = field(default_factory=dict)


def read_buffers(path: str | Path) -> tuple[Buffer, ...]:
    """Read a file of buffers, none of them tied to another one or to a memory. Raises `InputError`: unreadable, as
    `parse_buffers`, or with something in the columns that are lowtide's own."""
    file = read_problem(path)
    if file.problem.pairs or file.problem.apart or file.places:
        raise InputError("this takes buffers alone: leave out the columns over, apart and memory", str(path))
    return file.problem.buffers


def read_problem(path: str | Path, pool: str | None = None) -> BufferFile:
    """Read a file of buffers with all that it says; a name that ends in .json is dsa-solver's, `pool` one of its.
    Raises `InputError`: unreadable, or as `parse_problem`, or for JSON as `lowtide.allocate.csv_buffers.read_pool`."""
    if str(path).lower().endswith(".json"):
        problem, capacity, costs = read_pool(path, pool)
        return BufferFile(problem, {}, capacity, str(path), costs)
    if pool is not None:
        raise InputError("a CSV of buffers has no pools; leave out --pool", str(path))
    try:
        text = read_all(path, "list of buffers").decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not a text file in UTF-8; give a CSV of buffers", str(path)) from None
    return parse_problem(text, str(path))


def parse_buffers(text: str, place: str = "buffers") -> tuple[Buffer, ...]:
    """Buffers from the text of a CSV file; what ties them is left out. Raises as `parse_problem`.

    >>> [b.size for b in parse_buffers("id,lower,upper,size\\na,0,3,16\\nb,2,5,8\\n")]
    [16, 8]
    """
    return parse_problem(text, place).problem.buffers


def parse_problem(text: str, place: str = "buffers") -> BufferFile:
    """What the text of a CSV file says. Raises `InputError`: a missing or unknown column, a wrong number of fields, a
    value that is no number or out of range, a lifetime or a gap that is empty or outside, an id used twice; a tie to a
    buffer that is not there, or two ties of the same buffers. The message names the file and the line."""
    lines = text.splitlines()
    columns = _header(lines[0] if lines else "", place)
    buffers: list[Buffer] = []
    seen: dict[str, int] = {}
    total = 0
    ties: list[tuple[int, str, str, str]] = []
    places: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            break
        where = f"{place}, line {number}"
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(columns):
            raise InputError(f"{len(fields)} fields where the header has {len(columns)}", where)
        row = dict(zip(columns, fields, strict=True))
        buffer = _row(row, where)
        if buffer.name in seen:
            raise InputError(f"id {buffer.name} is used twice; give every buffer an id of its own", where)
        seen[buffer.name] = len(buffers)
        ties += [
            (len(buffers), column, name, where) for column in ("over", "apart") for name in row.get(column, "").split()
        ]
        if row.get("memory"):
            places[buffer.name] = tuple(row["memory"].split())
        total += buffer.size + buffer.alignment
        if total > MAX_BYTES:
            raise InputError("the sizes add up to more than 2^62 bytes", where)
        buffers.append(buffer)
    pairs, apart = _ties(ties, seen)
    return BufferFile(Problem(tuple(buffers), pairs, apart), places, place=place)


def _ties(
    rows: Sequence[tuple[int, str, str, str]], index: Mapping[str, int]
) -> tuple[tuple[Pair, ...], tuple[tuple[int, int], ...]]:
    """Pairs and buffers kept apart, from ``(buffer, column, entry, place)``."""
    pairs: list[Pair] = []
    apart: dict[tuple[int, int], None] = {}
    tied: set[frozenset[int]] = set()
    for i, column, entry, where in rows:
        name, distance = entry, 0
        if column == "over" and entry not in index and "@" in entry:
            name, _, text = entry.rpartition("@")
            distance = _number({"distance": text}, "distance", where, least=0)
        j = index.get(name, i)
        if j == i:
            why = "is this buffer itself" if name in index else "is no buffer of this file"
            raise InputError(f"{column} names {name[:80]!r}, which {why}", where)
        both = frozenset((i, j))
        if column == "apart" and (min(both), max(both)) in apart:
            continue
        if both in tied:
            raise InputError(f"{column} names {name[:80]!r}, which is tied to this buffer already; say it once", where)
        tied.add(both)
        if column == "over":
            pairs.append(Pair(i, j, distance))
        else:
            apart[min(both), max(both)] = None
    return tuple(pairs), tuple(apart)


def format_buffers(
    given: Problem | Sequence[Buffer],
    offsets: Mapping[str, int] | None = None,
    places: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Text of a CSV file that `parse_problem` reads back to equal buffers and ties. `offsets`: the offset of each
    buffer, by name. `places`: the memories of a buffer, by name. Raises `InputError`: a name that CSV without quoting
    cannot hold, or that a list between blanks cannot; a buffer with several rectangles at one step."""
    problem = given if isinstance(given, Problem) else Problem(tuple(given))
    buffers = problem.buffers
    names = ["id", "lower", "upper", "size"]
    aligned = any(b.alignment != 1 for b in buffers)
    placed = offsets is not None or any(b.offset is not None for b in buffers)
    gaps = [_gaps(b) for b in buffers]
    gapped = any(gaps)
    names += ["alignment"] * aligned + ["offset"] * placed + ["gaps"] * gapped
    over: list[list[str]] = [[] for _ in buffers]
    apart: list[list[str]] = [[] for _ in buffers]
    for p in problem.pairs:
        over[p.lower].append(buffers[p.upper].name + (f"@{p.distance}" if p.distance else ""))
    for i, j in problem.apart:
        apart[i].append(buffers[j].name)
    memory = [list((places or {}).get(b.name, ())) for b in buffers]
    lists = [
        (column, entries) for column, entries in (("over", over), ("apart", apart), ("memory", memory)) if any(entries)
    ]
    for name in (name for _, entries in lists for row in entries for name in row):
        if re.search(r"\s", name):
            raise InputError(f"a CSV cannot hold {name!r} in a list; use a name without blanks")
    rows = [",".join([*names, *(column for column, _ in lists)])]
    for k, (b, gap) in enumerate(zip(buffers, gaps, strict=True)):
        if not b.name or b.name != b.name.strip() or re.search(r"[,\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", b.name):
            raise InputError(f"a CSV cannot hold the name {b.name!r}; use one without commas and line breaks")
        offset = b.offset if offsets is None else offsets[b.name]
        row = [b.name, str(b.start), str(max(b.end, b.start + 1)), str(b.size)]
        row += [str(b.alignment)] * aligned + ["-1" if offset is None else str(offset)] * placed
        rows.append(",".join([*row, *([gap] * gapped), *(" ".join(entries[k]) for _, entries in lists)]))
    return "\n".join(rows) + "\n"


def _header(line: str, place: str) -> list[str]:
    where = f"{place}, line 1"
    columns = [_OTHER_NAMES.get(name.strip().lower(), name.strip().lower()) for name in line.split(",")]
    for name in columns:
        if name not in _COLUMNS:
            raise InputError(
                f"unknown column {name[:40]!r}; a file of buffers begins with "
                "id,lower,upper,size and may have alignment, offset, gaps, over, apart, memory",
                where,
            )
        if columns.count(name) > 1:
            raise InputError(f"column {name} is given twice", where)
    missing = [name for name in ("id", "lower", "size") if name not in columns]
    if ("upper" in columns) == ("end" in columns):
        missing.append("upper (or end, but not both)")
    if missing:
        raise InputError(f"column missing: {', '.join(missing)}", where)
    return columns


def _row(row: dict[str, str], where: str) -> Buffer:
    name = row["id"]
    if not name:
        raise InputError("the id is empty", where)
    inclusive = "end" in row
    lower, size = _number(row, "lower", where), _number(row, "size", where, least=0)
    upper = _number(row, "end", where) + 1 if inclusive else _number(row, "upper", where)
    if lower >= upper:
        raise InputError(f"lower {lower} is not below upper {upper}; lifetimes are half-open", where)
    alignment = _number(row, "alignment", where, least=1) if row.get("alignment") else 1
    offset = _number(row, "offset", where, least=-1) if row.get("offset") else -1
    rectangles = _rectangles(row.get("gaps", ""), lower, upper, size, inclusive, where) if size else ()
    if size and not rectangles:
        raise InputError("the gaps leave nothing of the lifetime", where)
    if offset >= 0 and offset % alignment:
        raise InputError(f"offset {offset} is no multiple of the alignment {alignment}", where)
    return Buffer(name, size, rectangles, alignment, None if offset < 0 else offset)


def _number(row: dict[str, str], column: str, where: str, least: int = -MAX_BYTES) -> int:
    text = row[column]
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= MAX_BYTES:
        kind = "a whole number" if least < -1 else f"a whole number of at least {least}"
        raise InputError(f"{column} is {text[:40]!r}; it must be {kind} and at most 2^62", where)
    return int(text)


def _rectangles(text: str, lower: int, upper: int, size: int, inclusive: bool, where: str) -> tuple[Rectangle, ...]:
    rectangles: list[Rectangle] = []
    at = lower
    for gap in text.split():
        match = _GAP.fullmatch(gap)
        if match is None:
            raise InputError(f"gap {gap[:40]!r} is not lo-hi or lo-hi@wlo:whi", where)
        begin, end = int(match[1]), int(match[2]) + inclusive
        if not at <= begin < end <= upper:
            raise InputError(f"gap {gap} is empty, outside the lifetime, or not after the gap before it", where)
        if at < begin:
            rectangles.append(Rectangle(at, begin, 0, size))
        if match[3] is not None:
            low, high = int(match[3]), int(match[4])
            if not low <= high <= size:
                raise InputError(f"the window of gap {gap} is not within the buffer's {size} bytes", where)
            if low < high:
                rectangles.append(Rectangle(begin, end, low, high - low))
        at = end
    if at < upper:
        rectangles.append(Rectangle(at, upper, 0, size))
    return tuple(rectangles)


def _gaps(buffer: Buffer) -> str:
    if buffer.at_once:
        raise InputError(f"a CSV cannot hold {buffer.name!r}, several slices of which are live at one step")
    gaps = []
    at = buffer.start
    for p in buffer.rectangles:
        if at < p.start:
            gaps.append(f"{at}-{p.start}")
        if p.size < buffer.size:
            gaps.append(f"{p.start}-{p.end}@{p.low}:{p.low + p.size}")
        at = p.end
    return " ".join(gaps)


def read_pool(path: str | Path, pool: str | None = None) -> tuple[Problem, int | None, dict[tuple[int, int], int]]:
    """The buffers of a pool, its capacity in bytes, and what reuse costs, by pairs of indices, the smaller first. It
    is the only pool that has any buffers, where none is named. Raises `InputError`: as `read_dsa_problem`; no such
    pool, or several and none named."""
    pools = {p.pool: p for p in read_dsa_problem(path)}
    if pool is None and len(pools) > 1:
        raise InputError(f"there are {len(pools)} pools; say which with --pool: {', '.join(pools)}", str(path))
    if pool is not None and pool not in pools:
        hint = did_you_mean(pool, pools)
        raise InputError(f"there is no pool {pool!r} with buffers; use one of {', '.join(pools)}{hint}", str(path))
    if not pools:
        return Problem(()), None, {}
    chosen = pools[pool] if pool is not None else next(iter(pools.values()))
    return problem_of(chosen), chosen.capacity, costs_of(chosen)


def costs_of(pool: PoolProblem) -> dict[tuple[int, int], int]:
    """What reuse costs, by pairs of indices of the pool's buffers."""
    index = {b.id: k for k, b in enumerate(pool.buffers)}
    return {(min(index[a], index[b]), max(index[a], index[b])): cost for (a, b), cost in pool.penalties.items()}


def problem_of(pool: PoolProblem) -> Problem:
    """Its buffers; a reserved range is one that is there all the time."""
    buffers = [
        Buffer(
            pool.names[b.id],
            b.size,
            tuple(Rectangle(i.lower, i.upper, 0, b.size) for i in sorted(b.live_intervals, key=lambda i: i.lower))
            if b.size
            else (),
            b.alignment,
            pool.offsets.get(b.id),
        )
        for b in pool.buffers
    ]
    steps = [step for b in pool.buffers for i in b.live_intervals for step in (i.lower, i.upper)]
    for number, (begin, end) in enumerate(pool.reserved):
        size = end - begin
        buffers.append(Buffer(f"reserved{number}", size, (Rectangle(min(steps), max(steps), 0, size),), 1, begin))
    index = {b.id: k for k, b in enumerate(pool.buffers)}
    apart = [(min(index[a], index[b]), max(index[a], index[b])) for a, b in pool.apart]
    return Problem(tuple(buffers), (), tuple(sorted(apart)))
