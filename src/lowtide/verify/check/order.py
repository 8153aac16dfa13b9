"""Is the plan about this graph, is its order possible, and what does it cost?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.sizes import format_count
from lowtide.verify.check.memory import CheckedMemory


@dataclass(frozen=True)
class Simulation:
    """An order run step by step."""

    footprint: tuple[int, ...]  # bytes at each step
    # first, last: per storage, the steps between which it is live, both inclusive; -1 is before step 0, and the number
    # of steps is the end.
    first: tuple[int, ...]
    last: tuple[int, ...]
    in_place: Mapping[int, int]  # op id to the input tensor that it wrote over, exactly
    # Op id to the input tensors that die there and that its output may lie over in part.
    over: Mapping[int, tuple[int, ...]]

    @property
    def peak(self) -> int:
        """Largest footprint in bytes, 0 without steps."""
        return max(self.footprint, default=0)


def simulate(
    graph: Graph, memory: CheckedMemory, order: Sequence[int], claimed: Mapping[int, int] | None = None
) -> Simulation:
    """Run an order of op ids with the set of live storages in hand. `claimed`: op id to the input that the op writes
    over, and no op else does. Without it every op that can does; so does, with or without, an op whose output may lie
    over an input in part. Raises `VerificationError`: ``in_place``: a claimed input is still needed after the op."""
    storages = memory.storages
    waiting = [set(b.users) for b in storages]
    live = {i for i, b in enumerate(storages) if b.at_start}
    first = [-1 if b.at_start else len(order) for b in storages]
    last = [len(order) if b.at_end else -1 for b in storages]
    live_bytes = sum(storages[i].size for i in live)
    footprint: list[int] = []
    in_place: dict[int, int] = {}
    over: dict[int, tuple[int, ...]] = {}
    for step, v in enumerate(order):
        for i in memory.touches[v]:
            if i not in live:
                live.add(i)
                live_bytes += storages[i].size
                first[i] = step
            waiting[i].discard(v)
        options = [t for t in memory.overwritable[v] if not waiting[memory.storage_of[t]]]
        if memory.behind[v]:
            over[v] = tuple(options)
        elif claimed is not None and v in claimed:
            if claimed[v] not in options:
                storage = memory.storage_of[claimed[v]]
                raise VerificationError(
                    "in_place",
                    f"{graph.op_by_id[v].label} at step {step} is to write over "
                    f"{graph.tensor_by_id[claimed[v]].label}, whose storage "
                    f"{graph.op_by_id[min(waiting[storage])].label} still needs",
                )
            options = [claimed[v]]
        elif claimed is not None:
            options = []
        saving = 0
        if options:
            saving = max(memory.saved[v][t] for t in options)
            if not memory.behind[v]:
                in_place[v] = options[0]
        footprint.append(live_bytes + memory.workspace[v] - saving)
        for i in memory.touches[v]:
            if not waiting[i] and not storages[i].at_end:
                live.remove(i)
                live_bytes -= storages[i].size
                last[i] = step
    return Simulation(tuple(footprint), tuple(first), tuple(last), in_place, over)


def check_ids(graph: Graph, plan: Plan, memory: CheckedMemory) -> str:
    """``ids``: the plan's ops, folded ops and tensors are those of the graph, with their names and sizes. Raises
    `VerificationError`: ``ids``: the first op or tensor that is missing, listed twice, unknown or different."""
    op_of = {op.id: op for op in graph.ops}
    folded = {op.id: op for op in graph.folded}
    seen = Counter(op.id for op in plan.ops)
    for op in plan.ops:
        own = op_of.get(op.id, folded.get(op.id))
        if own is None or seen[op.id] > 1:
            why = "twice" if own is not None else "but the graph has no such op"
            raise VerificationError("ids", f"the plan lists op {op.id} {why}")
        if (op.name, op.type) != (own.name, own.type):
            raise VerificationError(
                "ids", f"the plan calls op {op.id} {op.name!r} ({op.type}); the graph calls it {own.label}"
            )
    for v in op_of:
        if v not in seen:
            raise VerificationError("ids", f"the plan does not list {op_of[v].label}")
    if sorted(plan.folded) != sorted(folded):
        raise VerificationError("ids", f"the plan folds ops {sorted(plan.folded)}; the graph {sorted(folded)}")

    tensors = Counter(t.id for t in plan.tensors)
    for t in plan.tensors:
        own = graph.tensor_by_id.get(t.id)
        if own is None or tensors[t.id] > 1:
            why = "twice" if own is not None else "but the graph has no such tensor"
            raise VerificationError("ids", f"the plan lists tensor {t.id} {why}")
        shape = None if own.shape is None else "x".join(map(str, own.shape))
        for what, a, b in (
            ("name", t.name, own.name),
            ("size", t.size, own.size),
            ("kind", t.kind, own.kind.value),
            ("alias_of", t.alias_of, memory.alias_of.get(t.id)),
            ("dtype", own.dtype if t.dtype is None else t.dtype, own.dtype),
            ("shape", shape if t.shape is None else t.shape, shape),
        ):
            if a != b:
                raise VerificationError("ids", f"{own.label} has {what} {a!r} in the plan and {b!r} in the graph")
    for t in graph.tensors:
        if t.id not in tensors and t.kind is not Kind.CONSTANT:
            raise VerificationError("ids", f"the plan does not list {t.label}")
    ops, tensors = format_count(len(op_of), "op"), format_count(len(graph.tensors), "tensor")
    constant = f", {format_count(len(folded), 'op')} of constants alone" if folded else ""
    return f"{ops}{constant} and {tensors}, as in the graph that the plan is for"


def check_new_names(user: Graph, graph: Graph) -> None:
    """Tensors of the plan have names of their own, where a file knows tensors by their names. Raises ``ids``."""
    own, names = {t.id for t in user.tensors}, Counter(t.name for t in graph.tensors)
    for t in graph.tensors if graph.dialect == "onnx" else ():
        if t.id not in own and t.name and names[t.name] > 1:
            raise VerificationError("ids", f"tensor {t.id} of the plan has the name of another one, {t.name!r}")


def check_order(graph: Graph, order: Sequence[int]) -> str:
    """``order``: every op once, after the ops that make its inputs and those it is `after`. Raises `VerificationError`:
    ``order``: the first op that is unknown, runs twice or too early, or is missing."""
    makers = graph.producer
    op_of = {op.id: op for op in graph.ops}
    done: set[int] = set()
    for step, v in enumerate(order):
        if v not in op_of:
            raise VerificationError("order", f"step {step} runs op {v}, which is no op to run")
        if v in done:
            raise VerificationError("order", f"step {step} runs {op_of[v].label} a second time")
        for t in op_of[v].inputs:
            if t in makers and makers[t] not in done:
                raise VerificationError(
                    "order",
                    f"{op_of[v].label} at step {step} reads {graph.tensor_by_id[t].label}, "
                    f"which {op_of[makers[t]].label} has not made yet",
                )
        for u in op_of[v].after:
            if u in op_of and u not in done:
                raise VerificationError("order", f"{op_of[v].label} at step {step} must run after {op_of[u].label}")
        done.add(v)
    for v in op_of:
        if v not in done:
            raise VerificationError("order", f"{op_of[v].label} is not run")
    return f"{format_count(len(order), 'op')}: each runs once, after all ops whose results it reads"


def claimed_pairs(graph: Graph, plan: Plan, memory: CheckedMemory) -> dict[int, int]:
    """``in_place``: each pair is one that the target allows, and an op has one at most. Op id to input id. Pairs
    that may overlap in part are judged with the offsets (`check_layout`), and are not in the result. Raises
    `VerificationError`: ``in_place``: the first pair that the target does not allow, or the second one of an op."""
    claimed: dict[int, int] = {}
    if len(set(plan.in_place)) < len(plan.in_place):
        raise VerificationError("in_place", "a tensor is listed twice over the same input")
    for out, read in plan.in_place:
        v = graph.producer.get(out)
        if v is None:
            raise VerificationError("in_place", f"no op makes tensor {out}, which is listed over tensor {read}")
        op = graph.op_by_id[v]
        if read not in memory.overwritable[v]:
            raise VerificationError(
                "in_place", f"{op.label} may not put tensor {out} over tensor {read} under this target"
            )
        if memory.behind[v]:
            continue
        if v in claimed:
            raise VerificationError("in_place", f"{op.label} is to write over two inputs")
        claimed[v] = read
    for out, read, size in plan.overlap or ():
        v = graph.producer.get(out)
        if v is None or read not in memory.behind[v]:
            raise VerificationError(
                "in_place", f"tensor {out} is to overlap tensor {read} by {size} bytes, which the target does not allow"
            )
    return claimed


def needed(graph: Graph, op: int) -> list[int]:
    """Ops that an op directly waits for, in file order; none of an op that the graph does not have."""
    return [graph.ops[i].id for i in graph.predecessors[graph.index_of[op]]] if op in graph.index_of else []


def ancestors(graph: Graph, op: int) -> set[int]:
    """Ops that run before an op in every order."""
    found: set[int] = set()
    stack = [op]
    while stack:
        new = [u for u in needed(graph, stack.pop()) if u not in found]
        found.update(new)
        stack += new
    return found


def descendants(graph: Graph, op: int) -> set[int]:
    """Ops that run after an op in every order."""
    found = {op}
    for other in graph.ops[graph.index_of[op] + 1 :]:
        if not found.isdisjoint(needed(graph, other.id)):
            found.add(other.id)
    return found - {op}
