"""Whether models fit, as continuous integration reads it."""

from __future__ import annotations

from xml.etree import ElementTree

from lowtide.report.ci import CheckedModel, checks_table, github_annotations, junit

ROWS = [
    CheckedModel("a.onnx", "fits", "fits: required 1 B", 0, "TFLM 9 B", ("1 B", "2 B", "0 B"), 0.5),
    CheckedModel("b,c.onnx", "does not fit", "does not fit: 50 % more\n<&\x00", 3, "", ("3 B", "2 B", "1 B"), 0.25),
    CheckedModel("none.onnx", "error", "none.onnx: there is no such file", 2),
]


def test_the_table_has_a_line_for_each():
    """What it takes today before what is required; an error says itself."""
    head, *lines = checks_table(ROWS).splitlines()
    assert head.split("  ")[0] == "model"
    assert lines[0].split() == ["a.onnx", "TFLM", "9", "B", "1", "B", "2", "B", "0", "B", "fits"]
    assert lines[2].endswith("there is no such file")


def test_annotations_are_escaped():
    """One line each; commas and percents would end or change them."""
    first, second, third = github_annotations(ROWS).splitlines()
    assert first == "::notice file=a.onnx,title=lowtide check::fits: required 1 B"
    assert second.startswith("::error file=b%2Cc.onnx,title=lowtide check::does not fit: 50 %25 more%0A<&")
    assert third.startswith("::error file=none.onnx")


def test_junit_is_xml_that_counts():
    """Whatever a model's names hold."""
    suite = ElementTree.fromstring(junit(ROWS))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("time")) == (
        "3",
        "1",
        "1",
        "0.750",
    )
    fits, fails, errs = suite
    assert fits.find("failure") is None
    failure = fails.find("failure")
    assert failure is not None
    assert failure.text == "does not fit: 50 % more\\n<&\\x00"
    assert errs.find("error") is not None
