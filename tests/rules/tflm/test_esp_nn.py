"""Scratch that ESP-NN asks for, by its sources."""

from __future__ import annotations

from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.target import resolve
from support.tflite_builder import SAME, Net


def test_the_rule_asks_it():
    """A buffer for a convolution on the chips with assembly, none in C; four bytes a row of a softmax on all."""
    net = Net()
    x = net.tensor((1, 8, 8, 16))
    deep = net.conv(x, 1, (3, 3), padding=SAME, depthwise=True)
    y = net.conv(deep, 8, (1, 1))
    net.ends([x], [net.unary("SOFTMAX", net.reshape(y, (1, 512)))])
    graph = graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")

    def asked(options: str) -> list[tuple[int, ...]]:
        rule = resolve(f"tflm,kernels=esp_nn{options}").tflm_rule
        return [rule.scratch(graph, op) for op in graph.ops]

    assert asked("") == [(), (), (), (2048,)]
    assert asked(",simd=esp32s3") == [(144 + 10 * 10 * 16 + 16,), (16 * 8 + 256 + 64,), (), (2048,)]
    assert asked(",simd=esp32p4") == [(), (16 * 8 + 256 + 32,), (), (2048,)]
