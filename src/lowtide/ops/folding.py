"""What depends on constants only: set apart before the first step, or run every time, as the runtime does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lowtide.graph import Graph, Kind, Op, Tensor


def fold_constants(tensors: Iterable[Tensor], ops: Iterable[Op]) -> tuple[list[Tensor], list[Op], list[Op]]:
    """Set apart the ops that read constants only, and mark what they make as constant.

    An op without inputs is folded only if its type is ``Constant``; an op with the attribute ``random`` is not
    folded, since it makes something else on every run.
    Returns the tensors, the ops that remain, and the folded ones, each in the order given.
    """
    constant = {t.id for t in tensors if t.kind is Kind.CONSTANT}
    remaining: list[Op] = []
    folded: list[Op] = []
    for op in ops:
        fixed = op.inputs and constant.issuperset(op.inputs) and not op.attributes.get("random")
        if op.type == "Constant" or fixed:
            folded.append(op)
            constant.update(op.outputs)
        else:
            remaining.append(op)
    marked = [
        replace(t, kind=Kind.CONSTANT) if t.id in constant and t.kind is not Kind.CONSTANT else t for t in tensors
    ]
    return marked, remaining, folded


def run_folded(graph: Graph) -> Graph:
    """The same graph for a runtime that computes on every run what depends on constants only, at its place in the file.

    Ops of type ``Constant`` stay folded.
    """
    running = [op for op in graph.folded if op.type != "Constant"]
    if not running:
        return graph
    computed = {t for op in running for t in op.outputs}
    return replace(
        graph,
        tensors=tuple(replace(t, kind=Kind.ACTIVATION) if t.id in computed else t for t in graph.tensors),
        ops=tuple(sorted((*graph.ops, *running), key=lambda op: op.id)),
        folded=tuple(op for op in graph.folded if op.type == "Constant"),
    )
