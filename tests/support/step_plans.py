"""An oracle of training steps whose ops run in parts and run again: pairs of a peak and a time that some plan has.
Nothing here is lowtide's.

A net's ops say with labels, as in einsum, which rows they need. A plan has regions, each in parts along one word of
each of its ops: the outer plan holds what a region reads and what leaves it whole while all of its parts run, beside
the bytes of the largest part, in which ops may run again, as may what stands around it. Rows that do not lie together
are copied, results of rows are copied to their place, sums are added to what the first part made.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import prod
from random import Random
from typing import NamedTuple

MOST_POINTS = 8
"""Pairs of bytes and seconds that are looked for in one decision."""


@dataclass(frozen=True)
class StepOp:
    """An op: its type, what it reads and makes, a word for each dimension of these, and its operations."""

    kind: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]
    flops: int

    @property
    def over(self) -> bool:
        """Whether an element is computed from those in its place, so that the result may lie over an operand."""
        return self.kind in ("Relu", "Add", "Mul") and len(self.makes) == 1


@dataclass(frozen=True)
class StepNet:
    """Shapes of tensors of four bytes an element, which of them are there at the start and at the end, and the ops."""

    shapes: tuple[tuple[int, ...], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[StepOp, ...]

    def size(self, tensor: int) -> int:
        """Bytes."""
        return 4 * prod(self.shapes[tensor])


@dataclass(frozen=True)
class Speed:
    """Seconds of an op: a launch, operations and bytes, the longer of which counts if it is `overlapped`."""

    launch: float
    flop: float
    byte: float
    overlapped: bool

    def seconds(self, flops: float, size: float) -> float:
        """Of so many operations and bytes."""
        computing, moving = flops * self.flop, size * self.byte
        return self.launch + (max(computing, moving) if self.overlapped else computing + moving)


Speeds = Mapping[str, Speed]
"""By type; `other` for all that are not named, `slice`, `join` and `merge` of what stands between parts."""


class Point(NamedTuple):
    """What a plan needs and takes, and what it is."""

    peak: int
    seconds: float
    text: str


@dataclass(frozen=True)
class Unit:
    """What runs in one go: tensors as bits, pairs of bytes beside them and seconds, and operands that it may lie over;
    `told`: a bit of its own, set once what leaves the part has left."""

    name: str
    reads: int
    makes: int
    ways: tuple[tuple[int, float], ...]
    over: tuple[int, ...]
    told: int = 0


@dataclass(frozen=True)
class Problem:
    """Units on tensors of so many bytes; `start` is there, `end` has to be, with all that is `told`."""

    size: tuple[int, ...]
    units: tuple[Unit, ...]
    start: int
    end: int
    told: int

    def bytes_of(self, live: int) -> int:
        """Of a set of tensors."""
        return sum(s for t, s in enumerate(self.size) if live >> t & 1)

    def fastest(self, budget: int) -> Point | None:
        """The least time of all plans of at most so many bytes, and of those the least bytes."""
        begin = self.bytes_of(self.start)
        if begin > budget:
            return None
        best = {(self.start, 0): (0.0, begin)}
        heap: list[tuple[float, int, int, int]] = [(0.0, begin, self.start, 0)]
        came: dict[tuple[int, int], tuple[tuple[int, int], str]] = {}
        while heap:
            seconds, peak, live, told = heapq.heappop(heap)
            if (seconds, peak) > best[live, told]:
                continue
            if live & self.end == self.end and told == self.told:
                return Point(peak, seconds, _text(came, (live, told)))
            for state, more, need, name in self._next(live, told, budget):
                label = (seconds + more, max(peak, need))
                if state not in best or label < best[state]:
                    best[state], came[state] = label, ((live, told), name)
                    heapq.heappush(heap, (*label, *state))
        return None

    def _next(self, live: int, told: int, budget: int) -> Iterator[tuple[tuple[int, int], float, int, str]]:
        for t in range(len(self.size)):
            if live >> t & 1:
                yield (live & ~(1 << t), told), 0.0, 0, ""
        for unit in self.units:
            if unit.reads & ~live or unit.makes & live:
                continue
            after = live | unit.makes
            for there in (after, *(after & ~(1 << t) for t in unit.over)):
                held = self.bytes_of(there)
                for beside, seconds in unit.ways:
                    if held + beside <= budget:
                        yield (there, told | unit.told), seconds, held + beside, unit.name

    def points(self) -> list[Point]:
        """Plans none of which is better in both, the fastest first."""
        found: list[Point] = []
        budget = sum(self.size) + sum(max(b for b, _ in unit.ways) for unit in self.units)
        while len(found) < MOST_POINTS and (point := self.fastest(budget)) is not None:
            found.append(point)
            budget = point.peak - 1
        return found


def _text(came: Mapping[tuple[int, int], tuple[tuple[int, int], str]], state: tuple[int, int]) -> str:
    names: list[str] = []
    while state in came:
        state, name = came[state]
        names += [name] if name else []
    return " ".join(reversed(names))


class Cut(NamedTuple):
    """A region: of each of its ops the word that is cut, and the rows at which parts end."""

    words: tuple[tuple[int, str], ...]
    ends: tuple[int, ...]


class Impossible(Exception):
    """A part would need what it does not have."""


class StepOracle:
    """Plans of a step.

    Parameters
    ----------
    in_place
        Whether results may lie over operands that die; over inputs of the step, too, if `inputs_over`.
    """

    def __init__(self, net: StepNet, speeds: Speeds, *, in_place: bool, inputs_over: bool) -> None:
        self.net, self.speeds, self.in_place, self.inputs_over = net, speeds, in_place, inputs_over
        self.maker = {t: v for v, op in enumerate(net.ops) for t in op.makes}
        self.readers = {t: {v for v, op in enumerate(net.ops) if t in op.reads} for t in range(len(net.shapes))}

    def words(self, v: int) -> dict[str, int]:
        """Words along which an op can be cut, and the rows of each."""
        op, found = self.net.ops[v], dict[str, int]()
        for t, words in zip((*op.reads, *op.makes), op.labels, strict=True):
            for word, rows in zip(words, self.net.shapes[t], strict=True):
                if word != "." and rows > 1:
                    found[word] = rows
        return found

    def regions(self, random: Random, most: int) -> list[Cut]:
        """Some of all regions that can run in parts, in parts that end anywhere; all if there are no more."""
        able: list[tuple[tuple[int, str], ...]] = []
        of = [self.words(v) for v in range(len(self.net.ops))]
        for rows in sorted({r for words in of for r in words.values()}):
            along = [[None, *(w for w, r in words.items() if r == rows)] for words in of]
            for choice in product(*along):
                chosen = tuple((v, w) for v, w in enumerate(choice) if w is not None)
                if chosen and self._is_region(Cut(chosen, (1, rows))):
                    able.append(chosen)
        if len(able) > most:
            able = sorted(random.sample(able, most // 2) + sorted(able, key=len)[-(most - most // 2) :])
        found: list[Cut] = []
        for chosen in dict.fromkeys(able):
            rows = of[chosen[0][0]][chosen[0][1]]
            for parts in {rows, random.randint(2, rows)}:
                ends = tuple(rows * k // parts for k in range(1, parts + 1))
                if random.random() < 0.25:
                    ends = (*sorted(random.sample(range(1, rows), parts - 1)), rows)
                found.append(Cut(chosen, ends))
        return found

    def _is_region(self, cut: Cut) -> bool:
        try:
            self._dims(cut)
        except Impossible:
            return False
        return True

    def _dims(self, cut: Cut) -> tuple[dict[int, int | None], set[tuple[int, int | None]]]:
        """Of each tensor made in a region the dimension of its rows, None if it is a sum; and likewise what is read
        from outside, None if whole. Raises `Impossible`."""
        words = dict(cut.words)
        made: dict[int, int | None] = {}
        read: set[tuple[int, int | None]] = set()
        for v, word in cut.words:
            op = self.net.ops[v]
            for t, at in zip(op.reads, op.labels, strict=False):
                dims = [d for d, w in enumerate(at) if w == word and self.net.shapes[t][d] > 1]
                dim = dims[0] if dims else None
                if len(dims) > 1 or (t in made and (made[t] is None or made[t] != dim)):
                    raise Impossible
                if t not in made:
                    read.add((t, dim))
            for t, at in zip(op.makes, op.labels[len(op.reads) :], strict=True):
                dims = [d for d, w in enumerate(at) if w == word]
                if len(dims) > 1 or (dims and self.net.shapes[t][dims[0]] == 1):
                    raise Impossible
                made[t] = dims[0] if dims else None
        outside: set[int] = set()  # behind the region, not in it
        for v, op in enumerate(self.net.ops):
            before = {self.maker[t] for t in op.reads if t in self.maker}
            if v in words and before & outside:
                raise Impossible
            if v not in words and before & (outside | words.keys()):
                outside.add(v)
        return made, read

    def _leaving(self, cut: Cut, made: Mapping[int, int | None]) -> list[int]:
        inside = {v for v, _ in cut.words}
        return [t for t in made if t in self.net.outputs or self.readers[t] - inside]

    def body(self, cut: Cut) -> Problem:
        """The largest part, with the seconds of all parts."""
        net, rows = self.net, cut.ends[-1]
        made, read = self._dims(cut)
        leaving = self._leaving(cut, made)
        parts = [b - a for a, b in pairwise((0, *cut.ends))]
        largest = max(parts)

        def part(t: int, dim: int | None, of: int) -> int:
            return net.size(t) if dim is None else net.size(t) * of // rows

        size, units, place = list[int](), list[Unit](), dict[tuple[int, int | None], int]()
        for t, dim in made.items():
            place[t, dim] = len(size)
            size.append(part(t, dim, largest))
        for t, dim in sorted(read, key=str):
            if dim is not None and prod(net.shapes[t][:dim]) > 1:  # its rows do not lie together
                place[t, dim] = len(size)
                seconds = sum(self._speed("slice").seconds(0, 2 * net.size(t) * k // rows) for k in parts)
                units.append(Unit(f"rows({t})", 0, 1 << len(size), ((0, seconds),), ()))
                size.append(part(t, dim, largest))
        told = 0
        for v, word in cut.words:
            op = net.ops[v]
            dims = [
                next((d for d, w in enumerate(at) if w == word and (net.shapes[t][d] > 1)), None)
                for t, at in zip((*op.reads, *op.makes), op.labels, strict=True)
            ]
            both = list(zip((*op.reads, *op.makes), dims, strict=True))
            shared = sum(net.size(t) for t, d in both if d is None)
            own = sum(net.size(t) for t, d in both if d is not None)
            speed = self._speed(op.kind)
            seconds = sum(speed.seconds(op.flops * k / rows, shared + own * k // rows) for k in parts)
            for t in op.makes:
                if t in leaving and made[t] is not None:
                    seconds += sum(self._speed("join").seconds(0, 2 * net.size(t) * k // rows) for k in parts)
                elif t in leaving:
                    seconds += (len(parts) - 1) * self._speed("merge").seconds(0, 3 * net.size(t))
            reads = [place[t, d] for t, d in both[: len(op.reads)] if (t, d) in place]
            makes = [place[t, d] for t, d in both[len(op.reads) :]]
            says = 1 << v if any(t in leaving for t in op.makes) else 0
            over = tuple({p for p in reads if size[p] == size[makes[0]]}) if op.over and self.in_place else ()
            units.append(Unit(str(v), _bits(reads), _bits(makes), ((0, seconds),), over, says))
            told |= says
        return Problem(tuple(size), tuple(units), 0, 0, told)

    def _speed(self, kind: str) -> Speed:
        return self.speeds.get(kind, self.speeds["other"])

    def around(self, cuts: Sequence[Cut], bodies: Mapping[Cut, list[Point]]) -> Problem:
        """The step with each region as one op; `bodies`: what its parts may need and take."""
        net, inside = self.net, {v for cut in cuts for v, _ in cut.words}
        units: list[Unit] = []
        for v, op in enumerate(net.ops):
            if v in inside:
                continue
            size = sum(net.size(t) for t in (*op.reads, *op.makes))
            seconds = self._speed(op.kind).seconds(op.flops, size)
            over = [
                t
                for t in set(op.reads)
                if op.over
                and self.in_place
                and net.shapes[t] == net.shapes[op.makes[0]]
                and (self.inputs_over or t not in net.inputs)
            ]
            units.append(Unit(str(v), _bits(op.reads), _bits(op.makes), ((0, seconds),), tuple(over)))
        for cut in cuts:
            made, read = self._dims(cut)
            name = f"[{', '.join(f'{v} by {w}' for v, w in cut.words)} to {cut.ends}]"
            ways = tuple((p.peak, p.seconds) for p in bodies[cut])
            units.append(Unit(name, _bits(t for t, _ in read), _bits(self._leaving(cut, made)), ways, ()))
        sizes = tuple(net.size(t) for t in range(len(net.shapes)))
        used = [t for t in net.inputs if self.readers[t]]
        return Problem(sizes, tuple(units), _bits(used), _bits(net.outputs), 0)

    def front(self, random: Random, most: int) -> list[Point]:
        """Plans none of which is better in both, of the step whole, in some regions, and in some pairs of them."""
        cuts, bodies, found = self.regions(random, most), dict[Cut, list[Point]](), list[Point]()
        for cut in cuts:
            bodies[cut] = self.body(cut).points()
        apart = [
            pair
            for pair in combinations(cuts, 2)
            if {v for v, _ in pair[0].words}.isdisjoint(v for v, _ in pair[1].words)
        ]
        several = random.sample(apart, min(len(apart), most // 3))
        for chosen in ((), *((cut,) for cut in cuts), *several):
            found += self.around(chosen, bodies).points()
        return nondominated(found)


def nondominated(points: Sequence[Point]) -> list[Point]:
    """Those that no other needs less than in both, the fastest first."""
    kept: list[Point] = []
    for point in sorted(points, key=lambda p: (p.seconds, p.peak)):
        if not kept or point.peak < kept[-1].peak:
            kept.append(point)
    return kept


def _bits(tensors: object) -> int:
    found = 0
    for t in tensors:  # type: ignore[attr-defined]
        found |= 1 << t
    return found
