"""Bounds on all plans that tile and recompute: on the peak within a time, or on the time within a budget."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lowtide.analyse.liveness import profile
from lowtide.api.problem import Problem
from lowtide.optimize.joint_bound import JointProblem, joint_bound, within_bytes, within_units
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.cost.labelled import Families

_PART, _OPS = 0.06, 12
"""Part of the time that is taken for it, and ops that it is looked for at, those of the highest steps first."""


def bound_on_plans(
    problem: Problem,
    order: Sequence[int],
    families: Families,
    most_seconds: float | None,
    budget: int | None,
    floor: int,
    limits: Limits,
) -> Mapping[str, Any]:
    """Fields of a plan's `StepFission` on all plans within a bound on time, or within a budget. `problem`, `order`: the
    priced step, and positions in a good order of it. `floor`: bytes that no plan needs less than, whatever it takes."""
    if limits.interrupt.seen or (most_seconds is None and budget is None):
        return {}
    began, model = time.perf_counter(), problem.memory
    until = began + min(limits.left_seconds, limits.seconds * _PART)
    joint = JointProblem(model, families)
    footprint = profile(model, order).footprint
    steps = sorted(range(len(footprint)), key=lambda step: -footprint[step])
    ops = [order[step] for step in steps[:: -(-len(steps) // _OPS)]]
    shown = within_bytes(joint, budget) if budget is not None else within_units(joint, most_seconds or 0.0)
    bound = joint_bound(joint, ops, shown, lambda: time.perf_counter() > until)
    if budget is not None:
        uncut = sum(op.cost or 0.0 for op in model.graph.ops)
        return {"least_seconds": bound.value / joint.scale, "cuts": list(bound.cuts)} if uncut else {}
    if bound.value <= floor:
        return {"least_peak_bytes": floor}
    return {"least_peak_bytes": bound.value, "cuts": list(bound.cuts)}
