"""Looking without writing: say why a model's peak is what it is, show targets.

Sizes of memory in which a model fits, and how: what `inspect` says in addition to the peak, in a second or two.

From the file order down: the best order, cuts along it, and below those cuts with a slow memory behind a small fast
one. Rungs are what a quick look found: peaks of cuts before their tiles are reordered, traffic along one order and
without addresses. `plan` searches each of them in full.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lowtide.analyse.inspect import Rung
from lowtide.api.answer import op_ids
from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import NO_OPTIONS, CallOptions, Job, Options, Search, rules_of, search_of
from lowtide.api.moves.cut_search import arena_bytes, runtime_bytes
from lowtide.api.moves.cut_spilling import CutSpilling
from lowtide.api.objects import Model
from lowtide.api.problem import Problem, Rules
from lowtide.arguments import typed
from lowtide.errors import InputError, sound
from lowtide.names import did_you_mean
from lowtide.ops.part import adapter
from lowtide.plan import RuntimeFigure, Stopped
from lowtide.sizes import NO_DIMS, parse_gap, round_up
from lowtide.spill.problem import Memory
from lowtide.spill.words import Moves
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN, DESCRIPTIONS, Target, resolve

if TYPE_CHECKING:
    from typing import Unpack

    from lowtide.allocate.order_and_arena import Layout
    from lowtide.analyse.inspect import Inspection
    from lowtide.optimize.regions import Way
    from lowtide.runtimes.base import Planned
    from lowtide.schedule.method import Schedule
    from lowtide.transform.cut import Cutter


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
    rungs, complete = find_ladder(problem, *peaks, best.order, look, arena_bytes) if ladder else ([], False)
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


STEP = 0.75  # a rung is listed if it is no more than this part of the one before it

MOST_CUTS = 4  # rungs with cuts alone

_TIERS = (0.6, 0.35, 0.2)  # parts of the smallest memory without slow memory that are looked at with one

_LOWEST = (0.14, 0.1, 0.07, 0.05, 0.035, 0.025)
"""Further ones, until one is not to be had; of these the smallest is listed, below which there is little more."""

_CUTS = 0.5  # share of the time after which the search for cuts is over

_SPARE = 50  # a fast memory is tried with one part in so many above what the largest op of its cuts needs


def find_ladder(
    problem: Problem, own_peak: int, best_peak: int, order: Sequence[int], limits: Limits, best_arena: int | None = None
) -> tuple[list[Rung], bool]:
    """Rungs from the largest memory to the smallest, the model's own order first; and whether nothing was left out
    for want of time. `own_peak`, `best_peak`: bytes of the file order, and of the best one known. `order`: that one,
    in positions. `limits`: when to stop looking. `best_arena`: bytes that the runtime takes in all for the best
    order, if that is known: more than what the arena holds where it needs more while it plans."""
    from lowtide.transform.cut import Cutter

    whole = len(problem.graph.ops)
    kept = runtime_bytes(problem, problem.graph)
    arenas = [max(peak + kept, best_arena or 0) if kept else None for peak in (own_peak, best_peak)]
    rungs = [Rung(own_peak, "file order", whole, arenas[0])]
    if best_peak < own_peak:
        rungs.append(Rung(best_peak, "best order", whole, arenas[1]))
    if adapter(problem.graph) is None or not problem.graph.ops:
        return rungs, True
    cuts, complete = _cuts(problem, Cutter(problem.graph), order, limits)
    rungs += _thinned(_lower(cuts, _rung_bytes(rungs[-1])), _rung_bytes(rungs[-1]), MOST_CUTS)
    tiers, all_of_them = _tiers(problem, order, rungs[-1].bytes, limits)
    return [*rungs, *tiers], complete and all_of_them


def _rung_bytes(rung: Rung) -> int:
    """What a budget is for: all that the runtime takes, where that is more than what is live."""
    return rung.bytes if rung.arena_bytes is None else rung.arena_bytes


def _lower(rungs: Sequence[Rung], below: int) -> list[Rung]:
    """Those that need less than each one before: what a runtime keeps for more ops may be more than cuts save."""
    listed: list[Rung] = []
    for rung in rungs:
        if _rung_bytes(rung) < below:
            listed.append(rung)
            below = _rung_bytes(rung)
    return listed


def _thinned(rungs: Sequence[Rung], below: int, most: int) -> list[Rung]:
    """Those that are well below the one before, the last of all always among them, and not too many."""
    listed: list[Rung] = []
    for rung in rungs[:-1]:
        size = _rung_bytes(rung)
        if len(listed) + 1 < most and size <= below * STEP and size * STEP >= _rung_bytes(rungs[-1]):
            listed.append(rung)
            below = size
    return [*listed, *rungs[-1:]]


def _cuts(problem: Problem, cutter: Cutter, order: Sequence[int], limits: Limits) -> tuple[list[Rung], bool]:
    """The front of peaks along the order, and whether all of it was found."""
    from lowtide.optimize.regions import front_ways

    ways = front_ways(cutter, problem.memory, order, limits.until(_CUTS))
    cut = [way for way in ways if way.regions]
    return [Rung(way.peak, "cuts", way.ops, arena_bytes(problem, cutter, way)) for way in cut], ways[-1].complete


def _tiers(problem: Problem, order: Sequence[int], below: int, limits: Limits) -> tuple[list[Rung], bool]:
    """Fast memories below all cuts, each with what it moves at about the least, and whether none was left out."""
    from lowtide.optimize.regions import working_ways

    target = problem.target if _spills(problem) else BUILT_IN["generic"]
    under = problem if target is problem.target else Problem.of(target.as_seen(problem.graph), target)
    if len(under.graph.ops) != len(problem.graph.ops) or limits.over():
        return [], not limits.over()
    tiers: list[Rung] = []
    lowest: list[Rung] = []
    cutter = _searched(under, below, limits).cutter
    for part in (*_TIERS, *_LOWEST):
        ways = working_ways(cutter, under.memory, order, limits, [int(below * part)])
        found = []
        for way in (way for way in ways if way.regions):
            fast = round_up(way.peak + way.peak // _SPARE, target.alignment)
            rung = None if limits.over() else _tier(under, way, fast, order, limits)
            found += [] if rung is None else [rung]
        if limits.over():
            return _worth_it(tiers + lowest), False
        if part in _TIERS:
            tiers += found
        elif found:
            lowest = found
        else:
            break
    return _worth_it(tiers + lowest), True


def _worth_it(rungs: Sequence[Rung]) -> list[Rung]:
    """Without those that move more than a smaller memory does."""
    return [
        r for k, r in enumerate(rungs) if all((r.traffic_bytes or 0) < (s.traffic_bytes or 0) for s in rungs[k + 1 :])
    ]


def _spills(problem: Problem) -> bool:
    target = problem.target
    return target.overlap == "never" and not target.rule and target.count_inputs


def _searched(problem: Problem, fast: int, limits: Limits) -> CutSpilling:
    """The search for cuts of a fast memory."""
    goal = FastMemory((Memory("fast", fast),), Moves())
    search = Search(goal.method("exact", NO_OPTIONS), limits.seconds)
    job = Job(problem.graph, {}, Rules(problem.target), goal, search, ("tile",))
    return CutSpilling(job, problem, limits)


def _tier(problem: Problem, way: Way, fast: int, order: Sequence[int], limits: Limits) -> Rung | None:
    """What a way to cut moves with so much fast memory; None if it does not fit."""
    search = _searched(problem, fast, limits)
    try:
        candidate = search.candidate(search.parts(way, order))
    except InputError:
        return None
    if candidate is None:
        return None
    return Rung(fast, "cuts and slow memory", candidate.rank[1], None, candidate.traffic_bytes, problem.target.name)
