"""A graph under a built-in target, in one call."""

from __future__ import annotations

from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.graph import Graph
from lowtide.target import BUILT_IN


def model_of(graph: Graph, target: str = "strict") -> MemoryModel:
    """What the planners see of a graph under a built-in target."""
    return memory_model(graph, BUILT_IN[target])
