"""What a plan says for pictures: the bytes of each step, and when each storage is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lowtide.api.answer import Answer
from lowtide.api.problem import Problem
from lowtide.plan import Plan
from lowtide.profiles import PlanProfile

if TYPE_CHECKING:
    from lowtide.analyse.liveness import Profile
    from lowtide.analyse.storage import MemoryModel


def with_profile(plan: Plan, answer: Answer, problem: Problem) -> Plan:
    """The plan with its profile; `problem` is the user's own graph, of which the answer may have made another."""
    import msgspec

    from lowtide.analyse.liveness import profile

    whole = answer.problem.memory if answer.own_order_peak_bytes is None else problem.memory
    own = profile(whole, range(len(whole.graph.ops)))
    model = _counted(plan, answer)
    steps = None if plan.moves is not None else _as_claimed(plan, model, answer.order)
    return msgspec.structs.replace(plan, profile=plan_profile(model, answer.order, own.footprint, steps))


def _as_claimed(plan: Plan, model: MemoryModel, order: Sequence[int]) -> Profile:
    """The profile of the plan's order with those outputs in place that the plan says, which may be fewer than could.
    What may overlap an input counts as far as it can: its address is the arena's business."""
    from dataclasses import replace

    from lowtide.analyse.liveness import profile

    steps = profile(model, order)
    claimed = {output for output, _ in plan.in_place}
    step_of = {i: step for step, i in enumerate(order)}
    footprint = list(steps.footprint)
    for o in steps.in_place:
        if o.distance is None and o.output not in claimed:
            footprint[step_of[o.op]] += o.saving
    return replace(steps, footprint=tuple(footprint))


def plan_profile(
    model: MemoryModel, order: Sequence[int], own_order_bytes: Sequence[int], steps: Profile | None
) -> PlanProfile:
    """The profile of an order, positions in `model`'s own; without `steps` it is one with moves."""
    ops, tensors = model.graph.ops, model.graph.tensor_by_id
    sizes = {str(s.tensors[0]): s.size for s in model.storages if s.tensors and s.size != tensors[s.tensors[0]].size}
    slices = [model.storages[s].tensors[0] for group in model.groups for s, _ in group]
    lows = {str(t): -model.displacement[t] for t in slices if model.displacement[t]}
    workspaces = {str(ops[i].id): size for i, size in enumerate(model.workspace) if size}
    profile = PlanProfile(own_order_bytes=list(own_order_bytes), sizes=sizes, lows=lows, workspaces=workspaces)
    if steps is None:
        return profile
    count = max(len(order), 1)
    step_of = [0] * len(ops)
    for step, i in enumerate(order):
        step_of[i] = step
    rows: list[tuple[int, int, int]] = []
    used: dict[str, tuple[int, int]] = {}
    for storage, first, last in zip(model.storages, steps.first, steps.last, strict=True):
        if not storage.size:
            continue
        root, life = storage.tensors[0], (max(first, 0), min(last + 1, count))
        rows.append((root, *life))
        at = [step_of[i] for i in storage.users]
        use = (min(at), max(at) + 1) if at else (0, 0)
        if use != life:
            used[str(root)] = use
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return PlanProfile(
        own_order_bytes=profile.own_order_bytes, bytes=list(steps.footprint), storages=columns[0], starts=columns[1],
        ends=columns[2], sizes=sizes, lows=lows, used=used, workspaces=workspaces,
    )  # fmt: skip


def _counted(plan: Plan, answer: Answer) -> MemoryModel:
    """The storages that the plan's order has in memory: of the graph that it runs, parameters too if they are moved."""
    from dataclasses import replace

    from lowtide.analyse.storage import memory_model

    parameters = plan.spilling is not None and plan.spilling.parameters
    if answer.rewritten is None and not parameters:
        return answer.problem.memory
    target = answer.problem.target
    return memory_model(answer.graph, replace(target, constants="always") if parameters else target)
