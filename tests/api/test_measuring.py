"""`lowtide research measure`: every op has a time, in a session and alone, and a plan takes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api import planning
from lowtide.api.measuring import _TRIES
from lowtide.api.moves.decisions import part_graph
from lowtide.cli import main
from lowtide.cost.file import read_cost
from lowtide.cost.model import CostModel
from lowtide.cost.signature import of_entry
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.run import session_seconds
from lowtide.run.node_seconds import node_session
from lowtide.run.session_seconds import SessionSeconds
from lowtide.run.timing import cpu_name
from lowtide.transform.cut import Cutter
from support.small_nets import pyramid

pytest.importorskip("onnxruntime", reason="measures in onnxruntime")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is worth cutting."""
    path = tmp_path_factory.mktemp("measure") / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("level", ["extended", "all"])
def test_every_op_is_measured(level: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And parts of them; the file is read again, and a plan within a bound says how its ops are known."""
    out = tmp_path / "cost.json"
    assert main(["research", "measure", str(model), "-o", str(out), "--time", "4", "--level", level]) == 0
    printed = capsys.readouterr().out
    assert f"level {level}" in printed
    assert "launch" in printed
    file, _ = read_cost(out)
    graph = lowtide.load(model)
    whole = CostModel(file, Cutter(graph)).untiled()
    assert whole.by["measured"] == len(graph.ops)
    assert len(file.entries) > len(graph.ops)
    assert len({of_entry(entry) for entry in file.entries}) == len(file.entries)
    plan = lowtide.research.plan(model, target="onnxruntime", allow="tile", cost=out)
    assert plan.cost is not None
    assert plan.cost.level == level
    assert plan.cost.measured > 0


@pytest.mark.slow
def test_every_parameter_counts(model: Path) -> None:
    """Threads, seed and time are in the file or in what is run; reports come before each node."""
    heard: list[tuple[int, int, str]] = []
    file = lowtide.research.measure(model, threads=2, time=1e-6, seed=3, report=lambda *words: heard.append(words))
    assert file.threads == 2
    assert any(kind == "Conv" for _, _, kind in heard)
    graph = lowtide.load(model)
    assert CostModel(file, Cutter(graph)).untiled().by["measured"] == len(graph.ops)  # whole ops whatever the time


@pytest.mark.slow
def test_plans_for_a_bound_are_run(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is a trial in the file, and a plan keeps within the bound by what trials showed."""
    out = tmp_path / "cost.json"
    assert main(["research", "measure", str(model), "-o", str(out), "--time", "4", "--max-overhead", "50%,300%"]) == 0
    file, _ = read_cost(out)
    assert 1 <= len(file.trials) <= 2 * _TRIES
    assert "plans that were run" in capsys.readouterr().out
    plan = lowtide.research.plan(model, target="onnxruntime", allow="tile", cost=out, max_overhead=3.0)
    assert plan.cost is not None
    assert plan.cost.overhead <= 3.0


@pytest.mark.slow
def test_the_plan_for_a_bound_is_one_that_was_run(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where times stay the same a trial's sum is the plan's, and what the plan says is what that trial showed."""
    made, run, own_plan = list[Plan](), list[Graph](), lowtide.research.plan

    def planned(*arguments: Any, **more: Any) -> Plan:
        made.append(own_plan(*arguments, **more))
        return made[-1]

    def sessions(files: Sequence[tuple[Path, Graph]], *_: object) -> list[SessionSeconds]:
        run.extend(graph for _, graph in files)
        return _steady(files)

    monkeypatch.setattr(planning, "plan", planned)
    monkeypatch.setattr(session_seconds, "session_seconds", sessions)
    file = lowtide.research.measure(model, time=20, max_overhead=3.0)
    cut = [sorted(plan.order) for plan in made if plan.rewrites]
    assert cut
    assert all(order in [sorted(op.id for op in graph.ops) for graph in run] for order in cut)
    graph = lowtide.load(model)
    plan = lowtide.research.plan(graph, target="onnxruntime", allow="tile", cost=file, max_overhead=3.0)
    costs = CostModel(file, Cutter(graph))
    added_up = costs.parts(part_graph(plan, graph)).nanoseconds / costs.untiled().nanoseconds - 1
    ran = [trial.measured for trial in file.trials if trial.predicted == float(f"{added_up:.4g}")]
    assert plan.cost is not None
    assert plan.cost.overhead == pytest.approx(ran[0], abs=1e-3)


def _steady(files: Sequence[tuple[Path, Graph]]) -> list[SessionSeconds]:
    """Sessions whose nodes take a launch and a time for each byte that they make."""
    result = []
    for _path, graph in files:
        made = {op.id: 5e-6 + 1e-9 * sum(graph.tensor_by_id[t].size for t in op.outputs) for op in graph.ops}
        result.append(SessionSeconds(made, 0.0, sum(made.values()), len(made)))
    return result


def test_wrong_calls_say_so(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be timed, and what is no number of threads, level or time."""
    for settings, says in (
        ({"threads": 0}, "--threads is 0"), ({"level": "best"}, "give one of extended, all"),
        ({"time": 0.0}, "time is"), ({"max_overhead": "much"}, "write a part of the time"),
        ({"dims": {"n": 2}}, "no free dimension"),
    ):  # fmt: skip
        with pytest.raises(lowtide.InputError, match=says):
            lowtide.research.measure(model, **settings)
    for other in ("zoo:nasnet_a_cifar", "net.tflite"):
        with pytest.raises(lowtide.InputError, match="only ops of ONNX files are timed"):
            lowtide.research.measure(other)
    with pytest.raises(lowtide.InputError, match=r"none\.onnx"):
        lowtide.research.measure(tmp_path / "none.onnx")
    monkeypatch.setattr("builtins.open", _no_file)
    assert cpu_name()


def _no_file(*_: object, **__: object) -> None:
    raise OSError


def test_profiles_of_sessions_that_open_together_are_apart(model: Path, tmp_path: Path) -> None:
    """Their names hold the time, which may be the same."""
    sessions = [node_session(str(model), "extended", 1, str(tmp_path)) for _ in range(4)]
    assert len({session.end_profiling() for session in sessions}) == 4


def test_what_cannot_be_run_says_so(tmp_path: Path) -> None:
    """In a process of its own, too: one line, and the file."""
    path = tmp_path / "none.onnx"
    path.write_bytes(b"no model")
    with pytest.raises(lowtide.InputError, match=r"none\.onnx.*onnxruntime cannot run it"):
        session_seconds.session_seconds([(path, Graph("none", (), ()))], "extended", 1, 0, {})


def test_the_schema_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the cost file."""
    assert main(["research", "schema", "cost"]) == 0
    assert "seconds_per_byte" in json.dumps(json.loads(capsys.readouterr().out))
