"""C of models of 16 bits, and of models that keep something from one run to the next, beside TFLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from support.emit_nets import compiled, compiler, output_of, sanitizers, tflm_outputs
from support.emit_wide import copies_net, feeds, kept_net, long_ends, softmax_net, wide_net
from support.tflite_builder import Net

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
WAYS: dict[str, dict[str, Any]] = {
    "whole": {},
    "rows": {"allow": "row-streaming"},
    "handed over": {"allow": "row-streaming", "stream_input": True},
}


def same(net: Net, folder: Path, way: str, inputs: int = 8) -> lowtide.Plan:
    """What a network's C makes of inputs, one after the other, is what TFLM makes; results differ from each other."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=10, **WAYS[way])
    lowtide.emit_c(plan, model, folder)
    given = feeds(net, inputs)
    wanted = tflm_outputs(model, given)
    size = len(wanted) // inputs
    assert len({wanted[k * size : (k + 1) * size] for k in range(inputs)}) > 1
    data = b"".join(value.tobytes() for feed in given for value in feed)
    for flags in (sanitizers(), ()) if way == "rows" else (sanitizers(),):  # without, it is optimised
        assert output_of(compiled(folder, flags), data) == wanted
    return plan


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_of_16_bits_are_as_in_tflm(tmp_path: Path, way: str, seed: int) -> None:
    """Convolutions, products, sums, pools and rescaling, whole, in loops and handed over."""
    plan = same(wide_net(seed), tmp_path, way)
    assert bool(plan.loops) == (way != "whole")


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
def test_copies_and_means_of_16_bits_are_as_in_tflm(tmp_path: Path, way: str) -> None:
    """Borders, parts, joins with a constant, a mean of rows one by one, and softmax; whole, in loops, handed over."""
    plan = same(copies_net(), tmp_path, way, 20)
    assert bool(plan.loops) == (way != "whole")


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_softmax_from_16_bits_is_as_in_tflm(tmp_path: Path, seed: int) -> None:
    """Its two curves are made when the code is written."""
    same(softmax_net(seed), tmp_path, "whole", 100)


@pytest.mark.slow
@needs_compiler
def test_inputs_of_16_and_results_of_32_bits(tmp_path: Path) -> None:
    """They are parameters of these types."""
    same(long_ends(), tmp_path, "whole", 40)
    assert "const int16_t *in, int32_t *out" in (tmp_path / "model.h").read_text()


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_what_is_kept_is_as_in_tflm(tmp_path: Path, seed: int) -> None:
    """Runs follow each other; there is a function that forgets."""
    same(kept_net(seed), tmp_path, "whole", 40)
    header = (tmp_path / "model.h").read_text()
    assert f"#define MODEL_STATE_BYTES {6 * 5 + 8 * 7}" in header
    assert "void model_reset(void);" in header
