"""Re-proves that no placement is below the arena's bound: a plain search of every way to pile the buffers up.

If any placement fits in H, then so does one in which no buffer can be lowered. There, each buffer is at offset 0 or
exactly on a buffer below it that is live at the same time (on the end of that buffer, rounded up to the alignment). By
rising offset, each buffer is on the highest of the buffers placed before it that are live at some step of its life. So
the search places one of the remaining buffers at that offset, one after the other, if that offset is not below the last
one and the buffer ends within H. A state is the remaining buffers, the height at each step and the last offset; the
search visits each state once::

    bytes ^          +---+
          |   +---+  | c |      a, b, c in this order: c meets b only, and is on it
          |   | b |--+---+
          |   +-+-+--+
          +---| a |--------> steps

A placement below the bound disproves it, so the first one found ends the search. Where an output may share some bytes
of an input, or an output in place has another size than its input, the buffers are no rectangles: nothing is proved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.sizes import format_count, format_size, round_up
from lowtide.target import Target
from lowtide.verify.check.layout import aligned_load
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.order import Simulation, claimed_pairs, simulate
from lowtide.verify.check.rewrites import rewritten
from lowtide.verify.report import Proof


@dataclass(frozen=True)
class _Rectangle:
    """`size` bytes, rounded up, in steps ``[start, end)``."""

    start: int
    end: int
    size: int


def prove_arena(
    graph: Graph, plan: Plan, target: Target, *, seconds: float = 60.0, max_states: int = 300_000
) -> Proof | None:
    """Re-prove the bound of a plan's arena, by search where it is above the load; None if there is nothing to prove.
    `seconds`: wall time for the search. `max_states`: piles to look at before giving up. Raises `VerificationError`:
    ``arena``: there is a placement below the bound."""
    bound = plan.arena_lower_bound_bytes
    if plan.moves is not None or plan.memories is not None or not bound:
        return None
    began = time.perf_counter()
    graph = rewritten(graph, plan, target)
    memory = work_out(graph, target)
    steps = simulate(graph, memory, plan.order, claimed_pairs(graph, plan, memory))
    load = aligned_load(graph, memory, steps, plan.order, target.alignment)
    if bound <= load:
        return Proof("checked", "so many bytes are live at once", 0, time.perf_counter() - began)
    rectangles = None if target.fixed else _rectangles(graph, plan, memory, steps)
    if rectangles is None:
        why = "its buffers are no plain rectangles, and those alone are searched again"
        return Proof("not re-proved", why, 0, time.perf_counter() - began)
    search = _Piles(rectangles, round_up(bound, target.alignment) - target.alignment, began + seconds, max_states)
    lower = search.lower()
    spent = time.perf_counter() - began
    if lower is not None:
        raise VerificationError(
            "arena", f"the bound of the arena is {format_size(bound)}, and there is a placement in {format_size(lower)}"
        )
    how = f"a second search of {format_count(search.states, 'pile')}"
    if not search.complete:
        return Proof("not re-proved", f"{how} did not end", search.states, spent)
    return Proof("re-proved", f"{how} finds no placement below {format_size(bound)}", search.states, spent)


def _rectangles(graph: Graph, plan: Plan, memory: CheckedMemory, steps: Simulation) -> list[_Rectangle] | None:
    """What is to be placed in the plan's order, an output in place one with its input; None if one is no rectangle."""
    unit, n = plan.alignment, len(plan.order)
    if any(steps.over.values()) or any(b.part for b in memory.storages):
        return None
    step_of = {v: k for k, v in enumerate(plan.order)}
    begin = [max(first, 0) for first in steps.first]
    end = [min(last, n - 1) + 1 for last in steps.last]
    for v in sorted(steps.in_place, key=lambda v: -step_of[v]):  # the last first: chains become one from their end
        read, output = steps.in_place[v], graph.op_by_id[v].outputs[0]
        below, above = memory.storage_of[read], memory.storage_of[output]
        if memory.place[read][1] or memory.place[output][1]:
            return None
        if round_up(memory.storages[below].size, unit) != round_up(memory.storages[above].size, unit):
            return None
        end[below], end[above] = end[above], begin[above]
    rectangles = [
        _Rectangle(begin[i], end[i], round_up(storage.size, unit))
        for i, storage in enumerate(memory.storages)
        if storage.size and begin[i] < end[i]
    ]
    scratch = [(step_of[v], round_up(size, unit)) for v, size in memory.workspace.items() if size]
    return [*rectangles, *(_Rectangle(step, step + 1, size) for step, size in scratch)]


class _Piles:
    """Every way to pile rectangles up to a height."""

    def __init__(self, rectangles: list[_Rectangle], height: int, until: float, max_states: int) -> None:
        edges = sorted({edge for r in rectangles for edge in (r.start, r.end)})
        at = {edge: k for k, edge in enumerate(edges)}
        self.spans = [(at[r.start], at[r.end], r.size) for r in rectangles]
        self.sections = max(len(edges) - 1, 0)
        self.height, self.until, self.max_states = height, until, max_states
        self.states, self.complete = 0, True

    def lower(self) -> int | None:
        """A height that some pile keeps within, if there is one; `complete` if all were looked at."""
        left = [0] * self.sections
        for start, end, size in self.spans:
            for k in range(start, end):
                left[k] += size
        seen: dict[tuple[int, tuple[int, ...]], int] = {}  # to the lowest place that was left to go on from
        todo = [((1 << len(self.spans)) - 1, (0,) * self.sections, tuple(left), 0)]
        while todo:
            if self.states >= self.max_states or time.perf_counter() > self.until:
                self.complete = False
                return None
            waiting, tops, left_now, lowest = todo.pop()
            if not waiting:
                return max(tops, default=0)
            self.states += 1
            for i in range(len(self.spans)):
                start, end, size = self.spans[i]
                if not waiting >> i & 1:
                    continue
                at = max(tops[start:end])
                if at < lowest or at + size > self.height:
                    continue
                new_tops = (*tops[:start], *(at + size,) * (end - start), *tops[end:])
                new_left = (*left_now[:start], *(n - size for n in left_now[start:end]), *left_now[end:])
                if any(n and max(top, at) + n > self.height for top, n in zip(new_tops, new_left, strict=True)):
                    continue  # what is left at that step comes higher than this one
                key = (waiting ^ 1 << i, new_tops)
                if at < seen.get(key, at + 1):
                    seen[key] = at
                    todo.append((*key, new_left, at))
        return None
