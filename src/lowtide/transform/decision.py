"""The changes that a plan makes to a graph: a sequence of levels, each of the graph that the one before it gives.

    Level    rewrites     split products, statistics as sums                 (ids of the level's own graph)
             clones       recomputed operators
             regions      ops tiled together; tile bounds, with `begins` where halo rows are recomputed
             elimination  ops tiled by the operands of a concat
             split        unmaterialised tensors
    Decision levels, then aliases and an order, in ids of the last level's graph

`lowtide.transform.lower.lower` makes the graph that a decision describes. A level changes an ordinary graph, so tiles
can be tiled in the next level. The checker accepts regions, concat eliminations and split tensors in every level;
rewrites and clones only in the first one (`lowtide.verify.check.rewrites`). In a plan file the last level is
`rewrites`, earlier ones are `rounds`. A search holds the same changes as fields of a `PartGraph` and as records of the
plan file; `docs/architecture.md` says where each form is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowtide.rewrites import ConcatElimination, CutOp, CutRegion, Recompute, Sections, Split, SplitOp, Sums
from lowtide.transform.alias import Aliases
from lowtide.transform.cut import Cut, Region
from lowtide.transform.seams import NO_ELIMINATION, Elimination, OperandTiles

LevelRewrite = Sections | Sums | Recompute | CutRegion | ConcatElimination | Split
"""What a plan says of one level."""


@dataclass(frozen=True)
class Level:
    """The changes of one graph, in its ids."""

    # products, statistics: ops that run by sections, and norms and means that are computed as sums over rows.
    products: tuple[int, ...] = ()
    statistics: tuple[int, ...] = ()
    clones: tuple[Recompute, ...] = ()  # recomputed ops, of the graph with these; late ones first
    # regions, elimination: how that graph is tiled.
    regions: tuple[Region, ...] = ()
    elimination: Elimination = NO_ELIMINATION
    # Tensors of it that are tiled by their producer and by all consumers, and never materialised.
    split: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Decision:
    """All changes of a plan."""

    levels: tuple[Level, ...] = ()  # changes of the user's graph, then of the graph of the level before
    aliases: Aliases = ()  # tensors of the lowered graph that are stored in others
    order: tuple[int, ...] = ()  # op ids of the lowered graph; empty: its file order

    def ordered(self, order: tuple[int, ...]) -> Decision:
        """The decision with another order."""
        return replace(self, order=order)


def tilings_as_rewrites(level: Level) -> list[CutRegion | ConcatElimination | Split]:
    """The tilings of a level in the form of a plan file."""
    regions = [
        CutRegion(ops=[CutOp(op=c.op, axis=c.axis, ends=[*c.ends], begins=[*c.begins] or None) for c in region.cuts])
        for region in level.regions
    ]
    elimination = [
        SplitOp(op=c.op, axis=c.axis, ends=[*c.ends], turns=_unless_rising(c.turns), into=c.into)
        for c in level.elimination.cuts
    ]
    split = [Split(tensors=sorted(level.split))] if level.split else []
    return [*regions, *([ConcatElimination(ops=elimination)] if elimination else []), *split]


def level_of(rewrites: list[LevelRewrite]) -> Level:
    """The level of a plan file. `lowtide.transform.lower.why_not` says whether it is legal."""
    regions = [r for r in rewrites if isinstance(r, CutRegion)]
    elimination = [c for r in rewrites if isinstance(r, ConcatElimination) for c in r.ops]
    return Level(
        products=tuple(r.op for r in rewrites if isinstance(r, Sections)),
        statistics=tuple(r.op for r in rewrites if isinstance(r, Sums)),
        clones=tuple(r for r in rewrites if isinstance(r, Recompute)),
        regions=tuple(
            Region(tuple(Cut(c.op, c.axis, tuple(c.ends), tuple(c.begins or ())) for c in r.ops)) for r in regions
        ),
        elimination=Elimination(
            tuple(OperandTiles(c.op, c.axis, tuple(c.ends), tuple(c.turns or ()), c.into) for c in elimination)
        ),
        split=frozenset(t for r in rewrites if isinstance(r, Split) for t in r.tensors),
    )


def _unless_rising(turns: tuple[int, ...]) -> list[int] | None:
    return None if list(turns) == sorted(turns) else list(turns)
