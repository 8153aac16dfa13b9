"""Which dimensions of which tensors run together: the axis classes of a graph.

Two dimensions are linked where one op runs both along one axis; a class is a connected component of these links over
all tensors. A fission cuts one class (MAGIS, ASPLOS 2024, section 4.1: its D-graph; a class is a component of it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lowtide.graph import Graph, Op
from lowtide.ops.index import FIXED
from lowtide.ops.meaning import Meaning, meaning

Place = tuple[int, int]  # a tensor's id and a dimension of it


def linked(op: Op, op_meaning: Meaning, *, windows: bool = True) -> list[tuple[Place, ...]]:
    """For each axis of an op the dimensions that run along it. `windows`: whether dimensions are linked that are read
    at other rows, as by windows, slices and reshapes; else only the same row at the same row."""
    groups: list[list[Place]] = [[] for _ in op_meaning.access.sizes]
    for t, dims in zip(op.outputs, op_meaning.access.outputs, strict=True):
        for d, axis in enumerate(dims):
            if axis is not None:
                groups[axis].append((t, d))
    for t, indices in zip(op.operands or op.inputs, op_meaning.access.inputs, strict=True):
        for d, index in enumerate(indices or ()) if t is not None else ():
            if t is not None and index is not None and index.axis != FIXED and (windows or index.same):
                groups[index.axis].append((t, d))
    return [tuple(dict.fromkeys(group)) for group in groups]


def axis_classes(
    graph: Graph,
    *,
    windows: bool = True,
    one_row: bool = False,
    meanings: Callable[[Graph, Op], Meaning | None] = meaning,
) -> tuple[frozenset[Place], ...]:
    """Classes of dimensions that run together, the largest first; dimensions of one row are in none. `windows`: as
    `linked`. `one_row`: of dimensions of one row instead, of which there are no parts, and of no others. `meanings`:
    where the meaning of an op is looked up."""
    parent: dict[Place, Place] = {}

    def root(place: Place) -> Place:
        parent.setdefault(place, place)
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(places: Iterable[Place]) -> None:
        first, *others = map(root, places)
        for other in others:
            parent[root(other)] = first

    sizes = graph.tensor_by_id
    for op in graph.ops:
        op_meaning = meanings(graph, op)
        for group in linked(op, op_meaning, windows=windows) if op_meaning is not None else ():
            alike = [p for p in group if ((sizes[p[0]].shape or ())[p[1]] > 1) != one_row]
            if alike:
                join(alike)
    classes: dict[Place, set[Place]] = {}
    for place in list(parent):
        classes.setdefault(root(place), set()).add(place)
    return tuple(sorted(map(frozenset, classes.values()), key=lambda members: (-len(members), sorted(members))))
