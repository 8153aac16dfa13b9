"""What is reported while plans that change the graph are sought: the best whole plan, and no bound of one choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api.answer import Answer
from lowtide.api.goals import OneArena
from lowtide.stop import Limits, Progress
from support.norm_nets import NormNet
from support.onnx_builder import saved


def model_file(folder: Path) -> Path:
    """A small image that is stretched and becomes small again."""
    net = NormNet(lambda options: options[0], width=2, side=8)
    net.stretch()
    net.block("groups", residual=False)
    net.shrink()
    return saved(net.model(), folder)


@pytest.mark.parametrize(
    ("allow", "how"),
    [("fission", {}), ("seams,fission", {}), ("alias", {}), ("loops", {}), ("recompute", {"budget": "90%"})],
)
def test_no_bound_of_one_choice_is_reported(
    allow: str, how: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each order that is sought is of one choice of changes; its bound holds for no other. The best never rises."""
    solve, peaks = OneArena.solve, iter((900, 800, 950, 700, 990, 600, *range(1000, 2000)))

    def telling(goal: OneArena, problem: Any, search: Any, limits: Limits) -> Answer:
        assert limits.report is not None
        limits.report(Progress(next(peaks), 500, 0.0))
        return solve(goal, problem, search, replace(limits, report=None))

    monkeypatch.setattr(OneArena, "solve", telling)
    heard: list[Progress] = []
    lowtide.plan(model_file(tmp_path), target="generic", allow=allow, time=2, report=heard.append, **how)
    bests = [progress.best_bytes for progress in heard if progress.best_bytes]
    assert bests
    assert bests == sorted(bests, reverse=True)
    assert not any(progress.bound_bytes for progress in heard)
