"""Stretches of a concatenated tensor, each with a lifetime of its own.

An operand of a concat, written in place, is live from its own op on, not from the first operand's:

    bytes ^          a's op      b's op     concat     last reader
          |             |   ......|    b      :  |          |        ..... free for others
          |             |    a    |           :  |          |
          +-------------+---------+-----------+--+----------+--> steps

A **stretch** is all bytes that lie in the same tensors. It is a storage of its own, at a fixed place in the
concatenated tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from lowtide.graph import Graph
from lowtide.target import Target


class Stretch(NamedTuple):
    """Bytes [low, high) of a concatenated tensor; the tensors there, the smallest first, and who makes or reads one."""

    low: int
    high: int
    tensors: tuple[int, ...]
    users: tuple[int, ...]


def stretches_of(graph: Graph, target: Target, at: Mapping[int, int]) -> tuple[Stretch, ...]:
    """The stretches of a storage if each of them is there by itself, else none. They are not if there is a single
    one, if an alias among the tensors lacks the flag of a slice, if two would go by one tensor, or if an op may
    write over what is in several: a storage is only written over in full. `at`: the tensors of the storage, each
    with its bytes from the start."""
    size = {t: graph.tensor_by_id[t].size for t in at}
    if len(set(size.values())) == 1:
        return ()
    for t in at:
        tensor = graph.tensor_by_id[t]
        if tensor.alias_of is not None and not tensor.piece:
            return ()
    bounds = sorted({edge for t, low in at.items() for edge in (low, low + size[t])})
    found: dict[tuple[int, ...], tuple[int, int]] = {}
    for low, high in pairwise(bounds):
        inside = tuple(sorted((t for t in at if at[t] <= low and high <= at[t] + size[t]), key=lambda t: (size[t], t)))
        if not inside or inside in found:
            return ()
        found[inside] = (low, high)
    if len({inside[0] for inside in found}) < len(found) or len(found) < 2:
        return ()
    several = {t for t in at if sum(t in inside for inside in found) > 1}
    if any(_written_over(graph, target, t, several, at) for t in several):
        return ()
    users = {t: _users(graph, t) for t in at}
    return tuple(
        Stretch(low, high, inside, tuple(sorted(set().union(*(users[t] for t in inside)))))
        for inside, (low, high) in found.items()
    )


def _users(graph: Graph, t: int) -> set[int]:
    """Positions of the ops that make or read a tensor."""
    made = [graph.producer[t]] if t in graph.producer else []
    return {graph.index_of[o] for o in (*made, *graph.consumers.get(t, ()))}


def _written_over(graph: Graph, target: Target, t: int, several: set[int], inside: Mapping[int, int]) -> bool:
    """Whether an op may write over a tensor, or may make it over what it reads, where that is elsewhere."""
    for i in _users(graph, t):
        op = graph.ops[i]
        reads = {*target.in_place_inputs(graph, op), *(read for read, _ in target.overlap_inputs(graph, op))}
        if op.outputs[0] in inside:
            reads -= inside.keys()
        if reads and (op.outputs[0] in several or not several.isdisjoint(reads)):
            return True
    return False
