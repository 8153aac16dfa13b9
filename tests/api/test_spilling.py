"""Plans with spilling: what cannot fit is said to be impossible, with what is in conflict."""

from __future__ import annotations

import pytest

import lowtide
from lowtide.api import too_small
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan


def two_outputs() -> Graph:
    """Two outputs of 64,000 bytes that nobody reads."""
    tensors = (Tensor(1, 64_000, Kind.OUTPUT), Tensor(2, 64_000, Kind.OUTPUT))
    return Graph("e", tensors, (Op(1, (), (1,)), Op(2, (), (2,))), sha256="1" * 64)


@pytest.mark.parametrize("options", [{}, {"states": "5"}])
def test_outputs_that_do_not_fit_together_at_the_end_are_no_plan(options: dict[str, str]) -> None:
    """They are named, whatever the search is given; without the option they leave once they are written."""
    graph, memories = two_outputs(), {"fast": 70_496}
    plan = lowtide.plan(graph, memories=memories, moves={"outputs_end_fast": "true"}, options=options)
    assert (plan.status, plan.moves) == ("impossible", None)
    assert plan.conflict is not None
    assert sorted(plan.conflict.tensors) == [1, 2]
    assert (plan.conflict.needed_bytes, plan.conflict.minimal) == (128_000, True)
    assert too_small(plan, memories) == "the graph outputs need 128,000 B at once at the end; fast has 70,496 B"
    verify_plan(graph, plan, BUILT_IN["generic"])
    assert lowtide.plan(graph, memories=memories, options=options).traffic_bytes == 0


@pytest.mark.parametrize("method", ["belady", "greedy-spill"])
def test_a_simulated_arena_says_that_outputs_do_not_fit(method: str) -> None:
    """The schemes that place step by step come to the same answer."""
    plan = lowtide.plan(two_outputs(), memories={"fast": 70_496}, moves={"outputs_end_fast": "true"}, method=method)
    assert plan.status == "impossible"
