"""Divide and conquer (COSMA, section IV), at break nodes that are given or at break points of its own choice.

The paper cuts at break nodes that a person picks, and leaves picking them to future work. Each ends a part: itself and
what it needs that no part before has. Where none are given an order is cut: every
prefix of a topological order has run when the rest has not, and what crosses is what the prefix made or loaded and the
rest reads. The best cut points are crossed by one tensor (a break node), and NAS cells have two (a cell reads the two
cells before it)::

    ops of an order   o o o o | o o o o o | o o o o       chosen: fewest crossing tensors in all, then parts of equal
    tensors across            1           2               size in variables, none above the limit

Each part is ordered by the program without addresses, one after another. What crosses into a part is there or outside,
as the part before left it; what crosses out of it may stay, or leave for the write and the read that it costs. (The
paper takes it for a final output and an input.) The orders put together are an order of the whole graph, for which the
program with its order fixed (16, 17) finds residency and addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.names import did_you_mean
from lowtide.spill.problem import SpillProblem
from lowtide.stop import Limits
from lowtide_research.solvers import linear as solvers
from lowtide_research.spill.cosma.program import add_capacity, add_rows, start_program
from lowtide_research.spill.cosma.solution import order_of
from lowtide_research.spill.cosma.solve import ProgramSettings, unit_of
from lowtide_research.spill.cosma.tensors import OUTSIDE, CosmaStorage, Space, ancestors_of, windows

SPILLING_PARTS = 3
"""Mostly few parts spill in the order to start from, and the others take no time: each gets its share of this many."""

MOST_OPS = 80  # in a part, where there are break points enough


@dataclass(frozen=True)
class Parts:
    """Stretches of an order, half-open, and how many tensors cross each border between two."""

    stretches: tuple[tuple[int, int], ...]
    crossing: tuple[int, ...]


def crossings(space: Space, order: Sequence[int]) -> list[int]:
    """How many storages cross each prefix of an order, from length 0 to n."""
    step_of = {i: t for t, i in enumerate(order)}
    change = [0] * (space.n + 2)
    for storage in space.storages:
        steps = [step_of[i] for i in (*storage.readers, *([storage.maker] if storage.maker != OUTSIDE else []))]
        if steps:
            change[min(steps) + 1] += 1
            change[max(steps) + 1] -= 1
    crossing, count = [], 0
    for k in range(space.n + 1):
        count += change[k]
        crossing.append(count)
    return crossing


def divide(space: Space, order: Sequence[int], most_variables: int) -> Parts:
    """Choose break points on an order. `most_variables`: no part has a program larger than this, as far as the break
    points that there are allow it."""
    n = space.n
    across = crossings(space, order)
    points = [0] + [k for k in range(1, n) if across[k] <= across[k - 1] and across[k] <= across[k + 1]] + [n]
    at_step = {i: t for t, i in enumerate(order)}
    followers = [0] * n  # per step of the order, the steps of the ops that must come later, as bits
    for v, bits in enumerate(space.ancestors):
        while bits:
            low = bits & -bits
            followers[at_step[low.bit_length() - 1]] |= 1 << at_step[v]
            bits ^= low
    best: list[tuple[int, int, int] | None] = [None] * len(points)  # (crossing, squares of sizes, previous point)
    best[0] = (0, 0, -1)
    for j in range(1, len(points)):
        before, begin, ordered = (1 << points[j]) - 1, points[j], 0
        for i in range(j - 1, -1, -1):
            from_here = best[i]
            assert from_here is not None
            if points[j] - points[i] > MOST_OPS and i < j - 1:
                break
            while begin > points[i]:
                begin -= 1
                ordered += (followers[begin] & before).bit_count()
            size = _variables(points[j] - points[i], ordered)
            if size > most_variables and i < j - 1:
                break
            here = (from_here[0] + (across[points[i]] if i else 0), from_here[1] + size * size, i)
            now = best[j]
            if now is None or here[:2] < now[:2]:
                best[j] = here
    at, chosen = len(points) - 1, [n]
    while at > 0:
        last = best[at]
        assert last is not None
        at = last[2]
        chosen.append(points[at])
    chosen.reverse()
    stretches = tuple(pairwise(chosen))
    return Parts(stretches, tuple(across[k] for k in chosen[1:-1]))


def break_nodes(graph: Graph, text: str) -> list[int]:
    """Positions of the ops whose names or numbers `text` lists, separated by commas. Raises `InputError`: there is no
    such op, or several of one name."""
    found: list[int] = []
    named: dict[str, list[int]] = {}
    for i, op in enumerate(graph.ops):
        named.setdefault(op.name, []).append(i)
    for word in filter(None, (word.strip() for word in text.split(","))):
        at = named.get(word, [])
        if not at and word.isascii() and word.isdigit():
            at = [graph.index_of[int(word)]] if int(word) in graph.index_of else []
        if len(at) != 1:
            what = f"{len(at)} ops are" if at else "no op is"
            raise InputError(
                f"{what} called {word[:80]!r}; give a break node's name or number{did_you_mean(word, named)}"
            )
        found += at
    return found


def divide_at(space: Space, order: Sequence[int], breaks: Sequence[int]) -> tuple[tuple[int, ...], Parts]:
    """An order in parts that end in the given ops, in the sequence of `order` within each, and the parts."""
    step_of = {i: t for t, i in enumerate(order)}
    whose = dict.fromkeys(order, len(breaks))
    for k, op in reversed([*enumerate(sorted(breaks, key=step_of.__getitem__))]):
        whose |= {i: k for i in order if i == op or space.ancestors[op] >> i & 1}
    divided = tuple(sorted(order, key=lambda i: (whose[i], step_of[i])))
    ends = [t + 1 for t in range(len(divided)) if t + 1 == len(divided) or whose[divided[t]] != whose[divided[t + 1]]]
    across = crossings(space, divided)
    return divided, Parts(tuple(pairwise([0, *ends])), tuple(across[k] for k in ends[:-1]))


def variables_of(space: Space, ops: Sequence[int]) -> int:
    """Roughly how many variables a part's program has: windows within the part, four for each op and step."""
    inside = sum(1 << i for i in ops)
    ordered = sum((space.ancestors[i] & inside).bit_count() for i in ops)
    return _variables(len(ops), ordered)


def _variables(ops: int, ordered: int) -> int:
    """Of `ops` ops, of which so many pairs are ordered: an op has a step for each that is not ordered with it."""
    return 4 * (ops**2 - 2 * ordered)


def part_of(space: Space, ops: Sequence[int], there: set[int], copied: set[int], done: set[int]) -> Space:
    """The space of a part; its storages are numbered anew, with `CosmaStorage.index` their number in `space`. `there`,
    `copied`: storages that are in memory when the part begins; storages with a copy outside. `done`: ops of the parts
    before."""
    new = {i: k for k, i in enumerate(ops)}
    inside = set(ops)
    storages = []
    for a, storage in enumerate(space.storages):
        readers = tuple(sorted(new[u] for u in storage.readers if u in inside))
        later = any(u not in inside and u not in done for u in storage.readers)
        begins_here = storage.maker in inside
        seen = storage.maker in done or (storage.maker == OUTSIDE and any(u in done for u in storage.readers))
        if not (readers or begins_here or (a in there and later)):
            continue
        storages.append(
            CosmaStorage(
                a,
                storage.size,
                storage.bytes,
                new[storage.maker] if begins_here else OUTSIDE,
                readers,
                storage.free or a in copied,
                storage.written_late and not later,
                storage.stays and not later,
                present=a in there,
                away=seen and a not in there,
                later=later,
            )
        )
    preds = tuple(tuple(sorted(new[p] for p in space.preds[i] if p in inside)) for i in ops)
    ancestors = ancestors_of(preds)
    n = len(ops)
    first, last = windows(ancestors, None, space.overlap)
    workspace = tuple(space.workspace[i] for i in ops)
    steps = n + any(storage.stays for storage in storages)
    return Space(n, steps, first, last, preds, ancestors, tuple(storages), workspace, space.overlap)


@dataclass(frozen=True)
class Ordered:
    """An order made of parts, how many of them are ordered as well as can be, how many programs that took (parts that
    are alike are solved once), and their variables in all."""

    order: tuple[int, ...]
    solved: int
    programs: int
    variables: int


@dataclass(frozen=True)
class _Result:
    """Of a part: its order, the storages there after it and those it spilled, by their number in the part."""

    order: tuple[int, ...]
    there: tuple[int, ...]
    spilled: tuple[int, ...]
    complete: bool
    objective: int
    values: dict[str, dict[tuple[int, int], int]]
    missing: dict[int, int]
    variables: int


def order_parts(
    problem: SpillProblem, space: Space, order: Sequence[int], parts: Parts, limits: Limits, settings: ProgramSettings
) -> Ordered:
    """Order part after part; a part that its share of the time does not suffice for keeps `order`, or what is
    better. A part that spills nothing in `order` keeps it, too. Raises `KeyboardInterrupt`: Ctrl-C."""
    ordered: list[int] = []
    there: set[int] = set()
    copied: set[int] = set()
    done: set[int] = set()
    result_of: dict[object, _Result] = {}
    solved = variables = 0
    for k, (begin, end) in enumerate(parts.stretches):
        ops = sorted(order[begin:end])
        part = part_of(space, ops, there, copied, done)
        start = [ops.index(i) for i in order[begin:end]]
        key = (part.preds, part.workspace, tuple(replace(storage, index=0) for storage in part.storages), tuple(start))
        result = result_of.get(key)
        if result is None and limits.left_seconds > 0:
            share = limits.left_seconds / min(SPILLING_PARTS, len(parts.stretches) - k)
            result = _order_part(problem, part, start, limits, settings, share)
        done.update(ops)
        if result is None:
            ordered += order[begin:end]
            there = set()
            copied |= {
                a for a, storage in enumerate(space.storages) if storage.maker in done or storage.maker == OUTSIDE
            }
            continue
        if key not in result_of:
            result_of[key] = result
            variables += result.variables
        solved += result.complete
        ordered += [ops[i] for i in result.order]
        there = {part.storages[a].index for a in result.there}
        copied |= {part.storages[a].index for a in result.spilled}
    return Ordered(tuple(ordered), solved, len(result_of), variables)


def _order_part(
    problem: SpillProblem, part: Space, start: Sequence[int], limits: Limits, settings: ProgramSettings, seconds: float
) -> _Result | None:
    """In the order to start from, and then, if that spills anything, in any."""
    at = {i: t for t, i in enumerate(start)}
    steps = tuple(at[i] for i in range(part.n))
    fixed = _solve(problem, replace(part, first=steps, last=steps), None, limits, settings, seconds)
    if fixed is None or fixed.objective == 0:
        return fixed
    free = _solve(problem, part, fixed, limits, settings, seconds)
    if free is None or free.objective > fixed.objective:
        return replace(fixed, complete=False)
    return free


def _solve(
    problem: SpillProblem, part: Space, start: _Result | None, limits: Limits, settings: ProgramSettings, seconds: float
) -> _Result | None:
    program = start_program(part, unit_of(part, problem.model.alignment))
    add_rows(program, write_once=problem.semantics.write_once, cuts=settings.cuts)
    add_capacity(program, problem.capacity)
    tables = {"x": program.x, "loaded": program.loaded, "p": program.p, "s": program.s, "r": program.r}
    hint: dict[int, int] = {}
    if start is not None:
        for name, table in tables.items():
            hint |= {number: start.values[name].get(at, 0) for at, number in table.items()}
        hint |= {number: start.missing[a] for a, number in program.missing.items()}
    objective = dict(program.linear.objective)
    scale = gcd(*objective.values()) or 1
    program.linear.objective = {v: c // scale for v, c in objective.items()}
    model, columns = solvers.build(program.linear, "method cosma-dnc")
    values, _, ended = solvers.run(model, columns, hint, settings.solver, seconds, limits, (0, 0))
    if ended == "interrupt":
        raise KeyboardInterrupt
    if values is None:
        return None
    chosen = [round(v) for v in values]
    last = part.n - 1
    return _Result(
        order_of(program, values),
        tuple(
            a
            for a, storage in enumerate(part.storages)
            if storage.later and any(chosen[v] for v in program.resident(a, last))
        ),
        tuple(dict.fromkeys(a for (a, _), number in program.s.items() if chosen[number])),
        ended == "optimal",
        sum(c * chosen[v] for v, c in objective.items()),
        {name: {at: chosen[number] for at, number in table.items()} for name, table in tables.items()},
        {a: chosen[number] for a, number in program.missing.items()},
        program.variables,
    )
