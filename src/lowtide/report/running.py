"""What was checked of a plan, proved a second time, and measured by running both models, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lowtide.report.columns import change, columns
from lowtide.report.cuts import loop_run_text
from lowtide.report.timing import pair_rows, timing_rows
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.run_reports import AnyRunReport, PackageArena, RunReport, RuntimeRun, TfliteRunReport, TorchRunReport
    from lowtide.verify.report import Report


_SLOWER = 1.1  # from this many times longer on, slower is no chance
_LABELS = {"ids": "graph", "own_order_peak": "peak, file order", "bound": "lower bound"}
"""What a person reads for the names of checks."""


def report_text(report: Report, *, held: bool = True) -> str:
    """Every check that held, and what proving and running showed; `held`: whether all did."""
    rows = [(_LABELS.get(check.name, check.name.replace("_", " ")), check.result) for check in report.checks]
    notes = [(name.strip(), text.strip()) for name, _, text in (note.partition(":") for note in report.notes)]
    rows += [("kind of proof" if name == "bound" else name, text) for name, text in notes]
    if report.proof is not None:
        proof = report.proof
        rows.append(("proof", f"{proof.result}: {proof.reason} ({proof.seconds:.2f} s)"))
    if report.arena_proof is not None:
        proof = report.arena_proof
        rows.append(("arena proof", f"{proof.result}: {proof.reason} ({proof.seconds:.2f} s)"))
    lines = [columns(rows)]
    if report.run is not None:
        lines += ["", ran_text(report.run)]
    verdict = "the plan holds" if held else "the claim does not hold, but these do"
    lines += ["", f"{verdict}: {format_count(len(report.checks), 'check')}"]
    return "\n".join(lines)


def ran_text(run: AnyRunReport) -> str:
    """What running both models showed, in whichever runtime."""
    from lowtide.run_reports import LoopRunReport, RunReport, TfliteRunReport, TorchRunReport

    if isinstance(run, RunReport):
        return run_text(run)
    if isinstance(run, TfliteRunReport):
        return tflite_run_text(run)
    if isinstance(run, TorchRunReport):
        return columns(torch_run_rows(run))
    if isinstance(run, LoopRunReport):
        return loop_run_text(run)
    assert_never(run)


def run_text(run: RunReport) -> str:
    """Whether the outputs are equal, and the memory that the runtime measured, compared with the plan's."""
    n = len(run.outputs)
    vacuous = [o for o in run.outputs if o.vacuous]
    if run.equal:
        verdict = f"{format_count(n, 'output')}: equal bit by bit, {run.runs} random inputs"
    elif all(o.as_promised for o in run.outputs):
        apart = max(o.max_abs_difference or 0.0 for o in run.outputs)
        largest = max(o.largest for o in run.outputs)
        verdict = (
            f"{format_count(n, 'output')}: within {apart:.2g} of values up to {largest:.3g}, {run.runs} random inputs "
            f"({run.outputs[0].exactness}: rounded in another order)"
        )
    else:
        verdict = "outputs differ, but so do two runs of the original: no conclusion"
    if run.vacuous:
        verdict += "; vacuous: no output depends on the inputs"
    elif vacuous:
        verdict += f"; vacuous for {len(vacuous)} of them, which do not depend on the inputs"
    rows = [("outputs", verdict)]
    if not (run.original.nodes and run.planned.nodes):
        return columns(
            [
                *rows,
                ("measured", "not reported by onnxruntime before 1.24, or where it inlines functions of the model"),
            ]
        )
    rows += pair_rows(run.timing, run.comparison) or timing_rows(run.timing, "onnxruntime's defaults")
    why = faster_level(run.level)
    if why and run.timing is not None and run.timing.planned_seconds > _SLOWER * run.timing.original_seconds:
        rows.append(("", why))
    before, after, shipped = run.original.peak_bytes, run.planned.peak_bytes, run.shipped.peak_bytes
    rows.append(("live tensors, today", f"{format_size(shipped)} at once, by onnxruntime's defaults"))
    rows.append(("live tensors, file order", f"{format_size(before)}, each freed after its last use, optimiser off"))
    rows.append(("live tensors, planned", f"{format_size(after)}, {_against(before, shipped, after)}"))
    planned = [(m.planned_bytes, m.in_use_bytes) for m in run.planned.nodes if m.planned_bytes is not None]
    if planned and all(expected == measured for expected, measured in planned):
        highest = max(p for p, _ in planned)
        where = "every op"
        if highest < after:
            ops = format_count(len(planned), "op")
            where = f"{ops}; the {after:,} B measured are elsewhere, in a body of If or Loop or at a folded op"
        rows.append(("planned", f"{format_size(highest)}: equal to the byte at {where}"))
    elif planned:
        rows.append(("planned", f"{format_size(max(p for p, _ in planned))}, under the rules of the plan's target"))
    if run.exact is not None:
        off = run.exact.held_bytes - (run.arena_bytes or 0)
        as_planned = "as planned" if not off else f"{abs(off):,} B {'more' if off > 0 else 'less'} than planned"
        rows.append(("with workspace", f"{format_size(run.exact.mark_bytes)} in use at once, in steps of 256 bytes"))
        rows.append(("arena", f"{format_size(run.exact.held_bytes)}, taken from the system: {as_planned}"))
    rows.append(("graph inputs", f"{format_size(run.input_bytes)}, the caller's"))
    if not run.order_kept:
        rows.append(("order", "onnxruntime ran the nodes in another order than the plan's"))
    return columns(rows)


def faster_level(level: str) -> str:
    """What to plan so that the session has the kernels of onnxruntime's defaults; `level` is what the file is of."""
    if level == "all":
        return ""
    what = f"the kernels of level {level} alone" if level else "none of the optimiser's kernels"
    return f"the plan's session has {what}: lowtide plan MODEL -o OUT.onnx plans with all of them"


def _against(before: int, shipped: int, after: int) -> str:
    """What the plan gains over the file's order and over onnxruntime's defaults."""
    if shipped <= after:
        return f"{change(before, after)}; onnxruntime's default order is as good here"
    return f"{change(before, after)}; against the defaults {change(shipped, after)}"


def torch_run_rows(run: TorchRunReport) -> list[tuple[str, str]]:
    """Whether the outputs are equal, and the bytes of storages live at once before and after."""
    if run.equal:
        verdict = f"{format_count(len(run.outputs), 'output')}: equal bit by bit, {run.runs} random inputs"
    else:
        verdict = "outputs differ, but so do two runs of the original: no conclusion"
    if run.vacuous:
        verdict += "; vacuous: no output depends on the inputs"
    rows = [
        ("outputs", verdict),
        (
            "measured before",
            f"{format_size(run.original_peak_bytes)} of storages live at once, without inputs and weights",
        ),
        ("measured after", f"{format_size(run.planned_peak_bytes)}"),
    ]
    if run.plan_bytes:
        off = run.planned_peak_bytes - run.plan_bytes
        difference = (
            "equal to the byte" if off == 0 else f"{abs(off):,} B {'more' if off > 0 else 'less'} were measured"
        )
        rows.append(("planned", f"{format_size(run.plan_bytes)}: {difference}"))
    if not run.order_kept:
        rows.append(("order", "torch runs the nodes in another order than the plan's"))
    rows += timing_rows(run.timing, "the unmodified program")
    return rows


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
        rows.append(("with XNNPACK", "its workspace cannot be measured from outside"))
    for r in run.runtimes:
        rows += [(f"{NAMES[r.runtime]} {name}", text) for name, text in timing_rows(r.timing, "the unmodified file")]
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
        return "two runs of the original differ: no conclusion"
    vacuous = sum(o.vacuous for o in r.outputs)
    text = f"{format_count(len(r.outputs), 'output')}: equal bit by bit, {inputs} random inputs"
    return text + (f"; vacuous for {vacuous}, which do not depend on the inputs" if vacuous else "")
