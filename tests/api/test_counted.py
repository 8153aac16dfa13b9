"""Searches that count their work: the speed of the machine does not decide what they find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide.stop
from lowtide.api.planning import job_of, plan_job
from support.clocks import Clock, untimed
from support.sequences import costly_graph
from support.small_nets import random_net

_CASES: dict[str, dict[str, Any]] = {
    "a budget": {"target": "strict", "allow": "recompute", "budget": "70%"},
    "a bound on time": {"target": "strict", "allow": "recompute", "max_overhead": "20%"},
    "row streaming": {"target": "loops", "allow": "row-streaming"},
}


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES)
def test_the_plan_does_not_depend_on_the_speed_of_the_clock(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work ends the search, and the clock, which goes on at each look, does not."""
    path = tmp_path / "model.onnx"
    path.write_bytes(random_net(Random(1).choice, 100).SerializeToString())
    model = costly_graph(Random(3), 60) if "recompute" in _CASES[case]["allow"] else path
    plans = list[Any]()
    for speed in (0.0, 3e-3):
        monkeypatch.setattr(lowtide.stop, "time", Clock(speed))
        job = job_of(model, **_CASES[case])
        plans.append(untimed(msgspec.to_builtins(plan_job(replace(job, search=replace(job.search, seconds=0.6))))))
    assert plans[0] == plans[1]
    assert plans[0]["stopped"] == "time" or not plans[0]["search"]["loops_path_complete"]
