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
    [("tile", {}), ("concat,tile", {}), ("alias", {}), ("row-streaming", {}), ("recompute", {"budget": "90%"})],
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
    lowtide.research.plan(model_file(tmp_path), target="generic", allow=allow, time=2, report=heard.append, **how)
    bests = [progress.best_bytes for progress in heard if progress.best_bytes]
    assert bests
    assert bests == sorted(bests, reverse=True)
    assert not any(progress.bound_bytes for progress in heard)


def test_a_search_for_loops_says_what_it_does(tmp_path: Path) -> None:
    """From when the order without loops is known to when the plan is checked; what is called best is reached."""
    heard: list[Progress] = []
    plan = lowtide.research.plan(
        model_file(tmp_path), target="generic", allow="row-streaming", time=2, report=heard.append
    )
    phases = [progress.phase for progress in heard]
    assert "looking for loops" in phases
    assert phases[-1] == "verifying the plan"
    bests = [progress.best_bytes for progress in heard if progress.best_bytes]
    assert all(plan.peak_bytes <= best for best in bests)


@pytest.mark.parametrize("phase", ["looking for loops", "looking for loops in other orders", "verifying the plan"])
def test_what_is_told_of_a_search_for_loops_may_end_it(phase: str, tmp_path: Path) -> None:
    """With the best plan so far; what comes once the search is over ends nothing."""

    def report(progress: Progress) -> None:
        if progress.phase == phase:
            raise KeyboardInterrupt

    model = model_file(tmp_path)
    plan = lowtide.research.plan(model, target="generic", allow="row-streaming", time=2, report=report)
    assert plan.peak_bytes <= plan.own_order_peak_bytes
    assert plan.stopped == "interrupt" or phase != "looking for loops"
    assert plan.stopped != "interrupt" or phase != "verifying the plan"
