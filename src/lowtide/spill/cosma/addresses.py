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

from lowtide.spill.cosma.program import Program


@dataclass(frozen=True, slots=True)
class _Block:
    """Something that lies somewhere: an item, or (`op` not None) the workspace of an op. `key` numbers them."""

    key: int
    size: int
    op: int | None = None


def _blocks(made: Program) -> list[_Block]:
    space = made.space
    count = len(space.items)
    found = [_Block(a, item.size) for a, item in enumerate(space.items)]
    found += [_Block(count + i, size, i) for i, size in enumerate(space.workspace) if size]
    return found


def _there(made: Program, block: _Block, t: int) -> dict[int, int]:
    """Terms of res."""
    if block.op is None:
        return made.resident(block.key, t)
    number = made.x.get((block.op, t))
    return {} if number is None else {number: 1}


def _meet(made: Program, a: _Block, b: _Block) -> bool:
    """Whether two can be there at the same step: ops do not meet, and items as the overlap analysis says."""
    if a.op is not None and b.op is not None:
        return False
    if a.op is None and b.op is None:
        return made.space.meet(a.key, b.key)
    return True


def add_addresses(made: Program, capacity: int, keep_on: Callable[[], bool] = lambda: True) -> bool:
    """Equations (9) to (11); False once `keep_on` says no."""
    space, linear, unit = made.space, made.linear, made.unit
    room = capacity // unit
    blocks = _blocks(made)
    for t in range(space.steps):
        if not keep_on():
            return False
        here = [b for b in blocks if _there(made, b, t)]
        for b in here:
            made.offset[b.key, t] = linear.column(room - b.size // unit)  # (9)
        for k, a in enumerate(here):
            for b in here[k + 1 :]:
                if _meet(made, a, b):
                    _apart(made, a, b, t, made.offset[a.key, t], made.offset[b.key, t], room)
        for a in range(len(space.items)):
            _stays(made, a, t, room)
    return True


def _apart(made: Program, a: _Block, b: _Block, t: int, at_a: int, at_b: int, room: int) -> None:
    """(10)."""
    linear, unit = made.linear, made.unit
    up = made.above[a.key, b.key, t] = linear.column()
    down = made.below[a.key, b.key, t] = linear.column()
    linear.at_most(1, {up: 1, down: 1})
    _one_of(made, a, b, t, up, down)
    linear.at_most(room - a.size // unit, {at_a: 1, at_b: -1, down: room})
    linear.at_most(room - b.size // unit, {at_b: 1, at_a: -1, up: room})


def _one_of(made: Program, a: _Block, b: _Block, t: int, up: int, down: int) -> None:
    row = {up: 1, down: 1}
    for number in (*_there(made, a, t), *_there(made, b, t)):
        row[number] = row.get(number, 0) - 1
    made.linear.at_least(-1, row)


def _stays(made: Program, a: int, t: int, room: int) -> None:
    """(11)."""
    p = made.p.get((a, t))
    before = made.resident(a, t - 1)
    if p is None or not before:
        return
    linear = made.linear
    now, then = made.offset[a, t], made.offset[a, t - 1]
    v = made.same[a, t] = linear.column()
    linear.at_most(room, {then: 1, now: -1, v: room})
    linear.at_most(room, {now: 1, then: -1, v: room})
    linear.at_least(-1, {v: 1, p: -1, **dict.fromkeys(before, -1)})
    linear.at_most(0, {v: 1, **dict.fromkeys(before, -1)})
    linear.at_most(0, {v: 1, p: -1})


def add_model_addresses(made: Program, keep_on: Callable[[], bool] = lambda: True) -> bool:
    """MODeL's addresses, with the arena for M; the program has no spills. False once `keep_on` says no."""
    space, linear, unit = made.space, made.linear, made.unit
    assert made.peak is not None
    room = linear.upper[made.peak]
    blocks = _blocks(made)
    for b in blocks:
        made.offset[b.key, 0] = linear.column(room - b.size // unit)
        linear.at_most(-(b.size // unit), {made.offset[b.key, 0]: 1, made.peak: -1})
    for k, a in enumerate(blocks):
        if not keep_on():
            return False
        for b in blocks[k + 1 :]:
            both = [t for t in range(space.steps) if _there(made, a, t) and _there(made, b, t)]
            if not both or not _meet(made, a, b):
                continue
            at_a, at_b = made.offset[a.key, 0], made.offset[b.key, 0]
            up = made.above[a.key, b.key, 0] = linear.column()
            down = made.below[a.key, b.key, 0] = linear.column()
            linear.at_most(1, {up: 1, down: 1})
            for t in both:
                _one_of(made, a, b, t, up, down)
            linear.at_most(room - a.size // unit, {at_a: 1, at_b: -1, down: room})
            linear.at_most(room - b.size // unit, {at_b: 1, at_a: -1, up: room})
    return True
