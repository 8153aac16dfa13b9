"""The builder of small .tflite files, where it can be had; modules that import this are skipped elsewhere."""

from __future__ import annotations

import pytest

pytest.importorskip("ai_edge_litert", reason="pip install '.[tflite]'")
pytest.importorskip("flatbuffers", reason="pip install '.[tflite]'")

from lowtide.bench.tflite_net import SAME, VALID, Net, branches, residual, s
from lowtide.graph import Graph
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of

__all__ = ["SAME", "VALID", "Net", "branches", "graph_from", "residual", "s"]


def graph_from(data: bytes) -> Graph:
    """Graph of a file's bytes."""
    return graph_of(parse_tflite(data, "m"), [], "m", "")
