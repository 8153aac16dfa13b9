"""COSMA's integer program: equations (1) to (8), (12) to (17), as rows.

Binary, for storage a and step t: C created (the maker's variable, so that (6) holds by itself; graph inputs and
constants: loaded for the first time), P preserved, S spilled, R retrieved; res = C + P + R. In words::

    (1) C + P + S + R <= 1                          (5) C[maker,t] <= res[b,t] for what the maker reads
    (2) P[t] <= C[t-1] + P[t-1] + R[t-1]            (7) sum C = 1
    (3) S[t] <= C[t-1] + P[t-1]                     (8) sum S <= 1
    (4) R[t] <= sum S[0..t]                         (12) least sum (S + R) size
    (13) S = R = 0  (14) sum res size <= M, least M (15)    (16) C fixed by an order

Not in the paper, or not as printed:

- One op a step (the paper says so of its timesteps, in no equation).
- A copy that exists anyway (graph inputs, constants, outputs once written) needs no S: R[t] <= sum C[0..t-1] instead
  of (4), and leaving is only not being preserved. So inputs and outputs cost reads only (the contract); as printed they
  would pay for a spill. Outputs that are written last, if requested: resident at the last step, or spilled.
- Without `write_once` every retrieval has a spill of its own: no (8), and (4) counts.
- A storage does not come back where it has just been: res[t-1] + R[t] <= 1. By (1) it cannot the first time either.
- `cuts`: rows that (1) to (11) imply for whole numbers, and without which solvers prove little: the sum of sizes
  within the capacity, and precedence of ops by sums over steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from lowtide_research.solvers.linear import Linear
from lowtide_research.spill.cosma.tensors import OUTSIDE, Space

Objective = Literal["traffic", "peak"]
At = dict[tuple[int, int], int]


@dataclass
class CosmaProgram:
    """Rows, and the number of each variable by (op or storage, step).

    `unit` is what bytes are divided by in rows about memory. `loaded` is C of storages from outside. `missing` says of
    storages of a part that they are not there for the next one, `window` between which steps a storage may be there.
    The rest, by name, belongs to `addresses`.
    """

    space: Space
    linear: Linear
    unit: int
    x: At = field(default_factory=dict)
    loaded: At = field(default_factory=dict)
    p: At = field(default_factory=dict)
    s: At = field(default_factory=dict)
    r: At = field(default_factory=dict)
    missing: dict[int, int] = field(default_factory=dict)
    window: dict[int, tuple[int, int]] = field(default_factory=dict)
    peak: int | None = None
    offset: At = field(default_factory=dict)
    above: dict[tuple[int, int, int], int] = field(default_factory=dict)
    below: dict[tuple[int, int, int], int] = field(default_factory=dict)
    same: At = field(default_factory=dict)

    def created(self, a: int, t: int) -> int | None:
        """Variable C of a storage."""
        maker = self.space.storages[a].maker
        return self.loaded.get((a, t)) if maker == OUTSIDE else self.x.get((maker, t))

    def resident(self, a: int, t: int, sign: int = 1) -> dict[int, int]:
        """Terms of res = C + P + R."""
        numbers = (self.created(a, t), self.p.get((a, t)), self.r.get((a, t)))
        return {number: sign for number in numbers if number is not None}

    @property
    def variables(self) -> int:
        """Number of columns."""
        return len(self.linear.upper)

    @property
    def constraints(self) -> int:
        """Number of rows."""
        return len(self.linear.rows)


def start_program(space: Space, unit: int, objective: Objective = "traffic") -> CosmaProgram:
    """Columns of (1) to (8), and the objective. With objective ``"peak"`` nothing is spilled (13)."""
    program = CosmaProgram(space, Linear(), unit)
    linear = program.linear
    spilling = objective == "traffic"
    for i in range(space.n):
        for t in range(space.first[i], space.last[i] + 1):
            program.x[i, t] = linear.column()
    for a, storage in enumerate(space.storages):
        begin, begun = space.begins(a)
        if not spilling and storage.maker == OUTSIDE:
            begin = begun = 0
        end = space.ends(a)
        if not spilling and (storage.written_late or storage.stays):
            end = space.n - 1
        program.window[a] = begin, end
        if storage.maker == OUTSIDE:
            for t in range(begin, begun + 1):
                program.loaded[a, t] = linear.column()
                if storage.away:
                    linear.objective[program.loaded[a, t]] = storage.bytes
        skip = 1 if space.overlap else 0
        for t in range(begin + skip, end + 1):
            program.p[a, t] = linear.column()
        if not spilling:
            continue
        if not storage.free:
            for t in range(begin + skip, end + (not space.overlap or storage.written_late or storage.later)):
                program.s[a, t] = linear.column()
                linear.objective[program.s[a, t]] = storage.bytes
        for t in range(begin + 2 * skip, end + 1):
            program.r[a, t] = linear.column()
            linear.objective[program.r[a, t]] = storage.bytes
        if storage.later:
            program.missing[a] = linear.column()
            linear.objective[program.missing[a]] = storage.bytes
    if not spilling:
        most = sum(storage.size for storage in space.storages) + max(space.workspace, default=0)
        program.peak = linear.column(most // unit)
        linear.objective = {program.peak: 1}
    return program


def add_rows(
    program: CosmaProgram, *, write_once: bool = True, cuts: bool = True, keep_on: Callable[[], bool] = lambda: True
) -> bool:
    """Equations (1) to (8) for every storage; False once `keep_on` says no."""
    space, linear = program.space, program.linear
    at_once: list[dict[int, int]] = [{} for _ in range(space.n)]
    for (_, t), number in program.x.items():
        at_once[t][number] = 1
    linear.rows.extend((1, 1, row) for row in at_once)
    for i in range(space.n):
        linear.rows.append((1, 1, {program.x[i, t]: 1 for t in range(space.first[i], space.last[i] + 1)}))  # (7)
    for a in range(len(space.storages)):
        if not keep_on():
            return False
        _storage_rows(program, a, write_once, cuts)
    _precedence_rows(program, everything=cuts)
    return True


def _storage_rows(program: CosmaProgram, a: int, write_once: bool, cuts: bool) -> None:
    space, linear, storage = program.space, program.linear, program.space.storages[a]
    spills: dict[int, int] = {}
    copies: dict[int, int] = {}
    reads: dict[int, int] = {}
    if storage.maker == OUTSIDE:
        loads = [program.loaded.get((a, t)) for t in range(-1, space.steps)]
        linear.rows.append((1, 1, {number: 1 for number in loads if number is not None}))  # (7)
    begin, end = program.window[a]
    for t in range(begin, min(end + 2, space.steps)):
        p, s, r = program.p.get((a, t)), program.s.get((a, t)), program.r.get((a, t))
        before = program.resident(a, t - 1)
        created = program.created(a, t)
        if p is not None or s is not None or r is not None:
            linear.at_most(1, {v: 1 for v in (created, p, s, r) if v is not None})  # (1)
        if p is not None:
            linear.at_most(0, {p: 1, **dict.fromkeys(before, -1)})  # (2)
        if s is not None:
            last_r = program.r.get((a, t - 1)) if write_once else None
            linear.at_most(0, {s: 1, **{v: -1 for v in before if v != last_r}})  # (3)
        if r is not None:
            if storage.free:
                linear.at_most(0, {r: 1, **dict.fromkeys(copies, -1)})
            elif write_once:
                linear.at_most(0, {r: 1, **dict.fromkeys(spills, -1)})  # (4)
            else:
                linear.at_most(0, {r: 1, **dict.fromkeys(reads, 1), **dict.fromkeys(spills, -1)})
            linear.at_most(1, {r: 1, **before})
            reads[r] = 1
        if s is not None:
            spills[s] = 1
        if created is not None:
            copies[created] = 1
        for u in storage.readers:
            if (u, t) in program.x:
                linear.at_most(0, {program.x[u, t]: 1, **program.resident(a, t, -1)})  # (5)
        if cuts and r is not None and not (storage.stays and t == space.n):
            linear.at_most(0, {r: 1, **{program.x[u, t]: -1 for u in storage.readers if (u, t) in program.x}})
        if cuts and s is not None:
            used = [storage.maker, *storage.readers] if storage.maker != OUTSIDE else storage.readers
            row = {program.x[u, t - 1]: -1 for u in used if (u, t - 1) in program.x}
            if not (storage.present and t == 0):
                linear.at_most(0, {s: 1, **row})
    if write_once and len(spills) > 1:
        linear.at_most(1, spills)  # (8)
    spilling = program.peak is None
    if a in program.missing:
        linear.at_least(1, {**program.resident(a, space.n - 1), program.missing[a]: 1})
    if storage.later and not storage.free:
        linear.at_least(1, {**program.resident(a, space.n - 1), **spills})
    if storage.stays and spilling:
        linear.at_least(1, program.resident(a, space.n))
    elif storage.written_late or (storage.stays and not spilling):
        linear.at_least(1, {**program.resident(a, space.n - 1), **spills})


def _precedence_rows(program: CosmaProgram, *, everything: bool) -> None:
    """Op v has not run by step t unless op u has by step t - 1: for what (5) does not say, or for every edge."""
    space, x = program.space, program.x
    implied = {(storage.maker, u) for storage in space.storages for u in storage.readers}
    for v, before in enumerate(space.preds):
        for u in before:
            if not everything and (u, v) in implied:
                continue
            for t in range(space.first[v], space.last[v] + 1):
                row = {x[v, s]: 1 for s in range(space.first[v], t + 1)}
                row |= {x[u, s]: -1 for s in range(space.first[u], min(space.last[u], t - 1) + 1)}
                program.linear.at_most(0, row)


def add_capacity(program: CosmaProgram, capacity: int, reserved: int = 0) -> None:
    """The sizes of who is there sum up to the capacity, or to M (14). `reserved` bytes are left empty where the op
    can spare them."""
    space, unit = program.space, program.unit
    needs = list(space.workspace)
    for storage in space.storages:
        for i in {*storage.readers, *([storage.maker] if storage.maker != OUTSIDE else [])}:
            needs[i] += storage.size
    rows: list[dict[int, int]] = [{} for _ in range(space.steps)]
    for a, storage in enumerate(space.storages):
        for t in range(max(0, program.window[a][0]), program.window[a][1] + 1):
            for number in program.resident(a, t):
                rows[t][number] = rows[t].get(number, 0) + storage.size // unit
    for (i, t), number in program.x.items():
        extra = space.workspace[i] // unit + min(reserved, max(0, capacity - needs[i])) // unit
        if extra:
            rows[t][number] = rows[t].get(number, 0) + extra
    for row in rows:
        if program.peak is not None:
            program.linear.at_most(0, {**row, program.peak: -1})
        elif row:
            program.linear.at_most(capacity // unit, row)
