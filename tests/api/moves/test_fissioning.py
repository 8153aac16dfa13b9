"""Plans of training steps whose ops run in parts and again: both modes, micro-batches, and what is refused."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.api.answer import Answer
from lowtide.api.moves import fissioning
from lowtide.cost.file import stand_in
from lowtide.errors import InputError, VerificationError
from lowtide.optimize.step_regions import why_no_batches
from lowtide.plan import Plan, from_json
from lowtide.report.text import plan_text
from lowtide.stop import Progress
from lowtide.target import BUILT_IN
from lowtide.write.graph_json import graph_json_bytes
from lowtide_research import zoo
from support.steps import SMALL, labelled_graph, random_step

ALLOW = "recompute,tile"
BERT = "magis_bert_base:layers=2,batch=8"


def _plan(model: str = BERT, **how: Any) -> Plan:
    graph = zoo.build(model).graph()
    plan = lowtide.research.plan(graph, allow=ALLOW, **dict[str, Any](time=4) | how)
    lowtide.verify(graph, from_json(plan.to_json()))
    return plan


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "after"),
    [
        ({"max_overhead": "10%"}, 0.1),
        ({"budget": "40%"}, 0.1),
        ({"max_overhead": "10%"}, 0.6),
        ({"budget": "40%"}, 0.6),
    ],
)
def test_ctrl_c_ends_with_the_best_plan_until_then(
    how: dict[str, str], after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is being searched, and the plan holds: a search that went on would take an hour."""
    changed = fissioning._Step.changed

    def begun(step: fissioning._Step) -> Answer | None:
        threading.Timer(after, signal.raise_signal, [signal.SIGINT]).start()
        return changed(step)

    monkeypatch.setattr(fissioning._Step, "changed", begun)
    made = _plan(time=3600, **how)
    assert (made.stopped, made.exit_status) == ("interrupt", 130)


@pytest.mark.slow
def test_within_a_bound_on_time_both_together_need_less_than_either() -> None:
    """Than running ops again alone, and than micro-batches alone."""
    graph = zoo.build(BERT).graph()
    both = _plan(max_overhead="10%", time=2)
    micro = _plan(max_overhead="10%", method="microbatch", time=2)
    assert both.fission is not None
    assert both.fission.overhead <= 0.1
    assert both.required_bytes < micro.required_bytes < both.own_order_peak_bytes
    again = lowtide.research.plan(_priced(graph), allow="recompute", max_overhead="10%", time=1)
    assert both.required_bytes < again.required_bytes


def _priced(graph: Any) -> Any:
    from lowtide.cost.file import stand_in
    from lowtide.cost.labelled import priced

    return priced(graph, stand_in("rtx3090.json")[0].families)


@pytest.mark.slow
def test_a_budget_is_met_in_the_least_time_found() -> None:
    """And a plan says what it takes: in its text too."""
    plan = _plan(budget="40%", time=1)
    assert plan.status == "ok"
    assert plan.required_bytes <= 0.4 * plan.own_order_peak_bytes
    assert plan.fission is not None
    assert 0 < plan.fission.overhead < 0.5
    assert plan.fission.floor_bytes <= plan.required_bytes
    assert "in tiles" in plan_text(plan)


def test_the_same_call_gives_the_same_plan() -> None:
    """Where its search ends before its time."""
    graph = random_step(3, batch=6)
    how: dict[str, Any] = {"allow": ALLOW, "method": "microbatch", "options": {"parts": "3"}, "max_overhead": 900}
    first, second = (lowtide.research.plan(graph, **how) for _ in range(2))
    assert first.fission == second.fission
    assert first.order == second.order


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 7, 11])
def test_an_op_behind_ops_that_it_does_not_read_is_in_no_part(k: int) -> None:
    """What is planned around it holds, its bound too."""
    graph = random_step(3, batch=6)
    behind = replace(graph.ops[k], after=(graph.ops[k - 1].id,))
    graph = replace(graph, ops=(*graph.ops[:k], behind, *graph.ops[k + 1 :]))
    plan = lowtide.research.plan(graph, allow=ALLOW, max_overhead=2, time=1)
    lowtide.verify(graph, plan)
    assert plan.fission is not None
    assert all(behind.id not in {v for v, _ in part.ops} for part in plan.fission.parts)


def test_a_plan_says_what_was_tried() -> None:
    """Part graphs, orders, changes of sequences, arenas, and seconds of each, which are the search's."""
    plan = lowtide.research.plan(random_step(3, batch=6), allow=ALLOW, budget="60%", time=1)
    tried = plan.search or {}
    kinds = ("part_graphs", "orders", "chains", "placements")
    assert all(tried[kind] > 0 for kind in kinds)
    assert 0 < sum(tried[f"{kind}_seconds"] for kind in kinds) <= plan.seconds.total + 0.01


@pytest.mark.slow
def test_a_budget_that_is_tried_is_not_called_the_best() -> None:
    """Nor is a figure of one part: what is reported is the number of parts and the budget that is tried."""
    heard: list[Progress] = []
    plan = _plan(budget="40%", time=1, report=heard.append)
    assert heard
    assert not any(progress.best_bytes or progress.bound_bytes for progress in heard)
    tried = {progress.phase for progress in heard}
    assert any(phase.startswith(f"trying {plan.budget_bytes:,} B") and phase.endswith(" parts") for phase in tried)


def test_a_step_in_graph_json_is_planned(tmp_path: Path) -> None:
    """Labels and all, from a file, and its plan verified from files."""
    model, plan_file = tmp_path / "step.graph.json", tmp_path / "plan.json"
    model.write_bytes(graph_json_bytes(random_step(5, batch=4)))
    plan = lowtide.research.plan(model, allow=ALLOW, method="microbatch", max_overhead=900, time=2)
    plan.save(plan_file)
    report = lowtide.verify(model, plan_file)
    assert "parts" in [rule.name for rule in report.checks]


def test_statistics_over_the_batch_forbid_micro_batches() -> None:
    """And the op that takes them is named."""
    graph = labelled_graph(
        [
            ("einsum", ["x", "w"], "y", "n k, k m -> n m"),
            ("batch_norm", ["y"], "z", ". m -> . m"),
            ("square", ["z"], "loss", "n m -> n m"),
            ("mul", ["loss", "z"], "dz", "n m, n m -> n m"),
            ("batch_norm_backward", ["dz"], "dy", ". m -> . m"),
            ("einsum", ["x", "dy"], "dw", "n k, n m -> k m"),
            ("update", ["w", "dw"], "new", "k m, k m -> k m"),
        ],
        {
            "x": (6, 2), "w": (2, 3), "y": (6, 3), "z": (6, 3), "loss": (6, 3), "dz": (6, 3), "dy": (6, 3),
            "dw": (2, 3), "new": (2, 3),
        },
    )  # fmt: skip
    with pytest.raises(InputError, match=r"microbatch cannot do this: .*batch_norm.* lies between"):
        lowtide.research.plan(graph, allow=ALLOW, method="microbatch", max_overhead="10%")


@pytest.mark.slow
@pytest.mark.parametrize("step", ["magis_unet", "magis_bert_base", "magis_vit_base"])
def test_a_step_of_one_row_has_no_micro_batches(step: str) -> None:
    """That alone is said, and not op by op what else could not be cut."""
    sizes = SMALL[step].partition(",")[2]
    with pytest.raises(InputError, match=r"microbatch cannot do this: the step has 1 row$"):
        lowtide.research.plan(
            f"zoo:{step}:batch=1,{sizes}", allow=ALLOW, method="microbatch", max_overhead="10%", time=0.2
        )


def test_of_many_reasons_the_first_are_said() -> None:
    """Each once, and how many more there are."""
    graph = random_step(1, batch=4)
    assert why_no_batches(graph, ["b", "a", "b", "c", "d", "a", "e"]) == "b; a; c; and 2 more"
    assert why_no_batches(graph, ["b", "b"]) == "b"
    assert why_no_batches(graph, []) == "no dimension runs through the forward and the backward pass"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "needs --budget or --max-overhead"),
    ({"budget": "50%", "max_overhead": "10%"}, "takes one of them"),
    ({"budget": "50%", "method": "chen"}, "recomputes operators and tiles none"),
    ({"budget": "50%", "method": "microbatch", "allow": f"{ALLOW},offload"}, "moves nothing"),
    ({"budget": "50%", "method": "microbatch", "options": {"parts": "1"}}, "parts is 1"),
    ({"budget": "50%", "method": "microbatch", "options": {"parts": "99"}}, "parts is 99"),
    ({"budget": "50%", "exact_bits": True}, "another order"),
    ({"budget": "50%", "max_ops": 5}, "not for tiled training steps"),
]


@pytest.mark.parametrize(("how", "why"), REFUSED)
def test_what_does_not_go_together_is_said(how: dict[str, Any], why: str) -> None:
    """Each with its mend."""
    with pytest.raises(InputError, match=why):
        lowtide.research.plan(random_step(1, batch=4), **dict[str, Any](allow=ALLOW) | how)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"method": "microbatch", "options": {"parts": "5"}}, {}])
def test_a_step_of_sizes_alone_is_not_run(how: dict[str, Any]) -> None:
    """Whether its plan has parts or not: no runtime has its ops."""
    step = "zoo:magis_bert_base:" + SMALL["magis_bert_base"]
    plan = lowtide.research.plan(step, allow=ALLOW if how else "recompute", max_overhead=900, time=0.2, **how)
    assert (plan.fission is not None) == bool(how)
    with pytest.raises(InputError, match=r"only ONNX, TFLite and \.pt2 models can be run; verify it without --run"):
        lowtide.verify(step, plan, run=True)


def test_other_graphs_are_refused() -> None:
    """Their ops do not say which rows they need."""
    with pytest.raises(InputError, match="labels"):
        lowtide.research.plan(zoo.build("nasnet_a_cifar").graph(), allow=ALLOW, budget="50%")


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"max_overhead": "10%"}, {"budget": "45%"}])
def test_tensors_that_leave_memory_are_part_of_the_search(how: dict[str, Any]) -> None:
    """Fewer bytes within the same time, or less time within the same bytes, than without; and it is said."""
    graph = zoo.build(BERT).graph()
    without = lowtide.research.plan(graph, allow=ALLOW, time=1, **how)
    moved = lowtide.research.plan(graph, allow=f"{ALLOW},offload", time=4, **how)  # it has more to choose from
    lowtide.verify(graph, from_json(moved.to_json()))
    assert moved.fission is not None
    assert without.fission is not None
    if "budget" in how:
        assert moved.status == "ok"
        assert moved.fission.overhead < without.fission.overhead
    else:
        assert moved.fission.overhead <= 0.1
        assert moved.required_bytes < without.required_bytes
    assert "leave memory" in plan_text(moved)


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"max_overhead": "10%"}, {"budget": "45%"}, {"budget": "45%", "method": "microbatch"}])
def test_siblings_as_one_take_less_time_or_fewer_bytes(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries, keys and values of both blocks; what the plan says of them holds, and the overhead is beside the step
    as it stands. The step itself is given hardly any time here, so that the plan is not its."""
    monkeypatch.setattr(fissioning, "_APART", 0.02)
    graph = zoo.build(BERT).graph()
    apart = _plan(time=0.5, **how)
    plan = lowtide.research.plan(graph, allow=f"{ALLOW},merge", time=3, **how)  # it plans both steps
    lowtide.verify(graph, from_json(plan.to_json()))
    assert apart.fission is not None
    assert plan.fission is not None
    assert [len(merge.products) for merge in plan.fission.merged] == [3, 3]
    assert plan.fission.uncut_seconds == apart.fission.uncut_seconds
    assert plan.own_order_peak_bytes == apart.own_order_peak_bytes
    assert plan.exactness == "sum"
    assert "6 products that read the same run as 2" in plan_text(plan)
    if "budget" in how:
        assert plan.fission.overhead < apart.fission.overhead
    else:
        assert plan.required_bytes <= apart.required_bytes


@pytest.mark.slow
def test_siblings_that_gain_nothing_stay_apart() -> None:
    """Where to take results apart is dear, no product is merged."""
    file, _ = stand_in("rtx3090.json")
    dear = msgspec.structs.replace(file.families["other"], launch_seconds=1.0)
    file = msgspec.structs.replace(file, families={**file.families, "unstack": dear})
    plan = lowtide.research.plan(zoo.build(BERT).graph(), allow=f"{ALLOW},merge", budget="60%", time=0.3, cost=file)
    assert plan.fission is not None
    assert plan.fission.merged == []


def test_merging_is_of_steps_in_parts() -> None:
    """Other words with it, and other models, are refused."""
    for words in ("merge", "recompute,merge", "tile,merge", "recompute,offload,merge"):
        with pytest.raises(InputError, match="recompute,tile,merge"):
            lowtide.research.plan(zoo.build(BERT).graph(), allow=words, budget="50%")
    with pytest.raises(InputError, match="training steps whose operators have labels"):
        lowtide.research.plan(zoo.build("swiftnet_cell_a").graph(), allow=f"{ALLOW},merge", budget="50%")


@pytest.mark.slow
def test_all_three_have_a_front() -> None:
    """Of a step, and of nothing else."""
    front = lowtide.research.front(random_step(4, batch=6), allow=f"{ALLOW},offload", time=1)
    assert any(point.parts > 1 for point in front.points)
    with pytest.raises(InputError, match="labels"):
        lowtide.research.front("zoo:nasnet_a_cifar", allow=f"{ALLOW},offload")


def test_transfers_need_a_bandwidth() -> None:
    """A cost file that has none is refused with the mend."""
    from lowtide.cost.file import stand_in

    file = msgspec.structs.replace(stand_in("rtx3090.json")[0], bandwidth=None)
    with pytest.raises(InputError, match="nothing of bandwidth"):
        lowtide.research.plan(random_step(4, batch=6), allow=f"{ALLOW},offload", budget="50%", cost=file)


@pytest.mark.slow
def test_microbatch_alone_runs_nothing_again() -> None:
    """Not where its parts do not fit, either; and it says so where fission is not allowed."""
    plan = _plan(budget="30%", method="microbatch", time=2)
    assert plan.fission is not None
    assert plan.status == "over_budget"
    assert not plan.rewrites
    assert not any(part.body.get("rewrites") for part in plan.fission.parts)
    with pytest.raises(InputError, match="--allow recompute,tile"):
        lowtide.research.plan(random_step(1, batch=4), allow="recompute", method="microbatch", budget="50%")


@pytest.mark.slow
def test_a_budget_below_the_floor_is_said_to_be_hopeless() -> None:
    """Inputs, or results, that need more leave nothing to look for; a budget above them does, met or not."""
    graph, how = random_step(5, batch=4), {"allow": ALLOW, "method": "microbatch", "time": 1}
    floor = fissioning.floor_bytes(memory_model(graph, BUILT_IN["generic"]))
    below, at, reserved = (
        lowtide.research.plan(graph, budget=floor - 1, **how),
        lowtide.research.plan(graph, budget=floor, **how),
        lowtide.research.plan(graph, budget=floor, reserve=1, **how),
    )
    assert [plan.status for plan in (below, at, reserved)] == ["impossible", "over_budget", "impossible"]
    assert [plan.exit_status for plan in (below, at, reserved)] == [4, 3, 4]
    assert ["and no plan can fit: inputs" in plan_text(plan) for plan in (below, at, reserved)] == [True, False, True]
    for plan, other in ((below, "over_budget"), (at, "impossible")):
        lowtide.verify(graph, plan)
        with pytest.raises(VerificationError, match="status"):
            lowtide.verify(graph, msgspec.structs.replace(plan, status=other))


def test_what_a_plan_of_parts_has_not_is_said(tmp_path: Path) -> None:
    """No file of a model; it is drawn, and its bound is proved again of what runs around the parts."""
    model = tmp_path / "step.graph.json"
    model.write_bytes(graph_json_bytes(random_step(5, batch=4)))
    plan = lowtide.research.plan(model, allow=ALLOW, method="microbatch", max_overhead=900, time=2)
    with pytest.raises(InputError, match="write the plan alone"):
        plan.apply(model, tmp_path / "out.graph.json")
    plan.report(tmp_path / "plan.html")
    assert b"</html>" in (tmp_path / "plan.html").read_bytes()
    assert lowtide.verify(model, plan, prove=True).proof is not None


def test_ops_that_take_no_time_are_planned(tmp_path: Path) -> None:
    """By a cost file in which all families are free, within any bound on time."""
    free = {"launch_seconds": 0.0, "seconds_per_flop": 0.0, "seconds_per_byte": 0.0}
    known = {"version": 1, "lowtide": "0", "dialect": "labels", "runtime": "none", "runtime_version": "0",
             "level": "extended", "device": "none", "threads": 1, "entries": [],
             "families": dict.fromkeys(("other", "slice", "join", "merge"), free)}  # fmt: skip
    (tmp_path / "cost.json").write_bytes(msgspec.json.encode(known))
    graph = random_step(3)
    plan = lowtide.research.plan(graph, allow=ALLOW, time=1, max_overhead="1%", cost=str(tmp_path / "cost.json"))
    lowtide.verify(graph, plan)
    assert plan.fission is not None
    assert plan.fission.predicted_seconds == 0.0
