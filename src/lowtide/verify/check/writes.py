"""Does every op read the bytes that it reads in the file order, where ops write over what others hold?

Own order is played with a mark for each byte: which op wrote it last. What an op reads is the marks of its inputs'
bytes. Then the plan's order is played, and every op has to read the same marks; at the end every byte has to be of the
op that it is of in file order. Only memory that is written over is looked at: an op's `Op.writes` says so, or it makes
an alias and `Op.writes` is None. An op with ``writes=()`` leaves no mark on what others hold.

The result of a recomputed op holds the value as its maker leaves it, a tensor loaded from the host the value as it was
stored, with what was written until then. An op that reads one of these in the place of the user's tensor has to read
the same bytes in file order.

Nothing here looks at `Op.after`: that a reader comes before a writer is not believed, but played.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import Recompute, Swap
from lowtide.sizes import format_count

_Marks = tuple[tuple[int, int, int], ...]  # stretches of bytes, begin and end, and the op that wrote each; -1: none did


@dataclass
class _Root:
    """Memory that several tensors share, as stretches that end where the next begins."""

    stretches: list[tuple[int, int, int]]

    def marks(self, begin: int, end: int) -> _Marks:
        """What is in a range; neighbours of one op are one."""
        merged: list[tuple[int, int, int]] = []
        for low, high, op in self.stretches:
            low, high = max(low, begin), min(high, end)
            if low >= high:
                continue
            if merged and merged[-1][2] == op:
                merged[-1] = (merged[-1][0], high, op)
            else:
                merged.append((low, high, op))
        return tuple(merged)

    def write(self, begin: int, end: int, op: int) -> None:
        """Mark a range."""
        kept = []
        for low, high, other in self.stretches:
            if low < begin:
                kept.append((low, min(high, begin), other))
            if high > end:
                kept.append((max(low, end), high, other))
        self.stretches = sorted([*kept, (begin, end, op)])


class _Shared:
    """The memory of a graph that is written over.

    `users`: the graph of whose memory it is, if `graph` is that one with a plan's new ops: its tensors lie where they
    lie there, and what makes one has the mark of the op that makes it there.
    """

    def __init__(self, graph: Graph, users: Graph | None = None) -> None:
        first = graph if users is None else users
        self.graph, self.maker = graph, first.producer
        self.tensors = {t.id: t for t in (*graph.tensors, *first.tensors)}
        self.roots = {self._place(t)[0] for op in first.ops for t in _over(self.tensors, op)}

    def _place(self, t: int) -> tuple[int, int]:
        """Root, and bytes from its start."""
        at, shift = self.tensors[t], 0
        while at.alias_of is not None:
            shift += at.alias_offset
            at = self.tensors[at.alias_of]
        return at.id, shift

    def span(self, t: int) -> tuple[int, int, int] | None:
        """Root, begin and end of a tensor in memory that is written over."""
        root, shift = self._place(t)
        size = self.tensors[t].size
        return (root, shift, shift + size) if size and root in self.roots else None

    def empty(self) -> dict[int, _Root]:
        """Before the first op."""
        ends = dict.fromkeys(self.roots, 0)
        for t in self.tensors:
            place = self.span(t)
            if place is not None:
                ends[place[0]] = max(ends[place[0]], place[2])
        return {root: _Root([(0, end, -1)]) for root, end in ends.items()}

    def run(self, memory: Mapping[int, _Root], op: Op) -> dict[int, _Marks]:
        """Run an op: what it reads, by tensor; what it writes is marked."""
        seen = {}
        for t in dict.fromkeys(op.inputs):
            place = self.span(t)
            if place is not None:
                seen[t] = memory[place[0]].marks(*place[1:])
        made = {t: self.maker.get(t, op.id) for t in op.outputs if self.tensors[t].alias_of is None}
        for t, mark in (made | dict.fromkeys(_over(self.tensors, op), op.id)).items():
            place = self.span(t)
            if place is not None:
                memory[place[0]].write(*place[1:], mark)
        return seen


class _Copies:
    """Recomputed and loaded tensors, of those whose own memory is written over.

    `of`: the user's tensor of each; `held`: the marks of its bytes, from the step on that makes it.
    """

    def __init__(self, changed: Graph, plan: Plan, own: _Shared) -> None:
        self.own, self.lies_in = own, {t.id: t.alias_of for t in changed.tensors}
        self.of: dict[int, int] = {}
        self.store_of: dict[int, int] = {}
        self.stored: dict[int, _Marks] = {}
        self.held: dict[int, _Marks] = {}
        for r in plan.rewrites or ():
            if isinstance(r, Recompute) and r.of in changed.op_by_id:
                self.of |= {
                    new: self.of.get(t, t) for t, new in zip(changed.op_by_id[r.of].outputs, r.outputs, strict=True)
                }
            elif isinstance(r, Swap):
                self.of |= {load.output: r.tensor for load in r.loads}
                self.store_of |= {load.op: r.store for load in r.loads}

    def run(self, op: Op, seen: Mapping[int, _Marks]) -> None:
        """Run an op of the plan, which has read this."""
        for t in seen:
            self.stored[op.id] = seen[t]
        for new in op.outputs:
            place = self.own.span(self.of[new]) if new in self.of and new not in self.own.tensors else None
            if place is None:
                continue
            if op.id in self.store_of:
                self.held[new] = self.stored.get(self.store_of[op.id], ())
            elif (source := self.lies_in.get(new)) is None:
                self.held[new] = ((*place[1:], self.own.maker[self.of[new]]),)
            elif source in self.held:
                self.held[new] = _Root([*self.held[source]]).marks(*place[1:])


def check_writes(graph: Graph, changed: Graph, plan: Plan) -> str | None:
    """``writes``: no op reads bytes that were written over too early or too late. None where nothing is written
    over. `graph`: the user's, whose file order says who reads what. `changed`: with the plan's new ops, of which the
    plan's order speaks. Raises `VerificationError`: ``writes``: the first op that reads what another op wrote than
    in file order, or what is left at the end."""
    own = _Shared(graph)
    if not own.roots:
        return None
    memory = own.empty()
    expected = {op.id: own.run(memory, op) for op in graph.ops}
    of_tensor: dict[int, set[_Marks]] = {}
    for seen in expected.values():
        for t, marks in seen.items():
            of_tensor.setdefault(t, set()).add(marks)
    origin = {op.id: op.recompute_of for op in plan.ops if op.recompute_of is not None}
    shared, ops, copies = _Shared(changed, graph), {op.id: op for op in changed.ops}, _Copies(changed, plan, own)
    played, reads = shared.empty(), 0
    for step, v in enumerate(plan.order):
        first, op = origin.get(v, v), ops[v]
        seen = shared.run(played, op)
        seen |= {t: copies.held[t] for t in op.inputs if t in copies.held}
        for t, marks in seen.items():
            reads += 1
            user = copies.of[t] if t in copies.held else t
            allowed = {expected[first][user]} if user in expected.get(first, ()) else of_tensor.get(user, set())
            if marks not in allowed:
                raise VerificationError("writes", _wrong(changed, op, step, t, marks, allowed))
        copies.run(op, seen)
    for root, left in memory.items():
        end = max((end for _, end, _ in left.stretches), default=0)
        if played[root].marks(0, end) != left.marks(0, end):
            label = own.tensors[root].label
            raise VerificationError("writes", f"{label} ends with other bytes than in file order: ops write in another")
    return f"{format_count(reads, 'read')} of memory that ops write over, each of what it reads in file order"


def _wrong(graph: Graph, op: Op, step: int, t: int, marks: _Marks, allowed: Iterable[_Marks]) -> str:
    """Who wrote what is read, and who should have."""
    ops = {other.id: other.label for other in graph.ops}
    meant = {mark for one in allowed for _, _, mark in one}
    name = next((ops[mark] for _, _, mark in marks if mark not in meant and mark in ops), "no op")
    return f"{op.label} at step {step} reads {graph.tensor_by_id[t].label} as {name} leaves it, not as in file order"


def _over(tensors: Mapping[int, Tensor], op: Op) -> Sequence[int]:
    """Tensors over whose bytes an op writes, as far as is known."""
    if op.writes is not None:
        return op.writes
    return [t for t in op.outputs if tensors[t].alias_of is not None]
