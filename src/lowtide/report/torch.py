"""What running a torch.export archive showed, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.timing import timing_rows
from lowtide.sizes import format_count, format_size

if TYPE_CHECKING:
    from lowtide.run_reports import TorchRunReport


def torch_run_rows(run: TorchRunReport) -> list[tuple[str, str]]:
    """Whether the outputs are equal, and the bytes of storages live at once before and after."""
    if run.equal:
        verdict = f"{format_count(len(run.outputs), 'output')}: equal bit by bit, {run.runs} random inputs"
    else:
        verdict = "outputs differ, and so do two runs of the original: nothing can be said"
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
    rows += timing_rows(run.timing, "the program as it stands")
    return rows
