"""The checker's own way to a step with siblings as one: equal to the planner's, and claims that are wrong refused."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from lowtide.api.moves.merging import _as_planned
from lowtide.errors import VerificationError
from lowtide.fission_plan import PlanMerge
from lowtide.graph import Graph, Kind, Op
from lowtide.transform.siblings import apply, candidates, why_not
from lowtide.verify.check.siblings import with_merges
from support.steps import random_attention_step, random_sibling_step


def _all(graph: Graph) -> tuple[Graph, list[PlanMerge]]:
    """The step with all siblings as one, and what a plan says of them."""
    merges: list[PlanMerge] = []
    for siblings in candidates(graph):
        if why_not(graph, siblings) is None:
            change = apply(graph, siblings)
            graph = change.graph
            merges.append(_as_planned(change))
    return graph, merges


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_same_step(seed: int) -> None:
    """Ops in order with names, labels and operations, tensors with sizes and kinds."""
    graph = (random_sibling_step if seed % 2 else random_attention_step)(seed)
    planned, merges = _all(graph)
    checked = with_merges(graph, merges)
    assert checked.ops == planned.ops
    assert checked.tensors == planned.tensors


STEPS = ((g, *_all(g)) for seed in range(1, 200, 2) for g in [random_sibling_step(seed)])
GRAPH, _, MERGES = next(step for step in STEPS if any(m.turns and m.backs for m in step[2]))
AT = next(i for i, m in enumerate(MERGES) if m.turns and m.backs)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("products", lambda m: m.products[::-1]),
        ("products", lambda m: m.products[:1]),
        ("gradients", lambda m: m.gradients[::-1]),
        ("updates", lambda m: m.updates[::-1]),
        ("backs", lambda m: m.backs[::-1]),
        ("backs", lambda _: []),
        ("turns", lambda m: m.turns[::-1]),
        ("turns", lambda m: m.unturns),
        ("unturns", lambda m: m.unturns[::-1]),
        ("sums", lambda m: m.sums[1:]),
        ("sums", lambda _: []),
        ("ops", lambda m: [v + 1 for v in m.ops]),
        ("tensors", lambda m: m.tensors[1:]),
        ("products", lambda m: [*m.products[:-1], 999_999]),
        ("updates", lambda m: m.products),
    ],
)  # fmt: skip
def test_a_wrong_claim_is_refused(field: str, value: object) -> None:
    """Siblings in another order, too few, other ops, other ids."""
    assert callable(value)
    wrong = msgspec.structs.replace(MERGES[AT], **{field: value(MERGES[AT])})
    with pytest.raises(VerificationError):
        with_merges(GRAPH, [*MERGES[:AT], wrong])


def test_a_weight_that_others_read_is_refused() -> None:
    """The plan of a step, for one in which a weight is watched."""
    weight = GRAPH.op_by_id[MERGES[0].products[0]].inputs[1]
    words = " ".join("abcd"[: len(GRAPH.tensor_by_id[weight].shape or ())])
    seen = replace(GRAPH.tensor_by_id[weight], id=9000, kind=Kind.OUTPUT, name="seen")
    watch = Op(9000, (weight,), (9000,), "watch", "relu", flops=1, attributes={"labels": f"{words} -> {words}"})
    watched = replace(GRAPH, tensors=(*GRAPH.tensors, seen), ops=(*GRAPH.ops, watch))
    with pytest.raises(VerificationError, match="read by others"):
        with_merges(watched, MERGES[:1])
