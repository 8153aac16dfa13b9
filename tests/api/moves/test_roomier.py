"""Other orders of runs and transfers: as the runs they are of, no higher, and no later."""

from __future__ import annotations

from importlib import import_module
from random import Random
from types import SimpleNamespace

import pytest

from lowtide.analyse.liveness import profile
from lowtide.api.moves.roomier import roomier
from lowtide.api.moves.swapping import moved_tensors, numbers
from lowtide.api.problem import Problem
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import priced
from lowtide.optimize.parted import unmodified
from lowtide.optimize.recompute.sequence import search
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.runs import apply
from support.steps import random_attention_step, random_step

TARGET = BUILT_IN["strict"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_what_is_walked_to_is_the_same_sequence_as_runs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the arena: of each value one copy is live at a time, transfers stand between the same ops, and neither
    the peak nor the time rises."""
    graph = priced((random_step, random_attention_step)[seed % 2](seed), stand_in("rtx3090.json")[0].families)
    bandwidth = Bandwidth(1e8, 1e8) if seed % 3 else None
    choice = unmodified(graph, TARGET, range(len(graph.ops)), bandwidth)
    peak = choice.begin.peak
    result = search(choice.sequence, choice.order, int(Random(seed).uniform(0.6, 0.95) * peak), Limits(5), steps=50)
    runs = apply(graph, choice.sequence.with_views(result.order), moved_tensors(choice.sequence))
    problem, at = Problem.of(runs.graph, TARGET), runs.graph.index_of
    order = tuple(at[v] for v in runs.order)
    monkeypatch.setattr(import_module("lowtide.allocate.order_and_arena"), "place", _Shrinking())
    other = roomier(problem, order, runs.rewrites, 0, Limits(60))
    assert other is not None
    assert sorted(other) == sorted(order)
    before, after = (
        numbers(choice.sequence, runs.rewrites, [runs.graph.ops[i].id for i in walk]) for walk in (order, other)
    )
    runs_of, steps = choice.sequence.exact.footprints(after), profile(problem.memory, other)
    assert [b for b, i in zip(runs_of, after, strict=True) if i < len(graph.ops)] == [
        b for b, i in zip(steps.footprint, after, strict=True) if i < len(graph.ops)
    ]
    assert steps.peak <= profile(problem.memory, order).peak
    assert [i for i in before if i >= len(graph.ops)] == [i for i in after if i >= len(graph.ops)]


class _Shrinking:
    """A placement that calls each further order smaller."""

    def __init__(self) -> None:
        self.bytes = 10**12

    def __call__(self, model: object, order: tuple[int, ...], *_: object) -> object:
        self.bytes -= 1
        steps = profile(model, order)  # type: ignore[arg-type]
        return SimpleNamespace(
            order=order, profile=steps, allocation=SimpleNamespace(arena_bytes=self.bytes, lower_bound_bytes=0)
        )
