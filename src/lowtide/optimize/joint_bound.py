"""Lower bound on plans with tiles and recomputation, by minimum cuts at single ops (`docs/proofs.md`, section 18).

When op v first runs, untiled or in the largest of n tiles of its region, every other op has a state. The cut is the
minimum of bytes at a price, plus time, over all states::

    recomputed, untiled > held, untiled > held, tiled > recomputed, tiled        c, 0, e(n), 2 e(n) + c units of time

A tensor is materialised if it is made before v and read untiled afterwards, or enters or leaves the region. Inside of
the region a tile of it is live. e(n) is the least extra time of n tiles of an op: launches, and what each tile reads
and writes untiled. For all n at once, a range of n has at least the time of its fewest tiles and the bytes of its most.
The range with the weakest bound is halved until the bound is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import ceil

from lowtide import _core
from lowtide.analyse.model import MemoryModel
from lowtide.cost.file import GLUE, OTHER, CostFamily
from lowtide.cost.labelled import Families
from lowtide.fission_plan import PartsCut
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Access
from lowtide.target import Target
from lowtide.transform.fission import NoFission, access_of, dim_along

_MERGE = GLUE[2]
_NEVER = 2**60
"""More than any cut."""

_UNITS, _Q = 2**36, 2**10  # units of all ops together, about; and the weight of a unit in a cut, relative to a byte

_STEPS, _SPAN = (4, 1, 0.25), 12  # by which powers of two prices are tried, and as far as which

SOURCE, SINK = 0, 1


def least_of_parts(family: CostFamily, flops: float, own: int, shared: int, parts: int) -> float:
    """Seconds that a given number of parts of an op take at least, whatever their rows. `own`, `shared`: bytes that lie
    along the axis, each in one part, and those that each part reads or makes."""
    size = own + parts * shared
    for table, work in ((family.by_flops, flops), (family.by_bytes, size)):
        if table:
            rates = [seconds / amount for amount, seconds in table if amount > 0]
            return max(parts * min(seconds for _, seconds in table), work * min(rates, default=0.0))
    computing, moving = flops * family.seconds_per_flop, size * family.seconds_per_byte
    together = max(computing, moving) if family.overlapped else computing + moving
    return parts * family.launch_seconds + together


@dataclass(frozen=True)
class _Axis:
    """An axis along which an op can be tiled: its rows, bytes as in `least_of_parts`, sizes of sums, tiled tensors."""

    rows: int
    own: int
    shared: int
    sums: tuple[int, ...]
    cut: frozenset[int]


def _axes(op: Op, access: Access, sizes: Mapping[int, int], leaving: Container[int]) -> Iterator[_Axis]:
    """`leaving`: tensors that are read, or results."""
    for axis, rows in enumerate(access.sizes):
        try:
            reads = [
                (t, dim_along(op, indices or (), axis) is not None)
                for t, indices in zip(op.inputs, access.inputs, strict=True)
            ]
        except NoFission:
            continue
        made = [(t, axis in along) for t, along in zip(op.outputs, access.outputs, strict=True)]
        added = [t for t, along in made if not along]
        if rows < 2 or (added and (access.merge != "sum" or access.exactness(axis) == "never")):
            continue
        shared = sum(sizes[t] for t, along in (*reads, *made) if not along)
        own = sum(sizes[t] for t, along in (*reads, *made) if along)
        own -= own % rows  # a part's bytes are rounded down
        sums = tuple([sizes[t] for t in added if t in leaving])
        yield _Axis(rows, own, shared, sums, frozenset(t for t, along in (*reads, *made) if along))


def _written_over(graph: Graph, target: Target) -> list[set[int]]:
    """For each op, the tensors whose memory its result may reuse in some plan. Sizes, other readers and declared
    overwrites do not restrict them, since tiles and recomputed ops differ in these."""
    alike = [Tensor(t.id, 1, Kind.ACTIVATION if t.id in graph.producer else t.kind) for t in graph.tensors]
    silent = [replace(op, overwrites=None) for op in graph.ops]
    loose = replace(graph, tensors=tuple(alike), ops=tuple(silent), file=None, file_order=())
    rules = replace(target, in_place="any") if target.in_place == "first" else target
    over: list[set[int]] = []
    for op, quiet in zip(graph.ops, silent, strict=True):
        if target.rule or target.overlap != "never":
            over.append(set(op.inputs))
        else:
            over.append({*(op.overwrites or ()), *rules.in_place_inputs(loose, quiet)})
            source = rules.view_source(loose, quiet)
            over[-1] |= set() if source is None else {source}
    return over


class JointProblem:
    """A step, priced by families, for bounds on plans with tiles and recomputation. `scale`: units of time in a second.
    `once`: units that all ops take at least."""

    def __init__(self, model: MemoryModel, families: Families) -> None:
        graph = self.graph = model.graph
        self.model, self.families = model, families
        sizes = self._sizes = {t.id: t.size for t in graph.tensors}
        self._over = _written_over(graph, model.target)
        leaving = {*graph.consumers, *(t.id for t in graph.tensors if t.kind is Kind.OUTPUT)}
        self.axes: list[list[_Axis]] = []
        for op in graph.ops:
            try:
                self.axes.append(list(_axes(op, access_of(graph, op), sizes, leaving)))
            except NoFission:
                self.axes.append([])
        total = sum(op.cost or 0.0 for op in graph.ops)
        self.scale = _UNITS / total if total > 0 else 1.0
        self._least = [
            min([op.cost or 0.0, *(self._seconds(u, axis, 2) for axis in self.axes[u])])
            for u, op in enumerate(graph.ops)
        ]
        self.least = [int(seconds * self.scale) for seconds in self._least]
        self.once = sum(self.least)
        self.values = [s for s in model.storages if len(s.tensors) == 1 and s.size]
        self.maker = [graph.index_of[graph.producer[s.tensors[0]]] if s.tensors[0] in graph.producer else -1
                      for s in self.values]  # fmt: skip
        self.readers = [sorted({graph.index_of[r] for r in graph.consumers.get(s.tensors[0], ())}) for s in self.values]

    def _seconds(self, op: int, axis: _Axis, parts: int) -> float:
        known = self.graph.ops[op]
        family = self.families.get(known.type, self.families[OTHER])
        merge = self.families[_MERGE]
        merging = sum(merge.seconds(0, 3 * size) for size in axis.sums)
        return least_of_parts(family, known.flops or 0, axis.own, axis.shared, parts) + (parts - 1) * merging

    def extra(self, op: int, rows: int, parts: int) -> int | None:
        """Units that a given number of parts or more take beyond the op's least; None if it has no axis of these
        rows."""
        seconds = [self._seconds(op, axis, parts) for axis in self.axes[op] if axis.rows == rows]
        return int(max(0.0, min(seconds) - self._least[op]) * self.scale) if seconds else None

    @cache  # noqa: B019 - lives as long as the problem
    def cut_along(self, op: int, rows: int) -> frozenset[int]:
        """Tensors that are cut along some axis of these rows."""
        return frozenset[int]().union(*(axis.cut for axis in self.axes[op] if axis.rows == rows))

    def saving(self, op: int) -> int:
        """Bytes that an in-place write may save at an untiled op."""
        free = self.model.target.overwrite_inputs
        return max((self._sizes[t] for t in self._over[op] if free or t in self.graph.producer), default=0)

    def network(self, op: int, rows: int, fewest: int, most: int) -> _Network:
        """States of all ops when this op first runs in a given number of tiles of a given number of rows; one tile is
        the untiled op."""
        return _Network(self, op, rows, fewest, most)


class _Network:
    """Arcs as (tail, head, units, bytes). The source's side has the recomputed, materialised or held ops, as the arcs
    say."""

    def __init__(self, problem: JointProblem, v: int, rows: int, fewest: int, most: int) -> None:
        self.problem, self.v, self.rows, self.most = problem, v, rows, most
        self.arcs: list[tuple[int, int, int, int]] = []
        self.nodes = 2
        graph, count = problem.graph, len(problem.graph.ops)
        self._find_sides()
        self.extra = [problem.extra(u, rows, fewest) if fewest > 1 else None for u in range(count)]
        self.recomputed, self.materialised, self.kept = [SOURCE] * count, [SOURCE] * count, [SOURCE] * count
        waits = [SOURCE] * count  # has not run yet
        for u in range(count):
            waits[u] = self._add_op(u)
        for u in range(count):
            for w in graph.predecessors[u]:
                if self.side[u] == self.side[w] == 0:
                    self._arc(waits[w], waits[u], _NEVER)
                self._add_convex(w, u)
        for x in range(len(problem.values)):
            self._add_value(x)
        if fewest == 1:
            self._arc(SOURCE, SINK, 0, problem.model.workspace[v] - problem.saving(v))
        else:
            self._arc(SOURCE, SINK, 0, -problem.saving(v) // most)

    def _find_sides(self) -> None:
        """-1: runs before v; 1: does not; 0: may."""
        before, v = self.problem.graph.predecessors, self.v
        self.side = [0] * len(before)
        self.side[v] = 1
        above = {v}
        for u in range(v, -1, -1):
            if u in above:
                above.update(before[u])
        for u in range(len(before)):
            if u != v and u in above:
                self.side[u] = -1
            elif any(self.side[w] == 1 for w in before[u]):
                self.side[u] = 1

    def _node(self) -> int:
        self.nodes += 1
        return self.nodes - 1

    def _arc(self, tail: int, head: int, units: int, size: int = 0) -> None:
        if (units or size) and tail != head and tail != SINK and head != SOURCE:
            self.arcs.append((tail, head, units, size))

    def _add_op(self, u: int) -> int:
        """Add the states of an op; returns the node for "has not run yet"."""
        extra, least = self.extra[u], self.problem.least[u]
        if u == self.v:
            if extra is not None:
                self.materialised[u] = self.kept[u] = SINK
                self._arc(SOURCE, SINK, extra)
            return SOURCE
        if self.side[u] == 1:
            if extra is not None:
                self.materialised[u] = self.kept[u] = self._node()
                self._arc(SOURCE, self.materialised[u], extra)
            return SOURCE
        waits = SINK if self.side[u] == -1 else self._node()
        recomputed = self.recomputed[u] = self._node()
        self._arc(recomputed, waits, least)
        self._arc(waits, recomputed, _NEVER)
        if extra is None:
            return waits
        materialised = self.materialised[u] = self.kept[u] = self._node()
        self._arc(recomputed, materialised, _NEVER)
        if self.side[u] == 0:
            self._arc(SOURCE, materialised, extra)
            return waits
        kept = self.kept[u] = self._node()
        self._arc(materialised, kept, _NEVER)
        self._arc(kept, materialised, extra)
        self._arc(SOURCE, kept, 2 * extra + least)
        return waits

    def _add_convex(self, w: int, u: int) -> None:
        """An op on a path between two ops of the region is in the region: op u needs w."""
        if self.extra[self.v] is None:
            return
        if self.side[w] == -1 and (self.side[u] == -1 or u == self.v):
            self._arc(self.materialised[u], self.materialised[w], _NEVER)
        elif self.side[w] == self.side[u] == 1:
            self._arc(self.materialised[w], self.materialised[u], _NEVER)

    def _add_value(self, x: int) -> None:
        problem, v = self.problem, self.v
        value, m, readers = problem.values[x], problem.maker[x], problem.readers[x]
        tensor, users = value.tensors[0], [*([m] if m >= 0 else []), *readers]
        in_parts = (
            self.extra[v] is not None
            and m >= 0
            and not value.at_start
            and not value.at_end
            and all(tensor in problem.cut_along(u, self.rows) for u in users)
        )
        small = value.size // self.most if in_parts and value.size % self.rows == 0 else 0
        rest = value.size - small
        behind = [r for r in readers if self.side[r] == 1 and r != v]
        if v in users:
            self._arc(SOURCE, SINK, 0, small)
            self._arc(
                SOURCE if not in_parts or m == v else self.materialised[m], SINK, 0, 0 if m == v and in_parts else rest
            )
            if in_parts:
                self._leaves_region(behind, SINK if m == v else self.materialised[m], rest)
        elif m >= 0 and self.side[m] == 1:
            return
        elif in_parts and behind:
            there = self._node()
            self._arc(there, self.recomputed[m], _NEVER)
            for r in behind:
                self._arc(there, self.materialised[r], _NEVER)
            self._arc(self.materialised[m], there, 0, value.size)
            self._leaves_region(behind, self.materialised[m], rest)
            self._arc(self.kept[m], self.materialised[m], 0, small)
        elif behind or value.at_end:
            self._arc(SOURCE, SINK if m < 0 else self.recomputed[m], 0, value.size)
        else:
            self._for_repeats(m, readers, small, rest)

    def _leaves_region(self, behind: Sequence[int], head: int, size: int) -> None:
        """A tensor that leaves the region, as one of its readers is not in it."""
        if behind:
            any_untiled = self._node()
            for r in behind:
                self._arc(self.materialised[r], any_untiled, _NEVER)
            self._arc(any_untiled, head, 0, size)

    def _for_repeats(self, m: int, readers: Sequence[int], small: int, rest: int) -> None:
        """A tensor that only recomputed ops, or ops that may wait, read after v."""
        read = self._node()
        for r in readers:
            self._arc(self.recomputed[r], read, _NEVER)
        self._arc(read, SINK if m < 0 else self.recomputed[m], 0, rest)
        repeated = [r for r in readers if self.side[r] == -1 and self.kept[r] != self.materialised[r]]
        if small and self.side[m] == -1 and repeated:
            part = self._node()
            self._arc(self.kept[m], part, 0, small)
            for r in repeated:
                self._arc(part, self.kept[r], _NEVER)

    def flow(self, price: int) -> int:
        """The least cut with a byte at this price, a unit at `_Q`."""
        constant, rows = 0, list[tuple[int, int, int]]()
        for tail, head, units, size in self.arcs:
            amount = _NEVER if units == _NEVER else min(_NEVER, _Q * units + price * size)
            if tail == SOURCE and head == SINK:
                constant += amount
            else:
                rows.append((tail, head, amount))
        return constant + _core.maximum_flow(self.nodes, rows)


@dataclass(frozen=True)
class JointBound:
    """What is shown of all plans, and by which cuts at an op: bytes, or units of time in all."""

    value: int
    cuts: tuple[PartsCut, ...]


Shown = Callable[[int, int], int]  # what a flow at a price shows


def within_units(problem: JointProblem, seconds: float) -> Shown:
    """Bytes that plans of a given number of seconds need at least."""
    room = ceil(seconds * (1 + 1e-9) * problem.scale) - problem.once
    return lambda flow, price: -(-(flow - _Q * room) // price)


def within_bytes(problem: JointProblem, budget: int) -> Shown:
    """Units that plans within a budget take at least."""
    return lambda flow, price: problem.once + max(0, -(-(flow - price * budget) // _Q))


def joint_bound(
    problem: JointProblem, ops: Sequence[int], shown: Shown, over: Callable[[], bool] = lambda: False
) -> JointBound:
    """The most that is shown at one of some ops, the first in any case. `ops`: positions, those that promise most
    first. `shown`: `within_units` or `within_bytes`. `over`: whether to look no further."""
    best = _at(problem, ops[0], shown, over, 0)
    for op in ops[1:]:
        if over():
            break
        best = max(best, _at(problem, op, shown, over, best.value), key=lambda bound: bound.value)
    return best


def _at(problem: JointProblem, op: int, shown: Shown, over: Callable[[], bool], beat: int) -> JointBound:
    """What is shown at an op in any number of parts of any of its rows; less where it does not show more than `beat`
    anyway."""
    base = max(1.0, _UNITS * _Q / max(1, sum(value.size for value in problem.values)))
    ranges = [_shown(problem, op, (0, 1, 1), shown, base, 0.0)]
    for rows in sorted({axis.rows for axis in problem.axes[op]}):
        ranges.append(_shown(problem, op, (rows, 2, rows), shown, base, 0.0))
    while True:
        low = min(ranges, key=lambda one: (one.value, one.cut.rows, one.cut.fewest))
        lost = any(one.value <= beat and one.cut.fewest == one.cut.most for one in ranges)
        fewest, most = low.cut.fewest, low.cut.most
        if fewest == most or lost or over():
            return JointBound(low.value, tuple(one.cut for one in ranges))
        ranges.remove(low)
        middle = min(most - 1, max(fewest, int((fewest * most) ** 0.5)))
        for ends in ((fewest, middle), (middle + 1, most)):
            ranges.append(_shown(problem, op, (low.cut.rows, *ends), shown, base, low.exponent))


@dataclass(frozen=True)
class _Range:
    value: int
    cut: PartsCut
    exponent: float


def _shown(
    problem: JointProblem, op: int, parts: tuple[int, int, int], shown: Shown, base: float, near: float
) -> _Range:
    """The best price for a range of numbers of parts, looked for from one that was best for more."""
    network = problem.network(op, *parts)
    tried: dict[float, tuple[int, int]] = {}

    def at(exponent: float) -> int:
        if exponent not in tried:
            price = max(1, int(base * 2.0**exponent))
            tried[exponent] = shown(network.flow(price), price), price
        return tried[exponent][0]

    best = near
    for step in _STEPS:
        while True:
            higher = [e for e in (best - step, best + step) if abs(e) <= _SPAN and at(e) > at(best)]
            if not higher:
                break
            best = max(higher, key=at)
    value, price = max(tried.values())
    ends = PartsCut(problem.graph.ops[op].id, parts[0], parts[1], parts[2], (price, _Q))
    return _Range(value, ends, best)
