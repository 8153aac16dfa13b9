"""A smaller ONNX file of the same model: onnxruntime keeps kilobytes for each node, and more for what nodes repeat.

Weights of an ONNX file in a file of their own, which onnxruntime maps instead of copying it.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lowtide.files import Buffer, open_bytes
from lowtide.read.onnx.proto import all_graphs, bodies, names_read
from lowtide.write.onnx import copy_range

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

_DEFAULTS: dict[str, object] = {
    "auto_pad": b"NOTSET", "ceil_mode": 0, "dilations": [1, 1], "group": 1, "pads": [0, 0, 0, 0], "storage_order": 0,
    "strides": [1, 1],
}  # fmt: skip
"""What convolutions and pools of images have where nothing is said."""
_CONVOLUTIONS = frozenset({"Conv", "FusedConv"})
_POOLS = frozenset({"AveragePool", "MaxPool"})
_LONGEST = 12
"""Characters of a name that stays."""
LEAST_BYTES = 1024  # smaller tensors stay in the model's file


def make_lean(model: Path) -> None:
    """Write a file anew without what onnxruntime would hold in memory for nothing. Equal small constants become one,
    attributes that say the default go, and so do declared shapes and names of nodes; tensors inside the graph get
    short names. Weights of bodies become weights of the graph: a body's are there three times."""
    import onnx

    proto = onnx.load(str(model), load_external_data=False)
    graph = proto.graph
    del graph.value_info[:]
    _hoist_weights(graph)
    _share_constants(graph)
    for node in graph.node:
        _drop_defaults(node)
    if not any(any(bodies(node)) for node in graph.node):
        _shorten_names(graph)
    model.write_bytes(proto.SerializeToString(deterministic=True))


def _hoist_weights(graph: GraphProto) -> None:
    """Move the large initializers of bodies into the graph around them, whose tensors the bodies see."""
    taken = {name for each in all_graphs(graph) for node in each.node for name in (*node.input, *node.output)}
    taken |= {value.name for each in all_graphs(graph) for value in (*each.input, *each.output, *each.initializer)}
    for body in list(all_graphs(graph))[1:]:
        bound = {value.name for each in all_graphs(body) for value in (*each.input, *each.output)}
        hoisted = [t for t in body.initializer if t.name not in bound and t.ByteSize() >= LEAST_BYTES]
        new: dict[str, str] = {}
        for tensor in hoisted:
            name = next(name for k in count() if (name := f"body_{tensor.name}_{k}") not in taken)
            taken.add(name)
            new[tensor.name] = name
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = name
        kept = [type(t).FromString(t.SerializeToString()) for t in body.initializer if t.name not in new]
        del body.initializer[:]
        body.initializer.extend(kept)
        for node in (node for each in all_graphs(body) for node in each.node):
            node.input[:] = [new.get(name, name) for name in node.input]


def _share_constants(graph: GraphProto) -> None:
    """Replace initializers of integers by the first of equal value."""
    first: dict[tuple[Any, ...], str] = {}
    other: dict[str, str] = {}
    outputs = {value.name for value in graph.output} | {value.name for value in graph.input}
    for tensor in graph.initializer:
        if tensor.data_type == tensor.INT64 and tensor.HasField("raw_data") and tensor.name not in outputs:
            name = first.setdefault((*tensor.dims, tensor.raw_data), tensor.name)
            if name != tensor.name:
                other[tensor.name] = name
    captured = {name for node in graph.node if any(bodies(node)) for name in names_read(node)}
    gone = other.keys() - captured
    kept = [type(t).FromString(t.SerializeToString()) for t in graph.initializer if t.name not in gone]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    for node in graph.node:
        node.input[:] = [other[name] if name in gone else name for name in node.input]


def _drop_defaults(node: NodeProto) -> None:
    from onnx.helper import get_attribute_value

    node.name = ""
    node.ClearField("doc_string")
    if node.op_type not in _CONVOLUTIONS | _POOLS:
        return
    for attribute in list(node.attribute):
        value = get_attribute_value(attribute)
        value = list(value) if isinstance(value, tuple) else value
        by_weights = attribute.name == "kernel_shape" and node.op_type in _CONVOLUTIONS
        if by_weights or (attribute.name in _DEFAULTS and value == _DEFAULTS[attribute.name]):
            node.attribute.remove(attribute)


def _shorten_names(graph: GraphProto) -> None:
    """Number the tensors inside a graph without bodies whose names are long."""
    taken = {value.name for value in (*graph.input, *graph.output)}
    names = dict.fromkeys(t.name for t in graph.initializer)
    names.update(dict.fromkeys(name for node in graph.node for name in node.output))
    short = {name for name in names if len(name) <= _LONGEST} | taken
    new: dict[str, str] = {}
    number = 0
    for name in names:
        if name in short:
            continue
        while f"t{number}" in short:
            number += 1
        new[name] = f"t{number}"
        number += 1
    for tensor in graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]


_PAGE = 4096  # where a tensor's bytes begin: at a multiple of this


def move_weights(model: Path, data: BinaryIO, name: str, outside: Path | None = None) -> None:
    """Move the weights of the main graph out of a model's file. `model`: the file, which is written anew. `data`:
    where their bytes go. `name`: the name that this file will have, in the model's folder. `outside`: the folder of
    files that hold weights already, bodies' too: they are moved as well, else they stay where they are."""
    import onnx

    proto = onnx.load(str(model), load_external_data=False)
    end = 0

    def moved(tensor: TensorProto, content: Buffer, begin: int, size: int) -> None:
        nonlocal end
        data.write(bytes(-end % _PAGE))
        end += -end % _PAGE
        copy_range(content, begin, begin + size, data)
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        del tensor.external_data[:]
        for key, value in {"location": name, "offset": str(end), "length": str(size)}.items():
            tensor.external_data.add(key=key, value=value)
        end += size

    if outside is not None:
        opened: dict[str, Buffer] = {}
        with ExitStack() as files:
            for tensor in (t for graph in all_graphs(proto.graph) for t in graph.initializer if t.external_data):
                entries = {entry.key: entry.value for entry in tensor.external_data}
                place = entries["location"]
                if place not in opened:
                    opened[place] = files.enter_context(open_bytes(outside / place))
                moved(tensor, opened[place], int(entries.get("offset", 0)), int(entries["length"]))
    for tensor in proto.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL or tensor.data_type == tensor.STRING:
            continue
        if not tensor.HasField("raw_data"):
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        if len(tensor.raw_data) >= LEAST_BYTES:
            moved(tensor, tensor.raw_data, 0, len(tensor.raw_data))
    model.write_bytes(proto.SerializeToString(deterministic=True))
