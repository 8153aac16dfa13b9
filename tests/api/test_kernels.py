"""What each kernel library would give: on every screen that leaves it open."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import lowtide
from lowtide import api
from lowtide.rules.tflm.libraries import Library
from support.command import run
from support.small_models import onnx_file
from support.tflite_builder import residual


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A residual block, whose sums and activations may overlap under the reference kernels."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    return path


def test_each_choice_is_the_plan_for_it(model: Path) -> None:
    """Quick or not, the bytes are those of `plan` with that option, and what is safe needs no less than any."""
    choices = api.choices_to_show(model, {"target": "auto", "time": 20.0})
    assert choices is not None
    assert list(choices) == list(get_args(Library))
    for kernels, choice in choices.items():
        plan = lowtide.research.plan(model, target=f"auto,kernels={kernels}")
        assert (choice.head_bytes, choice.required_bytes) == (plan.arena_bytes, plan.required_bytes)
    assert choices["any"].head_bytes >= choices["reference"].head_bytes


def test_it_is_shown_where_it_is_open_only(model: Path, tmp_path: Path) -> None:
    """Not for other targets, named kernels, several memories, or other files."""
    for settings in ({"target": "tflm,kernels=reference"}, {"target": "generic"}, {"banks": ["a=1KiB"]}):
        assert api.choices_to_show(model, settings) is None
    assert api.choices_to_show(onnx_file(tmp_path), {"target": "tflm"}) is None


@pytest.mark.slow
def test_screens_say_how_to_ask_for_it(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan` and `inspect` in a table, `check` in a line that says which of them fit; nothing of it in JSON."""
    reference = lowtide.research.plan(model, target="auto,kernels=reference").required_bytes
    for command in (["research", "plan"], ["inspect"]):
        out = run(capsys, *command, model)[1]
        assert "--set kernels=cmsis_nn" in out
        assert f"{reference:,} B" in out
        assert "--set kernels" not in run(capsys, *command, model, "--json")[1]
    line = run(capsys, "check", model, "--budget", reference)[2]
    assert f"reference {reference:,} B (fits)" in line
    assert "--set kernels=" not in run(capsys, "check", model, "--budget", "1MiB", "--as-is")[2]
