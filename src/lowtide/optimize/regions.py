"""The best regions along one order: a graph as the core's search sees it, and back.

The order is fixed. An interval of it is tiled in equal stripes or runs untiled. The core finds the path with the lowest
peak, then the fewest ops, or by a cost file the least time (`core/cut/path.h`). Source: msf-CNN's fusion graph, for any
graph and axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from lowtide import _core
from lowtide.analyse.liveness import alone, profile
from lowtide.analyse.model import MemoryModel
from lowtide.cost.model import CostModel
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.index import FIXED, Index
from lowtide.ops.part import adapter
from lowtide.optimize.workspace import PartWorkspaces
from lowtide.stop import Limits, count
from lowtide.transform.cut import Cutter, Region

LONGEST = 128  # ops of a region at the most; of one between the lowest points of what is live four times as many

_MODEL_OP, _CANDIDATE = 1_200_000, 110_000
"""Nanoseconds for an op of a model that the core gets, and for a candidate there."""
_NEAR = 128
"""A peak that is lower by less than such a part is requested as one that is lower by that: the core's first looks leave
out what gains less."""

MOST_STRIPES, FINEST = 128, 1024  # of a region at the most: where all are looked for, and where the peak is


@dataclass(frozen=True)
class Way:
    """Regions to tile along an order."""

    order: tuple[int, ...]  # positions in the file order
    regions: tuple[Region, ...]  # disjoint; the ops of each are neighbours in the order
    peak: int  # bytes, as the core estimates them for this order
    # ops, nanoseconds: ops that run: parts, slices, joins and untiled ones; and their time by the cost model (0 without
    # one).
    ops: int
    nanoseconds: int
    evaluated: int  # candidates tried
    # Whether the search was not stopped: then no path among those that `core/cut/path.h` tries has a lower peak.
    complete: bool
    forwarded: tuple[int, ...] = ()  # tensors that regions forward in slices, by the estimate of the search


@dataclass(frozen=True)
class Bounds:
    """What a way is to keep within."""

    least: int = 0  # bytes; no lower peak is of use
    most_ops: int = 0  # ops that may run, parts, slices and joins counted; 0: any number
    most_nanoseconds: int = 0  # what they may take by the cost model; 0: any time


ANY = Bounds()


NOTHING: Mapping[int, Sequence[int]] = {}


def best_regions(
    cutter: Cutter,
    memory: MemoryModel,
    order: Sequence[int],
    limits: Limits,
    bounds: Bounds = ANY,
    cost: CostModel | None = None,
    forwarded: Mapping[int, Sequence[int]] = NOTHING,
    footprint: Sequence[int] | None = None,
) -> Way:
    """Regions of the lowest peak along an order within the bounds, with the fewest ops or the least time.

    The result may have another order, in which ops of a region are made neighbours, unless `footprint` is given.

    `memory`: the graph under a target. `order`: positions in the file order. `cost`: cost of ops: under each limit on
    the peak, the path of least time is taken, not that of fewest ops. `forwarded`: dimensions along which some tensors
    may be forwarded in slices, unmaterialised. `footprint`: bytes of each untiled step; default its live bytes.
    """
    model = cut_model(cutter, memory, order, cost, forwarded=forwarded, footprint=footprint)
    stop = _stop(memory, order, limits, bounds.least)
    most, peak = bounds.most_nanoseconds, profile(memory, order).peak
    least = bounds.least if bounds.least >= peak else min(bounds.least, peak - peak // _NEAR)
    position = {i: k for k, i in enumerate(order)}
    before = [[position[p] for p in memory.graph.predecessors[i]] for i in order] if footprint is None else []
    way = _core.best_path(model, LONGEST, MOST_STRIPES, least, bounds.most_ops, stop, most, before)
    return _way(cutter, order, way, timed=cost is not None)


def _way(cutter: Cutter, order: Sequence[int], way: _core.PathResult, *, timed: bool) -> Way:
    """What the core chose, in ids of the graph."""
    taken = tuple(order[k] for k in way.order)
    ids = [cutter.graph.ops[i].id for i in taken]
    regions = []
    for found in way.regions:
        interval = ids[found.begin : found.end]
        axes = cutter.grow(interval, interval[-1], found.axis)
        assert axes is not None, found
        regions.append(cutter.region(interval, axes, found.stripes, found.pace))
    nanoseconds = way.weight if timed else 0
    tensors = [t.id for t in cutter.graph.tensors if t.kind is not Kind.CONSTANT]
    forwarded = tuple(tensors[t] for t in way.handed)
    return Way(taken, tuple(regions), way.peak, way.ops, nanoseconds, way.evaluated, way.complete, forwarded)


def _stop(memory: MemoryModel, order: Sequence[int], limits: Limits, least: int) -> Callable[[int], bool]:
    """The stop condition of the search: whether nothing is left of its limits, by the candidates that it tried. It
    reports the peak without tiles."""
    peak, known = profile(memory, order).peak, 0

    def stop(evaluated: int) -> bool:
        nonlocal known
        count(_CANDIDATE * (evaluated - known))
        known = evaluated
        limits.tell("", peak, least)
        return limits.over()

    return stop


def front_ways(
    cutter: Cutter, memory: MemoryModel, order: Sequence[int], limits: Limits, cost: CostModel | None = None
) -> list[Way]:
    """Ways of ever lower peaks along an order, with the fewest ops or the least time for each, the order itself first.
    What another one beats in peak and in time is left out."""
    model = cut_model(cutter, memory, order, cost)
    result: list[Way] = []
    for way in _core.path_front(model, LONGEST, MOST_STRIPES, _stop(memory, order, limits, 0)):
        while cost is not None and len(result) > 1 and result[-1].nanoseconds >= way.weight:
            result.pop()
        result.append(_way(cutter, order, way, timed=cost is not None))
    return result


def working_ways(
    cutter: Cutter, memory: MemoryModel, order: Sequence[int], limits: Limits, most: Sequence[int]
) -> list[Way]:
    """Paths along an order whose working sets are within some limits in bytes, each with the fewest bytes moved; as
    found in time.

    Tensors between ops and regions may be in slow memory: an untiled op needs only its own tensors, a region its
    slices, which are loaded and stored, and its untiled operands. `peak` is the largest working set; moved bytes are
    counted as if nothing stayed resident.
    """
    model = cut_model(cutter, memory, order, transfers=True)
    stop = _stop(memory, order, limits, 0)
    ways = _core.paths_within(model, LONGEST, MOST_STRIPES, list(most), stop)
    listed = (_way(cutter, order, way, timed=False) for way in ways)
    return list({way.regions: way for way in listed}.values())


def way_within(
    cutter: Cutter, memory: MemoryModel, order: Sequence[int], limits: Limits, limit: int, footprint: Sequence[int]
) -> Way | None:
    """The path of fewest ops along an order within a limit; None: none was found. `limit`: bytes. `footprint`: bytes of
    each untiled step."""
    model = cut_model(cutter, memory, order, footprint=footprint)
    ways = _core.paths_within(model, LONGEST, FINEST, [limit], _stop(memory, order, limits, 0))
    return _way(cutter, order, ways[0], timed=False) if ways else None


_ABOVE = 2**32  # what an op weighs that stays above a limit: more than all ops that run


class PeakCuts:
    """Short regions at the highest steps of an order: steps above a limit are tiled if a region of a few neighbours is
    below it, and stay untiled if none is. `memory`: the graph under a target. `order`: positions in the file order.
    `longest`: ops of a region, at most."""

    def __init__(self, cutter: Cutter, memory: MemoryModel, order: Sequence[int], longest: int) -> None:
        self.cutter, self.memory, self.order, self.longest = cutter, memory, tuple(order), longest
        self._model = cut_model(cutter, memory, order)

    def below(self, limit: int, limits: Limits) -> Way | None:
        """The way that leaves the fewest ops above a limit, in bytes, and then runs the fewest; None: time is up."""
        stop = _stop(self.memory, self.order, limits, 0)
        ways = _core.paths_within(self._model, self.longest, MOST_STRIPES, [limit], stop, _ABOVE)
        return _way(self.cutter, self.order, ways[0], timed=False) if ways else None


MOVED_PER_OP = 64  # bytes that are moved for one op less, where `working_ways` has the choice

_GONE = 2**31 - 2


def cut_model(
    cutter: Cutter,
    memory: MemoryModel,
    order: Sequence[int],
    cost: CostModel | None = None,
    *,
    transfers: bool = False,
    forwarded: Mapping[int, Sequence[int]] = NOTHING,
    footprint: Sequence[int] | None = None,
) -> _core.CutModel:
    """The graph in an order, with the axes of its ops and their costs, for the core.

    With `transfers`, weights are moved bytes in units of `MOVED_PER_OP`, and ops; only the working set is live.
    `footprint` overrides the bytes of untiled steps. Where the target limits single tensors, a step or a region with a
    larger one counts as higher than all without.
    """
    count(_MODEL_OP * len(order))
    graph, target = memory.graph, memory.target
    position = {graph.ops[i].id: k for k, i in enumerate(order)}
    number = {t.id: k for k, t in enumerate(t for t in graph.tensors if t.kind is not Kind.CONSTANT)}
    lives = profile(memory, order)
    workspaces = PartWorkspaces(cutter, target)
    ops = [_op(cutter, memory, i, number, cost, workspaces) for i in order]
    tensors = [
        (
            t.size,
            list(t.shape or ()),
            position[graph.producer[t.id]] if t.id in graph.producer else -1,
            sorted(position[o] for o in graph.consumers.get(t.id, ())),
            t.kind is Kind.OUTPUT,
            memory.storage_of.get(t.id, -1),
            list(forwarded.get(t.id, ())),
        )
        for t in graph.tensors
        if t.kind is not Kind.CONSTANT
    ]
    storages = [(s.size, lives.first[k], lives.last[k]) for k, s in enumerate(memory.storages)]
    at_start = sum(size for size, first, _ in storages if first < 0)
    sums = target.in_place == "any" and not target.rule
    before, glue = [at_start, *lives.transient], None if cost is None else cost.glue
    footprint, transfer = list(lives.footprint if footprint is None else footprint), None
    if transfers:
        footprint, before = [alone(memory, i) for i in order], [0] * len(before)
        storages = [(s.size, _GONE, -1) for s in memory.storages]
        ops = [(*op[:-1], 1 + size // MOVED_PER_OP) for op, size in zip(ops, footprint, strict=True)]
        glue, transfer = [(1, 0)] * 3, (1, 2**20 // MOVED_PER_OP)
    spell = adapter(graph)
    most = 0 if spell is None else spell.MOST_OPERANDS
    model = _core.CutModel(ops, tensors, storages, footprint, before, sums, most, glue, transfer, cutter.recompute)
    if target.max_tensor:
        model.limit_tensors(target.max_tensor)
    return model


def _op(
    cutter: Cutter, memory: MemoryModel, at: int, number: dict[int, int], cost: CostModel | None, spaces: PartWorkspaces
) -> tuple:
    graph, target = memory.graph, memory.target
    op = graph.ops[at]
    known = cutter.meaning(op.id)
    axes, made, reads = [], [], []
    cuttable = set(cutter.axes(op.id))
    sizes = () if known is None else known.access.sizes
    for axis, size in enumerate(sizes):
        assert known is not None, op.label
        how = cutter.spelling(op.id, axis) if axis in cuttable else None
        grain = 0 if how is None else how.grain
        rows = [] if how is None else spaces.of(op, axis)
        row, others = (
            (0, False) if how is None or how.padded is None else (how.padded.row_elements, how.padded.other_axes)
        )
        padded = row * _element_bytes(graph, op) if row else 0
        weights = [] if how is None or cost is None else list(cost.anchors(op.id, axis))
        reduced = axis in known.access.reduce
        stretch = 0 if how is None or how.stretch is None else how.stretch.index.den
        axes.append((size, known.access.grain_of(axis), grain, reduced, rows, padded, others, weights, stretch))
    over = set(target.in_place_inputs(graph, op))
    for i, t, dims in cutter.reads(op.id):
        reads.append((number[t], [_index(d) for d in dims], t in over, i == 0))
    if known is None:
        reads = [(number[t], [_UNTILED] * len(graph.tensor_by_id[t].shape or ()), False, False) for t in op.inputs
                 if t in number]  # fmt: skip
    for j, t in enumerate(op.outputs):
        rank = len(graph.tensor_by_id[t].shape or ())
        dims = (None,) * rank if known is None else known.access.outputs[j]
        made.append((number[t], [-1 if d is None else d for d in dims]))
    view = target.view_source(graph, op) is not None
    overwrites = [(o.storage, o.saving) for o in memory.overwrites[at]]
    weight = 1 if cost is None else cost.op(op.id)[0]
    return (axes, reads, made, view, memory.workspace[at], list(memory.touched[at]), overwrites, weight)


def _element_bytes(graph: Graph, op: Op) -> int:
    """Of the first operand."""
    tensor = graph.tensor_by_id[op.inputs[0]]
    return tensor.size // max(1, prod(tensor.shape or ()))


_UNTILED = (-1, 1, 1, 0, 0)


def _index(index: Index | None) -> tuple[int, int, int, int, int]:
    if index is None or index.axis == FIXED:
        return _UNTILED
    return (index.axis, index.num, index.den, index.lo, index.hi)
