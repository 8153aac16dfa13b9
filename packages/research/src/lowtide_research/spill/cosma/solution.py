"""From a solution of COSMA's program to residency, and from an answer to values of its variables."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.spill.answer import Interval, SpillAnswer
from lowtide_research.spill.cosma.program import CosmaProgram


def order_of(program: CosmaProgram, values: Sequence[float]) -> tuple[int, ...]:
    """The order of the ops."""
    at = {i: t for (i, t), number in program.x.items() if values[number] > 0.5}
    return tuple(sorted(at, key=lambda i: at[i]))


def intervals_of(program: CosmaProgram, values: Sequence[float]) -> list[Interval]:
    """Residency of every storage, each stay from its first use to its last one (what is there for nothing is not).
    Offsets are 0 if the program has no addresses."""
    space = program.space
    step_of = {i: t for (i, t), number in program.x.items() if values[number] > 0.5}
    intervals = []
    for a, storage in enumerate(space.storages):
        begin, end = program.window[a]
        there = [t for t in range(begin, end + 1) if any(values[v] > 0.5 for v in program.resident(a, t))]
        wanted = {step_of[i] for i in (*storage.readers, *([storage.maker] if storage.maker >= 0 else []))}
        if storage.stays:
            wanted.add(space.n)
        stretches: list[list[int]] = []
        for t in there:
            if stretches and stretches[-1][-1] == t - 1:
                stretches[-1].append(t)
            else:
                stretches.append([t])
        for stretch in stretches:
            used = [t for t in stretch if t in wanted]
            if not used:
                continue
            to_the_end = storage.written_late and stretch[-1] >= space.n - 1
            end = max(space.n, used[-1] + 1) if to_the_end else used[-1] + 1
            number = program.offset.get((a, used[0]))
            offset = 0 if number is None else round(values[number]) * program.unit
            intervals.append(Interval(storage.index, used[0], end, offset))
    return sorted(intervals)


def workspace_offsets_of(program: CosmaProgram, values: Sequence[float]) -> dict[int, int]:
    """Offsets of the ops' workspaces, if the program has addresses."""
    count = len(program.space.storages)
    step_of = {i: t for (i, t), number in program.x.items() if values[number] > 0.5}
    return {
        i: round(values[program.offset[count + i, step_of[i]]]) * program.unit
        for i, size in enumerate(program.space.workspace)
        if size and (count + i, step_of[i]) in program.offset
    }


def hint_of(program: CosmaProgram, answer: SpillAnswer) -> dict[int, int]:
    """Values of the variables for an answer; none if it moves a storage between two steps, or is outside the space.
    Addresses are given where the answer has them, and the program."""
    space = program.space
    step_of = {i: t for t, i in enumerate(answer.order)}
    values = dict.fromkeys((*program.x.values(), *program.loaded.values(), *program.p.values(), *program.s.values()), 0)
    values |= dict.fromkeys((*program.r.values(), *program.same.values()), 0)
    for i, t in step_of.items():
        if (i, t) not in program.x:
            return {}
        values[program.x[i, t]] = 1
    number_of = {storage.index: a for a, storage in enumerate(space.storages)}
    at: dict[tuple[int, int], int] = {}
    visits: dict[int, list[Interval]] = {}
    for v in answer.intervals:
        if v.memory == 0 and v.storage in number_of:
            visits.setdefault(number_of[v.storage], []).append(v)
    spilled = {(number_of[m.storage], m.step) for m in answer.moves if m.kind == "spill" and m.storage in number_of}
    for a, stays in visits.items():
        for k, v in enumerate(stays):
            begins = program.r.get((a, v.start)) if k else program.created(a, v.start)
            if begins is None or (k and stays[k - 1].end >= v.start):
                return {}
            values[begins] = 1
            for t in range(v.start, v.end):
                at[a, t] = v.offset // program.unit
                if t > v.start and (a, t) in program.p:
                    values[program.p[a, t]] = 1
                    if (a, t) in program.same:
                        values[program.same[a, t]] = 1
            if (a, v.end) in spilled:
                if (a, v.end) not in program.s:
                    return {}
                values[program.s[a, v.end]] = 1
    count = len(space.storages)
    for i, low in answer.workspace_offsets.items():
        at[count + i, step_of[i]] = low // program.unit
    _hint_addresses(program, at, values)
    return values


def _hint_addresses(program: CosmaProgram, at: dict[tuple[int, int], int], values: dict[int, int]) -> None:
    """Offsets, and who lies above whom; where somebody is not there, anything."""
    for (key, t), number in program.offset.items():
        values[number] = at.get((key, t), 0)
    for pairs, sign in ((program.above, 1), (program.below, -1)):
        for (a, b, t), number in pairs.items():
            both = (a, t) in at and (b, t) in at
            values[number] = int(both and sign * (at[a, t] - at[b, t]) > 0)
