"""C of recurrent layers and of audio front ends, beside TFLM, run after run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import lowtide
from lowtide.api.emitting import check_emit
from lowtide.emit.recurrent import logistic_curve
from lowtide.emit.signals import log_curve, turns
from lowtide.errors import InputError
from support.emit_nets import compiled, compiler, feeds_of, output_of, sanitizers, tflm_outputs
from support.emit_sound import lstm_net, plain, signal, sound_net, sounds, spectrum_net
from support.tflite_builder import Net, s

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")
needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")


def same(net: Net, folder: Path, feeds: list[list[np.ndarray]], *, optimised: bool = False) -> lowtide.Plan:
    """What a network's C makes of inputs, one after the other, is what TFLM makes; results differ from each other."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=10)
    lowtide.emit_c(plan, model, folder)
    wanted = tflm_outputs(model, feeds, len(net.graph.outputs))
    size = len(wanted) // len(feeds)
    assert len({wanted[k * size : (k + 1) * size] for k in range(len(feeds))}) > len(feeds) // 3
    data = b"".join(value.tobytes() for feed in feeds for value in feed)
    for flags in (sanitizers(), ()) if optimised else (sanitizers(),):  # without, it is optimised
        assert output_of(compiled(folder, flags), data) == wanted
    return plan


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", range(5))
def test_recurrent_layers_are_as_in_tflm(tmp_path: Path, seed: int) -> None:
    """Cells of several scales and bounds, time first and not; what is kept goes on from run to run. Weights of the
    last seed are fine enough for all sums to be shifted to the right."""
    net = lstm_net(seed, fine=seed == 4)
    same(net, tmp_path, feeds_of(net, 30), optimised=seed == 0)
    assert bool(re.search(r"\}\}, 5, 6, -?\d+, 1, ", (tmp_path / "model.c").read_text())) == (seed == 4)
    header = (tmp_path / "model.h").read_text()
    assert f"#define MODEL_STATE_BYTES {3 * 6}" in header
    assert "void model_reset(void);" in header


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("length", [4, 8, 16, 256])
def test_spectra_are_as_in_tflm(tmp_path: Path, length: int) -> None:
    """Lengths with a two among the fours and without; silence, the least number, and samples that fill the length."""
    net = spectrum_net(length, length, max(2, length - length // 3))
    same(net, tmp_path, sounds(net, 24), optimised=length == 16)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("seed", range(6))
def test_audio_front_ends_are_as_in_tflm(tmp_path: Path, seed: int) -> None:
    """All of it, with random filters and options; the estimate of the noise goes on from run to run."""
    net = sound_net(seed)
    same(net, tmp_path, sounds(net, 40))


@pytest.mark.slow
@needs_compiler
def test_whole_numbers_wrap(tmp_path: Path) -> None:
    """Sums and products beyond 32 bits keep the lower ones; a number may come first."""
    net = Net()
    x = net.tensor((2, 3, 4), "int32", scale=0.0)
    y = x
    for kind, order, options in (("MUL", (1, 0), s.MulOptionsT()), ("ADD", (0, 1), s.AddOptionsT())):
        out = plain(net, (2, 3, 4), "int32")
        number = plain(net, (), "int32", [2147483629])
        net.op(kind, [(y, number)[i] for i in order], [out], options)
        y = out
    low = plain(net, (2, 3, 4), "int32")
    net.op("MINIMUM", [y, x], [low], s.MaximumMinimumOptionsT())
    net.ends([x], [low])
    draw = np.random.default_rng(0)
    limits = np.iinfo(np.int32)
    feeds = [[draw.integers(limits.min, limits.max, (2, 3, 4), endpoint=True).astype(np.int32)] for _ in range(8)]
    same(net, tmp_path, feeds)


def test_curves_are_the_functions_that_they_are_lines_of() -> None:
    """Within two of 65,536, and turns within one of 32,767."""
    xs = np.arange(256) / 24
    assert np.abs(np.array(logistic_curve()) - 65536 / (1 + np.exp(-xs))).max() < 2
    xs = np.arange(129) / 128
    assert np.abs(np.array(log_curve()[:129]) - 65536 * (np.log2(1 + xs) - xs)).max() <= 0.5
    steps, last = turns(16)
    assert len(steps) == 2 * 12
    assert len(last) == 2 * 8
    angles = -2 * np.pi * np.arange(12) / 16
    assert np.abs(np.array(steps[::2]) - 32767 * np.cos(angles)).max() <= 0.5


def _refused_lstm() -> tuple[Net, str]:
    net = lstm_net()
    net.graph.operators[0].inputs[9] = net.graph.operators[0].inputs[12]
    return net, "peepholes"


def _refused_batch() -> tuple[Net, str]:
    net = lstm_net()
    for t in (net.graph.inputs[0], net.graph.outputs[0]):
        net.graph.tensors[t].shape[0] = 2
    return net, "several sequences at a time"


def _refused_length() -> tuple[Net, str]:
    net = Net()
    x, y = plain(net, (10,), "int16"), plain(net, (14,), "int16")
    signal(net, "Rfft", [x], [y], T=7, fft_length=12)
    net.ends([x], [y])
    return net, "powers of two"


def _refused_option() -> tuple[Net, str]:
    net = Net()
    x, y = plain(net, (10,), "uint32"), plain(net, (10,), "int16")
    signal(net, "FilterBankLog", [x], [y], output_scale=1600)
    net.ends([x], [y])
    return net, "lacks the option 'input_correction_bits'"


def _refused_sum() -> tuple[Net, str]:
    net = Net()
    x, y = plain(net, (2, 4), "int32"), plain(net, (3, 4), "int32")
    net.op("ADD", [y, x], [out := plain(net, (3, 4), "int32")], s.AddOptionsT())
    net.ends([x, y], [out])
    return net, "its shapes do not fit together"


@pytest.mark.parametrize(
    "case",
    [_refused_lstm, _refused_batch, _refused_length, _refused_option, _refused_sum],
    ids=lambda case: case.__name__,
)
def test_what_code_does_not_do_is_refused(tmp_path: Path, case: object) -> None:
    """One line that names the op."""
    net, why = case()  # type: ignore[operator]
    model = tmp_path / "net.tflite"
    model.write_bytes(net.bytes())
    with pytest.raises(InputError, match=why):
        check_emit(model)
