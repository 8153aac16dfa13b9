"""Small recurrent layers, and audio front ends of all signal operators that C is written for, with random options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from support.tflite_builder import Net, s

flexbuffers: Any = pytest.importorskip("flatbuffers.flexbuffers", reason="pip install '.[tflite]'")


def lstm_net(seed: int = 0, *, steps: int = 9, inputs: int = 5, units: int = 6, fine: bool = False) -> Net:
    """A recurrent layer over one sequence; time first if the seed is odd. `fine`: weights have small scales."""
    net = Net(seed)
    draw = net.rng
    major = bool(seed % 2)
    power = (-12, -11, -13, -9)[seed % 4]
    x = net.tensor((steps, 1, inputs) if major else (1, steps, inputs), scale=0.03, zero=int(draw.integers(-128, 128)))
    zero = int(draw.integers(-128, 128))
    hidden_scale = float(draw.uniform(0.006, 0.009))

    def weights(depth: int) -> int:
        values = draw.integers(-127, 128, (units, depth))
        return net.tensor((units, depth), data=values, scale=float(draw.uniform(0.005, 0.02)) / (16 if fine else 1))

    given = [x, *(weights(inputs) for _ in range(4)), *(weights(units) for _ in range(4)), -1, -1, -1]
    given += [net.tensor((units,), "int32", draw.integers(-3000, 3000, units), scale=0.0003) for _ in range(4)]
    hidden = net.tensor((1, units), scale=hidden_scale, zero=zero, variable=True)
    cells = net.tensor((1, units), "int16", scale=2.0**power, variable=True)
    given += [-1, -1, hidden, cells, -1, -1, -1, -1]
    y = net.tensor((*net.shape(x)[:2], units), scale=hidden_scale, zero=zero)
    o = s.UnidirectionalSequenceLSTMOptionsT()
    o.fusedActivationFunction, o.timeMajor = s.ActivationFunctionType.TANH, major
    o.cellClip, o.projClip = (10.0, 0.0, 0.7, 10.0)[seed % 4], 0.0
    net.op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], o)
    net.ends([x], [y])
    return net


def plain(net: Net, shape: tuple[int, ...], dtype: str, data: Any = None) -> int:
    """A tensor without a scale."""
    return net.tensor(shape, dtype, data, scale=0.0)


def signal(net: Net, kind: str, given: list[int], made: list[int], **options: Any) -> None:
    """A signal operator."""
    net.op(f"Signal{kind}", given, made, bytes(flexbuffers.Dumps(options)), custom=True)


def spectrum_net(seed: int = 0, length: int = 64, samples: int = 50) -> Net:
    """A window, a scale and a spectrum, which is a result; so is how far the samples were shifted."""
    net = Net(seed)
    x = plain(net, (1, samples), "int16")
    window = plain(net, (samples,), "int16", net.rng.integers(0, 8192, samples))
    seen = plain(net, (1, samples), "int16")
    signal(net, "Window", [x, window], [seen], shift=12)
    flat, scaled, shift = (plain(net, shape, "int16") for shape in ((samples,), (samples,), ()))
    net.graph.tensors[shift].type = s.TensorType.INT32
    to = plain(net, (1,), "int32", [samples])
    net.op("RESHAPE", [seen, to], [flat], s.ReshapeOptionsT())
    signal(net, "FftAutoScale", [flat], [scaled, shift])
    spectrum = plain(net, (length + 2,), "int16")
    signal(net, "Rfft", [scaled], [spectrum], T=7, fft_length=length)
    net.ends([x], [spectrum, shift])
    return net


def _bank(net: Net, energies: int, bins: int, channels: int) -> int:
    """A filter bank with random filters that overlap as they like."""
    draw = net.rng
    widths = draw.integers(0, 5, channels + 1)
    starts = [int(draw.integers(0, bins - width + 1)) for width in widths]
    places = [int(v) for v in np.cumsum([0, *widths[:-1]])]
    count = max(int(sum(widths)), 1)
    arrays = [draw.integers(0, 4096, count), draw.integers(0, 4096, count), starts, places, widths]
    given = [plain(net, (len(v),), "int16", v) for v in arrays]
    out = plain(net, (channels,), "uint64")
    signal(net, "FilterBank", [energies, *given], [out], num_channels=channels)
    return out


def sound_net(seed: int = 0) -> Net:
    """From samples to 8 bits, as TFLM's audio preprocessor; what is above the noise, and its logarithm, are results."""
    net = spectrum_net(seed, (64, 32, 16)[seed % 3], (50, 32, 9)[seed % 3])
    (x,), (spectrum, shift) = net.graph.inputs, net.graph.outputs
    bins, channels, draw = net.shape(spectrum)[0] // 2, int(net.rng.integers(2, 9)), net.rng
    energy = plain(net, (bins,), "uint32")
    signal(net, "Energy", [spectrum], [energy], start_index=1, end_index=bins)
    bits = plain(net, (bins,), "int32")
    net.op("CAST", [energy], [bits], s.CastOptionsT())
    part = plain(net, (bins - 1,), "int32")
    begin, end, step = (plain(net, (1,), "int32", [v]) for v in (1, bins, 1))
    net.op("STRIDED_SLICE", [bits, begin, end, step], [part], s.StridedSliceOptionsT())
    joined = plain(net, (bins,), "int32")
    o = s.ConcatenationOptionsT()
    o.axis = 0
    net.op("CONCATENATION", [plain(net, (1,), "int32", [int(draw.integers(0, 9))]), part], [joined], o)
    again = plain(net, (bins,), "uint32")
    net.op("CAST", [joined], [again], s.CastOptionsT())
    root, clean, noise, loud = (plain(net, (channels,), "uint32") for _ in range(4))
    signal(net, "FilterBankSquareRoot", [_bank(net, again, bins, channels), shift], [root])
    signal(
        net, "FilterBankSpectralSubtraction", [root], [clean, noise], smoothing=400, one_minus_smoothing=15984,
        alternate_smoothing=900, alternate_one_minus_smoothing=15484, smoothing_bits=int(draw.integers(0, 11)),
        spectral_subtraction_bits=14, min_signal_remaining=819, clamping=bool(seed % 2), num_channels=channels,
    )  # fmt: skip
    curve = plain(net, (125,), "int16", draw.integers(-300, 3000, 125))
    signal(net, "PCAN", [clean, noise, curve], [loud], snr_shift=int(draw.integers(0, 12)))
    heard = plain(net, (channels,), "int16")
    signal(net, "FilterBankLog", [loud], [heard], input_correction_bits=3, output_scale=1600)
    shown = plain(net, (channels,), "int32")
    net.op("CAST", [clean], [shown], s.CastOptionsT())
    net.ends([x], [_levels(net, heard, channels), shown, heard])
    return net


def _levels(net: Net, heard: int, channels: int) -> int:
    """Whole numbers from 16 bits to 8: a product, sums, a quotient, bounds."""
    y = plain(net, (channels,), "int32")
    net.op("CAST", [heard], [y], s.CastOptionsT())
    steps: list[tuple[str, int, Any]] = [
        ("MUL", 256, s.MulOptionsT()), ("ADD", 333, s.AddOptionsT()), ("DIV", 666, s.DivOptionsT()),
        ("ADD", -128, s.AddOptionsT()), ("MINIMUM", 127, s.MaximumMinimumOptionsT()),
        ("MAXIMUM", -128, s.MaximumMinimumOptionsT()),
    ]  # fmt: skip
    for kind, value, options in steps:
        out = plain(net, (channels,), "int32")
        net.op(kind, [y, plain(net, (), "int32", [value])], [out], options)
        y = out
    out = plain(net, (channels,), "int8")
    net.op("CAST", [y], [out], s.CastOptionsT())
    return out


def sounds(net: Net, count: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Samples, loud and quiet ones, some of them silent or as loud as can be."""
    draw = np.random.default_rng(seed)
    shape = net.shape(net.graph.inputs[0])
    result = []
    for i in range(count):
        most = (32767, 0, 1, int(math.exp(draw.uniform(0, 10))))[i % 4]
        value = draw.integers(-most - (most == 32767), most + 1, shape)
        result.append([(np.full(shape, -32768) if i == 4 else value).astype(np.int16)])
    return result
