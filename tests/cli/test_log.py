"""The anytime log of `lowtide research plan --log`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.cli import main


def test_the_log_closes_in_on_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Seconds never fall, the best never rises, the bound never falls, and they meet where the peak is proved."""
    log = tmp_path / "log.csv"
    assert main(["research", "plan", "zoo:nasnet_a_cifar", "--target", "strict", "--log", str(log), "-q"]) == 0
    capsys.readouterr()
    head, *lines = log.read_text(encoding="utf-8").splitlines()
    assert head == "seconds,best_bytes,bound_bytes"
    rows = [(float(s), int(best), int(bound)) for s, best, bound in (line.split(",") for line in lines)]
    assert rows == sorted(rows, key=lambda row: (row[0], -row[1], row[2]))
    assert all(best >= bound for _, best, bound in rows)
    assert rows[0][1:] == (2359296, 0)
    assert rows[-1][1:] == (1786624, 1786624)


def test_the_log_of_a_method_without_one_has_both_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Where it began, the file order, and its plan with the bound of the largest op."""
    log = tmp_path / "log.csv"
    words = ["research", "plan", "zoo:swiftnet_cell_a", "--target", "strict", "--method", "lpmf"]
    assert main([*words, "--log", str(log), "-q"]) == 0
    capsys.readouterr()
    rows = [line.split(",")[1:] for line in log.read_text(encoding="utf-8").splitlines()[1:]]
    assert rows == [["376320", "0"], ["225792", "175616"]]


def test_the_log_is_never_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """An output over the input is refused before anything is planned."""
    model = tmp_path / "cell.graph.json"
    assert main(["research", "zoo", "swiftnet_cell_c", "-o", str(model)]) == 0
    before = model.read_bytes()
    assert main(["research", "plan", str(model), "--log", str(model)]) == 2
    assert model.read_bytes() == before
    assert "cell.graph.json" in capsys.readouterr().err
