"""Halos computed again: what they add, that a plan takes and says it, and what it says is checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.api.writing import write_zoo
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Graph
from lowtide.ops.families import flops_of
from lowtide.ops.forms import Contraction, Convolution
from lowtide.plan import Plan, from_json
from lowtide.read import read_model
from lowtide.report.text import plan_text
from lowtide.rewrites import PlanHalos
from lowtide.transform.cut import Cutter
from lowtide.transform.halos import halos_of
from lowtide.transform.parts import apply
from support.part_suite import SUITE, regions

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from lowtide.run_reports import RunReport


def _macs(graph: Graph) -> int:
    """Multiplications of convolutions and products of a graph."""
    cutter, total = Cutter(graph), 0
    for op in graph.ops:
        known = cutter.meaning(op.id)
        if known is not None and isinstance(known.form, Convolution | Contraction):
            reads = tuple([None if t is None else graph.tensor_by_id[t].shape for t in op.operands or op.inputs])
            total += flops_of(known.form, reads, tuple([graph.tensor_by_id[t].shape for t in op.outputs])) // 2
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITE)
def test_what_is_added_is_what_the_parts_have_more(name: str, tmp_path: Path) -> None:
    """Of every region of the small networks: the parts' own multiplications, one by one, less those of the whole."""
    (tmp_path / "m.onnx").write_bytes(SUITE[name]().model().SerializeToString())
    cutter = Cutter(read_model(tmp_path / "m.onnx"))
    once, seen = _macs(cutter.graph), 0
    for region in regions(cutter, 3):
        halos = halos_of(cutter, [region])
        if any(cut.begins for cut in region.cuts):
            assert halos == PlanHalos(macs=once, extra_macs=_macs(apply(cutter, [region]).graph) - once)
            seen += 1
        else:
            assert halos is None
    assert seen > 0 or name != "widening"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inverted bottlenecks: their wide rows are most of what a stripe holds."""
    path = tmp_path_factory.mktemp("halos") / "net.onnx"
    write_zoo("mcunet_v2_vww:side=48", path)
    return path


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan with rows that run again."""
    return lowtide.research.plan(model, target="onnxruntime", allow="tile,recompute-halos", time=2)


@pytest.mark.slow
def test_less_is_there_at_once(model: Path, plan: Plan) -> None:
    """Than with kept rows, and the plan says what is run for it; what runs once says nothing."""
    kept = lowtide.research.plan(model, target="onnxruntime", allow="tile", time=2)
    assert plan.peak_bytes < kept.peak_bytes
    assert kept.halos is None
    assert plan.halos is not None
    assert plan.halos.macs == _macs(read_model(model))
    assert 0 < plan.halos.overhead < 1
    assert plan.region_bound is None
    assert plan.proved_over == "orders"
    added = f"{100 * plan.halos.overhead:.1f} % more multiplications"
    assert f"{added}" in plan_text(plan)
    assert "recomputed halos" not in plan_text(kept)


@pytest.mark.slow
def test_onnxruntime_has_in_use_what_is_planned(model: Path, plan: Plan) -> None:
    """To the byte, at every op, with the outputs of the whole; what is added is said."""
    report = lowtide.verify(model, from_json(plan.to_json()), run=True, timed=False)
    assert isinstance(report.run, RunReport)
    held = {rule.name: rule.result for rule in report.checks}
    assert "recompute rows" in held["parts"]
    assert "cut_nodes" in held
    assert all(node.planned_bytes in (None, node.in_use_bytes) for node in report.run.planned.nodes)


def _other_figure(plan: dict[str, Any]) -> None:
    plan["halos"]["extra_macs"] -= 1


def _no_figure(plan: dict[str, Any]) -> None:
    del plan["halos"]


def _other_whole(plan: dict[str, Any]) -> None:
    plan["halos"]["macs"] += 1


def _said_to_run_once(plan: dict[str, Any]) -> None:
    for rewrite in plan["rewrites"]:
        for op in rewrite["ops"]:
            op.pop("begins", None)


def _other_begin(plan: dict[str, Any]) -> None:
    cut = next(op for rewrite in plan["rewrites"] for op in rewrite["ops"] if "begins" in op)
    cut["begins"][1] += 1


@pytest.mark.parametrize("change", [_other_figure, _no_figure, _other_whole, _said_to_run_once, _other_begin])
def test_what_does_not_hold_is_refused(model: Path, plan: Plan, change: Callable[[dict[str, Any]], None]) -> None:
    """Another figure, none, or other rows than those that the parts run."""
    document = msgspec.json.decode(plan.to_json())
    change(document)
    with pytest.raises(VerificationError, match=r"halos|parts"):
        lowtide.verify(model, from_json(msgspec.json.encode(document)))


def test_rows_that_are_written_otherwise_are_not_applied(model: Path, plan: Plan, tmp_path: Path) -> None:
    """A decision that was changed by hand is refused."""
    document = msgspec.json.decode(plan.to_json())
    _other_begin(document)
    with pytest.raises(InputError, match="cannot be cut so"):
        from_json(msgspec.json.encode(document)).apply(model, tmp_path / "out.onnx")


@pytest.mark.parametrize("allow", ["recompute-halos", "recompute-halos,recompute", "recompute-halos,alias"])
def test_halos_go_with_fission_and_seams(model: Path, allow: str) -> None:
    """Other words are refused by name."""
    with pytest.raises(InputError, match="write --allow tile,recompute-halos"):
        lowtide.research.plan(model, allow=allow, budget="1MiB")


@pytest.mark.slow
def test_time_holds_what_runs_again(model: Path) -> None:
    """Within a bound on the predicted time a plan is no higher than with kept rows, and keeps within it."""
    ways = ("tile", "tile,recompute-halos")
    kept, again = (
        lowtide.research.plan(model, target="onnxruntime", allow=allow, max_overhead=0.5, time=2) for allow in ways
    )
    assert again.peak_bytes <= kept.peak_bytes
    assert again.cost is not None
    assert again.cost.overhead <= 0.5


def test_halos_are_refused_with_a_slow_memory(model: Path) -> None:
    """What cannot be honoured is not dropped."""
    with pytest.raises(InputError, match="leave out recompute-halos"):
        lowtide.research.plan(model, allow="tile,recompute-halos", memories=["fast=20KiB"])
