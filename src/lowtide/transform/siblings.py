"""Products of the same operand with weights of one shape, as one wider product, and their gradients likewise.

::

    x --+-- y1 -- p1 -->         d1 -- p' -- dy1 --+-- x1 --\\
        |                                          +-- dw1 -- update w1
        +-- y2 -- p2 -->         d2 -- p' -- dy2 --+-- x2 -- + -- dx
                                                   +-- dw2 -- update w2
    =>
    x ---- y ==== p1, p2 -->     d1, d2 -- p' ==== dy -----+-- dx
                                                           +-- dw -- update w

It is a rule of Jia et al., "TASO", SOSP 2019, for complete training steps. The weights are stacked, each contiguous,
and so are their updates. One product sums the gradients of the operand, so that their sums are gone. One op splits the
results, and one stacks the gradients: where each is transposed anyway, it does that too, and costs what the transposes
did, but for their launches. Elsewhere it copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowtide.graph import Graph, Kind, Op
from lowtide.ops.labels import UNTILED, parsed
from lowtide.transform.change import Change
from lowtide.transform.fission import NoFission, in_order
from lowtide.transform.sibling_ops import NoMerge, Site, Wider

PRODUCT, TURN, SUM, UPDATE = "einsum", "permute", "add", "update"
"""Types of the ops that are merged."""


@dataclass(frozen=True)
class Siblings:
    """Products that become one: ids, in file order."""

    products: tuple[int, ...]


@dataclass(frozen=True)
class Merged(Change[Siblings]):
    """An applied change and its ops; `stacked`: tensors of the new graph that hold several former ones, contiguous and
    in order."""

    site: Site
    stacked: Mapping[int, tuple[int, ...]]


def candidates(graph: Graph) -> list[Siblings]:
    """Products of one operand with weights of one shape, two or more; `why_not` says which of them may become one."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for op in graph.ops:
        if op.type == PRODUCT and len(op.inputs) == 2 and graph.tensor_by_id[op.inputs[1]].kind is Kind.INPUT:
            w = graph.tensor_by_id[op.inputs[1]]
            key = (op.inputs[0], op.attributes.get("labels"), w.shape, w.dtype)
            groups.setdefault(key, []).append(op.id)
    return [Siblings(tuple(ids)) for ids in groups.values() if len(ids) > 1]


def why_not(graph: Graph, record: Siblings) -> str | None:
    """None if the products may become one, else the reason, in a few words."""
    try:
        _merged(graph, record)
    except NoMerge as error:
        return str(error)
    return None


def apply(graph: Graph, record: Siblings) -> Merged:
    """The graph with one product in their place.

    New ops, in turn: the product, the split of its result, the stack of the gradients, the gradient of the operand if
    it has a consumer (and a sum with its other terms), that of the weights, the update. Each replaces the first of its
    former ops, or comes as soon after it as its operands allow.

    Raises
    ------
    NoMerge
        `why_not` has a reason.
    """
    return _merged(graph, record)


def _alike(ops: Sequence[Op], kind: str) -> None:
    """That ops are of a type and differ in nothing but what they read and make."""
    for op in ops:
        if op.type != kind:
            raise NoMerge(f"{op.label} is of type {op.type}, not {kind}")
        if dict(op.attributes) != dict(ops[0].attributes):
            raise NoMerge(f"{op.label} and {ops[0].label} differ in their attributes")
        if op.after or op.overwrites is not None or len(op.outputs) != 1 or op.attributes.get("random"):
            raise NoMerge(f"{op.label} is more than a function of what it reads")


def _only(graph: Graph, readers: Iterable[int], kind: str, tensor: int) -> Op:
    """The one of some readers of a tensor of a type and with that tensor at its place."""
    found = [op for v in readers if (op := graph.op_by_id[v]).type == kind]
    if len(found) != 1:
        raise NoMerge(f"{graph.tensor_by_id[tensor].label} is read by {len(found)} ops of type {kind}, not by one")
    return found[0]


def _site(graph: Graph, record: Siblings) -> Site:
    ids = record.products
    if len(ids) < 2 or [op.id for op in graph.ops if op.id in set(ids)] != list(ids):
        raise NoMerge("siblings are two ops of the graph or more, in file order")
    products = tuple([graph.op_by_id[v] for v in ids])
    _alike(products, PRODUCT)
    if any(len(op.inputs) != 2 or op.inputs[0] != products[0].inputs[0] for op in products):
        raise NoMerge("they do not read one operand, each with a weight")
    gradients, backs, updates = [], [], []
    for op in products:
        w = op.inputs[1]
        update = _only(graph, graph.consumers[w], UPDATE, w)
        gradient = graph.op_by_id.get(graph.producer.get(update.inputs[-1], -1))
        if update.inputs[:1] != (w,) or len(update.inputs) != 2 or gradient is None:
            raise NoMerge(f"{update.label} does not add what an op makes")
        gradients.append(gradient)
        updates.append(update)
        backs += [graph.op_by_id[v] for v in graph.consumers[w] if v not in (op.id, update.id)]
        if graph.consumers[update.inputs[1]] != (update.id,):
            raise NoMerge(f"the gradient of {graph.tensor_by_id[w].label} is read by others, too")
    _alike(gradients, PRODUCT)
    _alike(updates, UPDATE)
    if not _by_elements(updates[0]):
        raise NoMerge(f"{updates[0].label} looks at more than one element")
    _check_gradients(graph, products, gradients, backs)
    _check_tensors(graph, products, gradients, updates)
    sums, others = _sums(graph, backs) if backs else ((), ())
    results = [op.outputs[0] for op in products]
    parts = tuple([op.inputs[1] for op in gradients])
    return Site(
        products, tuple(gradients), tuple(updates), tuple(backs), _turns(graph, results), _unturns(graph, parts),
        sums, others,
    )  # fmt: skip


def _check_gradients(graph: Graph, products: Sequence[Op], gradients: Sequence[Op], backs: Sequence[Op]) -> None:
    """That gradients are of the same operand, and of weights and operand by the same gradient of a result."""
    if backs:
        _alike(backs, PRODUCT)
        if len(backs) != len(products):
            raise NoMerge("not each weight is read by one product after")
    for k, (op, gradient) in enumerate(zip(products, gradients, strict=True)):
        if len(gradient.inputs) != 2 or gradient.inputs[0] != op.inputs[0]:
            raise NoMerge(f"{gradient.label} does not read what {op.label} reads")
        expected = {gradient.id}
        if backs:
            if backs[k].inputs != (gradient.inputs[1], op.inputs[1]):
                raise NoMerge(f"{backs[k].label} is no gradient by what {gradient.label} reads")
            expected.add(backs[k].id)
        if set(graph.consumers[gradient.inputs[1]]) != expected:
            raise NoMerge(f"what {gradient.label} reads is read by others, too")


def _check_tensors(graph: Graph, products: Sequence[Op], gradients: Sequence[Op], updates: Sequence[Op]) -> None:
    """That weights, results and updates are of one shape each, and what they have to be."""
    columns = (
        ("weights", [op.inputs[1] for op in products], Kind.INPUT),
        ("results", [op.outputs[0] for op in products], Kind.ACTIVATION),
        ("gradients", [op.inputs[1] for op in gradients], Kind.ACTIVATION),
        ("weights' gradients", [op.outputs[0] for op in gradients], Kind.ACTIVATION),
        ("updates", [op.outputs[0] for op in updates], Kind.OUTPUT),
    )
    for name, ids, kind in columns:
        tensors = [graph.tensor_by_id[t] for t in ids]
        if len(set(ids)) < len(ids) or any(t.kind is not kind or t.alias_of is not None for t in tensors):
            raise NoMerge(f"the {name} are not {kind.value}s of their own")
        if tensors[0].shape is None or len({(t.shape, t.dtype, t.size) for t in tensors}) > 1:
            raise NoMerge(f"the {name} are not of one shape and type")
    shapes = [graph.tensor_by_id[ids[0]].shape for _, ids, _ in columns]
    if shapes[1] != shapes[2] or shapes[0] != shapes[3] or shapes[0] != shapes[4]:
        raise NoMerge("gradients are not of the shapes of what they are gradients of")
    if any(graph.consumers.get(op.outputs[0]) for op in updates):
        raise NoMerge("what an update makes is read")


def _turns(graph: Graph, results: Sequence[int]) -> tuple[Op, ...]:
    """The transposes of the results, if each is read by one, and all are the same."""
    ops = [graph.op_by_id[readers[0]] for t in results if len(readers := graph.consumers.get(t, ())) == 1]
    return _transposes(ops, len(results))


def _unturns(graph: Graph, gradients: Sequence[int]) -> tuple[Op, ...]:
    """The transposes that make the gradients, if all are the same."""
    ops = [graph.op_by_id[graph.producer[t]] for t in gradients if t in graph.producer]
    return _transposes(ops, len(gradients))


def _transposes(ops: Sequence[Op], count: int) -> tuple[Op, ...]:
    try:
        _alike(ops, TURN)
    except NoMerge:
        return ()
    return tuple(ops) if len({op.id for op in ops}) == count and _is_transpose(ops[0]) else ()


def _is_transpose(op: Op) -> bool:
    """Whether labels and permutation say the same."""
    (words,), (turned,) = parsed(str(op.attributes.get("labels")))
    permutation = op.attributes.get("permutation")
    if not isinstance(permutation, tuple | list) or len(set(words)) < len(words):
        return False
    return list(turned) == [words[int(d)] for d in permutation]


def _by_elements(op: Op) -> bool:
    """Whether labels say that each element is made of those at its place."""
    reads, writes = parsed(str(op.attributes.get("labels")))
    words = writes[0]
    return set(reads) == {words} and UNTILED not in words and len(set(words)) == len(words)


def _sums(graph: Graph, backs: Sequence[Op]) -> tuple[tuple[Op, ...], tuple[int, ...]]:
    """The sums that add up the operand's gradients, the last one last, and what else these add, in order."""
    above = [_sums_above(graph, op.outputs[0]) for op in backs]
    last = next((op for op in above[0] if all(op in way for way in above)), None)
    if last is None:
        raise NoMerge("gradients of the operand are not added up")
    sums = {op.id: op for way in above for op in way[: way.index(last) + 1]}
    ordered = [op for op in graph.ops if op.id in sums]
    own = {op.outputs[0] for op in (*ordered, *backs)}
    others = tuple([t for op in ordered for t in op.inputs if t not in own])
    return tuple(ordered), others


def _sums_above(graph: Graph, tensor: int) -> list[Op]:
    """The chain of sums of two tensors of this one's shape that read it, as long as each has one consumer."""
    found: list[Op] = []
    shape = graph.tensor_by_id[tensor].shape
    while graph.tensor_by_id[tensor].kind is Kind.ACTIVATION and len(graph.consumers.get(tensor, ())) == 1:
        op = graph.op_by_id[graph.consumers[tensor][0]]
        alike = all(graph.tensor_by_id[t].shape == shape for t in (*op.inputs, *op.outputs))
        if op.type != SUM or len(set(op.inputs)) != 2 or not alike or op.after or op.overwrites is not None:
            break
        if not _by_elements(op):
            break
        found.append(op)
        tensor = op.outputs[0]
    return found


def _merged(graph: Graph, record: Siblings) -> Merged:
    """The change. Raises `NoMerge`."""
    site = _site(graph, record)
    wider = Wider(graph, site)
    wider.build()
    gone = {op.id for op in site.gone}
    kept = [op for op in graph.ops if op.id not in gone]
    late = next((op for op in kept if not gone.isdisjoint(op.after)), None)
    if late is not None:
        raise NoMerge(f"{late.label} is to run after one of them")
    place = {op.id: graph.index_of[op.id] for op in kept}
    place |= {v: min(graph.index_of[op.id] for op in of) for v, of in wider.replaces.items()}
    try:
        ops = in_order([*kept, *wider.ops], place, {})
    except NoFission:
        raise NoMerge("one of them waits for another") from None
    touched = {t for op in ops for t in (*op.inputs, *op.outputs)}
    before = {t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    tensors = [t for t in graph.tensors if t.id in touched or t.id not in before]
    return Merged(
        record,
        replace(graph, tensors=(*tensors, *wider.tensors), ops=tuple(ops), file=None, file_order=()),
        {v: of[0].id for v, of in wider.replaces.items()},
        {t: of[0] for t, of in wider.holds.items()},
        site,
        wider.stacked,
    )
