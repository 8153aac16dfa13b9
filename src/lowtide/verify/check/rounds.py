"""Rounds of cuts: each is of the graph that the one before gave, and is checked as if that were the user's own."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rewrites import ConcatElimination, CutRegion, Recompute, Sections, Split, Sums
from lowtide.verify.check.part_rows import fail
from lowtide.verify.check.parts import has_cuts, parted

Before = Callable[[Graph, Plan], Graph]  # the graph that a plan cuts, of the one that it speaks of

_TILES = CutRegion | ConcatElimination | Split
_BEFORE_TILES = Sections | Sums | Recompute
"""Changes of a graph before it is tiled: only the first round may have them."""


def rounds_of(graph: Graph, plan: Plan, before_cuts: Before) -> list[tuple[Graph, Plan]]:
    """The plan's cuts, round by round: the graph that each cuts, and what is said of it. Raises `VerificationError`:
    ``parts``: as `lowtide.verify.check.parts.parted`, or a round that cuts nothing, or does more than cut."""
    result = []
    for k, listed in enumerate(plan.rounds or ()):
        one = replace(
            plan, ops=listed.ops, tensors=listed.tensors, order=listed.order, rewrites=listed.rewrites, rounds=None
        )  # fmt: skip
        known = _TILES | _BEFORE_TILES if k == 0 else _TILES
        if not has_cuts(one) or not all(isinstance(r, known) for r in listed.rewrites):
            raise fail(f"round {k + 1} does something else than cut")
        cut = before_cuts(graph, one)
        for t in listed.tensors:
            own = cut.tensor_by_id.get(t.id)
            if own is not None and (t.name, t.size, t.kind) != (own.name, own.size, own.kind.value):
                raise fail(f"round {k + 1} has another tensor {t.id} than the graph that it cuts")
        result.append((cut, one))
        graph = parted(cut, one)
    last = replace(plan, rounds=None)
    if result and any(isinstance(r, _BEFORE_TILES) for r in plan.rewrites or ()):
        raise fail("what is cut again is changed before, which only the first round may be")
    result.append((before_cuts(graph, last), last))
    for cut, one in result:
        _check_split(cut, one)
    return result


def _check_split(graph: Graph, plan: Plan) -> None:
    """``parts``: the tensors which a plan says are not materialised are cut, and no op makes them."""
    rewrites, listed = plan.rewrites or (), {t.id for t in plan.tensors}
    cut = {c.op for r in rewrites if isinstance(r, CutRegion | ConcatElimination) for c in r.ops}
    for t in (t for r in rewrites if isinstance(r, Split) for t in r.tensors):
        if graph.producer.get(t) not in cut or t in listed:
            raise fail(f"tensor {t} is said to stay in pieces, and does not")
