"""What trials say of predicted times: plans that were chosen by a cost file, and then run.

A search takes the ways whose predicted times are lowest, and with them the predictions that came out too low. How much
too low is seen only where plans chosen so are run. Between trials their overheads go in a line, beyond them as the
prediction does; a plan of more predicted time never counts as faster than one of less.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec


class CostTrial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A plan that was run: the parts by which it takes longer than the model uncut, as predicted and as measured."""

    predicted: Annotated[float, msgspec.Meta(gt=-1)]
    measured: Annotated[float, msgspec.Meta(gt=-1)]


def expected(trials: Sequence[CostTrial], predicted: float) -> float:
    """The overhead that a plan of some predicted overhead has by the trials; without any the predicted one.

    >>> trials = [CostTrial(predicted=0.1, measured=0.2), CostTrial(predicted=0.2, measured=0.25)]
    >>> [round(expected(trials, each), 3) for each in (-0.1, 0.05, 0.16, 0.3)]
    [-0.1, 0.1, 0.23, 0.35]
    """
    line = _line(trials)
    for (x, y), (right, above) in pairwise(line):
        if x <= predicted < right:
            return y + (above - y) * (predicted - x) / (right - x)
    x, y = line[0] if predicted < line[0][0] else line[-1]
    return predicted + y - x


def predicted_within(trials: Sequence[CostTrial], bound: float) -> float:
    """The largest predicted overhead whose expected one is no more than a bound.

    >>> trials = [CostTrial(predicted=0.1, measured=0.2), CostTrial(predicted=0.2, measured=0.25)]
    >>> [round(predicted_within(trials, each), 3) for each in (-0.1, 0.1, 0.23, 0.35)]
    [-0.1, 0.05, 0.16, 0.3]
    """
    line = _line(trials)
    for (x, y), (right, above) in pairwise(line):
        if y <= bound < above:
            return x + (right - x) * (bound - y) / (above - y)
    x, y = line[0] if bound < line[0][1] else line[-1]
    return bound + x - y


def _line(trials: Sequence[CostTrial]) -> list[tuple[float, float]]:
    """(predicted, measured), neither of which ever falls, with the model uncut among them."""
    rising: dict[float, float] = {}
    most = -1.0
    for x, y in sorted([(0.0, 0.0), *((trial.predicted, trial.measured) for trial in trials)]):
        rising[x] = most = max(most, y)
    return list(rising.items())
