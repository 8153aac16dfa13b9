"""Looking without writing: inspect a model, compare methods, place plain buffers, show targets."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import NO_DIMS, load
from lowtide.api.planning import NO_OPTIONS, Options, Size, check_time, plan
from lowtide.api.spilling import Memories, find_memories, spilling_problem, too_small
from lowtide.errors import InputError, NoOrderFoundError, VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.report.comparison import INTERRUPTED, MethodResult, Printed
from lowtide.sizes import parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import BUILT_IN, Target, resolve

if TYPE_CHECKING:
    from lowtide.analyse.inspect import Inspection


def inspect(
    model: Graph | str | Path,
    *,
    target: str | Target = "auto",
    method: str = "exact",
    options: Options = NO_OPTIONS,
    time: float = 10.0,
    search_memory: Size = "2GiB",
    seed: int = 0,
    dims: Mapping[str, int] = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    report: Callable[[Progress], None] | None = None,
) -> Inspection:
    """Say why the peak of a model's own order is what it is, and how low it could be.

    Parameters are those of `plan`. The arena is that of the best order.

    Raises
    ------
    InputError
        The model or an argument is wrong.
    """
    from lowtide.allocate.fragmentation import lost
    from lowtide.allocate.together import best_layout
    from lowtide.analyse.inspect import Inspection, detail, own_profile, runners_up
    from lowtide.analyse.liveness import largest_single_op, profile
    from lowtide.analyse.storage import memory_model
    from lowtide.schedule.registry import make

    began = clock.perf_counter()
    scheduler = make(method, options)
    source = model.source if isinstance(model, Graph) else str(model)
    rules = resolve(target, source=source, overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs)
    memory_bytes = parse_size(search_memory, "search memory")
    check_time(time)
    graph = rules.as_seen(model if isinstance(model, Graph) else load(model, dims))
    memory = memory_model(graph, rules)
    reason = scheduler.supports(memory)
    if reason is not None:
        raise InputError(f"method {method} cannot do this: {reason}; use another one", graph.source or graph.name)
    steps = own_profile(memory)
    order = range(len(graph.ops))
    best, best_order, bound, stopped = steps.peak, tuple(order), largest_single_op(memory), "complete"
    limits = Limits(time, memory_bytes, seed, report=report)
    try:
        found = scheduler.schedule(memory, limits)
        peak = profile(memory, found.order).peak
        if peak <= best:
            best, best_order = peak, found.order
        bound, stopped = min(best, max(bound, found.lower_bound)), found.stopped
    except KeyboardInterrupt:
        stopped = "interrupt"
    layout = best_layout(memory, best_order, limits)
    arena = layout.allocation
    where = lost(memory, layout.order, layout.profile, arena)
    return Inspection(
        graph=graph.name,
        target=rules.name,
        ops=len(graph.ops),
        own_order_peak_bytes=steps.peak,
        peak_bytes=best,
        lower_bound_bytes=bound,
        optimal=best == bound,
        arena_bytes=arena.arena_bytes,
        arena_lower_bound_bytes=arena.lower_bound_bytes,
        arena_lost=None if where is None else where.as_dict(),
        stopped=stopped,
        steps_at_peak=steps.footprint.count(steps.peak),
        peak=detail(memory, order, steps, steps.peak_step) if graph.ops else None,
        runners_up=runners_up(memory, order, steps),
        footprint_bytes=steps.footprint,
        seconds=clock.perf_counter() - began,
    )


def compare(
    model: Graph | str | Path,
    methods: Sequence[str] = (),
    *,
    memories: Memories = (),
    moves: Options = NO_OPTIONS,
    target: str | Target = "auto",
    options: Mapping[str, Options] | None = None,
    time: float = 60.0,
    search_memory: Size = "2GiB",
    seed: int = 0,
    dims: Mapping[str, int] = NO_DIMS,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    report: Callable[[str, Progress], None] | None = None,
) -> list[MethodResult]:
    """Run methods on one model under one target, each with its own time.

    Parameters
    ----------
    methods
        Names; all there are if empty.
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
    from lowtide.analyse.storage import memory_model
    from lowtide.schedule import registry
    from lowtide.spill.registry import make_spill, spill_methods

    known = list(spill_methods() if memories else registry.methods())
    make = make_spill if memories else registry.make
    names = list(dict.fromkeys(methods)) or known
    wanted = options or {}
    for name in (*names, *wanted):
        if name not in known:
            raise InputError(f"there is no method {name!r}; use one of {', '.join(known)}")
    for name in wanted:
        if name not in names:
            raise InputError(f"options are given for method {name}, which is not compared; name it among the methods")
        make(name, wanted[name])
    source = model.source if isinstance(model, Graph) else str(model)
    rules = resolve(target, source=source, overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs)
    check_time(time)
    parse_size(search_memory, "search memory")
    graph = rules.as_seen(model if isinstance(model, Graph) else load(model, dims))

    def run(name: str) -> MethodResult:
        def tell(progress: Progress) -> None:
            if report is not None:
                report(name, progress)

        return _run_method(
            name,
            lambda: plan(
                graph,
                target=rules,
                memories=memories,
                moves=moves,
                method=name,
                options=wanted.get(name, NO_OPTIONS),
                time=time,
                search_memory=search_memory,
                seed=seed,
                report=tell,
            ),
            why_not(name),
            memories,
        )

    def why_not(name: str) -> Callable[[], str | None]:
        if memories:
            problem, _ = spilling_problem(graph, rules, find_memories(memories), moves)
            return lambda: make_spill(name, wanted.get(name, NO_OPTIONS)).supports(problem)
        memory = memory_model(graph, rules)
        return lambda: registry.make(name, wanted.get(name, NO_OPTIONS)).supports(memory)

    rows: list[MethodResult] = []
    for name in names:
        printed = () if memories else _published(model, rules.name, name, wanted.get(name, NO_OPTIONS))
        rows.append(replace(run(name), published=printed))
        if rows[-1].interrupted:
            break
    return _with_best_bound(rows)


def _published(model: Graph | str | Path, target: str, name: str, options: Options) -> tuple[Printed, ...]:
    """What a paper prints of this method, if it ran it as it runs here, on this network under these rules."""
    from lowtide.schedule import registry
    from lowtide.zoo.published import printed
    from lowtide.zoo.published.cases import known

    case = known(model.removeprefix("zoo:")) if isinstance(model, str) and model.startswith("zoo:") else None
    if case is None or (case.target, case.form) != (target, "as is") or name not in registry.built_in():
        return ()
    if registry.make(name, options) != (case.serenity if name == "serenity" else registry.make(name)):
        return ()
    found = printed(case.network, case.target, name)
    return tuple(Printed(f.figure, f"{f.text} {f.unit}".rstrip(), f"{f.paper}, {f.table}") for f in found)


def _run_method(
    name: str, make_plan: Callable[[], Plan], why_not: Callable[[], str | None], memories: Memories
) -> MethodResult:
    """Run one method; whatever it raises is a row."""
    from lowtide.schedule import registry

    began = clock.perf_counter()
    try:
        reason = why_not()
        if reason is not None:
            return MethodResult(name, "unsupported", reason, seconds=clock.perf_counter() - began)
        made = make_plan()
    except KeyboardInterrupt:
        return MethodResult(name, "timeout", INTERRUPTED, seconds=clock.perf_counter() - began)
    except NoOrderFoundError as error:
        return MethodResult(name, "unsupported", str(error), seconds=clock.perf_counter() - began)
    except VerificationError as error:
        return MethodResult(name, "error", f"its plan does not hold: {error}", seconds=clock.perf_counter() - began)
    except Exception as error:  # a method may be of another package: what it raises is its row
        cause = error.__cause__ or error
        text = " ".join(f"{type(cause).__name__}: {cause}".split())
        return MethodResult(name, "error", text, seconds=clock.perf_counter() - began)
    if memories and made.moves is None:
        reason = too_small(made, memories)
        return MethodResult(name, "unsupported", reason, seconds=clock.perf_counter() - began)
    late = made.stopped in ("time", "memory", "interrupt")
    counters = made.search or {}
    return MethodResult(
        method=name,
        status="timeout" if late else "ok",
        reason=(INTERRUPTED if made.stopped == "interrupt" else f"stopped by {made.stopped}") if late else None,
        peak_bytes=made.peak_bytes,
        arena_bytes=made.arena_bytes,
        lower_bound_bytes=made.lower_bound_bytes,
        traffic_bytes=made.traffic_bytes,
        traffic_lower_bound_bytes=made.traffic_lower_bound_bytes,
        ops_to_order=registry.left_to_order(name, counters),
        states=counters.get("states"),
        variables=counters.get("variables"),
        counters=counters,
        seconds=clock.perf_counter() - began,
    )


def _with_best_bound(rows: Iterable[MethodResult]) -> list[MethodResult]:
    found = list(rows)
    bounds = [r.traffic_lower_bound_bytes for r in found if r.traffic_lower_bound_bytes is not None]
    if bounds:
        return [replace(r, optimal=r.traffic_bytes == max(bounds)) for r in found]
    best = max((r.lower_bound_bytes for r in found if r.lower_bound_bytes is not None), default=None)
    return [replace(r, optimal=r.peak_bytes is not None and r.peak_bytes == best) for r in found]


_TARGETS = {
    "strict": "no aliasing but the graph's own, nothing in place, alignment 1 (SERENITY, Zhong et al., COSMA)",
    "hmcos": "as strict, but an elementwise or reshape-like op takes over its first input if that dies (HMCOS)",
    "generic": "views share storage, elementwise ops may run in place, inputs are not overwritten, alignment 64",
    "tflm": "TensorFlow Lite Micro: outputs over, or behind what is read of, inputs that die (reference kernels)",
    "torch": "eager kernels of an exported program: its own views, the caller's inputs not counted, alignment 64",
    "tflite": "LiteRT without delegates: its planner's sharing, inputs kept to the end, 64 bytes",
    "onnxruntime": "its CPU kernels' aliases and in-place, the caller's inputs not counted, steps of 256 bytes",
}


def targets() -> dict[str, str]:
    """Names of the built-in targets, each with one line on what it is."""
    return {name: _TARGETS[name] for name in BUILT_IN}


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
