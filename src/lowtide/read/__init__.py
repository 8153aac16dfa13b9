"""Model files as graphs: one function each, from a path to a `Graph`."""

from __future__ import annotations

from pathlib import Path

from lowtide.errors import ForeignDimensionError, InputError
from lowtide.files import HLO_ENDINGS, read_all
from lowtide.graph import Graph
from lowtide.sizes import NO_DIMS, Dims

ENDINGS = ".onnx, .tflite, .pt2, .graph.json, .hlo or .hlo.txt (scheduled HLO), or .json (a fused graph of Inductor's)"
"""Of the names of model files, in words."""


def read_model(path: str | Path, dims: Dims = NO_DIMS) -> Graph:
    """Read a model file; the format is known by the ending of its name. `path`: `.onnx`, `.tflite`, `.pt2`,
    `.graph.json`, scheduled HLO text (`.hlo`, `.hlo.txt`), or a fused graph of Inductor's (`.json`). `dims`: sizes
    of free dimensions, by symbolic name or as ``"INPUT:AXIS"``; only ONNX and .pt2 models can have them. Raises
    `InputError`: unknown ending, dimensions for a format without any, or what the format's reader raises."""
    name = str(path)
    if name.lower().endswith(".onnx"):
        from lowtide.read.onnx.reader import read_onnx

        return read_onnx(path, dims)
    if name.lower().endswith(".tflite"):
        from lowtide.read.tflite.reader import read_tflite

        if dims:
            raise ForeignDimensionError(
                f"a TFLite model has its sizes in the file; drop {', '.join(dims)}", name, tuple(dims)
            )
        return read_tflite(path)
    if name.lower().endswith(".pt2"):
        from lowtide.read.pt2.reader import read_pt2

        return read_pt2(path, dims)
    if name.lower().endswith(HLO_ENDINGS):
        from lowtide.read.hlo.reader import read_hlo

        if dims:
            raise ForeignDimensionError(
                f"HLO text has its sizes in the file; drop {', '.join(dims)}", name, tuple(dims)
            )
        return read_hlo(path)
    if name.lower().endswith(".json"):
        from lowtide.read.graph_json import parse_graph_json
        from lowtide.read.inductor import is_inductor, parse_inductor

        if dims:
            raise ForeignDimensionError(
                f"a graph JSON has no free dimensions; drop {', '.join(dims)}", name, tuple(dims)
            )
        data = read_all(path)
        if b'"live_intervals"' in data and b'"allowed_pools"' in data:
            raise InputError("this is a dsa-problem, no graph; place its buffers with lowtide research allocate", name)
        return parse_inductor(data, name) if is_inductor(data) else parse_graph_json(data, name)
    hint = "; HLO text is known by .hlo.txt: rename it" if name.lower().endswith(".txt") else ""
    raise InputError(f"unknown kind of model; the name must end in {ENDINGS}{hint}", name)
