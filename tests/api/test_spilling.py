"""Plans with spilling: what cannot fit is said to be impossible, with what is in conflict."""

from __future__ import annotations

import msgspec
import pytest

import lowtide
from lowtide.api import too_small
from lowtide.errors import VerificationError
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
    plan = lowtide.research.plan(graph, memories=memories, moves={"outputs_end_fast": "true"}, options=options)
    assert (plan.status, plan.moves) == ("impossible", None)
    assert plan.conflict is not None
    assert sorted(plan.conflict.tensors) == [1, 2]
    assert (plan.conflict.needed_bytes, plan.conflict.minimal) == (128_000, True)
    assert too_small(plan, memories) == "the graph outputs need 128,000 B at once at the end; fast has 70,496 B"
    verify_plan(graph, plan, BUILT_IN["generic"])
    assert lowtide.research.plan(graph, memories=memories, options=options).traffic_bytes == 0


@pytest.mark.parametrize("method", ["belady", "greedy-spill"])
def test_a_simulated_arena_says_that_outputs_do_not_fit(method: str) -> None:
    """The schemes that place step by step come to the same answer."""
    plan = lowtide.research.plan(
        two_outputs(), memories={"fast": 70_496}, moves={"outputs_end_fast": "true"}, method=method
    )
    assert plan.status == "impossible"


def in_and_out() -> Graph:
    """50 bytes are read, 36 made: in steps of 64 they lie at 0 and 64, and end at 100."""
    tensors = (Tensor(1, 50, Kind.INPUT), Tensor(2, 36, Kind.OUTPUT))
    return Graph("io", tensors, (Op(1, (1,), (2,)),), sha256="1" * 64)


@pytest.mark.parametrize(
    ("size", "status"),
    [(64, "impossible"), (85, "impossible"), (86, "over_budget"), (100, "over_budget"), (128, "ok")],
)
def test_it_is_impossible_only_where_no_aligned_offsets_fit(size: int, status: str) -> None:
    """In 100 bytes there is a placement that rounded sizes miss, so that nothing is said to be proved."""
    graph = in_and_out()
    plan = lowtide.research.plan(graph, memories={"fast": size})
    assert (plan.status, plan.moves is None) == (status, status != "ok")
    verify_plan(graph, plan, BUILT_IN["generic"])
    if status == "over_budget":
        forged = msgspec.structs.replace(plan, status="impossible")
        with pytest.raises(VerificationError, match="status"):
            verify_plan(graph, forged, BUILT_IN["generic"])


def test_a_bound_on_traffic_holds_for_aligned_offsets() -> None:
    """Of a capacity between two multiples the lower one is used, and the bound that this gives is not said."""
    tensors = (Tensor(0, 64, Kind.INPUT), *(Tensor(t, 64) for t in (1, 2, 3)), Tensor(4, 64, Kind.OUTPUT))
    ops = (Op(0, (0,), (1,)), Op(1, (1,), (2,)), Op(2, (2, 0), (3,)), Op(3, (3, 1), (4,)))
    graph = Graph("skip", tensors, ops, sha256="1" * 64)
    whole = lowtide.research.plan(graph, memories={"fast": 192})
    assert whole.optimal
    assert whole.traffic_lower_bound_bytes
    between = lowtide.research.plan(graph, memories={"fast": 193})
    assert between.traffic_bytes == whole.traffic_bytes
    assert (between.traffic_lower_bound_bytes, between.optimal) == (0, False)
    assert lowtide.research.plan(graph, memories={"fast": 320}).optimal
