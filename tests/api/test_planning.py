from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

import lowtide
from lowtide import api
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import InternalError
from lowtide.schedule import registry
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import Own
from lowtide.stop import Limits, Progress
from support.onnx_builder import constant, model, node, saved, value
from support.small_models import branches, graph_file, matrix_product, onnx_file


def test_names_are_functions_whatever_is_imported(tmp_path: Path):
    """Modules of the same name do not come in the way, before and after they are used."""
    for _ in range(2):
        for name in ("plan", "verify", "report", "run", "check", "inspect", "load"):
            assert callable(getattr(lowtide, name)), name
        for name in ("plan", "target", "allocate", "compare"):
            assert callable(getattr(lowtide.research, name)), name
        lowtide.research.plan(graph_file(tmp_path, branches()))
    assert set(lowtide.__all__) <= set(dir(lowtide))


def test_version_is_that_of_the_project():
    """One number in two files."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert f'version = "{lowtide.__version__}"' in project.read_text()


def test_plan_takes_a_path_a_graph_and_a_zoo_name(tmp_path: Path):
    """The same plan from a path and its graph."""
    path = graph_file(tmp_path, branches())
    one, other = lowtide.research.plan(path), lowtide.research.plan(lowtide.load(str(path)))
    assert one.order == other.order
    assert lowtide.research.plan("zoo:transformer:layers=1", target="strict").optimal


def test_plan_is_never_worse_than_the_own_order():
    """Whatever little time there is."""
    made = lowtide.research.plan("zoo:randwire_ws", time=1e-6, target="strict")
    assert made.peak_bytes <= made.own_order_peak_bytes


def test_apply_then_plan_finds_nothing_to_gain(tmp_path: Path):
    """The written model's own order is the best one, and its plan applies to it alone."""
    path, out = onnx_file(tmp_path), tmp_path / "o.onnx"
    made = lowtide.research.plan(path)
    made.apply(path, out)
    again = lowtide.research.plan(out)
    assert again.own_order_peak_bytes == again.peak_bytes == made.peak_bytes
    if made.order != sorted(made.order):
        with pytest.raises(lowtide.InputError, match="another model"):
            lowtide.apply(made, out, tmp_path / "x.onnx")


def test_verify_raises_by_name(tmp_path: Path):
    """`failure` names the broken rule."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path)
    assert lowtide.verify(path, made).numbers["peak_bytes"] == made.peak_bytes
    made.save(tmp_path / "p.json")
    lowtide.verify(path, tmp_path / "p.json")
    import msgspec

    worse = msgspec.structs.replace(made, order=made.order[::-1])
    with pytest.raises(lowtide.VerificationError) as caught:
        lowtide.verify(path, worse)
    assert caught.value.failure == "order"


def test_verify_with_proof_and_run(tmp_path: Path):
    """Both are in the report only if asked for."""
    pytest.importorskip("onnxruntime")
    path = onnx_file(tmp_path)
    made = lowtide.research.plan(path)
    assert lowtide.verify(path, made).proof is None
    report = lowtide.verify(path, made, run=True, prove=True)
    assert report.proof is not None
    assert report.run is not None
    assert report.run.equal
    assert not report.run.vacuous


def test_run_says_when_outputs_are_vacuous(tmp_path: Path):
    """An output that is a constant, whatever the input."""
    pytest.importorskip("onnxruntime")
    nodes = [node("Mul", "x zero", "z"), node("Abs", "z", "y")]
    path = saved(model(nodes, [value("x")], [value("y")], [constant("zero", [0.0])]), tmp_path)
    ran = lowtide.verify(path, lowtide.research.plan(path), run=True).run
    assert ran is not None
    assert ran.vacuous


def test_run_raises_when_outputs_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a failed verification that names the output."""
    pytest.importorskip("onnxruntime")
    from lowtide.api import checking

    path = onnx_file(tmp_path)
    made = lowtide.research.plan(path)
    ran = lowtide.run(path, None, made)
    broken = replace(ran, outputs=tuple(replace(o, equal=False, max_abs_difference=0.5) for o in ran.outputs))
    monkeypatch.setattr(checking, "run_both", lambda *_, **__: broken)
    with pytest.raises(lowtide.VerificationError, match=r"outputs: 1 of 1 outputs differ: y \(by up to 0\.5\)"):
        lowtide.verify(path, made, run=True)


def test_report_can_interrupt_a_search(tmp_path: Path):
    """KeyboardInterrupt from the callback: a valid plan, marked as interrupted."""

    def report(_: Progress) -> None:
        raise KeyboardInterrupt

    path = graph_file(tmp_path, matrix_product(6))
    made = lowtide.research.plan(path, target="strict", time=30, report=report)
    assert made.stopped == "interrupt"
    lowtide.verify(path, made)


@dataclass(frozen=True)
class Impatient:
    """A method that is interrupted before it has anything."""

    name: ClassVar[str] = "impatient"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Be interrupted."""
        raise KeyboardInterrupt


def test_an_interrupted_method_leaves_the_own_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A plan there always is."""
    monkeypatch.setattr(registry, "built_in", lambda: {"impatient": Impatient})
    made = lowtide.research.plan(graph_file(tmp_path, branches()), method="impatient")
    assert (made.stopped, made.order) == ("interrupt", [0, 1, 2, 3, 4])


@pytest.mark.slow
def test_time_is_kept(tmp_path: Path):
    """A search that would take hours ends, and says what ended it; how promptly is for the bench."""
    path = graph_file(tmp_path, matrix_product(6))
    made = lowtide.research.plan(path, target="strict", time=0.2)
    assert made.stopped == "time"


def test_check_is_a_plan_that_writes_nothing(tmp_path: Path):
    """`excess_bytes` is what the budget lacks."""
    path = graph_file(tmp_path, branches())
    found = lowtide.check(path, "100", target="strict")
    assert (found.required_bytes, found.excess_bytes, found.exit_status) == (109, 9, 4)
    assert lowtide.check(path, 109, target="strict", require_optimal=True).exit_status == 0


def test_allocate_takes_buffers(tmp_path: Path):
    """A sequence as well as a file."""
    from lowtide.allocate.buffers import block

    placed = lowtide.research.allocate([block("a", 0, 2, 10), block("b", 1, 3, 6)], "20B")
    assert (placed.height_bytes, placed.optimal, placed.exit_status(20), placed.exit_status(15)) == (16, True, 0, 4)
    assert lowtide.research.allocate([]).height_bytes == 0
    with pytest.raises(lowtide.InputError, match="capacity"):
        lowtide.research.allocate([], "0")


def test_targets_are_described():
    """Every built-in one, and it can be had by that name."""
    assert all(lowtide.research.target(name).name == name for name in lowtide.research.targets())


def test_write_all_writes_nothing_if_one_output_fails(tmp_path: Path):
    """The model is not there when the plan cannot be written."""
    path = graph_file(tmp_path, branches())
    made = lowtide.research.plan(path)
    with pytest.raises(lowtide.InputError):
        api.write_all(made, path, api.PlanFiles(tmp_path / "o.graph.json", tmp_path / "none" / "p.json"))
    assert [p.name for p in tmp_path.iterdir()] == ["m.graph.json"]


def test_no_reserve_is_a_reserve(tmp_path: Path):
    """0 bytes, as a size; less is none."""
    path = graph_file(tmp_path, branches())
    assert (
        lowtide.research.plan(path, budget=1000, reserve="0").required_bytes
        == lowtide.research.plan(path).required_bytes
    )
    with pytest.raises(lowtide.InputError, match="reserve is '-1'; write a number of bytes"):
        lowtide.research.plan(path, budget=1000, reserve="-1")


def test_an_unsound_bound_is_never_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A bound of lowtide's own above a peak ends the plan: cut down to the peak it would be a proof."""

    class Broken(Own):
        def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
            return Schedule(tuple(range(len(model.graph.ops))), lower_bound=10**9)

    monkeypatch.setattr(registry, "built_in", lambda: {"own": Broken})
    with pytest.raises(InternalError, match="is above"):
        lowtide.research.plan(graph_file(tmp_path, branches()), method="own")
