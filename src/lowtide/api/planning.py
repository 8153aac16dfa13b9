"""Planning: from a model to a checked plan, and the question whether a model fits."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.api.banks import NO_PLACES, Banks, MemoryUse, Places, best_in_banks, find_banks, in_banks, memory_uses
from lowtide.api.explaining import with_conflict
from lowtide.api.models import NO_DIMS, load
from lowtide.api.offsets import check_spread, spread_plan
from lowtide.api.spilling import Memories, spilled_plan
from lowtide.errors import InputError
from lowtide.graph import MAX_BYTES, Graph, Kind
from lowtide.plan import (
    Certificate,
    CutCertificate,
    NoCertificate,
    Plan,
    PlanOp,
    PlanTensor,
    RuntimeParts,
    Seconds,
    Status,
    Stopped,
)
from lowtide.sizes import parse_size
from lowtide.stop import Limits, Progress
from lowtide.target import NONE_FIXED, Target, resolve

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.together import Layout
    from lowtide.analyse.storage import MemoryModel
    from lowtide.schedule.method import Method, Schedule

SCHEDULE_SHARE = 0.9
"""Part of the time that the order may take; what it leaves is the arena's, which loses bytes without any."""

Size = str | int
Options = Mapping[str, str]
NO_OPTIONS: Options = {}


def plan(
    model: Graph | str | Path,
    *,
    target: str | Target = "auto",
    budget: Size | None = None,
    reserve: Size | None = None,
    banks: Banks | None = None,
    board: str | Path | None = None,
    places: Places = NO_PLACES,
    memories: Memories = (),
    moves: Options = NO_OPTIONS,
    method: str = "exact",
    options: Options = NO_OPTIONS,
    time: float = 60.0,
    search_memory: Size = "2GiB",
    seed: int = 0,
    dims: Mapping[str, int] = NO_DIMS,
    require_optimal: bool = False,
    overwrite_inputs: bool = False,
    pin_inputs: bool = False,
    persistent: Sequence[str] = (),
    double_buffered: Sequence[str] = (),
    fixed: Mapping[str, int] = NONE_FIXED,
    spread: bool = False,
    quick: bool = False,
    trace: list[Progress] | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Plan:
    """Find the order of least peak, its arena, and the proof of how good they are; check them.

    Parameters
    ----------
    model
        A graph, or what `load` takes.
    target
        Name of a target, a TOML file, or a `Target`; ``"auto"`` goes by the model.
    budget
        Bytes that the arena and the reserve may take together; sizes such as ``"256KiB"``. Decides `status`.
    reserve
        Bytes kept free of the budget.
    banks, board
        Several memories, fastest first, as ``["sram=256KiB", "psram=8MiB"]``, and a board's name or TOML file. Each
        tensor lies wholly in one of them for its whole life, the fewest bytes in slow ones. Not with a budget.
    places
        Names of tensors, each with the memories that it may lie in, the preferred one first.
    memories
        Memories for a plan with spilling, fastest first, as ``["fast=256KiB", "slow=8MiB"]``; behind the last one
        stands the host. Ops work in the first. Not with a budget, nor with banks.
    moves
        What a move costs then: fields of `lowtide.plan.Spilling`, as typed.
    method, options
        Name of a scheduling method, and values for its fields. With `memories`, of a method that spills: ``"exact"``
        stands for ``"spill"``.
    time
        Seconds of search.
    search_memory
        Bytes for states that the search stores.
    require_optimal
        Whether a plan that is not proved optimal has status ``"unproved"``.
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
        other methods, and of what comes after the search, it has where they began and where they ended.
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
    from lowtide.allocate.together import best_layout, place
    from lowtide.analyse.storage import memory_model
    from lowtide.api.tflm import beside, with_arena
    from lowtide.schedule.registry import make
    from lowtide.verify.check.plan import verify_plan

    began = clock.perf_counter()
    if memories:
        if banks or board or places or budget is not None or reserve is not None:
            raise InputError("--memory plans with spilling; leave out --budget, --reserve, --bank, --board and --place")
        inputs = {"overwrite_inputs": overwrite_inputs, "pin_inputs": pin_inputs}
        settings: dict[str, Any] = {"target": target, "time": time, "search_memory": search_memory, "seed": seed}
        return spilled_plan(
            model, memories, moves, method, options, dims, require_optimal=require_optimal, **inputs, **settings
        )
    if moves:
        raise InputError("--moves says what spilling costs; name the memories with --memory")
    scheduler = make(method, options)
    source = model.source if isinstance(model, Graph) else str(model)
    rules = resolve(
        target,
        source=source,
        overwrite_inputs=overwrite_inputs,
        pin_inputs=pin_inputs,
        persistent=persistent,
        double_buffered=double_buffered,
        fixed=fixed,
    )
    budget_bytes = None if budget is None else parse_size(budget, "budget")
    reserve_bytes = 0 if reserve is None else parse_size(reserve, "reserve", least=0)
    regions = _regions(banks, board, places, budget_bytes, rules)
    check_spread(spread, budget_bytes, rules)
    memory_bytes = parse_size(search_memory, "search memory")
    check_time(time)
    graph = rules.as_seen(model if isinstance(model, Graph) else load(model, dims))
    memory = memory_model(graph, rules)
    reason = scheduler.supports(memory)
    if reason is not None:
        raise InputError(f"method {method} cannot do this: {reason}; use another one", graph.source or graph.name)
    read = clock.perf_counter()

    peak_budget = None if budget_bytes is None else budget_bytes - reserve_bytes - beside(graph, rules)
    limits = Limits(time, memory_bytes, seed, peak_budget, until_impossible=quick, trace=trace, report=report)
    schedule = _schedule(scheduler, memory, replace(limits, seconds=SCHEDULE_SHARE * time))
    scheduled = clock.perf_counter()
    if quick and peak_budget is not None:
        impossible = schedule.lower_bound > peak_budget
        limits = replace(limits, enough_bytes=MAX_BYTES if impossible else peak_budget)
    free = method == "exact" and schedule.stopped != "interrupt"
    banked = best_in_banks(memory, schedule.order, regions, places, limits, explore=free) if regions else None
    if banked is not None:
        layout = banked.layout
    elif free:
        layout = best_layout(memory, schedule.order, limits)
    else:
        layout = place(memory, schedule.order, limits)
    layout, runtime_arena = _as_run(layout, memory, limits, free=method == "exact")
    made = _assemble(graph, memory, rules, schedule, layout, method, seed)
    if trace is not None:
        _close(trace, made, scheduled - read)
    made = with_arena(_replaced(made, runtime_arena_bytes=runtime_arena), graph, rules)
    made = _judge(made, budget_bytes, reserve_bytes, require_optimal)
    if banked is not None:
        made = in_banks(made, memory, banked, regions)
    made = with_conflict(made, memory, layout, limits)
    if spread:
        made = spread_plan(made, memory, limits)
    placed = clock.perf_counter()

    made = _replaced(
        made,
        overwrite_inputs=overwrite_inputs or None,
        pin_inputs=pin_inputs or None,
        persistent=list(dict.fromkeys(persistent)) or None,
        double_buffered=list(dict.fromkeys(double_buffered)) or None,
        fixed=dict(fixed) or None,
    )
    verify_plan(graph, made, rules, replay_bytes=not quick and len(graph.ops) <= 2000)
    done = clock.perf_counter()
    seconds = Seconds(
        read=read - began,
        schedule=scheduled - read,
        allocate=placed - scheduled,
        verify=done - placed,
        total=done - began,
    )
    return _replaced(made, seconds=seconds)


def _close(trace: list[Progress], made: Plan, seconds: float) -> None:
    """Begin the log with the own order and end it with the plan, if the method has not."""
    if not trace:
        trace.append(Progress(made.own_order_peak_bytes, 0, 0.0))
    if (trace[-1].best_bytes, trace[-1].bound_bytes) != (made.peak_bytes, made.lower_bound_bytes):
        trace.append(Progress(made.peak_bytes, made.lower_bound_bytes, seconds))


def exit_status(status: Status, stopped: Stopped) -> int:
    """What the command exits with: an interrupt first, then what the budget says."""
    return 130 if stopped == "interrupt" else {"ok": 0, "over_budget": 3, "impossible": 4, "unproved": 6}[status]


def check_time(seconds: float) -> None:
    """Raise `InputError` unless this is a limit for a search."""
    if not 0 < seconds < 1e9:
        raise InputError(f"time is {seconds!r}; give a positive number of seconds")


def _regions(
    banks: Banks | None, board: str | Path | None, places: Places, budget: int | None, rules: Target
) -> tuple[Bank, ...]:
    """The memories of a call, if it names any and nothing that goes with a single arena."""
    found = find_banks(banks, board)
    if not found and places:
        raise InputError("tensors are placed, but in no memory; name memories with --bank or --board")
    if found and budget is not None:
        raise InputError("--budget is for one arena; with --bank and --board every memory has its own size")
    if found and (rules.overlap != "never" or rules.rule):
        raise InputError(f"target {rules.name} has one arena; plan for memories under another target")
    return found


def _schedule(scheduler: Method, memory: MemoryModel, limits: Limits) -> Schedule:
    """Run a method; one that is interrupted without a result leaves the own order."""
    from lowtide.schedule.method import Schedule

    try:
        return scheduler.schedule(memory, limits)
    except KeyboardInterrupt:
        return Schedule(tuple(range(len(memory.graph.ops))), stopped="interrupt")


def _as_run(layout: Layout, memory: MemoryModel, limits: Limits, *, free: bool) -> tuple[Layout, int | None]:
    """The layout in the order that the runtime makes of this one, and the block that its own arena needs, if any.

    Among orders of equal peak, the one of the smallest block is taken, only if the order is `free`.
    """
    from lowtide.allocate.together import place
    from lowtide.runtimes.onnxruntime import smallest_block

    if memory.target.rule == "tflite":
        from lowtide.runtimes.litert import litert_arena, smallest_arena

        if not free:
            return layout, litert_arena(memory, layout.order).bytes
        order, block = smallest_arena(memory, layout.order, limits)
        return layout if order == layout.order else replace(place(memory, order, limits), tried=layout.tried), block
    if memory.target.rule != "onnxruntime":
        return layout, None
    order, block = smallest_block(memory, layout.order, limits, others=free)
    return layout if order == layout.order else replace(place(memory, order, limits), tried=layout.tried), block


def _assemble(
    graph: Graph,
    memory: MemoryModel,
    target: Target,
    schedule: Schedule,
    layout: Layout,
    method: str,
    seed: int,
) -> Plan:
    """Put what was found into a plan; its peak is that of the in-place choices that the arena really makes."""
    from lowtide import __version__
    from lowtide.allocate.fragmentation import lost
    from lowtide.analyse.liveness import largest_single_op, profile
    from lowtide.analyse.storage import effective_aliases
    from lowtide.schedule.settle import ops_moved

    allocation = layout.allocation
    taken = set(allocation.in_place)
    steps = layout.profile
    if allocation.dropped:
        kept = tuple(tuple(o for o in row if (o.output, o.input) in taken) for row in memory.overwrites)
        steps = profile(replace(memory, overwrites=kept), layout.order)
    bound, certificate = _bound(schedule, largest_single_op(memory), steps.peak)
    aliases = effective_aliases(graph, target)
    interrupted = layout.interrupted and schedule.stopped != "proof"
    search = {**schedule.counters, "orders_placed": layout.tried, "ops_moved": ops_moved(layout.order)}
    where = lost(memory, layout.order, layout.profile, allocation)
    if where is not None:
        search["arena_lost"] = where.as_dict()
    return Plan(
        version=1,
        lowtide=__version__,
        graph=graph.name,
        model_sha256=graph.sha256,
        target=target.name,
        method=method,
        seed=seed,
        status="ok",
        stopped="interrupt" if interrupted else schedule.stopped,
        ops=[PlanOp(id=op.id, name=op.name, type=op.type) for op in sorted_by_id(graph)],
        folded=sorted(op.id for op in graph.folded),
        tensors=[
            PlanTensor(
                id=t.id,
                name=t.name,
                size=t.size,
                kind=str(t.kind),
                alias_of=aliases[t.id][0] if t.id in aliases and t.kind is not Kind.CONSTANT else t.alias_of,
            )
            for t in graph.tensors
        ],
        order=[graph.ops[i].id for i in layout.order],
        own_order_peak_bytes=profile(memory, range(len(graph.ops))).peak,
        peak_bytes=steps.peak,
        lower_bound_bytes=bound,
        optimal=bound == steps.peak,
        certificate=certificate,
        in_place=list(allocation.in_place),
        overlap=list(allocation.overlap) or None,
        alignment=target.alignment,
        required_bytes=allocation.arena_bytes,
        seconds=Seconds(),
        arena_bytes=allocation.arena_bytes,
        arena_lower_bound_bytes=allocation.lower_bound_bytes,
        arena_optimal=allocation.optimal,
        offsets={str(t): offset for t, offset in sorted(allocation.offsets.items())},
        workspace_offsets={str(o): at for o, at in sorted(allocation.workspace_offsets.items())} or None,
        search=search,
    )


def sorted_by_id(graph: Graph) -> list[Any]:
    """Every op of a graph, folded ones included, by id."""
    return sorted((*graph.folded, *graph.ops), key=lambda op: op.id)


def _bound(schedule: Schedule, single_op: int, peak: int) -> tuple[int, Certificate]:
    """The better of the method's own bound and the largest single op; a proof only of the one that is taken."""
    if schedule.lower_bound > single_op:
        return min(schedule.lower_bound, peak), schedule.certificate
    if isinstance(schedule.certificate, CutCertificate) and schedule.lower_bound == single_op:
        return single_op, schedule.certificate
    return single_op, NoCertificate()


def _judge(made: Plan, budget: int | None, reserve: int, require_optimal: bool) -> Plan:
    """Compare with the budget. Where several things are wrong, the most final one is said."""
    arena = made.peak_bytes if made.target == "torch" else made.arena_bytes  # eager kernels allocate one by one
    required = (made.runtime_arena_bytes or arena or 0) + reserve
    status: Status = "ok"
    if require_optimal and not made.optimal:
        status = "unproved"
    if budget is not None and required > budget:
        status = "over_budget"
    if budget is not None and made.least_required_bytes + reserve > budget:
        status = "impossible"
    return _replaced(made, status=status, required_bytes=required, budget_bytes=budget, reserve_bytes=reserve or None)


def _replaced(made: Plan, **changes: Any) -> Plan:
    import msgspec

    return msgspec.structs.replace(made, **changes)


@dataclass(frozen=True)
class Check:
    """Whether a model fits. Sizes are bytes; `excess_bytes` is 0 if it does; `status` is that of a plan.

    `required_bytes` includes the reserve. `stopped` says why the search ended. With several memories the sizes are sums
    over them, and `memories` has each. Under tflm, `parts` says what the requirement consists of.
    `conflict` names tensors that cannot share what there is, where it does not fit and the reason was found.
    """

    required_bytes: int
    available_bytes: int
    excess_bytes: int
    lower_bound_bytes: int
    optimal: bool
    target: str
    status: Status
    stopped: Stopped
    memories: list[MemoryUse] | None = None
    parts: RuntimeParts | None = None
    conflict: str | None = None

    @property
    def exit_status(self) -> int:
        """0 if it fits, 3 if the best plan found needs more, 4 if no plan can fit, 6 unproved, 130 interrupted."""
        return exit_status(self.status, self.stopped)


def check(model: Graph | str | Path, budget: Size | None = None, *, as_is: bool = False, **settings: Any) -> Check:
    """Say whether a model fits a budget, without writing anything; weights are not needed.

    It tries what `plan` tries, and stops at the first arena that fits.

    Parameters
    ----------
    budget
        Bytes there are, the reserve included; left out if `settings` name memories (`banks`, `board`).
    as_is
        Judge the file's own order instead of the best one.
    settings
        Those of `plan`.

    Raises
    ------
    InputError
        As `plan`.
    """
    if as_is:
        settings |= {"method": "own", "options": NO_OPTIONS}
    settings.setdefault("quick", True)
    if budget is None and not (settings.get("banks") or settings.get("board")):
        raise InputError("say what there is: --budget SIZE, or memories with --bank NAME=SIZE or --board NAME")
    made = plan(model, budget=budget, **settings)
    if as_is:
        from lowtide.api.tflm import as_it_stands

        made = as_it_stands(made, model, settings.get("target", "auto"))
    from lowtide.report.conflict import conflict_text

    uses = memory_uses(made) or None
    if uses is not None:
        available, excess = sum(m.available_bytes for m in uses), sum(m.excess_bytes for m in uses)
    else:
        available = made.budget_bytes or 0
        excess = max(0, made.required_bytes - available)
    return Check(
        made.required_bytes,
        available,
        excess,
        made.lower_bound_bytes,
        made.optimal,
        made.target,
        made.status,
        made.stopped,
        uses,
        made.runtime_parts,
        conflict_text(made),
    )
