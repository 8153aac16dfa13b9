"""Plans with moves whose workspaces, outputs in place and outputs at the end lie where they cannot."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from lowtide.sizes import round_up
from support.forgeries.bases import Base
from support.forgeries.families import Family, changed
from support.forgeries.leaves import Document


def _sized(base: Base, **keys: Any) -> Document:
    """The plan with other places, and the fast memory as large as they make it; nothing is proved of its traffic."""
    document = base.document | keys
    size = {t.id: t.size for t in base.plan.tensors}
    fast, *others = document["memories"]
    ends = [r["offset"] + size.get(r["tensor"], 0) for r in document["residency"] if r["memory"] == fast["name"]]
    works = {op.id: op.workspace for op in base.graph.ops}
    ends += [low + works.get(int(v), 0) for v, low in (document.get("workspace_offsets") or {}).items()]
    top = max(ends)
    least = {"traffic_lower_bound_bytes": 0, "optimal": not base.plan.traffic_bytes, "traffic_proof": None}
    sizes = {"arena_bytes": top, "required_bytes": top, "memories": [fast | {"size_bytes": top}, *others]}
    return changed(base, **(keys | sizes | least))


def workspaces_spilled(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """A workspace of no op, or without a place, or before, behind or across the units of the fast memory."""
    works, unit = base.document.get("workspace_offsets") or {}, base.plan.alignment
    if base.plan.moves is None:
        return
    yield changed(base, workspace_offsets={**works, str(2**40): 0}), "of no op"
    fast = base.document["memories"][0]
    above = round_up(fast["capacity_bytes"], unit)
    roomy = [fast | {"capacity_bytes": 4 * above}, *base.document["memories"][1:]]
    for v in works:
        size = base.graph.op_by_id[int(v)].workspace
        rest = {k: low for k, low in works.items() if k != v}
        yield _sized(base, workspace_offsets=rest or None), "it lies nowhere"
        yield _sized(base, workspace_offsets=works | {v: -round_up(size, unit)}), "before the memory begins"
        yield _sized(base, workspace_offsets=works | {v: above}), "behind the end of the memory"
        if unit > 1:
            yield _sized(base, workspace_offsets=works | {v: above + 1}, memories=roomy), "off the alignment"


def in_place_spilled(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An input that is overwritten has left, stays for longer, or lies elsewhere than the output."""
    rows, unit = base.document.get("residency") or [], base.plan.alignment
    if base.plan.moves is None:
        return
    for out, read in base.plan.in_place:
        step = base.plan.order.index(base.graph.producer[out])

        def put(tensor: int, **keys: Any) -> Document:
            there = [r for r in rows if r["tensor"] == tensor and r["start"] <= step < r["end"]]  # noqa: B023
            return _sized(base, residency=[r | keys if r in there else r for r in rows])

        yield put(read, end=step), "the input has left"
        yield put(read, end=step + 2), "the input stays"
        high = round_up(max(r["offset"] for r in rows) + max(t.size for t in base.plan.tensors), unit)
        wide = [base.document["memories"][0] | {"capacity_bytes": 2 * high + 4096}, *base.document["memories"][1:]]
        yield put(out, offset=high) | {"memories": [wide[0] | {"size_bytes": None}, *wide[1:]]}, "elsewhere"


def back_too_late(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """An output that has to end in the fast memory comes back at the end, with no step for the move."""
    rules, steps = base.plan.spilling, len(base.plan.order)
    if base.plan.moves is None or rules is None or not rules.outputs_end_fast or not rules.lead:
        return
    outputs = {t.id for t in base.plan.tensors if t.kind == "output"}
    for move in base.document["moves"]:
        if move["kind"] == "fill" and move["tensor"] in outputs and move["step"] < steps:
            moves = [m | {"step": steps} if m == move else m for m in base.document["moves"]]
            late = {"start": steps, "end": steps + 1}
            first = (move["tensor"], move["step"])
            rows = [r | late if (r["tensor"], r["start"]) == first else r for r in base.document["residency"]]
            yield changed(base, moves=moves, residency=rows), "no step is left for the move"


def left_before(base: Base, random: Random) -> Iterator[tuple[Document, str]]:
    """What is filled from a memory has left it by then."""
    rows = base.document.get("residency") or []
    for move in base.document.get("moves") or []:
        held = [r for r in rows if (r["tensor"], r["memory"]) == (move["tensor"], move["from"])
                and r["start"] < move["step"] <= r["end"]]  # fmt: skip
        if move["kind"] == "fill" and held:
            early = [r | {"end": move["step"]} if r in held else r for r in rows]
            yield changed(base, residency=early), "it has left"


SPILLED: dict[str, Family] = {
    "workspaces beside moves": workspaces_spilled,
    "in place beside moves": in_place_spilled,
    "back too late": back_too_late,
    "left before": left_before,
}
"""What is forged of where things lie in a plan with moves."""
