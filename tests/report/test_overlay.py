"""Overlays: what Model Explorer reads as custom node data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lowtide
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.report.overlay import overlay_json
from lowtide.report.view import PlanView
from support.command import Captured, run
from support.small_models import branches, graph_file
from support.small_nets import pyramid


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """A plan whose ops are cut."""
    path = tmp_path_factory.mktemp("overlay") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return lowtide.research.plan(path, target="strict", allow="tile", max_ops=40)


def test_each_op_has_the_bytes_of_its_step(tmp_path: Path) -> None:
    """By id, name and what it makes; colours go from the least to the most; no key is anything else's."""
    plan = lowtide.research.plan(graph_file(tmp_path, branches()), target="strict")
    document = json.loads(overlay_json(PlanView.of(plan)))
    assert set(document) == {"name", "results", "gradient", "hideAggregatedStats"}
    assert [stop["stop"] for stop in document["gradient"]] == [0.0, 0.5, 1.0]
    assert plan.profile is not None
    live = {op: plan.profile.bytes[step] for step, op in enumerate(plan.order)}
    makes = {0: "t1", 1: "t2", 2: "t3", 3: "t4", 4: "t5"}
    expected = {key: live[op] for op in live for key in (str(op), f"op{op}", makes[op])}
    assert {key: result["value"] for key, result in document["results"].items()} == expected
    most = [key for key, value in expected.items() if value == plan.peak_bytes]
    assert all(document["results"][key]["textColor"] == "#ffffff" for key in most)


def test_an_op_that_is_cut_has_the_most_of_its_parts(cut: Plan) -> None:
    """Keys are those of the user's own graph."""
    results = json.loads(overlay_json(PlanView.of(cut)))["results"]
    assert cut.profile is not None
    of = {op.id: op.origin[0] if op.origin and op.part else op.id for op in cut.ops}
    whole = {op.origin[0] for op in cut.ops if op.origin and op.part} | {op.id for op in cut.ops if op.part is None}
    for op in whole:
        steps = [s for s, v in enumerate(cut.order) if of[v] == op]
        assert results[str(op)]["value"] == max(cut.profile.bytes[s] for s in steps)
    assert max(result["value"] for result in results.values()) == cut.peak_bytes


def test_names_that_are_numbers_are_no_ids(tmp_path: Path) -> None:
    """Where a tensor is called "1", that key is its maker's, not that of op 1."""
    document = branches()
    document["tensors"][4]["name"] = "1"
    results = json.loads(overlay_json(PlanView.of(plan := lowtide.research.plan(graph_file(tmp_path, document)))))[
        "results"
    ]
    assert plan.profile is not None
    assert results["1"]["value"] == plan.profile.bytes[plan.order.index(3)]
    assert "0" not in results


def test_the_command_writes_it(tmp_path: Path, capsys: Captured) -> None:
    """With a plan, and of a plan file; of many plans it is refused."""
    model = graph_file(tmp_path, branches())
    first, second, plan = (tmp_path / name for name in ("a.json", "b.json", "p.json"))
    assert run(capsys, "research", "plan", model, "--overlay", first, "--plan", plan, "-q")[0] == 0
    assert run(capsys, "report", plan, "--overlay", second, "-q")[0] == 0
    assert first.read_bytes() == second.read_bytes()
    assert run(capsys, "report", plan, plan, plan, "-o", tmp_path / "r.html", "--overlay", second)[0] == 2
    with pytest.raises(InputError, match="name a file"):
        lowtide.research.plan(model).report()
