"""What ops write over: in which order ops that touch the same bytes stay.

A graph's tensors are values, and several of them may lie in the same bytes (`Tensor.alias_of`). An op that writes over
bytes ends every older value there, so its turn matters although no tensor says so. Two kinds of ops count::

    says so       Op.writes names the tensors that it writes over
    may do so     Op.writes is None, and it makes an alias

An op with ``writes=()`` writes over nothing: what it makes in the bytes of others is a view. Of ops that touch the same
bytes, of which one writes or may write there, each pair keeps the order of the file. Where tensors do not say so
already, `after` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, alias_roots

_Bytes = tuple[int, int, int]  # root tensor, first byte, byte after the last


@dataclass(frozen=True, slots=True)
class _Access:
    """An op, by position, that touches bytes of a root."""

    op: int
    begin: int
    end: int
    writes: bool


@dataclass
class _Memory:
    """What was done so far in one root: accesses that a later write was not seen to follow, and all writes that ops say
    of themselves."""

    accesses: list[_Access] = field(default_factory=list)
    written: list[_Access] = field(default_factory=list)


def in_order_of_writes(graph: Graph) -> Graph:
    """The graph with `after` wherever ops touch the same bytes and one of them writes there, or may; itself if there is
    none. Raises `InputError`: an op reads a value that was written over before, or a graph output is."""
    sweep = _Sweep(graph)
    if not sweep.memories:
        return graph
    ops = [sweep.op_with_turn(position, op) for position, op in enumerate(graph.ops)]
    sweep.check_outputs()
    return graph if ops == [*graph.ops] else replace(graph, ops=tuple(ops))


class _Sweep:
    """Own order, op by op."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.roots = alias_roots(graph.tensors)
        self.made = {t: graph.index_of[op] for t, op in graph.producer.items()}
        changed = {self.roots[t] for op in graph.ops for t in _may_write(graph, op)}
        self.memories = {root: _Memory() for root in changed}
        self.before = [[*earlier] for earlier in graph.predecessors] if changed else []

    def op_with_turn(self, position: int, op: Op) -> Op:
        """The op with what it has to come after, because of bytes that both touch."""
        for t in dict.fromkeys(op.inputs):
            self._check_fresh(t, position)
        declared = set(self._bytes(op.writes or ()))
        made = [t for t in op.outputs if op.writes is None or self.graph.tensor_by_id[t].alias_of is None]
        writes, reads = {*declared, *self._bytes(made)}, set(self._bytes(op.inputs))
        pinned, ordered = set[int](), set[int]()
        for root, begin, end in writes | reads:
            writing = (root, begin, end) in writes
            for access in self.memories[root].accesses:
                if access.begin < end and begin < access.end and (writing or access.writes):
                    (pinned if (root, begin, end) in declared else ordered).add(access.op)
        turns = (pinned | (ordered - self._reached(position, ordered))) - {position}
        self.before[position] += turns
        for span in (*reads, *writes):
            self._record(position, span, writes=span in writes, declared=span in declared)
        after = (*op.after, *(self.graph.ops[k].id for k in sorted(turns)))
        return op if not turns else replace(op, after=tuple(dict.fromkeys(after)))

    def check_outputs(self) -> None:
        """Raise `InputError` if a graph output does not outlive the ops."""
        for t in self.graph.tensors:
            if t.kind is Kind.OUTPUT:
                self._check_fresh(t.id, len(self.graph.ops))

    def _bytes(self, tensors: Iterable[int]) -> Iterator[_Bytes]:
        """Where tensors lie, of those in memory that is written over."""
        for t in tensors:
            tensor, begin = self.graph.tensor_by_id[t], 0
            if self.roots[t] not in self.memories or not tensor.size:
                continue
            at = tensor
            while at.alias_of is not None:
                begin += at.alias_offset
                at = self.graph.tensor_by_id[at.alias_of]
            yield at.id, begin, begin + tensor.size

    def _record(self, op: int, span: _Bytes, *, writes: bool, declared: bool) -> None:
        """Note an access; what a write covers comes before it, and needs no look any more."""
        root, begin, end = span
        memory, access = self.memories[root], _Access(op, begin, end, writes)
        if writes:
            memory.accesses = [a for a in memory.accesses if a.begin < begin or end < a.end or a.op == op]
        memory.accesses.append(access)
        if declared:
            memory.written.append(access)

    def _reached(self, position: int, wanted: set[int]) -> set[int]:
        """Which of these ops run before one anyway."""
        if not wanted:
            return set()
        least, seen, todo = min(wanted), {position}, [position]
        while todo:
            for earlier in self.before[todo.pop()]:
                if earlier >= least and earlier not in seen:
                    seen.add(earlier)
                    todo.append(earlier)
        return seen & wanted - {position}

    def _check_fresh(self, t: int, position: int) -> None:
        """Raise `InputError` if a value that the op at a position reads was written over before; after the last
        position, an output."""
        graph, born = self.graph, self.made.get(t, -1)
        for root, begin, end in self._bytes((t,)):
            for write in reversed(self.memories[root].written):
                if write.op <= born:
                    break
                writer = graph.ops[write.op]
                if write.begin < end and begin < write.end and t not in writer.outputs:
                    tensor, place = graph.tensor_by_id[t].label, graph.source or graph.name
                    if position == len(graph.ops):
                        message = f"{tensor} is an output, and {writer.label} writes over it; make that op's output one"
                    else:
                        reader = graph.ops[position].label
                        message = f"{reader} reads {tensor} after {writer.label} has written over it"
                        message += "; put it before, or read an output of that op which is alias_of it"
                    raise InputError(message, place)


def _may_write(graph: Graph, op: Op) -> tuple[int, ...]:
    """Tensors over whose bytes an op writes, or may."""
    if op.writes is not None:
        return op.writes
    return tuple([t for t in op.outputs if graph.tensor_by_id[t].alias_of is not None])
