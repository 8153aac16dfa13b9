"""What running a TFLite model in its runtimes showed, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.columns import change, columns
from lowtide.report.timing import timing_rows
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.run_reports import PackageArena, RuntimeRun, TfliteRunReport

NAMES = {"tflm": "TFLM", "litert": "LiteRT", "litert-xnnpack": "LiteRT with XNNPACK"}


def tflite_run_text(run: TfliteRunReport) -> str:
    """Whether each runtime's outputs are equal, and TFLM's arena before and after, compared with the plan's."""
    rows = [(NAMES[r.runtime], _verdict(r, run.inputs)) for r in run.runtimes]
    tflm = run.tflm
    if tflm is not None and tflm.original is not None and tflm.planned is not None:
        before, after = tflm.original, tflm.planned
        rows.append(("TFLM head", f"{format_size(before.head_bytes)} -> {format_size(after.head_bytes)}, "
                     f"{change(before.head_bytes, after.head_bytes)}"))  # fmt: skip
        if run.predicted is not None:
            rows.append(_compared(run.predicted.head_bytes, after.head_bytes))
        rows.append(("TFLM tail", f"{format_size(before.tail_bytes)} -> {format_size(after.tail_bytes)}"))
        rows.append(("smallest arena", f"{format_size(before.smallest_arena_bytes)} -> "
                     f"{format_size(after.smallest_arena_bytes)}, by bisection"))  # fmt: skip
        if run.predicted is not None:
            rows += _predicted(run, run.predicted, after.smallest_arena_bytes)
    litert = run.litert
    if litert is not None and litert.original_bytes is not None and litert.planned_bytes is not None:
        before, after = litert.original_bytes, litert.planned_bytes
        verdict = ""
        if run.planned_bytes is None and run.required_bytes is not None:
            off = after - run.required_bytes
            verdict = "; as planned, to the byte" if off == 0 else f"; planned {format_size(run.required_bytes)}"
        rows.append(
            ("LiteRT arena", f"{format_size(before)} -> {format_size(after)}, {change(before, after)}{verdict}")
        )
        rows.append(("with XNNPACK", "its workspace cannot be seen from outside; nothing is said of it"))
    for r in run.runtimes:
        rows += [(f"{NAMES[r.runtime]} {name}", text) for name, text in timing_rows(r.timing, "the file as it stands")]
    return columns(rows)


def _predicted(run: TfliteRunReport, package: PackageArena, measured_bytes: int) -> list[tuple[str, str]]:
    """What was predicted for the package that ran, and what the plan says where that is for another build."""
    rows = [_compared(package.arena_bytes, measured_bytes)]
    if run.required_bytes != package.arena_bytes and run.required_bytes is not None and run.planned_bytes is not None:
        head = f", head {run.planned_bytes:,} B" if run.planned_bytes != package.head_bytes else ""
        rows.append(("in the plan", f"{format_size(run.required_bytes)}{head}: for {run.build}, not run here"))
    return rows


def _compared(predicted_bytes: int, measured_bytes: int) -> tuple[str, str]:
    """A prediction, and how far from it the measurement is."""
    off = measured_bytes - predicted_bytes
    verdict = "equal to the byte" if off == 0 else f"{abs(off):,} B {'more' if off > 0 else 'less'} is needed"
    return "predicted", f"{format_size(predicted_bytes)}: {verdict}"


def _verdict(r: RuntimeRun, inputs: int) -> str:
    if r.refused:
        return f"does not run it: {r.refused}"
    if not r.deterministic:
        return "two runs of the original differ: nothing can be said"
    vacuous = sum(o.vacuous for o in r.outputs)
    text = f"{format_count(len(r.outputs), 'output')}: equal bit by bit, {inputs} random inputs"
    return text + (f"; vacuous for {vacuous}, which do not depend on the inputs" if vacuous else "")
