"""Plans whose products run by sections: they hold and run as promised; with any of it changed they do not hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan, from_json
from lowtide.rewrites import Sections
from lowtide.run_reports import RunReport
from lowtide.verify.check.rewrites import with_ops
from support.section_nets import attention, section_net

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Self-attention whose queries, keys and values are one product."""
    path = tmp_path_factory.mktemp("sections") / "net.onnx"
    path.write_bytes(attention(tokens=16, width=32, heads=8, way="swin").model().SerializeToString())
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan with cuts."""
    return lowtide.research.plan(model, target="generic", allow="tile")


@pytest.mark.slow
def test_a_plan_by_sections_is_checked(model: Path, plan: Plan) -> None:
    """It needs less than any order, claims no bound over regions, and comes back from its file the same."""
    best = lowtide.research.plan(model, target="generic")
    assert best.optimal
    assert plan.peak_bytes < best.peak_bytes
    assert (plan.version, plan.exactness, plan.proved_over, plan.region_bound) == (2, "kernel", "orders", None)
    assert [r.op for r in plan.rewrites or () if isinstance(r, Sections)] == [0]
    again = from_json(plan.to_json())
    assert again == plan
    seen = {rule.name: rule.result for rule in lowtide.verify(model, again, prove=True).checks}
    assert seen["parts"].startswith("1 product by sections, ")


def test_as_low_as_the_heads_alone_allow(model: Path, plan: Plan) -> None:
    """Of 16 tokens of 32 numbers: what is read, what is made, and of one head queries, keys, values and scores."""
    x, head, scores = 16 * 32 * 4, 16 * 4 * 4, 16 * 16 * 4
    assert plan.peak_bytes <= 2 * x + 3 * head + 2 * scores


def test_bits_are_kept_where_they_are_asked_for(model: Path) -> None:
    """Kernels for other columns may round in another way."""
    exact = lowtide.research.plan(model, target="generic", allow="tile", exact_bits=True)
    assert not any(isinstance(r, Sections) for r in exact.rewrites or ())


def test_a_budget_takes_nothing_apart_that_an_order_meets(model: Path) -> None:
    """Nothing is changed that need not be."""
    best = lowtide.research.plan(model, target="generic")
    assert lowtide.research.plan(model, target="generic", allow="tile", budget=best.required_bytes).rewrites is None


@pytest.mark.slow
def test_costs_are_beside_those_of_the_user_s_own_graph(model: Path) -> None:
    """What is allowed is a part of what the file takes as it stands."""
    within = lowtide.research.plan(model, target="generic", allow="tile", max_overhead=5.0)
    assert any(isinstance(r, Sections) for r in within.rewrites or ())
    none = lowtide.research.plan(model, target="generic", allow="tile", max_overhead=0.0)
    assert within.cost is not None
    assert none.cost is not None
    assert within.cost.uncut_seconds == none.cost.uncut_seconds
    lowtide.verify(model, within)


@pytest.mark.slow
def test_measured_as_planned(model: Path) -> None:
    """Under onnxruntime's rules each node has in use what was planned, and outputs are within what is promised."""
    pytest.importorskip("onnxruntime", reason="the model is run in onnxruntime, which is not installed")
    made = lowtide.research.plan(model, target="onnxruntime", allow="tile")
    assert any(isinstance(r, Sections) for r in made.rewrites or ())
    run = lowtide.verify(model, made, run=True).run
    assert isinstance(run, RunReport)
    assert run.planned.peak_bytes < run.original.peak_bytes
    assert all(n.planned_bytes in (None, n.in_use_bytes) for n in run.planned.nodes)


@pytest.mark.slow
@settings(deadline=None, max_examples=8, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_plans_of_random_networks_hold_and_run(data: st.DataObject) -> None:
    """Whatever is chosen, the checker puts the same graph together and onnxruntime makes the same of it."""
    pytest.importorskip("onnxruntime", reason="models are run in onnxruntime, which is not installed")
    nets = section_net(lambda options: data.draw(st.sampled_from(tuple(options))), (1, 12), 16)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(nets.model().SerializeToString())
        made = lowtide.research.plan(path, target="onnxruntime", allow="tile", time=1.5)
        run = lowtide.verify(path, made, run=True).run
        assert isinstance(run, RunReport)
        assert all(n.planned_bytes in (None, n.in_use_bytes) for n in run.planned.nodes)


def test_the_checker_s_graph_is_the_planner_s(model: Path, plan: Plan, tmp_path: Path) -> None:
    """The file that is written has the ops that the checker put together."""
    plan.apply(model, tmp_path / "out.onnx")
    written = {t.name: (t.shape, t.size) for t in lowtide.load(tmp_path / "out.onnx").tensors}
    whole = with_ops(lowtide.load(model), plan)
    used = {t for op in whole.ops for t in (*op.inputs, *op.outputs)}
    assert {t.name: (t.shape, t.size) for t in whole.tensors if t.id in used} == written


def _first(document: dict[str, Any]) -> dict[str, Any]:
    return next(r for r in document["rewrites"] if r["kind"] == "sections")


def _sections_swapped(document: dict[str, Any]) -> None:
    a, b, *_ = _first(document)["sections"]
    a["tensor"], b["tensor"] = b["tensor"], a["tensor"]


def _other_columns(document: dict[str, Any]) -> None:
    section = _first(document)["sections"][0]
    section["columns"] = [c + 1 for c in section["columns"]]


def _columns_from_nowhere(document: dict[str, Any]) -> None:
    _first(document)["sections"][-1]["columns"] = [64, 97]


def _other_perm(document: dict[str, Any]) -> None:
    section = _first(document)["sections"][0]
    section["perm"] = [*section["perm"][:-2], *section["perm"][:-3:-1]]


def _no_perm(document: dict[str, Any]) -> None:
    section = _first(document)["sections"][0]
    del section["perm"], section["shape"]


def _wide_shape(document: dict[str, Any]) -> None:
    _first(document)["sections"][0]["shape"][0] *= 2


def _section_left_out(document: dict[str, Any]) -> None:
    _first(document)["sections"].pop()


def _bias_forgotten(document: dict[str, Any]) -> None:
    del _first(document)["add"]


def _more_gone(document: dict[str, Any]) -> None:
    _first(document)["gone"].append(max(_first(document)["gone"]) + 1)


def _fewer_gone(document: dict[str, Any]) -> None:
    _first(document)["gone"].pop()


def _other_op(document: dict[str, Any]) -> None:
    _first(document)["op"] = _first(document)["gone"][1]


def _op_that_is_there(document: dict[str, Any]) -> None:
    _first(document)["ops"][0] = 0


def _fewer_ops(document: dict[str, Any]) -> None:
    _first(document)["ops"].pop()


def _fewer_tensors(document: dict[str, Any]) -> None:
    _first(document)["tensors"].pop()


def _tensors_turned(document: dict[str, Any]) -> None:
    _first(document)["tensors"].reverse()


def _twice(document: dict[str, Any]) -> None:
    document["rewrites"].insert(0, _first(document))


def _other_piece(document: dict[str, Any]) -> None:
    listed = _first(document)["tensors"]
    weights = next(t for t in document["tensors"] if t["id"] in listed and t.get("piece"))
    weights["piece"]["box"][-1] = [0, weights["piece"]["box"][-1][1] - weights["piece"]["box"][-1][0] + 1]


def _name_of_another(document: dict[str, Any]) -> None:
    listed = _first(document)["tensors"]
    new, old = (next(t for t in document["tensors"] if (t["id"] in listed) == is_new) for is_new in (True, False))
    new["name"] = old["name"]


def _promise(document: dict[str, Any]) -> None:
    document["exactness"] = "bits"


def _claim(document: dict[str, Any]) -> None:
    document["region_bound"] = {"bytes": document["peak_bytes"], "op": 0}
    document["proved_over"] = "orders_and_regions"


CHANGES = {
    _sections_swapped: "rewrites", _other_columns: "rewrites", _columns_from_nowhere: "rewrites",
    _other_perm: "rewrites", _no_perm: "rewrites", _wide_shape: "rewrites", _section_left_out: "rewrites",
    _bias_forgotten: "rewrites", _more_gone: "rewrites", _fewer_gone: "rewrites", _other_op: "rewrites",
    _op_that_is_there: "rewrites", _fewer_ops: "rewrites", _fewer_tensors: "rewrites", _tensors_turned: "rewrites",
    _twice: "rewrites", _other_piece: "rewrites", _name_of_another: "ids", _promise: "parts", _claim: "regions",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_by_hand(change: Change, model: Path, plan: Plan) -> None:
    """Every word of the rewriting counts."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(VerificationError) as caught:
        lowtide.verify(model, from_json(msgspec.json.encode(document)))
    assert caught.value.failure == CHANGES[change]


@pytest.mark.parametrize(
    ("change", "reason"),
    [(_other_columns, "has other ops"), (_fewer_gone, "has other ops"), (_tensors_turned, "has other ops"),
     (_other_op, "a product has no sections")],
)  # fmt: skip
def test_a_changed_plan_writes_no_model(change: Change, reason: str, model: Path, plan: Plan, tmp_path: Path) -> None:
    """One line, and no file."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(InputError, match=f"rewrites do not fit the model: .*{reason}"):
        from_json(msgspec.json.encode(document)).apply(model, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()
