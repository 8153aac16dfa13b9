"""The arena of segments: which bytes are live when, what may share them, and an address for each buffer.

A result that is complete may lie over an operand that dies in the same segment, if every row is written below the first
byte that is still to be read: the result begins `distance` bytes or more below the operand. A layer that reads an
element before it writes it (`layers.IN_PLACE`) may write to its operand's own bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lowtide.emit.cmsis_nn.layers import IN_PLACE, Layer
from lowtide.emit.cmsis_nn.stripes import Call, Flow, Segment
from lowtide.graph import Kind
from lowtide.sizes import round_up

ALIGNMENT = 8
"""Of every address, in bytes: the library reads sums of 32 bits and windows of 16 from its scratch."""
_SHUFFLES = 100
Key = tuple[Literal["tensor", "rows", "sums", "scratch"], int]
"""A complete tensor, a row buffer or accumulators, by the tensor; scratch by the segment's first layer."""


@dataclass(frozen=True)
class Buffer:
    """Bytes that are live from one call to another, both counted, by the calls' index over all segments."""

    key: Key
    size: int
    first: int
    last: int


def distance(flow: Flow, part: Segment, operand: int, result: int) -> int | None:
    """Bytes by which a complete result has to begin below a complete operand that dies in the segment, at least; None
    if they cannot share any."""
    layers = flow.layers
    size, row = layers.tensor(result).size, layers.row_bytes(result)
    needed, least = layers.tensor(operand).size, 0
    for call in reversed(part.calls):
        layer = layers.listed[call.layer]
        later, own = needed, _first_byte(flow, layer, call, operand)
        needed = min(needed, own)
        if layer.result == result:
            end = (size if call.end == layer.rows else 0) if layer.writes_last else call.end * row
            end = size if not layer.streams else end
            same = layer.kind in IN_PLACE and layers.tensor(operand).size == size
            least = max(least, end - (later if same else needed))
    least = round_up(least, ALIGNMENT)
    return least if least < size else None


def _first_byte(flow: Flow, layer: Layer, call: Call, tensor: int) -> int:
    """The first byte of a tensor that a call reads; its end if it reads none."""
    layers = flow.layers
    begins = [
        layers.reads(layer, o, call.first, call.end)[0] * layers.row_bytes(tensor)
        for o in layer.operands
        if o.tensor == tensor
    ]
    return min(begins, default=layers.tensor(tensor).size)


@dataclass
class Lives:
    """From which layer to which a complete tensor is live, by their indices: -1 before all, their count after all."""

    flow: Flow
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layers = self.flow.layers
        count = len(layers.listed)
        for t in layers.graph.tensors:
            if t.kind is Kind.INPUT and layers.held(t.id) in self.flow.readers:
                self.first[t.id] = -1
        self.first |= self.flow.maker
        for tensor, first in self.first.items():
            self.last[tensor] = max([first, *self.flow.readers.get(tensor, [])])
        for t in layers.graph.tensors:
            if t.kind is Kind.OUTPUT:
                self.last[layers.held(t.id)] = count
                self.first.setdefault(layers.held(t.id), -1)

    def at(self, begin: int, end: int) -> list[int]:
        """Tensors that are live while layers ``[begin, end)`` run."""
        return [t for t, first in self.first.items() if first < end and self.last[t] >= begin]


@dataclass(frozen=True)
class Pair:
    """A result that may lie over an operand, and the bytes by which it begins below it at least."""

    operand: int
    result: int
    distance: int


def pairs(flow: Flow, lives: Lives, part: Segment) -> Iterator[Pair]:
    """Results of a segment that may lie over an operand of it."""
    listed = flow.layers.listed
    here = [k for k in range(part.begin, part.end) if listed[k].result not in part.buffers]
    made = [listed[k].result for k in here if flow.maker.get(listed[k].result) == k]
    read = dict.fromkeys(o.tensor for k in range(part.begin, part.end) for o in listed[k].operands)
    for operand in read:
        if lives.first[operand] < part.begin <= lives.last[operand] < part.end:
            for result in made:
                least = distance(flow, part, operand, result)
                if least is not None:
                    yield Pair(operand, result, least)


def scratch_of(flow: Flow, part: Segment) -> int:
    """Bytes of the library's scratch in a segment: of its calls that with the most."""
    layers, listed = flow.layers, flow.layers.listed
    asked = {(c.layer, c.end - c.first, c.first == 0, c.end == listed[c.layer].rows): c for c in part.calls}
    return max((layers.scratch(listed[c.layer], c.first, c.end) for c in asked.values()), default=0)


def sums_of(flow: Flow, part: Segment) -> dict[int, int]:
    """Bytes of the accumulators of a segment, by the tensor that is summed up to."""
    listed = flow.layers.listed
    return {
        layer.result: layer.sums_bytes
        for c in part.calls
        if (layer := listed[c.layer]).sums_bytes and (layer.op.type == "MEAN" or c.end - c.first < layer.rows)
    }


def bytes_of(flow: Flow, lives: Lives, part: Segment) -> int:
    """What a segment needs, with all that is live through it: the sum, less what results share with operands."""
    layers = flow.layers
    total = sum(
        round_up(layers.tensor(t).size, ALIGNMENT) for t in lives.at(part.begin, part.end) if t not in part.buffers
    )
    total += sum(round_up(rows * layers.row_bytes(t), ALIGNMENT) for t, rows in part.buffers.items())
    total += round_up(scratch_of(flow, part), ALIGNMENT) + sum(sums_of(flow, part).values())
    taken: set[int] = set()
    for pair in sorted(pairs(flow, lives, part), key=lambda p: -_shared(flow, p)):
        if not taken & {pair.operand, pair.result}:
            taken |= {pair.operand, pair.result}
            total -= _shared(flow, pair)
    return total


def _shared(flow: Flow, pair: Pair) -> int:
    """Bytes that a pair shares at most."""
    operand, result = (flow.layers.tensor(t).size for t in (pair.operand, pair.result))
    return min(result - pair.distance, operand)


@dataclass(frozen=True)
class Arena:
    """Addresses of all buffers, bytes of the arena, and the most that a segment needs (`bytes_of`)."""

    at: Mapping[Key, int]
    size: int
    bound: int
    buffers: tuple[Buffer, ...]


def buffers_of(flow: Flow, lives: Lives, parts: Sequence[Segment]) -> list[Buffer]:
    """All buffers of a model's segments."""
    layers, listed = flow.layers, flow.layers.listed
    result: list[Buffer] = []
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    at = 0
    for part in parts:
        for call in part.calls:
            starts.setdefault(call.layer, at)
            ends[call.layer] = at
            at += 1
        size = scratch_of(flow, part)
        result += [Buffer(("scratch", part.begin), size, at - len(part.calls), at - 1)] if size else []
        for tensor, bytes_ in sums_of(flow, part).items():
            result.append(Buffer(("sums", tensor), bytes_, starts[flow.maker[tensor]], ends[flow.maker[tensor]]))
    inner = {t: rows for part in parts for t, rows in part.buffers.items()}
    starts |= {-1: 0, len(listed): at}
    ends |= {-1: 0, len(listed): at}
    for tensor, first in lives.first.items():
        last = lives.last[tensor]
        span = (starts[first], max([ends[last], ends[first], *(ends[k] for k in flow.readers.get(tensor, []))]))
        if tensor in inner:
            result.append(Buffer(("rows", tensor), inner[tensor] * layers.row_bytes(tensor), *span))
        else:
            result.append(Buffer(("tensor", tensor), layers.tensor(tensor).size, *span))
    return result


def place(flow: Flow, lives: Lives, parts: Sequence[Segment], enough: int = 0) -> Arena:
    """Addresses: the first that fits, buffers in several orders, the lowest arena of all or one of `enough` bytes."""
    buffers = buffers_of(flow, lives, parts)
    shared: dict[tuple[Key, Key], int] = {
        (("tensor", p.operand), ("tensor", p.result)): p.distance for part in parts for p in pairs(flow, lives, part)
    }
    bound = max((bytes_of(flow, lives, part) for part in parts), default=0)
    near = {b.key: [c.key for c in buffers if c.first <= b.last and b.first <= c.last and c is not b] for b in buffers}
    sizes = {b.key: b.size for b in buffers}
    orders = [
        sorted(buffers, key=lambda b: -b.size),
        sorted(buffers, key=lambda b: (b.first - b.last, -b.size)),
        sorted(buffers, key=lambda b: -b.size * (b.last - b.first + 1)),
        sorted(buffers, key=lambda b: (b.first, -b.size)),
    ]
    rng = random.Random(0)
    best: tuple[int, dict[Key, int]] | None = None
    order = orders[0]
    for k in range(len(orders) + _SHUFFLES):
        trial = orders[k] if k < len(orders) else _swapped(order, rng)
        at, size = _first_fit(trial, near, sizes, shared)
        if best is None or size <= best[0]:
            best, order = (size, at), trial
        if best[0] <= max(bound, enough):
            break
    assert best is not None
    return Arena(best[1], best[0], bound, tuple(buffers))


def _swapped(order: Sequence[Buffer], rng: random.Random) -> list[Buffer]:
    """The order with one buffer earlier."""
    result = list(order)
    taken = result.pop(rng.randrange(len(result)))
    result.insert(rng.randrange(len(result) + 1), taken)
    return result


def _first_fit(
    order: Sequence[Buffer],
    near: Mapping[Key, Sequence[Key]],
    sizes: Mapping[Key, int],
    shared: Mapping[tuple[Key, Key], int],
) -> tuple[dict[Key, int], int]:
    """Each buffer at the lowest address that fits, and the end of the highest. `near`: buffers live at one time."""
    at: dict[Key, int] = {}
    for buffer in order:
        apart: list[tuple[int, int]] = []
        for other in near[buffer.key]:
            begin = at.get(other)
            if begin is not None:
                low, high = begin - buffer.size, begin + sizes[other]
                if (over := shared.get((buffer.key, other))) is not None:
                    high = min(high, begin + over)  # `other` is a result that may lie over this operand
                elif (under := shared.get((other, buffer.key))) is not None:
                    low = max(low, begin - under)
                apart.append((low, high))
        at[buffer.key] = _lowest(apart)
    return at, round_up(max((begin + sizes[key] for key, begin in at.items()), default=0), ALIGNMENT)


def _lowest(apart: Sequence[tuple[int, int]]) -> int:
    """The lowest aligned address in none of the open intervals."""
    address = 0
    moved = True
    while moved:
        moved = False
        for low, high in apart:
            if low < address < high:
                address, moved = round_up(high, ALIGNMENT), True
    return address


def height(arena: Arena, calls: range) -> int:
    """The end of the highest buffer that is live in some call of a segment."""
    ends = [arena.at[b.key] + b.size for b in arena.buffers if b.first < calls.stop and b.last >= calls.start]
    return round_up(max(ends, default=0), ALIGNMENT)
