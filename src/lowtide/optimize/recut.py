"""Tile high regions anew at the peak of the ordered parts; regions that the exact scheduler made low stay.

The search along an order (`lowtide.optimize.regions`) takes the fewest ops that reach its lowest estimated peak, stripe
by stripe in one order. One region with a high estimate makes all others coarse. The scheduler then orders the parts,
and that region may need far less; now others are higher::

    estimate    A 50   B 49   C 48        B and C are as coarse as A allows
    ordered     A 45   B 49   C 47
    anew        A stays; below 49: B, and below 47 C, are tiled finer, while some path is feasible

Bisection lowers a limit below the peak. Under each limit, regions whose parts stay below it in the known order are
kept, with their measured bytes. All other ops are free, and the search looks for a path for them. If none is below the
peak, regions at the peak get twice as many stripes. The parts are ordered once more, and that peak counts, not the
estimate.

Regions that forward tiles to each other form a chain and are tiled anew together, within
the bytes that the rest of the graph leaves. If that fails, the highest regions of a chain are tried at each other pace,
and in twice as many stripes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Op
from lowtide.optimize.handed import forwardable
from lowtide.optimize.regions import FINEST, Bounds, best_regions, way_within
from lowtide.stop import Limits
from lowtide.topological import topological
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Pace, Region
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import PartGraph, apply

_NEARLY = 256  # the bisection ends when the limit is known to such a part of the peak
_CHAIN = 0.5  # share of the time that is left that each search for a chain's regions has


@dataclass(frozen=True)
class Realised:
    """Bytes of regions, and of untiled ops, in an order of the parts."""

    order: tuple[int, ...]  # positions of the ops of the tiled graph, each where the last of its tiles runs
    # Bytes of each region, by its place in `PartGraph.regions`: at the highest step from its first tile to its last.
    regions: tuple[int, ...]
    untiled: Mapping[int, int]  # bytes of each untiled op that runs while no region runs, by id
    peak: int


def realised(graph: Graph, parts: PartGraph, memory: MemoryModel) -> Realised:
    """The bytes of each region in the file order of a part graph. `graph`: the graph before tiling. `memory`: of the
    part graph."""
    ops, windows = parts.graph.ops, region_windows(parts)
    footprint = profile(memory, range(len(ops))).footprint
    inside = {step for window in windows for step in range(*window)}
    untiled, last = dict[int, int](), dict[int, int]()
    for step, op in enumerate(ops):
        part = parts.parts.get(op.id)
        if part is None and step not in inside:
            untiled[op.id] = footprint[step]
        last[op.id if part is None or part.of is None else part.of] = step
    order = tuple(topological(dict(enumerate(graph.predecessors)), lambda i: last.get(graph.ops[i].id, -1)))
    needs = tuple(max(footprint[begin:end]) for begin, end in windows)
    return Realised(order, needs, untiled, max(footprint, default=0))


def region_windows(parts: PartGraph) -> list[tuple[int, int]]:
    """Steps ``[begin, end)`` of the file order from each region's first part to its last."""
    of_op = {cut.op: k for k, region in enumerate(parts.regions) for cut in region.cuts}
    regions = _regions_of(parts.graph, parts, of_op)
    steps: dict[int, list[int]] = {}
    for step, op in enumerate(parts.graph.ops):
        if op.id in regions:
            steps.setdefault(regions[op.id], []).append(step)
    return [(steps[k][0], steps[k][-1] + 1) for k in range(len(parts.regions))]


def _regions_of(own: Graph, parts: PartGraph, of_op: Mapping[int, int]) -> dict[int, int]:
    """The region of each part and of the ops between parts: a join or a sum belongs to the region of its producer, all
    else to that of its consumer."""
    found = {o: of_op[p.of] for o, p in parts.parts.items() if p.of is not None and p.of in of_op}
    for op in reversed(own.ops):
        if op.id not in found and _is_for_readers(parts, op):
            readers = (found.get(o) for t in op.outputs for o in own.consumers.get(t, ()))
            found.update((op.id, k) for k in [k for k in readers if k is not None][:1])
    for op in own.ops:
        if op.id in parts.parts and op.id not in found:
            makers = (found.get(own.producer.get(t, -1)) for t in op.inputs)
            found.update((op.id, k) for k in [k for k in makers if k is not None][:1])
    return found


def _is_for_readers(parts: PartGraph, op: Op) -> bool:
    part = parts.parts.get(op.id)
    return part is not None and part.role != "merge" and op.outputs[0] in parts.slices


def recuts(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, ordered: MemoryModel, limits: Limits, least: int
) -> Iterator[PartGraph]:
    """The parts with some regions cut anew, in an own order to begin with: by the way that leads furthest below their
    peak, then with twice as many stripes in each region that is as high, at each pace.

    `memory`: of the graph that was cut, under a target. `ordered`: of the part graph, whose file order is the one that
    was found. `least`: bytes; no lower peak is of use.
    """
    now = realised(cutter.graph, parts, ordered)
    found = _furthest(cutter, memory, parts, now, limits, least)
    if found is not None:
        yield with_regions(cutter, parts, now, *found)
    if chains(cutter.graph, parts):
        anew = _chains_anew(cutter, memory, parts, now, limits, least)
        if anew is not None:
            yield with_regions(cutter, parts, now, *anew)
    fine = [region.stripes > FINEST // 2 for region in parts.regions]
    high = [k for k, size in enumerate(now.regions) if size == now.peak]
    tried = {found and tuple(found[1])}
    paces = (*PACES, *RECOMPUTED_HALO) if cutter.recompute else PACES
    for pace in paces if high and not any(fine[k] for k in high) else ():
        finer = [_finer(cutter, parts.regions[k], pace, now) for k in high]
        kept = [region for k, region in enumerate(parts.regions) if k not in high]
        if tuple(finer) not in tried and not limits.over():
            tried.add(tuple(finer))
            yield with_regions(cutter, parts, now, kept, finer)


def _finer(cutter: Cutter, region: Region, pace: Pace, now: Realised) -> Region:
    """A region in twice as many stripes."""
    within = [cutter.graph.ops[i].id for i in now.order if cutter.graph.ops[i].id in region.of]
    return cutter.region(within, {cut.op: cut.axis for cut in region.cuts}, 2 * region.stripes, pace)


def _furthest(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, now: Realised, limits: Limits, least: int
) -> tuple[list[Region], list[Region]] | None:
    """Regions that stay, and new ones, by bisection over limits on the peak; None: no way leads below it."""
    found, low, high = None, least, now.peak
    limit = high - 1
    while limit >= low and high - low > now.peak // _NEARLY and not limits.over():
        regions = _below(cutter, memory, parts, now, limit, limits)
        if regions is None:
            low = limit + 1
        else:
            found, high = regions, limit
        limit = low + (high - low) // 2
    return found


def _chains_anew(
    cutter: Cutter,
    memory: MemoryModel,
    parts: PartGraph,
    now: Realised,
    limits: Limits,
    least: int,
) -> tuple[list[Region], list[Region]] | None:
    """Regions that stay, and new ones for the chains at the peak. None: something else is as high, or a chain gets no
    lower."""
    high = {k for k, size in enumerate(now.regions) if size == now.peak}
    if not high or now.peak in now.untiled.values():
        return None
    gone, new = set[int](), list[Region]()
    forwarded = chains(cutter.graph, parts)
    for chain in (*forwarded, *(frozenset({k}) for k in high if not any(k in chain for chain in forwarded))):
        if not chain & high:
            continue
        anew = _chain_anew(cutter, memory, parts, now, chain, limits, least)
        if anew is not None:
            gone |= chain
            new += anew
            continue
        for k in sorted(chain & high):
            other = _other_pace(cutter, memory, parts, now, k, limits)
            if other is None:
                return None
            gone.add(k)
            new.append(other)
    return [region for k, region in enumerate(parts.regions) if k not in gone], new


def _chain_anew(
    cutter: Cutter,
    memory: MemoryModel,
    parts: PartGraph,
    now: Realised,
    chain: frozenset[int],
    limits: Limits,
    least: int,
) -> list[Region] | None:
    """New regions for the ops of a chain and the untiled ops before and between, below the peak. Materialised results
    are tried first. None: none were found. Other peaks do not count."""
    graph, sizes, stay = cutter.graph, dict(now.untiled), set[int]()
    step = {graph.ops[i].id: k for k, i in enumerate(now.order)}
    for k, region in enumerate(parts.regions):
        if k not in chain:
            stay |= region.of.keys()
            sizes.update((op, min(now.regions[k], least)) for op in region.of)
    steps = [step[op] for k in chain for op in parts.regions[k].of]
    begin = max((step[op] + 1 for op in stay if step[op] < min(steps)), default=0)
    free = {op for op, k in step.items() if begin <= k <= max(steps)} - stay
    if cutter.only is not None:
        free &= set(cutter.only)
    own = profile(memory, now.order).footprint
    footprint = [sizes.get(graph.ops[i].id, own[k]) for k, i in enumerate(now.order)]
    rest = Cutter(graph, exact_bits=cutter.exact_bits, only=free)
    for forwarded in ({}, forwardable(rest)):
        look = limits.share(_CHAIN)
        way = best_regions(rest, memory, now.order, look, Bounds(least), forwarded=forwarded, footprint=footprint)
        if way.regions and way.peak < now.peak:
            return list(way.regions)
    return None


def _other_pace(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, now: Realised, k: int, limits: Limits
) -> Region | None:
    """The first region at another pace, in as many or twice as many stripes, that needs fewer bytes than now; None:
    there is none."""
    old = parts.regions[k]
    within = [cutter.graph.ops[i].id for i in now.order if cutter.graph.ops[i].id in old.of]
    kept = [region for j, region in enumerate(parts.regions) if j != k]
    tried = {old}
    for stripes in (old.stripes, 2 * old.stripes):
        for pace in PACES:
            region = cutter.region(within, {cut.op: cut.axis for cut in old.cuts}, stripes, pace)
            if region in tried or stripes > FINEST or limits.over():
                continue
            tried.add(region)
            changed = with_regions(cutter, parts, now, kept, [region])
            sizes = realised(cutter.graph, changed, memory_model(changed.graph, memory.target)).regions
            if sizes[changed.regions.index(region)] < now.regions[k]:
                return region
    return None


def with_regions(
    cutter: Cutter, parts: PartGraph, now: Realised, kept: Sequence[Region], new: Sequence[Region]
) -> PartGraph:
    """The parts with new regions and those that stay, in an order in which the latter run as before."""
    graph, step = cutter.graph, {i: k for k, i in enumerate(now.order)}

    def last(region: Region) -> int:
        return max(step[graph.index_of[op]] for op in region.of)

    changed = apply(cutter, sorted([*kept, *new], key=last), [graph.ops[i].id for i in now.order])
    if chains(cutter.graph, parts):
        changed = hand_on(cutter.graph, changed)
    return replace(changed, graph=_as_before(parts, changed, new))


def _below(
    cutter: Cutter, memory: MemoryModel, parts: PartGraph, now: Realised, limit: int, limits: Limits
) -> tuple[list[Region], list[Region]] | None:
    """Regions that stay, and new ones, all below a limit by estimate; None: no path is feasible."""
    graph = cutter.graph
    kept = [region for region, size in zip(parts.regions, now.regions, strict=True) if size <= limit]
    sizes = dict(now.untiled)
    for region, size in zip(parts.regions, now.regions, strict=True):
        sizes.update((cut.op, size) for cut in region.cuts if size <= limit)
    stay = {cut.op for region in kept for cut in region.cuts}
    free = {op.id for op in graph.ops} - stay
    if cutter.only is not None:
        free &= set(cutter.only)
    own = profile(memory, now.order).footprint
    footprint = [sizes.get(graph.ops[i].id, own[k]) for k, i in enumerate(now.order)]
    rest = Cutter(graph, exact_bits=cutter.exact_bits, only=free, recompute=cutter.recompute)
    way = way_within(rest, memory, now.order, limits, limit, footprint)
    return None if way is None else (kept, list(way.regions))


def chains(graph: Graph, parts: PartGraph) -> list[frozenset[int]]:
    """Regions that forward unmaterialised tensors to each other, directly or through others."""
    of = {op: k for k, region in enumerate(parts.regions) for op in region.of}
    found: list[frozenset[int]] = []
    for op, k in of.items():
        for t in graph.op_by_id[op].outputs:
            readers = {of.get(reader, k) for reader in graph.consumers.get(t, ())} - {k}
            if readers and t not in parts.graph.producer:
                linked = [chain for chain in found if chain & (readers | {k})]
                found = [chain for chain in found if chain not in linked]
                found.append(frozenset({k} | readers).union(*linked))
    return found


def _as_before(parts: PartGraph, changed: PartGraph, new: Sequence[Region]) -> Graph:
    """The new graph in the former order: the parts of each new region together, where the last of its ops ran."""
    step = {op.name: k for k, op in enumerate(parts.graph.ops)}
    late: dict[int, int] = {}
    for k, op in enumerate(parts.graph.ops):
        part = parts.parts.get(op.id)
        if part is None or part.of is not None:  # ops between parts have other ids in each part graph
            late[op.id if part is None or part.of is None else part.of] = k
    last = {k: max(late[op] for op in region.of) for k, region in enumerate(changed.regions) if region in new}
    regions = _regions_of(
        changed.graph, changed, {op: k for k, region in enumerate(changed.regions) for op in region.of}
    )
    keys, at = list[int](), 0
    for op in changed.graph.ops:
        found = last.get(regions.get(op.id, -1))
        at = step.get(op.name, late.get(op.id, at)) if found is None else found
        keys.append(at)
    order = topological(dict(enumerate(changed.graph.predecessors)), keys.__getitem__)
    return replace(changed.graph, ops=tuple(changed.graph.ops[i] for i in order))
