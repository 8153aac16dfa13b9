"""A figure called exact that is missed is no success, and the op is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.plan import Plan, RuntimeFigure
from lowtide.report.running import ran_text
from lowtide.run.measured import check_measured
from lowtide.run_reports import (
    FileRun,
    MeasuredArena,
    NodeMemory,
    PackageArena,
    RunReport,
    RuntimeRun,
    TfliteRunReport,
    TorchRunReport,
)
from support.command import Captured, run
from support.small_models import onnx_file


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Of a small model, for onnxruntime."""
    return lowtide.research.plan(onnx_file(tmp_path), target="onnxruntime")


def _ran(plan: Plan) -> RunReport:
    """What running it would show if all is as planned."""
    in_use, arena = plan.runtime_figures or []
    nodes = tuple(NodeMemory(op, f"n{op}", "Add", 8, 8) for op in plan.order)
    planned = FileRun("p", in_use.planned_bytes or 0, 0, 0, nodes)
    exact = FileRun("p", 0, 0, arena.planned_bytes or 0, nodes, "n3")
    unmodified = FileRun("m", 0, 0, arena.default_bytes, ())
    return RunReport((), planned, planned, planned, exact, arena.planned_bytes, 0, 2, True, True, unmodified)


def test_what_is_as_planned_passes(plan: Plan) -> None:
    """And what is not called exact may be missed."""
    check_measured(plan, _ran(plan))
    least = [msgspec.structs.replace(f, sure="at least") for f in plan.runtime_figures or []]
    ran = _ran(plan)
    assert ran.exact is not None
    more = replace(ran, exact=replace(ran.exact, held_bytes=1 << 30), unmodified=None)
    check_measured(msgspec.structs.replace(plan, runtime_figures=least), more)


def test_each_miss_is_said_with_its_op(plan: Plan) -> None:
    """In use at a node, the arena's block, and what the defaults take."""
    ran = _ran(plan)
    assert ran.exact is not None
    assert ran.unmodified is not None
    node = replace(ran.planned.nodes[1], in_use_bytes=16)
    wrong = replace(ran.planned, nodes=(ran.planned.nodes[0], node, *ran.planned.nodes[2:]))
    with pytest.raises(VerificationError, match=rf"16 B in use, and 8 B was planned; at op {node.op} "):
        check_measured(plan, replace(ran, planned=wrong))
    with pytest.raises(VerificationError, match=r"arena takes 999 B, .*; it grew at n3"):
        check_measured(plan, replace(ran, exact=replace(ran.exact, held_bytes=999)))
    with pytest.raises(VerificationError, match=r"arena 7 B for the unmodified file, .*; most is in use at op 3 "):
        check_measured(
            plan, replace(ran, unmodified=replace(ran.unmodified, held_bytes=7)), (1, 2, 1, 9, 1, 1)[: len(plan.order)]
        )


def _with(plan: Plan, *figures: RuntimeFigure) -> Plan:
    return msgspec.structs.replace(plan, runtime_figures=list(figures))


def test_torch_and_litert_are_held_to_their_figures(plan: Plan) -> None:
    """Before and after."""
    eager = RuntimeFigure(runtime="PyTorch, eager", what="in use", default_bytes=8, planned_bytes=4)
    check_measured(_with(plan, eager), TorchRunReport((), 1, True, True, 8, 4))
    for before, after in ((9, 4), (8, 5)):
        with pytest.raises(VerificationError, match="PyTorch has in use"):
            check_measured(_with(plan, eager), TorchRunReport((), 1, True, True, before, after))
    arena = RuntimeFigure(runtime="LiteRT", what="arena", default_bytes=8, planned_bytes=4)
    litert = RuntimeRun("litert", original_bytes=8, planned_bytes=4)
    check_measured(_with(plan, arena), TfliteRunReport((litert,), 1, None, 4))
    with pytest.raises(VerificationError, match="LiteRT takes arena 6 B for the plan"):
        check_measured(_with(plan, arena), TfliteRunReport((replace(litert, planned_bytes=6),), 1, None, 4))


def test_tflm_is_held_to_head_and_smallest_arena(tmp_path: Path) -> None:
    """As predicted for the package, and as a plan for that build says; ops of unknown scratch are named."""
    builder = pytest.importorskip("support.tflite_builder")
    path = tmp_path / "m.tflite"
    path.write_bytes(builder.branches().bytes())
    plan = lowtide.research.plan(path, target="tflm,kernels=reference")
    smallest, head = plan.runtime_figures or []
    assert plan.runtime_parts is not None
    package = PackageArena(head.planned_bytes or 0, smallest.planned_bytes or 0, True, plan.runtime_parts.build)
    before = MeasuredArena(head.default_bytes, 0, 0, smallest.default_bytes)
    after = MeasuredArena(head.planned_bytes or 0, 0, 0, smallest.planned_bytes or 0)

    def ran(after: MeasuredArena) -> TfliteRunReport:
        runs = (RuntimeRun("tflm", original=before, planned=after),)
        return TfliteRunReport(runs, 1, plan.arena_bytes, plan.runtime_arena_bytes, package, package.build)

    check_measured(plan, ran(after))
    more = replace(after, smallest_arena_bytes=after.smallest_arena_bytes + 32)
    with pytest.raises(VerificationError, match=r"by bisection; .* was predicted, to the byte"):
        check_measured(plan, ran(more))
    today = replace(ran(after).runtimes[0], original=replace(before, smallest_arena_bytes=1))
    with pytest.raises(VerificationError, match=r"TFLM needs kTensorArenaSize 1 B for the unmodified file"):
        check_measured(plan, replace(ran(after), runtimes=(today,)))
    firmware = lowtide.research.plan(path, target="tflm,pointer=32")
    assert firmware.runtime_parts is not None
    other = replace(ran(after), planned_bytes=1, required_bytes=2, build=firmware.runtime_parts.build)
    check_measured(firmware, other)
    strange = msgspec.structs.replace(plan.runtime_parts, unknown=["Strange"])
    with pytest.raises(VerificationError, match="scratch is not known of Strange"):
        check_measured(msgspec.structs.replace(plan, runtime_parts=strange), ran(replace(after, head_bytes=1)))


@pytest.mark.slow
def test_a_report_of_no_known_runtime_is_no_success(plan: Plan) -> None:
    """It is neither compared nor shown as onnxruntime's."""
    for show in (lambda: check_measured(plan, object()), lambda: ran_text(object())):  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="Expected code to be unreachable"):
            show()


def test_verify_shows_what_held_and_ends_with_5(tmp_path: Path, capsys: Captured) -> None:
    """Every check, what was measured, and last the figure that was missed."""
    pytest.importorskip("onnxruntime", reason="pip install '.[run]'")
    path, out = onnx_file(tmp_path), tmp_path / "p.json"
    plan = lowtide.research.plan(path, target="onnxruntime")
    plan.save(out)
    status, shown, err = run(capsys, "verify", path, out, "--run")
    assert (status, err) == (0, "")
    assert "time of a run" in shown
    assert "process memory, planned" in shown
    assert "the plan holds" in shown
    figures = plan.runtime_figures or []
    wrong = msgspec.structs.replace(figures[1], default_bytes=figures[1].default_bytes + 1)
    msgspec.structs.replace(plan, runtime_figures=[figures[0], wrong]).save(out)
    status, shown, err = run(capsys, "verify", path, out, "--run")
    assert status == 5
    assert "runtime figures" in shown
    assert "live tensors, planned" in shown
    assert "the plan holds" not in shown
    assert err.startswith("lowtide: measured: onnxruntime takes arena 1,048,576 B for the unmodified file")
