"""CMSIS-NN's scratch: figures of its own functions, compiled, for layers that show each of its rules."""

from __future__ import annotations

import pytest

from lowtide.graph import Kind, Tensor
from lowtide.ops.index import Window
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm import cmsis_nn
from lowtide.rules.tflm.flexbuffer import custom_numbers, map_numbers
from lowtide.rules.tflm.kernels import KernelWindow
from lowtide.rules.tflm.rule import TflmRule
from lowtide.target import resolve
from support.tflite_builder import SAME, VALID, Net

SIMDS = ("none", "dsp", "mve")


def window(given: tuple[int, ...], kernel: tuple[int, int], channels: int, pad: int = 0) -> KernelWindow:
    """A convolution with a stride of 1."""
    n, height, width, depth = given
    out = (n, height + 2 * pad - kernel[0] + 1, width + 2 * pad - kernel[1] + 1, channels)
    rows, columns = (Window(taps, before=pad) for taps in kernel)
    return KernelWindow((n, height, width, depth), out, rows, columns)


@pytest.mark.parametrize(
    ("w", "filter_depth", "sizes"),
    [
        (window((1, 8, 8, 3), (3, 3), 8), 3, (112, 112, 128)),
        (window((1, 8, 8, 16), (1, 1), 8), 16, (0, 0, 0)),
        (window((1, 8, 8, 16), (1, 1), 8), 8, (64, 64, 64)),
        (window((1, 1, 20, 4), (1, 3), 8), 4, (48, 48, 12)),
    ],
    ids=["windows", "1x1", "1x1 with groups", "1xN"],
)
def test_convolutions(w: KernelWindow, filter_depth: int, sizes: tuple[int, ...]):
    """Two windows of int16; four in whole registers with MVE; nothing for 1x1; what pads a row for 1xN."""
    assert tuple(cmsis_nn.convolution(w, filter_depth, simd) for simd in SIMDS) == sizes


@pytest.mark.parametrize(
    ("w", "sizes"),
    [
        (window((1, 8, 8, 16), (3, 3), 16, 1), (0, 0, 4464)),
        (window((1, 8, 8, 16), (5, 5), 16), (0, 800, 12400)),
        (window((2, 8, 8, 16), (5, 5), 16), (0, 0, 0)),
        (window((1, 8, 8, 1), (3, 3), 8), (0, 0, 136)),
    ],
    ids=["3x3", "5x5", "two images", "one channel"],
)
def test_depthwise_convolutions(w: KernelWindow, sizes: tuple[int, ...]):
    """3x3 has a kernel of its own without MVE; one channel is a convolution with it."""
    assert tuple(cmsis_nn.depthwise(w, simd) for simd in SIMDS) == sizes


def test_poolings_and_sums():
    """Sums per channel with DSP; per row of the weights with MVE."""
    given = Tensor(0, 64, Kind.INPUT, "x", (1, 4, 4, 4), "int8")
    assert [cmsis_nn.average_pool(given, simd) for simd in SIMDS] == [0, 16, 0]
    assert [cmsis_nn.row_sums(10, simd) for simd in SIMDS] == [0, 0, 40]


def test_the_rule_asks_it(tmp_path: object):
    """Scratch of a layer follows the target's kernels and instructions; what the library lacks is the reference's."""
    net = Net()
    x = net.tensor((1, 8, 8, 4))
    y = net.pool(net.conv(x, 4, (3, 3), padding=SAME), "AVERAGE_POOL_2D", (2, 2), (2, 2), VALID)
    net.ends([x], [y])
    graph = graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")
    conv, pool = graph.ops

    def asked(options: str) -> list[tuple[int, ...]]:
        rule: TflmRule = resolve(f"tflm{options}").tflm_rule
        return [rule.scratch(graph, op) for op in (conv, pool)]

    assert asked(",kernels=reference") == asked(",kernels=esp_nn") == [(), ()]
    assert asked("") == asked(",kernels=cmsis_nn")
    assert asked(",kernels=cmsis_nn,simd=none") == [(144,), ()]
    assert asked(",kernels=cmsis_nn") == [(144,), (16,)]
    assert asked(",kernels=cmsis_nn,simd=mve") == [(192,), ()]


@pytest.mark.parametrize("large", [7, 300, 70_000, 5_000_000_000])
def test_flexbuffers(large: int):
    """Numbers by name, of whichever width; what is cut short or damaged has none, or others, and never fails."""
    flexbuffers = pytest.importorskip("flatbuffers.flexbuffers", reason="pip install '.[tflite]'")
    values = {"T": -7, "clamping": True, "fft_length": large, "name": "text", "ratio": 0.5}
    held = bytes(flexbuffers.Dumps(values))
    assert map_numbers(held) == {"T": -7, "clamping": 1, "fft_length": large}
    assert custom_numbers({"custom_options": held}) == map_numbers(held)
    for cut in range(len(held)):
        custom_numbers({"custom_options": held[cut:]})
        custom_numbers({"custom_options": held[:cut]})
        custom_numbers({"custom_options": held[:cut] + b"\xff" + held[cut + 1 :]})
    for none in ({}, {"custom_options": b"\0\0\0"}, {"custom_options": bytes(flexbuffers.Dumps([1, 2]))}):
        assert custom_numbers(none) == {}
