"""Small models out of packages that people install (extra `wild`): the first command plans, and the session opens."""

from __future__ import annotations

import runpy
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from lowtide.api.default import onnx as default
from lowtide.cli import main
from lowtide.plan import read_plan
from lowtide.run.onnx import draw
from lowtide.run_reports import ROUNDING

ort = pytest.importorskip("onnxruntime", reason="pip install '.[run]'")

FILES = {
    "basic_pitch": "saved_models/icassp_2022/nmp.onnx",
    "magika": "models/standard_v3_3/model.onnx",
    "rapidocr_onnxruntime": "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "silero_vad": "data/silero_vad.onnx",
}
"""By the module of the package, which is not imported: what it depends on need not be there."""


def file_of(package: str) -> Path:
    """The model that a package ships."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"{package} ships the model: make wild")
    return Path(spec.submodule_search_locations[0]) / FILES[package]


@pytest.mark.slow
@pytest.mark.parametrize("package", FILES)
def test_the_first_command_lowers_memory(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that the file leaves free are assumed; the process takes less than today's, and the outputs agree."""
    source, out = file_of(package), tmp_path / "small.onnx"
    monkeypatch.setattr(default, "RUNS", 3)
    monkeypatch.setattr(default._Candidate, "too_slow", False)  # of so few runs
    assert main(["plan", str(source), "-o", str(out), "--time", "1", "-q"]) == 0
    plan = read_plan(tmp_path / "small.plan.json")
    seen = plan.comparison
    assert seen is not None
    assert seen.measured
    assert seen.planned_bytes < seen.today_bytes
    assert seen.outputs in ("equal", "rounding")
    assert plan.optimized_from is not None
    sizes = plan.optimized_from.dims
    today = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"])
    feeds, wanted = draw(today, source, 1, 1, sizes)
    session = runpy.run_path(str(tmp_path / "small_session.py"))["open_session"](threads=1)
    for was, came in zip(wanted, session.run(None, feeds[0]), strict=True):
        assert np.abs(was - came).max() <= ROUNDING * np.abs(was).max()
