"""Models that users stumbled over and no folder of models holds, built on the spot: see replay.py."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from lowtide_research.bench.tflite_net import Net

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WIDE, LAYERS = 8192, 9
"""Rows of each square weight of the large model, and how many there are: 2.25 GiB in float."""


def _value(name: str, shape: tuple[int, ...], kind: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _model(
    nodes: list[NodeProto], ends: tuple[list[ValueInfoProto], list[ValueInfoProto]], constants: list[TensorProto]
) -> ModelProto:
    graph = helper.make_graph(nodes, "net", *ends, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def _branch(name: str, copies: int) -> GraphProto:
    wide = helper.make_node("Concat", ["x"] * copies, [f"wide_{name}"], axis=1)
    total = helper.make_node("ReduceSum", [f"wide_{name}"], [f"total_{name}"], keepdims=1)
    return helper.make_graph([wide, total], name, [], [_value(f"total_{name}", (1, 1))])


def branches(path: Path) -> None:
    """W6: an If whose branches hold three and five times the input."""
    node = helper.make_node("If", ["chosen"], ["y"], then_branch=_branch("a", 3), else_branch=_branch("b", 5))
    ends = [_value("chosen", (), BOOL), _value("x", (1, 262144))], [_value("y", (1, 1))]
    path.write_bytes(_model([node], ends, []).SerializeToString())


def head_size(path: Path) -> None:
    """W9: a shape that is computed by Shape, Gather, Div, Cast and Concat, as torch's older exporter writes it."""
    lines: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("Shape", "x", "shape", {}), ("Gather", "shape two", "width", {}), ("Div", "width heads", "each", {}),
        ("Cast", "each", "whole", {"to": INT64}), ("Concat", "zero zero heads whole", "to", {"axis": 0}),
        ("Reshape", "x to", "y", {}),
    )  # fmt: skip
    nodes = [helper.make_node(kind, given.split(), [result], **more) for kind, given, result, more in lines]
    constants = [
        numpy_helper.from_array(np.array([v], np.int64), n) for n, v in (("two", 2), ("heads", 4), ("zero", 0))
    ]
    model = _model(nodes, ([_value("x", (2, 6, 64))], [_value("y", (2, 6, 4, 16))]), constants)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    path.write_bytes(model.SerializeToString())


def over_two_gigabytes(path: Path) -> None:
    """W8: weights of 2.25 GiB in a file beside the model (all zero, so that a file system that can keeps nothing)."""
    each = WIDE * WIDE * 4
    constants = []
    for layer in range(LAYERS):
        weight = TensorProto(name=f"w{layer}", data_type=FLOAT, dims=[WIDE, WIDE], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "large.bin"), ("offset", str(layer * each)), ("length", str(each))):
            weight.external_data.add(key=key, value=value)
        constants.append(weight)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(LAYERS)]
    ends = [_value("x0", (1, WIDE))], [_value(f"x{LAYERS}", (1, WIDE))]
    with (path.parent / "large.bin").open("wb") as weights:
        weights.truncate(LAYERS * each)
    path.write_bytes(_model(nodes, ends, constants).SerializeToString())


def compiled_by_vela(path: Path) -> None:
    """W4: one operator, a scratch tensor of 1,024 bytes in which input and output lie, and the offsets in the file."""
    net = Net()
    commands, scratch = net.tensor((16,), "int8", [0] * 16), net.tensor((1024,), "int8")
    net.graph.tensors[scratch].name = "scratch"
    x, y = net.tensor((256,), "int8"), net.tensor((256,), "int8")
    net.op("ethos-u", [commands, scratch, scratch, x], [y], custom=True)
    net.ends([x], [y])
    net.metadata("OfflineMemoryAllocation", struct.pack("<7i", 0, 1, 4, -1, 0, 0, 512))
    path.write_bytes(net.bytes())


_NET = """{"name": "net",
 "tensors": [
  {"id": 0, "name": "image", "size": 4096, "kind": "input"},
  {"id": 1, "name": "wide", "size": 32768, "kind": "activation"},
  {"id": 2, "name": "scores", "size": 32768, "kind": "output"}],
 "ops": [
  {"id": 0, "name": "widen", "inputs": [0], "outputs": [1]},
  {"id": 1, "name": "add", "inputs": [1], "outputs": [2], "overwrites": [1]}]}
"""


def own_graph(path: Path) -> None:
    """C2: a compiler's own graph, whose second op may write over what it reads."""
    path.write_text(_NET, encoding="utf-8")


def misspelt_graph(path: Path) -> None:
    """C1: the same with a key that is not one."""
    path.write_text(_NET.replace("overwrites", "overwrite"), encoding="utf-8")


def own_rules(path: Path) -> None:
    """C3: a target of one's own."""
    path.write_text('name = "mine"\nalignment = 128\n', encoding="utf-8")


def buffers(path: Path) -> None:
    """C5: three buffers with lifetimes, for offsets alone."""
    path.write_text("id,lower,upper,size\na,0,4,10\nb,2,6,20\nc,5,9,10\n", encoding="utf-8")


MODELS: dict[str, Callable[[Path], None]] = {
    "if.onnx": branches,
    "head_size.onnx": head_size,
    "large.onnx": over_two_gigabytes,
    "vela.tflite": compiled_by_vela,
    "net.graph.json": own_graph,
    "misspelt.graph.json": misspelt_graph,
    "mine.toml": own_rules,
    "buffers.csv": buffers,
}
"""Name of the file and what writes it."""
