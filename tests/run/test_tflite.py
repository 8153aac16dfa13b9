"""A plan run in the pip package: held against what was predicted for that package, whichever build the plan is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.run.measured import check_measured
from lowtide.run.tflite import package_arena, run_tflite
from lowtide.run_reports import MeasuredArena, PackageArena, RuntimeRun, TfliteRunReport
from lowtide.write.tflite import planned_bytes
from support.tflite_builder import branches

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
TARGETS = ("tflm", "tflm,pointer=32", "tflm,kernels=reference", "tflm,kernels=cmsis_nn", "tflm,interpreter=plain")


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_plan_for_any_build_is_run(target: str, tmp_path: Path):
    """Head and arena of the package are as predicted, whatever the plan says of another build."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(branches().bytes())
    plan = lowtide.research.plan(path, target=target)
    plan.apply(path, out)
    report = run_tflite(path, out, plan, inputs=2)
    said, tflm = report.predicted, report.tflm
    assert said is not None
    assert tflm is not None
    assert tflm.planned is not None
    assert (tflm.planned.head_bytes, tflm.planned.smallest_arena_bytes) == (said.head_bytes, said.arena_bytes)
    if target in ("tflm", "tflm,kernels=reference", "tflm,pointer=32"):
        assert (report.required_bytes == said.arena_bytes) == (target != "tflm,pointer=32")
    assert all(o.equal for o in report.outputs)
    check_measured(plan, report)


@pytest.mark.slow
def test_a_plan_in_two_memories_is_run(tmp_path: Path):
    """By the package, in its one arena."""
    path = tmp_path / "m.tflite"
    path.write_bytes(branches().bytes())
    plan = lowtide.research.plan(path, banks=["sram=4800", "psram=64KiB"])
    report = lowtide.verify(path, plan, run=True)
    assert isinstance(report.run, TfliteRunReport)
    assert report.run.build.startswith("32-bit builds with a plain MicroInterpreter and two arenas")


@pytest.mark.slow
def test_a_figure_called_exact_and_missed_is_an_error(tmp_path: Path):
    """The head, the arena, also of the unmodified file, one that was said to be enough, and a plan that says other
    bytes than its file takes; not what is called at least."""
    path, out = tmp_path / "m.tflite", tmp_path / "out.tflite"
    path.write_bytes(branches().bytes())
    plan = lowtide.research.plan(path, target="tflm,kernels=reference")
    plan.apply(path, out)
    report = run_tflite(path, out, plan, inputs=1)
    check_measured(plan, report)
    assert report.unmodified is not None
    unmodified = replace(report.unmodified, arena_bytes=report.unmodified.arena_bytes - 16)
    with pytest.raises(VerificationError, match=r"the unmodified file, by bisection; .* was predicted"):
        check_measured(plan, replace(report, unmodified=unmodified))
    said = package_arena(out)
    assert said is not None
    assert report.predicted == said
    for wrong, words in (
        (replace(said, head_bytes=said.head_bytes + 16, build="another"), "TFLM's head takes"),
        (replace(said, arena_bytes=said.arena_bytes - 16, build="another"), "by bisection; .* was predicted"),
    ):
        with pytest.raises(VerificationError, match=words):
            check_measured(plan, replace(report, predicted=wrong))
    unsure = replace(said, arena_bytes=said.arena_bytes - 16, exact=False, build="another")
    with pytest.raises(VerificationError, match="was predicted to be enough"):
        check_measured(plan, replace(report, predicted=unsure))
    check_measured(plan, replace(report, predicted=replace(unsure, arena_bytes=2 * said.arena_bytes)))
    check_measured(plan, replace(report, predicted=replace(unsure, unknown=True)))
    with pytest.raises(VerificationError, match="the plan says"):
        check_measured(plan, replace(report, required_bytes=said.arena_bytes + 16))


def test_nothing_is_predicted_for_runs_without_tflm():
    """A report without the package's arena has nothing to miss."""
    report = TfliteRunReport((RuntimeRun("litert"),), 1, None, None)
    assert report.tflm is None
    assert report.predicted is None
    assert MeasuredArena(1, 2, 3, 4) != PackageArena(1, 2, exact=True, build="")


def test_the_package_is_the_build_that_it_is_called(tmp_path: Path):
    """Whatever the file was planned for."""
    path = tmp_path / "m.tflite"
    path.write_bytes(planned_bytes(branches().bytes(), list(range(len(branches().graph.operators))), None, "m"))
    said = package_arena(path)
    assert said is not None
    assert said.build == "pip's build for x86-64, with the reference kernels"
