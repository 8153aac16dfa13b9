"""Every method on one model, each with its own time; what goes wrong in one is its row."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import NO_OPTIONS, CallOptions, Job, Options, rules_of, search_of
from lowtide.api.objects import Model
from lowtide.api.planning import plan_job
from lowtide.api.problem import Problem
from lowtide.arguments import typed
from lowtide.errors import InputError, NoOrderFoundError, VerificationError, raised_at
from lowtide.extensions import METHODS, NETWORKS, SPILL_METHODS, check_installed, extension
from lowtide.names import did_you_mean
from lowtide.plan import Plan
from lowtide.report.comparison import INTERRUPTED, MethodResult, Printed
from lowtide.report.conflict import too_small_text
from lowtide.sizes import NO_DIMS
from lowtide.stop import Progress

if TYPE_CHECKING:
    from typing import Unpack

    from lowtide.schedule.method import Method
    from lowtide.spill.words import Memories


_LOWTIDE = str(Path(__file__).parents[1])


def slow_methods(*, spilling: bool) -> tuple[str, ...]:
    """The papers' own searches, which may take minutes on networks that `exact` and `spill` prove in a second."""
    from lowtide.schedule.registry import methods
    from lowtide.spill.registry import spill_methods

    known = spill_methods() if spilling else methods()
    return tuple(name for name, method in known.items() if getattr(method, "slow", False))


@typed
def compare(
    model: Model,
    methods: Sequence[str | Method] = (),
    *,
    every: bool = False,
    memories: Memories = (),
    moves: Options = NO_OPTIONS,
    options: Mapping[str, Options] | None = None,
    report: Callable[[str, Progress], None] | None = None,
    **given: Unpack[CallOptions],
) -> list[MethodResult]:
    """Run methods on one model under one target, each with its own time.

    Parameters
    ----------
    methods
        Names, and methods of your own as objects (`lowtide.schedule.method.Method`); if empty those that are quick,
        which leaves out `slow_methods`.
    every
        Whether no names stand for all methods there are.
    memories, moves
        As for `plan`. With memories the methods are those that spill.
    options
        Per method, values for its fields.
    report
        Called as by `plan`, with the method's name before.
    time, search_memory, seed, dims, target, overwrite_inputs, pin_inputs
        As for `plan`.

    Raises
    ------
    InputError
        The model or an argument is wrong, or there is no such method. What goes wrong in a method is in its row.

    Notes
    -----
    Ctrl-C ends the comparison: the rows of the methods that were done are returned, and last that of the method it
    came in, whose `interrupted` is true.
    """
    goal = FastMemory.of(OneArena(), memories, moves) if memories or moves else OneArena()
    wanted = options or {}
    if every and methods:
        raise InputError("--all compares every method; leave out --methods")
    handed = {method.name: method for method in methods if not isinstance(method, str)}
    for method in handed.values():
        goal.method(method, NO_OPTIONS)
    names = _names(goal, methods, wanted, every=every)
    search = search_of(given, goal.method("exact", NO_OPTIONS))
    job = Job(model, given.get("dims", NO_DIMS), rules_of(given), goal, search)
    problem = job.problem()
    job = job.of_graph(problem.graph)
    rows: list[MethodResult] = []
    for name in names:
        own = wanted.get(name, NO_OPTIONS)
        printed = () if memories else _published(model, problem.target.name, name, own)
        row = _run_method(job, problem, (handed.get(name, name), own), None if report is None else _named(report, name))
        rows.append(replace(row, published=printed))
        if row.interrupted:
            break
    return _with_best_bound(rows)


def _names(
    goal: OneArena | FastMemory, methods: Sequence[str | Method], options: Mapping[str, Options], *, every: bool
) -> list[str]:
    """The methods to run. Raises `InputError` if one is not there, or an option is for none of them, or wrong."""
    known = goal.methods()
    slow = slow_methods(spilling=isinstance(goal, FastMemory))
    handed = {method.name: method for method in methods if not isinstance(method, str)}
    named = [method if isinstance(method, str) else method.name for method in methods]
    names = list(dict.fromkeys(named)) or [name for name in known if every or name not in slow]
    for name in (*names, *options):
        if name not in known and name not in handed:
            check_installed(SPILL_METHODS if isinstance(goal, FastMemory) else METHODS, name, known)
            hint = did_you_mean(name, known)
            raise InputError(f"there is no method {name!r}; use one of {', '.join(known)}{hint}")
    for name in options:
        if name not in names:
            raise InputError(f"options are given for method {name}, which is not compared; name it among the methods")
        goal.method(handed.get(name, name), options[name])
    return names


def _named(report: Callable[[str, Progress], None], name: str) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        report(name, progress)

    return tell


def _published(model: Model, target: str, name: str, options: Options) -> tuple[Printed, ...]:
    """What a paper prints of this method, if it ran it as it runs here, on this network under these rules."""
    from lowtide.schedule import registry

    zoo = extension(NETWORKS, "zoo")
    if zoo is None or not isinstance(model, str) or not model.startswith("zoo:") or name not in registry.methods():
        return ()
    figures = zoo.printed_figures(model.removeprefix("zoo:"), target, registry.make(name, options))
    return tuple(Printed(f.figure, f"{f.text} {f.unit}".rstrip(), f"{f.paper}, {f.table}") for f in figures)


def _run_method(
    job: Job, problem: Problem, named: tuple[str | Method, Options], report: Callable[[Progress], None] | None
) -> MethodResult:
    """Run a method of that name with its options; whatever it raises is a row."""
    began = clock.perf_counter()
    asked, options = named
    name = asked if isinstance(asked, str) else asked.name

    def ended(status: Literal["timeout", "unsupported", "error"], reason: str) -> MethodResult:
        return MethodResult(name, status, reason, seconds=clock.perf_counter() - began)

    try:
        job = replace(job, search=replace(job.search, method=job.goal.method(asked, options)))
        reason = job.goal.why_not(problem, job.search.method)
        if reason is not None:
            return ended("unsupported", reason)
        plan = plan_job(job, report=report)
    except KeyboardInterrupt:
        return ended("timeout", INTERRUPTED)
    except NoOrderFoundError as error:
        return ended("unsupported", str(error))
    except VerificationError as error:
        return ended("error", f"its plan does not hold: {error}")
    except Exception as error:  # a method may be of another package: what it raises is its row
        cause = error.__cause__ or error
        at = raised_at(cause, _LOWTIDE) if error.__cause__ is not None else ""
        where = f" ({Path(at).name})" if at else ""
        return ended("error", " ".join(f"{type(cause).__name__}: {cause}{where}".split()))
    if isinstance(job.goal, FastMemory) and plan.moves is None:
        return ended("unsupported", too_small_text(plan, job.goal.fast.name, job.goal.fast.capacity_bytes))
    return _row(name, plan, clock.perf_counter() - began)


def _row(name: str, plan: Plan, seconds: float) -> MethodResult:
    from lowtide.schedule import registry

    late = plan.stopped in ("time", "memory", "interrupt", "stalled")
    counters = plan.search or {}
    return MethodResult(
        method=name,
        status="timeout" if late else "ok",
        reason=(INTERRUPTED if plan.stopped == "interrupt" else f"stopped by {plan.stopped}") if late else None,
        peak_bytes=plan.peak_bytes,
        arena_bytes=plan.arena_bytes,
        lower_bound_bytes=plan.lower_bound_bytes,
        traffic_bytes=plan.traffic_bytes,
        traffic_lower_bound_bytes=plan.traffic_lower_bound_bytes,
        ops_to_order=registry.left_to_order(name, counters),
        states=plan.figures.states,
        variables=plan.figures.variables,
        runtime_figures=plan.runtime_figures,
        counters=counters,
        seconds=seconds,
    )


def _with_best_bound(rows: Iterable[MethodResult]) -> list[MethodResult]:
    results = list(rows)
    bounds = [r.traffic_lower_bound_bytes for r in results if r.traffic_lower_bound_bytes is not None]
    if bounds:
        return [replace(r, optimal=r.traffic_bytes == max(bounds)) for r in results]
    best = max((r.lower_bound_bytes for r in results if r.lower_bound_bytes is not None), default=None)
    return [replace(r, optimal=r.peak_bytes is not None and r.peak_bytes == best) for r in results]
