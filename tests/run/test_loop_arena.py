"""Plans with loops replayed with real bytes: what is planned holds, and what is planned wrong is seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Kind
from lowtide.plan import Plan
from lowtide.run.tensor_values import kept_by_litert, replay_loops
from lowtide.run_reports import LoopRunReport
from support.loop_files import SLOW, picker, random_file, sliding, written
from support.small_nets import group_norm, pyramid
from support.tflite_builder import SAME, Net

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")


def net(dtype: str = "int8") -> Net:
    """Two convolutions around a depthwise one, an addition, a strided one, and a pool over all."""
    net = Net()
    x = net.tensor((1, 16, 12, 3), dtype)
    a = net.conv(x, 8, (3, 3), (1, 1), SAME)
    b = net.add(a, net.conv(net.conv(a, 1, (3, 3), (1, 1), SAME, depthwise=True), 8, (1, 1)))
    c = net.conv(net.conv(b, 4, (3, 3), (2, 2), SAME), 32, (1, 1))
    d = net.pool(c, "AVERAGE_POOL_2D", (net.shape(c)[1], net.shape(c)[2]), (1, 1))
    net.ends([x], [net.reshape(d, (1, 32))])
    return net


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth looping."""
    return written(net(), tmp_path_factory.mktemp("loops"))


@pytest.fixture(scope="module")
def plan(model: Path) -> Plan:
    """Its plan, the input handed over."""
    return lowtide.research.plan(model, target="loops", allow="row-streaming", stream_input=True)


@pytest.mark.slow
def test_a_plan_is_replayed_with_what_litert_makes(model: Path, plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """Every position of every op in a loop, for two inputs; the screen says that it is a simulation."""
    report = lowtide.run(model, None, plan)
    assert isinstance(report, LoopRunReport)
    assert report.equal
    assert not report.vacuous
    assert report.positions > 2 * 16 * 12
    assert report.compared_bytes > 0
    assert report.arena_bytes == plan.arena_bytes
    file = model.parent / "p.json"
    plan.save(file)
    assert main(["verify", str(model), str(file), "--run"]) == 0
    assert "simulation" in capsys.readouterr().out


def _changed(plan: Plan, **ring: int) -> Plan:
    """The plan with its largest ring changed, which is not checked here."""
    table: dict[str, Any] = msgspec.json.decode(plan.to_json())
    rings = [r for loop in table["loops"] for r in loop["keep"].values() if "over" not in r]
    largest = max(rings, key=lambda r: r["slots"] * r["bytes"])
    for key, by in ring.items():
        largest[key] += by
    return msgspec.convert(table, Plan)


@pytest.mark.parametrize("ring", [{"slots": -1}, {"offset": 16}, {"offset": -16}])
def test_a_wrong_ring_is_seen(model: Path, plan: Plan, ring: dict[str, int]) -> None:
    """One position too few, or a place that another ring has as well."""
    with pytest.raises(VerificationError, match="simulation"):
        lowtide.run(model, None, _changed(plan, **ring))


def test_onnx_is_replayed_too(tmp_path: Path) -> None:
    """With what onnxruntime makes of every tensor."""
    pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
    path = written(pyramid().model(), tmp_path)
    plan = lowtide.research.plan(path, target="loops", allow="row-streaming")
    assert plan.loops
    report = lowtide.run(path, None, plan)
    assert isinstance(report, LoopRunReport)
    assert report.equal
    assert report.positions > 0


def test_channels_last_are_replayed(tmp_path: Path) -> None:
    """A convolution whose result lies over its input where channels are behind each place: by rows, or by pixels. The
    same bytes as the file has them are somewhere else."""
    pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
    path = written(sliding(), tmp_path)
    plan = lowtide.research.plan(path, target="loops,layout=channels_last", allow="row-streaming")
    (loop,) = list(plan.loops or ())
    assert list(loop.behind) == ["0"]
    assert plan.required_bytes == 16 * 8 * 4 * 4 + loop.behind["0"] < 2 * 16 * 8 * 4 * 4
    report = lowtide.verify(path, plan, run=True).run
    assert isinstance(report, LoopRunReport)
    assert report.equal
    assert plan.rules is not None
    as_the_file = msgspec.structs.replace(plan, rules=replace(plan.rules, layout="file"))
    with pytest.raises(VerificationError, match="simulation"):
        lowtide.run(path, None, as_the_file)


def test_groups_of_rows_are_replayed(tmp_path: Path) -> None:
    """A group norm between reshapes, in a loop over channels: positions of four channels, in rings and in a whole."""
    pytest.importorskip("onnxruntime", reason="pip install '.[onnx]'")
    path = written(group_norm(), tmp_path)
    plan = lowtide.research.plan(path, target="loops", allow="row-streaming")
    (loop,) = [*(plan.loops or [])]
    assert len({r.bytes for r in loop.keep.values()}) == 2
    report = lowtide.verify(path, plan, run=True).run
    assert isinstance(report, LoopRunReport)
    assert report.equal


def test_what_litert_refuses_is_said(model: Path, plan: Plan, tmp_path: Path) -> None:
    """A file that is none."""
    path = tmp_path / "broken.tflite"
    path.write_bytes(model.read_bytes()[:200])
    with pytest.raises(InputError):
        lowtide.run(path, None, plan)


def _replayed(path: Path, plan: Plan) -> LoopRunReport:
    """A plan verified and replayed; LiteRT in this process, as its start takes longer than all else."""
    if path.suffix == ".tflite":
        graph = lowtide.load(path)
        lowtide.verify(graph, plan)
        tensors = [t.id for t in graph.tensors if t.kind is not Kind.CONSTANT]
        return replay_loops(graph, plan, list(kept_by_litert(path, plan.seed, 2, tensors)), "LiteRT")
    report = lowtide.verify(path, plan, run=True).run
    assert isinstance(report, LoopRunReport)
    return report


@pytest.mark.slow
@given(st.data(), st.booleans())
@settings(max_examples=8, deadline=None, suppress_health_check=SLOW)
def test_random_networks_are_replayed(data: st.DataObject, handed: bool) -> None:
    """Whatever is planned: it verifies, and every byte is where the plan has it."""
    with TemporaryDirectory() as folder:
        path = random_file(data, Path(folder), 8, ("int8", "float32"))
        try:
            target = picker(data)(("loops", "strict", "loops,layout=channels_last"))
            plan = lowtide.research.plan(path, target=target, allow="row-streaming", stream_input=handed, time=10)
        except InputError as error:
            assert "--stream-input" in str(error)  # noqa: PT017
            return
        if plan.loops:
            assert _replayed(path, plan).equal
