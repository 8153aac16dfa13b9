"""The model of a plan with recomputed operators: rebuilt from what the plan says, and written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.api.models import load
from lowtide.api.problem import Rules
from lowtide.errors import InputError
from lowtide.graph import Graph, Op
from lowtide.plan import Plan
from lowtide.rewrites import Recompute
from lowtide.sizes import NO_DIMS, Dims

if TYPE_CHECKING:
    from lowtide.outputs import Outputs
    from lowtide.transform.runs import Runs


def write_repeated(
    plan: Plan,
    source: str | Path,
    out: str | Path,
    *,
    dims: Dims = NO_DIMS,
    copy_external: bool | None = False,
    outputs: Outputs | None = None,
) -> None:
    """Write the ONNX model of a plan with recomputed operators: a node for each run, all else as it was. Raises
    `InputError`: as `repeated_graph`, and `lowtide.write.onnx_parts.write_onnx_parts`; or a body (of an If, a Loop)
    reads what is recomputed, by its name."""
    from lowtide.transform.runs import as_parts
    from lowtide.write.onnx_parts import write_onnx_parts

    graph, runs = repeated_graph(plan, source, dims)
    for op in runs.graph.ops:
        hidden = _only_in_bodies(op)
        if hidden - {t.id for t in graph.tensors}:
            raise InputError(
                f"{op.label} has a body that reads a recomputed tensor, and names in bodies are not changed; write the "
                "plan alone",
                str(source),
            )
    write_onnx_parts(source, as_parts(graph, runs), plan.order, out, copy_external, outputs)


def _only_in_bodies(op: Op) -> set[int]:
    """Tensors that an op reads, and not by a position of its own."""
    return set(op.inputs).difference(t for t in op.operands if t is not None) if op.operands else set()


def repeated_graph(plan: Plan, model: Graph | str | Path, dims: Dims = NO_DIMS) -> tuple[Graph, Runs]:
    """The user's graph, and that of a plan with recomputed operators, rebuilt from its order. Raises `InputError`: the
    rewrites are not what the order gives: the plan was changed by hand."""
    from lowtide.transform.runs import apply

    target = Rules.of_plan(plan).resolve()
    graph = target.as_seen(load(model, dims if isinstance(model, Graph) else plan.sizes(dims)))
    clones = {r.op: r.of for r in plan.rewrites or () if isinstance(r, Recompute)}
    own = [clones.get(v, v) for v in plan.order]
    place = graph.source or graph.name
    if not set(own) <= set(graph.index_of):
        raise InputError("its order names operators that the model does not have; plan the model again", place)
    runs = apply(graph, [graph.index_of[v] for v in own])
    if list(runs.order) != plan.order or list(runs.rewrites) != list(plan.rewrites or ()):
        raise InputError("its rewrites do not follow from its order; plan the model again", place)
    return graph, runs
