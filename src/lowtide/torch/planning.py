"""From a program to a planned one: costs, a search for a sequence or a saved one, the source."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.names import brief
from lowtide.sizes import format_size
from lowtide.torch.cost import Costs, roofline, signature
from lowtide.torch.generate import source_of
from lowtide.torch.meter import measure_ops, no_costs
from lowtide.torch.program import Program
from lowtide.torch.search import floor, search
from lowtide.torch.sequence import Sequence, sequence_of, why_not
from lowtide.torch.step_plan import StepPlan
from lowtide.torch.storages import as_graph
from lowtide.torch.work import operations_of


@dataclass(frozen=True)
class Wishes:
    """What a call asks of a plan: bytes, a cost table or None, whether to measure what is missing, seconds of search,
    a plan to replay, and who is told of progress."""

    budget: int | None = None
    costs: Costs | None = None
    measure: bool = True
    time: float = 10.0
    plan: StepPlan | None = None
    report: Callable[[str], None] | None = None

    def say(self, line: str) -> None:
        """Report progress to whoever listens."""
        if self.report is not None:
            self.report(line)


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


def plan_program(torch: Any, program: Program, wishes: Wishes) -> Planned:
    """Plan a program.

    Raises
    ------
    InputError
        No plan within the budget is known; or the plan to replay is not of this program.
    """
    costs = wishes.costs
    if wishes.measure:
        costs, _ = measure_ops(program, costs or no_costs(torch, program), _progress(wishes))
    graph, seconds, unmeasured = _with_costs(torch, program, costs)
    own = sequence_of(graph, graph.own_order)
    least, at = floor(graph)
    if wishes.budget is not None and least > wishes.budget:
        message = f"no plan is within {format_size(wishes.budget)}: {graph.op_by_id[at].label} alone takes"
        raise InputError(f"{message} {format_size(least)}, with what it reads and its workspace", program.name)
    digest = hashlib.sha256(source_of(program, own).encode()).hexdigest()
    if wishes.plan is None and wishes.budget is not None:
        own_size, size = format_size(own.peak_bytes), format_size(wishes.budget)
        wishes.say(f"own order takes {own_size}; seeking {size} for {wishes.time:g} s at most")
    order = search(graph, seconds, wishes.budget, wishes.time) if wishes.plan is None else _replayed(
        graph, wishes.plan, digest)  # fmt: skip
    sequence = sequence_of(graph, order)
    plan = StepPlan(
        program_sha256=digest, costs_sha256="" if costs is None else costs.sha256, torch=str(torch.__version__),
        ops=list(order), budget_bytes=wishes.budget, peak_bytes=sequence.peak_bytes,
        own_order_peak_bytes=own.peak_bytes, floor_bytes=least, seconds=sum(seconds[op] for op in order),
        own_order_seconds=sum(seconds[op] for op in graph.own_order), unmeasured=unmeasured,
    )  # fmt: skip
    if wishes.budget is not None and plan.peak_bytes > wishes.budget:
        message = f"no plan within {format_size(wishes.budget)} was found: the best takes"
        more = "give more bytes or more time; that there is none is not proved"
        raise InputError(f"{message} {format_size(plan.peak_bytes)}; {more}", program.name)
    return Planned(program, graph, sequence, plan, source_of(program, sequence), costs)


def _progress(wishes: Wishes) -> Callable[[int, int], None]:
    """Reports of measured ops, the last and one in ten."""

    def report(done: int, total: int) -> None:
        if done == total or done % max(1, total // 10) == 0:
            wishes.say(f"measured {done} of {total} kinds of op")

    return report


def _with_costs(torch: Any, program: Program, costs: Costs | None) -> tuple[Graph, dict[int, float], int]:
    """The graph with real sizes and workspace, seconds of each op, and how many ops are not measured."""
    known = {} if costs is None else costs.by_signature
    sizes: dict[str, int] = {}
    workspace: dict[str, int] = {}
    seconds: dict[int, float] = {}
    keys = [signature(program, action) for action in program.actions]
    unmeasured = sum(key not in known for key in keys)
    operations = operations_of(torch, program) if unmeasured else ()
    for k, action in enumerate(program.actions):
        cost = known.get(keys[k])
        if cost is None:
            seconds[k] = roofline(program, action, operations[k])
            continue
        seconds[k], workspace[action.name] = cost.seconds, cost.workspace_bytes
        for name, size in zip(action.outputs, cost.output_bytes, strict=False):
            if name is not None:
                sizes[name] = size
    return as_graph(program, sizes, workspace), seconds, unmeasured


def _replayed(graph: Graph, plan: StepPlan, digest: str) -> list[int]:
    if plan.program_sha256 != digest:
        raise InputError("the saved plan is of another step (module, sizes, optimizer or torch differ); plan again")
    there = graph.op_by_id
    why = next((f"there is no op {op}" for op in plan.ops if op not in there), None) or why_not(graph, plan.ops)
    if why is not None:
        raise InputError(f"the saved plan does not hold: {why}; plan again")
    return plan.ops
