"""ONNX's protobuf classes without the rest of the `onnx` package, and the bodies of their nodes.

``import onnx`` brings numpy, the checker and the reference helpers: 0.1 s of the 0.5 s that `lowtide check`
may take. Reading a model whose shapes are declared needs the generated classes only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_MODULE = "onnx.onnx_ml_pb2"


@cache
def protobuf_classes() -> Any:
    """The module generated from ``onnx.proto``: the one that ``import onnx`` uses, before or after."""
    if _MODULE not in sys.modules:
        package = find_spec("onnx")
        for folder in (package and package.submodule_search_locations) or ():
            spec = spec_from_file_location(_MODULE, Path(folder) / "onnx_ml_pb2.py")
            if spec is not None and spec.loader is not None and Path(folder, "onnx_ml_pb2.py").exists():
                module = module_from_spec(spec)
                sys.modules[_MODULE] = module
                spec.loader.exec_module(module)
                return module
        import onnx

        return onnx
    return sys.modules[_MODULE]


def bodies(node: Any) -> Iterator[Any]:
    """Graphs that a NodeProto runs: branches, and what a loop repeats."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_graphs(graph: Any) -> Iterator[Any]:
    """A GraphProto, then the bodies of its nodes and theirs."""
    yield graph
    for node in graph.node:
        for body in bodies(node):
            yield from all_graphs(body)


def names_read(node: Any) -> list[str]:
    """Names that a NodeProto reads, those that its bodies read or return among them."""
    names = list(node.input)
    for body in bodies(node):
        names += [name for inner in body.node for name in names_read(inner)]
        names += [value.name for value in body.output]
    return names
