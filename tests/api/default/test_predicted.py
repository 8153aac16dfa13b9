"""Predicted plans: neither more memory nor more time gives a worse one."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

import lowtide
import lowtide.stop
from lowtide.api.default import plan_request
from lowtide.api.default.request import Request, Tell
from lowtide.api.job import Job
from lowtide.api.objects import Model
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from support.clocks import Clock, untimed
from support.random_graphs import random_graph
from support.tflite_nets import pyramid, random_tflite, wide_net

ALLOWED = (0, 0.05, 0.1, 0.3, 1, None)


def drawn_graph(seed: int) -> Graph:
    """A graph whose ops take some operations each, so that running them again takes time."""
    rng = random.Random(seed)
    graph = random_graph(rng, 12, plain=True)
    return replace(graph, ops=tuple(replace(op, flops=rng.randint(1, 100)) for op in graph.ops))


def models(folder: Path) -> list[tuple[Model, str | None]]:
    """Small models, and the target of each."""
    found: list[tuple[Model, str | None]] = [(drawn_graph(seed), "strict") for seed in range(3)]
    for number, net in enumerate((pyramid(), wide_net(), random_tflite(random.Random(2).choice, 5))):
        path = folder / f"{number}.tflite"
        path.write_bytes(net.bytes())
        found.append((path, None))
    return found


@pytest.mark.slow
def test_neither_more_memory_nor_more_time_gives_a_worse_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its searches find, which the clock decides: here each is made once."""
    made: dict[object, Plan] = {}
    solve = Request.solve

    def solved(request: Request, job: Job, tell: Tell) -> Plan:
        key = (id(request.model), job.allow, job.goal, None if job.costs is None else job.costs.max_overhead)
        if key not in made:
            made[key] = solve(request, job, tell)
        return made[key]

    monkeypatch.setattr(Request, "solve", solved)
    gains = 0
    for model, target in models(tmp_path):

        def of(budget: int | None, slower: float | None, model: Model = model, target: str | None = target) -> Plan:
            asked = Request.of(model, budget, slower, target, {}, None, (), seconds=0.5)
            return plan_request(replace(asked, slower=slower))

        least = [of(None, slower).required_bytes for slower in ALLOWED]
        assert all(b <= a for a, b in pairwise(least)), (model, least)
        budgets = sorted({1, *least, *(b - 1 for b in least), *(b + 1 for b in least), 2 * least[0]})
        table = [[of(budget, slower) for slower in ALLOWED] for budget in budgets]
        for row, (budget, plans) in enumerate(zip(budgets, table, strict=True)):
            for column, one in enumerate(plans):
                assert (one.status == "ok") == (one.required_bytes <= budget)
                others = [other for below in table[row:] for other in below[column:]]
                assert all(o.status == "ok" or o.required_bytes <= one.required_bytes for o in others)
                assert one.status != "ok" or all(o.status == "ok" for o in others)
        for one in table[0] + table[-1]:
            lowtide.verify(model, one)
        gains += len({*least}) > 1
    assert gains, "no model gains by more time"


def test_today_is_an_arena_where_the_plan_is_one() -> None:
    """Sizes of both are rounded up: of one order they are equal."""
    tensors = [Tensor(k, 100, Kind.INPUT if not k else Kind.OUTPUT if k == 3 else Kind.ACTIVATION) for k in range(4)]
    graph = Graph("chain", tuple(tensors), tuple(Op(k, (k,), (k + 1,)) for k in range(3)))
    seen = lowtide.plan(graph, target="generic").comparison
    assert seen is not None
    assert (seen.today_bytes, seen.planned_bytes) == (256, 256)
    assert seen.better


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.02, 0.5])
def test_the_plan_does_not_depend_on_the_speed_of_the_clock(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the clock does not end its searches: those that end by themselves, and those that counts end. What
    one plan leaves behind does not matter to the next either."""
    ended = 0
    for model, target in models(tmp_path)[3:4]:
        plans = list[dict[str, object]]()
        for speed in (0.0, 1e-4):
            monkeypatch.setattr(lowtide.stop, "time", Clock(speed))
            request = Request.of(model, None, None, target, {}, None, ())
            plan = plan_request(replace(request, seconds=seconds))
            plans.append(untimed(msgspec.to_builtins(plan)))
        assert plans[0] == plans[1]
        ended += plans[0]["stopped"] == "time"
    assert (ended > 0) == (seconds < 0.1)


def test_an_interrupt_between_searches_keeps_the_best_plan(tmp_path: Path) -> None:
    """The plan says so, and nothing else is searched."""
    (model, target) = models(tmp_path)[3]
    shown: list[Plan] = []

    def tell(news: object) -> None:
        if isinstance(news, Plan):
            shown.append(news)
            signal.raise_signal(signal.SIGINT)

    plan = plan_request(Request.of(model, None, None, target, {}, None, ()), tell)
    assert plan.stopped == "interrupt"
    assert plan.exit_status == 130
    assert [plan.required_bytes] == [each.required_bytes for each in shown]
