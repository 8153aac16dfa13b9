"""From tensors to storages: what occupies memory under a target, and who touches it.

Tensors that share memory (the graph's own aliases, and the target's views) form one storage. An op touches a
storage if it makes or reads one of its tensors. A storage is live from the first step that touches it (graph
inputs: from before step 0) to the last one (graph outputs: to the end). Everything that the schedulers know of
memory is in `MemoryModel`; positions are indices into the graph's own order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.graph import Graph, Kind, Op
from lowtide.target import Target


@dataclass(frozen=True, slots=True)
class Storage:
    """A block of memory.

    `tensors` are ids, the root first; `touchers` positions of the ops that make or read any of them, ascending.
    `at_start`: there before step 0. `at_end`: there after the last step.
    """

    size: int
    tensors: tuple[int, ...]
    touchers: tuple[int, ...]
    at_start: bool
    at_end: bool


@dataclass(frozen=True, slots=True)
class Overwrite:
    """An op at position `op` may put tensor `output` over tensor `input`, if storage `storage` dies there.

    It then saves `saving` bytes while the op runs. With a `distance`, the output lies where it likes as long as it
    begins that many bytes or more below the input or shares no byte with it; without one, exactly on the input.
    """

    op: int
    output: int
    input: int
    storage: int
    saving: int
    distance: int | None = None


@dataclass(frozen=True)
class MemoryModel:
    """A graph under a target, ready for planning.

    Attributes
    ----------
    storages
        Every storage that can occupy memory: no constants (unless the target counts them), no unread inputs.
    storage_of
        Tensor id to index in `storages`; constants and unread inputs are absent.
    displacement
        Tensor id to bytes from the start of its storage.
    workspace
        Per op position, bytes needed while it runs (streamed constants included where the target counts those).
    overwrites
        Per op position, the in-place choices that the target allows.
    touched
        Per op position, the storages it touches, ascending.
    """

    graph: Graph
    target: Target
    storages: tuple[Storage, ...]
    storage_of: dict[int, int]
    displacement: dict[int, int]
    workspace: tuple[int, ...]
    overwrites: tuple[tuple[Overwrite, ...], ...]
    touched: tuple[tuple[int, ...], ...] = field(repr=False)

    @property
    def alignment(self) -> int:
        """Offsets are multiples of this, in bytes."""
        return self.target.alignment


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

    members: dict[int, list[int]] = {}
    for t in graph.tensors:
        members.setdefault(place[t.id][0], []).append(t.id)
    touchers: dict[int, list[int]] = {}
    for i, op in enumerate(graph.ops):
        for root in dict.fromkeys(place[t][0] for t in (*op.outputs, *op.inputs)):
            touchers.setdefault(root, []).append(i)

    by_id, made = graph.tensor_by_id, graph.producer
    storages: list[Storage] = []
    storage_of: dict[int, int] = {}
    displacement: dict[int, int] = {}
    workspace = [target.workspace(graph, op) for op in graph.ops]
    constants = target.constants
    for root, ids in members.items():
        tensors = [by_id[i] for i in ids]
        used = touchers.get(root, [])
        size = max(place[t.id][1] + t.size for t in tensors)
        if by_id[root].kind is Kind.CONSTANT:
            if constants == "while_used":
                for i in used:
                    workspace[i] += size
            if constants != "always" or not used:
                continue
            at_start = at_end = True
        else:
            copies = max(target.copies(t) for t in tensors)
            size = _aligned(size, target.alignment) * (copies - 1) + size if copies else size
            at_end = bool(copies) or any(t.kind is Kind.OUTPUT for t in tensors)
            at_start = bool(copies) or any(t.id not in made and t.kind is not Kind.ACTIVATION for t in tensors)
            if (not used and not at_end) or (at_start and not target.count_inputs):
                continue
            at_end = at_end or (at_start and target.keep_inputs)
        ordered = (root, *(i for i in ids if i != root))
        for i in ids:
            storage_of[i] = len(storages)
            displacement[i] = place[i][1]
        storages.append(Storage(size, ordered, tuple(used), at_start, at_end))

    overwrites = _overwrites(graph, target, storages, storage_of, displacement)
    touched: list[list[int]] = [[] for _ in graph.ops]
    for s, storage in enumerate(storages):
        for i in storage.touchers:
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
    )


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _overwrites(
    graph: Graph,
    target: Target,
    storages: list[Storage],
    storage_of: dict[int, int],
    displacement: dict[int, int],
) -> tuple[tuple[Overwrite, ...], ...]:
    """Keep the pairs whose storages allow it: the output fills a storage that this op begins."""
    sizes = graph.tensor_by_id
    result: list[tuple[Overwrite, ...]] = []
    for i, op in enumerate(graph.ops):
        pairs = []
        for read in target.in_place_inputs(graph, op):
            out = op.outputs[0]
            s, o = storage_of.get(read), storage_of.get(out)
            if s is None or o is None or s == o or displacement[out]:
                continue
            into, begun = storages[s], storages[o]
            size = graph.tensor_by_id[out].size
            begins_here = not begun.at_start and all(
                j == i or _reads_only_later(graph, begun, j, i) for j in begun.touchers
            )
            if into.at_end or begun.size != size or not begins_here:
                continue
            if into.at_start and not target.overwrite_inputs:
                continue
            if any(
                storage_of.get(t) == s
                and _overlap_shifted((displacement[t], sizes[t].size), (displacement[read], size))
                for t in op.inputs
            ):
                continue
            pairs.append(Overwrite(i, out, read, s, size))
        result.append((*pairs, *_overlaps(graph, target, i, op, storages, storage_of, displacement)))
    return tuple(result)


def _overlaps(
    graph: Graph,
    target: Target,
    position: int,
    op: Op,
    storages: list[Storage],
    storage_of: dict[int, int],
    displacement: dict[int, int],
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
        into, begun = storages[s], storages[o]
        size, over = graph.tensor_by_id[out].size, graph.tensor_by_id[read].size
        begins_here = not begun.at_start and all(
            j == position or _reads_only_later(graph, begun, j, position) for j in begun.touchers
        )
        if into.at_end or (into.at_start and not target.overwrite_inputs):
            continue
        others = (t for t in op.inputs if storage_of.get(t) == s and t not in allowed)
        if begun.size != size or into.size != over or not begins_here or next(others, None) is not None:
            continue
        if all(p.storage != s for p in pairs):
            farthest = max(d for t, d in allowed.items() if storage_of.get(t) == s)
            pairs.append(Overwrite(position, out, read, s, min(over, size - farthest), farthest))
    return pairs


def _overlap_shifted(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Whether two stretches of bytes (start, size) overlap without being the same: writing over one spoils the other
    before it is read."""
    return a != b and max(a[0], b[0]) < min(a[0] + a[1], b[0] + b[1])


def _reads_only_later(graph: Graph, storage: Storage, toucher: int, first: int) -> bool:
    """Whether the op at `toucher` touches `storage` only through tensors derived from the one made at `first`.

    Own aliases made elsewhere could begin the storage earlier in another order, so they rule overwriting out.
    """
    op = graph.ops[toucher]
    inside = set(storage.tensors)
    if not any(t in inside for t in op.outputs):
        return True
    return any(t in inside for t in op.inputs) and toucher > first
