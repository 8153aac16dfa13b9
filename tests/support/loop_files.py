"""Files of networks that are planned with loops: of both formats, drawn at random, and one convolution of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from onnx import ModelProto

from support.onnx_builder import constant, model, node, value
from support.small_nets import random_net
from support.tflite_builder import Net
from support.tflite_nets import random_tflite

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
"""What Hypothesis says of networks that take long to draw and to plan."""


def written(net: Net | ModelProto, folder: Path) -> Path:
    """A network's file, by its format."""
    path = folder / ("net.tflite" if isinstance(net, Net) else "net.onnx")
    path.write_bytes(net.bytes() if isinstance(net, Net) else net.SerializeToString())
    return path


def picker(data: st.DataObject) -> Callable[[Iterable[Any]], Any]:
    """What draws one of some things."""
    return lambda options: data.draw(st.sampled_from(tuple(options)))


def random_file(data: st.DataObject, folder: Path, ops: int, dtypes: Iterable[str] = ("int8",)) -> Path:
    """A random network of about so many ops, in either format; numbers of a .tflite file are of one of the types."""
    pick = picker(data)
    return written(random_net(pick, ops) if pick((False, True)) else random_tflite(pick, ops, pick(dtypes)), folder)


def sliding() -> ModelProto:
    """A convolution of an image whose result is as large, channels first."""
    weights = constant("w", [0.01 * k for k in range(144)], (4, 4, 3, 3))
    conv = node("Conv", "x w", "y", pads=[1, 1, 1, 1])
    return model([conv], [value("x", (1, 4, 16, 8))], [value("y", (1, 4, 16, 8))], [weights])
