"""The runtime's figures as text."""

from __future__ import annotations

from lowtide.plan import RuntimeFigure
from lowtide.report.figures import NOBODYS, figures_line, figures_text

FIGURES = [
    RuntimeFigure(runtime="onnxruntime", what="in use", default_bytes=4096, planned_bytes=2048, sure="at least"),
    RuntimeFigure(runtime="onnxruntime", what="arena", default_bytes=8192, planned_bytes=None),
]


def test_each_figure_has_its_line():
    """Before, after, how much that is, and how sure."""
    title, in_use, arena = figures_text(FIGURES, "onnxruntime").splitlines()
    assert title.startswith("onnxruntime today")
    assert " ".join(in_use.split()) == "in use 4,096 B (4.00 KiB) -> 2,048 B (2.00 KiB) -50.0 % (at least)"
    assert "?" in arena
    assert arena.endswith("(exact)")


def test_generic_says_that_it_is_nobodys():
    """With figures of another runtime beside it and without; other targets without figures say nothing."""
    assert NOBODYS in figures_text(FIGURES, "generic,alignment=16")
    assert figures_text(None, "generic") == NOBODYS
    assert figures_text([], "strict") == ""


def test_one_line_leaves_out_what_is_not_known():
    """For `check`."""
    line = figures_line(FIGURES)
    assert line == "onnxruntime today: in use 4,096 B, arena 8,192 B; with this plan 2,048 B (-50.0 %)"


def test_worse_than_today_is_said_with_the_better_way():
    """In one line, of each figure that the plan raises; and in none where it raises none."""
    assert "worse" not in figures_text(FIGURES, "generic")
    worse = [RuntimeFigure(runtime="onnxruntime", what="in use", default_bytes=8, planned_bytes=17), FIGURES[1]]
    line = figures_text(worse, "generic").splitlines()[-1]
    assert line == "  worse than today: in use +112.5 %; plan with --target onnxruntime, or use the file unmodified"
    assert "plan with lowtide plan, or use" in figures_text(worse, "onnxruntime").splitlines()[-1]
    head = [RuntimeFigure(runtime="TFLM", what="head", default_bytes=8, planned_bytes=16)]
    assert figures_text(head, "tflm").splitlines()[-1] == "  worse than today: head +100.0 %; use the file unmodified"
