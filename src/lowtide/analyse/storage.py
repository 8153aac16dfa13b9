"""From tensors to storages: what occupies memory under a target, and who touches it.

Tensors that share memory (the graph's own aliases, and the target's views) form one storage. An op touches a
storage if it makes or reads one of its tensors. A storage is live from the first step that touches it (graph
inputs: from before step 0) to the last one (graph outputs: to the end). Everything that the schedulers know of
memory is in `MemoryModel`; positions are indices into the graph's own order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel, Overwrite, Storage
from lowtide.analyse.pieces import Stretch, stretches_of
from lowtide.graph import Graph, Kind, Op
from lowtide.sizes import round_up
from lowtide.stop import count
from lowtide.target import Target

__all__ = ["MemoryModel", "Overwrite", "Storage", "body_bytes", "effective_aliases", "memory_model", "rounded_up"]


def effective_aliases(graph: Graph, target: Target) -> dict[int, tuple[int, int]]:
    """For each tensor in another one's storage: that tensor's id and the bytes from its start."""
    alias = {t.id: (t.alias_of, t.alias_offset) for t in graph.tensors if t.alias_of is not None}
    for op in graph.ops:
        source = target.view_source(graph, op)
        if source is not None and not _leads_to(alias, source, op.outputs[0]):
            alias[op.outputs[0]] = (source, 0)
    return alias


def _leads_to(alias: dict[int, tuple[int, int]], start: int, goal: int) -> bool:
    while start in alias:
        start = alias[start][0]
        if start == goal:
            return True
    return start == goal


_OP = 50_000  # nanoseconds for an op


def memory_model(graph: Graph, target: Target) -> MemoryModel:
    """Work out the storages of a graph under a target. Takes time linear in the graph."""
    count(_OP * len(graph.ops))
    workspace = [target.workspace(graph, op) + body_bytes(graph, op, target) for op in graph.ops]
    made = _Storages(graph, target, _places(graph, target), workspace)
    members: dict[int, list[int]] = {}
    for t in graph.tensors:
        members.setdefault(made.place[t.id][0], []).append(t.id)
    users: dict[int, list[int]] = {root: [] for root in members}
    for i, op in enumerate(graph.ops):
        for root in {made.place[t][0] for t in (*op.outputs, *op.inputs)}:
            users[root].append(i)
    for root, ids in members.items():
        made.add(root, ids, users[root])
    touched: list[list[int]] = [[] for _ in graph.ops]
    for s, storage in enumerate(made.storages):
        for i in storage.users:
            touched[i].append(s)
    model = MemoryModel(
        graph,
        target,
        tuple(made.storages),
        made.storage_of,
        made.displacement,
        tuple(workspace),
        (),
        tuple(tuple(t) for t in touched),
        tuple(made.groups),
    )
    return replace(model, overwrites=_overwrites(model))


def _places(graph: Graph, target: Target) -> dict[int, tuple[int, int]]:
    """Tensor id to the tensor whose storage it is in, and the bytes from the start of that."""
    alias = effective_aliases(graph, target)
    place: dict[int, tuple[int, int]] = {}
    for t in graph.tensors:
        trail = []
        at = t.id
        while at in alias and at not in place:
            trail.append(at)
            at = alias[at][0]
        root, offset = place.setdefault(at, (at, 0))
        for tensor_id in reversed(trail):
            offset += alias[tensor_id][1]
            place[tensor_id] = (root, offset)
    return place


@dataclass
class _Storages:
    """The storages found so far, with what `MemoryModel` says of them. Adds streamed constants to `workspace`."""

    graph: Graph
    target: Target
    place: dict[int, tuple[int, int]]
    workspace: list[int]
    storages: list[Storage] = field(default_factory=list)
    storage_of: dict[int, int] = field(default_factory=dict)
    displacement: dict[int, int] = field(default_factory=dict)
    groups: list[tuple[tuple[int, int], ...]] = field(default_factory=list)

    def add(self, root: int, ids: list[int], users: list[int]) -> None:
        """Add the storage of `root`, which holds the tensors `ids`, if it can occupy memory."""
        tensors = [self.graph.tensor_by_id[i] for i in ids]
        size = max([self.place[t.id][1] + t.size for t in tensors])
        if self.graph.tensor_by_id[root].kind is Kind.CONSTANT:
            self._add_constant(root, ids, users, size)
            return
        target, producer = self.target, self.graph.producer
        copies = max(target.copies(t) for t in tensors) if target.persistent or target.double_buffered else 0
        size = round_up(size, target.alignment) * (copies - 1) + size if copies else size
        unread = target.manages_storage and any(t.id in producer and t.id not in self.graph.consumers for t in tensors)
        at_end = bool(copies) or unread or any(t.kind is Kind.OUTPUT for t in tensors)
        at_start = bool(copies) or any(t.id not in producer and t.kind is not Kind.ACTIVATION for t in tensors)
        if (not users and not at_end) or (at_start and not target.count_inputs):
            return
        kept = bool(copies) or (at_start and target.keep_inputs)
        stretches = () if kept else stretches_of(self.graph, target, {i: self.place[i][1] for i in ids})
        if stretches:
            self._add_stretches(stretches, at_start)
        else:
            self._add_storage(root, ids, Storage(size, (), tuple(users), at_start, at_end or kept))

    def _add_constant(self, root: int, ids: list[int], users: list[int], size: int) -> None:
        if self.target.constants == "while_used":
            for i in users:
                self.workspace[i] += size
        elif self.target.constants == "always" and users:
            self._add_storage(root, ids, Storage(size, (), tuple(users), True, True))

    def _add_storage(self, root: int, ids: list[int], storage: Storage) -> None:
        for i in ids:
            self.storage_of[i] = len(self.storages)
            self.displacement[i] = self.place[i][1]
        self.storages.append(storage._replace(tensors=(root, *(i for i in ids if i != root))))

    def _add_stretches(self, stretches: Sequence[Stretch], at_start: bool) -> None:
        first = len(self.storages)
        self.groups.append(tuple((first + k, stretch.low) for k, stretch in enumerate(stretches)))
        for stretch in stretches:
            for i in stretch.tensors:
                if i == stretch.tensors[0] or i not in self.storage_of:
                    self.storage_of[i] = len(self.storages)
                    self.displacement[i] = self.place[i][1] - stretch.low
            ends = any(self.graph.tensor_by_id[i].kind is Kind.OUTPUT for i in stretch.tensors)
            self.storages.append(Storage(stretch.high - stretch.low, stretch.tensors, stretch.users, at_start, ends))


def body_bytes(graph: Graph, op: Op, target: Target) -> int:
    """Bytes that the bodies of an op need while it runs: the peak of the worst one in file order. A body is measured
    under the target's own rules (see `Target.inside`). What it makes for the op counts in addition to the op's
    outputs, except in ATen graphs, where the op hands on the very tensors that the body made."""
    if not op.bodies:
        return 0
    inside = target.inside
    most = 0
    for body in op.bodies:
        seen = inside.as_seen(body)
        if seen.ops:
            order = [seen.index_of[o] for o in inside.as_run(seen, seen.own_order)]
            most = max(most, profile(memory_model(seen, inside), order).peak)
    if graph.dialect == "aten":
        outputs = (graph.tensor_by_id[t] for t in op.outputs)
        most -= sum(t.size for t in outputs if t.alias_of is None)
    return max(0, most)


def rounded_up(model: MemoryModel) -> MemoryModel:
    """The model with every size rounded up to its alignment; itself if all of them are multiples already. Storages
    of a group stay as they are, as they are contiguous."""
    unit = model.alignment
    exact = {s for group in model.groups for s, _ in group}
    sizes = tuple(s.size if k in exact else round_up(s.size, unit) for k, s in enumerate(model.storages))
    workspace = tuple(round_up(size, unit) for size in model.workspace)
    if sizes == tuple(s.size for s in model.storages) and workspace == model.workspace:
        return model
    return replace(
        model,
        storages=tuple(s._replace(size=size) for s, size in zip(model.storages, sizes, strict=True)),
        workspace=workspace,
        overwrites=tuple(tuple(replace(o, saving=round_up(o.saving, unit)) for o in row) for row in model.overwrites),
    )


def _overwrites(model: MemoryModel) -> tuple[tuple[Overwrite, ...], ...]:
    """Per op position, the overwrites whose storages allow it: the output fills a storage that this op begins."""
    grouped = {s for group in model.groups for s, _ in group}
    return tuple((*_in_place(model, i, grouped), *_overlaps(model, i, grouped)) for i in range(len(model.graph.ops)))


def _candidates(model: MemoryModel, position: int, inputs: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Inputs, with their storages, that may die at an op whose output fills a storage that begins there."""
    op = model.graph.ops[position]
    for read in inputs:
        s, o = model.storage_of.get(read), model.storage_of.get(op.outputs[0])
        if s is None or o is None or s == o or model.displacement[op.outputs[0]]:
            continue
        into, begun = model.storages[s], model.storages[o]
        if into.at_end or (into.at_start and not model.target.overwrite_inputs):
            continue
        if begun.size == model.graph.tensor_by_id[op.outputs[0]].size and _begins_at(model.graph, begun, position):
            yield read, s


def _in_place(model: MemoryModel, position: int, grouped: Collection[int]) -> Iterator[Overwrite]:
    """Overwrites that begin exactly at the input. A stretch may be overwritten if the op reads nothing else in it;
    nothing is written into a stretch in place."""
    graph, storage_of, displacement = model.graph, model.storage_of, model.displacement
    op = graph.ops[position]
    for read, s in _candidates(model, position, model.target.in_place_inputs(graph, op)):
        out = op.outputs[0]
        if storage_of[out] in grouped:
            continue
        if s in grouped and any(t != read and t in model.storages[s].tensors for t in op.inputs):
            continue
        size = graph.tensor_by_id[out].size
        read_bytes = [(displacement[t], graph.tensor_by_id[t].size) for t in op.inputs if storage_of.get(t) == s]
        if not any(_overlap_shifted(bytes_, (displacement[read], size)) for bytes_ in read_bytes):
            yield Overwrite(position, out, read, s, size)


def _overlaps(model: MemoryModel, position: int, grouped: Collection[int]) -> list[Overwrite]:
    """Inputs that the output may overlap in part: both fill their storages, and the op begins that of the output.
    The output at its lowest ends `distance` bytes less above the input's start than it is long; so much is saved, or
    all of the input."""
    graph, storage_of = model.graph, model.storage_of
    op = graph.ops[position]
    allowed = dict(model.target.overlap_inputs(graph, op))
    pairs: list[Overwrite] = []
    for read, s in _candidates(model, position, allowed):
        out = op.outputs[0]
        size, over = graph.tensor_by_id[out].size, graph.tensor_by_id[read].size
        if model.displacement[read] or model.storages[s].size != over or not {s, storage_of[out]}.isdisjoint(grouped):
            continue
        if any(storage_of.get(t) == s and t not in allowed for t in op.inputs) or any(p.storage == s for p in pairs):
            continue
        farthest = max(d for t, d in allowed.items() if storage_of.get(t) == s)
        pairs.append(Overwrite(position, out, read, s, min(over, size - farthest), farthest))
    return pairs


def _overlap_shifted(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two ranges of bytes (start, size) overlap and differ: writing one destroys the other before its read."""
    return a != b and max(a[0], b[0]) < min(a[0] + a[1], b[0] + b[1])


def _begins_at(graph: Graph, storage: Storage, position: int) -> bool:
    """Whether a storage begins with the op at `position` in every order."""
    others = (j for j in storage.users if j != position)
    return not storage.at_start and all(_reads_only_later(graph, storage, j, position) for j in others)


def _reads_only_later(graph: Graph, storage: Storage, user: int, first: int) -> bool:
    """Whether the op at `user` touches `storage` only through tensors derived from the one made at `first`. Own
    aliases made elsewhere could begin the storage earlier in another order, so they rule overwriting out."""
    op = graph.ops[user]
    inside = set(storage.tensors)
    if not any(t in inside for t in op.outputs):
        return True
    return any(t in inside for t in op.inputs) and user > first
