"""What a runtime takes today and with a plan: the first rows of every screen."""

from __future__ import annotations

from pathlib import Path

import pytest

import lowtide
from lowtide.graph import Op
from lowtide.runtimes.figures import in_the_file
from lowtide.runtimes.onnxruntime_defaults import defaults
from support.command import run, run_json
from support.models import model_of
from support.small_models import branches, graph_file, onnx_file


def test_an_onnx_file_has_onnxruntimes_figures_under_generic(tmp_path: Path) -> None:
    """For the order that was planned, as onnxruntime counts it; and what it takes by its defaults."""
    path = onnx_file(tmp_path)
    plan = lowtide.research.plan(path)
    figures = {f.what: f for f in plan.runtime_figures or ()}
    assert set(figures) == {"in use", "arena"}
    graph = lowtide.load(path)
    taken = defaults(model_of(graph, "onnxruntime"))
    assert figures["in use"].default_bytes == taken.in_use_bytes
    assert figures["arena"].default_bytes == taken.arena_bytes == 2**20
    own = lowtide.research.plan(path, target="onnxruntime")
    assert own.runtime_figures is not None
    assert own.runtime_figures[0].planned_bytes == own.peak_bytes
    assert own.runtime_figures[1].planned_bytes == own.runtime_arena_bytes
    assert (figures["in use"].planned_bytes or 0) >= own.lower_bound_bytes


def test_a_graph_of_no_runtime_has_none(tmp_path: Path) -> None:
    """Graph JSON under generic and strict; the screen says whose rules generic has."""
    path = graph_file(tmp_path, branches())
    for target in ("generic", "strict"):
        assert lowtide.research.plan(path, target=target).runtime_figures is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["research", "plan"], ["inspect"], ["check", "--budget", "1MiB"], ["research", "compare"]]
)
def test_every_screen_begins_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    """The same bytes in text and in JSON, whichever command."""
    path = onnx_file(tmp_path)
    today = defaults(model_of(lowtide.load(path), "onnxruntime")).in_use_bytes
    _, out, err = run(capsys, *command, path)
    assert "onnxruntime today" in out + err
    assert f"{today:,}" in out + err
    answer = run_json(capsys, *command, path, "-q")
    rows = answer if isinstance(answer, list) else [answer]
    assert all(row["runtime_figures"][0]["default_bytes"] == today for row in rows if row.get("peak_bytes") != 0)
    assert f"{today:,}" not in run(capsys, "check", path, "--budget", "1MiB", "-q")[1]


@pytest.mark.slow
def test_tflms_defaults_are_the_file_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kTensorArenaSize and head, as `check --as-is` judges them; and with the plan those of the plan."""
    builder = pytest.importorskip("support.tflite_builder")
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.branches().bytes())
    own = lowtide.check(path, "16MiB", as_is=True)
    plan = lowtide.research.plan(path)
    smallest, head = plan.runtime_figures or []
    assert (smallest.what, head.what) == ("kTensorArenaSize", "head")
    assert smallest.default_bytes == own.required_bytes > plan.required_bytes == smallest.planned_bytes
    assert own.parts is not None
    assert plan.runtime_parts is not None
    assert head.default_bytes == own.parts.planned == plan.runtime_parts.own_planned
    assert head.planned_bytes == plan.arena_bytes
    assert f"TFLM today: kTensorArenaSize {own.required_bytes:,} B" in run(capsys, "check", path, "--budget", "1MiB")[2]
    seen = lowtide.inspect(path).runtime_figures
    assert seen is not None
    assert [f.planned_bytes for f in seen] == [plan.runtime_arena_bytes, plan.arena_bytes]
    litert = lowtide.research.plan(path, target="tflite").runtime_figures
    assert litert is not None
    assert [f.runtime for f in litert] == ["LiteRT"]


def test_a_graph_of_no_file_has_none_under_tflm() -> None:
    """There is nothing that TFLM could take as it stands."""
    assert lowtide.research.plan("zoo:swiftnet_cell_a", target="tflm", time=5).runtime_figures is None


def test_what_a_plan_leaves_out_keeps_its_place() -> None:
    """A written file has folded ops where they were, the others in the plan's order."""
    graph = lowtide.Graph("g", (), tuple(Op(i, (), ()) for i in range(5)))
    assert in_the_file(graph, [4, 1, 0]) == [4, 1, 2, 3, 0]
    assert in_the_file(graph, []) == [0, 1, 2, 3, 4]
