"""Rounds: a part graph is an ordinary graph, and is cut again, so that a tensor is cut along two dimensions.

    round 1   conv rows 0:4    conv rows 4:8                  each reads and makes all channels
    round 2   conv rows 0:4, channels 0:16   16:32   conv rows 4:8, channels 0:16   16:32

What is new in a round is of the graph of the round before: a part of a part, a piece of a piece. A file is of the first
round's graph; `of_file` says of the last round's ops and tensors what they are of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowtide.ops.piece import Piece
from lowtide.transform.parts import PartGraph


def cut_again(first: PartGraph, second: PartGraph) -> PartGraph:
    """The parts of a part graph, with the rounds before them."""
    return replace(second, earlier=(*first.earlier, replace(first, earlier=())))


def piece_of_file(pieces: Mapping[int, Piece], piece: Piece) -> Piece:
    """Which rows of a tensor that is no piece some rows of a piece are."""
    while piece.of in pieces:
        around = pieces[piece.of]
        rows = zip(around.box, piece.box, strict=True)
        piece = Piece(around.of, tuple((first + a, first + b) for (first, _), (a, b) in rows))
    return piece


def of_file(parts: PartGraph) -> PartGraph:
    """The same graph, with what each of its ops and tensors is of the graph that was cut first."""
    if not parts.earlier:
        return parts
    rounds = (*parts.earlier, replace(parts, earlier=()))
    tensors = {t.id for t in parts.graph.tensors}
    sources: dict[int, int | None] = {}
    gone: set[int] = set()
    for one in rounds:
        sources.update((op, of if of is None else sources.get(of, of)) for op, of in one.sources.items())
        gone.update(one.gone, (c.op for c in one.seams.cuts), (c.op for region in one.regions for c in region.cuts))
        for op, part in one.parts.items():
            sources[op] = None if part.of is None else sources.get(part.of, part.of)
    return replace(
        rounds[-1],
        pieces={t: piece for one in rounds for t, piece in one.pieces.items()},  # gone ones, too: others are of them
        parts={op: part for one in rounds for op, part in one.parts.items() if op in parts.graph.index_of},
        numbers=frozenset(t for one in rounds for t in one.numbers if t in tensors),
        sources=sources,
        gone=frozenset(gone),
        before=tuple(r for one in rounds for r in one.before),
    )
