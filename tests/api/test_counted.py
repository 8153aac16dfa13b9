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

_CASES: dict[str, tuple[float, dict[str, Any]]] = {
    "a budget": (0.6, {"target": "strict", "allow": "recompute", "budget": "70%"}),
    "a bound on time": (0.6, {"target": "strict", "allow": "recompute", "max_overhead": "20%"}),
    "a fast memory": (0.1, {"target": "strict", "memories": ["fast=36"]}),
    "tiles for a fast memory": (0.6, {"target": "generic", "memories": ["fast=768"], "allow": "tile"}),
    "row streaming": (0.6, {"target": "loops", "allow": "row-streaming"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", _CASES)
def test_the_plan_does_not_depend_on_the_speed_of_the_clock(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work ends the search, and the clock, which goes on at each look, does not."""
    seconds, given = _CASES[case]
    path = tmp_path / "model.onnx"
    path.write_bytes(random_net(Random(1).choice, 100).SerializeToString())
    model = costly_graph(Random(3), 200 if "memories" in given else 60) if given["target"] == "strict" else path
    plans = list[Any]()
    for speed in (0.0, 3e-3):
        monkeypatch.setattr(lowtide.stop, "time", Clock(speed))
        job = job_of(model, **given)
        plans.append(untimed(msgspec.to_builtins(plan_job(replace(job, search=replace(job.search, seconds=seconds))))))
    assert plans[0] == plans[1]
    assert plans[0]["stopped"] == "time" or not plans[0]["search"]["loops_path_complete"]
