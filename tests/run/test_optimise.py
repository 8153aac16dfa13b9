"""A file that onnxruntime optimised says at which level."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import lowtide
from lowtide.run.optimise import Level, level_of
from lowtide.run.optimise_process import optimize
from support.small_models import onnx_file

pytest.importorskip("onnxruntime", reason="onnxruntime optimises the model, which is not installed")


@pytest.mark.parametrize("level", ["extended", "all"])
def test_the_level_is_in_the_file(tmp_path: Path, level: Level) -> None:
    """In its metadata, which what is planned of it keeps; a file of somebody else's has none."""
    source, optimised, out = onnx_file(tmp_path), tmp_path / "opt.onnx", tmp_path / "out.onnx"
    assert level_of(source) == level_of(tmp_path / "none.onnx") == ""
    optimize(source, optimised, {}, level)
    onnx.checker.check_model(str(optimised))
    lowtide.research.plan(optimised, target="onnxruntime").apply(optimised, out)
    assert level_of(optimised) == level_of(out) == level
