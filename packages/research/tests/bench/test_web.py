"""The heap of onnxruntime-web: what a fresh process of Node.js shows, and the page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import web
from support.onnx_builder import constant, model, node, saved, value

pytest.importorskip("onnxruntime", reason="pip install '.[run]'")
SIDE = 1500


def shown(opened: web.Opened, feeds: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the process shows; the test is skipped where onnxruntime-web is missing."""
    try:
        return web.heap(folder, opened, feeds, folder)
    except RuntimeError as error:
        if "Cannot find module 'onnxruntime-web'" in str(error):
            pytest.skip("npm install onnxruntime-web, and name its folder in NODE_PATH")
        raise


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node runs onnxruntime-web, which is not installed")
def test_weights_as_external_data_lower_the_heap(tmp_path: Path) -> None:
    """They lie outside of it while the model is loaded; the outputs are equal, also those of a plan."""
    weights = np.random.default_rng(0).standard_normal(SIDE * SIDE).tolist()
    shapes = value("x", (1, SIDE)), value("y", (1, SIDE))
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "y")]
    source = saved(model(nodes, [shapes[0]], [shapes[1]], [constant("w", weights, [SIDE, SIDE])]), tmp_path)
    feeds = {"x": np.random.default_rng(1).random((1, SIDE), np.float32)}
    today = shown(web.Opened(source), feeds, tmp_path)
    moved = shown(web.external(source, tmp_path), feeds, tmp_path)
    _, opened = web.planned(source, tmp_path / "plan", {}, tiles=False)
    plan = shown(opened, feeds, tmp_path)
    assert today["empty"] < today["loaded"] <= today["ran"]
    assert max(moved["ran"], plan["ran"]) < today["ran"]
    assert web._agree(today["values"], moved["values"], 0) == "equal"
    assert web._agree(today["values"], plan["values"], 1e-5) in ("equal", "rounding")
    assert len(today["values"]) == 1
    assert len(today["values"][0]) == SIDE


def test_outputs_agree_up_to_rounding() -> None:
    """As a share of the largest magnitude."""
    one = [np.array([1.0, 100.0], np.float32)]
    assert web._agree(one, one, 0) == "equal"
    assert web._agree(one, [one[0] + np.float32(0.001)], 1e-4) == "rounding"
    assert web._agree(one, [one[0] + np.float32(0.1)], 1e-4) == ""


def test_the_page_says_what_failed() -> None:
    """And counts the others alone."""
    ways = {way: {"loaded": 20 * 2**20, "ran": 40 * 2**20, "outputs": "equal"} for way in web._WAYS}
    half = {"order": {"loaded": 10 * 2**20, "ran": 20 * 2**20, "outputs": "equal"}}
    good = {"model": "good", "file": 2**20, "empty": 16 * 2**20} | ways | half
    text = web.page([good, {"model": "bad", "error": "why"}], "1.30.0")
    assert "| bad | why |" in text
    assert "| good | 1,048,576 B | 20.0 MiB, 40.0 MiB |" in text
    assert "Geometric mean of the better plan over 1 of 2 models: **0.50**." in text
