"""Orders to spill from: the own one, and those of least peak."""

from __future__ import annotations

from dataclasses import replace

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.method import Schedule
from lowtide.schedule.registry import make
from lowtide.spill.problem import SpillProblem
from lowtide.stop import Limits


def model_while_used(problem: SpillProblem) -> MemoryModel:
    """The problem's graph with constants counted only while ops read them, as orders of least peak are judged."""
    model = problem.model
    if model.target.constants != "always":
        return model
    return memory_model(model.graph, replace(model.target, constants="while_used"))


def order_by(name: str, problem: SpillProblem, limits: Limits) -> tuple[int, ...]:
    """Positions in own order: the own order, or what scheduling method `name` finds (least peak, without spilling)."""
    if name == "own":
        return tuple(range(problem.steps))
    return make(name).schedule(model_while_used(problem), limits).order


def least_peak(problem: SpillProblem, limits: Limits) -> Schedule:
    """The order of least peak as `order_by` finds it, with the bytes that no order's peak is below, and why."""
    return make("exact").schedule(model_while_used(problem), limits)
