"""The plan of another model: one that differs from the base's in a single thing, which the plan does not fit.

What is changed is the graph that it is held against, and with it what the plan says of that graph's own ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

from lowtide.analyse.storage import effective_aliases
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import resolve
from support.forgeries.bases import Base
from support.forgeries.leaves import Document

Twins = Iterator[tuple[Callable[[], Graph], str]]


def _with_op(graph: Graph, op: Op, **keys: Any) -> Callable[[], Graph]:
    return lambda: replace(graph, ops=tuple(replace(o, **keys) if o.id == op.id else o for o in graph.ops))


def _with_tensor(graph: Graph, t: int, **keys: Any) -> Callable[[], Graph]:
    return lambda: replace(graph, tensors=tuple(replace(x, **keys) if x.id == t else x for x in graph.tensors))


def named_alike(base: Base, graph: Graph) -> Document:
    """The plan with the types of a graph's ops, and with what its tensors are and lie in."""
    types, kinds = {op.id: op.type for op in graph.ops}, {t.id: t.kind.value for t in graph.tensors}
    views = effective_aliases(graph, resolve(base.target))
    ops = [op if op.get("part") else op | {"type": types.get(op["id"], op["type"])} for op in base.document["ops"]]
    tensors = [t | {"kind": kinds.get(t["id"], t["kind"])} for t in base.document["tensors"]]
    tensors = [t | ({"alias_of": views[t["id"]][0]} if t["id"] in views else {}) for t in tensors]
    return base.document | {"ops": ops, "tensors": tensors}


def _with_result(graph: Graph, op: Op) -> Graph:
    new = Tensor(2**39, 4, name="more", shape=(1,), dtype="float32")
    op = replace(op, outputs=(*op.outputs, new.id))
    return replace(graph, ops=tuple(op if o.id == op.id else o for o in graph.ops), tensors=(*graph.tensors, new))


def twins(base: Base, random: Random, most: int = 12) -> Iterator[tuple[Graph, str]]:
    """Graphs that the plan is not of: some for each rewrite of the plan."""
    for r in base.document.get("rewrites") or []:
        match r["kind"]:
            case "sums":
                found = list(_sums(base.graph, r))
            case "sections":
                found = list(_sections(base.graph, r))
            case "cut" | "seams":
                again = any(other["kind"] == "recompute" for other in base.document["rewrites"])
                found = list(_cuts(base.graph, r, again))
            case "alias":
                found = list(_aliases(base.graph, r))
            case _:
                continue
        for make, why in random.sample(found, min(most, len(found))):
            try:
                yield make(), why
            except InputError:
                continue  # no graph at all


def _ops(graph: Graph, ids: list[int]) -> list[Op]:
    return [graph.op_by_id[o] for o in ids if o in graph.op_by_id]


def _sums(graph: Graph, r: dict[str, Any]) -> Twins:
    (op,) = _ops(graph, [r["op"]])
    yield lambda: replace(graph, opset=12), "of operators before version 13"
    alone, axes = len(r["gone"]) == 1, op.inputs[1:] if op.type == "ReduceMean" else ()
    for t in (*op.inputs[:1], *(op.outputs if alone else ())):
        yield _with_tensor(graph, t, dtype="int32"), "of whole numbers"
        yield _with_tensor(graph, t, shape=None), "of no known shape"
    for t in axes:
        yield _with_tensor(graph, t, value=None), "with axes that are not known"
    if "axes" in op.attributes:
        yield _with_op(graph, op, attributes={**op.attributes, "axes": (9,)}), "with axes that it does not have"
    for t in () if alone else (*op.inputs[:1], *op.outputs):
        yield _with_tensor(graph, t, kind=Kind.OUTPUT), "of which the caller takes more"
    for t in () if axes else op.inputs[1:]:
        yield _with_tensor(graph, t, shape=(7,)), "with parameters of another number"
    if len(op.inputs) == 3:
        both = {t: replace(graph.tensor_by_id[t], shape=(7,)) for t in op.inputs[1:]}
        tensors = tuple(both.get(t.id, t) for t in graph.tensors)
        yield lambda: replace(graph, tensors=tensors), "with parameters of another number"
    if op.type == "GroupNormalization":
        yield _with_op(graph, op, attributes={**op.attributes, "num_groups": 3}), "in other groups"


def _sections(graph: Graph, r: dict[str, Any]) -> Twins:
    yield lambda: replace(graph, opset=6), "of operators before version 7"
    first = graph.ops[0].id
    for op in _ops(graph, r["gone"]):
        yield _with_op(graph, op, after=(first,)), "which waits for an op"
        if op.id in (r["op"], r.get("add")):
            for t in op.inputs[1:]:
                yield _with_tensor(graph, t, shape=None), "with weights of no known shape"
            for t in op.inputs:
                yield _with_tensor(graph, t, shape=None), "of no known shape"
            continue
        yield _with_op(graph, op, inputs=(), operands=()), "in which an op reads nothing"
        yield _with_op(graph, op, bodies=(graph,)), "in which an op runs another graph"
        yield _with_op(graph, op, type="Relu"), "in which an op computes"
        if op.type == "Transpose":
            turned = op.attributes["perm"][::-1]
            yield _with_op(graph, op, attributes={**op.attributes, "perm": turned}), "turned otherwise"
        for t in op.outputs:
            yield _with_tensor(graph, t, shape=None), "of no known shape"
            yield _with_tensor(graph, t, shape=(*(graph.tensor_by_id[t].shape or ()), 1)), "of another shape"
        for t in op.inputs[1:]:
            yield _with_tensor(graph, t, kind=Kind.INPUT), "in which the caller says what is taken"
        if op.type == "Slice" and len(op.inputs) == 4:
            new = 1 + max(t.id for t in graph.tensors)
            back = Tensor(new, 8, Kind.CONSTANT, "back", (1,), "int64", value=(-1).to_bytes(8, "little", signed=True))
            other = replace(op, inputs=(*op.inputs, new), operands=(*op.operands, new))
            ops = tuple(other if o.id == op.id else o for o in graph.ops)
            yield (lambda ops=ops, back=back: replace(graph, ops=ops, tensors=(*graph.tensors, back))), "backwards"


def _cuts(graph: Graph, r: dict[str, Any], again: bool) -> Twins:
    yield lambda: replace(graph, dialect=""), "in no format"
    for op in _ops(graph, [c["op"] for c in r["ops"]]):
        yield _with_op(graph, op, type="Unknown"), "in which nobody knows an op"
        yield (lambda op=op: _with_result(graph, op)), "in which an op makes something else too"
        for t in op.outputs:
            yield _with_tensor(graph, t, shape=()), "in which a tensor is one number"
            if again:
                yield _with_tensor(graph, t, alias_of=op.inputs[0]), "in which a tensor lies in another"


def _aliases(graph: Graph, r: dict[str, Any]) -> Twins:
    yield _with_tensor(graph, r["tensor"], size=0, shape=(0,)), "in which it has no bytes"
    if "run" in r:
        yield _with_tensor(graph, r["tensor"], kind=Kind.OUTPUT), "in which the caller takes it"
    for op in graph.ops:
        if r["tensor"] in op.inputs and len(op.inputs) == 1 and len(op.outputs) == 1:
            for kind in ("Identity", "Reshape"):
                yield _with_op(graph, op, type=kind, attributes={}), "in which it is seen in another shape"
