"""What a run showed, as rows."""

from __future__ import annotations

import lowtide
from lowtide.report.running import faster_level, report_text, run_text
from lowtide.run_reports import FileRun, NodeMemory, OutputComparison, RunReport


def test_advice_is_never_what_was_done():
    """A file of level extended is told of the default command, and one of level all nothing."""
    assert "none of the optimiser's kernels" in faster_level("")
    assert "level extended alone" in faster_level("extended")
    assert all("lowtide plan" in faster_level(level) for level in ("", "extended"))
    assert faster_level("all") == ""


def test_bytes_that_a_body_takes_are_not_said_to_be_planned():
    """Equal at every op is said only where the highest of these is what was measured."""
    nodes = (NodeMemory(0, "a", "Relu", 1029, 1029), NodeMemory(1, "b", "If", 1000, 1000))
    whole, inside = FileRun("m.onnx", 1029, 1280, 1280, nodes), FileRun("m.onnx", 8321, 8448, 8448, nodes)
    output = OutputComparison("y", equal=True, max_abs_difference=None, vacuous=False)
    said = [run_text(RunReport((output,), f, f, f, None, None, 0, 1, True, True)) for f in (whole, inside)]
    assert "1,029 B (1.00 KiB): equal to the byte at every op" in said[0]
    assert "equal to the byte at 2 ops; the 8,321 B measured are elsewhere" in said[1]


def test_what_holds_is_said_in_plain_words() -> None:
    """Names of checks are what a person reads; JSON has their keys."""
    made = lowtide.plan("zoo:swiftnet_cell_a", without=["recompute"])
    report = lowtide.verify("zoo:swiftnet_cell_a", made)
    text = report_text(report)
    rows = {line.split("  ")[0]: line for line in text.splitlines()}
    assert {"graph", "order", "peak, file order", "lower bound", "in place"} <= rows.keys()
    assert "as in the graph that the plan is for" in rows["graph"]
    assert "each runs once, after all ops whose results it reads" in rows["order"]
    assert not any(word in text for word in ("ids", "downset", "as before", "folded", "dies"))
    assert report.checks[0].name == "ids"
