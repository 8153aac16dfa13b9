"""Plans that are wrong are refused, whatever is forged of them; those that are right hold."""

from __future__ import annotations

from random import Random

import pytest

from stress_forgeries import Tally, hunt
from support.forgeries.bases import KINDS, base
from support.forgeries.families import bound_by_search
from support.forgeries.judge import ACCEPTED, verdict

QUICK = ("own order", "own order, in place", "over budget", "banks", "spill", "again, a little", "tflm")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_no_forged_plan_is_accepted(kind: str) -> None:
    """Some of each kind here, each wrong; thousands by `python tests/stress_forgeries.py`."""
    tally = Tally()
    hunt(tally, kind, seed=0, most=7)
    assert tally.plans == 1
    assert tally.wrong + tally.known.total() == 7
    assert tally.flaws == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "failure", "plans"),
    [
        ("step by hand", "fission", 13),
        ("again by hand", "recompute", 1),
        ("live at once", "unread", 1),
        ("written over", "writes", 2),
    ],
)
def test_plans_of_models_without_a_flaw_are_refused(kind: str, failure: str, plans: int) -> None:
    """Each is right but for one word of the model: labels, order, a random op, an op that writes over what others read;
    or an op that is called a load."""
    on = base(kind, 0)
    assert on is not None
    assert verdict(on, on.document) == ACCEPTED
    assert [verdict(on, document) for document, _ in on.near] == [failure] * plans


def test_a_second_search_refuses_what_a_first_is_said_to_have_proved() -> None:
    """A better order is known; with the word of a search alone the plan passes, and with `prove` it does not."""
    on = base("own order", 0)
    assert on is not None
    forged = [document for document, _ in bound_by_search(on, Random(0))]
    assert forged
    for document in forged:
        assert verdict(on, document) == ACCEPTED
        assert verdict(on, document, prove=True) == "bound"


@pytest.mark.slow
def test_a_conflict_counts_what_the_order_writes_over():
    """A planner's own plan was refused: its order writes over a part of a storage, which no plan that moves it does."""
    assert base("spill, in place", 3).plan.moves
