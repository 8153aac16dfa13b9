"""Trials: what plans took that were run, as a line from predicted to measured overheads and back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.cost.file import CostTrial, expected, predicted_within

_PART = st.integers(-40, 200).map(lambda hundredths: hundredths / 100)
_TRIALS = st.lists(st.builds(lambda x, y: CostTrial(predicted=x, measured=y), _PART, _PART), max_size=5)


@given(_PART)
def test_without_trials_predictions_stand(part: float) -> None:
    """Both ways."""
    assert expected([], part) == pytest.approx(part)
    assert predicted_within([], part) == pytest.approx(part)


@given(_TRIALS, st.lists(_PART, min_size=2, max_size=9))
def test_more_predicted_is_never_less_expected(trials: list[CostTrial], parts: list[float]) -> None:
    """And of a trial no less is expected than was measured."""
    for less, more in pairwise(sorted(parts)):
        assert expected(trials, less) <= expected(trials, more) + 1e-12
    for trial in trials:
        assert expected(trials, trial.predicted) >= trial.measured - 1e-12


@given(_TRIALS, _PART)
def test_the_largest_prediction_within_a_bound(trials: list[CostTrial], bound: float) -> None:
    """It keeps within the bound, and what is a little larger does not."""
    most = predicted_within(trials, bound)
    assert expected(trials, most - 1e-9) <= bound + 1e-9
    assert expected(trials, most + 1e-6) > bound
