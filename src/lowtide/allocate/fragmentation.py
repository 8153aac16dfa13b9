"""Why an arena is larger than the bytes live at any step: what ends highest, and the holes that it does not fit.

A tensor ends above the load bound because at each lower offset something is in its way at some step. The step that
tells most is the one at which the largest hole below it is smallest:

    bytes ^  +--------+
          |  |  top   |    <- fits into no hole of this step, or only into some that other steps close
          |  +--------+
          |   ........     hole
          |  +--+  +---+
          |  |a |  | b |   hole between a and b
          +--+--+--+---+--> steps
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide.allocate.arena import Allocation
from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, rounded_up
from lowtide.plan import ArenaLost, Hole
from lowtide.sizes import round_up

MOST_STEPS = 256  # this many steps of the top tensor's life are looked at: those of the highest footprint
MOST_HOLES = 4  # this many holes are reported, the largest


@dataclass(frozen=True, slots=True)
class _PlacedStorage:
    name: str
    begin: int
    end: int
    low: int
    high: int


def lost(model: MemoryModel, order: Sequence[int], steps: Profile, allocation: Allocation) -> ArenaLost | None:
    """Find where the arena of an order loses bytes; None if it is the peak of the rounded sizes. `model`: graph under a
    target. `order`: positions in file order. `steps`: `profile(model, order)`. `allocation`: its arena."""
    if allocation.arena_bytes <= steps.peak:  # the peak of rounded sizes is no lower
        return None
    gap = allocation.arena_bytes - _load(model, order, allocation)
    places = _places(model, order, steps, allocation)
    if gap <= 0 or not order or not places:
        return None
    top = max(places, key=lambda b: b.high)
    others = [b for b in places if b is not top and b.begin < top.end and top.begin < b.end]
    life = sorted(range(top.begin, top.end), key=lambda step: (-steps.footprint[step], step))[:MOST_STEPS]
    seen = [(_holes(others, top, step), -steps.footprint[step], step) for step in life]
    holes, _, step = min(seen, key=lambda s: (max((h.bytes for h in s[0]), default=0), *s[1:]))
    op = model.graph.ops[order[step]]
    most = sorted(holes, key=lambda h: (-h.bytes, h.offset))[:MOST_HOLES]
    size, free = top.high - top.low, sum(h.bytes for h in holes)
    text = f"{top.name} ({size:,} B) ends highest; at step {step:,}, {op.label}, {_below(size, free, len(holes), most)}"
    return ArenaLost(gap, top.name, size, step, op.label, free, len(holes), most, text)


def _below(top_bytes: int, free_bytes: int, count: int, holes: Sequence[Hole]) -> str:
    """What is free below the top, in words; `holes` are the largest of `count`."""
    if not holes:
        return "nothing is free below it"
    most = holes[0]
    between = f"between {most.below} and {most.above}" if most.below is not None else f"below {most.above}"
    closed = " (other steps close it)" if most.bytes >= top_bytes else ""
    if count == 1:
        return f"{free_bytes:,} B below it are free, {between}{closed}"
    return f"{free_bytes:,} B below it are free in {count} holes, the largest of {most.bytes:,} B {between}{closed}"


def _load(model: MemoryModel, order: Sequence[int], allocation: Allocation) -> int:
    """Peak of the rounded sizes, with what the arena really has in place."""
    taken = {*allocation.in_place, *((out, into) for out, into, _ in allocation.overlap)}
    aligned = rounded_up(model)
    kept = tuple(tuple(o for o in row if (o.output, o.input) in taken) for row in aligned.overwrites)
    return profile(replace(aligned, overwrites=kept), order).peak


def _places(model: MemoryModel, order: Sequence[int], steps: Profile, allocation: Allocation) -> list[_PlacedStorage]:
    """Storages and workspaces where they lie, sizes rounded up to the alignment."""
    unit, tensors, n = model.alignment, model.graph.tensor_by_id, len(order)
    places: list[_PlacedStorage] = []
    for s, storage in enumerate(model.storages):
        placed = next((t for t in storage.tensors if t in allocation.offsets), None)
        if placed is None:
            continue
        low = allocation.offsets[placed] - model.displacement[placed]
        high = low + round_up(storage.size, unit)
        label = tensors[storage.tensors[0]].label
        places.append(_PlacedStorage(label, max(steps.first[s], 0), min(steps.last[s] + 1, n), low, high))
    for step, i in enumerate(order):
        op = model.graph.ops[i]
        if op.id in allocation.workspace_offsets:
            low = allocation.workspace_offsets[op.id]
            high = low + round_up(model.workspace[i], unit)
            places.append(_PlacedStorage(f"workspace of {op.label}", step, step + 1, low, high))
    return places


def _holes(others: Sequence[_PlacedStorage], top: _PlacedStorage, step: int) -> list[Hole]:
    """Free stretches below the top storage at a step, ascending."""
    holes: list[Hole] = []
    until, below = 0, None
    for b in sorted((b for b in others if b.begin <= step < b.end), key=lambda b: (b.low, b.high)):
        if until < b.low < top.low:
            holes.append(Hole(until, b.low - until, below, b.name))
        if b.high > until:
            until, below = b.high, b.name
    if until < top.low:
        holes.append(Hole(until, top.low - until, below, top.name))
    return holes
