"""Plans whose parts are cut again: they hold and run as promised; with any of it changed they do not hold."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.api.moves.nest_and_alias import NestTiles, TilePeak
from lowtide.api.reporting import plan_html
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from lowtide.report.text import plan_text
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from lowtide.transform.rounds import nested
from lowtide.verify.check.rewrites import with_ops
from support.cut_rounds import plan_of_rounds
from support.small_nets import pyramid, rows_and_channels

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convolutions."""
    path = tmp_path_factory.mktemp("rounds") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Rows of all of them, then channels of the first part."""
    graph = lowtide.load(model)
    cutter = Cutter(graph)
    axes = cutter.grow(graph.own_order, graph.own_order[1], 2)
    assert axes is not None
    first = apply(cutter, [cutter.region(graph.own_order, axes, 4)])
    again, conv = Cutter(first.graph), next(op.id for op in first.graph.ops if op.type == "Conv")
    channels = again.grow([conv], conv, 1)
    assert channels is not None
    return plan_of_rounds(
        model, nested(first, apply(again, [again.region(first.graph.own_order, channels, 3)])), "generic"
    )  # fmt: skip


def test_a_plan_of_two_rounds_is_checked(model: Path, plan: Plan) -> None:
    """It comes back from its file the same, and says of each round what was cut; reports and files are made of it."""
    again = from_json(plan.to_json())
    assert again == plan
    seen = {rule.name: rule.result for rule in lowtide.verify(model, again, prove=True).checks}
    assert " tiled in 2 passes, " in seen["parts"]
    own = len(lowtide.load(model).ops)
    assert f"in 2 passes: {len(plan.order):,} ops run instead of {own}" in plan_text(plan).replace("\n", " ")
    assert plan_html(plan)


def test_the_file_has_the_ops_that_are_checked(model: Path, plan: Plan, tmp_path: Path) -> None:
    """The file that is written has the ops that the checker put together."""
    plan.apply(model, tmp_path / "out.onnx")
    written = {t.name: (t.shape, t.size) for t in lowtide.load(tmp_path / "out.onnx").tensors}
    whole = with_ops(lowtide.load(model), plan)
    used = {t for op in whole.ops for t in (*op.inputs, *op.outputs)}
    assert {t.name: (t.shape, t.size) for t in whole.tensors if t.id in used} == written


@pytest.mark.slow
def test_the_search_cuts_again_what_is_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than with one round, and the same outputs; no bound over regions is claimed. Where only the parts that are
    highest are cut again, likewise."""
    pytest.importorskip("onnxruntime", reason="the model is run in onnxruntime, which is not installed")
    model = tmp_path / "net.onnx"
    model.write_bytes(rows_and_channels().SerializeToString())
    once = lowtide.research.plan(model, target="generic", allow="tile", time=5)
    with monkeypatch.context() as patched:
        patched.setattr(NestTiles, "find", lambda *_: None)
        highest = lowtide.research.plan(model, target="generic", allow="tile,nest-tiles", time=5)
    assert highest.required_bytes < once.required_bytes
    assert highest.peak_bytes < once.peak_bytes
    assert (highest.proved_over, highest.region_bound) == ("orders", None)
    assert lowtide.verify(model, highest, run=True).run is not None
    monkeypatch.setattr(TilePeak, "find", lambda *_: None)
    found = lowtide.research.plan(model, target="generic", allow="tile,nest-tiles", time=5)
    assert once.rounds is None
    assert found.rounds
    assert found.required_bytes < once.required_bytes
    assert (found.proved_over, found.region_bound) == ("orders", None)
    report = lowtide.verify(model, found, run=True)
    assert report.run is not None
    met = lowtide.research.plan(model, target="generic", allow="tile,nest-tiles", time=5, budget=once.required_bytes)
    assert met.status == "ok"
    assert met.rounds is None


@pytest.mark.parametrize("allow", ["nest-tiles", "nest-tiles,recompute", "nest-tiles,concat"])
def test_rounds_go_with_cuts(allow: str, model: Path) -> None:
    """What is cut again has to be cut."""
    with pytest.raises(InputError, match="--allow tile,nest-tiles"):
        lowtide.research.plan(model, allow=allow)


def test_what_rounds_are_not_for(model: Path) -> None:
    """Nothing that is asked for is dropped."""
    with pytest.raises(InputError, match="leave out nest-tiles"):
        lowtide.research.plan(model, target="generic", allow="tile,nest-tiles", max_overhead=0.1)
    with pytest.raises(InputError, match="leave nest-tiles out"):
        lowtide.research.plan(model, target="tflm", allow="tile,nest-tiles")


def _round(document: dict[str, Any]) -> dict[str, Any]:
    return document["rounds"][0]


def _no_rounds(document: dict[str, Any]) -> None:
    del document["rounds"]


def _round_twice(document: dict[str, Any]) -> None:
    document["rounds"].append(_round(document))


def _nothing_cut(document: dict[str, Any]) -> None:
    _round(document)["rewrites"] = []


def _other_rows(document: dict[str, Any]) -> None:
    part = next(op for op in _round(document)["ops"] if op.get("part", {}).get("role") == "part")
    part["part"]["rows"][1] += 1


def _other_piece(document: dict[str, Any]) -> None:
    tensor = next(t for t in _round(document)["tensors"] if t.get("piece") and t["kind"] == "activation")
    tensor["piece"]["box"][2][1] -= 1


def _part_left_out(document: dict[str, Any]) -> None:
    _round(document)["order"].pop()


def _part_turned(document: dict[str, Any]) -> None:
    _round(document)["order"].reverse()


def _cut_of_the_whole(document: dict[str, Any]) -> None:
    document["rewrites"][0]["ops"][0]["op"] = 0


def _other_ends(document: dict[str, Any]) -> None:
    document["rewrites"][0]["ops"][0]["ends"][0] += 1


def _piece_of_the_whole(document: dict[str, Any]) -> None:
    of = {t["id"]: t["piece"]["of"] for t in _round(document)["tensors"] if t.get("piece")}
    tensor = next(t for t in document["tensors"] if t.get("piece") and t["piece"]["of"] in of)
    tensor["piece"]["of"] = of[tensor["piece"]["of"]]


def _ops_run_again(document: dict[str, Any]) -> None:
    again = {"kind": "recompute", "op": 9000, "of": 0, "replaced": 0, "outputs": [9000], "readers": [1]}
    _round(document)["rewrites"].append(again)


def _promise(document: dict[str, Any]) -> None:
    document["exactness"] = "bits"


def _claim(document: dict[str, Any]) -> None:
    document["region_bound"] = {"bytes": 1, "op": 0}


def _idle(document: dict[str, Any]) -> None:
    _round(document)["ops"].append({"id": 9000, "name": "idle", "type": "Relu"})


CHANGES = {
    _no_rounds: "parts", _round_twice: "parts", _nothing_cut: "parts", _other_rows: "parts", _other_piece: "parts",
    _part_left_out: "parts", _part_turned: "parts", _cut_of_the_whole: "parts", _other_ends: "parts",
    _piece_of_the_whole: "parts", _ops_run_again: "rewrites", _promise: "parts", _claim: "regions",
    _idle: "parts",
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_by_hand(change: Change, model: Path, plan: Plan) -> None:
    """Every round counts, and every word of it."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(VerificationError) as caught:
        lowtide.verify(model, from_json(msgspec.json.encode(document)))
    assert caught.value.failure == CHANGES[change]


def test_only_the_first_round_has_sections(model: Path, plan: Plan) -> None:
    """A round between the first and the last one tiles, and changes nothing before."""
    document = msgspec.json.decode(plan.to_json())
    second = copy.deepcopy(_round(document))
    section = {"kind": "sections", "op": 0, "gone": [], "sections": [], "ops": [], "tensors": []}
    second["rewrites"] = [section, *document["rewrites"]]
    document["rounds"].append(second)
    with pytest.raises(VerificationError, match="round 2 does something else than tile"):
        lowtide.verify(model, from_json(msgspec.json.encode(document)))


@pytest.mark.parametrize("change", [_no_rounds, _cut_of_the_whole])
def test_a_changed_plan_writes_no_model(change: Change, model: Path, plan: Plan, tmp_path: Path) -> None:
    """One line, and no file."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(InputError, match="plan the model again"):
        from_json(msgspec.json.encode(document)).apply(model, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
