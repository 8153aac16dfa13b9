"""`check` on several models, and for continuous integration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lowtide import api
from lowtide.api.fitting import Check
from support.command import Captured, run, run_json
from support.small_models import branches, graph_file, onnx_file
from support.tflite_builder import residual


@pytest.fixture
def models(tmp_path: Path) -> list[Path]:
    """One of 109 bytes under strict, and one of 3,600 or so."""
    return [graph_file(tmp_path, branches()), onnx_file(tmp_path)]


def test_several_models_are_one_table_and_the_worst_status(models: list[Path], capsys: Captured) -> None:
    """What does not fit, what cannot be read: each is a row, and the others are judged all the same."""
    call = ["check", *models, "--target", "strict", "--budget"]
    status, out, _ = run(capsys, *call, "1MiB")
    assert (status, [line.split()[-1] for line in out.splitlines()[1:]]) == (0, ["fits", "fits"])
    status, out, _ = run(capsys, *call, "200")
    assert (status, [line.split("  ")[-1] for line in out.splitlines()[1:]]) == (4, ["fits", "cannot fit"])
    status, out, err = run(capsys, *call, "1MiB", "--json", "-q")
    assert (status, [row["model"] for row in json.loads(out)], err) == (0, [str(m) for m in models], "")
    status, out, _ = run(capsys, "check", "none.onnx", *models, "--target", "strict", "--budget", "1MiB")
    assert status == 2
    assert "none.onnx" in out.splitlines()[1]
    assert out.splitlines()[2].endswith("fits")


def test_models_may_stand_behind_options(models: list[Path], capsys: Captured) -> None:
    """As in any command of a shell; what follows an unknown option is no model."""
    one, other = models
    status, out, _ = run(capsys, "check", one, "--target", "strict", other, "--budget", "1MiB", one, "-q")
    assert (status, len(out.splitlines())) == (0, 4)
    status, _, err = run(capsys, "check", one, "--budget", "1MiB", other, "--bugdet", "3")
    assert (status, "did you mean --budget?" in err) == (2, True)


@pytest.mark.parametrize("count", [1, 2])
def test_continuous_integration_reads_it(models: list[Path], capsys: Captured, count: int) -> None:
    """Annotations and JUnit, also of one model; the exit status is the same."""
    call = ["check", *models[:count], "--target", "strict", "--budget", "150", "-q", "--format"]
    status, out, err = run(capsys, *call, "github")
    assert (status, err) == ((0, "") if count == 1 else (4, ""))
    assert [line.partition(" ")[0] for line in out.splitlines()] == ["::notice", "::error"][:count]
    status, out, _ = run(capsys, *call, "junit")
    suite = ElementTree.fromstring(out)
    assert (status != 0, suite.get("tests"), suite.get("failures")) == (count == 2, str(count), str(count - 1))


def test_one_format_at_a_time(models: list[Path], capsys: Captured) -> None:
    """JSON is no format among others."""
    status, _, err = run(capsys, "check", models[0], "--budget", "1", "--json", "--format", "junit")
    assert (status, "give one" in err) == (2, True)
    assert "invalid choice: 'xml'" in run(capsys, "check", models[0], "--budget", "1", "--format", "xml")[2]


def test_interrupted_models_keep_those_that_are_done(
    models: list[Path], capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the list: the rows so far are printed, and the status is 130."""
    calls: list[object] = []
    real = api.check

    def check(model: object, **settings: object) -> Check:
        calls.append(model)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(model, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "check", check)
    status, out, _ = run(capsys, "check", *models, models[0], "--target", "strict", "--budget", "1MiB")
    assert (status, len(calls)) == (130, 2)
    assert [line.split("  ")[-1] for line in out.splitlines()[1:]] == ["fits", "interrupted"]


@pytest.mark.slow
def test_a_bound_below_a_tflm_budget_is_not_called_above_it(tmp_path: Path, capsys: Captured):
    """What is compared is the least head under any kernels with what stands beside it, and that is what is shown."""
    path, reserve = tmp_path / "m.tflite", 16
    path.write_bytes(residual(8).bytes())
    sized = run_json(capsys, "research", "plan", path, "--target", "tflm")
    parts, bound = sized["runtime_parts"], sized["lower_bound_bytes"]
    assert parts["least_head"] < bound
    least = parts["least_head"] + parts["least_beside"] + reserve
    budget = least - 1
    assert bound < budget
    of = f"a head of {parts['least_head']:,} B (reference kernels) and {parts['least_beside']:,} B for the tail"
    words = f"{least:,} B at the least: {of} and a reserve of {reserve} B"
    asked = (path, "--target", "tflm", "--budget", budget, "--reserve", reserve)
    status, out, _ = run(capsys, "research", "plan", *asked)
    assert status == 4
    assert f"impossible without tiling: {words}" in out
    assert "above the budget" not in out
    assert f"cannot fit untiled, {words}: required" in run(capsys, "check", *asked)[1]


def test_of_an_onnx_file_the_tensor_arena_is_checked(capsys: Captured, tmp_path: Path) -> None:
    """A budget of `plan` is the process's memory there, and the line says that this one is not."""
    status, out, _ = run(capsys, "check", onnx_file(tmp_path), "--budget", "1MB", "-q")
    assert status == 0
    assert re.match(r"fits: required (?:at most )?[\d,]+ B of tensor arena, available 1,000,000 B, to spare ", out)
