"""An optimised ONNX file in one form: onnxruntime names and orders what it adds by addresses, anew in every process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_TOKEN = re.compile(r"_token_\d+$")
"""How names end that onnxruntime draws."""
_ADDED = ("ReorderInput", "ReorderOutput")
"""Ops that change the layout."""


def make_canonical(file: Path) -> None:
    """Number the nodes and tensors that onnxruntime added, and order all nodes, depth first from the graph's outputs;
    what the file computes stays as it is."""
    import onnx

    proto = onnx.load(str(file), load_external_data=False)
    graph = proto.graph
    ordered = _depth_first(graph)
    drawn = [name for node in ordered for name in (*node.input, *node.output) if _TOKEN.search(name)]
    new = {name: f"{_TOKEN.sub('', name)}_added_{k}" for k, name in enumerate(dict.fromkeys(drawn))}
    for node in ordered:
        if node.op_type in _ADDED or _TOKEN.search(node.name):
            node.name = f"{node.op_type} for {new.get(node.output[0], node.output[0])}"
        node.input[:] = [new.get(name, name) for name in node.input]
        node.output[:] = [new.get(name, name) for name in node.output]
    for value in (*graph.value_info, *graph.initializer):
        value.name = new.get(value.name, value.name)
    values = sorted(graph.value_info, key=lambda value: value.name)
    nodes = [type(node).FromString(node.SerializeToString()) for node in ordered]
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    graph.value_info.extend(values)
    file.write_bytes(proto.SerializeToString(deterministic=True))


def _depth_first(graph: Any) -> list[Any]:
    """The nodes, each behind those that it reads from: from the outputs on, and those that no output needs last."""
    maker = {name: node for node in graph.node for name in node.output if name}
    done: set[int] = set()
    order: list[Any] = []
    for root in [maker[o.name] for o in graph.output if o.name in maker] + list(graph.node):
        stack = [(root, iter(_read(root)))] if id(root) not in done else []
        done.add(id(root))
        while stack:
            node, names = stack[-1]
            name = next(names, None)
            if name is None:
                order.append(node)
                stack.pop()
            elif name in maker and id(maker[name]) not in done:
                done.add(id(maker[name]))
                stack.append((maker[name], iter(_read(maker[name]))))
    return order


def _read(node: Any) -> list[str]:
    """Names that a node reads, those that its bodies capture among them."""
    names = list(node.input)
    for attribute in node.attribute:
        for body in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            names += [name for inner in body.node for name in _read(inner)]
    return names
