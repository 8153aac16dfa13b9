"""The graph that a plan with rewrites speaks of, built again from the user's own graph and checked on the way."""

from __future__ import annotations

from dataclasses import replace

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.table import kind_of
from lowtide.plan import Plan
from lowtide.rewrites import Recompute
from lowtide.verify.check.parts import has_cuts, parted


def rewritten(graph: Graph, plan: Plan) -> Graph:
    """The graph with the plan's recomputed ops, or in the plan's parts.

    Raises
    ------
    VerificationError
        ``rewrites``: a clone of nothing, of another op than `ops` says, with outputs of other sizes, for an op that
        does not read what it replaces, or of an op that may give something else the second time.
        ``parts``: as `lowtide.verify.check.parts.parted`.
    """
    clones = [r for r in plan.rewrites or () if isinstance(r, Recompute)]
    listed = {op.id: op.recompute_of for op in plan.ops if op.recompute_of is not None}
    if listed != {r.op: r.of for r in clones}:
        raise VerificationError("rewrites", "the ops say that others are recomputed than the rewrites do")
    if has_cuts(plan):
        if clones:
            raise VerificationError("rewrites", "ops are recomputed in a plan that cuts")
        return parted(graph, plan)
    for r in clones:
        original = next((op for op in graph.ops if op.id == r.of), None)
        if original is None or r.op in graph.op_by_id or len(r.outputs) != len(original.outputs):
            raise VerificationError("rewrites", f"op {r.op} cannot be op {r.of} once more")
        if r.replaced not in original.outputs or any(t in graph.tensor_by_id for t in r.outputs):
            raise VerificationError("rewrites", f"op {r.op} cannot make tensor {r.replaced} once more")
        _check_repeats(graph, original)
        pairs = dict(zip(original.outputs, r.outputs, strict=True))
        names = {t.id: t.name for t in plan.tensors}
        op_names = {op.id: op.name for op in plan.ops}
        tensors = [
            replace(graph.tensor_by_id[t], id=new, kind=Kind.ACTIVATION, name=names.get(new, ""))
            for t, new in pairs.items()
        ]
        ops = []
        for op in graph.ops:
            if op.id in r.readers:
                if r.replaced not in op.inputs:
                    raise VerificationError("rewrites", f"op {op.id} does not read tensor {r.replaced}")
                op = replace(
                    op,
                    inputs=tuple(pairs[t] if t == r.replaced else t for t in op.inputs),
                    operands=tuple(pairs[r.replaced] if t == r.replaced else t for t in op.operands),
                )
            ops.append(op)
            if op.id == r.of:
                ops.append(replace(op, id=r.op, name=op_names.get(r.op, ""), outputs=tuple(pairs.values())))
        if len(set(r.readers)) != len(r.readers) or not set(r.readers) <= {op.id for op in graph.ops}:
            raise VerificationError("rewrites", f"op {r.op} is for readers that are not there")
        graph = replace(graph, tensors=(*graph.tensors, *tensors), ops=tuple(ops))
    return graph


def _check_repeats(graph: Graph, op: Op) -> None:
    """Whenever an op runs, it reads the same and makes the same, in memory of its own."""
    memory: dict[int, int] = {}
    for t in graph.tensors:
        at = t
        while at.alias_of is not None:
            at = graph.tensor_by_id[at.alias_of]
        memory[t.id] = at.id
    if op.attributes.get("random"):
        raise VerificationError("rewrites", f"{op.label} makes something else on every run")
    if any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs):
        raise VerificationError("rewrites", f"{op.label} writes into the memory of another tensor")
    read = {memory[t] for t in op.inputs}
    for later in graph.ops[graph.index_of[op.id] + 1 :]:
        row = kind_of(later.type)
        written = [t for t in later.outputs if graph.tensor_by_id[t].alias_of is not None and memory[t] in read]
        if written and not (row is not None and row.view):
            raise VerificationError("rewrites", f"{later.label} writes over what {op.label} reads")
