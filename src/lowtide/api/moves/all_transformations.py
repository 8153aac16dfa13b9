"""What `allow="all"` means: every change that a model's format, the target and the goal have."""

from __future__ import annotations

from dataclasses import replace

from lowtide.api.costs import find_costs
from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import Job
from lowtide.api.models import load
from lowtide.api.problem import aliasing_target
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.ops.part import adapter
from lowtide.rewrites import ALL
from lowtide.target import Target

MOST_OVERHEAD = 0.05
"""Part of a model's operations that may be recomputed where a call bounds neither them nor the memory."""


def with_all_transformations(job: Job) -> Job:
    """The job with every change by name, and its model read; the job itself if it names its changes."""
    if job.allow != (ALL,):
        return job
    graph = load(job.model, job.dims)
    names = _names(job, graph)
    costs, goal = job.costs, job.goal
    recomputes = bool({"recompute", "recompute-halos"} & {*names})
    if recomputes and isinstance(goal, OneArena) and costs is None and goal.budget is None and not goal.share:
        costs = find_costs(None, MOST_OVERHEAD)
    if costs is not None and not costs.given and "recompute-halos" in names:
        costs = costs.of_operations(graph.dialect)
    return replace(job.of_graph(graph), allow=names, costs=costs if names else None)


def _names(job: Job, graph: Graph) -> tuple[str, ...]:
    """The names of the changes."""
    onnx = graph.dialect == "onnx"
    if isinstance(job.goal, FastMemory):
        tiled = adapter(graph) is not None and not job.goal.moves.rematerialise
        return (("tile", "nest-tiles", "concat") if onnx else ("tile",)) if tiled else ()
    if not isinstance(job.goal, OneArena) or job.rules.named:
        return ()
    if job.target.max_tensor and (graph.dialect == "labels" or adapter(graph) is None):
        return ()
    if job.target.name.partition(",")[0] == "loops":
        return ("row-streaming",)
    if job.target.chains != "apart" or job.target.aliases_keep_file_layout:
        return ("alias",) if _aliases(job.target) else ()
    bounded, timed = not (job.exact_bits or job.max_ops or job.goal.spread), job.costs is not None and job.costs.given
    if graph.dialect == "labels":
        return ("recompute", "tile", "merge") if bounded and not job.target.rule else ()
    if adapter(graph) is None:
        return ("recompute",) if bounded else ()
    names = ["tile", "recompute-halos"]
    names += ["nest-tiles"] if job.target.rule != "tflm" and not timed else []
    names += ["concat"] if onnx else []
    names += ["alias"] if _aliases(job.target) else []
    names += ["recompute"] if onnx and bounded and not timed else []
    return tuple(names)


def _aliases(target: Target) -> bool:
    """Whether tensors may lie in others under a target."""
    try:
        aliasing_target(target)
    except InputError:
        return False
    return True
