"""Regions of a training step that can run in parts: all ops along one class of dimensions, the batch above all.

A class is what runs together (`lowtide.ops.links`). Where one takes in the forward pass, the loss and the backward
pass, parts of it are micro-batches: gradients of weights are sums, the update stays outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.graph import Graph
from lowtide.ops.links import Place, axis_classes, linked
from lowtide.ops.meaning import Meaning, meaning
from lowtide.transform.fission import NoFission, Region, region_of

_FEWEST = 0.02  # classes that fewer than this part of the ops have are not looked at

_REASONS = 3  # reasons that are said why there are no micro-batches

Links = Mapping[int, Sequence[Sequence[Place]]]  # of each op's id the dimensions that run along each of its axes


@dataclass(frozen=True)
class StepRegions:
    """Regions, those of most ops first, and why what is no region is none: of each class of dimensions the reason."""

    regions: tuple[Region, ...]
    refused: tuple[str, ...]


def links_of(graph: Graph, meanings: Mapping[int, Meaning]) -> Links:
    """For each op the dimensions along each of its axes, those of other rows left out."""
    return {op.id: linked(op, meanings[op.id], windows=False) for op in graph.ops if op.id in meanings}


def axes_of_class(graph: Graph, places: frozenset[Place], links: Links) -> dict[int, int]:
    """The axis of each op that runs along a class of dimensions. Raises `NoFission`: an op runs along two of its
    axes."""
    axes: dict[int, int] = {}
    for op in graph.ops:
        for axis, group in enumerate(links.get(op.id, ())):
            if places.isdisjoint(group):
                continue
            if op.id in axes:
                raise NoFission(f"{op.label} runs along it twice, and each part needs all rows")
            axes[op.id] = axis
    return axes


def stretches(graph: Graph, order: Sequence[int]) -> list[Region]:
    """Of each class of dimensions that is no region, where a sum over its rows is read, say, stretches of an order that
    are, each as long as it can be: those of most ops first."""
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    links, found = links_of(graph, meanings), list[Region]()
    place = {graph.ops[i].id: step for step, i in enumerate(order)}
    for places in axis_classes(graph, windows=False, meanings=lambda _, op: meanings.get(op.id)):
        along = single_axes(graph, places, links)
        ops = sorted(along, key=place.__getitem__)
        if len(ops) < max(2, _FEWEST * len(graph.ops)) or _region(graph, along) is not None:
            continue
        begin = 0
        while begin < len(ops):
            end, region = _longest(graph, along, ops, begin)
            begin = max(end, begin + 1)
            found += [] if region is None else [region]
    return sorted(found, key=lambda r: (-len(r.axes), r.axes))


def _longest(graph: Graph, along: Mapping[int, int], ops: Sequence[int], begin: int) -> tuple[int, Region | None]:
    """From an op on as many as are a region, found by halves; None where not even two are."""
    low, high, best = begin + 1, len(ops), None
    while low < high:
        end = (low + high + 1) // 2
        region = _region(graph, {v: along[v] for v in ops[begin:end]})
        low, high, best = (end, high, region) if region is not None else (low, end - 1, best)
    return low, best


def _region(graph: Graph, axes: Mapping[int, int]) -> Region | None:
    try:
        return region_of(graph, axes)
    except NoFission:
        return None


def single_axes(graph: Graph, places: frozenset[Place], links: Links) -> dict[int, int]:
    """The axis of each op that runs along a class once; those that do twice are left out."""
    axes: dict[int, int] = {}
    for op in graph.ops:
        along = [axis for axis, group in enumerate(links.get(op.id, ())) if not places.isdisjoint(group)]
        if len(along) == 1:
            axes[op.id] = along[0]
    return axes


def step_regions(graph: Graph, *, one_row: bool = False) -> StepRegions:
    """The largest region of each class of dimensions; with `one_row` of those that are one row, and have no parts."""
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    links = links_of(graph, meanings)
    regions: list[Region] = []
    refused: list[str] = []
    for places in axis_classes(graph, windows=False, one_row=one_row, meanings=lambda _, op: meanings.get(op.id)):
        try:
            axes = axes_of_class(graph, places, links)
            if len(axes) < max(2, _FEWEST * len(graph.ops)):
                continue
            regions.append(region_of(graph, axes))
        except NoFission as reason:
            refused.append(str(reason))
    return StepRegions(tuple(sorted(regions, key=lambda r: (-len(r.axes), r.axes))), tuple(refused))


def all_but_updates(graph: Graph, region: Region) -> bool:
    """Whether a region is the step, in rows of the first dimension of its inputs, but for what makes outputs of its
    sums."""
    if not region.summed or any(dim for _, dim in region.sliced):
        return False
    inside, sums = {op for op, _ in region.axes}, set(region.summed)
    return all(
        op.id in inside or not sums.isdisjoint(op.inputs) or not graph.consumers.keys() & set(op.outputs)
        for op in graph.ops
    )


def why_no_batches(graph: Graph, refused: Sequence[str]) -> str:
    """Why there are no micro-batches: a step of one row, else the first reasons why classes of dimensions are none."""
    if any(all_but_updates(graph, region) for region in step_regions(graph, one_row=True).regions):
        return "the step has 1 row"
    reasons = list(dict.fromkeys(refused))
    more = f"; and {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
    return "; ".join(reasons[:_REASONS]) + more or "no dimension runs through the forward and the backward pass"
