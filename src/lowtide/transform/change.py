"""The result of a graph change: another graph, and the origin of its new operators and tensors.

A small frozen record in ids of the graph describes a change. `clone`, `siblings` and `alias` have two functions each:

- ``why_not(graph, record)``: the reason why the change is impossible, in a few words, or None;
- ``apply(graph, record)``: a `Change`; callers make sure that ``why_not`` gives None.

Changes that `lowtide.transform.lower` combines give a type of their own, with the origins in a `PartGraph`: `sections`
(`products` lists candidates, `by_sections` applies, `of_user` gives the origins), `statistics`, `runs` and the tiles.
The plan records every change, and `lowtide.verify` derives it with code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lowtide.graph import Graph

D = TypeVar("D")


@dataclass(frozen=True)
class Change(Generic[D]):
    """A change that was made."""

    record: D  # what describes the change, in ids of the graph before
    graph: Graph  # The graph after. Operators and tensors that are not new keep their ids.
    # ops, tensors: id of each new operator and tensor, to the id of its origin in the graph before.
    ops: Mapping[int, int]
    tensors: Mapping[int, int]
