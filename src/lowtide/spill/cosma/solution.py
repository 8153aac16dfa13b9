"""From a solution of COSMA's program to residency, and from an answer to values of its variables."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.spill.answer import Interval, SpillAnswer
from lowtide.spill.cosma.program import Program


def order_of(made: Program, values: Sequence[float]) -> tuple[int, ...]:
    """The order of the ops."""
    at = {i: t for (i, t), number in made.x.items() if values[number] > 0.5}
    return tuple(sorted(at, key=lambda i: at[i]))


def intervals_of(made: Program, values: Sequence[float]) -> list[Interval]:
    """Residency of every item, each stay from its first use to its last one (what is there for nothing is not).

    Offsets are 0 if the program has no addresses.
    """
    space = made.space
    step_of = {i: t for (i, t), number in made.x.items() if values[number] > 0.5}
    found = []
    for a, item in enumerate(space.items):
        begin, end = made.window[a]
        there = [t for t in range(begin, end + 1) if any(values[v] > 0.5 for v in made.resident(a, t))]
        wanted = {step_of[i] for i in (*item.users, *([item.maker] if item.maker >= 0 else []))}
        if item.stays:
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
            to_the_end = item.written_late and stretch[-1] >= space.n - 1
            end = max(space.n, used[-1] + 1) if to_the_end else used[-1] + 1
            number = made.offset.get((a, used[0]))
            offset = 0 if number is None else round(values[number]) * made.unit
            found.append(Interval(item.storage, used[0], end, offset))
    return sorted(found)


def workspace_offsets_of(made: Program, values: Sequence[float]) -> dict[int, int]:
    """Offsets of the ops' workspaces, if the program has addresses."""
    count = len(made.space.items)
    step_of = {i: t for (i, t), number in made.x.items() if values[number] > 0.5}
    return {
        i: round(values[made.offset[count + i, step_of[i]]]) * made.unit
        for i, size in enumerate(made.space.workspace)
        if size and (count + i, step_of[i]) in made.offset
    }


def hint_of(made: Program, answer: SpillAnswer) -> dict[int, int]:
    """Values of the variables for an answer; none if it moves a storage between two steps, or is outside the space.

    Addresses are given where the answer has them, and the program.
    """
    space = made.space
    step_of = {i: t for t, i in enumerate(answer.order)}
    values = dict.fromkeys((*made.x.values(), *made.loaded.values(), *made.p.values(), *made.s.values()), 0)
    values |= dict.fromkeys((*made.r.values(), *made.same.values()), 0)
    for i, t in step_of.items():
        if (i, t) not in made.x:
            return {}
        values[made.x[i, t]] = 1
    number_of = {item.storage: a for a, item in enumerate(space.items)}
    at: dict[tuple[int, int], int] = {}
    visits: dict[int, list[Interval]] = {}
    for v in answer.intervals:
        if v.memory == 0 and v.storage in number_of:
            visits.setdefault(number_of[v.storage], []).append(v)
    spilled = {(number_of[m.storage], m.step) for m in answer.moves if m.kind == "spill" and m.storage in number_of}
    for a, stays in visits.items():
        for k, v in enumerate(stays):
            begins = made.r.get((a, v.start)) if k else made.created(a, v.start)
            if begins is None or (k and stays[k - 1].end >= v.start):
                return {}
            values[begins] = 1
            for t in range(v.start, v.end):
                at[a, t] = v.offset // made.unit
                if t > v.start and (a, t) in made.p:
                    values[made.p[a, t]] = 1
                    if (a, t) in made.same:
                        values[made.same[a, t]] = 1
            if (a, v.end) in spilled:
                if (a, v.end) not in made.s:
                    return {}
                values[made.s[a, v.end]] = 1
    count = len(space.items)
    for i, low in answer.workspace_offsets.items():
        at[count + i, step_of[i]] = low // made.unit
    _hint_addresses(made, at, values)
    return values


def _hint_addresses(made: Program, at: dict[tuple[int, int], int], values: dict[int, int]) -> None:
    """Offsets, and who lies above whom; where somebody is not there, anything."""
    for (key, t), number in made.offset.items():
        values[number] = at.get((key, t), 0)
    for pairs, sign in ((made.above, 1), (made.below, -1)):
        for (a, b, t), number in pairs.items():
            both = (a, t) in at and (b, t) in at
            values[number] = int(both and sign * (at[a, t] - at[b, t]) > 0)
