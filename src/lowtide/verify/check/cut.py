"""Re-checks a cut certificate by its flow, in time linear in the graph and the certificate.

Claim: no order has a footprint below `value_bytes` at op v. Let A be the ancestors of v and Z its
descendants. In any order, a set D of ops runs before v: A is in D, v and Z are not, and with an op all its
predecessors are in D. As in `lowtide.verify.check.memory`, the footprint at v is workspace(v), plus size(b) for
each storage b that was there at the start or that D + v touches, and that is there at the end or that an op
outside D touches, less what v saves in place.

The flow has arcs ``[tensor, from, to, bytes]`` through the tensor's storage b, from a user of b (or null
if b is there at the start) to a user of b (or null if b is there at the end), and arcs ``[null, from,
to, bytes]`` from an op to one of its direct predecessors, without limit. v is two things: as ``from`` it
stands with A, as ``to`` it stands with Z.

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

from collections.abc import Sequence

from lowtide.certificates import CutCertificate, FlowArc
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.verify.check.memory import CheckedMemory

FAILURE = "certificate"


def check_cut(graph: Graph, memory: CheckedMemory, certificate: CutCertificate) -> str:
    """Check a cut certificate; the bound that it proves is `certificate.value_bytes`.

    Raises
    ------
    VerificationError
        ``certificate``: unknown op, an arc that is none, a capacity exceeded, bytes lost or made on the
        way, a value that the flow does not reach, an in-place case left out, or a downset that is none.
    """
    v = certificate.op
    if v not in memory.workspace:
        raise VerificationError(FAILURE, f"the cut is at op {v}, which is no op to run")
    label = graph.op_by_id[v].label
    makers = {t: op.id for op in graph.ops for t in op.outputs}
    needs = {
        op.id: {makers[t] for t in op.inputs if t in makers} | {o for o in op.after if o in memory.workspace}
        for op in graph.ops
    }
    needed_by: dict[int, set[int]] = {o: set() for o in needs}
    for o, earlier in needs.items():
        for u in earlier:
            needed_by[u].add(o)
    ancestors, descendants = _reach(needs, v), _reach(needed_by, v)

    to_cover = {memory.storage_of[t]: t for t in memory.overwritable[v]}
    for b in list(to_cover):
        if descendants & memory.storages[b].users:
            del to_cover[b]
    cases: list[tuple[int | None, Sequence[FlowArc]]] = [(certificate.in_place, certificate.flow)]
    cases += [(case.in_place, case.flow) for case in certificate.cases]
    for tensor, _ in cases:
        if tensor is None:
            continue
        if tensor not in memory.overwritable[v]:
            raise VerificationError(FAILURE, f"{label} may not overwrite tensor {tensor}, the in-place case")
        to_cover.pop(memory.storage_of[tensor], None)
    for tensor in to_cover.values():
        raise VerificationError(
            FAILURE, f"{label} may overwrite tensor {tensor}, and the certificate leaves that case out"
        )
    for tensor, flow in cases:
        value = memory.workspace[v] + _flow_value(
            graph, memory, v, tensor, flow, needs=needs, before=ancestors, behind=descendants
        )
        if value < certificate.value_bytes:
            case = "" if tensor is None else f" with tensor {tensor} overwritten"
            raise VerificationError(
                FAILURE, f"the flow{case} proves {value} bytes at {label}, not {certificate.value_bytes}"
            )

    downset = set(certificate.downset)
    if v in downset or not ancestors <= downset:
        raise VerificationError(FAILURE, f"the downset does not run all that {label} needs, and {label} not")
    for o in downset:
        if o not in needs or not needs[o] <= downset:
            raise VerificationError(FAILURE, f"the downset holds op {o} without all that it needs")
    reached = memory.footprint(graph, v, downset)
    arcs = sum(len(flow) for _, flow in cases)
    if reached != certificate.value_bytes:
        raise VerificationError(
            FAILURE, f"{label} needs {reached} bytes after the downset, and {certificate.value_bytes} are proved"
        )
    return f"a flow of {arcs:,} arcs proves {certificate.value_bytes:,} B at {label}, which its downset reaches"


def _reach(edges: dict[int, set[int]], start: int) -> set[int]:
    reached: set[int] = set()
    todo = [start]
    while todo:
        for o in edges[todo.pop()] - reached:
            reached.add(o)
            todo.append(o)
    return reached


def _flow_value(
    graph: Graph,
    memory: CheckedMemory,
    v: int,
    in_place: int | None,
    flow: Sequence[FlowArc],
    *,
    needs: dict[int, set[int]],
    before: set[int],
    behind: set[int],
) -> int:
    """Bytes that leave the start, the ops `before` v and v, less those that enter the ops `before` v."""
    through: dict[int, int] = {}
    into_v: dict[int, int] = {}
    surplus: dict[int, int] = {}
    value = 0
    waits = {(o, u) for o, earlier in needs.items() for u in earlier}
    for tensor, start, end, size in flow:
        arc = f"arc [{tensor}, {start}, {end}, {size}]"
        if size < 0:
            raise VerificationError(FAILURE, f"{arc} carries less than nothing")
        if tensor is None:
            if (start, end) not in waits:
                raise VerificationError(FAILURE, f"{arc} is no precedence of the graph")
        else:
            if tensor not in memory.storage_of:
                raise VerificationError(FAILURE, f"{arc} goes through a tensor that has no storage")
            b = memory.storage_of[tensor]
            storage = memory.storages[b]
            if not (storage.at_start if start is None else start in storage.users):
                raise VerificationError(FAILURE, f"{arc} starts where the tensor's storage is not touched")
            if not (storage.at_end if end is None else end in storage.users):
                raise VerificationError(FAILURE, f"{arc} ends where the tensor's storage is not touched")
            through[b] = through.get(b, 0) + size
            if end == v:
                into_v[b] = into_v.get(b, 0) + size
        if start is None or start == v or start in before:
            value += size
        elif start not in behind:
            surplus[start] = surplus.get(start, 0) + size
        if end in before:
            value -= size
        elif end is not None and end != v and end not in behind:
            surplus[end] = surplus.get(end, 0) - size
    for b, size in through.items():
        if size > memory.storages[b].size:
            raise VerificationError(
                FAILURE,
                f"{size} bytes flow through the storage of "
                f"{graph.tensor_by_id[memory.storages[b].tensors[0]].label}, which has {memory.storages[b].size}",
            )
    if in_place is not None:
        b = memory.storage_of[in_place]
        left = memory.storages[b].size - memory.saved[v][in_place]
        if into_v.get(b, 0) > left:
            raise VerificationError(
                FAILURE,
                f"{into_v[b]} bytes end at op {v} through tensor {in_place}, which it overwrites: {left} may",
            )
    for o, extra in surplus.items():
        if extra:
            raise VerificationError(
                FAILURE, f"op {o} gives out {extra} bytes more than it takes in: the flow is not conserved"
            )
    return value
