"""What a user who stumbles is told: the mend, not only the fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import Captured, run
from support.small_models import graph_file, op, tensor


@pytest.mark.parametrize(
    ("words", "mend"),
    [
        ("research plan zoo:swiftnet_cell_a --allow tile concat", "by commas, as in --allow tile,concat"),
        ("research plan zoo:swiftnet_cell_a --allow til", "did you mean tile?"),
        ("research plan zoo:swiftnet_cell_a --plan nowhere/deep/p.json", "cannot write here: there is no folder"),
        ("research curve zoo:series_parallel:n=9", "only ONNX and TFLite models are tiled"),
        (
            "research plan zoo:magis_unet:batch=2,width=2 --allow tile",
            "say `--allow recompute,tile --budget 40%`",
        ),
        ("research curve zoo:gpt_training:layers=2", "name a file of one of these formats"),
        ("report zoo:swiftnet_cell_a -o r.html", "this names a network: give the file of the plan"),
        ("verify big_net.onnx", "give the plan: lowtide verify big_net.onnx PLAN.plan.json"),
        ("verify big_net.onnx small.onnx", "this is a model, not a plan; give its plan, small.plan.json"),
        ("plan net.onnx", "did you mean big_net.onnx?"),
        ("plan big_net.onnx --slower 20", "as in 20% or 0.2"),
        ("plan big_net.onnx --budget 20", "give a unit, as in 20MB"),
        ("fit big_net.onnx --budget 20", "give a unit, as in 20MB"),
        ("plan net.tflite --budget 20", "budget is 20 bytes; give a unit, as in 20KiB, or 20B if you mean it"),
        ("fit big_net.onnx", "give --budget SIZE, for example --budget 500MB"),
    ],
)
def test_an_error_says_what_to_do(words: str, mend: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch, tmp_path):
    """One line, exit status 2."""
    monkeypatch.chdir(tmp_path)
    for name in ("big_net.onnx", "small_net.onnx", "small_net.plan.json", "small.plan.json"):
        (tmp_path / name).touch()
    status, _, errors = run(capsys, *words.split())
    assert status == 2
    assert mend in errors.splitlines()[-1]


def test_an_op_without_a_type_has_no_empty_brackets(capsys: Captured, tmp_path: Path):
    """Where it alone is larger than the fast memory."""
    document = {
        "name": "n",
        "tensors": [tensor(0, 100, "input"), tensor(1, 100, "output")],
        "ops": [{k: v for k, v in op(0, [0], [1], name="widen").items() if k != "type"}],
    }
    status, _, errors = run(
        capsys, "research", "plan", graph_file(tmp_path, document), "--memory", "fast=150", "--target", "strict"
    )
    assert status == 4
    assert "widen alone needs 200 B; fast has 150 B" in errors


@pytest.mark.parametrize(
    ("command", "mend", "of_the_option"),
    [
        ("research curve", "name a file of one of these formats", False),
        ("research plan --allow tile", "plan it without --allow tile", True),
    ],
)
def test_only_an_option_that_was_given_is_to_be_left_out(
    command: str, mend: str, of_the_option: bool, capsys: Captured, tmp_path: Path
):
    """Of a graph of no format whose ops can be cut."""
    document = {
        "name": "n",
        "tensors": [tensor(0, 100, "input"), tensor(1, 100, "output")],
        "ops": [op(0, [0], [1])],
    }
    status, _, errors = run(capsys, *command.split(), graph_file(tmp_path, document))
    assert status == 2
    assert mend in errors.splitlines()[-1]
    assert ("--allow" in errors) == of_the_option
