"""The place and lifetime of each block, as every exporter needs it: from a plan, or from buffers that were placed.

A *block* is memory that holds something for some steps: a storage, an op's workspace, or a buffer of a CSV. A *place*
is a name that code looks up: every tensor has one, also those that lie inside another one's storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lowtide.allocate.buffers import Buffer
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.target import Target
from lowtide.write.declared import Declared, declared_of

ARENA = "arena"  # name of the memory where there is only one


@dataclass(frozen=True, slots=True)
class Region:
    """A memory: bytes that the layout takes of it, bytes there are (None: as many as it takes), and its alignment."""

    name: str
    size: int
    alignment: int
    capacity: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A name, and its place: memory, bytes from that memory's start, bytes. `purpose` is the tensor's kind,
    ``workspace`` or ``buffer``."""

    name: str
    purpose: str
    memory: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes that are in use in each step of `spans` (half-open pairs of steps, ascending).

    `over` is the index of the block that this one is written over, in place, in its first step.
    """

    name: str
    purpose: str
    memory: str
    offset: int
    size: int
    spans: tuple[tuple[int, int], ...]
    alignment: int = 1
    over: int | None = None


@dataclass(frozen=True)
class ArenaMap:
    """A layout; `steps` is how many there are.

    `declared`: memory to the array that firmware declares there, where a runtime needs more than the layout takes;
    `head` and `tail`: the memories in which the runtime's head and tail lie, if there are several. `operators`: types
    that a TFLM resolver has to know, where a .tflite file is planned.
    """

    name: str
    memories: tuple[Region, ...]
    places: tuple[Place, ...]
    blocks: tuple[Block, ...] = ()
    steps: int = 0
    declared: Mapping[str, Declared] = field(default_factory=dict)
    head: str = ""
    tail: str = ""
    operators: tuple[str, ...] = ()


def map_of_plan(plan: Plan, graph: Graph, target: Target) -> ArenaMap:
    """The layout of a plan: its places, and the blocks with their steps. `plan`: a plan with an arena, or with
    several memories and no moves. `graph`, `target`: those that the plan was made for."""
    model = memory_model(graph, target)
    position = {op.id: i for i, op in enumerate(graph.ops)}
    steps = profile(model, [position[o] for o in plan.order])
    step_of = {op: step for step, op in enumerate(plan.order)}
    n = max(len(plan.order), 1)
    home = _homes(plan)
    places = [
        Place(t.name or f"tensor_{t.id}", t.kind, *home[t.id], t.size) for t in plan.tensors if t.id in home and t.size
    ]
    places += [
        Place(f"{p.name}_second", p.purpose, p.memory, p.offset + -(-p.size // plan.alignment) * plan.alignment, p.size)
        for p in places
        if p.name in target.double_buffered
    ]
    blocks: list[Block] = []
    block_of: dict[int, int] = {}
    for s, storage in enumerate(model.storages):
        tensor = next((t for t in storage.tensors if t in home), None)
        if tensor is None or not storage.size:
            continue
        root = graph.tensor_by_id[storage.tensors[0]]
        block_of[s] = len(blocks)
        span = (max(steps.first[s], 0), min(steps.last[s] + 1, n))
        purpose = min(
            (str(graph.tensor_by_id[t].kind) for t in storage.tensors),
            key=("output", "input", "constant", "activation").index,
        )
        memory, at = home[tensor]
        start = at - model.displacement[tensor]
        blocks.append(
            Block(root.name or f"tensor_{root.id}", purpose, memory, start, storage.size, (span,), plan.alignment)
        )
    for output, read in [*plan.in_place, *((output, read) for output, read, _ in plan.overlap or ())]:
        i, j = block_of[model.storage_of[output]], block_of[model.storage_of[read]]
        blocks[i] = replace(blocks[i], over=j)
    for op, at in sorted((int(o), at) for o, at in (plan.workspace_offsets or {}).items()):
        step = step_of[op]
        name = graph.op_by_id[op].name or f"op_{op}"
        size = model.workspace[position[op]]
        memory = (plan.workspace_memories or {}).get(str(op), _arena_of(plan))
        places.append(Place(name, "workspace", memory, at, size))
        blocks.append(Block(name, "workspace", memory, at, size, ((step, step + 1),), plan.alignment))
    regions = _regions(plan, blocks)
    declared = {name or regions[0].name: arena for name, arena in declared_of(plan).items()}
    arenas = plan.runtime_arenas
    where = ("", "") if arenas is None else (arenas.head_memory, arenas.tail_memory)
    types = tuple(sorted({op.type for op in graph.ops})) if graph.dialect == "tflite" else ()
    return ArenaMap(plan.graph, tuple(regions), tuple(places), tuple(blocks), len(plan.order), declared, *where, types)


def _regions(plan: Plan, blocks: Sequence[Block]) -> list[Region]:
    """The memories of a plan."""
    ends = {m.name: 0 for m in plan.memories or ()}
    for b in blocks:
        ends[b.memory] = max(ends.get(b.memory, 0), b.offset + b.size)
    regions = [
        Region(
            m.name,
            ends[m.name] if m.size_bytes is None or plan.runtime_arenas is not None else m.size_bytes,
            max(plan.alignment, m.alignment),
            m.capacity_bytes,
        )
        for m in plan.memories or ()
    ]
    return regions or [Region(ARENA, plan.arena_bytes or 0, plan.alignment)]


def _homes(plan: Plan) -> dict[int, tuple[str, int]]:
    """Tensor id to its memory and its offset there."""
    if plan.residency is not None:
        return {r.tensor: (r.memory, r.offset) for r in plan.residency}
    return {int(t): (_arena_of(plan), offset) for t, offset in (plan.offsets or {}).items()}


def _arena_of(plan: Plan) -> str:
    """The memory that offsets are in: a runtime's head has one of its own where there are several."""
    return ARENA if plan.runtime_arenas is None else plan.runtime_arenas.head_memory


def map_of_buffers(
    name: str,
    buffers: Sequence[Buffer],
    offsets: Mapping[str, int],
    capacity: int | None = None,
    memory_of: Mapping[str, str] | None = None,
    regions: Mapping[str, tuple[int, int]] | None = None,
) -> ArenaMap:
    """The layout of plain buffers. `offsets`: bytes from the start of the memory, by name. `capacity`: bytes there
    are in the one memory, if known. `memory_of`, `regions`: with several memories, the one that holds a buffer, and
    the bytes and the alignment of each."""
    home = memory_of or {}
    blocks = tuple(
        Block(
            b.name,
            "buffer",
            home.get(b.name, ARENA),
            offsets[b.name],
            b.size,
            tuple((p.start, p.end) for p in b.rectangles),
            b.alignment,
        )
        for b in buffers
        if b.rectangles
    )
    known: Mapping[str, tuple[int | None, int]] = {ARENA: (capacity, 1)} if regions is None else regions
    result = []
    for memory, (room, unit) in known.items():
        inside = [b for b in blocks if b.memory == memory]
        height = max((b.offset + b.size for b in inside), default=0)
        result.append(Region(memory, height, max([unit, *(b.alignment for b in inside)]), room))
    places = tuple(Place(b.name, b.purpose, b.memory, b.offset, b.size) for b in blocks)
    return ArenaMap(name, tuple(result), places, blocks, max((b.end for b in buffers), default=0))
