"""Do the offsets hold? Storages that are live together may not share a byte, but for in-place pairs.

Time is swept step by step with the live storages sorted by address, so that a new storage is compared with its
two neighbours only:

    address ^    +-------+            at each step:  new storages in, workspace in and out,
            |    |   b   |--- new                    the dying out, then the output of an in-place op in
            |  +-+---+---+            (its bytes are those of the dying input, which overlap nothing)
            |  |  a  |
            +--+-----+--------> steps
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.sizes import format_count, round_up
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation


def storage_offsets(graph: Graph, plan: Plan, memory: CheckedMemory) -> dict[int, int]:
    """``offsets``: every tensor with bytes has one, its root's and its displacement. Storage to the root's offset.
    Raises `VerificationError`: ``offsets``: of a tensor that is not there, none for one with bytes, or two of one
    storage that do not agree."""
    offsets = by_number(plan.offsets or {}, "offsets")
    for t in offsets:
        if t not in graph.tensor_by_id:
            raise VerificationError("offsets", f"tensor {t} has an offset, but the graph has no such tensor")
    offset_of: dict[int, int] = {}
    for i, storage in enumerate(memory.storages):
        for t in storage.tensors:
            tensor = graph.tensor_by_id[t]
            if t not in offsets:
                if tensor.size:
                    raise VerificationError("offsets", f"{tensor.label} has {tensor.size} bytes and no offset")
                continue
            start = offsets[t] - memory.place[t][1]
            if not tensor.size:
                continue
            if offset_of.setdefault(i, start) != start:
                raise VerificationError(
                    "offsets",
                    f"{tensor.label} is at {offsets[t]}, {memory.place[t][1]} bytes into a storage that "
                    f"another of its tensors puts at {offset_of[i]}",
                )
            if start < 0:
                raise VerificationError("offsets", f"{tensor.label} begins before the arena, at {start}")
    return offset_of


def workspace_offsets(plan: Plan, memory: CheckedMemory) -> dict[int, int]:
    """``workspace``: offsets by op. Raises `VerificationError` if one is of an op that the graph does not have."""
    offsets = by_number(plan.workspace_offsets or {}, "workspace")
    for v in offsets:
        if v not in memory.workspace:
            raise VerificationError("workspace", f"op {v} has a workspace offset, but the graph has no such op")
    return offsets


def check_fixed(graph: Graph, plan: Plan, memory: CheckedMemory, target: Target) -> str:
    """``fixed``: every tensor that has memory and a fixed offset under the target has that offset. Raises
    `VerificationError`: ``fixed``: a tensor has another offset."""
    at = {r.tensor: r.offset for r in plan.residency or ()} or by_number(plan.offsets or {}, "offsets")
    count = 0
    for t in graph.tensors:
        wanted = target.offset(t)
        if wanted is None or t.id not in memory.storage_of or not t.size:
            continue
        count += 1
        if at.get(t.id) != wanted:
            raise VerificationError("fixed", f"{t.label} is at {at.get(t.id)}, and has to be at {wanted}")
    return f"{count:,} tensors at their fixed offsets"


@dataclass(frozen=True)
class _Layout:
    """Offsets of a plan; `at`: of each storage with bytes, its root's; `workspace`: of each op that has one."""

    graph: Graph
    plan: Plan
    memory: CheckedMemory
    simulation: Simulation
    at: dict[int, int]
    workspace: dict[int, int]

    def name(self, i: int) -> str:
        """Of a storage, for messages."""
        return self.graph.tensor_by_id[self.memory.storages[i].name].label

    def workspace_name(self, v: int) -> str:
        """Of an op's workspace, for messages."""
        return f"the workspace of {self.graph.op_by_id[v].label}"

    def bytes_of(self, i: int) -> tuple[int, int]:
        """Begin and end of a storage."""
        low = self.at[i] + self.memory.storages[i].low
        return low, low + self.memory.storages[i].size


def check_layout(graph: Graph, plan: Plan, memory: CheckedMemory, simulation: Simulation) -> tuple[str, dict[int, int]]:
    """Check alignment, the arena's end, in-place pairs and overlaps. Returns what was seen and offsets. Raises
    `VerificationError`: ``offsets``, ``alignment``, ``arena``, ``in_place_offset``, ``workspace`` or ``overlap``."""
    at = storage_offsets(graph, plan, memory)
    layout = _Layout(graph, plan, memory, simulation, at, workspace_offsets(plan, memory))
    on_input = _on_input(graph, memory, simulation, at)
    _check_parts(graph, plan, memory, simulation, at)
    end = max(_check_storages(layout, set(on_input.values())), _check_workspaces(layout))
    _check_overlaps(layout, on_input)
    placed = all(i in at for i, storage in enumerate(memory.storages) if storage.size)
    bound = plan.arena_lower_bound_bytes or 0
    if placed and plan.runtime_parts is None and bound > round_up(end, plan.alignment):
        raise VerificationError("arena", f"everything ends at {end}; the bound of its arena, {bound}, cannot hold")
    blocks = f"{format_count(len(at), 'block')} of memory, of which no two overlap while both are live"
    return f"{blocks}; the last ends at {end:,} of {plan.arena_bytes or 0:,} B", at


def _check_storages(layout: _Layout, on_input: Collection[int]) -> int:
    """Storages begin at multiples of the alignment, but for those in place. Returns where the last one ends."""
    plan, arena, last = layout.plan, layout.plan.arena_bytes or 0, 0
    for i, start in layout.at.items():
        end = layout.bytes_of(i)[1]
        if start % plan.alignment and i not in on_input:
            raise VerificationError("alignment", f"{layout.name(i)} is at {start}, no multiple of {plan.alignment}")
        if end > arena:
            raise VerificationError("arena", f"{layout.name(i)} ends at {end}, beyond the arena of {arena} bytes")
        last = max(last, end)
    return last


def _check_workspaces(layout: _Layout) -> int:
    """Workspaces have aligned offsets, and end in the arena. Returns where the last one ends."""
    plan, arena, last = layout.plan, layout.plan.arena_bytes or 0, 0
    for v, size in layout.memory.workspace.items():
        if not size:
            continue
        name, start = layout.workspace_name(v), layout.workspace.get(v)
        if start is None:
            raise VerificationError("workspace", f"{name}, {size} bytes, has no offset")
        if start < 0 or start % plan.alignment:
            raise VerificationError("alignment", f"{name} is at {start}, no multiple of {plan.alignment}")
        if start + size > arena:
            raise VerificationError("arena", f"{name} ends at {start + size}, beyond the arena of {arena} bytes")
        last = max(last, start + size)
    return last


def _check_overlaps(layout: _Layout, on_input: Mapping[int, int]) -> None:
    """No two storages or workspaces that are live at one step share a byte; `on_input`: in-place op to its output."""
    graph, memory, simulation = layout.graph, layout.memory, layout.simulation
    begins: dict[int, list[int]] = {}
    dies: dict[int, list[int]] = {}
    for i in layout.at:
        begins.setdefault(simulation.first[i], []).append(i)
        dies.setdefault(simulation.last[i], []).append(i)
    live = LiveAddresses()

    def add(i: int, step: int) -> None:
        live.add(*layout.bytes_of(i), layout.name(i), step)

    def touch_workspace(v: int, step: int) -> None:
        if memory.workspace.get(v):
            live.touch(layout.workspace[v], memory.workspace[v], layout.workspace_name(v), step)

    for step, v in [(-1, -1), *enumerate(layout.plan.order)]:
        above = on_input.get(v)
        late = memory.storage_of[graph.op_by_id[v].outputs[0]] if simulation.over.get(v) else None
        for i in begins.get(step, ()):
            if i not in (above, late):
                add(i, step)
        touch_workspace(v, step)
        partly = [memory.storage_of[t] for t in simulation.over.get(v, ())]
        for i in partly:
            live.remove(layout.bytes_of(i)[0])
        if late is not None:
            add(late, step)
            touch_workspace(v, step)
        for i in dies.get(step, ()):
            if i != above and i not in partly:
                live.remove(layout.bytes_of(i)[0])
        if above is not None and simulation.last[above] > step:
            add(above, step)


def aligned_load(
    graph: Graph, memory: CheckedMemory, simulation: Simulation, order: Sequence[int], alignment: int
) -> int:
    """Largest sum, over the steps, of live bytes with every storage rounded up to the alignment, but for parts of
    one. Every arena whose end is rounded up too is at least this large."""

    change = [0] * (len(order) + 2)
    for i, b in enumerate(memory.storages):
        size = b.size if b.part else round_up(b.size, alignment)
        change[max(simulation.first[i], 0)] += size
        change[min(simulation.last[i], len(order)) + 1] -= size
    live = most = 0
    for step, v in enumerate(order):
        live += change[step]
        output_bytes = (
            round_up(graph.tensor_by_id[graph.op_by_id[v].outputs[0]].size, alignment)
            if graph.op_by_id[v].outputs
            else 0
        )
        saved = output_bytes if v in simulation.in_place else 0
        for t in simulation.over.get(v, ()):
            saved = max(saved, min(round_up(graph.tensor_by_id[t].size, alignment), output_bytes - memory.behind[v][t]))
        most = max(most, live + round_up(memory.workspace[v], alignment) - saved)
    return most


class LiveAddresses:
    """Intervals of addresses, sorted, no two of which overlap."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.rest: list[tuple[int, str]] = []

    def add(self, start: int, end: int, name: str, step: int) -> None:
        """Put something there. Raises ``overlap`` if a byte of it is taken."""
        k = bisect_left(self.starts, start)
        for j in (k - 1, k):
            if 0 <= j < len(self.starts) and self.starts[j] < end and self.rest[j][0] > start:
                raise VerificationError(
                    "overlap",
                    f"at step {step}, {name} at {start}..{end} overlaps {self.rest[j][1]} "
                    f"at {self.starts[j]}..{self.rest[j][0]}",
                )
        self.starts.insert(k, start)
        self.rest.insert(k, (end, name))

    def touch(self, start: int, size: int, name: str, step: int) -> None:
        """See that nothing is in the way of something that is gone at once."""
        self.add(start, start + size, name, step)
        self.remove(start)

    def remove(self, start: int) -> None:
        """Take away what begins at `start`."""
        k = bisect_left(self.starts, start)
        del self.starts[k], self.rest[k]


def _on_input(graph: Graph, memory: CheckedMemory, simulation: Simulation, at: Mapping[int, int]) -> dict[int, int]:
    """Op id to the storage of its output, for in-place ops; the output has exactly its input's bytes."""
    result = {}
    for v, read in simulation.in_place.items():
        out = graph.op_by_id[v].outputs[0]
        into = at[memory.storage_of[read]] + memory.place[read][1]
        if at[memory.storage_of[out]] != into:
            raise VerificationError(
                "in_place_offset",
                f"{graph.op_by_id[v].label} runs in place, but its output is at {at[memory.storage_of[out]]} "
                f"and its input at {into}",
            )
        result[v] = memory.storage_of[out]
    return result


def _check_parts(
    graph: Graph, plan: Plan, memory: CheckedMemory, simulation: Simulation, at: Mapping[int, int]
) -> None:
    """Outputs that share bytes of an input that dies keep the distance, and the plan lists what is shared, no more."""
    shared_pairs: set[tuple[int, ...]] = set()
    for v, inputs in simulation.over.items():
        op = graph.op_by_id[v]
        out = op.outputs[0]
        low, size = at[memory.storage_of[out]], graph.tensor_by_id[out].size
        for t in inputs:
            start, length = at[memory.storage_of[t]], graph.tensor_by_id[t].size
            shared = min(low + size, start + length) - max(low, start)
            if shared <= 0:
                continue
            if low + memory.behind[v][t] > start:
                raise VerificationError(
                    "in_place_offset",
                    f"{op.label} writes {graph.tensor_by_id[out].label} at {low} over its input "
                    f"{graph.tensor_by_id[t].label} at {start}, which it still reads: "
                    f"the output must begin {memory.behind[v][t]} bytes lower, or elsewhere",
                )
            shared_pairs.add((out, t) if (low, size) == (start, length) else (out, t, shared))
    listed: set[tuple[int, ...]] = {p for p in plan.in_place if memory.behind[graph.producer[p[0]]]}
    listed |= set(plan.overlap or ())
    for pair in sorted(shared_pairs ^ listed):
        word = "lists" if pair in listed else "does not list"
        raise VerificationError("in_place_offset", f"the plan {word} {list(pair)}, and its offsets say otherwise")


def by_number(table: Mapping[str, int], failure: str) -> dict[int, int]:
    """A table of the plan with its keys as ids. Raises `VerificationError` of this name if one is none."""
    result = {}
    for key, value in table.items():
        if len(key) > 20 or not key.isdecimal() or str(int(key)) != key:
            raise VerificationError(failure, f"{key!r} is no id: ids are decimal numbers")
        result[int(key)] = value
    return result
