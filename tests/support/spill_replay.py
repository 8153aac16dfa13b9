"""Replays an answer and counts its traffic: slow, obvious, and sharing no code with what makes answers.

Contents are followed as version numbers: how many writes a storage has seen. A read of an older version, of bytes that
are not there, or from under another storage is a `ValueError`.
"""

from __future__ import annotations

from lowtide.spill.answer import Interval, SpillAnswer
from lowtide.spill.problem import SpillProblem


def simulate(problem: SpillProblem, answer: SpillAnswer) -> int:
    """Bytes of non-compulsory traffic.

    Raises
    ------
    ValueError
        The answer is wrong: one line says where.
    """
    _check_order(problem, answer)
    _check_addresses(problem, answer)
    return _follow_contents(problem, answer)


def _refuse(condition: bool, message: str) -> None:
    if condition:
        raise ValueError(message)


def _check_order(problem: SpillProblem, answer: SpillAnswer) -> None:
    graph = problem.model.graph
    _refuse(sorted(answer.order) != list(range(len(graph.ops))), "the order does not hold every op once")
    done: set[int] = set()
    for i in answer.order:
        _refuse(not done.issuperset(graph.predecessors[i]), f"op {i} runs before one that it needs")
        done.add(i)


def _check_addresses(problem: SpillProblem, answer: SpillAnswer) -> None:
    """Nothing sticks out or overlaps, but for an output over the input that it overwrites."""
    model, order = problem.model, answer.order
    over = {(o.storage, model.storage_of[o.output]): o for o in answer.in_place}
    for step in range(len(order) + 1):
        for m, memory in enumerate(problem.memories):
            there = [
                (v.offset, v.offset + model.storages[v.storage].size, v.storage)
                for v in answer.intervals
                if v.memory == m and v.start <= step < v.end
            ]
            if m == 0 and step < len(order) and model.workspace[order[step]]:
                low = answer.workspace_offsets[order[step]]
                there.append((low, low + model.workspace[order[step]], -1))
            there.sort()
            for k, (low, high, s) in enumerate(there):
                _refuse(
                    low < 0 or high > memory.capacity_bytes, f"step {step}: storage {s} sticks out of {memory.name}"
                )
                _refuse(low % model.alignment != 0, f"step {step}: storage {s} is not aligned")
                for other_low, _, other in there[k + 1 :]:
                    if other_low >= high:
                        break
                    _refuse(s == other, f"step {step}: storage {s} is twice in {memory.name}")
                    a, b = ((s, other) if (s, other) in over else (other, s)) if m == 0 else (-2, -2)
                    o = over.get((a, b))
                    _refuse(o is None, f"step {step}: storages {s} and {other} overlap in {memory.name}")
                    assert o is not None
                    at = {s: low, other: other_low}
                    _refuse(
                        step >= len(order) or order[step] != o.op or o not in model.overwrites[o.op],
                        f"step {step}: storages {s} and {other} overlap, but no op overwrites one there",
                    )
                    _refuse(
                        at[b] != at[a] + model.displacement[o.input], f"step {step}: op {o.op} writes beside its input"
                    )
                    later = set(order[step + 1 :])
                    _refuse(
                        model.storages[a].at_end or not later.isdisjoint(model.storages[a].users),
                        f"step {step}: op {o.op} overwrites what is needed later",
                    )


def _follow_contents(problem: SpillProblem, answer: SpillAnswer) -> int:
    model, semantics, host = problem.model, problem.semantics, len(problem.memories)
    outside = [problem.copied[s] or st.at_start for s, st in enumerate(model.storages)]
    writes_left = [len(w) for w in problem.writers]
    version = [0] * len(model.storages)
    holds: dict[tuple[int, int], int] = {}  # (storage, memory) -> version
    free_copy = dict.fromkeys((s for s, c in enumerate(problem.copied) if c), 0)
    loaded: set[int] = set()
    written_to_host: dict[int, int] = {}
    for s in range(len(model.storages)):
        if problem.written_free[s] and not problem.writers[s]:
            free_copy[s] = 0
    total = 0
    steps = len(answer.order)
    visits: dict[int, list[Interval]] = {}
    for visit in answer.intervals:
        _refuse(not 0 <= visit.start < visit.end <= steps + 1, f"storage {visit.storage}: impossible interval")
        visits.setdefault(visit.start, []).append(visit)
    ends: dict[int, list[Interval]] = {}
    for visit in answer.intervals:
        ends.setdefault(visit.end, []).append(visit)
    _check_lead(problem, answer)
    for step in range(steps + 1):
        filled: set[tuple[int, int]] = set()
        for move in (m for m in answer.moves if m.step == step):
            s = move.storage
            _refuse(move.bytes != problem.traffic_bytes[s], f"step {step}: a move of storage {s} has the wrong bytes")
            if move.source == host:
                has = written_to_host.get(s, free_copy.get(s, -1))
                if s in free_copy and free_copy[s] == version[s]:
                    has = version[s]
            else:
                has = holds.get((s, move.source), -1)
            _refuse(has != version[s], f"step {step}: storage {s} is not in memory {move.source} to be moved")
            _refuse(
                (move.kind == "fill") != (move.goal < move.source), f"step {step}: a {move.kind} goes the wrong way"
            )
            if move.goal == host:
                written_to_host[s] = version[s]
            else:
                _refuse(
                    not any(v.storage == s and v.memory == move.goal for v in visits.get(step, ())),
                    f"step {step}: storage {s} has no room where it goes",
                )
                filled.add((s, move.goal))
            total += move.bytes
        for visit in ends.get(step, ()):
            again = any(v.storage == visit.storage and v.memory == visit.memory for v in visits.get(step, ()))
            moved = (visit.storage, visit.memory) in filled
            _refuse(again and not moved, f"step {step}: two intervals of storage {visit.storage} touch, without a fill")
            holds.pop((visit.storage, visit.memory), None)
            if not semantics.write_once and visit.memory == 0:
                _forget_unless_needed(answer, visit, step, written_to_host)
        for visit in visits.get(step, ()):
            s = visit.storage
            if (s, visit.memory) in filled:
                holds[s, visit.memory] = version[s]
            elif visit.memory == 0 and outside[s] and s not in loaded:
                holds[s, 0] = 0
                loaded.add(s)
            else:
                holds[s, visit.memory] = -1
        if step == steps:
            break
        op = answer.order[step]
        for s in model.touched[op]:
            if model.storages[s].size == 0:
                continue
            _refuse((s, 0) not in holds, f"step {step}: op {op} needs storage {s}, which is out")
            begins = version[s] == 0 and op in problem.writers[s] and not outside[s]
            _refuse(
                holds[s, 0] != version[s] and not begins, f"step {step}: op {op} reads storage {s} before it is filled"
            )
            if op in problem.writers[s]:
                version[s] += 1
                writes_left[s] -= 1
                holds[s, 0] = version[s]
                if problem.written_free[s] and writes_left[s] == 0:
                    free_copy[s] = version[s]
    for s, storage in enumerate(model.storages):
        if not problem.is_output[s] or storage.size == 0:
            continue
        _refuse(semantics.outputs_end_fast and holds.get((s, 0)) != version[s], f"output {s} is not there at the end")
        if not problem.written_free[s] and (problem.writers[s] or s in loaded):
            at_end = any(v.storage == s and v.memory == 0 and v.end >= steps for v in answer.intervals)
            safe = at_end or written_to_host.get(s) == version[s] or free_copy.get(s) == version[s]
            safe = safe or any(holds.get((s, m)) == version[s] for m in range(1, host))
            _refuse(not safe, f"output {s} was dropped before it was written")
    return total


def _check_lead(problem: SpillProblem, answer: SpillAnswer) -> None:
    """What comes in is not touched for so many steps, unless it comes at step 0."""
    lead = problem.semantics.lead
    for v in answer.intervals:
        s = v.storage
        made = not problem.from_outside(s) and answer.order[v.start : v.start + 1]
        if not lead or not v.start or v.memory or (made and made[0] in problem.writers[s] and _is_first(answer, v)):
            continue
        early = answer.order[v.start : v.start + lead]
        touched = any(i in problem.model.storages[s].users for i in early)
        at_end = problem.semantics.outputs_end_fast and problem.is_output[s] and len(early) < lead
        _refuse(touched or at_end, f"step {v.start}: storage {s} is used before it can be there")


def _is_first(answer: SpillAnswer, visit: Interval) -> bool:
    return not any(v.storage == visit.storage and v.memory == 0 and v.start < visit.start for v in answer.intervals)


def _forget_unless_needed(answer: SpillAnswer, visit: Interval, step: int, copies: dict[int, int]) -> None:
    """Without `write_once` a spill serves the next fill only: a copy older than this leaving is void."""
    if not any(m.step == step and m.kind == "spill" and m.storage == visit.storage for m in answer.moves):
        copies.pop(visit.storage, None)
