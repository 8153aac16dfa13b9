"""A sequence of op instances over a graph, with the lifetimes that follow, and what it holds step by step.

An op may occur several times. A consumer reads what the last instance of the producer before it made; so a
tensor dies after the last instance that reads it before its op is recomputed, and what has no consumer dies in the
instance that makes it. A result of the graph lives from its op's last instance to the end.

::

    a  b  c  a'  d        a' makes anew what a made: between b and a' nothing of it is in memory
    |--|     |---|
    a  b  S  c  L  d      so does a load L, once a store S has ended: S began after a, and d waits for L
    |-----|     |--|
"""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from dataclasses import dataclass

from lowtide.graph import Graph, Kind, Op
from lowtide.torch.swap import entry_of


@dataclass(frozen=True, slots=True)
class Instance:
    """One run of the op with that id, or a transfer (`lowtide.torch.swap`). `made` are the names of what it makes and
    another op reads; `recomputed`: not its first run; `begins`: names of the tensors whose stores begin after it;
    `waits`: of those whose loads must have ended before it; `moved`: of a transfer the name, and whether it is
    loaded."""

    op: int
    made: frozenset[str]
    recomputed: bool
    begins: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    moved: tuple[str, bool] | None = None


@dataclass(frozen=True)
class Sequence:
    """Instances in order; `dies` are, for each, the names of the tensors that die after it.

    `footprint` is bytes held while each runs, workspace and unread results included; what is given does not count.
    """

    instances: tuple[Instance, ...]
    dies: tuple[tuple[str, ...], ...]
    footprint: tuple[int, ...]

    @property
    def peak_bytes(self) -> int:
        """Largest footprint."""
        return max(self.footprint, default=0)

    @property
    def ops(self) -> tuple[int, ...]:
        """Ids of the ops as they run."""
        return tuple([instance.op for instance in self.instances])


def sequence_of(graph: Graph, order: Ordered[int]) -> Sequence:
    """Lifetimes and footprints of ops that run in this order. Raises `ValueError`: an op reads what no op made, or
    runs after an op that changes what it reads, or is random and runs twice, or writes and runs twice; or an op is
    missing, or runs before one that it must stay after."""
    why = why_not(graph, order)
    if why is not None:
        raise ValueError(why)
    begins, waits, last_read = _reads(graph, order)
    by_id = graph.tensor_by_id
    dies: list[list[str]] = [[] for _ in order]
    made: list[set[str]] = [set() for _ in order]
    change = [0] * (len(order) + 1)
    for step, op_id in enumerate(order):
        for t in _touched(graph, op_id)[1]:
            if t not in graph.producer or by_id[t].alias_of is not None:
                continue
            end = last_read.get((t, step), step)
            change[step] += by_id[t].size
            if end < len(order):
                change[end + 1] -= by_id[t].size
            if (t, step) in last_read:
                made[step].add(by_id[t].name)
                if end < len(order):
                    dies[end].append(by_id[t].name)
    seen: set[int] = set()
    instances, footprint, live = [], [], 0
    for step, op_id in enumerate(order):
        live += change[step]
        footprint.append(live + (graph.op_by_id[op_id].workspace if op_id in graph.op_by_id else 0))
        around = tuple(begins[step]), tuple(waits[step]), _named(graph, op_id)
        instances.append(Instance(op_id, frozenset(made[step]), op_id in seen, *around))
        seen.add(op_id)
    return Sequence(tuple(instances), tuple([tuple(names) for names in dies]), tuple(footprint))


def _reads(graph: Graph, order: Ordered[int]) -> tuple[list[list[str]], list[list[str]], dict[tuple[int, int], int]]:
    """For each step the names of the tensors whose stores begin after it, and of those whose loads it waits for.

    And the last step that reads each value, by tensor and the step that made it; the end for a result.
    """
    names = {t.id: t.name for t in graph.tensors}
    made_at: dict[int, int] = {}
    last_read: dict[tuple[int, int], int] = {}
    begins: list[list[str]] = [[] for _ in order]
    waits: list[list[str]] = [[] for _ in order]
    coming: dict[int, str] = {}
    begun = 0
    for step, op_id in enumerate(order):
        inputs, outputs = _touched(graph, op_id)
        moved = entry_of(graph, op_id)
        if moved is not None and not moved[1]:  # it begins when the value is there, after the stores before
            begun = max(begun, made_at[moved[0]])
            begins[begun].append(names[moved[0]])
        for t in inputs:
            if t in made_at:
                last_read[t, made_at[t]] = step
            if t in coming:
                waits[step].append(coming.pop(t))
        made_at.update(dict.fromkeys(outputs, step))
        if moved is not None and moved[1]:
            coming[moved[0]] = names[moved[0]]
    for t in graph.tensors:
        if t.id in graph.producer and t.alias_of is None and t.kind is Kind.OUTPUT:
            last_read[t.id, made_at[t.id]] = len(order)
    return begins, waits, last_read


def _named(graph: Graph, entry: int) -> tuple[str, bool] | None:
    """The name of what a transfer moves, and whether it is loaded."""
    moved = entry_of(graph, entry)
    return None if moved is None else (graph.tensor_by_id[moved[0]].name, moved[1])


def _touched(graph: Graph, entry: int) -> tuple[Ordered[int], Ordered[int]]:
    """What an entry of a sequence reads and makes."""
    moved = entry_of(graph, entry)
    if moved is None:
        op = graph.op_by_id[entry]
        return op.inputs, op.outputs
    return ((), (moved[0],)) if moved[1] else ((moved[0],), ())


def why_not(graph: Graph, order: Ordered[int]) -> str | None:
    """None if ops may run in this order, each once or more; else the reason."""
    there: set[int] = set()
    done: set[int] = set()
    writers = writers_over(graph)
    stored: set[int] = set()
    for op_id in order:
        moved = entry_of(graph, op_id)
        if moved is not None:
            why = _why_not_moved(graph, *moved, there, stored)
            if why is not None:
                return why
            continue
        op = graph.op_by_id[op_id]
        for t in op.inputs:
            if t in graph.producer and t not in there:
                return f"{op.label} reads {graph.tensor_by_id[t].label}, which is not made yet"
        if op_id in done:
            if runs_once(graph, op):
                return f"{op.label} cannot run twice"
            writer = next((w for w in writers.get(op_id, ()) if w in done), None)
            if writer is not None:
                return f"{op.label} runs again after {graph.op_by_id[writer].label}, which changes what it reads"
        elif any(other not in done for other in op.after):
            return f"{op.label} runs before an op that it must stay after"
        there.update(op.outputs)
        done.add(op_id)
    missing = len(graph.ops) - len(done)
    return f"{missing} ops do not run" if missing else None


def _why_not_moved(graph: Graph, number: int, load: bool, there: set[int], stored: set[int]) -> str | None:
    """None if a tensor may be stored or loaded now; else the reason."""
    tensor = graph.tensor_by_id.get(number)
    if tensor is None or tensor.kind is not Kind.ACTIVATION or tensor.alias_of is not None:
        return f"there is no tensor {number} that may leave memory"
    if load and number not in stored:
        return f"{tensor.label} is loaded before it is stored"
    if not load and (number not in there or number in stored):
        return f"{tensor.label} is stored twice, or before it is made"
    stored.add(number)
    return None


def runs_once(graph: Graph, op: Op) -> bool:
    """Whether an op is random, or changes memory that is there."""
    return bool(op.attributes.get("random")) or any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs)


def writers_over(graph: Graph) -> dict[int, tuple[int, ...]]:
    """For each op, the ops that change memory that it reads: after these it must not be recomputed."""
    writers: dict[int, list[int]] = {}
    for op in graph.ops:
        for t in op.outputs:
            root = graph.tensor_by_id[t].alias_of
            if root is not None:
                writers.setdefault(root, []).append(op.id)
    return {
        op.id: tuple([w for t in op.inputs for w in writers.get(t, ()) if w != op.id])
        for op in graph.ops
        if any(t in writers for t in op.inputs)
    }
