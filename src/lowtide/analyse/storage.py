"""From tensors to storages: what occupies memory under a target, and who touches it.

Tensors that share memory (the graph's own aliases, and the target's views) form one storage. An op touches a
storage if it makes or reads one of its tensors. A storage is live from the first step that touches it (graph
inputs: from before step 0) to the last one (graph outputs: to the end). Everything that the schedulers know of
memory is in `MemoryModel`; positions are indices into the graph's own order.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel, Overwrite, Storage
from lowtide.analyse.pieces import pieces_of
from lowtide.graph import Graph, Kind, Op
from lowtide.sizes import round_up
from lowtide.target import Target

__all__ = ["MemoryModel", "Overwrite", "Storage", "body_bytes", "effective_aliases", "memory_model", "rounded_up"]


def effective_aliases(graph: Graph, target: Target) -> dict[int, tuple[int, int]]:
    """For each tensor that lies in another one's storage: that tensor's id and the bytes from its start."""
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


def memory_model(graph: Graph, target: Target) -> MemoryModel:
    """Work out the storages of a graph under a target. Takes time linear in the graph."""
    alias = effective_aliases(graph, target)
    place: dict[int, tuple[int, int]] = {}
    for t in graph.tensors:
        trail = []
        at, offset = t.id, 0
        while at in alias and at not in place:
            trail.append(at)
            at = alias[at][0]
        root, offset = place.get(at, (at, 0))
        for tensor_id in reversed(trail):
            offset += alias[tensor_id][1]
            place[tensor_id] = (root, offset)
        place.setdefault(t.id, (root, offset))

    root_of = {t: root for t, (root, _) in place.items()}
    members: dict[int, list[int]] = {}
    for t in graph.tensors:
        members.setdefault(root_of[t.id], []).append(t.id)
    users: dict[int, list[int]] = {root: [] for root in members}
    for i, op in enumerate(graph.ops):
        for root in {*map(root_of.__getitem__, op.outputs), *map(root_of.__getitem__, op.inputs)}:
            users[root].append(i)

    by_id, producer = graph.tensor_by_id, graph.producer
    storages: list[Storage] = []
    storage_of: dict[int, int] = {}
    displacement: dict[int, int] = {}
    workspace = [target.workspace(graph, op) for op in graph.ops]
    for i, op in enumerate(graph.ops):
        if op.bodies:
            workspace[i] += body_bytes(graph, op, target)
    constants, some_kept = target.constants, bool(target.persistent or target.double_buffered)
    groups: list[tuple[tuple[int, int], ...]] = []
    for root, ids in members.items():
        tensors = [by_id[i] for i in ids]
        used = users[root]
        size = max([place[t.id][1] + t.size for t in tensors])
        if by_id[root].kind is Kind.CONSTANT:
            if constants == "while_used":
                for i in used:
                    workspace[i] += size
            if constants != "always" or not used:
                continue
            at_start = at_end = True
        else:
            copies = max(target.copies(t) for t in tensors) if some_kept else 0
            size = round_up(size, target.alignment) * (copies - 1) + size if copies else size
            at_end = bool(copies) or any(t.kind is Kind.OUTPUT for t in tensors)
            at_start = bool(copies) or any(t.id not in producer and t.kind is not Kind.ACTIVATION for t in tensors)
            if (not used and not at_end) or (at_start and not target.count_inputs):
                continue
            at_end = at_end or (at_start and target.keep_inputs)
            stays = bool(copies) or (at_start and target.keep_inputs)
            pieces = () if stays else pieces_of(graph, target, {i: place[i][1] for i in ids})
            if pieces:
                groups.append(tuple((len(storages) + k, p.low) for k, p in enumerate(pieces)))
                for p in pieces:
                    ends = any(by_id[i].kind is Kind.OUTPUT for i in p.tensors)
                    for i in p.tensors:
                        if i == p.tensors[0] or i not in storage_of:
                            storage_of[i], displacement[i] = len(storages), place[i][1] - p.low
                    storages.append(Storage(p.high - p.low, p.tensors, p.users, at_start, ends))
                continue
        ordered = (root, *(i for i in ids if i != root))
        for i in ids:
            storage_of[i] = len(storages)
            displacement[i] = place[i][1]
        storages.append(Storage(size, ordered, tuple(used), at_start, at_end))

    grouped = {s for group in groups for s, _ in group}
    overwrites = _overwrites(graph, target, storages, storage_of, displacement, grouped)
    touched: list[list[int]] = [[] for _ in graph.ops]
    for s, storage in enumerate(storages):
        for i in storage.users:
            touched[i].append(s)
    return MemoryModel(
        graph,
        target,
        tuple(storages),
        storage_of,
        displacement,
        tuple(workspace),
        overwrites,
        tuple(tuple(t) for t in touched),
        tuple(groups),
    )


def body_bytes(graph: Graph, op: Op, target: Target) -> int:
    """Bytes that the bodies of an op need while it runs: the peak of the worst one in own order.

    A body is measured under the target's own rules (see `Target.inside`). What it makes for the op counts beside the
    op's outputs, except in ATen graphs, where the op hands on the very tensors that the body made.
    """
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
    """The model with every size rounded up to its alignment; itself if all of them are multiples already.

    Pieces of one whole stay as they are, as what is in it lies side by side.
    """
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


def _overwrites(
    graph: Graph,
    target: Target,
    storages: list[Storage],
    storage_of: dict[int, int],
    displacement: dict[int, int],
    grouped: Collection[int],
) -> tuple[tuple[Overwrite, ...], ...]:
    """Keep the pairs whose storages allow it: the output fills a storage that this op begins.

    A piece may be written over where the op reads nothing else that lies there; nothing is written into one so.
    """
    tensors = graph.tensor_by_id
    result: list[tuple[Overwrite, ...]] = []
    for i, op in enumerate(graph.ops):
        pairs = []
        for read in target.in_place_inputs(graph, op):
            out = op.outputs[0]
            s, o = storage_of.get(read), storage_of.get(out)
            if s is None or o is None or s == o or displacement[out] or o in grouped:
                continue
            into, begun = storages[s], storages[o]
            size = graph.tensor_by_id[out].size
            if into.at_end or begun.size != size or not _begins_at(graph, begun, i):
                continue
            if into.at_start and not target.overwrite_inputs:
                continue
            if s in grouped and any(t != read and t in into.tensors for t in op.inputs):
                continue
            if any(
                storage_of.get(t) == s
                and _overlap_shifted((displacement[t], tensors[t].size), (displacement[read], size))
                for t in op.inputs
            ):
                continue
            pairs.append(Overwrite(i, out, read, s, size))
        result.append((*pairs, *_overlaps(graph, target, i, op, storages, storage_of, displacement, grouped)))
    return tuple(result)


def _overlaps(
    graph: Graph,
    target: Target,
    position: int,
    op: Op,
    storages: list[Storage],
    storage_of: dict[int, int],
    displacement: dict[int, int],
    grouped: Collection[int],
) -> list[Overwrite]:
    """Inputs that the output may lie over in part: both fill their storages, and the op begins that of the output.

    The output at its lowest ends `distance` bytes less above the input's start than it is long; so much is saved, or
    all of the input.
    """
    allowed = dict(target.overlap_inputs(graph, op))
    pairs: list[Overwrite] = []
    for read in allowed:
        out = op.outputs[0]
        s, o = storage_of.get(read), storage_of.get(out)
        if s is None or o is None or s == o or displacement[out] or displacement[read]:
            continue
        if s in grouped or o in grouped:
            continue
        into, begun = storages[s], storages[o]
        size, over = graph.tensor_by_id[out].size, graph.tensor_by_id[read].size
        if into.at_end or (into.at_start and not target.overwrite_inputs):
            continue
        others = (t for t in op.inputs if storage_of.get(t) == s and t not in allowed)
        if (
            begun.size != size
            or into.size != over
            or not _begins_at(graph, begun, position)
            or next(others, None) is not None
        ):
            continue
        if all(p.storage != s for p in pairs):
            farthest = max(d for t, d in allowed.items() if storage_of.get(t) == s)
            pairs.append(Overwrite(position, out, read, s, min(over, size - farthest), farthest))
    return pairs


def _overlap_shifted(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two stretches of bytes (start, size) overlap without being the same: writing over one spoils the other
    before it is read."""
    return a != b and max(a[0], b[0]) < min(a[0] + a[1], b[0] + b[1])


def _begins_at(graph: Graph, storage: Storage, position: int) -> bool:
    """Whether a storage begins with the op at `position` in every order."""
    others = (j for j in storage.users if j != position)
    return not storage.at_start and all(_reads_only_later(graph, storage, j, position) for j in others)


def _reads_only_later(graph: Graph, storage: Storage, user: int, first: int) -> bool:
    """Whether the op at `user` touches `storage` only through tensors derived from the one made at `first`.

    Own aliases made elsewhere could begin the storage earlier in another order, so they rule overwriting out.
    """
    op = graph.ops[user]
    inside = set(storage.tensors)
    if not any(t in inside for t in op.outputs):
        return True
    return any(t in inside for t in op.inputs) and user > first
