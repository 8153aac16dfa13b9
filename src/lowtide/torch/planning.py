"""From a program to a planned one: costs, a search for a sequence or a saved one, the source."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.names import brief
from lowtide.sizes import format_size
from lowtide.stop import Limits
from lowtide.torch.capture import check_offloading
from lowtide.torch.cost import Costs
from lowtide.torch.costed import Costed, costed
from lowtide.torch.cutting import is_cuttable, least_largest_op, proposals, recut, usual
from lowtide.torch.eager import EagerStep
from lowtide.torch.generate import source_of
from lowtide.torch.meter import measure_ops, no_costs
from lowtide.torch.program import Program
from lowtide.torch.search import STEPS, Moves, largest_op, lowest, pareto_front, search
from lowtide.torch.sequence import Sequence, sequence_of, why_not
from lowtide.torch.step_plan import OverBudgetError, StepCut, StepPlan
from lowtide.torch.swap import entry_of, movable

_ROUNDING = 1e-6  # part of the time by which sums of nanoseconds may be off

_FIRST, _FIRST_STEPS = 0.4, 256
"""Part of the time, and repairs at most, for a first look at each of several cuts; the best gets the rest."""

POINTS = 20  # budgets of a curve, where a call does not say how many
_CUTTING = 0.6  # part of the time that may go to choosing cuts


_ALONE, _LEAST = 0.6, 0.4
"""Of the time what goes to plans without parts where parts may be needed, and what is left for these at least."""


@dataclass(frozen=True)
class PlanOptions:
    """What a call asks of a plan: bytes, a cost table or None, whether to measure what is missing, seconds of search,
    a plan to replay, the callback for progress, what may be changed of the step; `slower`: instead of bytes, the share
    of eager's time that it may take in addition; `part`: instead of bytes, the share of eager's peak;
    `parts_if_needed`: ops may run in parts where nothing else meets the budget."""

    budget: int | None = None
    costs: Costs | None = None
    measure: bool = True
    time: float = 10.0
    plan: StepPlan | None = None
    report: Callable[[str], None] | None = None
    allow: tuple[str, ...] = ("recompute",)
    slower: float | None = None
    part: float | None = None
    parts_if_needed: bool = False

    def say(self, line: str) -> None:
        """Report progress to the callback, if there is one."""
        if self.report is not None:
            self.report(line)


@dataclass(frozen=True)
class Compared:
    """The same step to compare with: as `eager` mode runs it, and with its updates `inside` the backward pass, as it is
    planned unless gradients are clipped."""

    eager: EagerStep
    inside: Program


@dataclass(frozen=True, repr=False)
class Planned:
    """A program with its graph, the sequence in which it runs, the plan and the source."""

    program: Program
    graph: Graph
    sequence: Sequence
    plan: StepPlan
    source: str
    costs: Costs | None

    def __repr__(self) -> str:
        return brief(self, "plan")

    @property
    def unmeasured(self) -> str:
        """How many ops were not measured, and what that means for the bytes, in words; empty if there are none."""
        return unmeasured_words(self.plan.unmeasured, len(self.program.actions))

    @property
    def in_parts(self) -> str:
        """How many ops run in parts, and what that does to the numbers, in words; empty if none does."""
        bodies = [self.program.bodies[a.call.target[5:]] for a in self.program.actions if a.call.target[:5] == "body."]
        if not bodies:
            return ""
        sums = any("aten.zero_.default(" in body.source for body in bodies)
        why = "sums of parts round" if sums else "kernels that are chosen by size may round"
        return f"ops in parts: {sum(len(body.actions) for body in bodies)}; {why} otherwise than eager's"


def unmeasured_words(count: int, ops: int) -> str:
    """That so many of the ops of a step were not measured, and what that means for its bytes; empty for none.

    >>> unmeasured_words(62, 62), unmeasured_words(0, 62)
    ('62 of 62 ops not measured: their workspace is not counted', '')
    """
    return f"{count} of {ops} ops not measured: their workspace is not counted" if count else ""


def plan_program(torch: Any, program: Program, options: PlanOptions, compared: Compared | None = None) -> Planned:
    """Plan a program; without `compared` it is its own eager step. Raises `OverBudgetError`: no plan within the
    budget is known; `InputError`: no plan can be within the budget; or the plan to replay is not of this program."""
    own, costs = _own(torch, program, options)
    before = _before(torch, own, costs, compared)
    if options.part is not None:
        options = replace(options, budget=max(1, int(before.eager * options.part)), part=None)
    if options.plan is not None:
        chosen = _replayed(torch, own, options.plan, costs)
    else:
        chosen = _sought(torch, own, options, costs, before)
    planned = _planned(torch, own, chosen, options, before)
    if planned.unmeasured:
        options.say(planned.unmeasured)
    if options.budget is not None and planned.plan.peak_bytes > options.budget:
        if options.plan is not None:
            takes = f"the saved plan takes {format_size(planned.plan.peak_bytes)}, and the budget is"
            raise InputError(f"{takes} {format_size(options.budget)}; leave one of them out", program.name)
        peak, least = planned.plan.peak_bytes, format_size(planned.plan.floor_bytes)
        share = -(-100 * peak // max(1, before.eager))
        message = f"no plan within {format_size(options.budget)} was found in {options.time:g} s: the best takes"
        more = f'give budget="{share}%" of eager or more time, or take that plan, plan=error.plan'
        more += f" (none is below {least}, and that there is none between is not proved)"
        raise OverBudgetError(f"{message} {format_size(peak)}; {more}", program.name, planned.plan)
    return planned


def plan_front(
    torch: Any, program: Program, options: PlanOptions, count: int, compared: Compared | None = None
) -> tuple[Planned, ...]:
    """Plans of ever lower peaks, each of more seconds than the one before; file order first, and about `count` of them.

    Budgets descend evenly from file order's peak to what the largest op takes.
    """
    own, costs = _own(torch, program, options)
    before = _before(torch, own, costs, compared)
    steps = candidates(torch, own, options, costs)
    options.say(f"{before.words}; seeking less for {options.time:g} s at most")
    budgets = _budgets(own, steps, count)
    found = []
    for step, cuts, table in steps:
        for order in pareto_front(step.graph, step.seconds, budgets, options.time / len(steps)):
            chosen = _Chosen(step, tuple(order), table, cuts)
            found.append((sequence_of(step.graph, order).peak_bytes, step.seconds_of(order), len(found), chosen))
    kept: list[Planned] = []
    cheapest = float("inf")
    for _, seconds, _, chosen in sorted(found, key=lambda entry: entry[:3]):
        if seconds < cheapest:
            cheapest = seconds
            kept.append(_planned(torch, own, chosen, options, before))
    if kept[0].unmeasured:
        options.say(kept[0].unmeasured)
    return tuple(reversed(kept))


def _budgets(own: Costed, steps: list[tuple[Costed, tuple[StepCut, ...], Costs | None]], count: int) -> list[int]:
    """Bytes from file order's peak evenly down to what the largest op takes."""
    top, least = own.own.peak_bytes, min(largest_op(step.graph)[0] for step, _, _ in steps)
    return [top - (top - least) * k // (count - 1) for k in range(1, count)]


def _own(torch: Any, program: Program, options: PlanOptions) -> tuple[Costed, Costs | None]:
    """The step as it was traced, and the table of its costs."""
    costs = options.costs
    if options.measure:
        costs, _ = measure_ops(program, costs or no_costs(torch, program), _progress(options))
    return costed(torch, program, costs), costs


@dataclass(frozen=True)
class _Before:
    """Peaks before anything is planned, in bytes: eager's, and the file order's; and how much lower the file order is
    with updates inside the backward pass than behind it."""

    eager: int
    own: int
    saved: int

    @property
    def words(self) -> str:
        return f"eager takes {format_size(self.eager)}, file order {format_size(self.own)}"


def _before(torch: Any, own: Costed, costs: Costs | None, compared: Compared | None) -> _Before:
    peak = own.own.peak_bytes
    if compared is None:
        return _Before(peak, peak, 0)
    eager, in_update = compared.eager.peak_bytes(torch, own, costs)
    behind = eager if in_update else costed(torch, compared.eager.program, costs).own.peak_bytes
    inside = costed(torch, compared.inside, costs).own.peak_bytes
    return _Before(eager, peak, max(0, behind - inside))


def _digest(own: Costed) -> str:
    return hashlib.sha256(source_of(own.program, own.own).encode()).hexdigest()


def _planned(torch: Any, own: Costed, chosen: _Chosen, options: PlanOptions, before: _Before) -> Planned:
    """A choice as a plan and as source."""
    step, table, sequence = chosen.step, chosen.costs, sequence_of(chosen.step.graph, chosen.order)
    plan = StepPlan(
        program_sha256=_digest(own), costs_sha256="" if table is None else table.sha256, torch=str(torch.__version__),
        ops=list(chosen.order), budget_bytes=options.budget, peak_bytes=sequence.peak_bytes,
        eager_peak_bytes=before.eager, own_order_peak_bytes=before.own, update_saving_bytes=before.saved,
        floor_bytes=largest_op(step.graph)[0],
        seconds=step.seconds_of(chosen.order), own_order_seconds=own.seconds_of(own.graph.own_order),
        unmeasured=step.unmeasured, cuts=list(chosen.cuts),
    )  # fmt: skip
    return Planned(step.program, step.graph, sequence, plan, source_of(step.program, sequence), table)


@dataclass(frozen=True)
class _Chosen:
    """A step as it was traced or cut, the order in which its ops run, and the table of its costs."""

    step: Costed
    order: tuple[int, ...]
    costs: Costs | None
    cuts: tuple[StepCut, ...] = ()


def _sought(torch: Any, own: Costed, options: PlanOptions, costs: Costs | None, before: _Before) -> _Chosen:
    """The order of least time within the budget, of the step as it is or cut. Raises `InputError`: a single op takes
    more."""
    budget = options.budget
    if options.slower is not None and options.time:
        return _lowest(torch, own, options, costs, before)
    if budget is None:
        return _Chosen(own, own.graph.own_order, costs)
    if options.parts_if_needed and options.plan is None:
        return _eagers_or_in_parts(torch, own, options, costs, before)
    size = format_size(budget)
    options.say(f"{before.words}; seeking {size} for {options.time:g} s at most")
    if own.own.peak_bytes <= budget:
        return _Chosen(own, own.graph.own_order, costs)
    least, at = largest_op(own.graph)
    steps: list[tuple[Costed, tuple[StepCut, ...], Costs | None]] = [(own, (), costs)] if least <= budget else []
    begun, allowed = clock.perf_counter(), "tile" in options.allow
    meter = partial(measured, torch, options)
    for cut in proposals(torch, own, costs, budget, Limits(options.time * _CUTTING), meter) if allowed else ():
        step, table = measured(torch, options, cut.step, costs)
        if largest_op(step.graph)[0] <= budget:
            steps.append((step, cut.records, table))
    if not steps:
        cut = "tile" in options.allow
        least, label = least_largest_op(torch, own, costs, meter) if cut else (least, own.graph.op_by_id[at].label)
        message = f"no plan is within {format_size(budget)}: {label} alone takes"
        uncuttable = cut or not any(r.kind == "loss" for r in own.program.results) or not is_cuttable(torch, own)
        share = -(-100 * least // max(1, before.eager))
        more = f'; give that, budget="{share}%" of eager, or more'
        more += "" if uncuttable else "; allow='recompute,tile' may cut it"
        raise InputError(
            f"{message} {format_size(least)}, with what it reads and its workspace{more}", own.program.name
        )

    def tried(entry: tuple[Costed, tuple[StepCut, ...], Costs | None], time: float, steps: int) -> _Tried:
        step, cuts, table = entry

        def report(seconds: float) -> None:
            more = seconds / own.seconds_of(own.graph.own_order) - 1
            options.say(f"a plan within {size} takes {more:+.2%} time; seeking a faster one")

        order = tuple(search(step.graph, step.seconds, budget, time, steps, _moves(step, options), report))
        excess = max(sequence_of(step.graph, order).peak_bytes - budget, 0)
        return _Tried(excess, step.seconds_of(order), _Chosen(step, order, table, cuts))

    least_time = options.time * (1 - _CUTTING)
    left = max(least_time, options.time - (clock.perf_counter() - begun))
    first = [tried(entry, left * _FIRST / len(steps), _FIRST_STEPS) for entry in steps] if steps[1:] else []
    best = min(range(len(first)), key=lambda k: (first[k].excess, first[k].seconds), default=0)
    left = max(least_time * (1 - _FIRST), options.time - (clock.perf_counter() - begun))
    return min([*first, tried(steps[best], left, STEPS)], key=lambda t: (t.excess, t.seconds)).chosen


def _eagers_or_in_parts(torch: Any, own: Costed, options: PlanOptions, costs: Costs | None, before: _Before) -> _Chosen:
    """The order of least time within the budget of the step as it is, whose results are eager's; where none is found,
    of the step in parts."""
    assert options.budget is not None
    alone, left = replace(options, parts_if_needed=False), options.time
    if largest_op(own.graph)[0] <= options.budget:
        begun = clock.perf_counter()
        chosen = _sought(torch, own, replace(alone, time=options.time * _ALONE), costs, before)
        if sequence_of(own.graph, chosen.order).peak_bytes <= options.budget:
            return chosen
        left = max(_LEAST * options.time, options.time + begun - clock.perf_counter())
    return _sought(torch, own, replace(alone, allow=("recompute", "tile"), time=left), costs, before)


def _lowest(torch: Any, own: Costed, options: PlanOptions, costs: Costs | None, before: _Before) -> _Chosen:
    """The order of least peak within a part of more time, of the step as it is or cut: a point of its curve."""
    once = own.seconds_of(own.graph.own_order)
    most = once * (1 + (options.slower or 0))
    options.say(f"{before.words}; seeking less for {options.time:g} s at most")
    steps = candidates(torch, own, options, costs, most)
    budgets = _budgets(own, steps, POINTS)
    found = []
    for step, cuts, table in steps:
        share = options.time / len(steps)
        order = tuple(lowest(step.graph, step.seconds, most, budgets, share, _moves(step, options)))
        if step.seconds_of(order) <= most * (1 + _ROUNDING) or step is own:
            peak = sequence_of(step.graph, order).peak_bytes
            found.append((peak, step.seconds_of(order), _Chosen(step, order, table, cuts)))
    return min(found, key=lambda entry: entry[:2])[2]


def _moves(step: Costed, options: PlanOptions) -> Moves | None:
    """What may leave memory. Raises `InputError`: the step runs where nothing moves tensors to the host."""
    if "offload" not in options.allow:
        return None
    kind = step.program.device[0]
    if kind not in ("cpu", "cuda"):
        raise InputError(f"offload moves tensors of the CPU and of CUDA, and this step is on {kind}; leave it out")
    if kind == "cuda":
        check_offloading()
    return Moves(movable(step.graph, step.program), step.bandwidth)


def candidates(
    torch: Any, own: Costed, options: PlanOptions, costs: Costs | None, most: float | None = None
) -> list[tuple[Costed, tuple[StepCut, ...], Costs | None]]:
    """The step as it is and, if it may be, cut so that it takes so many seconds at most; each with the table of its
    costs."""
    steps: list[tuple[Costed, tuple[StepCut, ...], Costs | None]] = [(own, (), costs)]
    for cut in usual(torch, own, costs, most) if "tile" in options.allow else ():
        step, table = measured(torch, options, cut.step, costs)
        steps.append((step, cut.records, table))
    return steps


def measured(torch: Any, options: PlanOptions, cut: Costed, costs: Costs | None) -> tuple[Costed, Costs | None]:
    """A cut step with the costs of what is new in it."""
    if not options.measure:
        return cut, costs
    table, _ = measure_ops(cut.program, costs or no_costs(torch, cut.program), None)
    return costed(torch, cut.program, table), table


@dataclass(frozen=True)
class _Tried:
    """What a search reached: bytes above the budget, seconds."""

    excess: int
    seconds: float
    chosen: _Chosen


def _progress(options: PlanOptions) -> Callable[[int, int], None]:
    """Reports of measured ops, the last and one in ten."""

    def report(done: int, total: int) -> None:
        if done == total or done % max(1, total // 10) == 0:
            options.say(f"measured {done} of {total} kinds of op")

    return report


def _moves_what_is(step: Costed, entry: int) -> bool:
    """Whether an entry of a plan stores or loads what may leave memory."""
    moved = entry_of(step.graph, entry)
    return moved is not None and moved[0] in movable(step.graph, step.program)


def _replayed(torch: Any, own: Costed, plan: StepPlan, costs: Costs | None) -> _Chosen:
    if plan.program_sha256 != _digest(own):
        raise InputError("the saved plan is of another step (module, sizes, optimizer or torch differ); plan again")
    step = recut(torch, own, plan.cuts, costs)
    there = step.graph.op_by_id
    known = [op for op in plan.ops if op not in there and not _moves_what_is(step, op)]
    why = f"there is no op {known[0]}" if known else why_not(step.graph, plan.ops)
    if why is not None:
        raise InputError(f"the saved plan does not hold: {why}; plan again")
    return _Chosen(step, tuple(plan.ops), costs, tuple(plan.cuts))
