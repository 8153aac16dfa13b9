"""Bounds on training steps in parts are not above any plan that the oracle finds (`tests/support/step_plans.py`)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from lowtide.optimize.joint_bound import JointProblem
from support.changed_claims import Count
from support.step_claims import StepCase, seed_of, steps
from support.step_plans import Cut, Speed, StepNet, StepOp, StepOracle

PLAIN = {name: Speed(1.0, 0.0, 0.0, overlapped=False) for name in ("other", "slice", "join", "merge")}


@pytest.mark.slow
def test_no_bound_is_above_a_plan_of_the_oracle() -> None:
    """Least bytes within a time, least time within bytes, and what whole plans say of both."""
    count = steps(0, 0, 45, every=15)
    assert not count.failures, count.failures[0]
    assert count.seen["steps where parts need less than any plan without"] >= 5
    assert count.seen["bounds on a step's peak that are reached"] >= 20
    assert count.seen["bounds on a step's time above all ops once"] >= 5
    assert count.held["steps: least time of a plan"] >= 3


def _dear(problem: JointProblem, op: int, rows: int, parts: int) -> int | None:
    known = EXTRA(problem, op, rows, parts)
    return None if known is None else 3 * known + 2**30


EXTRA = JointProblem.extra
BROKEN: dict[str, tuple[str, Callable[..., object]]] = {
    "parts take longer than they do": ("extra", _dear),
    "nothing can be cut": ("extra", lambda problem, op, rows, parts: None),
    "nothing lies over what dies": ("saving", lambda problem, op: 0),
    "no tensor is cut": ("cut_along", lambda problem, op, rows: frozenset()),
}
"""Rules of the planner's bound, each broken so that the bound is too high."""


@pytest.mark.slow
@pytest.mark.parametrize("rule", BROKEN)
def test_a_bound_with_a_broken_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among some hundred steps there is one on which the oracle goes below such a bound."""
    method, broken = BROKEN[rule]
    monkeypatch.setattr(JointProblem, method, broken)
    count = Count()
    for k in range(300):
        StepCase(seed_of(0, k), count).check(plans=False)
        if count.failures:
            return
    pytest.fail(f"no step shows that {rule!r} is false")


def _chain() -> StepNet:
    """A product, an elementwise op in place, and a gradient over the rows."""
    ops = (
        StepOp("matmul", (0, 1), (2,), (("n", "d"), ("d", "f"), ("n", "f")), 8),
        StepOp("Relu", (2,), (3,), (("n", "d"), ("n", "d")), 8),
        StepOp("gradient", (0, 3), (4,), (("n", "d"), ("n", "f"), ("d", "f")), 8),
    )
    return StepNet(((4, 1), (1, 8), (4, 8), (4, 8), (1, 8)), (0, 1), (4,), ops)


def test_bytes_and_seconds_are_counted_from_the_definition() -> None:
    """By rows one row of what is wide is there at a time; each op runs four times, and the sum is added up thrice."""
    oracle = StepOracle(_chain(), PLAIN, in_place=True, inputs_over=False)
    cut = Cut(((0, "n"), (1, "n"), (2, "n")), (1, 2, 3, 4))
    body = oracle.body(cut).points()
    assert [(p.peak, p.seconds) for p in body] == [(64, 15.0)]
    whole = oracle.around((cut,), {cut: body}).points()
    assert [(p.peak, p.seconds) for p in whole] == [(16 + 32 + 32 + 64, 15.0)]
    assert [(p.peak, p.seconds) for p in oracle.around((), {}).points()] == [(16 + 32 + 128, 3.0)]


def test_a_part_lacks_nothing() -> None:
    """A sum that is read, rows along another dimension, and ops with one between them are in no region."""
    ops = (
        StepOp("columns", (0,), (1,), (("n", "d"), ("d",)), 0),
        StepOp("shift", (0, 1), (2,), (("n", "d"), ("d",), ("n", "d")), 0),
    )
    oracle = StepOracle(StepNet(((4, 3), (3,), (4, 3)), (0,), (2,), ops), PLAIN, in_place=False, inputs_over=False)
    found = {cut.words for cut in oracle.regions(Random(0), 100)}
    assert ((0, "n"), (1, "n")) not in found
    assert {((0, "n"),), ((1, "n"),), ((0, "d"), (1, "d"))} <= found
