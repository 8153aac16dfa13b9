"""Searches that count their work: the speed of the machine does not decide what they find."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide.stop
from lowtide.api.job import Job
from lowtide.api.planning import job_of, plan_job
from support.clocks import Clock, untimed
from support.sequences import costly_graph


def _recomputed(**given: Any) -> Job:
    return job_of(costly_graph(Random(3), 60), target="strict", allow="recompute", **given)


_JOBS = {
    "recomputation within a budget": lambda: _recomputed(budget="70%"),
    "recomputation within a bound on time": lambda: _recomputed(max_overhead="20%"),
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", _JOBS)
def test_the_plan_does_not_depend_on_the_speed_of_the_clock(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work ends the search, and the clock, which goes on at each look, does not."""
    job = _JOBS[asked]()
    job = replace(job, search=replace(job.search, seconds=0.3))
    plans = list[Any]()
    for speed in (0.0, 1e-4):
        monkeypatch.setattr(lowtide.stop, "time", Clock(speed))
        plans.append(untimed(msgspec.to_builtins(plan_job(job))))
    assert plans[0] == plans[1]
    assert plans[0]["stopped"] == "time"
