"""Nested tiling: a part graph is an ordinary graph and can be tiled, so that a tensor is tiled along two dimensions.

    level 1   conv rows 0:4    conv rows 4:8                  each reads and makes all channels
    level 2   conv rows 0:4, channels 0:16   16:32   conv rows 4:8, channels 0:16   16:32

Origins in a level are in the graph of the level before: a tile of a tile, a slice of a slice. `of_file` gives the
origins of the last level in the graph of the first, which is the file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowtide.ops.piece import Piece
from lowtide.transform.parts import PartGraph


def nested(first: PartGraph, second: PartGraph) -> PartGraph:
    """The parts of a part graph, with the levels before them."""
    return replace(second, earlier=(*first.earlier, replace(first, earlier=())))


def slice_of_file(slices: Mapping[int, Piece], origin: Piece) -> Piece:
    """The rows of a tensor of the file that a slice of a slice is."""
    while origin.of in slices:
        around = slices[origin.of]
        rows = zip(around.box, origin.box, strict=True)
        origin = Piece(around.of, tuple((first + a, first + b) for (first, _), (a, b) in rows))
    return origin


def of_file(parts: PartGraph) -> PartGraph:
    """The same graph, with the origins of its ops and tensors in the graph that was tiled first."""
    if not parts.earlier:
        return parts
    rounds = (*parts.earlier, replace(parts, earlier=()))
    tensors = {t.id for t in parts.graph.tensors}
    sources: dict[int, int | None] = {}
    gone: set[int] = set()
    for one in rounds:
        sources.update((op, of if of is None else sources.get(of, of)) for op, of in one.sources.items())
        gone.update(
            one.gone, (c.op for c in one.elimination.cuts), (c.op for region in one.regions for c in region.cuts)
        )
        for op, part in one.parts.items():
            sources[op] = None if part.of is None else sources.get(part.of, part.of)
    return replace(
        rounds[-1],
        slices={t: origin for one in rounds for t, origin in one.slices.items()},  # gone ones, too: others are of them
        parts={op: part for one in rounds for op, part in one.parts.items() if op in parts.graph.index_of},
        numbers=frozenset(t for one in rounds for t in one.numbers if t in tensors),
        sources=sources,
        gone=frozenset(gone),
        before=tuple(r for one in rounds for r in one.before),
    )
