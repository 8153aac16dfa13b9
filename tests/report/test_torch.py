"""Rows on a run of torch.export archives, from reports made by hand."""

from dataclasses import replace

from lowtide.report.running import torch_run_rows
from lowtide.run_reports import OutputComparison, TorchRunReport

SAME = OutputComparison("output 0", equal=True, max_abs_difference=0.0, vacuous=False)
RUN = TorchRunReport((SAME,), 2, True, True, 2048, 1024, 1024)


def test_equal_outputs_and_bytes():
    """The plan's figure is measured to the byte."""
    rows = dict(torch_run_rows(RUN))
    assert rows["outputs"] == "1 output: equal bit by bit, 2 random inputs"
    assert rows["planned"] == "1,024 B (1.00 KiB): equal to the byte"
    assert "order" not in rows


def test_what_differs_is_reported():
    """Bytes, the order, vacuous outputs, outputs that differ by themselves."""
    off = dict(torch_run_rows(replace(RUN, planned_peak_bytes=1000, order_kept=False)))
    assert off["planned"].endswith("24 B less were measured")
    assert "another order" in off["order"]
    assert "vacuous" in dict(torch_run_rows(replace(RUN, outputs=(replace(SAME, vacuous=True),))))["outputs"]
    assert "no conclusion" in dict(torch_run_rows(replace(RUN, outputs=(replace(SAME, equal=False),))))["outputs"]
