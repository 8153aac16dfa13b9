"""New ops of a plan: which of the user's ops each recomputes, and those that take the place of others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import Recompute, Sections, Sums

Replacement = tuple[Sections | Sums, list[Op], list[Tensor]]
"""What the plan says is replaced, by which ops, and the tensors that only these have."""


def fail(why: str) -> VerificationError:
    """An error about the ops of a plan."""
    return VerificationError("rewrites", why)


def with_replacements(graph: Graph, replacements: Iterable[Replacement], how: str) -> Graph:
    """The graph with new ops where `Sections.op` or `Sums.op` was; all ops of `gone` are left out. `how`: what is done
    to an op, for messages: "as sums". Raises `VerificationError`: ``rewrites``: a new op or tensor has an id that is
    taken, an op is gone twice, or the result is no graph."""
    ops = {op.id: [op] for op in graph.ops}
    tensors = {t.id: t for t in graph.tensors}
    taken = {op.id for op in (*graph.ops, *graph.folded)}
    gone: set[int] = set()
    for r, new_ops, new_tensors in replacements:
        if not taken.isdisjoint(r.ops) or any(t.id in tensors for t in new_tensors):
            raise fail(f"op {r.op} {how} has ops or tensors that are there")
        taken.update(r.ops)
        tensors |= {t.id: t for t in new_tensors}
        if not gone.isdisjoint(r.gone):
            raise fail(f"op {min(gone.intersection(r.gone))} is gone twice")
        gone.update(r.gone)
        ops |= {o: [] for o in r.gone} | {r.op: new_ops}
    left = tuple(op for own in graph.ops for op in ops[own.id])
    used = {t for op in (*left, *graph.folded) for t in (*op.inputs, *op.outputs)}
    lost = {t for o in gone for t in graph.op_by_id[o].outputs} - used
    kept = tuple(t for t in tensors.values() if t.id not in lost)
    try:
        return replace(graph, tensors=kept, ops=left, file_order=())
    except InputError as error:
        raise fail(f"the graph with an op {how} cannot be: {error}") from None


def origins(plan: Plan) -> dict[int, int]:
    """Of each recomputed op the user's op that it is a run of."""
    result: dict[int, int] = {}
    for r in plan.all_rewrites:
        if isinstance(r, Recompute):
            result[r.op] = result.get(r.of, r.of)
    return result
