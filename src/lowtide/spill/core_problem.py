"""A spilling problem as the native core takes it: all of it, in one order only, or a part of its ops.

A storage that a single op touches is part of that op's demand. Graph outputs that have to be in the fast memory at the
end are touched by one more op, which comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide import _core
from lowtide.spill.problem import SpillProblem, timeline
from lowtide.stop import Limits, count

_STATE = 5_000  # nanoseconds


@dataclass(frozen=True)
class CoreProblem:
    """What the core searches, and what its numbers mean."""

    core: _core.SpillModel
    ops: tuple[int, ...]  # positions in file order; one more for the end, if the problem needs it, is not listed
    storages: tuple[int, ...]  # index in the problem of each of the core's storages


def least_traffic(
    core: _core.SpillModel,
    limits: Limits,
    *,
    width: int = 0,
    state_limit: int = 0,
    upper: int = -1,
    least_seconds: float = 0.0,
    safe_moves: bool = True,
    dominance: bool = True,
) -> _core.SpillResult:
    """One search of the core's: a beam of a width, or best-first among so many states at most, fewer where the counted
    work leaves fewer. `upper`: bytes; only a result below is looked for; -1: any. `least_seconds`: for so long at the
    least, even where the time is over."""
    most = limits.most(_STATE)
    result = _core.spill(
        core,
        width=width,
        state_limit=min(state_limit, most) if state_limit and most else state_limit,
        memory_bytes=limits.memory_bytes,
        upper=upper,
        seed=limits.seed,
        jitter=0,
        seconds=max(limits.clock_seconds, least_seconds),
        safe_moves=safe_moves,
        dominance=dominance,
    )
    count(_STATE * result.states)
    return result


def core_problem(
    problem: SpillProblem,
    ops: Sequence[int] | None = None,
    *,
    chain: bool = False,
    free: range | None = None,
    costs: Mapping[int, int] | None = None,
    segments: Sequence[tuple[Sequence[int], int]] = (),
) -> CoreProblem:
    """Hand a problem to the core.

    `ops`: positions of the ops that count, topological; all of them if not given. A part of the ops is a relaxation:
      storages live from the first to the last touch inside it, what is written outside of it has a copy.
    `chain`: whether they have to run in this order. Only then is the lead of `Semantics` looked at.
    `free`: If given, steps of `ops`, which are all ops, in any order: the ops there may change places, all others run
      as they stand.
    `costs`: what a move of a storage counts for; by default its bytes. Storages left out may leave for nothing.
    `segments`: positions of ops, and what running them costs at least.
    """
    part = tuple(range(problem.steps)) if ops is None else tuple(ops)
    end = len(part) == problem.steps and problem.semantics.outputs_end_fast
    made = _Part(
        problem, {i: k for k, i in enumerate(part)}, end, [problem.model.workspace[i] for i in part] + [0] * end
    )
    lead = timeline(problem, part).touches if chain and problem.semantics.lead else None
    storages: dict[int, _Row] = {}
    for s, storage in enumerate(problem.model.storages):
        row = made.row(s, None if lead is None else list(lead[s])) if storage.size else None
        if row is not None:
            storages[s] = row if costs is None else (*row[:2], costs.get(s, 0), *row[3:])
    if chain or free is not None:
        preds = _chain(problem, part, len(made.workspace), free or range(0))
    else:
        preds = [*inner_predecessors(problem, part), *([list(range(len(part)))] if end else [])]
    core_of = {s: k for k, s in enumerate(storages)}
    overwrites = [
        [
            (core_of.get(o.storage, -1), o.saving)
            for o in problem.model.overwrites[i]
            if not problem.model.storages[o.storage].at_end
        ]
        for i in part
    ]
    core = _core.SpillModel(
        preds=preds,
        storages=list(storages.values()),
        workspace=made.workspace,
        overwrites=overwrites + [[]] * end,
        capacity=problem.capacity,
        write_once=problem.semantics.write_once,
        segments=[([made.number[i] for i in inner], bytes_) for inner, bytes_ in segments],
    )
    return CoreProblem(core, part, tuple(storages))


_Row = tuple[int, int, int, list[int], list[int], list[bool]]
"""A storage: size, bytes of a transfer, cost of a transfer, ops that touch it, ops that write it, flags."""


@dataclass(frozen=True)
class _Part:
    """Ops of a problem by their number in the core, with an `end` after them or without. Demands go to `workspace`."""

    problem: SpillProblem
    number: dict[int, int]
    end: bool
    workspace: list[int]

    def row(self, s: int, led: list[int] | None) -> _Row | None:
        """A storage that the core can move; `led`: the steps that touch it, with the lead of `Semantics`. None where
        the part does not touch the storage, or one op alone does: then it counts as that op's workspace."""
        problem, storage = self.problem, self.problem.model.storages[s]
        users = sorted(self.number[i] for i in storage.users if i in self.number)
        output = problem.is_output[s]
        if output and self.end:
            users.append(len(self.workspace) - 1)
        if not users:
            return None
        complete = len(users) == len(storage.users) + (output and self.end)
        kept = output and complete and not problem.written_free[s] and not problem.semantics.outputs_end_fast
        written = bool(problem.writers[s])
        if len(users) == 1 and led is None and not (kept and (written or not problem.copied[s])):
            self.workspace[users[0]] += storage.size
            return None
        outside = any(i not in self.number for i in problem.writers[s])
        writers = sorted(self.number[i] for i in problem.writers[s] if i in self.number)
        flags = [
            problem.copied[s] or outside or (problem.written_free[s] and not written),
            problem.written_free[s] or outside,
            kept,
            not storage.at_end,
        ]
        traffic = problem.traffic_bytes[s]
        return storage.size, traffic, traffic, users if led is None else led, writers, flags


def _chain(problem: SpillProblem, part: Sequence[int], n: int, free: range) -> list[list[int]]:
    """One op after the other, but for those at the steps `free`: they come after all before them, as they must."""
    number = {i: k for k, i in enumerate(part)}
    free = range(free.start, min(free.stop, len(part)))  # the end itself does not change its place
    rows: list[list[int]] = []
    for k in range(n):
        if k in free:
            inner = [number[p] for p in problem.model.graph.predecessors[part[k]] if number[p] in free]
            rows.append(sorted(inner) or ([free.start - 1] if free.start else []))
        elif k == free.stop:
            rows.append(list(free))
        else:
            rows.append([k - 1] if k else [])
    return rows


def inner_predecessors(problem: SpillProblem, part: Sequence[int]) -> list[list[int]]:
    """For each op of a part, the ops of it that must run before it, through others too; direct ones suffice."""
    graph = problem.model.graph
    if len(part) == len(graph.ops) and list(part) == list(range(len(part))):
        return [sorted(before) for before in graph.predecessors]
    number = {i: k for k, i in enumerate(part)}
    low, high = min(part, default=0), max(part, default=-1)
    reach: dict[int, set[int]] = {}
    rows: dict[int, list[int]] = {}
    for i in range(low, high + 1):
        inside: set[int] = set()
        for p in graph.predecessors[i]:
            if p >= low:
                inside |= {number[p]} if p in number else reach[p]
        reach[i] = inside
        if i in number:
            rows[i] = sorted(inside)
    return [rows[i] for i in part]
