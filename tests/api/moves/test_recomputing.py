"""Plans that run ops again: within the budget, checked, and said as they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.analyse.model import MemoryModel
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.optimize.recompute.sequence import least_possible
from lowtide.plan import Plan, from_json
from lowtide.report.text import plan_text
from lowtide.rewrites import Recompute
from lowtide.schedule.exact import Exact
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.plan import verify_plan
from support.command import Captured, run
from support.costs import costs
from support.random_graphs import random_graph
from support.sequences import STRICT, costly_graph, held_or_made_again, least_cost, own


def plan_again(**settings: Any) -> Plan:
    """Its plan in 10 bytes, where `make` runs twice."""
    return lowtide.research.plan(
        held_or_made_again(), **{"target": "strict", "budget": 10, "allow": "recompute"} | settings
    )


def test_an_op_runs_again_for_room():
    """Within 10 bytes of 14; the cost is said, is proved optimal, and the plan goes through its file."""
    plan = plan_again()
    assert (plan.status, plan.peak_bytes, plan.lower_bound_bytes) == ("ok", 10, 9)
    told = plan.recomputation
    assert told is not None
    assert (told.counted, told.once, told.planned, told.lower_bound) == ("cost", 50, 52, 52)
    assert [r.of for r in plan.rewrites or () if isinstance(r, Recompute)] == [0]
    assert plan.allow == ["recompute"]
    verify_plan(held_or_made_again(), from_json(plan.to_json()), STRICT)


def test_a_copy_of_a_result_is_written_over():
    """`make` runs early for `add`, and again for the result: `add` must not write over that, but may over the copy."""
    sizes = {"i": 64, "r": 640, "t": 640, "u": 64, "big": 1280, "e": 64}
    ops = [("Conv", ["i"], ["r"]), ("Relu", ["r"], ["t"]), ("Conv", ["t"], ["u"]), ("Conv", ["u"], ["big"])]
    ops += [("Conv", ["big"], ["e"])]
    at = {name: i for i, name in enumerate(sizes)}
    kinds = {"i": Kind.INPUT, "r": Kind.OUTPUT, "e": Kind.OUTPUT}
    tensors = tuple(Tensor(at[n], size, kinds.get(n, Kind.ACTIVATION), n) for n, size in sizes.items())
    rows = tuple(Op(i, tuple(at[t] for t in a), tuple(at[t] for t in b), type=k) for i, (k, a, b) in enumerate(ops))
    graph = Graph("copy", tensors, rows)
    plan = lowtide.research.plan(graph, target="generic", budget=1408, allow="recompute")
    assert (plan.status, [r.of for r in plan.rewrites or () if isinstance(r, Recompute)]) == ("ok", [0])
    assert plan.required_bytes == 1408


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_plans_of_any_graph_are_as_the_check_reads_them(seed: int):
    """Views, results that are read, ops that write in place or into parts of others: no plan that its check refuses."""
    graph = random_graph(Random(seed), 4 + seed % 6, aliases=0.3)
    best = lowtide.research.plan(graph, target="generic", time=2)
    plan = lowtide.research.plan(graph, target="generic", time=2, allow="recompute", budget=best.peak_bytes * 19 // 20)
    verify_plan(graph, plan, BUILT_IN["generic"])


def test_nothing_runs_again_where_the_best_order_fits():
    """And where no plan can fit, for one op alone needs more."""
    plan = plan_again(budget="100%")
    assert plan.rewrites is None
    assert plan.recomputation is not None
    assert plan.recomputation.overhead == 0
    none = plan_again(budget=8)
    assert (none.status, none.rewrites) == ("impossible", None)
    assert none.conflict is not None


def test_a_share_is_of_the_own_orders_peak():
    """Parts of a byte are dropped: 70 % of 14 bytes are 9."""
    assert plan_again(budget="70%").budget_bytes == 9
    assert lowtide.research.plan(held_or_made_again(), target="strict", budget="50%").budget_bytes == 7


def test_the_screen_says_what_is_so():
    """That nothing need run again, that nothing fits, or that nothing was found; no bound over sequences is claimed."""
    fits, none = plan_text(plan_again(budget="100%")), plan_text(plan_again(budget=8))
    assert "no op: the best order fits without" in fits
    assert "no op: no plan fits" in none
    assert "impossible without tiling: one op needs more by itself" in none
    assert "proved optimal over all orders in which each op runs once" in fits
    over = plan_text(msgspec.structs.replace(plan_again(budget=8), status="over_budget"))
    assert "no op: no plan that fits was found" in over
    assert "can fit" not in over


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"budget": None}, "--budget 70%"),
        ({"budget": None}, "--max-overhead 10%"),
        ({"cost": costs([])}, "--cost"),
        ({"target": "onnxruntime"}, "--target generic"),
        ({"method": "greedy"}, "leave out --method"),
        ({"method": "mocasin"}, "moccasin"),
        ({"method": "moccasin", "max_overhead": "10%"}, "leave out --max-overhead"),
        ({"method": "moccasin", "options": {"most_ops": "4"}}, "more than 4 ops"),
        ({"method": "moccasin", "options": {"runs": "0"}}, "from 1"),
        ({"method": "moccasin", "options": {"run": "2"}}, "did you mean runs"),
        ({"max_ops": 5}, "--max-ops"),
        ({"allow": "tile,recompute"}, "labels"),
        ({"allow": "concat,recompute"}, "with tile"),
        ({"budget": "0%"}, "70%"),
        ({"budget": "x%"}, "70%"),
    ],
)
def test_what_does_not_go_together_is_said(settings: dict[str, Any], text: str):
    """With what to do instead."""
    with pytest.raises(InputError, match=text):
        plan_again(**settings)


@pytest.mark.slow
def test_the_least_peak_within_a_bound_on_the_cost():
    """4 % buys 10 bytes, 3 % nothing; no lower peak is proved for the first, 12 bytes for the second."""
    plan = plan_again(budget=None, max_overhead="4%", time=2)
    told = plan.recomputation
    assert told is not None
    assert (plan.status, plan.peak_bytes, plan.budget_bytes, told.planned) == ("ok", 10, None, 52)
    assert (told.max_overhead, told.least_peak_bytes) == (0.04, 10)
    assert "no plan within 4 % has a lower peak" in plan_text(plan)
    verify_plan(held_or_made_again(), from_json(plan.to_json()), STRICT)
    dear = plan_again(budget=None, max_overhead="3%", time=2, require_optimal=True)
    assert dear.recomputation is not None
    assert (dear.peak_bytes, dear.status, dear.recomputation.least_peak_bytes) == (14, "unproved", 12)
    assert "no op; no plan within 3 % has a peak below 12 B" in plan_text(dear)
    assert plan_again(budget=None, max_overhead="4%", time=2, require_optimal=True).status == "ok"


@pytest.mark.slow
def test_a_budget_and_a_bound_on_the_cost():
    """Both are kept where they can be; else the lowest peak within the cost, which is over budget."""
    both = plan_again(max_overhead="4%", time=2)
    assert both.recomputation is not None
    assert (both.status, both.peak_bytes, both.recomputation.max_overhead) == ("ok", 10, 0.04)
    dear = plan_again(max_overhead="3%", time=2)
    told = dear.recomputation
    assert told is not None
    assert (dear.status, dear.peak_bytes, told.planned, told.lower_bound) == ("over_budget", 14, 50, 52)
    assert "the budget takes 4.000 % at least" in plan_text(dear)


LOWER = {
    "more than is allowed": {"max_overhead": 0.03},
    "no number": {"max_overhead": float("inf")},
    "a peak that is not proved": {"least_peak_bytes": 11},
    "a proof of nothing": {"peak_certificate": None},
    "a bound on nothing": {"max_overhead": None},
}


@pytest.mark.parametrize("what", LOWER)
def test_verify_finds_what_is_not_so_of_a_least_peak(what: str):
    """Each of these is refused as what it is."""
    plan = plan_again(budget=None, max_overhead="4%", time=2)
    assert plan.recomputation is not None
    told = msgspec.structs.replace(plan.recomputation, **LOWER[what])
    with pytest.raises(VerificationError) as error:
        verify_plan(held_or_made_again(), msgspec.structs.replace(plan, recomputation=told), STRICT)
    assert error.value.failure == "recompute"


BROKEN = {
    "cheaper than it is": {"planned": 51.0},
    "other costs": {"once": 49.0},
    "another unit": {"counted": "bytes"},
    "a bound that is not proved": {"lower_bound": 52.0, "certificate": None},
}


@pytest.mark.parametrize("what", BROKEN)
def test_verify_finds_what_is_not_so(what: str):
    """Each of these is refused as what it is."""
    plan = plan_again()
    assert plan.recomputation is not None
    told = msgspec.structs.replace(plan.recomputation, **BROKEN[what])
    with pytest.raises(VerificationError) as error:
        verify_plan(held_or_made_again(), msgspec.structs.replace(plan, recomputation=told), STRICT)
    assert error.value.failure == "recompute"


def test_verify_wants_to_be_told_what_it_costs():
    """A plan that runs ops again and does not say so is none."""
    with pytest.raises(VerificationError) as error:
        verify_plan(held_or_made_again(), msgspec.structs.replace(plan_again(), recomputation=None), STRICT)
    assert error.value.failure == "rewrites"


@pytest.mark.slow
def test_ops_that_after_speaks_of_run_once():
    """The bound counts on that: a plan of such a graph goes through verify, and one that runs them twice does not."""
    plan = plan_again()
    told = plan.recomputation
    assert told is not None
    graph = held_or_made_again()
    ops = (*graph.ops[:3], replace(graph.ops[3], after=(0,)), graph.ops[4])
    ordered = replace(graph, ops=ops)
    with pytest.raises(VerificationError) as error:
        verify_plan(ordered, plan, STRICT)
    assert error.value.failure in ("rewrites", "recompute")
    once = lowtide.research.plan(ordered, target="strict", budget=10, allow="recompute", time=1)
    assert (once.status, once.peak_bytes > 10) == ("over_budget", True)
    rng = Random(3)
    for _ in range(4):
        drawn = costly_graph(rng, 30)
        peak = lowtide.research.plan(drawn, target="strict", time=1).peak_bytes
        lowtide.research.plan(drawn, target="strict", budget=peak * 9 // 10, allow="recompute", time=0.3)


@pytest.mark.slow
def test_a_published_method_is_named_and_says_what_it_proves(capsys: Captured, tmp_path: Path):
    """MOCCASIN finds the same, and calls it the least of its class; with one run of an op its class has none."""
    pytest.importorskip("ortools", reason="needs the extra solvers")
    plan = plan_again(method="moccasin", options={"runs": "3"})
    assert plan.recomputation is not None
    assert (plan.method, plan.status, plan.recomputation.planned) == ("moccasin", "ok", 52)
    assert plan.search is not None
    assert plan.search["ended"] == "optimal"
    assert "the least cost, among: first runs in the best order, 3 runs" in plan_text(plan)
    none = plan_again(method="moccasin", options={"runs": "1"})
    assert (none.status, none.rewrites, (none.search or {})["ended"]) == ("over_budget", None, "infeasible")
    assert "none is within the budget" in plan_text(none)


@pytest.mark.slow
def test_plans_of_small_graphs_are_within_the_budget_and_no_cheaper_than_the_least():
    """Each is verified as it is made; where it fits it costs at least what brute force says, and its bound at most."""
    rng, met = Random(4), 0
    for _ in range(12):
        graph = costly_graph(rng, 6)
        problem = own(graph)
        budget = max(least_possible(problem)[0], max(problem.core().footprints(range(6))) - rng.randint(1, 4))
        plan = lowtide.research.plan(graph, target="strict", budget=budget, allow="recompute", time=0.4)
        told, least = plan.recomputation, least_cost(problem, budget)
        assert told is not None
        if plan.status == "ok" and least is not None:
            met += 1
            assert told.lower_bound <= least <= told.planned
    assert met >= 6


def test_the_command_plans_a_graph_json(capsys: Captured, tmp_path: Path):
    """The file's costs, a share as budget, the text, the plan, and verify."""
    graph = held_or_made_again()
    document = {
        "name": graph.name,
        "tensors": [{"id": t.id, "size": t.size, "kind": str(t.kind)} for t in graph.tensors],
        "ops": [
            {"id": op.id, "inputs": list(op.inputs), "outputs": list(op.outputs), "cost": op.cost} for op in graph.ops
        ],
    }
    model, plan = tmp_path / "again.graph.json", tmp_path / "plan.json"
    model.write_text(json.dumps(document))
    words = ["--target", "strict", "--allow", "recompute", "--budget", "75%", "--time", "1", "--plan", str(plan)]
    status, out, _ = run(capsys, "research", "plan", model, *words)
    assert status == 0
    assert "1 op, 4.000 % more cost, as the graph says it; optimal" in out
    assert run(capsys, "verify", model, plan)[0] == 0


def _interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every search for an order ends as one does that Ctrl-C ended when it had its bound."""
    whole = Exact.schedule

    def schedule(method: Exact, model: MemoryModel, limits: Limits) -> Schedule:
        return replace(whole(method, model, limits), stopped="interrupt")

    monkeypatch.setattr(Exact, "schedule", schedule)


@pytest.mark.parametrize("settings", [{"allow": "recompute"}, {"allow": ""}, {"allow": "", "banks": {"a": 3, "b": 3}}])
def test_an_interrupted_search_says_nothing_is_impossible(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 10 bytes there is a plan that runs an op again, and below 9 there is none: neither is said to be so."""
    _interrupted(monkeypatch)
    for budget in (10, 8):
        plan = plan_again(**{"budget": None if "banks" in settings else budget} | settings)
        assert (plan.status, plan.stopped) == ("over_budget", "interrupt")
        forged = msgspec.structs.replace(plan, status="impossible")
        with pytest.raises(VerificationError, match="status"):
            verify_plan(held_or_made_again(), forged, STRICT)


def test_impossible_rests_on_no_bound_over_orders() -> None:
    """A plan that runs nothing again, with its certificate, and a budget within which one runs an op again."""
    graph = held_or_made_again()
    honest = plan_again(budget="100%")
    assert honest.peak_bytes == 14
    once = lowtide.research.plan(graph, target="strict")
    forged = msgspec.structs.replace(
        honest,
        budget_bytes=10,
        status="impossible",
        lower_bound_bytes=once.lower_bound_bytes,
        certificate=once.certificate,
        optimal=once.optimal,
    )
    with pytest.raises(VerificationError, match="status"):
        verify_plan(graph, forged, STRICT)
    verify_plan(graph, msgspec.structs.replace(forged, status="over_budget"), STRICT)
    below = msgspec.structs.replace(forged, budget_bytes=8)
    assert verify_plan(graph, below, STRICT)
    fits = msgspec.structs.replace(below, budget_bytes=14)
    with pytest.raises(VerificationError, match="status"):
        verify_plan(graph, fits, STRICT)
