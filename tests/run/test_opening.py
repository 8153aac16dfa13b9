"""A runtime says whether it opens a file, and why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from lowtide.run import opening
from lowtide.run.opening import onnx_refusal, tflite_refusals
from support.onnx_builder import model, node, saved, value
from support.tflite_builder import branches


def test_onnxruntime_opens_what_is_right_and_says_what_is_not(tmp_path: Path) -> None:
    """A Resize of version 11 without its second operand is no model."""
    pytest.importorskip("onnxruntime", reason="onnxruntime opens the file, which is not installed")
    ends = [value("x", (1, 1, 2, 2))], [value("y", (1, 1, 4, 4))]
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s")
    for opset, opens in ((11, False), (13, True)):
        file = saved(model([node("Resize", "x _ s", "y")], *ends, [scales], opset=opset), tmp_path, f"{opset}.tmp")
        assert (onnx_refusal(file) == "") == opens
        assert opens or "empty string" in onnx_refusal(file)


def test_external_data_is_found_in_another_folder(tmp_path: Path) -> None:
    """As that of a copy is, while it has no name yet."""
    pytest.importorskip("onnxruntime", reason="onnxruntime opens the file, which is not installed")
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    made = model([node("MatMul", "x w", "y")], [value("x", (2, 4))], [value("y", (2, 4))], [weight])
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home, away):
        folder.mkdir()
    file = home / "m.onnx"
    onnx.save_model(made, file, save_as_external_data=True, location="w.bin", size_threshold=0)
    copy = away / "copy.tmp"
    copy.write_bytes(file.read_bytes())
    assert onnx_refusal(file) == onnx_refusal(copy, home) == ""
    assert onnx_refusal(copy)


@pytest.mark.slow
def test_the_interpreters_open_what_is_right_and_say_what_is_not(tmp_path: Path) -> None:
    """Each by its name; a file that is none ends no process but its own."""
    pytest.importorskip("ai_edge_litert", reason="LiteRT opens the file, which is not installed")
    pytest.importorskip("tflite_micro", reason="TFLM opens the file, which is not installed")
    file = tmp_path / "m.tflite"
    file.write_bytes(branches().bytes())
    assert tflite_refusals(file) == {}
    file.write_bytes(b"\x00" * 64)
    assert tflite_refusals(file)


def test_a_crash_of_onnxruntime_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every time that it is asked."""
    pytest.importorskip("onnxruntime", reason="onnxruntime opens the file, which is not installed")
    file = saved(model([node("Relu", "x", "y")], [value("x", (2,))], [value("y", (2,))]), tmp_path, "m.onnx")
    monkeypatch.setattr(opening, "OPENS", "support.crashes:crash")
    assert onnx_refusal(file) == onnx_refusal(file) == "onnxruntime crashes (SIGABRT)"
    monkeypatch.undo()
    assert onnx_refusal(file) == ""
