"""What probing the ops of a model showed: node by node, kind by kind, and in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.names import brief

if TYPE_CHECKING:
    from lowtide.graph import Graph


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """A node, and those like it, probed once."""

    op: int  # id of the first of them
    name: str
    type: str
    nodes: int  # how many are alike: type, attributes, shapes, constant values
    # family, exact, merged: as `lowtide.ops.meaning.Meaning` and `lowtide.ops.access.Access` have them; merged is empty
    # if nothing is.
    family: str
    exact: str
    merged: str
    smaller: bool = False  # whether it was run on smaller operands than the model's
    # parts, sums, wrong, inside, inside_moved, edges, edges_moved, wholes, wholes_moved, loose: as
    # `lowtide.run.probe.Findings`.
    parts: int = 0
    sums: int = 0
    wrong: tuple[str, ...] = ()
    inside: int = 0
    inside_moved: int = 0
    edges: int = 0
    edges_moved: int = 0
    wholes: int = 0
    wholes_moved: int = 0
    loose: str = ""
    skipped: str = ""  # why it was not run; empty if it was


@dataclass(frozen=True, slots=True)
class OpaqueNode:
    """A node of which nothing is known, and why: every cut ends there."""

    op: int
    name: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True)
class KindProbe:
    """What was probed of one op type under one family; `exact` has every class met, as ``kernel, sum``."""

    type: str
    family: str
    exact: str
    # nodes, distinct: nodes of the model, and how many of them differ.
    nodes: int
    distinct: int
    skipped: int  # of those that differ: not run
    smaller: int
    parts: int
    sums: int
    wrong: int
    # tested, moved: insides, and first and last rows inside, that were changed, and those that moved something:
    # tightness.
    tested: int
    moved: int


@dataclass(frozen=True, repr=False, slots=True)
class Probing:
    """The maps of a model."""

    model: str
    dialect: str
    nodes: int  # ops of the model that run; those computed beforehand are not among them
    # parts, sums: parts probed from outside, and reduced axes whose parts were merged.
    parts: int
    sums: int
    wrong: int  # distinct nodes that contradict their map
    kinds: tuple[KindProbe, ...]  # one line for each op type and family, in order of their names; opaque ones too
    probes: tuple[NodeProbe, ...]  # one entry for nodes that are alike, in the order of the file
    opaque: tuple[OpaqueNode, ...]  # every node without a meaning

    def __repr__(self) -> str:
        return brief(self, "model dialect nodes parts sums wrong opaque")

    @property
    def exit_status(self) -> int:
        """5 if a map is wrong, else 0."""
        return 5 if self.wrong else 0


def summed(graph: Graph, probes: tuple[NodeProbe, ...], opaque: tuple[OpaqueNode, ...]) -> Probing:
    """All of a model: its kinds and its totals."""
    kinds: dict[tuple[str, str], list[NodeProbe]] = {}
    for p in probes:
        kinds.setdefault((p.type, p.family), []).append(p)
    rows = [_row(type_, family, alike) for (type_, family), alike in kinds.items()]
    for type_ in sorted({node.type for node in opaque}):
        count = sum(node.type == type_ for node in opaque)
        rows.append(KindProbe(type_, "opaque", "", count, count, count, 0, 0, 0, 0, 0, 0))
    return Probing(
        graph.source or graph.name,
        graph.dialect,
        len(graph.ops),
        sum(p.parts for p in probes),
        sum(p.sums for p in probes),
        sum(bool(p.wrong) for p in probes),
        tuple(sorted(rows, key=lambda row: (row.type, row.family))),
        probes,
        opaque,
    )


def _row(type_: str, family: str, alike: Sequence[NodeProbe]) -> KindProbe:
    classes = dict.fromkeys([p.exact for p in alike] + [p.merged for p in alike if p.merged])
    return KindProbe(
        type_,
        family,
        ", ".join(classes),
        sum(p.nodes for p in alike),
        len(alike),
        sum(bool(p.skipped) for p in alike),
        sum(p.smaller for p in alike),
        sum(p.parts for p in alike),
        sum(p.sums for p in alike),
        sum(bool(p.wrong) for p in alike),
        sum(p.inside + p.edges for p in alike),
        sum(p.inside_moved + p.edges_moved for p in alike),
    )
