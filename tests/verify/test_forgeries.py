"""Plans that are wrong are refused, whatever is forged of them; those that are right hold."""

from __future__ import annotations

from random import Random

import pytest

from stress_forgeries import Tally, hunt
from support.forgeries.bases import KINDS, base
from support.forgeries.families import bound_by_search
from support.forgeries.judge import ACCEPTED, verdict

QUICK = ("own order", "own order, in place", "over budget", "banks", "spill", "again, a little", "tflm")


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


def test_a_second_search_refuses_what_a_first_is_said_to_have_proved() -> None:
    """A better order is known; with the word of a search alone the plan passes, and with `prove` it does not."""
    on = base("own order", 0)
    assert on is not None
    forged = [document for document, _ in bound_by_search(on, Random(0))]
    assert forged
    for document in forged:
        assert verdict(on, document) == ACCEPTED
        assert verdict(on, document, prove=True) == "bound"
