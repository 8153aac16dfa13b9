"""What occupies memory, derived from `docs/contract.md` for the checker alone.

A *storage* is what tensors that alias share. Aliases form trees: we walk down from the roots. An op touches a
storage if it makes or reads one of its tensors. In an order, a storage is live

    from   the first op that touches it   (before step 0 if one of its tensors is a graph input, or an output that
                                          no op makes: one that no op makes and that is neither only names memory)
    to     the last op that touches it    (the end if one of its tensors is a graph output)

Where the graph says of every alias in a storage that it is live by itself, bytes begin and end one by one: each is live
from the first op that touches a tensor with it to the last. Bytes of the same tensors are one storage.

A storage is constant if its root is: `Graph` sees to it that no op writes to it, and that no constant shares memory
with other tensors.

and the footprint at op v, when exactly the ops of D ran before it, is

    sum of size(b) over storages b with [b was live at the start, or D + v touches b]
                                  and [b is live at the end, or an op outside D touches b]
    + workspace(v)  - what v saves if it may overwrite an input whose storage nothing outside D + v needs:
                      size(output); or, where the target gives a distance d at which the output may share some
                      bytes of that input, the most that it can share, min(size(input), size(output) - d).

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

    `name`: the tensor that it goes by. `part`: whether it holds only some bytes of its root's memory. `low`: bytes from
    its root's start; 0 where it is no part.
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
    """A graph under a target, as the checker sees it."""

    storages: tuple[CheckedStorage, ...]  # every storage that occupies memory at some time
    # Tensor id to index in `storages`; what costs nothing (constants, unread inputs) is absent. Of a tensor in several,
    # the one that goes by it, or the first.
    storage_of: dict[int, int]
    place: dict[int, tuple[int, int]]  # tensor id to root tensor id and bytes from the root's start, for every tensor
    workspace: dict[int, int]  # op id to bytes, counted constants that it reads included
    # Op id to the input tensors that its output may be put over, once their storage dies there.
    overwritable: dict[int, tuple[int, ...]]
    saved: dict[int, dict[int, int]]  # for each of those, the bytes that it can save
    # For each of those that need not be hit exactly, bytes by which the output begins below the input at least.
    behind: dict[int, dict[int, int]]
    touches: dict[int, tuple[int, ...]]  # op id to the indices of the storages that it touches
    # Tensor id to the tensor whose memory it shares: the graph's aliases and the target's views.
    alias_of: dict[int, int]
    views: frozenset[int]  # ids of the tensors that are views: nothing is written when they are made

    def saving(self, op: int, before: Collection[int]) -> int:
        """Bytes that `op` saves by writing over an input, if the ops in `before` ran earlier."""
        most = 0
        for tensor in self.overwritable[op]:
            storage = self.storages[self.storage_of[tensor]]
            if all(o == op or o in before for o in storage.users):
                most = max(most, self.saved[op][tensor])
        return most

    def footprint(self, op: int, before: Collection[int]) -> int:
        """Bytes live while `op` runs, if exactly the ops in `before` ran earlier: the definition."""
        live = 0
        for b in self.storages:
            begun = b.at_start or any(o == op or o in before for o in b.users)
            needed = b.at_end or any(o not in before for o in b.users)
            if begun and needed:
                live += b.size
        return live + self.workspace[op] - self.saving(op, before)


def work_out(graph: Graph, target: Target) -> CheckedMemory:
    """Find the storages of a graph under a target."""
    sources, views = _alias_sources(graph, target)
    found = _Storages(graph, target, _walk_down(graph, sources))
    touches: dict[int, list[int]] = {op.id: [] for op in graph.ops}
    for i, b in enumerate(found.storages):
        for o in b.users:
            touches[o].append(i)
    behind = {op.id: found.behind(op) for op in graph.ops}
    overwritable = {op.id: tuple(behind[op.id]) or found.overwritable(op) for op in graph.ops}
    saved: dict[int, dict[int, int]] = {}
    for op in graph.ops:
        output_size = graph.tensor_by_id[op.outputs[0]].size if op.outputs else 0
        saved[op.id] = {
            t: min(graph.tensor_by_id[t].size, output_size - behind[op.id][t]) if t in behind[op.id] else output_size
            for t in overwritable[op.id]
        }
    return CheckedMemory(
        tuple(found.storages),
        found.storage_of,
        found.place,
        found.workspace,
        overwritable,
        saved,
        behind,
        {o: tuple(b) for o, b in touches.items()},
        {t: source for t, (source, _) in sources.items()},
        frozenset(views),
    )


class _Storages:
    """The storages of a graph, the bytes of workspaces, and what ops may write over."""

    def __init__(self, graph: Graph, target: Target, place: dict[int, tuple[int, int]]) -> None:
        self.graph, self.target, self.place = graph, target, place
        self.workspace = {op.id: target.workspace(graph, op) + inside_bytes(graph, op, target) for op in graph.ops}
        self.storages: list[CheckedStorage] = []
        self.storage_of: dict[int, int] = {}
        groups: dict[int, list[Tensor]] = {}
        for t in graph.tensors:
            groups.setdefault(place[t.id][0], []).append(t)
        touched_by: dict[int, list[int]] = {root: [] for root in groups}
        for op in graph.ops:
            for t in (*op.inputs, *op.outputs):
                touched_by[place[t][0]].append(op.id)
        for root, members in groups.items():
            users = frozenset(touched_by[root])
            if graph.tensor_by_id[root].kind is Kind.CONSTANT:
                self._add_constant(root, members, users)
            else:
                self._add(root, members, users)

    def _size(self, members: list[Tensor]) -> int:
        return max(self.place[t.id][1] + t.size for t in members)

    def _append(self, storage: CheckedStorage) -> None:
        for t in storage.tensors:
            if t == storage.name or t not in self.storage_of or not storage.part:
                self.storage_of[t] = len(self.storages)
        self.storages.append(storage)

    def _add_constant(self, root: int, members: list[Tensor], users: frozenset[int]) -> None:
        """Memory that the target counts always, while an op reads it, or never."""
        size = self._size(members)
        if self.target.constants == "while_used":
            for o in users:
                self.workspace[o] += size
        elif self.target.constants == "always" and users:
            self._append(CheckedStorage(size, tuple(t.id for t in members), users, True, True, root))

    def _add(self, root: int, members: list[Tensor], users: frozenset[int]) -> None:
        """Memory of a tensor that is no constant, as one storage or as one for each part of it."""
        graph, target, size = self.graph, self.target, self._size(members)
        at_start = any(t.id not in graph.producer and t.kind is not Kind.ACTIVATION for t in members)
        unread = target.manages_storage and any(
            t.id in graph.producer and not graph.consumers.get(t.id) for t in members
        )
        at_end = unread or any(t.kind is Kind.OUTPUT for t in members)
        kept = [target.copies(t) for t in members]
        if any(kept):
            at_start = at_end = True
        if 2 in kept:  # the second one begins at the next multiple of the alignment
            size += size + -size % target.alignment
        if (not users and not at_end) or (at_start and not target.count_inputs):
            return
        keeps_input = at_start and target.keep_inputs
        parts = [] if any(kept) or keeps_input else self._parts(members)
        for low, high, inside in parts:
            touched = frozenset(op.id for op in graph.ops if not {*op.inputs, *op.outputs}.isdisjoint(inside))
            ends = any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in inside)
            self._append(CheckedStorage(high - low, inside, touched, at_start, ends, inside[0], low, True))
        if not parts:
            ids = tuple(t.id for t in members)
            self._append(CheckedStorage(size, ids, users, at_start, at_end or keeps_input, root))

    def _parts(self, members: list[Tensor]) -> list[tuple[int, int, tuple[int, ...]]]:
        """Bytes [low, high) that are live by themselves, with the tensors in them, the smallest first. None at all
        if an alias is not live by itself, if there would be one part only, if one tensor would be the smallest of
        two, or if an op may write over a tensor of several parts, or make one over what it reads."""
        if any(t.alias_of is not None and not t.piece for t in members):
            return []
        ranges = {t.id: range(self.place[t.id][1], self.place[t.id][1] + t.size) for t in members}
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
        for op in self.graph.ops:
            over = {*self.target.in_place_inputs(self.graph, op)}
            over |= {t for t, _ in self.target.overlap_inputs(self.graph, op)}
            if not ranges.keys().isdisjoint(op.outputs):
                over = {t for t in over if t not in ranges}
            if over and any(counts.get(t, 0) > 1 for t in (*over, *op.outputs)):
                return []
        return parts

    def overwritable(self, op: Op) -> tuple[int, ...]:
        """Inputs that the output may write over once their storage dies: it must be its storage's first content.
        That is so in every order if the output fills its storage, and each other op that writes into the storage
        also reads from it: following those reads back leads to `op`."""
        wanted = self.target.in_place_inputs(self.graph, op)
        if not wanted or not self._begins_its_storage(op):
            return ()
        return tuple(t for t in wanted if self._is_another(op, t) and self._is_free(t) and not self._is_read(op, t))

    def behind(self, op: Op) -> dict[int, int]:
        """Inputs of which the output may share some bytes, with the distance that the target gives. Each fills a
        storage of its own, which it shares with no other input that is not in the list."""
        wanted = dict(self.target.overlap_inputs(self.graph, op))
        if not wanted or not self._begins_its_storage(op):
            return {}
        distances: dict[int, int] = {}
        for t in wanted:
            if not self._is_another(op, t) or self.place[t][1] or not self._is_free(t):
                continue
            at = self.storage_of[t]
            alone = all(u in wanted for u in op.inputs if self.storage_of.get(u) == at)
            is_new = all(self.storage_of[u] != at for u in distances)
            fills = not self.storages[at].part and self.storages[at].size == self.graph.tensor_by_id[t].size
            if alone and is_new and fills:
                distances[t] = max(d for u, d in wanted.items() if self.storage_of.get(u) == at)
        return distances

    def _begins_its_storage(self, op: Op) -> bool:
        """Whether the output fills its storage, and nothing is in there before it."""
        out = op.outputs[0]
        if out not in self.storage_of or self.place[out][1] != 0:
            return False
        mine = self.storages[self.storage_of[out]]
        if mine.part or mine.at_start or mine.size != self.graph.tensor_by_id[out].size:
            return False
        inside = set(mine.tensors)
        others = (self.graph.op_by_id[o] for o in mine.users - {op.id})
        return all(inside.intersection(o.inputs) or not inside.intersection(o.outputs) for o in others)

    def _is_another(self, op: Op, t: int) -> bool:
        """Whether an input has a storage, and not that of the output."""
        return t in self.storage_of and self.storage_of[t] != self.storage_of[op.outputs[0]]

    def _is_free(self, t: int) -> bool:
        """Whether an op may write over a tensor's storage once nothing reads it."""
        theirs = self.storages[self.storage_of[t]]
        return not theirs.at_end and (self.target.overwrite_inputs or not theirs.at_start)

    def _is_read(self, op: Op, t: int) -> bool:
        """Whether an op reads, by another input, some bytes of an input, and not exactly these."""
        theirs, written = self.storages[self.storage_of[t]], self._bytes(t)
        for u in op.inputs:
            read = self._bytes(u)
            overlaps = max(read.start, written.start) < min(read.stop, written.stop)
            if self.storage_of.get(u) == self.storage_of[t] and read != written and overlaps:
                return True
            if theirs.part and u != t and u in theirs.tensors:
                return True
        return False

    def _bytes(self, t: int) -> range:
        start = self.place[t][1]
        return range(start, start + self.graph.tensor_by_id[t].size)


def inside_bytes(graph: Graph, op: Op, target: Target) -> int:
    """Bytes that an op needs for its bodies: the largest footprint of any, walked by the definition. An op of an
    ATen graph returns what its body made, so that its outputs are among those bytes already."""
    if not op.bodies:
        return 0
    rules = target.inside
    footprints = [0]
    for body in op.bodies:
        run = rules.as_seen(body)
        memory = work_out(run, rules)
        before: set[int] = set()
        for step in rules.as_run(run, run.own_order):
            footprints.append(memory.footprint(step, before))
            before.add(step)
    outputs = [graph.tensor_by_id[t] for t in op.outputs] if graph.dialect == "aten" else []
    return max(0, max(footprints) - sum(t.size for t in outputs if t.alias_of is None))


def _alias_sources(graph: Graph, target: Target) -> tuple[dict[int, tuple[int, int]], set[int]]:
    """Tensor to the tensor whose memory it shares and the bytes from its start; and which are the target's views."""
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
