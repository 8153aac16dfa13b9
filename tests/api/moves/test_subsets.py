"""What all words reach is never above what fewer of them do in the time that they have there, in both modes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import lowtide
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.graph import Graph
from lowtide.plan import Plan
from support.steps import random_attention_step, random_image_step, random_sibling_step, random_step

PLAIN = ("recompute,tile", "recompute,tile,offload", "recompute,tile,merge", "recompute,tile,offload,merge")
SECONDS, SHARE = 2.5, 0.015
"""Of all words; and the part of it that fewer have, which a search by all words gives these at the least."""

KINDS = (random_step, random_attention_step, random_image_step, random_sibling_step)


def _fewer(graph: Graph, allow: str, **how: Any) -> list[tuple[str, Plan]]:
    """Plans by every part of these words, and by micro-batches alone."""
    words = set(allow.split(","))
    alone = priced(graph, stand_in("rtx3090.json")[0].families)
    ways = [("recompute", {}), ("offload", {}), ("recompute,offload", {}), *((w, {}) for w in PLAIN if w != allow)]
    plans = [
        (
            way,
            lowtide.research.plan(graph if "tile" in way else alone, allow=way, time=SECONDS * SHARE, **how, **more),
        )
        for way, more in ways
        if set(way.split(",")) <= words
    ]
    methods = [("microbatch", graph, "recompute,tile")]
    if "budget" in how and "offload" in words:
        methods.append(("pofo", alone, "recompute,offload"))
    for name, step, way in methods:
        with suppress(lowtide.InputError):  # statistics over the batch, or no chain of blocks
            plans.append((name, lowtide.research.plan(step, allow=way, method=name, time=SECONDS * SHARE, **how)))
    return plans


def _added(plan: Plan) -> float:
    told = plan.fission or plan.recomputation
    assert told is not None
    return told.overhead


def _rounded(graph: Graph) -> float:
    """What rounding to nanoseconds may come to, as a part of the time."""
    uncut = sum(op.cost or 0.0 for op in priced(graph, stand_in("rtx3090.json")[0].families).ops)
    return 4e-9 * len(graph.ops) / uncut


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "allow"), list(enumerate(PLAIN)))
def test_within_a_budget_all_words_take_no_more_time_than_fewer(allow: str, seed: int) -> None:
    """Whatever fits the budget by fewer does by all."""
    graph = KINDS[seed % len(KINDS)](seed)
    budget = ("85%", "70%", "50%")[seed % 3]
    plan = lowtide.research.plan(graph, allow=allow, budget=budget, time=SECONDS)
    lowtide.verify(graph, plan)
    for way, fewer in _fewer(graph, allow, budget=budget):
        if fewer.status == "ok":
            assert plan.status == "ok", way
            assert _added(plan) <= _added(fewer) + _rounded(graph), way


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "allow"), list(enumerate(PLAIN[:3])))
def test_within_a_bound_on_time_all_words_need_no_more_bytes_than_fewer(allow: str, seed: int) -> None:
    """From a tenth more time, in which little runs again, to eight times as much."""
    graph = KINDS[seed % len(KINDS)](seed)
    most = (0.1, 0.5, 8.0)[seed % 3]
    plan = lowtide.research.plan(graph, allow=allow, max_overhead=most, time=SECONDS)
    lowtide.verify(graph, plan)
    assert _added(plan) <= most + 1e-9
    for way, fewer in _fewer(graph, allow, max_overhead=most):
        if fewer.status == "ok":
            assert plan.required_bytes <= fewer.required_bytes, way
