"""What occupies memory, worked out once more from `docs/contract.md`, for the checker alone.

A *storage* is what tensors that alias share. Aliases form trees: we walk down from the roots. An op touches a
storage if it makes or reads one of its tensors. In an order, a storage is live

    from   the first op that touches it   (before step 0 if one of its tensors is a graph input, or an output that
                                          no op makes: one that no op makes and that is neither only names memory)
    to     the last op that touches it    (the end if one of its tensors is a graph output)

Where every tensor of a storage but the root lies there as a *piece* (`Tensor.piece`), bytes begin and end one by one:
each is there from the first op that touches a tensor with it to the last. Those of the same tensors are one storage.

A storage is constant if its root is: `Graph` sees to it that nothing is written there, and that no constant lies in
other memory.

and the footprint at op v, when exactly the ops of D ran before it, is

    sum of size(b) over storages b with [b was there at the start, or D + v touches b]
                                  and [b is there at the end, or an op outside D touches b]
    + workspace(v)  - what v saves if it may overwrite an input whose storage nothing outside D + v needs:
                      size(output); or, where the target gives a distance d at which the output may lie over a
                      part of that input, the bytes that can be under both, min(size(input), size(output) - d).

Ops and tensors go by their ids here, never by positions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import Target


class CheckedStorage(NamedTuple):
    """Memory that tensors share: bytes, tensor ids, and the ids of the ops that make or read one.

    `name`: the tensor that it goes by. `low`: bytes from its root's start, not 0 only where it is a part of a whole.
    `part`: whether it is.
    """

    size: int
    tensors: tuple[int, ...]
    users: frozenset[int]
    at_start: bool
    at_end: bool
    name: int = -1
    low: int = 0
    part: bool = False


@dataclass(frozen=True)
class CheckedMemory:
    """A graph under a target, as the checker sees it.

    Attributes
    ----------
    storages
        Every storage that occupies memory at some time.
    storage_of
        Tensor id to index in `storages`; what costs nothing (constants, unread inputs) is absent. Of a tensor in
        several, the one that goes by it, or the first.
    place
        Tensor id to root tensor id and bytes from the root's start, for every tensor.
    workspace
        Op id to bytes, counted constants that it reads included.
    overwritable
        Op id to the input tensors that its output may be put over, once their storage dies there.
    saved
        For each of those, the bytes that it can save.
    behind
        For each of those that need not be hit exactly, bytes by which the output begins below the input at least.
    touches
        Op id to the indices of the storages that it touches.
    alias_of
        Tensor id to the tensor whose memory it lies in: the graph's aliases and the target's views.
    views
        Ids of the tensors that are views: nothing is written when they are made.
    """

    storages: tuple[CheckedStorage, ...]
    storage_of: dict[int, int]
    place: dict[int, tuple[int, int]]
    workspace: dict[int, int]
    overwritable: dict[int, tuple[int, ...]]
    saved: dict[int, dict[int, int]]
    behind: dict[int, dict[int, int]]
    touches: dict[int, tuple[int, ...]]
    alias_of: dict[int, int]
    views: frozenset[int]

    def saving(self, graph: Graph, op: int, before: Collection[int]) -> int:
        """Bytes that `op` saves by writing over an input, if the ops in `before` ran earlier."""
        most = 0
        for tensor in self.overwritable[op]:
            storage = self.storages[self.storage_of[tensor]]
            if all(o == op or o in before for o in storage.users):
                most = max(most, self.saved[op][tensor])
        return most

    def footprint(self, graph: Graph, op: int, before: Collection[int]) -> int:
        """Bytes live while `op` runs, if exactly the ops in `before` ran earlier: the definition."""
        live = 0
        for b in self.storages:
            begun = b.at_start or any(o == op or o in before for o in b.users)
            needed = b.at_end or any(o not in before for o in b.users)
            if begun and needed:
                live += b.size
        return live + self.workspace[op] - self.saving(graph, op, before)


def work_out(graph: Graph, target: Target) -> CheckedMemory:
    """Find the storages of a graph under a target."""
    sources, views = _alias_sources(graph, target)
    place = _walk_down(graph, sources)

    groups: dict[int, list[Tensor]] = {}
    for t in graph.tensors:
        groups.setdefault(place[t.id][0], []).append(t)
    touched_by: dict[int, list[int]] = {root: [] for root in groups}
    for op in graph.ops:
        for t in (*op.inputs, *op.outputs):
            touched_by[place[t][0]].append(op.id)

    produced = {t for op in graph.ops for t in op.outputs}
    workspace = {op.id: target.workspace(graph, op) + inside_bytes(graph, op, target) for op in graph.ops}
    storages: list[CheckedStorage] = []
    storage_of: dict[int, int] = {}
    for root, members in groups.items():
        constant = graph.tensor_by_id[root].kind is Kind.CONSTANT
        if constant and target.constants == "never":
            continue
        users = frozenset(touched_by[root])
        size = max([place[t.id][1] + t.size for t in members])
        at_start = any(t.id not in produced and t.kind is not Kind.ACTIVATION for t in members)
        at_end = any(t.kind is Kind.OUTPUT for t in members)
        kept = [target.copies(t) for t in members if not constant]
        if any(kept):
            at_start = at_end = True
        if 2 in kept:  # the second one begins at the next multiple of the alignment
            size += size + -size % target.alignment
        if constant and target.constants == "while_used":
            for o in users:
                workspace[o] += size
        if constant and target.constants != "always":
            continue
        if constant:
            at_start, at_end = True, bool(users)
        if (not users and not at_end) or (at_start and not constant and not target.count_inputs):
            continue
        if at_start and target.keep_inputs:
            at_end = True
        whole = constant or any(kept) or (at_start and target.keep_inputs)
        parts = [] if whole else _parts(graph, target, members, place)
        for low, high, inside in parts:
            for t in inside:
                if t == inside[0] or t not in storage_of:
                    storage_of[t] = len(storages)
            touched = frozenset(op.id for op in graph.ops if not {*op.inputs, *op.outputs}.isdisjoint(inside))
            ends = any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in inside)
            storages.append(CheckedStorage(high - low, inside, touched, at_start, ends, inside[0], low, True))
        if parts:
            continue
        for t in members:
            storage_of[t.id] = len(storages)
        storages.append(CheckedStorage(size, tuple(t.id for t in members), users, at_start, at_end, root))

    touches: dict[int, list[int]] = {op.id: [] for op in graph.ops}
    for i, b in enumerate(storages):
        for o in b.users:
            touches[o].append(i)
    behind = {op.id: _behind(graph, target, op, storages, storage_of, place) for op in graph.ops}
    overwritable = {
        op.id: tuple(behind[op.id]) or _overwritable(graph, target, op, storages, storage_of, place) for op in graph.ops
    }
    saved: dict[int, dict[int, int]] = {}
    for op in graph.ops:
        output_size = graph.tensor_by_id[op.outputs[0]].size if op.outputs else 0
        saved[op.id] = {
            t: min(graph.tensor_by_id[t].size, output_size - behind[op.id][t]) if t in behind[op.id] else output_size
            for t in overwritable[op.id]
        }
    return CheckedMemory(
        tuple(storages),
        storage_of,
        place,
        workspace,
        overwritable,
        saved,
        behind,
        {o: tuple(b) for o, b in touches.items()},
        {t: source for t, (source, _) in sources.items()},
        frozenset(views),
    )


def _parts(
    graph: Graph, target: Target, members: list[Tensor], place: dict[int, tuple[int, int]]
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Bytes [low, high) of a whole that are there by themselves, with the tensors in them, the smallest first.

    None at all if a tensor lies there that is no piece, if there would be one part only, if one tensor would be the
    smallest of two, or if an op may write over a tensor of several parts, or make one over what it reads.
    """
    if any(t.alias_of is not None and not t.piece for t in members):
        return []
    ranges = {t.id: range(place[t.id][1], place[t.id][1] + t.size) for t in members}
    edges = sorted({e for r in ranges.values() for e in (r.start, r.stop)})
    parts: list[tuple[int, int, tuple[int, ...]]] = []
    for low, high in pairwise(edges):
        inside = [t for t, r in ranges.items() if low in r and high - 1 in r]
        inside.sort(key=lambda t: (len(ranges[t]), t))
        parts.append((low, high, tuple(inside)))
    names = [inside[:1] for _, _, inside in parts]
    if len(parts) < 2 or len(set(names)) < len(parts) or () in names:
        return []
    counts = {t: sum(t in inside for _, _, inside in parts) for t in ranges}
    for op in graph.ops:
        over = {*target.in_place_inputs(graph, op), *(t for t, _ in target.overlap_inputs(graph, op))}
        if not ranges.keys().isdisjoint(op.outputs):
            over = {t for t in over if t not in ranges}
        if over and any(counts.get(t, 0) > 1 for t in (*over, *op.outputs)):
            return []
    return parts


def inside_bytes(graph: Graph, op: Op, target: Target) -> int:
    """Bytes that an op needs for its bodies: the largest footprint of any, walked by the definition.

    An op of an ATen graph returns what its body made, so that its outputs are among those bytes already.
    """
    if not op.bodies:
        return 0
    rules = target.inside
    footprints = [0]
    for body in op.bodies:
        run = rules.as_seen(body)
        memory = work_out(run, rules)
        before: set[int] = set()
        for step in rules.as_run(run, run.own_order):
            footprints.append(memory.footprint(run, step, before))
            before.add(step)
    outputs = [graph.tensor_by_id[t] for t in op.outputs] if graph.dialect == "aten" else []
    return max(0, max(footprints) - sum(t.size for t in outputs if t.alias_of is None))


def _alias_sources(graph: Graph, target: Target) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """Tensor to the tensor it lies in and the bytes from its start; and which are the target's views."""
    sources = {t.id: (t.alias_of, t.alias_offset) for t in graph.tensors if t.alias_of is not None}
    pointed_at = {source for source, _ in sources.values()}
    views = set()
    for op in graph.ops:
        source = target.view_source(graph, op)
        if source is None:
            continue
        out = op.outputs[0]
        if out in pointed_at:
            at: int | None = source
            while at is not None and at != out:
                at = sources[at][0] if at in sources else None
            if at == out:
                continue
        sources[out] = (source, 0)
        views.add(out)
    return sources, views


def _walk_down(graph: Graph, sources: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    below: dict[int, list[int]] = {}
    for t in graph.tensors:
        if t.id in sources:
            below.setdefault(sources[t.id][0], []).append(t.id)
    place = {t.id: (t.id, 0) for t in graph.tensors if t.id not in sources}
    todo = list(place)
    while todo:
        above = todo.pop()
        root, offset = place[above]
        for t in below.get(above, ()):
            place[t] = (root, offset + sources[t][1])
            todo.append(t)
    return place


def _overwritable(
    graph: Graph,
    target: Target,
    op: Op,
    storages: list[CheckedStorage],
    storage_of: dict[int, int],
    place: dict[int, tuple[int, int]],
) -> tuple[int, ...]:
    """Inputs that the output may lie over once their storage dies: it must be its storage's first content.

    That is so in every order if the output fills its storage, and each other op that writes into the storage also
    reads from it: following those reads back leads to `op`.
    """
    wanted = target.in_place_inputs(graph, op)
    if not wanted or not _begins_its_storage(graph, op, storages, storage_of, place):
        return ()
    out = op.outputs[0]
    result = []
    for t in wanted:
        if t not in storage_of or storage_of[t] == storage_of[out]:
            continue
        theirs = storages[storage_of[t]]
        written = range(place[t][1], place[t][1] + graph.tensor_by_id[t].size)
        spoilt = False
        for u in op.inputs:
            if storage_of.get(u) == storage_of[t]:
                read = range(place[u][1], place[u][1] + graph.tensor_by_id[u].size)
                spoilt |= read != written and max(read.start, written.start) < min(read.stop, written.stop)
            spoilt |= theirs.part and u != t and u in theirs.tensors
        if not spoilt and not theirs.at_end and (target.overwrite_inputs or not theirs.at_start):
            result.append(t)
    return tuple(result)


def _begins_its_storage(
    graph: Graph, op: Op, storages: list[CheckedStorage], storage_of: dict[int, int], place: dict[int, tuple[int, int]]
) -> bool:
    """Whether the output fills its storage, and nothing is in there before it."""
    out = op.outputs[0]
    if out not in storage_of or place[out][1] != 0:
        return False
    mine = storages[storage_of[out]]
    if mine.part or mine.at_start or mine.size != graph.tensor_by_id[out].size:
        return False
    inside = set(mine.tensors)
    others = (graph.op_by_id[o] for o in mine.users - {op.id})
    return all(inside.intersection(o.inputs) or not inside.intersection(o.outputs) for o in others)


def _behind(
    graph: Graph,
    target: Target,
    op: Op,
    storages: list[CheckedStorage],
    storage_of: dict[int, int],
    place: dict[int, tuple[int, int]],
) -> dict[int, int]:
    """Inputs that the output may lie over in part, with the distance that the target asks for.

    Each fills a storage of its own, which no other input that is not in the list lies in.
    """
    wanted = dict(target.overlap_inputs(graph, op))
    if not wanted or not _begins_its_storage(graph, op, storages, storage_of, place):
        return {}
    distances: dict[int, int] = {}
    for t in wanted:
        if t not in storage_of or storage_of[t] == storage_of[op.outputs[0]] or place[t][1]:
            continue
        theirs = storages[storage_of[t]]
        if theirs.part:
            continue
        alone = all(u in wanted for u in op.inputs if storage_of.get(u) == storage_of[t])
        again = any(storage_of[u] == storage_of[t] for u in distances)
        free = not theirs.at_end and (target.overwrite_inputs or not theirs.at_start)
        if alone and free and not again and theirs.size == graph.tensor_by_id[t].size:
            distances[t] = max(d for u, d in wanted.items() if storage_of.get(u) == storage_of[t])
    return distances
