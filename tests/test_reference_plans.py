"""The comparison of plans with the record: what is worse, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reference_plans import RECORD, Answer, Question, not_monotone, read, worse, write

FIXED = Question("zoo:nasnet_a_cifar", "strict", "", "", "", "20")
CUT = replace(FIXED, allow="tile")
BEST = Answer("ok", "proof", 90, 80, 80, "Search", 0.05, 1.0, 7)


@pytest.mark.parametrize(
    ("question", "changes", "what"),
    [
        (FIXED, {"seconds": 9.0, "work": 70}, ""),
        (FIXED, {"required_bytes": 91}, "more bytes required"),
        (FIXED, {"peak_bytes": 79}, "a bound lies above a peak that was attained"),
        (FIXED, {"peak_bytes": 81}, "a higher peak"),
        (FIXED, {"overhead": 0.06}, "more overhead"),
        (FIXED, {"proof": ""}, "proof lost"),
        (FIXED, {"bound_bytes": 79}, "a lower bound"),
        (FIXED, {"status": "over_budget"}, "status over_budget, not ok"),
        (FIXED, {"status": "error"}, "no answer"),
        (CUT, {"required_bytes": 89, "peak_bytes": 79, "bound_bytes": 70, "proof": "", "overhead": 0.1}, ""),
        (replace(CUT, budget="95"), {"required_bytes": 95, "overhead": 0.04}, ""),
        (replace(CUT, budget="95"), {"required_bytes": 89, "overhead": 0.06}, "more overhead"),
    ],
)
def test_what_is_worse(question: Question, changes: dict[str, object], what: str) -> None:
    """Bytes come first, then overhead, then the proof; within a budget overhead comes first."""
    assert worse(question, BEST, replace(BEST, **changes)) == what


def test_a_proof_that_nothing_fits_must_stay() -> None:
    """And a plan that fits contradicts it."""
    impossible = replace(BEST, status="impossible")
    assert worse(FIXED, impossible, impossible) == ""
    assert worse(FIXED, impossible, replace(BEST, status="unproved")) != ""
    assert worse(FIXED, impossible, replace(BEST, status="over_budget")) == "no longer known to be impossible"
    assert worse(FIXED, impossible, BEST) == "status ok, not impossible"


def test_looser_limits_give_no_worse_plans() -> None:
    """Neighbours in size are compared, as numbers; no limit is the loosest."""
    answers = {replace(CUT, max_overhead=o): replace(BEST, required_bytes=b) for o, b in (("5%", 90), ("20%", 80))}
    assert list(not_monotone(answers)) == []
    answers[replace(CUT, max_overhead="")] = replace(BEST, required_bytes=81)
    assert [(loose.max_overhead, what) for _, loose, what in not_monotone(answers)] == [("", "more bytes required")]
    answers = {replace(CUT, budget=b): replace(BEST, overhead=o) for b, o in (("100%", 0.1), ("90%", 0.0))}
    assert [(loose.budget, what) for _, loose, what in not_monotone(answers)] == [("100%", "more overhead")]


def test_the_record_is_what_was_written(tmp_path: Path) -> None:
    """Read and written again it is the same, byte for byte, questions without answers too."""
    rows = read(RECORD)
    write(tmp_path / "again.csv", rows)
    assert (tmp_path / "again.csv").read_bytes() == RECORD.read_bytes()
    assert len(rows) > 300
    assert any(rows.values())
