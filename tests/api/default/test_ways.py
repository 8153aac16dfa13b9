"""What else would do where no plan fits: each command that is named does."""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path

import pytest

import lowtide.research
from lowtide.api.default import plan_request
from lowtide.api.default.request import NO_PROGRESS, Request
from lowtide.api.default.ways import next_commands
from lowtide.api.emitting import TARGET, project_of
from lowtide.cli import main
from lowtide.plan import read_plan
from support.small_models import graph_file, onnx_file, op, tensor
from support.tflite_builder import residual
from support.tflite_nets import pyramid


def commands(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """The last lines of a screen: what may be typed next."""
    capsys.readouterr()
    assert main(["plan", "--time", "0.5", *words, "-q"]) in (3, 4)
    return re.findall(r"^(?:next:|  or:) (lowtide .*)$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.slow
def test_kernels_by_name_and_c_are_named_where_they_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the bytes that they take; below those nothing is said that does not fit."""
    model = tmp_path / "m.tflite"
    model.write_bytes(residual().bytes())
    asked = Request.of(model, 1, None, "auto,kernels=cmsis_nn", {}, None, ())
    fewer = plan_request(asked).required_bytes
    named, as_c = commands(capsys, str(model), "--budget", str(fewer))
    assert named.startswith(f"lowtide plan {model} --budget {fewer} --for tflm,kernels=")
    assert main([*shlex.split(named.partition("   (")[0])[1:], "-q"]) == 0
    assert as_c.startswith(f"lowtide emit {model} -o firmware")
    file = tmp_path / "p.json"
    words = shlex.split(as_c.partition("   (")[0])[1:-1]
    assert main([*words, str(tmp_path / "c"), "--plan", str(file), "-q"]) == 0
    assert f"({static_bytes(model, read_plan(file)):,} B, C with" in as_c
    smallest, look = commands(capsys, str(model), "--budget", "9B")
    assert look == f"lowtide inspect {model}   (what is live at the peak)"
    command, _, gives = smallest.partition("   (")
    assert gives.startswith("the smallest budget")
    assert main([*shlex.split(command)[1:], "-q"]) == 0


def static_bytes(model: Path, plan: lowtide.Plan) -> int:
    """Of C: the arena, counters and state, as `emit` shows them."""
    sizes = project_of(plan, model).sizes
    return sizes.arena_bytes + sizes.counter_bytes + sizes.state_bytes


@pytest.mark.slow
def test_c_that_is_fed_rows_is_named_where_nothing_else_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the option that `emit` then needs; a byte less, and it is not named."""
    model = tmp_path / "m.tflite"
    model.write_bytes(pyramid().bytes())
    of = partial(lowtide.research.plan, model, target=TARGET, allow="row-streaming")
    held, fed = static_bytes(model, of()), static_bytes(model, of(stream_input=True))
    assert fed < held
    (command,) = (way for way in commands(capsys, str(model), "--budget", f"{fed}B") if " emit " in way)
    assert command.startswith(f"lowtide emit --stream-input {model} -o firmware   ({fed:,} B, C with")
    words = shlex.split(command.partition("   (")[0])[1:-1]
    assert main([*words, str(tmp_path / "c"), "--budget", f"{fed}B", "-q"]) == 0
    assert not any(" emit " in way for way in commands(capsys, str(model), "--budget", f"{fed - 1}B"))


@pytest.mark.slow
def test_more_time_is_named_where_it_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first step of time that is."""
    tensors = [tensor(0, 8, "input"), tensor(1, 100), *(tensor(k, 60) for k in range(2, 6)), tensor(6, 1, "output")]
    steps = [op(k, [k], [k + 1], flops=10) for k in range(1, 5)]
    ops = [op(0, [0], [1], flops=6), *steps, op(5, [5, 1], [6], flops=10)]
    model = graph_file(tmp_path, {"name": "chain", "tensors": tensors, "ops": ops})
    words = [str(model), "--for", "strict", "--budget", "170B", "--time", "0.3"]
    (longer,) = commands(capsys, *words, "--slower", "5%")
    assert "--slower 20%" in longer
    assert main([*shlex.split(longer.partition("   (")[0])[1:], "-q"]) == 0


def test_a_smaller_input_is_named_where_sizes_are_free(tmp_path: Path) -> None:
    """`fit` finds the largest."""
    asked = Request.of(onnx_file(tmp_path, batch="n"), 9, None, "generic", {"n": 4}, ["alias"], ())
    assert [way.name for way in next_commands(asked, plan_request(asked), NO_PROGRESS)] == ["fit"]
