"""Shapes of tensors in the blocked layout, which onnxruntime's optimiser does not declare, from the nodes alone.

ReorderInput [N, C, H, W] -> [N, C rounded up to the block, H, W]     Conv -> channels of its weight, its windows
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowtide.ops.onnx.blocked import DOMAIN

_FLOAT = 1
"""TensorProto's number of float32, the only type of the layout."""

Shape = tuple[int, ...]


def declare_blocked(file: Path, block: int) -> None:
    """Declare in an optimised file the shapes of what nodes of the blocked layout make, as far as they follow from the
    nodes. `block`: channels in a block."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    graph = proto.graph
    shapes: dict[str, Shape] = {t.name: tuple(t.dims) for t in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        shapes[value.name] = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
    found: dict[str, Shape] = {}
    for node in graph.node:  # each after those that it reads from
        if node.domain != DOMAIN or node.output[0] in shapes:
            continue
        shape = _shape(node, shapes, block)
        if shape is not None:
            shapes[node.output[0]] = found[node.output[0]] = shape
    if found:
        infos = [onnx.helper.make_tensor_value_info(name, _FLOAT, shape) for name, shape in found.items()]
        graph.value_info.extend(infos)
        file.write_bytes(proto.SerializeToString(deterministic=True))


def _shape(node: Any, shapes: dict[str, Shape], block: int) -> Shape | None:
    """What a node makes; None: it does not follow."""
    given = shapes.get(node.input[0], ())
    attributes = {a.name: a for a in node.attribute}
    if len(given) != 4 or not all(given):
        return None
    batch, channels, *places = given
    if node.op_type == "ReorderInput":
        if "channels_last" in attributes and attributes["channels_last"].i:
            batch, *places, channels = given
        return (batch, -(-channels // block) * block, *places)
    if node.op_type == "ReorderOutput":
        channels = attributes["channels"].i
        last = "channels_last" in attributes and attributes["channels_last"].i
        return (batch, *places, channels) if last else (batch, channels, *places)
    if node.op_type == "Upsample":
        scales = list(attributes["scales"].ints) if "scales" in attributes else []
        return tuple(a * b for a, b in zip(given, scales, strict=True)) if len(scales) == 4 else None
    if node.op_type.startswith("Global"):
        return (batch, channels, 1, 1)
    windows = _windows(node, places, attributes, shapes)
    if windows is None:
        return None
    return (batch, shapes[node.input[1]][0] if node.op_type == "Conv" else channels, *windows)


def _windows(node: Any, places: list[int], attributes: dict[str, Any], shapes: dict[str, Shape]) -> list[int] | None:
    """Rows and columns that windows of a convolution or a pool make; None: it does not follow."""
    weight = shapes.get(node.input[1], ()) if node.op_type == "Conv" else (0, 0, 0, 0)
    kernel = list(attributes["kernel_shape"].ints) if "kernel_shape" in attributes else list(weight[2:])
    padding = attributes["auto_pad"].s if "auto_pad" in attributes else b"NOTSET"
    ceiling = "ceil_mode" in attributes and attributes["ceil_mode"].i
    if len(weight) != 4 or len(kernel) != 2 or padding not in (b"NOTSET", b"VALID") or ceiling:
        return None
    strides = list(attributes["strides"].ints) if "strides" in attributes else [1, 1]
    dilations = list(attributes["dilations"].ints) if "dilations" in attributes else [1, 1]
    pads = list(attributes["pads"].ints) if "pads" in attributes and padding == b"NOTSET" else [0, 0, 0, 0]
    return [
        (places[k] + pads[k] + pads[k + 2] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1 for k in range(2)
    ]
