from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan, PlanConflict
from lowtide.report.conflict import conflict_text, set_text
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from support.random_graphs import random_graph
from support.small_models import branches, graph_file


def example(folder: Path) -> tuple[Graph, Plan]:
    """Two branches of 100 bytes each in the model's own order, and 150 bytes for them."""
    graph = lowtide.load(graph_file(folder, branches()))
    return graph, lowtide.research.plan(graph, target="strict", method="own", budget=150)


def failure_of(graph: Graph, plan: Plan, target: str = "strict") -> str:
    """Name of the check that fails, or nothing."""
    try:
        verify_plan(graph, plan, BUILT_IN[target])
    except VerificationError as error:
        return error.failure
    return ""


def test_the_two_that_are_too_much(tmp_path: Path):
    """Both at the step at which the second is made; in words, with the op."""
    graph, plan = example(tmp_path)
    assert plan.conflict == PlanConflict(
        tensors=[1, 2], workspaces=[], step=1, available_bytes=150, needed_bytes=200, minimal=True
    )
    assert conflict_text(plan) == "t1 100 B, t2 100 B cannot share 150 B at step 1, op1 (Conv) (200 B needed)"
    held = msgspec.structs.replace(plan, budget_bytes=180, reserve_bytes=30)
    assert "cannot share 150 B (budget 180 B less 30 B of reserve) at step 1, op1" in str(conflict_text(held))
    assert failure_of(graph, plan) == ""


MUTATIONS: dict[str, dict[str, Any]] = {
    "less room than there is": {"available_bytes": 149},
    "what fits": {"needed_bytes": 150},
    "more than they have": {"needed_bytes": 201},
    "one that is not there": {"tensors": [1, 3]},
    "one that is no tensor": {"tensors": [1, 77]},
    "one twice": {"tensors": [1, 1]},
    "a workspace of nothing": {"workspaces": [1]},
    "no step of the plan": {"step": 99},
    "one too many": {"tensors": [0, 1, 2], "needed_bytes": 208},
}


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_wrong_conflict_is_found(tmp_path: Path, name: str):
    """Each of these is refused under the name `conflict`."""
    graph, plan = example(tmp_path)
    assert plan.conflict is not None
    wrong = msgspec.structs.replace(plan.conflict, **MUTATIONS[name])
    assert failure_of(graph, msgspec.structs.replace(plan, conflict=wrong)) == "conflict"


def test_a_plan_that_fits_has_none(tmp_path: Path):
    """Within the budget nothing is in conflict, and nothing may be said to be."""
    graph, over = example(tmp_path)
    fits = lowtide.research.plan(graph, target="strict", budget=150)
    assert fits.conflict is None
    assert failure_of(graph, msgspec.structs.replace(fits, conflict=over.conflict)) == "conflict"


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["strict", "generic", "hmcos"]), st.floats(0.3, 0.99))
def test_random_plans_over_budget_say_why(seed: int, target: str, share: float):
    """Where a step alone is too much there is always a conflict, minimal, and it passes the check."""
    graph = random_graph(Random(seed))
    whole = lowtide.research.plan(graph, target=target, method="greedy")
    budget = max(1, int(share * (whole.arena_bytes or 0)))
    plan = lowtide.research.plan(graph, target=target, method="greedy", budget=budget)
    if plan.status == "ok":
        assert plan.conflict is None
        return
    if budget < (plan.arena_lower_bound_bytes or 0):
        assert plan.conflict is not None
        assert plan.conflict.minimal
    assert failure_of(graph, plan, target) == ""


def test_what_cannot_be_divided_among_memories():
    """Three of 5 bytes and two memories of 8: named, checked, and refused where they can be divided."""
    tensors = (Tensor(0, 5, Kind.INPUT, "a"), Tensor(1, 5, Kind.INPUT, "b"), Tensor(2, 5, Kind.OUTPUT, "c"))
    graph = Graph("g", tensors, (Op(0, (0, 1), (2,), "add", "Conv"),))
    plan = lowtide.research.plan(graph, target="strict", banks={"f": 8, "s": 8})
    assert conflict_text(plan) == (
        "a 5 B, b 5 B, c 5 B cannot be divided among f 8 B, s 8 B at step 0, add (Conv) (15 B needed)"
    )
    assert failure_of(graph, plan) == ""
    assert plan.conflict is not None
    for changes in ({"tensors": [0, 1], "needed_bytes": 10}, {"needed_bytes": 14}, {"step": None}):
        wrong = msgspec.structs.replace(plan.conflict, **changes)
        assert failure_of(graph, msgspec.structs.replace(plan, conflict=wrong)) == "conflict"


def test_long_sets_are_cut():
    """Six are named, the largest first; without a step it says that it is proved."""
    text = set_text([(f"t{i}", i) for i in range(1, 10)], 7, 9, None)
    assert text.startswith("t9 9 B, t8 8 B, t7 7 B, t6 6 B, t5 5 B, t4 4 B and 3 more cannot share 7 B, although")
    assert set_text([("a", 9)], 7, 9, "step 0") == "a 9 B does not fit the 7 B that are left at step 0"
