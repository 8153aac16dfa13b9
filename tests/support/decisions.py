"""Decisions about training steps, drawn at random: a region, where its parts end, a sequence in which ops run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from lowtide.analyse.storage import memory_model
from lowtide.api.answer import assemble
from lowtide.api.goals import OneArena
from lowtide.api.job import Job, Search
from lowtide.api.moves.fissioning import _Step
from lowtide.api.problem import Rules
from lowtide.cost.labelled import estimated
from lowtide.graph import Graph
from lowtide.ops.links import axis_classes, linked
from lowtide.ops.meaning import Meaning, meaning
from lowtide.optimize.part_clock import clock_of_parts
from lowtide.optimize.parted import Parted
from lowtide.optimize.recompute.least_bytes import Spent
from lowtide.optimize.recompute.sequence import sequenced
from lowtide.optimize.together import around, loops_of
from lowtide.plan import Plan
from lowtide.transform.fission import Fission, NoFission, Region, body_of, region_of

_TRIES = 30
MOVES = 24
"""Random changes of a sequence, most of them runs put in or taken away."""


def random_region(graph: Graph, random: Random) -> Region | None:
    """Ops along one class of dimensions, a stretch of the order or some of a stretch; None if none is drawn."""
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    classes = axis_classes(graph, windows=False, meanings=lambda _, op: meanings.get(op.id))
    kinds = sorted({op.type for op in graph.ops})
    for _ in range(_TRIES):
        kind = random.choice(kinds)
        at = random.choice([op for op in graph.ops if op.type == kind])
        groups = linked(at, meanings[at.id], windows=False) if at.id in meanings else []
        through = random.choice([group for group in groups if group] or [()])
        places = next((c for c in classes if not c.isdisjoint(through)), None)
        if places is None:
            continue
        axes = _axes_along(graph, places, meanings, random)
        ops = list(axes)
        if len(ops) < 2:
            continue
        middle, long = ops.index(at.id), random.choice((1, 3, len(ops)))
        begin = max(0, middle - random.randint(0, long))
        end = min(len(ops), middle + 1 + random.randint(0, long))
        dropped = random.choice((0.0, 0.0, 0.1, 0.5))
        inside = {v for v in ops[begin:end] if random.random() >= dropped}
        try:
            region = region_of(graph, {v: axes[v] for v in inside})
        except (NoFission, KeyError):
            continue
        if region.rows > 1 and len(region.axes) > 1:
            return region
    return None


def _axes_along(
    graph: Graph, places: frozenset[tuple[int, int]], meanings: Mapping[int, Meaning], random: Random
) -> dict[int, int]:
    """An axis of each op that runs along a class."""
    axes: dict[int, int] = {}
    for op in graph.ops:
        groups = linked(op, meanings[op.id], windows=False) if op.id in meanings else []
        along = [axis for axis, group in enumerate(groups) if not places.isdisjoint(group)]
        if along:
            axes[op.id] = random.choice(along)
    return axes


def random_ends(rows: int, random: Random) -> tuple[int, ...]:
    """At least two parts, of any number of rows each."""
    inner = random.sample(range(1, rows), random.randint(1, rows - 1))
    return (*sorted(inner), rows)


def random_order(parted: Parted, random: Random) -> tuple[int, ...]:
    """A sequence of a body, ops again and moved."""
    core = parted.sequence.core(parted.sequence.model.alignment)
    seen = core.shuffle(parted.sequence.without_views(parted.order), MOVES, random.randrange(2**31))
    return tuple(seen[random.randrange(len(seen))][0])


def drawn_plan(graph: Graph, seed: int) -> Plan:
    """A plan of a decision that no search took: its region, ends and sequence are drawn; of odd seeds tensors are
    stored and loaded, too, and of two out of three sibling products are one."""
    random, step = Random(seed), _step(graph, seed)
    region = random_region(step.problem.graph, random) if random.random() < 0.95 else None
    choice = step._whole() if region is None else _choice(step, region, random)
    placed = step.plans.place(choice, Spent(random_order(choice, random), 0, 0))
    return assemble(step._answer(placed), step.job.rules, seed)


def plan_in_parts(graph: Graph, region: Region | None, ends: tuple[int, ...]) -> Plan:
    """A plan of a region in parts that end there, whether it may run in parts or not; of no region, the step whole."""
    step = _step(graph, 0)
    if region is None:
        return assemble(step._answer(step.plans.place(step._whole(), None)), step.job.rules, 0)
    return assemble(step._answer(step.plans.place(_in_parts(step, region, ends), None)), step.job.rules, 0)


def drawn_several(graph: Graph, seed: int) -> Plan | None:
    """The same with several regions, what stands around them in a drawn sequence; None if none is drawn that do not
    wait for each other."""
    random, step = Random(seed), _step(graph, seed)
    within: list[Parted] = []
    inside: set[int] = set()
    for _ in range(3):
        region = random_region(step.problem.graph, random)
        if region is not None and inside.isdisjoint(v for v, _ in region.axes):
            within.append(_choice(step, region, random))
            inside.update(v for v, _ in region.axes)
    try:
        priced, target = step.problem.graph, step.problem.target
        own = lambda outer: range(len(outer.ops))  # noqa: E731
        choice = around(priced, target, within, loops_of(within), own, step.bandwidth)
    except NoFission:
        return None
    if len(within) < 2:
        return None
    placed = step.plans.place(choice, Spent(random_order(choice, random), 0, 0))
    return assemble(step._answer(placed), step.job.rules, seed)


def _step(graph: Graph, seed: int) -> _Step:
    """Of odd seeds tensors leave memory; of two out of three sibling products are one."""
    words = ("recompute", "tile", *(("offload",) if seed % 2 else ()), *(("merge",) if seed % 3 else ()))
    goal = OneArena()
    search = replace(Search(goal.method("exact", {}), 1.0), quick=True)
    job = Job(graph, {}, Rules("generic"), goal, search, words)
    return _Step(job, goal, job.problem(), search.limits(None, None))


def _choice(step: _Step, region: Region, random: Random) -> Parted:
    """A region in parts that end anywhere."""
    return _in_parts(step, region, random_ends(region.rows, random))


def _in_parts(step: _Step, region: Region, ends: tuple[int, ...]) -> Parted:
    """A region in these parts, ops of the body as they stand."""
    fission = Fission(region.axes, ends)
    body = body_of(step.problem.graph, region, fission.all, estimated(step.families))
    model, order, clock = memory_model(body.graph, step.problem.target), tuple(range(len(body.graph.ops))), None
    if step.bandwidth is not None:
        clock = clock_of_parts(
            step.problem.graph, region, fission, estimated(step.families), model, order, step.bandwidth
        )
    sequence = sequenced(model, order) if clock is None else clock.searched
    return Parted(region, fission, body, sequence, order, 0, 0, 0.0, clock)
