"""Whether what a runtime measured is what was said of it: every figure called exact, to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from lowtide.errors import VerificationError
from lowtide.plan import Plan, RuntimeFigure
from lowtide.run.onnx import planned_block
from lowtide.run_reports import (
    AnyRunReport,
    LoopRunReport,
    MeasuredArena,
    NodeMemory,
    PackageArena,
    RunReport,
    TfliteRunReport,
    TorchRunReport,
)

_KEPT = ("ConvTranspose", "QLinearConv")
"""Ops whose kernels take memory before the first node runs, which the profile does not tell from weights."""


def check_measured(plan: Plan, seen: AnyRunReport, footprint_bytes: tuple[int, ...] = ()) -> None:
    """Compare every figure that the plan calls exact with what was measured. `footprint_bytes`: per step of the
    plan's order, to name the op at which most is in use where nothing more is known. Raises `VerificationError`:
    ``measured``: the first that was missed, in bytes, and the op."""
    if isinstance(seen, LoopRunReport):  # replayed, not measured
        return
    missed = next(_missed(plan, seen), None)
    if missed is None:
        return
    what, where = missed
    if not where and footprint_bytes and plan.order:
        step = max(range(len(plan.order)), key=lambda s: footprint_bytes[s])
        where = f"most is in use at {_op(plan, plan.order[step])}"
    raise VerificationError("measured", f"{what}; {where}" if where else what)


def _missed(plan: Plan, seen: RunReport | TfliteRunReport | TorchRunReport) -> Iterator[tuple[str, str]]:
    """What was missed, and where; the runtime's own figures first."""
    exact = {(f.runtime, f.what): f for f in plan.runtime_figures or () if f.sure == "exact"}
    if isinstance(seen, TorchRunReport):
        in_use = exact.get(("PyTorch, eager", "in use"))
        yield from _apart("PyTorch has", in_use, seen.original_peak_bytes, seen.planned_peak_bytes)
    elif isinstance(seen, TfliteRunReport):
        yield from _tflm(plan, exact, seen)
    elif isinstance(seen, RunReport):
        yield from _onnxruntime(plan, exact, seen)
    else:
        assert_never(seen)


def _apart(
    who: str, figure: RuntimeFigure | None, default: int | None, planned: int | None, where: str = ""
) -> Iterator[tuple[str, str]]:
    """Either side of a figure that is not what was measured."""
    if figure is None:
        return
    for measured, said, when in (
        (default, figure.default_bytes, "the unmodified file"), (planned, figure.planned_bytes, "the plan"),
    ):  # fmt: skip
        if measured is not None and said is not None and measured != said:
            yield f"{who} {figure.what} {measured:,} B for {when}, and {said:,} B was said to be exact", where


def _tflm(plan: Plan, exact: dict[tuple[str, str], RuntimeFigure], seen: TfliteRunReport) -> Iterator[tuple[str, str]]:
    """The package that ran against what was predicted for it, and, if the plan is for that build, against the plan."""
    tflm, package = seen.tflm, seen.predicted
    if package is not None and tflm is not None and tflm.original is not None and tflm.planned is not None:
        before, after = tflm.original, tflm.planned
        parts = plan.runtime_parts
        unknown = f"scratch is not known of {', '.join(parts.unknown)}" if parts is not None and parts.unknown else ""
        planned = (seen.planned_bytes, seen.required_bytes)
        here = seen.build == package.build
        if here and planned != (package.head_bytes, package.arena_bytes):
            what = f"the plan says {planned[0]} and {planned[1]} B of head and arena"
            yield f"{what}; its file takes {package.head_bytes} and {package.arena_bytes} B", unknown
        yield from _as_predicted(after, package, "", unknown)
        if here and parts is not None and parts.kernels != "any":
            yield from _apart("TFLM has", exact.get(("TFLM", "head")), before.head_bytes, after.head_bytes)
            smallest = exact.get(("TFLM", "kTensorArenaSize"))
            yield from _apart("TFLM needs", smallest, before.smallest_arena_bytes, after.smallest_arena_bytes)
        if seen.unmodified is not None:
            yield from _as_predicted(before, seen.unmodified, " for the unmodified file", unknown)
    litert = seen.litert
    if litert is not None:
        arena = exact.get(("LiteRT", "arena"))
        yield from _apart("LiteRT takes", arena, litert.original_bytes, litert.planned_bytes)


def _as_predicted(seen: MeasuredArena, package: PackageArena, whose: str, unknown: str) -> Iterator[tuple[str, str]]:
    """What the package takes for a file against what was predicted: to the byte, or as enough."""
    if seen.head_bytes != package.head_bytes:
        yield f"TFLM's head takes {seen.head_bytes:,} B{whose}; {package.head_bytes:,} B was predicted", unknown
    what = f"TFLM starts with {seen.smallest_arena_bytes:,} B{whose}, by bisection"
    if package.exact and seen.smallest_arena_bytes != package.arena_bytes:
        yield f"{what}; {package.arena_bytes:,} B was predicted, to the byte", ""
    elif not package.unknown and seen.smallest_arena_bytes > package.arena_bytes:
        yield f"{what}; {package.arena_bytes:,} B was predicted to be enough", ""


def _onnxruntime(plan: Plan, exact: dict[tuple[str, str], RuntimeFigure], seen: RunReport) -> Iterator[tuple[str, str]]:
    in_use, arena = exact.get(("onnxruntime", "in use")), exact.get(("onnxruntime", "arena"))
    if plan.target.partition(",")[0] == "onnxruntime" and in_use is not None:
        wrong = next((m for m in seen.planned.nodes if m.planned_bytes not in (None, m.in_use_bytes)), None)
        if wrong is not None:
            what = f"onnxruntime has {wrong.in_use_bytes:,} B in use, and {wrong.planned_bytes or 0:,} B was planned"
            yield what, f"at {_node(wrong)}"
    if arena is None or not seen.planned.nodes:
        return
    block = planned_block(plan)
    if seen.exact is not None and block is not None and seen.exact.held_bytes != block:
        where = f"it grew at {seen.exact.grown_at}" if seen.exact.grown_at else ""
        yield f"onnxruntime's arena takes {seen.exact.held_bytes:,} B, and {block:,} B was said to be exact", where
    if seen.unmodified is not None and not any(op.type in _KEPT for op in plan.ops):
        yield from _apart("onnxruntime takes", arena, seen.unmodified.held_bytes, None)


def _node(node: NodeMemory) -> str:
    return f"op {node.op} {node.name!r} ({node.type})"


def _op(plan: Plan, op_id: int) -> str:
    op = next(op for op in plan.ops if op.id == op_id)
    return f"op {op.id} {op.name!r} ({op.type})"
