"""What a plan says of its parts is checked: the plan holds, and with any of it changed it does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

import lowtide
from lowtide.api.answer import Answer
from lowtide.api.moves import multi_pass
from lowtide.api.moves.cut_search import CutSearch
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from lowtide.report.text import plan_text
from lowtide.rewrites import CutRegion
from lowtide.sizes import format_size
from lowtide_research import zoo
from support.small_nets import pyramid

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    path = tmp_path_factory.mktemp("parts") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan with cuts."""
    return lowtide.research.plan(model, target="strict", allow="tile")


def test_a_plan_with_cuts_is_checked(model: Path, plan: Plan) -> None:
    """It needs less than any order, says what it may do to the results, and comes back from its file the same."""
    best = lowtide.research.plan(model, target="strict")
    assert best.optimal
    assert plan.peak_bytes < best.peak_bytes
    assert plan.version == 2
    assert plan.exactness in ("kernel", "sum")
    assert any(isinstance(r, CutRegion) for r in plan.rewrites or ())
    report = lowtide.verify(model, from_json(plan.to_json()), prove=True)
    assert "parts" in [rule.name for rule in report.checks]


def test_nothing_is_cut_where_it_need_not_be(model: Path, plan: Plan) -> None:
    """Within the budget, or without a way that keeps every bit, the plan is that of the best order."""
    best = lowtide.research.plan(model, target="strict")
    assert best.arena_bytes is not None
    within = lowtide.research.plan(model, target="strict", allow="tile", budget=best.required_bytes)
    assert (within.rewrites, within.version) == (None, 1)
    between = (plan.required_bytes + best.required_bytes) // 2
    tight = lowtide.research.plan(model, target="strict", allow="tile", budget=between)
    assert tight.status == "ok"
    assert len(tight.order) <= len(plan.order)
    exact = lowtide.research.plan(model, target="strict", allow="tile", exact_bits=True)
    assert exact.exactness in (None, "bits")


def _first(plan: dict[str, Any], role: str) -> dict[str, Any]:
    return next(op for op in plan["ops"] if op.get("part", {}).get("role") == role)


def _piece(plan: dict[str, Any]) -> dict[str, Any]:
    (output,) = _first(plan, "part")["part"]["outputs"]
    return next(t for t in plan["tensors"] if t["id"] == output)


def _fewer_rows(plan: dict[str, Any]) -> None:
    part = _first(plan, "part")["part"]
    part["rows"] = [part["rows"][0], part["rows"][1] - 1]


def _other_axis(plan: dict[str, Any]) -> None:
    _first(plan, "part")["part"]["axis"] += 1


def _no_axis(plan: dict[str, Any]) -> None:
    _first(plan, "part")["part"]["axis"] = 99


def _other_origin(plan: dict[str, Any]) -> None:
    op = _first(plan, "part")
    op["origin"] = [c["op"] for r in plan["rewrites"] for c in r["ops"] if c["op"] != op["origin"][0]][:1]


def _other_operand(plan: dict[str, Any]) -> None:
    parts = [op["part"] for op in plan["ops"] if op.get("part", {}).get("role") == "part"]
    one = next(p for p in parts if p["inputs"][0] is not None)
    other = next(p for p in reversed(parts) if p["inputs"][0] not in (None, one["inputs"][0]))
    other["inputs"][0] = one["inputs"][0]


def _no_operand(plan: dict[str, Any]) -> None:
    _first(plan, "part")["part"]["inputs"][0] = None


def _other_box(plan: dict[str, Any]) -> None:
    piece = _piece(plan)["piece"]
    d = next(d for d, (a, b) in enumerate(piece["box"]) if b - a > 1)
    piece["box"][d][1] -= 1


def _other_size(plan: dict[str, Any]) -> None:
    _piece(plan)["size"] -= 4


def _other_type(plan: dict[str, Any]) -> None:
    _first(plan, "part")["type"] = "Relu"


def _without_an_op(plan: dict[str, Any]) -> None:
    plan["order"].remove(_first(plan, "join")["id"])


def _joined_otherwise(plan: dict[str, Any]) -> None:
    _first(plan, "join")["part"]["inputs"].reverse()


def _sliced_otherwise(plan: dict[str, Any]) -> None:
    part = _first(plan, "slice")["part"]
    part["inputs"][1], part["inputs"][2] = part["inputs"][2], part["inputs"][1]


def _other_numbers(plan: dict[str, Any]) -> None:
    next(t for t in plan["tensors"] if t.get("numbers"))["numbers"][0] += 1


def _cut_unknown(plan: dict[str, Any]) -> None:
    plan["rewrites"][0]["ops"][0]["op"] = 99_999


def _not_cut(plan: dict[str, Any]) -> None:
    plan["rewrites"][0]["ops"].pop()


def _promises_more(plan: dict[str, Any]) -> None:
    plan["exactness"] = "bits"


def _proved_over_more(plan: dict[str, Any]) -> None:
    del plan["proved_over"]


def _first_version(plan: dict[str, Any]) -> None:
    plan["version"] = 1


def _listed_twice(plan: dict[str, Any]) -> None:
    plan["ops"].append(_first(plan, "part"))


def _other_axis_in_the_decision(plan: dict[str, Any]) -> None:
    plan["rewrites"][0]["ops"][0]["axis"] += 1


def _other_ends_in_the_decision(plan: dict[str, Any]) -> None:
    plan["rewrites"][0]["ops"][0]["ends"] = []


def _cut_twice(plan: dict[str, Any]) -> None:
    plan["rewrites"].append(plan["rewrites"][0])


def _more_outputs(plan: dict[str, Any]) -> None:
    part = _first(plan, "part")["part"]
    part["outputs"] = part["outputs"] * 2


def _no_outputs(plan: dict[str, Any]) -> None:
    _first(plan, "join")["part"]["outputs"] = []


def _no_inputs(plan: dict[str, Any]) -> None:
    _first(plan, "join")["part"]["inputs"] = []


def _another_role(plan: dict[str, Any]) -> None:
    part = _first(plan, "slice")["part"]
    part["role"], part["inputs"] = "merge", []


def _huge_numbers(plan: dict[str, Any]) -> None:
    next(t for t in plan["tensors"] if t.get("numbers"))["numbers"][0] = 2**63


def _rows_reversed(plan: dict[str, Any]) -> None:
    _first(plan, "part")["part"]["rows"].reverse()


def _below_the_first_axis(plan: dict[str, Any]) -> None:
    _first(plan, "part")["part"]["axis"] = -1


def _order_reversed(plan: dict[str, Any]) -> None:
    plan["order"].reverse()


CHANGES: list[Change] = [
    _fewer_rows, _other_axis, _no_axis, _other_origin, _other_operand, _no_operand, _other_box, _other_size,
    _other_type, _without_an_op, _joined_otherwise, _sliced_otherwise, _other_numbers, _cut_unknown, _not_cut,
    _promises_more,
    _proved_over_more, _first_version, _listed_twice, _other_axis_in_the_decision, _other_ends_in_the_decision,
    _cut_twice, _more_outputs, _no_outputs, _no_inputs, _another_role, _huge_numbers, _rows_reversed,
    _below_the_first_axis, _order_reversed,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_plan_does_not_hold(change: Change, model: Path, plan: Plan) -> None:
    """Whatever of the parts is changed, it is named and nothing else happens."""
    data = msgspec.json.decode(plan.to_json())
    change(data)
    with pytest.raises(VerificationError) as caught:
        lowtide.verify(model, from_json(msgspec.json.encode(data)))
    assert caught.value.failure == "parts"


@pytest.mark.slow
def test_the_model_is_written_as_the_plan_lists_it(model: Path, plan: Plan, tmp_path: Path) -> None:
    """A decision that gives other parts than are listed writes nothing; the plan itself writes a model that reads."""
    out = tmp_path / "cut.onnx"
    plan.apply(model, out)
    assert lowtide.research.plan(out, target="strict").peak_bytes <= plan.peak_bytes
    data = msgspec.json.decode(plan.to_json())
    ends = data["rewrites"][0]["ops"][0]["ends"]
    ends[0] = max(1, ends[0] - 1)
    other = tmp_path / "other.onnx"
    with pytest.raises(InputError, match="rewrites"):
        from_json(msgspec.json.encode(data)).apply(model, other)
    assert not other.exists()


def _falling(cut: dict[str, Any]) -> None:
    cut["ends"].reverse()


def _beyond(cut: dict[str, Any]) -> None:
    cut["ends"][-1] += 1


def _fewer_stripes(cut: dict[str, Any]) -> None:
    cut["ends"].pop(0)


def _no_stripes(cut: dict[str, Any]) -> None:
    cut["ends"].clear()


def _unknown_op(cut: dict[str, Any]) -> None:
    cut["op"] = 99_999


def _unknown_axis(cut: dict[str, Any]) -> None:
    cut["axis"] = -1


@pytest.mark.parametrize("change", [_falling, _beyond, _fewer_stripes, _no_stripes, _unknown_op, _unknown_axis])
def test_a_decision_that_cannot_be_writes_nothing(change: Change, model: Path, plan: Plan, tmp_path: Path) -> None:
    """Stripes, ops and axes that the graph does not have are refused in one line, by all that write."""
    data = msgspec.json.decode(plan.to_json())
    change(data["rewrites"][0]["ops"][0])
    changed = from_json(msgspec.json.encode(data))
    with pytest.raises(InputError, match="rewrites"):
        changed.apply(model, tmp_path / "cut.onnx")
    with pytest.raises(InputError, match="rewrites"):
        lowtide.export(changed, model, header=tmp_path / "cut.h")
    assert not [*tmp_path.iterdir()]


def test_layouts_speak_of_the_parts(model: Path, plan: Plan, tmp_path: Path) -> None:
    """Each piece has its offset in a header, a table and TVM's records."""
    header, table, usmp = tmp_path / "cut.h", tmp_path / "cut.txt", tmp_path / "cut.json"
    lowtide.export(plan, model, header=header, table=table, usmp=usmp)
    assert f"ARENA_SIZE {plan.arena_bytes}" in header.read_text()
    names = {t.name for t in plan.tensors if plan.offset_of(t.id) is not None and t.size and t.alias_of is None}
    held = {buffer["name_hint"]: buffer["size_bytes"] for buffer in msgspec.json.decode(usmp.read_bytes())["buffers"]}
    assert held.keys() >= names
    assert all(name in table.read_text() for name in names)


def test_a_layout_needs_an_order(model: Path, plan: Plan, tmp_path: Path) -> None:
    """Ops that there are not, or that run before what they read, are refused in one line."""
    data = msgspec.json.decode(plan.to_json())
    for order in ([99_999, *data["order"][1:]], data["order"][::-1]):
        changed = from_json(msgspec.json.encode({**data, "order": order}))
        with pytest.raises(InputError):
            lowtide.export(changed, model, header=tmp_path / "cut.h")


@pytest.mark.slow
def test_a_snippet_opens_the_model_in_parts(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without -o there is none, and nothing is written."""
    arguments = ["research", "plan", str(model), "--target", "onnxruntime", "--allow", "tile", "-q"]
    snippet, out = tmp_path / "cut.py", tmp_path / "cut.onnx"
    assert main([*arguments, "--snippet", str(snippet)]) == 2
    assert "write that with -o" in capsys.readouterr().err
    assert not snippet.exists()
    assert main([*arguments, "--snippet", str(snippet), "-o", str(out)]) == 0
    assert out.name in snippet.read_text()


def test_a_network_of_the_zoo_is_tiled_as_its_file(tmp_path: Path) -> None:
    """Peak and parts are those of the ONNX form; the plan is one of the zoo's name, and is written and run as such."""
    name, file, out = "zoo:swiftnet_cell_c", tmp_path / "c.onnx", tmp_path / "seams.onnx"
    file.write_bytes(zoo.build("swiftnet_cell_c").onnx().SerializeToString())
    plan, of_file = (lowtide.research.plan(m, target="strict", allow="concat") for m in (name, file))
    assert plan.rewrites
    assert (plan.peak_bytes, plan.order, plan.rewrites) == (of_file.peak_bytes, of_file.order, of_file.rewrites)
    assert lowtide.verify(name, plan, run=True).run is not None
    lowtide.apply(plan, name, out)
    assert len(onnx.load(out).graph.node) == len(plan.order) > len(onnx.load(file).graph.node)


def test_only_what_can_be_cut(tmp_path: Path) -> None:
    """A graph of no format, and a word that is not known, are refused in one line."""
    path = tmp_path / "a.graph.json"
    path.write_text(
        '{"name": "a", "tensors": [{"id": 0, "size": 4, "kind": "input"}, {"id": 1, "size": 4, "kind": "output"}],'
        ' "ops": [{"id": 0, "inputs": [0], "outputs": [1]}]}'
    )
    with pytest.raises(InputError, match="only ONNX and TFLite models are tiled"):
        lowtide.research.plan(path, allow="tile")
    with pytest.raises(InputError, match="it may be all, tile"):
        lowtide.research.plan(path, allow="fusion")
    for old, new in {"fission": "tile", "swap": "offload", "unjoined": "unmaterialised"}.items():
        with pytest.raises(InputError, match=f"--allow {old} is called --allow {new} now"):
            lowtide.research.plan(path, allow=f"recompute,{old}")


def test_sizes_are_cut_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What --allow permits counts at each size of a table."""
    import onnx

    path = tmp_path / "free.onnx"
    proto = onnx.ModelProto.FromString(pyramid().model().SerializeToString())
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    del proto.graph.value_info[:]
    path.write_bytes(proto.SerializeToString())
    peaks = []
    for words in ([], ["--allow", "tile"]):
        assert (
            main(["research", "plan", str(path), "--target", "strict", "--dim", "n=1,2", "--json", "-q", *words]) == 0
        )
        peaks.append([row["peak_bytes"] for row in msgspec.json.decode(capsys.readouterr().out)["rows"]])
    assert all(cut < best for best, cut in zip(*peaks, strict=True))


def test_cuts_that_need_no_less_are_named(model: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that leaves the model whole says what the best cuts would need, in its figures and in words."""
    found = CutSearch.best_cut

    def large(search: CutSearch) -> Answer | None:
        answer = found(search)
        assert answer is not None
        return replace(answer, keys={**answer.keys, "required_bytes": 2**30})

    monkeypatch.setattr(CutSearch, "best_cut", large)
    whole = lowtide.research.plan(model, target="strict", allow="tile")
    assert whole.rewrites is None
    assert whole.search is not None
    assert (whole.search["cut_peak_bytes"], whole.search["cut_required_bytes"]) == (plan.peak_bytes, 2**30)
    assert "not tiled" in plan_text(whole)
    assert f"needs {format_size(2**30)} in total" in plan_text(whole)
    assert "not tiled" not in plan_text(plan)
    lowtide.verify(model, whole)


@pytest.mark.parametrize(
    "asked",
    [
        {"allow": "tile"},
        {"allow": "concat"},
        {"allow": "tile,concat"},
        {"allow": "tile,recompute", "max_overhead": "10%"},
    ],
    ids=lambda asked: asked["allow"],
)
def test_no_time_to_look_for_cuts_is_no_proof(
    asked: dict[str, Any], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of the best order says that time ended its search, whatever is proved of orders."""
    monkeypatch.setattr(CutSearch, "_until", lambda search, share: replace(search.limits, seconds=0.0))
    if "recompute" in asked["allow"]:  # operations are looked up so quickly that regions are found in no time
        monkeypatch.setattr(CutSearch, "_ways", lambda *_: [])
        monkeypatch.setattr(CutSearch, "_forwarded", lambda *_: [])
    monkeypatch.setattr(multi_pass, "_PLAN", 1.0)
    whole = lowtide.research.plan(model, target="onnxruntime", **asked)
    assert (whole.rewrites, whole.stopped) == (None, "time")
    assert whole.peak_bytes == whole.lower_bound_bytes
    lowtide.verify(model, whole)


def test_a_body_that_makes_no_graph_fails_as_any_other(model: Path, tmp_path: Path) -> None:
    """An op twice is the plan's fault, not the call's: exit status 5."""
    plan = lowtide.research.plan(model, target="strict", allow="tile", max_ops=40)
    whole = next(op.id for op in plan.ops if op.part is None)
    twice = msgspec.structs.replace(plan, order=[*plan.order, whole])
    with pytest.raises(VerificationError, match="is used twice") as caught:
        lowtide.verify(model, twice)
    assert caught.value.failure == "body"
    twice.save(tmp_path / "p.json")
    assert main(["verify", str(model), str(tmp_path / "p.json"), "-q"]) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allow", ["odd"]),
        ("seconds", {"total": -1.0}),
        ("seconds", {"total": "odd"}),
        ("cost", {"cost_file": "odd"}),
        ("cost", {"level": "odd"}),
        ("cost", {"threads": 0}),
    ],
)
def test_words_that_a_plan_cannot_have_are_not_read(model: Path, key: str, value: Any) -> None:
    """Exit status 2: the file is none of a plan; as it was, it is."""
    made = lowtide.research.plan(model, target="strict", allow="tile", max_overhead=4.0, time=1.0)
    document = msgspec.json.decode(made.to_json())
    assert from_json(msgspec.json.encode(document)) == made
    document[key] = {**document[key], **value} if isinstance(value, dict) else value
    with pytest.raises(InputError, match="not a lowtide plan"):
        from_json(msgspec.json.encode(document))
