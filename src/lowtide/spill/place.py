"""Addresses: every stretch of residency is a buffer of its own, packed into the fast memory by the arena engines.

An output that is written over a dying input is one buffer with the last stretch of that input, as in
`lowtide.allocate.buffers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lowtide.allocate.arena import ENGINES, Engine, allocate_best
from lowtide.allocate.buffers import Buffer, Problem, Rectangle, block
from lowtide.analyse.storage import Overwrite
from lowtide.spill.answer import Interval
from lowtide.spill.problem import SpillProblem
from lowtide.stop import Limits


@dataclass(frozen=True)
class PlacedResidency:
    """Offsets for every interval and workspace. `height_bytes` is within the capacity if and only if they fit."""

    intervals: tuple[Interval, ...]
    workspace_offsets: dict[int, int]
    in_place: tuple[Overwrite, ...]
    height_bytes: int


def place(
    problem: SpillProblem,
    order: Sequence[int],
    intervals: Sequence[Interval],
    in_place: Iterable[Overwrite],
    limits: Limits,
    engines: Sequence[Engine] = ENGINES,
) -> PlacedResidency:
    """Pack the intervals of an order; first with only those overwrites without which the sum does not fit. `in_place`:
    what the order's timeline takes. `limits`: for engines that search; they stop at the capacity. `engines`: to be
    asked in turn."""
    overwrites = tuple(in_place)
    limits = replace(limits, enough_bytes=problem.capacity)
    needed = _needed(problem, order, intervals, overwrites)
    best = _pack(problem, order, intervals, needed, limits, engines)
    if best.height_bytes > problem.capacity and len(needed) < len(overwrites):
        other = _pack(problem, order, intervals, overwrites, limits, engines)
        if other.height_bytes < best.height_bytes:
            best = other
    return best


def _needed(
    problem: SpillProblem, order: Sequence[int], intervals: Iterable[Interval], overwrites: Sequence[Overwrite]
) -> tuple[Overwrite, ...]:
    """The overwrites without which the sum at their step would be above the capacity."""
    load = [problem.model.workspace[i] for i in order] + [0, 0]
    change = [0] * (len(load) + 1)
    for v in intervals:
        size = problem.model.storages[v.storage].size
        change[v.start] += size
        change[v.end] -= size
    step_of = {i: step for step, i in enumerate(order)}
    live = 0
    for step in range(len(load)):
        live += change[step]
        load[step] += live
    return tuple(o for o in overwrites if load[step_of[o.op]] > problem.capacity)


def _pack(
    problem: SpillProblem,
    order: Sequence[int],
    intervals: Sequence[Interval],
    in_place: Sequence[Overwrite],
    limits: Limits,
    engines: Sequence[Engine],
) -> PlacedResidency:
    model = problem.model
    step_of = {i: step for step, i in enumerate(order)}
    at_start = {(v.storage, v.start): k for k, v in enumerate(intervals)}
    at_end = {(v.storage, v.end): k for k, v in enumerate(intervals)}
    into: dict[int, tuple[int, int]] = {}  # interval to the one that is written over its end, and bytes above
    over: set[int] = set()
    for o in in_place:
        step = step_of[o.op]
        dying, begun = at_end[o.storage, step + 1], at_start[model.storage_of[o.output], step]
        into[dying] = (begun, model.displacement[o.input])
        over.add(begun)
    buffers: list[Buffer] = []
    place_of: dict[int, tuple[int, int]] = {}
    for k, visit in enumerate(intervals):
        if k in over:
            continue
        size = model.storages[visit.storage].size
        rectangles = [Rectangle(visit.start, visit.end, 0, size)]
        place_of[k] = (len(buffers), 0)
        at, low = k, 0
        while at in into:
            at, above = into[at]
            low += above
            place_of[at] = (len(buffers), low)
            if rectangles[-1].end < intervals[at].end:
                rectangles.append(
                    Rectangle(rectangles[-1].end, intervals[at].end, low, model.storages[intervals[at].storage].size)
                )
        buffers.append(Buffer(f"{visit.storage}@{visit.start}", size, tuple(rectangles), model.alignment))
    workspace_of: dict[int, int] = {}
    for i in order:
        if model.workspace[i]:
            workspace_of[i] = len(buffers)
            step = step_of[i]
            buffers.append(block(f"workspace {i}", step, step + 1, model.workspace[i], model.alignment))
    packing = allocate_best(Problem(tuple(buffers)), limits, engines)
    placed = tuple(
        replace(visit, offset=packing.offsets[place_of[k][0]] + place_of[k][1]) for k, visit in enumerate(intervals)
    )
    workspaces = {i: packing.offsets[b] for i, b in workspace_of.items()}
    return PlacedResidency(placed, workspaces, tuple(in_place), packing.height_bytes)
