"""Planning: from a model to a checked plan."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer, assemble
from lowtide.api.costs import find_costs
from lowtide.api.exported import given as exported
from lowtide.api.goals import FastMemory, OneArena, SeveralMemories
from lowtide.api.job import NO_OPTIONS, CallOptions, Job, Options, rules_of, search_of
from lowtide.api.moves.all_transformations import with_all_transformations
from lowtide.api.moves.cutting import allowed
from lowtide.api.moves.groups import groups_of, least_of
from lowtide.api.moves.solving import check_warm_start, solve_by_moves, solve_order
from lowtide.api.objects import Model, Module
from lowtide.api.problem import Problem
from lowtide.api.profiles import with_profile
from lowtide.arguments import Example, typed
from lowtide.cost.file import CostFile
from lowtide.errors import InputError
from lowtide.plan import Plan, Seconds, read_plan
from lowtide.rewrites import TensorAlias
from lowtide.sizes import NO_DIMS, Size, parse_gap
from lowtide.stop import Limits, Progress, noting

if TYPE_CHECKING:
    from typing import Unpack

    from lowtide.allocate.banks.places import Banks, Places
    from lowtide.schedule.method import Method
    from lowtide.spill.words import Memories

MOST_REPLAYED = 2000  # ops of a plan whose arena is replayed byte by byte after it was made

NO_PLACES: Places = {}


class PlanOptions(CallOptions, total=False):
    """What else `plan` takes; its docstring says what each means."""

    budget: Size | None
    reserve: Size | None
    banks: Banks | None
    board: str | Path | None
    places: Places
    memories: Memories
    moves: Options
    method: str | Method
    options: Options
    gap: str | float
    require_optimal: bool
    allow: str | Sequence[str]
    exact_bits: bool
    max_ops: int
    cost: CostFile | str | Path | None
    max_overhead: str | float | None
    stream_input: bool
    warm_start: Plan | str | Path | None
    persistent: Sequence[str]
    double_buffered: Sequence[str]
    fixed: Mapping[str, int]
    spread: bool
    quick: bool


@typed
def plan(
    model: Model | Module,
    example: Example | None = None,
    *,
    trace: list[Progress] | None = None,
    report: Callable[[Progress], None] | None = None,
    **given: Unpack[PlanOptions],
) -> Plan:
    """Find the order of least peak, its arena, and the proof of how good they are; check them.

    Parameters
    ----------
    model
        A graph, or what `load` takes; or a `torch.nn.Module` with an example.
    example
        For a module: what it is called with, as ``(x,)``. It is exported in the mode (training or not) in which it is.
    target
        Name of a target, a TOML file, or a `Target`; ``"auto"``, the default, goes by the model.
    budget
        Bytes that the arena and the reserve may take together; sizes such as ``"256KiB"``, or ``"70%"`` of the peak of
        the file order. Decides `status`.
    reserve
        Bytes kept free of the budget.
    banks, board
        Several memories, fastest first, as ``["sram=256KiB", "psram=8MiB"]``, and a board's name or TOML file. Each
        tensor is in one of them for all of its life, the fewest bytes in slow ones. Not with a budget.
    places
        Names of tensors, each with the memories that it may lie in, the preferred one first.
    memories
        Memories for a plan with spilling, fastest first, as ``["fast=256KiB", "slow=8MiB"]``; behind the last one
        is the host. Ops work in the first. Not with a budget, nor with banks, nor with tensors that keep memory
        of their own, nor with `quick`.
    moves
        What a move costs then: fields of `lowtide.spill_plan.Spilling`, as typed.
    method, options
        Name of a scheduling method, and values for its fields; or one of your own as an object
        (`lowtide.schedule.method.Method`). With `memories`, of a method that spills: ``"exact"``
        means ``"spill"``; with `allow` ``"recompute"``, of a published one, as
        `lowtide.optimize.recompute.registry` has them, or ``"exact"`` for lowtide's own.
    time
        Seconds of search. Without it the search does work that takes 60 on a quiet machine, however busy this one is.
    search_memory
        Bytes for states that the search stores; the default is 2 GiB.
    gap
        Stop the search for an order once the bound is within this part of its peak: ``"3%"`` or 0.03. Not with
        `memories`.
    require_optimal
        Whether a plan that is not proved optimal has status ``"unproved"``.
    allow
        What of the graph may be changed, and never its results beyond what `Plan.exactness` says: ``"all"``: every
        change that the model, its target and the goal have, with at most 5 % more operations where neither `budget` nor
        `max_overhead` is given; or by name: ``"alias"``: tensors
        may lie in others, so that nothing is copied into a concat's result or out of a split one; ``"tile"``: ops
        run in parts, a region in stripes, and products whose columns are read apart by sections; with
        ``"recompute-halos"``, stripes may recompute halos that others would cache (`Plan.halos` says what that adds);
        what one region makes and others read in tiles is not materialised, where that needs less and is found in time;
        with ``"unmaterialised"`` half of the search's time is for such regions; with ``"nest-tiles"``,
        tiles are tiled, along other dimensions; ``"concat"``: ops behind a concat run on each of its operands;
        ``"accumulate"``: there, parts of a convolution's sum are added by onnxruntime's own convolution, which other
        runtimes lack (under ``onnxruntime`` they are anyway); ``"recompute"``: ops run more than once, for the
        least time within the budget, by `Op.cost`; with ``"tile"`` both: of a model file, for the least work,
        statistics over rows that are cut are added up in passes of their own; of a training step whose ops have
        labels, parts (`docs/transformations.md`); ``"offload"``, alone, with ``"recompute"`` or, of such a step, with
        both: tensors are stored on the host and loaded while other ops run, by the bandwidth of `cost`; ``"merge"``,
        of such a step: products that read the same run as one where that takes less time; ``"row-streaming"``:
        ops run together row by row, for compilers that loop over rows (``target="loops"``). Nothing is changed where it
        gains nothing, or the budget is met without.
    exact_bits
        With `allow`: only changes that cannot move a bit of the results.
    max_ops
        With `allow`: ops that the changed model may have, since each costs time; 0: any number.
    cost
        With `allow`: a cost file (`measure`). Of ways to one peak the one of least predicted time is taken, instead of
        the one of fewest ops. With ``"offload"``: what ops and transfers take, as the file's `bandwidth` says; without,
        figures from the data sheet of an RTX 3090.
    max_overhead
        With `allow`: the part by which the predicted time may be longer than that of the uncut model: ``"10%"`` or 0.1.
        Without `cost` it is predicted from operations and bytes (`Plan.cost`).
    stream_input
        With ``"row-streaming"``: the caller hands graph inputs over row by row, as they are asked for, so that only the
        rows that are still needed are held.
    warm_start
        A plan of this model, or its file, that the search begins with: what it finds requires no more bytes. For one
        arena, and orders, tiles and tensors in others.
    overwrite_inputs, pin_inputs
        Whether graph inputs may be overwritten in place, or must not be; the default is the target's. What keeps
        them to the end is the target's field `keep_inputs`.
    persistent, double_buffered
        Names of tensors that keep memory of their own throughout, the latter for two of them (`Target`).
    fixed
        Names of tensors, each with the offset in bytes where it has to lie.
    spread
        Let tensors reuse bytes only where the budget demands it.
    quick
        Whether to stop once the budget is met or proved impossible, as `check` does, and leave out the byte-level
        replay, which finds nothing that the checks of the offsets do not.
    trace
        A list to which the exact method appends each improvement of its best order or its bound: an anytime log. Of
        other methods, and of what comes after the search, it has where they began and where they ended; with
        `memories` where they ended, as traffic and the bound on it.
    report
        Called now and then while the search runs. If it raises KeyboardInterrupt, or Ctrl-C does, the search stops
        and the best plan so far is returned, with `Plan.stopped` ``"interrupt"``.

    Raises
    ------
    InputError
        The model or an argument is wrong. Everything else is in `Plan.status`.
    VerificationError
        The plan does not hold: a bug of lowtide's.
    """
    read, groups = exported(model, example), groups_of(given.get("allow", ()))

    def solve(group: tuple[str, ...]) -> Plan:
        given["allow"] = group
        job = job_of(read, **given)
        search = replace(job.search, seconds=job.search.seconds / len(groups))
        return plan_job(replace(job, search=search), trace=trace, report=report)

    if len(groups) == 1:
        return plan_job(job_of(read, **given), trace=trace, report=report)
    return least_of(groups, solve)


def job_of(model: Model, **given: Unpack[PlanOptions]) -> Job:
    """A call of `plan` as a job, with its keywords; of the model's file nothing is read but an ExportedProgram. Raises
    `InputError`: an argument is wrong, or two do not go together."""
    method, options = given.get("method", "exact"), given.get("options", NO_OPTIONS)
    arena = OneArena.of(given.get("budget"), given.get("reserve"), spread=given.get("spread", False))
    several = given.get("banks"), given.get("board"), given.get("places", NO_PLACES)
    goal = find_goal(arena, several, (given.get("memories", ()), given.get("moves", NO_OPTIONS)))
    own = {name: given.get(name) for name in ("persistent", "double_buffered", "fixed") if name in given}
    words, repeats = allowed(given.get("allow", ())), None
    if "recompute" in words and method != "exact":
        from lowtide.optimize.recompute.registry import make_recompute

        if not isinstance(method, str):
            raise InputError(
                f"a published method of recomputation is given by its name; leave out method={method.name}"
            )
        repeats = make_recompute(method, options)
        method, options = "exact", NO_OPTIONS
    search = search_of(
        given, goal.method(method, options), quick=given.get("quick", False),
        require_optimal=given.get("require_optimal", False), gap=parse_gap(given.get("gap", 0.0)),
    )  # fmt: skip
    costs = find_costs(given.get("cost"), given.get("max_overhead"))
    start = given.get("warm_start")
    job = Job(
        model, given.get("dims", NO_DIMS), rules_of(given, **own), goal, search, words, given.get("exact_bits", False),
        given.get("max_ops", 0), costs, repeats, given.get("stream_input", False),
        start if isinstance(start, Plan) or start is None else read_plan(start),
    )  # fmt: skip
    check_warm_start(job)
    return job


def plan_job(
    job: Job,
    *,
    trace: list[Progress] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Plan:
    """Plan a job and check the plan: what `plan` does. Raises as it does."""
    import msgspec

    from lowtide.verify.check.plan import verify_plan

    began = clock.perf_counter()
    job = with_all_transformations(job)
    problem = job.problem()
    read = clock.perf_counter()
    limits = job.search.limits(trace, report, counted=_is_counted(job, problem))
    with noting(limits.interrupt):
        answer = _solve(job, problem, limits)
    if limits.interrupt.seen:  # also where a search forgot it
        status = answer.keys["status"]
        status = "over_budget" if status == "impossible" else status
        answer = replace(answer, keys={**answer.keys, "stopped": "interrupt", "status": status})
    plan = _with_figures(assemble(answer, job.rules, job.search.seed), answer, problem, quick=job.search.quick)
    plan = plan if job.search.quick else with_profile(plan, answer, problem)
    placed = clock.perf_counter()
    with suppress(KeyboardInterrupt):  # the search that it could end is over
        limits.tell("verifying the plan")
    replayed = not job.search.quick and len(problem.graph.ops) <= MOST_REPLAYED
    verify_plan(problem.graph, plan, answer.problem.target, replay_bytes=replayed)
    done = clock.perf_counter()
    seconds = Seconds(
        read=read - began,
        schedule=answer.schedule_seconds,
        allocate=placed - read - answer.schedule_seconds,
        verify=done - placed,
        total=done - began,
    )
    return msgspec.structs.replace(plan, seconds=seconds)


def _is_counted(job: Job, problem: Problem) -> bool:
    """Whether all searches for a job count their work: all but those for several memories, for tiles of training
    steps, and those of published methods."""
    words = set(job.allow)
    of_step = "tile" in words and (words & {"offload", "merge"} or problem.graph.dialect == "labels")
    others = of_step or job.repeats is not None or isinstance(job.goal, SeveralMemories)
    return job.search.method.name == ("spill" if isinstance(job.goal, FastMemory) else "exact") and not others


def _solve(job: Job, problem: Problem, limits: Limits) -> Answer:
    """As the job allows it."""
    goal = job.goal.for_problem(problem) if isinstance(job.goal, OneArena) else job.goal
    if job.allow:
        return solve_by_moves(replace(job, goal=goal), problem, limits)
    if job.warm_start is not None:
        return solve_order(replace(job, goal=goal), problem, limits)
    return goal.solve(problem, job.search, limits)


def _with_figures(plan: Plan, answer: Answer, problem: Problem, *, quick: bool) -> Plan:
    """The plan with what its runtime takes by its defaults, and with it; of plans for several memories only where
    one of them holds all of it."""
    import msgspec

    from lowtide.analyse.storage import memory_model
    from lowtide.runtimes.base import Planned
    from lowtide.runtimes.figures import runtime_figures

    one_array = plan.runtime_arenas is not None and not plan.runtime_arenas.has_two_arrays
    if answer.loops is not None or plan.fission is not None:  # no runtime of a file has them
        return plan
    if plan.arena_bytes is None or (plan.memories is not None and not one_array):
        return plan
    uncut = None if answer.parts is None else problem.memory
    aliased = any(isinstance(r, TensorAlias) for r in plan.rewrites or ())  # which a runtime copies
    memory = answer.problem.memory
    if aliased:
        memory = problem.memory if answer.parts is None else memory_model(answer.parts.graph, answer.problem.target)
    figures = runtime_figures(memory, Planned.of(plan), quick=quick, uncut=uncut)
    return msgspec.structs.replace(plan, runtime_figures=figures)


def find_goal(
    arena: OneArena,
    several: tuple[Banks | None, str | Path | None, Places],
    fast: tuple[Memories, Options],
) -> OneArena | SeveralMemories | FastMemory:
    """The goal that a call asks for: what it says of an arena, of banks, board and places, of memories and moves.
    Raises `InputError`: they are for different goals, or wrong in themselves."""
    if any(fast):
        return FastMemory.of(None if any(several) else arena, *fast)
    return SeveralMemories.of(arena, *several) if any(several) else arena


def method_name(name: str, *, spilling: bool) -> str:
    """The method that a name means: with memories ``"exact"`` is the one that spills best."""
    return "spill" if spilling and name == "exact" else name


def too_small(plan: Plan, memories: Memories) -> str:
    """Why there is no plan with moves for these memories."""
    from lowtide.report.conflict import too_small_text
    from lowtide.spill.words import find_memories

    fast = find_memories(memories)[0]
    return too_small_text(plan, fast.name, fast.capacity_bytes)
