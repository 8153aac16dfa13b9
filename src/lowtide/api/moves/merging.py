"""Sibling products of a training step as one, before anything is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.fission_plan import PlanMerge
from lowtide.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.cost.labelled import Families
    from lowtide.graph import Op
    from lowtide.transform.siblings import Merged


def merged_step(graph: Graph, families: Families) -> tuple[Graph, list[PlanMerge]]:
    """The step with those sibling products as one that take less time so, one after the other, and which they are."""
    from lowtide.cost.labelled import estimated
    from lowtide.transform.sibling_ops import NoMerge
    from lowtide.transform.siblings import apply, candidates

    predict = estimated(families)

    def seconds(own: Graph, ops: Sequence[Op]) -> float:
        size = {t.id: t.size for t in own.tensors}
        return sum(predict(op.type, op.flops or 0, sum(size[t] for t in (*op.inputs, *op.outputs))) for op in ops)

    merges: list[PlanMerge] = []
    for decision in candidates(graph):
        try:
            change = apply(graph, decision)
        except NoMerge:
            continue
        new = [op for op in change.graph.ops if op.id in change.ops]
        if seconds(change.graph, new) < seconds(graph, change.site.gone):
            graph = change.graph
            merges.append(_as_planned(change))
    return graph, merges


def _as_planned(change: Merged) -> PlanMerge:
    site = change.site

    def ids(ops: Sequence[Op]) -> list[int]:
        return [op.id for op in ops]

    return PlanMerge(
        products=ids(site.products), gradients=ids(site.gradients), updates=ids(site.updates), backs=ids(site.backs),
        turns=ids(site.turns), unturns=ids(site.unturns), sums=ids(site.sums),
        ops=sorted(change.ops), tensors=sorted(change.tensors),
    )  # fmt: skip
