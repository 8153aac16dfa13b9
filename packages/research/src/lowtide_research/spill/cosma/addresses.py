"""Where storages lie: COSMA's equations (9) to (11), and MODeL's encoding, which has no steps in it.

L[a,t] is the offset of storage a at step t, V[a,t] says that it stays where it was, u and d[a,b,t] that a lies above
or below b; res = C + P + R, and M is the capacity::

    (9)  L[a,t] + size_a <= M
    (10) u + d <= 1, u + d >= res_a + res_b - 1, L_a + size_a - L_b <= M (1 - d), L_b + size_b - L_a <= M (1 - u)
    (11) |L[a,t] - L[a,t-1]| <= M (1 - V[a,t]), V >= res[a,t-1] + P[a,t] - 1, V <= res[a,t-1], V <= P[a,t]

An op's workspace is a storage that is only ever created. MODeL (Steiner et al., ICML 2023) has one L[a] for a storage's
whole life and one u and d[a,b], which every step at which both are there refers to; nothing is spilled, and what is
made least is the arena. Its variables grow with steps times storages, COSMA's with steps times pairs of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowtide_research.spill.cosma.program import CosmaProgram


@dataclass(frozen=True, slots=True)
class _Occupant:
    """Something that lies somewhere: a storage, or (`op` not None) the workspace of an op. `key` numbers them."""

    key: int
    size: int
    op: int | None = None


def _occupants(program: CosmaProgram) -> list[_Occupant]:
    space = program.space
    count = len(space.storages)
    occupants = [_Occupant(a, storage.size) for a, storage in enumerate(space.storages)]
    occupants += [_Occupant(count + i, size, i) for i, size in enumerate(space.workspace) if size]
    return occupants


def _there(program: CosmaProgram, occupant: _Occupant, t: int) -> dict[int, int]:
    """Terms of res."""
    if occupant.op is None:
        return program.resident(occupant.key, t)
    number = program.x.get((occupant.op, t))
    return {} if number is None else {number: 1}


def _meet(program: CosmaProgram, a: _Occupant, b: _Occupant) -> bool:
    """Whether two can be there at the same step: ops do not meet, and storages as the overlap analysis says."""
    if a.op is not None and b.op is not None:
        return False
    if a.op is None and b.op is None:
        return program.space.meet(a.key, b.key)
    return True


def add_addresses(program: CosmaProgram, capacity: int, keep_on: Callable[[], bool] = lambda: True) -> bool:
    """Equations (9) to (11); False once `keep_on` says no."""
    space, linear, unit = program.space, program.linear, program.unit
    room = capacity // unit
    occupants = _occupants(program)
    for t in range(space.steps):
        if not keep_on():
            return False
        here = [b for b in occupants if _there(program, b, t)]
        for b in here:
            program.offset[b.key, t] = linear.column(room - b.size // unit)  # (9)
        for k, a in enumerate(here):
            for b in here[k + 1 :]:
                if _meet(program, a, b):
                    _apart(program, a, b, t, program.offset[a.key, t], program.offset[b.key, t], room)
        for a in range(len(space.storages)):
            _stays(program, a, t, room)
    return True


def _apart(program: CosmaProgram, a: _Occupant, b: _Occupant, t: int, at_a: int, at_b: int, room: int) -> None:
    """(10)."""
    linear, unit = program.linear, program.unit
    up = program.above[a.key, b.key, t] = linear.column()
    down = program.below[a.key, b.key, t] = linear.column()
    linear.at_most(1, {up: 1, down: 1})
    _one_of(program, a, b, t, up, down)
    linear.at_most(room - a.size // unit, {at_a: 1, at_b: -1, down: room})
    linear.at_most(room - b.size // unit, {at_b: 1, at_a: -1, up: room})


def _one_of(program: CosmaProgram, a: _Occupant, b: _Occupant, t: int, up: int, down: int) -> None:
    row = {up: 1, down: 1}
    for number in (*_there(program, a, t), *_there(program, b, t)):
        row[number] = row.get(number, 0) - 1
    program.linear.at_least(-1, row)


def _stays(program: CosmaProgram, a: int, t: int, room: int) -> None:
    """(11)."""
    p = program.p.get((a, t))
    before = program.resident(a, t - 1)
    if p is None or not before:
        return
    linear = program.linear
    now, then = program.offset[a, t], program.offset[a, t - 1]
    v = program.same[a, t] = linear.column()
    linear.at_most(room, {then: 1, now: -1, v: room})
    linear.at_most(room, {now: 1, then: -1, v: room})
    linear.at_least(-1, {v: 1, p: -1, **dict.fromkeys(before, -1)})
    linear.at_most(0, {v: 1, **dict.fromkeys(before, -1)})
    linear.at_most(0, {v: 1, p: -1})


def add_model_addresses(program: CosmaProgram, keep_on: Callable[[], bool] = lambda: True) -> bool:
    """MODeL's addresses, with the arena for M; the program has no spills. False once `keep_on` says no."""
    space, linear, unit = program.space, program.linear, program.unit
    assert program.peak is not None
    room = linear.upper[program.peak]
    occupants = _occupants(program)
    for b in occupants:
        program.offset[b.key, 0] = linear.column(room - b.size // unit)
        linear.at_most(-(b.size // unit), {program.offset[b.key, 0]: 1, program.peak: -1})
    for k, a in enumerate(occupants):
        if not keep_on():
            return False
        for b in occupants[k + 1 :]:
            both = [t for t in range(space.steps) if _there(program, a, t) and _there(program, b, t)]
            if not both or not _meet(program, a, b):
                continue
            at_a, at_b = program.offset[a.key, 0], program.offset[b.key, 0]
            up = program.above[a.key, b.key, 0] = linear.column()
            down = program.below[a.key, b.key, 0] = linear.column()
            linear.at_most(1, {up: 1, down: 1})
            for t in both:
                _one_of(program, a, b, t, up, down)
            linear.at_most(room - a.size // unit, {at_a: 1, at_b: -1, down: room})
            linear.at_most(room - b.size // unit, {at_b: 1, at_a: -1, up: room})
    return True
