"""What a change of a graph gives: another graph, and where in the first one its parts come from.

A change is a decision: a small frozen record in ids of the graph that it is for. Each kind of decision has a file of
its own with three functions:

- ``why_not(graph, decision)``: the reason why it cannot be made there, in a few words, or None;
- ``apply(graph, decision)``: a `Change`; it is called where ``why_not`` gives None;
- a way back: how a plan of the new graph is told on the user's own. Checking it is verify's, with code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lowtide.graph import Graph

D = TypeVar("D")


@dataclass(frozen=True)
class Change(Generic[D]):
    """A decision made.

    Attributes
    ----------
    decision
        In ids of the graph that it was made for.
    graph
        The new one. What is not named below has the id that it had.
    ops, tensors
        Id of each op and tensor that is new, to the id of that of the former graph which it stands for.
    """

    decision: D
    graph: Graph
    ops: Mapping[int, int]
    tensors: Mapping[int, int]
