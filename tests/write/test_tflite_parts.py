"""Files of part graphs: what is untouched stays byte for byte, what is planned is measured."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.plan import read_plan
from lowtide.read import read_model
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES, control_dependencies, dependency_bytes
from lowtide.read.tflite.model import parse_file
from lowtide.run_reports import TfliteRunReport
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.tflite_file import with_file
from lowtide.write.tflite_parts import parts_bytes, write_tflite_parts

pytest.importorskip("ai_edge_litert", reason="networks are built with its schema, which is not installed")
from support.tflite_builder import Net, branches, residual
from support.tflite_nets import check_file, graph_with_file, pyramid, regions


def _parts(data: bytes, stripes: int = 3) -> PartGraph:
    cutter = Cutter(graph_with_file(data))
    region = max(regions(cutter, stripes), key=lambda r: (r.cuts[0].axis == 1, len(r.cuts)))
    return with_file(apply(cutter, [region]))


def test_the_old_file_stands_behind_whole() -> None:
    """Every byte of it, at a multiple of 16; the new one reads back as planned."""
    data = residual().bytes()
    parts = _parts(data)
    made = parts_bytes(data, parts, parts.graph.own_order, "m")
    assert made.endswith(data)
    assert (len(made) - len(data)) % 16 == 0
    check_file(made, parts)
    assert parts_bytes(data, parts, parts.graph.own_order, "m") == made


def test_weights_of_rows_are_cut() -> None:
    """Filters along the output channels: rows of weights and bias, each with its own scales."""
    data = pyramid().bytes()
    cutter = Cutter(graph_with_file(data))
    region = next(r for r in regions(cutter, 3) if r.cuts[0].axis == 3 and len(r.cuts) == 1)
    parts = with_file(apply(cutter, [region]))
    check_file(parts_bytes(data, parts, parts.graph.own_order, "m"), parts)
    of = cutter.graph.op_by_id[region.cuts[0].op]
    rows = [t for t, piece in parts.slices.items() if piece.of == of.inputs[1]]
    scales = [parts.graph.tensor_by_id[t].quant for t in rows]
    assert len(rows) == 3
    whole = cutter.graph.tensor_by_id[of.inputs[1]].quant
    assert whole is not None
    assert sum((q.scales for q in scales if q is not None), ()) == whole.scales


def test_dependencies_follow_their_operators() -> None:
    """Operators that must keep their order are whole, and their pairs name their new places."""
    net = branches(2)
    net.metadata(CONTROL_DEPENDENCIES, dependency_bytes([[(0, 1)]]))
    data = net.bytes()
    parts = _parts(data)
    assert not {cut.op for region in parts.regions for cut in region.cuts} & {0, 1}
    file = parse_file(parts_bytes(data, parts, parts.graph.own_order, "m"), "m")
    slot = [op.id for op in parts.graph.ops]
    assert file.dependencies[0] == ((slot.index(0), slot.index(1)),)
    assert control_dependencies(None, 1, "m") == []


def test_offline_plans_are_replaced() -> None:
    """A plan for other tensors is left out; one that is given stands for each tensor."""
    net = residual()
    tensors = len(net.graph.tensors)
    net.metadata("OfflineMemoryAllocation", struct.pack(f"<{3 + tensors}i", 0, 1, tensors, *[-1] * tensors))
    data = net.bytes()
    parts = _parts(data)
    order = parts.graph.own_order
    assert parse_file(parts_bytes(data, parts, order, "m"), "m").offline_plan() is None
    offsets = {op.outputs[0]: 16 * i for i, op in enumerate(parts.graph.ops)}
    file = parse_file(parts_bytes(data, parts, order, "m", offsets, "reference"), "m")
    listed = file.offline_plan()
    assert listed is not None
    assert file.kernels == "reference"
    assert sorted(at for at in listed if at >= 0) == sorted(offsets.values())


def test_another_file_is_refused(tmp_path: Path) -> None:
    """Parts are written over the model that was cut, and no other; and never over the input."""
    one, other = tmp_path / "a.tflite", tmp_path / "b.tflite"
    one.write_bytes(residual().bytes())
    other.write_bytes(pyramid().bytes())
    parts = _parts(one.read_bytes())
    with pytest.raises(InputError, match="not the model that was tiled"):
        write_tflite_parts(other, parts, parts.graph.own_order, tmp_path / "c.tflite")
    with pytest.raises(InputError):
        write_tflite_parts(one, parts, parts.graph.own_order, one)
    assert not (tmp_path / "c.tflite").exists()


@pytest.mark.slow
def test_from_the_model_to_its_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """plan, verify --run, curve and check: bit-equal in both runtimes, head and arena as predicted."""
    pytest.importorskip("tflite_micro", reason="parts are run in TFLM, which is not installed")
    model, cut, plan_path = (tmp_path / name for name in ("m.tflite", "cut.tflite", "plan.json"))
    model.write_bytes(pyramid().bytes())
    arguments = ["research", "plan", str(model), "--target", "tflm", "--allow", "tile", "-q", "--time", "10"]
    assert main([*arguments, "-o", str(cut), "--plan", str(plan_path)]) == 0
    plan = read_plan(plan_path)
    uncut = lowtide.research.plan(model, target="tflm")
    assert plan.rewrites
    assert plan.exactness == "bits"
    assert plan.required_bytes < uncut.required_bytes
    figures, today = plan.runtime_figures, uncut.runtime_figures
    assert figures is not None
    assert today is not None
    assert [f.default_bytes for f in figures] == [f.default_bytes for f in today]
    assert [f.planned_bytes for f in figures] == [plan.required_bytes, plan.arena_bytes]
    report = lowtide.verify(model, plan, run=True)
    assert report.run is not None
    assert main(["verify", str(model), str(plan_path), "--run"]) == 0
    text = capsys.readouterr().out
    assert "equal bit by bit" in text
    assert text.count("equal to the byte") == 2
    assert main(["verify", str(cut)]) == 0
    header, buffers = tmp_path / "arena.h", tmp_path / "buffers.h"
    assert main([*arguments, "--header", str(header), "--buffer-plan", str(buffers)]) == 0
    assert f"ARENA_SIZE {plan.required_bytes}" in header.read_text()
    assert f"PLANNED_SIZE {plan.arena_bytes}" in buffers.read_text()
    assert main(["check", str(cut), "--budget", str(plan.required_bytes)]) == 0
    assert main(["research", "curve", str(model), "--target", "tflm"]) == 0
    assert "the runtime's own data for each op" in capsys.readouterr().out
    few = lowtide.research.plan(model, target="tflm", allow="tile", max_ops=len(plan.order), time=10)
    assert len(few.order) <= len(plan.order)
    room = (plan.required_bytes + uncut.required_bytes) // 2
    within = lowtide.research.plan(model, target="tflm", allow="tile", budget=room, time=10)
    assert within.status == "ok"
    assert len(within.order) <= len(plan.order)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["tflm", "tflm,kernels=reference", "tflm,interpreter=recording"])
@pytest.mark.parametrize("stride", [2, 3])
def test_head_and_arena_are_as_planned(target: str, stride: int, tmp_path: Path) -> None:
    """Odd sizes, depthwise windows between narrow tensors, under several builds: measured to the byte, bit-equal."""
    pytest.importorskip("tflite_micro", reason="parts are run in TFLM, which is not installed")
    net = Net()
    x = net.tensor((1, 31, 19, 3), zero=-128)
    a = net.conv(net.conv(x, 4), 64, (1, 1))
    b = net.conv(a, 1, (5, 3), (stride, stride), depthwise=True)
    net.ends([x], [net.conv(b, 4, (3, 3), (2, 2))])
    model = tmp_path / "m.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target=target, allow="tile", time=1, max_ops=120)
    assert plan.rewrites
    report = lowtide.run(model, None, plan)
    assert isinstance(report, TfliteRunReport)
    assert report.outputs
    assert all(output.equal and not output.vacuous for output in report.outputs)
    assert report.tflm is not None
    assert report.predicted is not None
    seen = report.tflm.planned
    assert seen is not None
    assert (seen.head_bytes, seen.smallest_arena_bytes) == (report.predicted.head_bytes, report.predicted.arena_bytes)
    assert plan.arena_bytes is not None
    assert seen.head_bytes <= plan.arena_bytes  # of any kernels: the head of those that need most
    assert seen.head_bytes == plan.arena_bytes or "reference" not in target


@pytest.mark.slow
def test_litert_takes_the_same_parts(tmp_path: Path) -> None:
    """Under LiteRT's target there is no offline plan, and its own arena falls as measured."""
    model, cut = tmp_path / "m.tflite", tmp_path / "cut.tflite"
    model.write_bytes(pyramid().bytes())
    plan = lowtide.research.plan(model, target="tflite", allow="tile", time=10)
    assert plan.rewrites
    lowtide.apply(plan, model, cut)
    assert parse_file(cut.read_bytes(), "m").offline_plan() is None
    report = lowtide.verify(model, plan, run=True)
    assert report.run is not None


@pytest.mark.slow
def test_a_plan_that_was_changed_is_refused(tmp_path: Path) -> None:
    """A cut whose rows are not those of the parts is not written."""
    model = tmp_path / "m.tflite"
    model.write_bytes(pyramid().bytes())
    plan = lowtide.research.plan(model, target="tflm", allow="tile", time=1.8)
    text = plan.to_json()
    changed = msgspec.json.decode(text)
    ends = changed["rewrites"][0]["ops"][0]["ends"]
    ends[0] += 1
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(changed))
    with pytest.raises(InputError, match="plan the model again"):
        lowtide.apply(read_plan(path), model, tmp_path / "cut.tflite")
    assert read_model(model).ops
