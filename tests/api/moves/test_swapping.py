"""Plans whose tensors leave memory while ops run: planned, verified, and refused where something is missing."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import msgspec
import pytest

import lowtide
from lowtide.cost.file import CostFile, parse_cost, stand_in
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.bound import certificate
from lowtide.optimize.recompute.sequence import least_possible
from lowtide.optimize.recompute.swap_bound import swap_time_bound
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.plan import Plan
from lowtide.rewrites import Recompute, Swap
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.plan import verify_plan
from lowtide.verify.check.price_bound import PricedGraph, proved_units
from support.command import run
from support.sequences import STRICT, costly_graph, graph_file
from support.swaps import least_time, swapping

SECOND = 1e-9
"""What a nanosecond is in the unit of `Op.cost`, which with transfers is seconds."""


def far_apart() -> Graph:
    """A large tensor that is read early and late, costs much to make, and is in the way between; times in
    nanoseconds."""
    tensors = (
        Tensor(0, 1, Kind.INPUT, "x"), Tensor(1, 8, Kind.ACTIVATION, "s"), Tensor(2, 3, Kind.ACTIVATION, "a"),
        Tensor(3, 9, Kind.ACTIVATION, "b"), Tensor(4, 2, Kind.ACTIVATION, "c"), Tensor(5, 1, Kind.ACTIVATION, "d"),
        Tensor(6, 1, Kind.OUTPUT, "e"),
    )  # fmt: skip
    ops = (
        Op(0, (0,), (1,), "make", cost=90 * SECOND), Op(1, (1,), (2,), "early", cost=8 * SECOND),
        Op(2, (2,), (3,), "wide", cost=20 * SECOND), Op(3, (3,), (4,), "narrow", cost=5 * SECOND),
        Op(4, (4,), (5,), "more", cost=8 * SECOND), Op(5, (5, 1), (6,), "late", cost=10 * SECOND),
    )  # fmt: skip
    return Graph("far", tensors, ops, sha256="3" * 64)


def at(rate: float) -> CostFile:
    """A cost file with so many bytes per nanosecond each way."""
    bandwidth = {"to_host": rate * 1e9, "from_host": rate * 1e9}
    return parse_cost(json.dumps(json.loads(stand_in("rtx3090.json")[0].to_json()) | {"bandwidth": bandwidth}).encode())


def test_a_transfer_that_fits_beside_the_ops_costs_nothing():
    """Eight bytes at one a nanosecond leave while `early` runs and come back while `more` does: proved optimal."""
    plan = lowtide.research.plan(
        far_apart(), allow="recompute,offload", budget=17, target="strict", cost=at(1.0), time=5
    )
    assert plan.status == "ok"
    assert plan.recomputation is not None
    assert plan.recomputation.counted == "nanoseconds"
    assert plan.recomputation.planned == plan.recomputation.once == plan.recomputation.lower_bound == 141
    assert plan.swapping is not None
    assert (plan.swapping.stored_bytes, plan.swapping.loaded_bytes) == (8, 8)
    assert plan.swapping.waiting_nanoseconds == 0
    assert [type(r) for r in plan.rewrites or ()] == [Swap]


@pytest.mark.slow
def test_ops_wait_for_what_does_not_fit():
    """At half a byte a nanosecond it takes 16 each way, and 8 of them fit beside: of both the plan has 8 of waiting."""
    plan = lowtide.research.plan(far_apart(), allow="offload", budget=17, target="strict", cost=at(0.5), time=2)
    assert plan.recomputation is not None
    assert plan.swapping is not None
    assert plan.swapping.waiting_nanoseconds == plan.recomputation.planned - 141
    assert 0 < plan.swapping.waiting_nanoseconds <= 16


@pytest.mark.slow
def test_what_is_slow_to_move_is_made_again():
    """At a hundredth of that, `make` runs again."""
    plan = lowtide.research.plan(
        far_apart(), allow="recompute,offload", budget=17, target="strict", cost=at(0.01), time=2
    )
    assert plan.recomputation is not None
    assert plan.recomputation.planned == 141 + 90
    assert [type(r) for r in plan.rewrites or ()] == [Recompute]


@pytest.mark.slow
@pytest.mark.parametrize("allow", ["offload", "recompute,offload"])
def test_random_plans_are_verified_and_read_back(allow: str):
    """Plans of random graphs, within budgets that bite, hold by the checker's own clock; nothing else moves their
    bytes."""
    moved = 0
    for seed in range(12):
        graph = costly_graph(Random(seed), 14, outputs=0.1)
        own = lowtide.research.plan(graph, target="strict", time=2)
        budget = own.peak_bytes - 2
        plan = lowtide.research.plan(graph, allow=allow, budget=budget, target="strict", cost=at(1e-9), time=1)
        moved += any(isinstance(r, Swap) for r in plan.rewrites or ())
        assert msgspec.json.decode(plan.to_json(), type=Plan) == plan
        assert plan.rules is not None
        verify_plan(graph, plan, plan.rules)
    assert moved >= 3, moved


def _broken(plan: Plan) -> list[Plan]:
    """Plans that say something else of transfers than is so."""
    said, claim = plan.swapping, plan.recomputation
    assert said is not None
    assert claim is not None
    swap = next(r for r in plan.rewrites or () if isinstance(r, Swap))
    load = swap.loads[0]
    change = msgspec.structs.replace
    store_last = [v for v in plan.order if v != swap.store]
    store_last.insert(store_last.index(load.op) + 1, swap.store)
    rewrites = (
        [change(swap, loads=[change(load, readers=[])])], [change(swap, loads=[])], [change(swap, tensor=2)],
        [change(swap, loads=[change(load, instead=3)])], [],
    )  # fmt: skip
    return [
        change(plan, swapping=change(said, stored_bytes=7)),
        change(plan, swapping=change(said, waiting_nanoseconds=1)),
        change(plan, swapping=change(said, to_host=said.to_host / 2)),
        change(plan, swapping=change(said, op_nanoseconds=[1] * 6)),
        change(plan, swapping=change(said, op_nanoseconds=[1] * 5)),
        change(plan, swapping=change(said, from_host=0.0)),
        change(plan, swapping=None),
        change(plan, recomputation=change(claim, planned=140.0)),
        change(plan, recomputation=change(claim, lower_bound=142.0)),
        change(plan, order=store_last),
        *(change(plan, rewrites=r) for r in rewrites),
    ]


def test_the_checker_notices_what_is_wrong():
    """Bytes, times, rates, orders and readers, one by one."""
    graph = far_apart()
    plan = lowtide.research.plan(graph, allow="recompute,offload", budget=17, target="strict", cost=at(1.0), time=5)
    assert plan.rules is not None
    verify_plan(graph, plan, plan.rules)
    for broken in _broken(plan):
        with pytest.raises(VerificationError):
            verify_plan(graph, broken, plan.rules)


@pytest.mark.slow
def test_the_bound_is_never_above_the_least_time():
    """On small random graphs, by brute force; the checker adds the same flow up; and it is above zero for some."""
    positive, rng = 0, Random(5)
    for _ in range(150):
        rate = Bandwidth(rng.choice((1, 2, 4)) * 2e8, rng.choice((1, 2, 4)) * 2e8)
        problem = swapping(rng, 4, again=rng.random() < 0.5, bandwidth=rate)
        budget = max(least_possible(problem)[0], max(problem.core().footprints(range(4))) - rng.randint(1, 6))
        bound = swap_time_bound(problem, budget, range(4), rate)
        if not bound.units:
            continue
        positive += 1
        assert least_time(problem, budget, problem.costs.total + bound.units - 1) is None
        shown = certificate(problem, bound)
        assert shown is not None
        graph = problem.model.graph
        units = dict(zip([op.id for op in graph.ops], problem.costs.units, strict=True))
        again = not all(op.once for op in problem.ops)
        priced = PricedGraph(graph, work_out(graph, STRICT), units, 1, rate.per_nanosecond, again)
        assert proved_units(priced, budget, shown) == bound.units
    assert positive >= 5, positive


def test_what_cannot_be_is_refused(tmp_path: Path):
    """In one line: a cost file without bandwidth, a file as output, a published method."""
    with pytest.raises(InputError, match="bandwidth"):
        lowtide.research.plan(far_apart(), allow="offload", budget=17, target="strict", cost=stand_in()[0], time=5)
    with pytest.raises(InputError, match="knows no transfers"):
        lowtide.research.plan(far_apart(), allow="recompute,offload", budget=17, target="strict", method="dtr", time=5)
    with pytest.raises(InputError, match="does not go with"):
        lowtide.research.plan(far_apart(), allow="offload,tile", budget=17, target="strict", time=5)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It plans with a file's figures, says what leaves, and verifies what it wrote; and no file is written so."""
    path, costs, plan = graph_file(far_apart(), tmp_path), tmp_path / "c.json", tmp_path / "p.json"
    at(1.0).save(costs)
    call = [
        "research", "plan", path, "--target", "strict", "--allow", "recompute,offload", "--budget", "17",
        "--cost", costs,
    ]  # fmt: skip
    status, out, _ = run(capsys, *call, "--plan", plan)
    assert status == 0
    assert "1 tensor leaves memory" in out
    assert run(capsys, "verify", path, plan)[0] == 0
