"""Rematerialisation: a clone of an op serves some consumers, so that its result need not be live until then.

    of -- t --+--> early            of  -- t  -----> early
              |               =>
              +--> late             of' -- t' -----> late

The clone follows the op, with tensors of its own; the scheduler decides where it runs. Source: Briggs, Cooper and
Torczon, "Rematerialization", PLDI 1992.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.kinds import kind_of, names_only
from lowtide.rewrites import Recompute
from lowtide.transform.change import Change
from lowtide.transform.rename import reading


@dataclass(frozen=True)
class Clone:
    """A clone of op `of` whose consumers are `readers`; they read the clone's copy of `replaced`. All are ids."""

    of: int
    replaced: int
    readers: tuple[int, ...]


def why_not(graph: Graph, clone: Clone) -> str | None:
    """None if a clone of the op gives the same values; else the reason, in a few words."""
    op = next((op for op in graph.ops if op.id == clone.of), None)
    if op is None:
        return f"op {clone.of} is not there to run"
    if clone.replaced not in op.outputs:
        return f"{op.label} does not make tensor {clone.replaced}"
    if not clone.readers or len(set(clone.readers)) != len(clone.readers):
        return "each reader has to be named, once"
    for reader in clone.readers:
        if reader not in graph.consumers.get(clone.replaced, ()):
            return f"op {reader} does not read tensor {clone.replaced}"
    if op.attributes.get("random"):
        return f"{op.label} makes something else on every run"
    if any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs):
        return f"{op.label} writes into the memory of another tensor"
    over = _overwritten(graph, op)
    return None if over is None else f"{over.label} writes over what {op.label} reads"


def repeatable(graph: Graph) -> frozenset[int]:
    """Ids of the ops whose clones give the same values to all consumers. Ops that an `after` names are left out: it
    is not known which run it means."""
    written = {
        _containers(graph, t)[-1]
        for op in graph.ops
        for t in op.outputs
        if graph.tensor_by_id[t].alias_of is not None and not names_only(op.type)
    }
    ordered = {u for op in graph.ops for u in op.after}
    return frozenset(
        op.id
        for op in graph.ops
        if not op.after
        and not op.writes
        and op.id not in ordered
        and not op.attributes.get("random")
        and (names_only(op.type) or all(graph.tensor_by_id[t].alias_of is None for t in op.outputs))
        and (written.isdisjoint(_containers(graph, t)[-1] for t in op.inputs) or _overwritten(graph, op) is None)
    )


def _overwritten(graph: Graph, op: Op) -> Op | None:
    """An op, if there is one, that writes into the memory of what this one reads: a clone might run after it."""
    chains = [_containers(graph, t) for t in op.inputs]
    roots = {chain[-1] for chain in chains}
    makers = {graph.producer.get(t) for chain in chains for t in chain}
    at = graph.index_of
    for other in graph.ops:
        if other.id in makers and at[other.id] < at[op.id]:
            continue
        row = kind_of(other.type)
        view = row is not None and row.view  # then what it makes is there already, in another tensor's memory
        written = [chain for chain in (_containers(graph, t) for t in other.outputs) if not view or len(chain) == 1]
        if any(chain[-1] in roots for chain in written):
            return other
    return None


def _containers(graph: Graph, tensor: int) -> list[int]:
    """A tensor, the tensor that it is an alias of, and so on."""
    chain = [tensor]
    while (above := graph.tensor_by_id[chain[-1]].alias_of) is not None:
        chain.append(above)
    return chain


def apply(graph: Graph, clone: Clone) -> Change[Clone]:
    """The graph with the clone; new ids are the next free ones."""
    reason = why_not(graph, clone)
    assert reason is None, reason
    original, by_id = graph.op_by_id[clone.of], graph.tensor_by_id
    fresh_op = max(op.id for op in (*graph.ops, *graph.folded)) + 1
    fresh = max(by_id) + 1
    copies = {t: fresh + k for k, t in enumerate(original.outputs)}
    tensors = tuple(
        replace(by_id[t], id=new, kind=Kind.ACTIVATION, name=f"{by_id[t].label} (again)") for t, new in copies.items()
    )
    second = replace(
        original, id=fresh_op, name=f"{original.label} (again)", outputs=tuple(copies[t] for t in original.outputs)
    )
    instead = {clone.replaced: copies[clone.replaced]}
    ops: list[Op] = []
    for op in graph.ops:
        ops.append(reading(op, instead) if op.id in clone.readers else op)
        if op.id == clone.of:
            ops.append(second)
    result = replace(graph, tensors=(*graph.tensors, *tensors), ops=tuple(ops))
    return Change(clone, result, {fresh_op: clone.of}, {new: t for t, new in copies.items()})


def as_rewrite(change: Change[Clone]) -> Recompute:
    """What a plan says of it: the plan is for the user's own graph, to which verify makes the change by itself."""
    (op,) = change.ops
    record = change.record
    return Recompute(
        op=op,
        of=record.of,
        replaced=record.replaced,
        outputs=list(change.tensors),
        readers=list(record.readers),
    )
