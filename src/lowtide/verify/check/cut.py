"""Re-checks a cut certificate by its flow, in time linear in the graph and the certificate.

Claim: no order has a footprint below `value_bytes` at op v. Let A be the ancestors of v and Z its
descendants. In any order, a set D of ops runs before v: A is in D, v and Z are not, and with an op all its
predecessors are in D. As in `lowtide.verify.check.memory`, the footprint at v is workspace(v), plus size(b) for
each storage b that was live at the start or that D + v touches, and that is live at the end or that an op
outside D touches, less what v saves in place.

The flow has arcs ``[tensor, from, to, bytes]`` through the tensor's storage b, from a user of b (or null
if b is live at the start) to a user of b (or null if b is live at the end), and arcs ``[null, from,
to, bytes]`` from an op to one of its direct predecessors, without limit. v is two things: as ``from`` it
belongs to A, as ``to`` it belongs to Z.

         null (start)                        null (end)
         A, v as `from`   ->  free ops  ->   Z, v as `to`
         ----------------- D ... | ... not D --------------

Weak duality. Let X = D + {null (start), v as `from`}. Every free op takes in what it gives out, so what
leaves X less what enters it is the same for all D: what leaves null (start), A and v, less what enters A.
Call it the flow's value. No precedence arc leads out of X: the predecessors of an op in D or of v are in D.
A storage's arc that leads out of X starts at the start, in D or at v, and ends at the end or outside D, so
the storage is one of those that the footprint counts, and all its arcs together carry at most size(b). So

    value <= bytes leaving X <= sum of size(b) over the storages that the footprint at v counts.

In place. v saves s bytes if D holds all other users of the storage c of some input that it may overwrite.
In every such D all arcs of c that leave X end in v. So if the arcs of c that end in v carry at most size(c)
- s, then value <= that sum - s whenever D makes c free, and value <= that sum for every D, as before. A
storage with another user in Z never becomes free. If inputs of one storage can be overwritten, one flow so
limited proves all D; if several, a flow for each: every D that saves is proved by the flow of an input that
it frees, and every other D by any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.certificates import CutCertificate, FlowArc
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.sizes import format_count
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import ancestors, descendants, needed


def _fail(why: str) -> VerificationError:
    return VerificationError("certificate", why)


@dataclass(frozen=True)
class _CutOp:
    """Op `v` of a cut; `needs`: of each op those that run directly before it; `before`, `behind`: of v, all of them."""

    graph: Graph
    memory: CheckedMemory
    v: int
    needs: dict[int, set[int]]
    before: set[int]
    behind: set[int]

    @property
    def label(self) -> str:
        """For messages."""
        return self.graph.op_by_id[self.v].label


def check_cut(graph: Graph, memory: CheckedMemory, certificate: CutCertificate) -> str:
    """Check a cut certificate; the bound that it proves is `certificate.value_bytes`. Raises `VerificationError`:
    ``certificate``: unknown op, an arc that is none, a capacity exceeded, bytes lost or made on the way, a value that
    the flow does not reach, an in-place case left out, or a downset that is none."""
    v, claimed = certificate.op, certificate.value_bytes
    if v not in memory.workspace:
        raise _fail(f"the cut is at op {v}, which is no op to run")
    needs = {op.id: set(needed(graph, op.id)) for op in graph.ops}
    at = _CutOp(graph, memory, v, needs, ancestors(graph, v), descendants(graph, v))
    cases: list[tuple[int | None, Sequence[FlowArc]]] = [(certificate.in_place, certificate.flow)]
    cases += [(case.in_place, case.flow) for case in certificate.cases]
    _check_cases(at, [tensor for tensor, _ in cases])
    for tensor, flow in cases:
        value = memory.workspace[v] + _flow_value(at, tensor, flow)
        if value < claimed:
            case = "" if tensor is None else f" with tensor {tensor} overwritten"
            raise _fail(f"the flow{case} proves {value} bytes at {at.label}, not {claimed}")
    _check_downset(at, set(certificate.downset))
    reached = memory.footprint(v, set(certificate.downset))
    if reached != claimed:
        raise _fail(f"{at.label} needs {reached} bytes after the downset, and {claimed} are proved")
    arcs = sum(len(flow) for _, flow in cases)
    return f"no order needs less while {at.label} runs; proved by a flow of {format_count(arcs, 'arc')}"


def _check_cases(at: _CutOp, tensors: Sequence[int | None]) -> None:
    """There is a flow for each storage that the op may overwrite in some order."""
    memory, overwritable = at.memory, at.memory.overwritable[at.v]
    left = {memory.storage_of[t]: t for t in overwritable}
    left = {b: t for b, t in left.items() if at.behind.isdisjoint(memory.storages[b].users)}
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor not in overwritable:
            raise _fail(f"{at.label} may not overwrite tensor {tensor}, the in-place case")
        left.pop(memory.storage_of[tensor], None)
    for tensor in left.values():
        raise _fail(f"{at.label} may overwrite tensor {tensor}, and the certificate leaves that case out")


def _check_downset(at: _CutOp, downset: set[int]) -> None:
    """The op can run next when exactly the ops of the downset have run."""
    if at.v in downset or not at.before <= downset:
        raise _fail(f"the downset does not run all that {at.label} needs, and {at.label} not")
    for o in downset:
        if o not in at.needs or not at.needs[o] <= downset:
            raise _fail(f"the downset holds op {o} without all that it needs")


def _flow_value(at: _CutOp, in_place: int | None, flow: Sequence[FlowArc]) -> int:
    """Bytes that leave the start, the ops `before` v and v, less those that enter the ops `before` v."""
    memory, v = at.memory, at.v
    through, into_v, surplus = Counter[int](), Counter[int](), Counter[int]()
    value = 0
    for arc in flow:
        _check_arc(at, arc)
        tensor, start, end, size = arc
        if tensor is not None:
            through[memory.storage_of[tensor]] += size
            into_v[memory.storage_of[tensor]] += size if end == v else 0
        if start is None or start == v or start in at.before:
            value += size
        elif start not in at.behind:
            surplus[start] += size
        if end in at.before:
            value -= size
        elif end is not None and end != v and end not in at.behind:
            surplus[end] -= size
    for b, size in through.items():
        if size > memory.storages[b].size:
            label = at.graph.tensor_by_id[memory.storages[b].tensors[0]].label
            raise _fail(f"{size} bytes flow through the storage of {label}, which has {memory.storages[b].size}")
    if in_place is not None:
        b = memory.storage_of[in_place]
        left = memory.storages[b].size - memory.saved[v][in_place]
        if into_v[b] > left:
            raise _fail(f"{into_v[b]} bytes end at op {v} through tensor {in_place}, which it overwrites: {left} may")
    for o, extra in surplus.items():
        if extra:
            raise _fail(f"op {o} gives out {extra} bytes more than it takes in: the flow is not conserved")
    return value


def _check_arc(at: _CutOp, arc: FlowArc) -> None:
    """An arc goes through a storage between ops that touch it, or is a precedence of the graph."""
    tensor, start, end, size = arc
    name = f"arc [{tensor}, {start}, {end}, {size}]"
    if size < 0:
        raise _fail(f"{name} carries less than nothing")
    if tensor is None:
        if end not in at.needs.get(-1 if start is None else start, ()):
            raise _fail(f"{name} is no precedence of the graph")
        return
    if tensor not in at.memory.storage_of:
        raise _fail(f"{name} goes through a tensor that has no storage")
    storage = at.memory.storages[at.memory.storage_of[tensor]]
    if not (storage.at_start if start is None else start in storage.users):
        raise _fail(f"{name} starts where the tensor's storage is not touched")
    if not (storage.at_end if end is None else end in storage.users):
        raise _fail(f"{name} ends where the tensor's storage is not touched")
