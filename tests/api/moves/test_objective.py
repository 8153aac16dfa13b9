"""Which of two plans is better: within a budget the least work, else the fewest bytes; between memories the traffic."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lowtide.api.answer import Answer
from lowtide.api.moves.objective import LeastMemory, LeastTraffic


def _plan(required: int, work: float = 0.0, ops: int = 1, above_limit: int = 0, **keys: Any) -> Answer:
    """What a comparison reads of a plan."""
    own = {"required_bytes": required, "peak_bytes": required, **keys}
    if work:
        own["recomputation"] = SimpleNamespace(planned=work)
    graph = SimpleNamespace(ops=[None] * ops)
    return cast("Answer", SimpleNamespace(keys=own, graph=graph, above_limit=above_limit))


@pytest.mark.parametrize(("required", "work"), list(product((8, 10, 12), (0.0, 1.0, 2.0))))
@pytest.mark.parametrize(("other", "more"), list(product((8, 10, 12), (0.0, 1.0, 2.0))))
def test_a_budget_comes_before_work_and_work_before_bytes(required: int, work: float, other: int, more: float) -> None:
    """Without a budget bytes come first; both as the definition says, case by case."""
    one, two = _plan(required, work), _plan(other, more)
    free = LeastMemory(None)
    if required != other:
        assert (free.key(one) < free.key(two)) == (required < other)
    elif work != more:
        assert (free.key(one) < free.key(two)) == (work < more)
    within = LeastMemory(10)
    if (required <= 10) != (other <= 10):
        assert (within.key(one) < within.key(two)) == (required <= 10)
    elif required <= 10 and work != more:
        assert (within.key(one) < within.key(two)) == (work < more)
    elif required > 10 and required != other:
        assert (within.key(one) < within.key(two)) == (required < other)


def test_equal_plans_are_told_apart_by_their_operators() -> None:
    """Fewer are better."""
    assert LeastMemory(None).key(_plan(8, ops=3)) < LeastMemory(None).key(_plan(8, ops=4))
    assert LeastTraffic().key(_plan(8, ops=3, moves=[])) < LeastTraffic().key(_plan(8, ops=4, moves=[]))


def test_a_limit_of_single_tensors_comes_before_bytes() -> None:
    """A plan whose largest tensor is within the limit is better, whatever it takes; then the nearer one."""
    key = LeastMemory(None).key
    assert key(_plan(12)) < key(_plan(8, above_limit=2)) < key(_plan(8, above_limit=3))


@pytest.mark.parametrize(
    ("objective", "plan", "enough"),
    [
        (LeastMemory(None), _plan(0), False),
        (LeastMemory(10), _plan(10), True),
        (LeastMemory(10), _plan(11), False),
        (LeastMemory(10, thorough=True), _plan(1), False),
        (LeastMemory(10), _plan(10, fission=SimpleNamespace(overhead=0.1, predicted_seconds=1.0)), False),
        (LeastMemory(10), _plan(10, fission=SimpleNamespace(overhead=0.0, predicted_seconds=1.0)), True),
        (LeastTraffic(), _plan(10, moves=[], traffic_bytes=1), False),
        (LeastTraffic(), _plan(10, moves=[], traffic_bytes=0), True),
        (LeastTraffic(), _plan(10), False),
    ],
)
def test_when_a_plan_is_enough(objective: LeastMemory | LeastTraffic, plan: Answer, enough: bool) -> None:
    """Nothing is looked for any more."""
    assert objective.is_enough(plan) == enough
