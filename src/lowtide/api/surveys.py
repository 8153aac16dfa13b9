"""Looking without writing: say why a model's peak is what it is, show targets."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.api.answer import op_ids
from lowtide.api.goals import OneArena
from lowtide.api.job import NO_OPTIONS, CallOptions, Job, Options, rules_of, search_of
from lowtide.api.objects import Model
from lowtide.api.problem import Problem
from lowtide.arguments import typed
from lowtide.errors import InputError, sound
from lowtide.names import did_you_mean
from lowtide.plan import RuntimeFigure, Stopped
from lowtide.sizes import NO_DIMS, parse_gap
from lowtide.stop import Limits, Progress
from lowtide.target import DESCRIPTIONS, Target, resolve

if TYPE_CHECKING:
    from typing import Unpack

    from lowtide.allocate.order_and_arena import Layout
    from lowtide.analyse.inspect import Inspection
    from lowtide.runtimes.base import Planned
    from lowtide.schedule.method import Schedule


@typed
def inspect(
    model: Model,
    *,
    method: str = "exact",
    options: Options = NO_OPTIONS,
    gap: str | float = 0.0,
    ladder: float = 2.0,
    report: Callable[[Progress], None] | None = None,
    **given: Unpack[CallOptions],
) -> Inspection:
    """Say why the peak of a model's own order is what it is, and how low it could be.

    Parameters are those of `plan`. The arena is that of the best order. `ladder`: seconds for a look at smaller sizes
    of memory in which the model fits by cuts, and by cuts and a slow memory; 0: none.

    Raises
    ------
    InputError
        The model or an argument is wrong.
    """
    from lowtide.allocate.fragmentation import lost
    from lowtide.allocate.order_and_arena import best_layout
    from lowtide.analyse.inspect import Inspection, detail, fission, own_profile, runners_up
    from lowtide.api.ladder import ladder as find_rungs
    from lowtide.report.text import bodies_text

    began = clock.perf_counter()
    if not 0 <= ladder < 1e9:
        raise InputError(f"ladder is {ladder!r}; give a number of seconds, 0 for no ladder")
    goal = OneArena()
    search = search_of(given, goal.method(method, options), 10.0, gap=parse_gap(gap))
    job = Job(model, given.get("dims", NO_DIMS), rules_of(given), goal, search)
    problem = job.problem()
    limits = search.limits(None, report)
    memory, graph, own = problem.memory, problem.graph, range(len(problem.graph.ops))
    steps = own_profile(memory)
    best = _Best.of(problem, goal.find_order(problem, search, limits), steps.peak)
    layout = best_layout(memory, best.order, limits)
    arena = layout.allocation
    where = lost(memory, layout.order, layout.profile, arena)
    figures, planned = _figures(problem, layout, best.peak_bytes, limits)
    names = {op.id: f"{op.name} ({op.type})" for op in graph.ops}
    looked, look = clock.perf_counter(), Limits(ladder, limits.memory_bytes, search.seed)
    peaks, arena_bytes = (steps.peak, best.peak_bytes), figures[0].planned_bytes if figures else None
    rungs, complete = find_rungs(problem, *peaks, best.order, look, arena_bytes) if ladder else ([], False)
    return Inspection(
        graph=graph.name,
        target=problem.target.name,
        ops=len(graph.ops),
        own_order_peak_bytes=steps.peak,
        peak_bytes=best.peak_bytes,
        lower_bound_bytes=best.lower_bound_bytes,
        optimal=best.peak_bytes == best.lower_bound_bytes,
        arena_bytes=planned.arena_bytes,
        arena_lower_bound_bytes=arena.lower_bound_bytes,
        arena_lost=where if planned.arena_bytes == arena.arena_bytes else None,
        stopped=best.stopped,
        steps_at_peak=steps.footprint.count(steps.peak),
        peak=detail(memory, own, steps, steps.peak_step) if graph.ops else None,
        runners_up=runners_up(memory, own, steps),
        footprint_bytes=steps.footprint,
        fission=fission(memory, steps),
        runtime_figures=figures,
        ladder=rungs,
        ladder_seconds=clock.perf_counter() - looked,
        ladder_complete=complete,
        seconds=clock.perf_counter() - began,
        bodies="" if planned.parts is None else bodies_text(planned.parts, names),
    )


def _figures(
    problem: Problem, layout: Layout, peak_bytes: int, limits: Limits
) -> tuple[list[RuntimeFigure] | None, Planned]:
    """What the runtime takes by its defaults, and for a layout."""
    from lowtide.runtimes.base import Planned
    from lowtide.runtimes.figures import runtime_figures
    from lowtide.runtimes.registry import runtime_of

    runtime, ids = runtime_of(problem.target), op_ids(problem.graph, layout.order)
    arena = layout.allocation
    required = runtime.required(problem.graph, ids, arena.offsets)
    if required is None:
        block = runtime.own_arena(problem.memory, layout.order, limits, others=False).bytes
        planned = Planned(ids, peak_bytes, arena.arena_bytes, block)
    else:
        head = max(required.planned_bytes, arena.arena_bytes)
        planned = Planned(ids, peak_bytes, head, required.required_bytes, required.parts)
    return runtime_figures(problem.memory, planned), planned


@dataclass(frozen=True)
class _Best:
    """The best order known: that of a method, or the own one if that is better."""

    order: tuple[int, ...]
    peak_bytes: int
    lower_bound_bytes: int
    stopped: Stopped

    @classmethod
    def of(cls, problem: Problem, schedule: Schedule, own_peak_bytes: int) -> _Best:
        from lowtide.analyse.liveness import largest_single_op, profile

        order, peak = schedule.order, profile(problem.memory, schedule.order).peak
        if peak > own_peak_bytes:
            order, peak = tuple(range(len(problem.graph.ops))), own_peak_bytes
        bound = sound(max(largest_single_op(problem.memory), schedule.lower_bound), peak)
        return cls(order, peak, bound, schedule.stopped)


def targets() -> dict[str, str]:
    """Names of the built-in targets, each with one line on what it is."""
    return dict(DESCRIPTIONS)


@typed
def schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a file: ``"graph"``, which compilers write, ``"plan"``, which they read, ``"cost"``, or
    ``"budgets"``, the `lowtide.toml` of a project.

    Raises
    ------
    InputError
        Another kind.
    """
    from lowtide.api.budgets import schema as budgets_schema
    from lowtide.cost.file import schema as cost_schema
    from lowtide.plan import schema as plan_schema
    from lowtide.read.graph_json import schema as graph_schema

    schemas = {"graph": graph_schema, "plan": plan_schema, "cost": cost_schema, "budgets": budgets_schema}
    if kind not in schemas:
        hint = did_you_mean(kind, schemas)
        raise InputError(f"there is no schema of {kind!r}; use graph, plan, cost or budgets{hint}")
    return schemas[kind]()


@typed
def target(name: str = "auto", source: str = "") -> Target:
    """Find a target by name, or read it from a TOML file; ``"auto"`` goes by the model file `source`.

    Raises
    ------
    InputError
        No such target, or the file is wrong.

    >>> target("generic").alignment
    64
    """
    return resolve(name, source=source)
