"""Plans that cut at seams: they hold and run as promised; with any of it changed they do not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan, from_json
from lowtide.rewrites import ConcatElimination
from lowtide.run_reports import RunReport
from support.seam_nets import dense_block

Change = Callable[[dict[str, Any]], None]
WAYS = ["concat", "concat,accumulate"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with a concat that need not be."""
    path = tmp_path_factory.mktemp("seams") / "net.onnx"
    path.write_bytes(dense_block().model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def plans(model: Path) -> dict[str, Plan]:
    """Its plans at seams, by what they may use."""
    return {way: lowtide.research.plan(model, target="generic", allow=way) for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_a_plan_at_seams_is_checked(way: str, model: Path, plans: dict[str, Plan]) -> None:
    """It needs less than any order, says so of the results, and comes back from its file the same."""
    best, plan = lowtide.research.plan(model, target="generic"), plans[way]
    assert best.optimal
    assert plan.optimal
    assert plan.peak_bytes < best.peak_bytes
    assert (plan.version, plan.exactness) == (2, "sum")
    assert any(isinstance(r, ConcatElimination) for r in plan.rewrites or ())
    report = lowtide.verify(model, from_json(plan.to_json()), prove=True)
    assert "parts" in [rule.name for rule in report.checks]


@pytest.mark.slow
def test_measured_as_planned(model: Path) -> None:
    """Under onnxruntime's rules each node has in use what was planned, and outputs are within what is promised."""
    pytest.importorskip("onnxruntime", reason="the model is run in onnxruntime, which is not installed")
    plan = lowtide.research.plan(model, target="onnxruntime", allow="concat")
    assert any(op.type.endswith("FusedConv") for op in plan.ops)
    run = lowtide.verify(model, plan, run=True).run
    assert isinstance(run, RunReport)
    assert run.planned.peak_bytes < run.original.peak_bytes
    assert all(n.planned_bytes in (None, n.in_use_bytes) for n in run.planned.nodes)


def test_fewest_ops_within_a_budget(model: Path, plans: dict[str, Plan]) -> None:
    """A budget that an order meets cuts nothing; the number of ops is kept."""
    best = lowtide.research.plan(model, target="generic")
    within = lowtide.research.plan(model, target="generic", allow="concat", budget=best.required_bytes)
    assert within.rewrites is None
    few = lowtide.research.plan(model, target="generic", allow="concat", max_ops=len(plans["concat"].order) - 1)
    assert len(few.order) < len(plans["concat"].order)


def test_words_that_belong_together(model: Path) -> None:
    """How sums are added up is a question of seams."""
    with pytest.raises(InputError, match="concat,accumulate"):
        lowtide.research.plan(model, allow="accumulate")


def test_other_formats_are_refused() -> None:
    """Only ONNX spells the parts at seams, which is said in one line."""
    tensors = (Tensor(0, 4, Kind.INPUT, "a", (1,), "float32"), Tensor(1, 4, Kind.OUTPUT, "b", (1,), "float32"))
    graph = Graph("net", tensors, (Op(0, (0,), (1,), "n", "RELU", operands=(0,)),), dialect="tflite")
    with pytest.raises(InputError, match="concats are eliminated only in ONNX models"):
        lowtide.research.plan(graph, target="generic", allow="concat")


@pytest.mark.slow
def test_seams_and_regions_together(model: Path, plans: dict[str, Plan]) -> None:
    """Both together are no worse than either, and are checked as either is."""
    both = lowtide.research.plan(model, target="generic", allow="concat,tile")
    assert both.peak_bytes <= min(plans["concat"].peak_bytes, lowtide.research.plan(model, allow="tile").peak_bytes)
    lowtide.verify(model, from_json(both.to_json()))


def _cuts(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return next(r for r in plan["rewrites"] if r["kind"] == "seams")["ops"]


def _summed(plan: dict[str, Any]) -> list[dict[str, Any]]:
    made = {t["id"]: t for t in plan["tensors"]}
    return [op for op in plan["ops"] if op.get("part") and "terms" in made[op["part"]["outputs"][0]].get("piece", {})]


def _other_operand(plan: dict[str, Any]) -> None:
    parts = [op["part"] for op in plan["ops"] if op.get("part", {}).get("role") == "part"]
    parts[0]["inputs"][0] = next(p["inputs"][0] for p in parts if p["inputs"][0] != parts[0]["inputs"][0])


def _other_weights(plan: dict[str, Any]) -> None:
    parts = [op["part"] for op in plan["ops"] if op.get("part", {}).get("role") == "part"]
    other = next(p for p in parts if p["axis"] == parts[0]["axis"] and p["inputs"][1] != parts[0]["inputs"][1])
    parts[0]["inputs"][1] = other["inputs"][1]


def _bias_twice(plan: dict[str, Any]) -> None:
    first = next(op["part"] for op in _summed(plan) if op["part"]["role"] == "part" and op["part"]["rows"][0] == 0)
    other = next(op["part"] for op in _summed(plan) if op["part"]["role"] == "part" and op["part"]["rows"][0] > 0)
    bias = first["inputs"][2]
    other["inputs"] = [*other["inputs"][:2], bias, *other["inputs"][3:]]


def _without_bias(plan: dict[str, Any]) -> None:
    first = next(op["part"] for op in _summed(plan) if op["part"]["role"] == "part" and op["part"]["rows"][0] == 0)
    first["inputs"] = [*first["inputs"][:2], *([None] if len(first["inputs"]) > 3 else []), *first["inputs"][3:]]


def _added_twice(plan: dict[str, Any]) -> None:
    summed = [op["part"] for op in plan["ops"] if op.get("part", {}).get("role") == "merge"]
    if summed:
        summed[0]["inputs"][1] = summed[0]["inputs"][0]
    else:
        parts = [op["part"] for op in _summed(plan)]
        parts[1]["inputs"][:2], parts[1]["rows"] = parts[0]["inputs"][:2], parts[0]["rows"]


def _other_terms(plan: dict[str, Any]) -> None:
    piece = next(t["piece"] for t in plan["tensors"] if t.get("piece", {}).get("terms"))
    piece["terms"][0][1] += 1


def _other_type(plan: dict[str, Any]) -> None:
    op = _summed(plan)[-1]
    op["type"] = "Relu"


def _other_turns(plan: dict[str, Any]) -> None:
    """The decision is not what is listed: some part is of rows that it does not name."""
    cut = _cuts(plan)[-1]
    cut["ends"] = [cut["ends"][-1]]


def _not_cut(plan: dict[str, Any]) -> None:
    _cuts(plan).pop()


def _concat_runs(plan: dict[str, Any]) -> None:
    """The concat is said not to be cut, and is not run."""
    kinds = {op["id"]: op["type"] for op in plan["ops"]}
    gone = [c for c in _cuts(plan) if c["op"] not in kinds]
    _cuts(plan).remove(gone[0])


def _less_exact(plan: dict[str, Any]) -> None:
    plan["exactness"] = "kernel"


def _concat_along_another_axis(plan: dict[str, Any]) -> None:
    _cuts(plan)[0]["axis"] += 64


def _concat_in_other_pieces(plan: dict[str, Any]) -> None:
    _cuts(plan)[0]["ends"][0] += 1


CHANGES: list[Change] = [
    _other_operand, _other_weights, _bias_twice, _without_bias, _added_twice, _other_terms, _other_type, _other_turns,
    _not_cut, _concat_runs, _less_exact, _concat_along_another_axis, _concat_in_other_pieces,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_plan_does_not_hold(change: Change, way: str, model: Path, plans: dict[str, Plan]) -> None:
    """Whatever of the parts is changed, it is named and nothing else happens."""
    data = msgspec.json.decode(plans[way].to_json())
    change(data)
    with pytest.raises(VerificationError) as caught:
        lowtide.verify(model, from_json(msgspec.json.encode(data)))
    assert caught.value.failure == "parts"


def _unknown(cut: dict[str, Any]) -> None:
    cut["op"] = 99_999


def _axis(cut: dict[str, Any]) -> None:
    cut["axis"] = -1


def _falling(cut: dict[str, Any]) -> None:
    cut["ends"] = cut["ends"][::-1]


def _none(cut: dict[str, Any]) -> None:
    cut["ends"] = []


def _turned(cut: dict[str, Any]) -> None:
    cut["turns"] = [0]


@pytest.mark.parametrize("change", [_unknown, _axis, _falling, _none, _turned])
def test_a_decision_that_cannot_be_writes_nothing(
    change: Callable[[dict[str, Any]], None], model: Path, plans: dict[str, Plan], tmp_path: Path
) -> None:
    """Ops, axes and turns that the graph does not have are refused in one line."""
    data = msgspec.json.decode(plans["concat"].to_json())
    change(_cuts(data)[-1])
    with pytest.raises(InputError, match="rewrites"):
        from_json(msgspec.json.encode(data)).apply(model, tmp_path / "cut.onnx")
    assert not [*tmp_path.iterdir()]
