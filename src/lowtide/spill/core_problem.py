"""A spilling problem as the native core takes it: whole, in one order only, or a part of its ops.

A storage that a single op touches is part of that op's demand. Graph outputs that have to be in the fast memory at the
end are touched by one more op, which comes last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide import _core
from lowtide.spill.problem import SpillProblem, timeline


@dataclass(frozen=True)
class CoreProblem:
    """What the core searches, and what its numbers mean.

    Attributes
    ----------
    ops
        Positions in own order; one more for the end, if the problem needs it, is not listed.
    storages
        Index in the problem of each of the core's storages.
    """

    core: _core.SpillModel
    ops: tuple[int, ...]
    storages: tuple[int, ...]


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

    Parameters
    ----------
    ops
        Positions of the ops that count, topological; all of them if not given. A part of the ops is a relaxation:
        storages live from the first to the last touch inside it, what is written outside of it has a copy.
    chain
        Whether they have to run in this order. Only then is the lead of `Semantics` looked at.
    free
        If given, steps of `ops`, which are all ops, in any order: the ops there may change places, all others run as
        they stand.
    costs
        What a move of a storage counts for; by default its bytes. Storages left out may leave for nothing.
    segments
        Positions of ops, and what running them costs at least.
    """
    model = problem.model
    part = tuple(range(problem.steps)) if ops is None else tuple(ops)
    whole = len(part) == problem.steps
    end = whole and problem.semantics.outputs_end_fast
    number = {i: k for k, i in enumerate(part)}
    n = len(part) + end
    workspace = [model.workspace[i] for i in part] + [0] * end
    storages, rows = [], []
    core_of: dict[int, int] = {}
    lead = timeline(problem, part).touches if chain and problem.semantics.lead else None
    for s, storage in enumerate(model.storages):
        users = sorted(number[i] for i in storage.users if i in number)
        if not storage.size:
            continue
        output = problem.is_output[s]
        if output and end:
            users.append(n - 1)
        if not users:
            continue
        complete = len(users) == len(storage.users) + (output and end)
        stays = output and complete and not problem.written_free[s] and not problem.semantics.outputs_end_fast
        if len(users) == 1 and lead is None and not (stays and _has_to_be_written(problem, s)):
            workspace[users[0]] += storage.size
            continue
        if lead is not None:
            users = list(lead[s])
        size = problem.traffic_bytes[s] if costs is None else costs.get(s, 0)
        outside = any(i not in number for i in problem.writers[s])
        writers = sorted(number[i] for i in problem.writers[s] if i in number)
        flags = [
            problem.copied[s] or outside or (problem.written_free[s] and not problem.writers[s]),
            problem.written_free[s] or outside,
            stays,
            not storage.at_end,
        ]
        core_of[s] = len(storages)
        storages.append(s)
        rows.append((storage.size, problem.traffic_bytes[s], size, users, writers, flags))
    if chain or free is not None:
        preds = _chain(problem, part, n, free or range(0))
    else:
        preds = [*inner_predecessors(problem, part), *([list(range(len(part)))] if end else [])]
    overwrites = [
        [(core_of.get(o.storage, -1), o.saving) for o in model.overwrites[i] if _may_die(problem, o.storage)]
        for i in part
    ] + [[]] * end
    core = _core.SpillModel(
        preds=preds,
        storages=rows,
        workspace=workspace,
        overwrites=overwrites,
        capacity=problem.capacity,
        write_once=problem.semantics.write_once,
        segments=[([number[i] for i in inner], bytes_) for inner, bytes_ in segments],
    )
    return CoreProblem(core, part, tuple(storages))


def _has_to_be_written(problem: SpillProblem, s: int) -> bool:
    return not (problem.copied[s] and not problem.writers[s])


def _may_die(problem: SpillProblem, s: int) -> bool:
    return not problem.model.storages[s].at_end


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
