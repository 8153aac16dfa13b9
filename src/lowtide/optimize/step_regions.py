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

_FEWEST = 0.02
"""Classes that fewer than this part of the ops have are not looked at."""


Links = Mapping[int, Sequence[Sequence[Place]]]
"""Of each op's id the dimensions that run along each of its axes."""


@dataclass(frozen=True)
class StepRegions:
    """Regions, those of most ops first, and why what is no region is none: of each class of dimensions the reason."""

    regions: tuple[Region, ...]
    refused: tuple[str, ...]


def links_of(graph: Graph, meanings: Mapping[int, Meaning]) -> Links:
    """For each op the dimensions along each of its axes, those of other rows left out."""
    return {op.id: linked(op, meanings[op.id], windows=False) for op in graph.ops if op.id in meanings}


def axes_of_class(graph: Graph, places: frozenset[Place], links: Links) -> dict[int, int]:
    """The axis of each op that runs along a class of dimensions.

    Raises
    ------
    NoFission
        An op runs along two of its axes.
    """
    axes: dict[int, int] = {}
    for op in graph.ops:
        for axis, group in enumerate(links.get(op.id, ())):
            if places.isdisjoint(group):
                continue
            if op.id in axes:
                raise NoFission(f"{op.label} runs along it twice, and each part needs all rows")
            axes[op.id] = axis
    return axes


def step_regions(graph: Graph) -> StepRegions:
    """The largest region of each class of dimensions."""
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    links = links_of(graph, meanings)
    regions: list[Region] = []
    refused: list[str] = []
    for places in axis_classes(graph, windows=False, meanings=lambda _, op: meanings.get(op.id)):
        try:
            axes = axes_of_class(graph, places, links)
            if len(axes) < max(2, _FEWEST * len(graph.ops)):
                continue
            regions.append(region_of(graph, axes))
        except NoFission as reason:
            refused.append(str(reason))
    return StepRegions(tuple(sorted(regions, key=lambda r: (-len(r.axes), r.axes))), tuple(refused))
