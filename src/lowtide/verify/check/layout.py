"""Do the offsets hold? Storages that are live together may not share a byte, but for in-place pairs.

Time is swept step by step with the live storages sorted by address, so that a new storage is compared with its
two neighbours only:

    address ^    +-------+            at each step:  new storages in, workspace in and out,
            |    |   b   |--- new                    the dying out, then the output of an in-place op in
            |  +-+---+---+            (its bytes are those of the dying input, which met nobody)
            |  |  a  |
            +--+-----+--------> steps
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.sizes import round_up
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation


def storage_offsets(graph: Graph, plan: Plan, memory: CheckedMemory) -> dict[int, int]:
    """``offsets``: every tensor with bytes has one, its root's and its displacement. Storage to the root's offset.

    Raises
    ------
    VerificationError
        ``offsets``: of a tensor that is not there, none for one with bytes, or two of one storage that do not agree.
    """
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
                    f"{tensor.label} lies at {offsets[t]}, {memory.place[t][1]} bytes into a storage that "
                    f"another of its tensors puts at {offset_of[i]}",
                )
            if start < 0:
                raise VerificationError("offsets", f"{tensor.label} begins before the arena, at {start}")
    return offset_of


def check_fixed(graph: Graph, plan: Plan, memory: CheckedMemory, target: Target) -> str:
    """``fixed``: every tensor that has memory and a place of its own under the target lies there.

    Raises
    ------
    VerificationError
        ``fixed``: a tensor lies elsewhere.
    """
    at = {r.tensor: r.offset for r in plan.residency or ()} or by_number(plan.offsets or {}, "offsets")
    count = 0
    for t in graph.tensors:
        wanted = target.offset(t)
        if wanted is None or t.id not in memory.storage_of or not t.size:
            continue
        count += 1
        if at.get(t.id) != wanted:
            raise VerificationError("fixed", f"{t.label} lies at {at.get(t.id)}, and is to lie at {wanted}")
    return f"{count:,} tensors where they are to lie"


def check_layout(
    graph: Graph,
    plan: Plan,
    memory: CheckedMemory,
    simulation: Simulation,
    order: Sequence[int],
) -> tuple[str, dict[int, int]]:
    """Check alignment, the arena's end, in-place pairs and overlaps. Returns what was seen and offsets.

    Raises
    ------
    VerificationError
        ``offsets``, ``alignment``, ``arena``, ``in_place_offset``, ``workspace`` or ``overlap``.
    """
    at = storage_offsets(graph, plan, memory)
    workspace = by_number(plan.workspace_offsets or {}, "workspace")
    arena = plan.arena_bytes or 0
    laid_over = _laid_over(graph, memory, simulation, at)
    _check_parts(graph, plan, memory, simulation, at)

    on_input = set(laid_over.values())

    def name(i: int) -> str:
        return graph.tensor_by_id[memory.storages[i].name].label

    def stretch(i: int) -> tuple[int, int]:
        """The bytes of a storage."""
        low = at[i] + memory.storages[i].low
        return low, low + memory.storages[i].size

    end = 0
    for i, start in at.items():
        end = max(end, stretch(i)[1])
        if start % plan.alignment and i not in on_input:
            raise VerificationError("alignment", f"{name(i)} lies at {start}, no multiple of {plan.alignment}")
        if stretch(i)[1] > arena:
            raise VerificationError("arena", f"{name(i)} ends at {stretch(i)[1]}, beyond the arena of {arena} bytes")
    for v in workspace:
        if v not in memory.workspace:
            raise VerificationError("workspace", f"op {v} has a workspace offset, but the graph has no such op")
    for v, size in memory.workspace.items():
        if not size:
            continue
        label = graph.op_by_id[v].label
        if v not in workspace:
            raise VerificationError("workspace", f"the workspace of {label}, {size} bytes, has no offset")
        if workspace[v] < 0 or workspace[v] % plan.alignment:
            raise VerificationError(
                "alignment",
                f"the workspace of {label} lies at {workspace[v]}, no multiple of {plan.alignment}",
            )
        end = max(end, workspace[v] + size)
        if workspace[v] + size > arena:
            raise VerificationError(
                "arena",
                f"the workspace of {label} ends at {workspace[v] + size}, beyond the arena of {arena} bytes",
            )

    begins: dict[int, list[int]] = {}
    dies: dict[int, list[int]] = {}
    for i in at:
        begins.setdefault(simulation.first[i], []).append(i)
        dies.setdefault(simulation.last[i], []).append(i)
    live = LiveAddresses()
    for step, v in [(-1, -1), *enumerate(order)]:
        above = laid_over.get(v)
        late = memory.storage_of[graph.op_by_id[v].outputs[0]] if simulation.over.get(v) else None
        for i in begins.get(step, ()):
            if i not in (above, late):
                live.add(*stretch(i), name(i), step)
        if v >= 0 and memory.workspace.get(v):
            live.touch(workspace[v], memory.workspace[v], f"the workspace of {graph.op_by_id[v].label}", step)
        partly = [memory.storage_of[t] for t in simulation.over.get(v, ())]
        for i in partly:
            live.remove(stretch(i)[0])
        if late is not None:
            live.add(*stretch(late), name(late), step)
            if memory.workspace.get(v):
                live.touch(workspace[v], memory.workspace[v], f"the workspace of {graph.op_by_id[v].label}", step)
        for i in dies.get(step, ()):
            if i != above and i not in partly:
                live.remove(stretch(i)[0])
        if above is not None and simulation.last[above] > step:
            live.add(*stretch(above), name(above), step)
    placed = all(i in at for i, storage in enumerate(memory.storages) if storage.size)
    bound = plan.arena_lower_bound_bytes or 0
    if placed and plan.runtime_parts is None and bound > round_up(end, plan.alignment):
        raise VerificationError("arena", f"everything ends at {end}; the bound of its arena, {bound}, cannot hold")
    return f"{len(at):,} storages end at {end:,} of {arena:,} B, no two live ones overlap", at


def aligned_load(
    graph: Graph, memory: CheckedMemory, simulation: Simulation, order: Sequence[int], alignment: int
) -> int:
    """Largest sum, over the steps, of live bytes with every storage rounded up to the alignment, parts of wholes apart.

    Every arena whose end is rounded up too is at least this large.
    """

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
        """Put something there; ``overlap`` if a byte of it is taken.

        Raises
        ------
        VerificationError
            ``overlap``: a byte of it is taken.
        """
        k = bisect_left(self.starts, start)
        for j in (k - 1, k):
            if 0 <= j < len(self.starts) and self.starts[j] < end and self.rest[j][0] > start:
                raise VerificationError(
                    "overlap",
                    f"at step {step}, {name} at {start}..{end} lies over {self.rest[j][1]} "
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


def _laid_over(graph: Graph, memory: CheckedMemory, simulation: Simulation, at: Mapping[int, int]) -> dict[int, int]:
    """Op id to the storage of its output, for in-place ops; the output lies exactly on its input's bytes."""
    result = {}
    for v, read in simulation.in_place.items():
        out = graph.op_by_id[v].outputs[0]
        into = at[memory.storage_of[read]] + memory.place[read][1]
        if at[memory.storage_of[out]] != into:
            raise VerificationError(
                "in_place_offset",
                f"{graph.op_by_id[v].label} runs in place, but its output lies at {at[memory.storage_of[out]]} "
                f"and its input at {into}",
            )
        result[v] = memory.storage_of[out]
    return result


def _check_parts(
    graph: Graph, plan: Plan, memory: CheckedMemory, simulation: Simulation, at: Mapping[int, int]
) -> None:
    """Outputs that lie over an input that dies keep the distance, and the plan lists what is shared, no more."""
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
    makers = {t: op.id for op in graph.ops for t in op.outputs}
    listed: set[tuple[int, ...]] = {p for p in plan.in_place if memory.behind[makers[p[0]]]}
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
