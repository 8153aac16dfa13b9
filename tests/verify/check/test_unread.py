"""Words of plans of other kinds are refused: they would stand there unchecked."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan
from support.forgeries.bases import base
from support.forgeries.claims import unread
from support.forgeries.judge import ACCEPTED, verdict


@pytest.mark.parametrize("kind", ["own order, plain", "over budget", "banks", "tflm"])
def test_words_of_other_plans_are_refused(kind: str) -> None:
    """None of them is passed over, whatever the plan is."""
    on = base(kind, 0)
    assert on is not None
    said = [verdict(on, document) for document, _ in unread(on, Random(0))]
    assert len(said) > 6
    assert ACCEPTED not in said
    assert not [word for word in said if word.startswith("crash")]
    assert "unread" in said


def test_costs_of_runs_beside_loops_are_refused() -> None:
    """A plan with loops runs nothing again: the costs of it are read by nobody."""
    on = base("loops", 0)
    assert on is not None
    costs = {"counted": "bytes", "once": 1.0, "planned": 1.0, "lower_bound": 1.0}
    plan = msgspec.convert(on.document | {"recomputation": costs}, Plan)
    with pytest.raises(VerificationError, match="recomputation, which is read by no check") as caught:
        lowtide.verify(on.graph, plan, target=on.target)
    assert caught.value.failure == "unread"
