"""Who makes and who reads what in an ONNX graph: ids, captured tensors, folded nodes. No shapes.

An op's id is the index of its node in the file. A tensor's id is the place of its name in the order of first
appearance, where the graph's inputs come first, then its initializers (dense, then sparse), then, node by
node in file order, what the node reads, what its subgraphs capture, and what it makes. The optional input or
output ``""`` is no tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.errors import InputError
from lowtide.graph import MAX_NESTED, Graph, Kind, Op, Tensor
from lowtide.ops.folding import fold_constants
from lowtide.read.onnx.attributes import NodeAttributes, default_domain, nesting, subgraphs
from lowtide.read.onnx.types import check_utf8
from lowtide.topological import topological

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto


@dataclass(frozen=True)
class Structure:
    """An ONNX graph without sizes."""

    tensors: tuple[Tensor, ...]  # every tensor, with size 0; its position is its id
    # The ops that run, in file order; of a file that is not sorted, in its stable topological order.
    ops: tuple[Op, ...]
    folded: tuple[Op, ...]  # the ops that read constants only, in the same order
    with_bodies: frozenset[int]  # ids of the ops that have bodies
    sorted_nodes: tuple[int, ...] = ()  # ids of all ops in that order, where it is not the file's; else empty


_DECLARED_AS = {Kind.CONSTANT: "is an initializer", Kind.INPUT: "is a graph input"}


def captured(node: NodeProto) -> list[str]:
    """Names that a node's subgraphs read from outside, each once."""
    names: dict[str, None] = {}
    for body in subgraphs(node):
        inside = {v.name for v in body.input} | {t.name for t in body.initializer}
        inside.update(t.values.name for t in body.sparse_initializer)
        inside.update(name for inner in body.node for name in inner.output)
        for inner in body.node:
            names.update(dict.fromkeys(n for n in (*inner.input, *captured(inner)) if n and n not in inside))
        names.update(dict.fromkeys(v.name for v in body.output if v.name and v.name not in inside))
    return list(names)


def read_structure(model: ModelProto, place: str, constants: Collection[str] = ()) -> Structure:
    """Ids, ops and folded ops of a model's graph. `model`: with or without the weights. `place`: put before every
    message. `constants`: graph inputs that are constants although the graph holds no initializer for them (captured
    ones). Raises `InputError`: a name made twice, or read but never made; a cycle; a graph output that no node
    makes."""
    graph = model.graph
    kinds = _declared(graph, place, constants)
    ids = {name: i for i, name in enumerate(kinds)}
    producers: dict[str, Op] = {}
    too_early: list[tuple[Op, str]] = []
    attributes = NodeAttributes(graph, opset_version(model), {(f.domain, f.name): f for f in model.functions}, place)
    ops: list[Op] = []
    with_bodies: list[int] = []
    for index, node in enumerate(graph.node):
        values, bodies = attributes.of(node)
        if bodies:
            _check_nesting(node, index, place)
            with_bodies.append(index)
        reads = [name for name in node.input if name]
        reads += [name for name in captured(node) if name not in reads] if bodies else []
        inputs = tuple([ids.setdefault(name, len(ids)) for name in reads])
        op = Op(
            index,
            inputs,
            tuple([ids.setdefault(name, len(ids)) for name in node.output if name]),
            node.name,
            node.op_type if default_domain(node.domain) else f"{node.domain}::{node.op_type}",
            attributes=values,
            operands=tuple([ids.get(name) for name in node.input]),
        )
        too_early += [(op, name) for name in reads if name not in kinds and name not in producers]
        for name in filter(None, node.output):
            if name in kinds or name in producers:
                other = f"by {producers[name].label}" if name in producers else _DECLARED_AS[kinds[name]]
                raise InputError(f"tensor {name!r} is made by {op.label} and {other}; rename one", place)
            producers[name] = op
        ops.append(op)
    check_utf8((graph.name, *ids, *(op.name for op in ops), *(op.type for op in ops)), place)
    check_utf8({name for op in ops for name in op.attributes}, place)
    _check_made(graph, too_early, kinds.keys() | producers.keys(), place)
    kinds |= {v.name: Kind.OUTPUT for v in graph.output if kinds.get(v.name) is not Kind.CONSTANT}
    tensors = [Tensor(number, 0, kinds.get(name, Kind.ACTIVATION), name) for name, number in ids.items()]
    ordered = in_stable_order(ops) if too_early else ops
    marked, running, folded = fold_constants(tensors, ordered)
    if len(ordered) < len(ops):  # a cycle, which the graph names
        Graph(graph.name, tuple(tensors), tuple(ops), (), place)
    order = tuple(op.id for op in ordered) if too_early else ()
    return Structure(tuple(marked), tuple(running), tuple(folded), frozenset(with_bodies), order)


def _check_nesting(node: NodeProto, index: int, place: str) -> None:
    if nesting(node, MAX_NESTED + 1) > MAX_NESTED:
        label = f"{node.name!r} ({node.op_type})" if node.name else f"node {index} ({node.op_type})"
        raise InputError(
            f"the bodies of {label} are nested more than {MAX_NESTED} deep; export it without some of them", place
        )


def _check_made(graph: GraphProto, too_early: Sequence[tuple[Op, str]], names: Collection[str], place: str) -> None:
    """Raise `InputError` if an op reads, or the graph returns, a name that does not exist."""
    for op, name in too_early:
        if name not in names:
            raise InputError(
                f"{op.label} reads {name!r}, which is no graph input, no initializer and made by no node; add it", place
            )
    for value in graph.output:
        if value.name not in names:
            raise InputError(f"graph output {value.name!r} is made by no node; add its producer or drop it", place)


def in_stable_order(ops: Sequence[Op]) -> list[Op]:
    """Ops by id, each after what makes what it reads: a file that is sorted stays as it is. onnxruntime sorts a
    file's nodes too when it opens it; converters append the Casts that they add. Ops of a cycle, and those after
    one, are missing."""
    by_id = {op.id: op for op in ops}
    makers = {t: op.id for op in ops for t in op.outputs}
    before = {op.id: {makers[t] for t in op.inputs if t in makers} for op in ops}
    return [by_id[op_id] for op_id in topological(before, lambda op_id: op_id)]


def _declared(graph: GraphProto, place: str, constants: Collection[str]) -> dict[str, Kind]:
    """Kind of every graph input and initializer, in order of appearance."""
    fixed = [t.name for t in graph.initializer] + [t.values.name for t in graph.sparse_initializer]
    initializers = set(fixed)
    if len(initializers) < len(fixed):
        twice = next(name for i, name in enumerate(fixed) if name in fixed[:i])
        raise InputError(f"there are two initializers {twice!r}; rename one", place)
    kinds: dict[str, Kind] = {}
    for i, value in enumerate(graph.input):
        if not value.name:
            raise InputError(f"graph input {i} has no name; give it one", place)
        if value.name in kinds:
            raise InputError(f"there are two graph inputs {value.name!r}; rename one", place)
        fixed_value = value.name in initializers or value.name in constants
        kinds[value.name] = Kind.CONSTANT if fixed_value else Kind.INPUT
    if "" in initializers:
        raise InputError(f"initializer {fixed.index('')} has no name; give it one", place)
    kinds.update(dict.fromkeys(fixed, Kind.CONSTANT))
    return kinds


def opset_version(model: ModelProto) -> int:
    """Version of ONNX's own operator set that the model uses."""
    return max((o.version for o in model.opset_import if default_domain(o.domain)), default=1)
