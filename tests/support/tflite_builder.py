"""The builder of small .tflite files, where it can be had; modules that import this are skipped elsewhere."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("flatbuffers", reason="pip install '.[tflite]'")

from lowtide.graph import Graph
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide_research.bench.tflite_net import SAME, VALID, Net, branches, residual, s

__all__ = ["SAME", "VALID", "Net", "branches", "compiled_by_vela", "graph_from", "pointwise", "residual", "s"]


def graph_from(data: bytes) -> Graph:
    """Graph of a file's bytes."""
    return graph_of(parse_tflite(data, "m"), [], "m", "")


def compiled_by_vela() -> Net:
    """What Vela makes: one operator, a scratch tensor of 1,024 bytes that holds input and output, and the offsets."""
    net = Net()
    commands = net.tensor((16,), "int8", [0] * 16)
    scratch = net.tensor((1024,), "int8")
    net.graph.tensors[scratch].name = "scratch"
    x, y = net.tensor((256,), "int8"), net.tensor((256,), "int8")
    net.op("ethos-u", [commands, scratch, scratch, x], [y], custom=True)
    net.ends([x], [y])
    net.metadata("OfflineMemoryAllocation", struct.pack("<7i", 0, 1, 4, -1, 0, 0, 512))
    return net


def pointwise() -> Net:
    """Wide rows between windows, each made and read at once, and a pool over all rows behind them."""
    net = Net()
    x = net.tensor((1, 16, 8, 4), zero=3)
    y = net.conv(x, 12, (3, 3), (1, 1), SAME)
    for channels in (40, 24, 40, 12):
        y = net.conv(y, channels, (1, 1))
    y = net.conv(net.conv(y, 1, (3, 3), (1, 1), SAME, depthwise=True), 12, (1, 1))
    net.ends([x], [net.conv(net.pool(y, "AVERAGE_POOL_2D", (16, 8), (1, 1)), 3, (1, 1))])
    return net
