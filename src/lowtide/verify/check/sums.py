"""Norms and means that a plan computes of sums over rows: the ops that take their place, derived from the contract.

A recipe is a list of nodes: op type, operands, shape of the result, attributes. An operand is a name of an earlier
result, or numbers, which become a constant. Ids are the plan's: ops in turn, tensors as nodes read or make them first.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.forms import Reduction
from lowtide.ops.meaning import meaning
from lowtide.plan import Plan
from lowtide.rewrites import Sums
from lowtide.verify.check.replaced_ops import Replacement, fail, origins, with_replacements

Operand = str | tuple[int, ...] | float
Node = tuple[str, tuple[Operand, ...], tuple[int, ...], Mapping[str, Any], str]
"""Type, operands, shape, attributes, name of the result; ``x`` is what is looked at, ``y`` the result of all."""

_OPERAND_SINCE = {"ReduceSum": 13, "ReduceMean": 18, "ReduceSumSquare": 18}


def with_sums(graph: Graph, plan: Plan) -> Graph:
    """The graph with the plan's norms and means as sums. Raises `VerificationError`: ``rewrites``: an op that is no
    norm or mean, or other ops around it, or other numbers of ops and tensors."""
    sums = [r for r in plan.rewrites or () if isinstance(r, Sums)]
    if not sums:
        return graph
    if graph.dialect != "onnx" or 0 < graph.opset < 13:
        raise fail("sums over rows are written with ONNX's operators from version 13 on")
    return with_replacements(graph, (_replacement(graph, plan, r) for r in sums), "as sums")


def _replacement(graph: Graph, plan: Plan, r: Sums) -> Replacement:
    """The ops and tensors of one norm or mean, with the plan's names."""
    op_names, names = {op.id: op.name for op in plan.ops}, {t.id: t.name for t in plan.tensors}
    nodes, given, result = _recipe(graph, r)
    if len(set(r.ops)) != len(nodes) or len(r.ops) != len(nodes):
        raise fail(f"op {r.op} as sums takes {len(nodes)} new ops")
    ops, tensors = _written(nodes, {**given, "y": result}, r)
    named = [replace(op, name=op_names.get(op.id, "")) for op in ops]
    return r, named, [replace(t, name=names.get(t.id, "")) for t in tensors]


def _recipe(graph: Graph, r: Sums) -> tuple[list[Node], dict[str, int], int]:
    """The nodes, the tensors that they are given by name, and the one that comes out."""
    if r.op not in graph.index_of or any(o not in graph.index_of for o in r.gone) or len(set(r.gone)) != len(r.gone):
        raise fail(f"op {r.op} cannot be computed of sums: it or what goes with it is not there")
    op = graph.op_by_id[r.op]
    if op.type in ("GlobalAveragePool", "ReduceMean"):
        return _mean(graph, op, r)
    if op.type in ("InstanceNormalization", "GroupNormalization") and len(op.inputs) == 3:
        return _norm(graph, op, r)
    raise fail(f"{op.label} is no norm and no mean")


def _shape(graph: Graph, tensor: int) -> tuple[int, ...]:
    known = graph.tensor_by_id[tensor]
    if known.dtype != "float32" or known.shape is None:
        raise fail(f"{known.label} is not of float32 numbers of a known shape")
    return known.shape


def _mean(graph: Graph, op: Op, r: Sums) -> tuple[list[Node], dict[str, int], int]:
    if list(r.gone) != [op.id]:
        raise fail(f"{op.label} goes alone")
    x, y = _shape(graph, op.inputs[0]), _shape(graph, op.outputs[0])
    dims, keep = tuple(range(2, len(x))), True
    if op.type == "ReduceMean":
        known = meaning(graph, op)
        form = None if known is None else known.form
        if not isinstance(form, Reduction):
            raise fail(f"{op.label} has axes that are not known")
        dims, keep = tuple(form.dims), form.keep
    nodes: list[Node] = [
        _reduce(graph, "ReduceSum", "x", dims, y, "total", keep),
        ("Mul", ("total", 1.0 / prod(x[d] for d in dims)), y, {}, "y"),
    ]
    return nodes, {"x": op.inputs[0]}, op.outputs[0]


def _norm(graph: Graph, op: Op, r: Sums) -> tuple[list[Node], dict[str, int], int]:
    source, result = op.inputs[0], op.outputs[0]
    between = len(r.gone) == 3
    if between:
        first, middle, last = (graph.op_by_id[o] for o in r.gone)
        chained = first.outputs == (source,) and middle is op and last.inputs[:1] == (result,)
        alone = graph.consumers.get(source) == (op.id,) and graph.consumers.get(result) == (last.id,)
        inner = graph.tensor_by_id[source].kind is graph.tensor_by_id[result].kind is Kind.ACTIVATION
        if not (chained and alone and inner and first.type == last.type == "Reshape"):
            raise fail(f"{op.label} is not between reshapes of its own")
        source, result = first.inputs[0], last.outputs[0]
    elif list(r.gone) != [op.id]:
        raise fail(f"{op.label} goes alone, or with the reshapes around it")
    shape, seen = _shape(graph, source), _shape(graph, op.inputs[0])
    if len(shape) != 4 or _shape(graph, result) != shape:
        raise fail(f"{op.label} is not of images")
    n, c, h, w = shape
    g = int(op.attributes.get("num_groups", 0)) or seen[1]
    if c % g or (between and seen != (n, g, c // g * h * w)):
        raise fail(f"{op.label} has no groups of channels")
    many = _shape(graph, op.inputs[1])
    if many != _shape(graph, op.inputs[2]) or many not in ((g,), (c,)):
        raise fail(f"{op.label} has parameters of another number")
    given = {"x": source, "scale": op.inputs[1], "shift": op.inputs[2]}
    return _norm_nodes(graph, (n, c, h, w), g, many[0], float(op.attributes.get("epsilon", 1e-5))), given, result


def _norm_nodes(graph: Graph, image: tuple[int, int, int, int], g: int, k: int, epsilon: float) -> list[Node]:
    """Of `g` groups, and `k` numbers of each parameter."""
    n, c, h, w = image
    row, one, all_rows = (n, c, h, 1), (n, g, 1), (n, g, c // g * h)

    def reshape(name: str, shape: tuple[int, ...], result: str) -> Node:
        return ("Reshape", (name, shape), shape, {}, result)

    def spread(name: str, count: int, wide: int) -> list[Node]:
        """From (n, count[, 1]) to (n, wide)."""
        shape = (n, count, wide // count)
        return [
            ("Expand", (name, shape), shape, {}, f"{name} wide"),
            reshape(f"{name} wide", (n, wide), f"{name} flat"),
        ]

    nodes: list[Node] = [
        _reduce(graph, "ReduceMean", "x", (3,), row, "row mean"),
        ("Sub", ("x", "row mean"), image, {}, "around"),
        _reduce(graph, "ReduceSumSquare", "around", (3,), row, "row squares"),
        reshape("row mean", all_rows, "means"),
        _reduce(graph, "ReduceMean", "means", (2,), one, "mean"),
        ("Sub", ("means", "mean"), all_rows, {}, "apart"),
        _reduce(graph, "ReduceSumSquare", "apart", (2,), one, "between"),
        reshape("row squares", all_rows, "squares"),
        _reduce(graph, "ReduceSum", "squares", (2,), one, "within"),
        ("Mul", ("between", float(w)), one, {}, "weighted"),
        ("Add", ("within", "weighted"), one, {}, "total"),
        ("Mul", ("total", 1.0 / (c // g * h * w)), one, {}, "variance"),
        ("Add", ("variance", epsilon), one, {}, "more"),
        ("Sqrt", ("more",), one, {}, "deviation"),
    ]
    for name in ("deviation", "mean"):
        nodes += [reshape(name, (n, g), f"{name} flat")] if k == g else spread(name, g, k)
    nodes += [
        ("Div", ("scale", "deviation flat"), (n, k), {}, "factor"),
        ("Mul", ("mean flat", "factor"), (n, k), {}, "moved"),
        ("Sub", ("shift", "moved"), (n, k), {}, "offset"),
    ]
    for name in ("factor", "offset"):
        shape, last = (n, k, c // k), name
        if k < c:
            apart = f"{name} apart"
            nodes += [reshape(name, (n, k, 1), apart), ("Expand", (apart, shape), shape, {}, f"{name} wide")]
            last = f"{name} wide"
        nodes.append(reshape(last, (n, c, 1, 1), f"{name} column"))
    return [
        *nodes,
        ("Mul", ("x", "factor column"), image, {}, "scaled"),
        ("Add", ("scaled", "offset column"), image, {}, "y"),
    ]


def _reduce(
    graph: Graph, kind: str, read: str, dims: tuple[int, ...], shape: tuple[int, ...], result: str, keep: bool = True
) -> Node:
    if 0 < graph.opset < _OPERAND_SINCE[kind]:
        return (kind, (read,), shape, {"axes": dims, "keepdims": int(keep)}, result)
    return (kind, (read, dims), shape, {"keepdims": int(keep)}, result)


def _written(nodes: Sequence[Node], given: dict[str, int], r: Sums) -> tuple[list[Op], list[Tensor]]:
    """The ops and the new tensors of a recipe, constants among them."""
    at, left, made, new = dict(given), list(reversed(r.tensors)), list[Op](), list[Tensor]()

    def tensor(shape: tuple[int, ...], dtype: str, value: bytes | None = None) -> int:
        if not left:
            raise fail(f"op {r.op} as sums makes more tensors than are listed")
        kind = Kind.ACTIVATION if value is None else Kind.CONSTANT
        size = prod(shape) * (8 if dtype == "int64" else 4)
        new.append(Tensor(left.pop(), size, kind, "", shape, dtype, value=value))
        return new[-1].id

    for o, (kind, operands, shape, attributes, result) in zip(r.ops, nodes, strict=True):
        read = []
        for operand in operands:
            if isinstance(operand, str):
                read.append(at[operand])
            elif isinstance(operand, tuple):
                read.append(tensor((len(operand),), "int64", struct.pack(f"<{len(operand)}q", *operand)))
            else:
                read.append(tensor((1,), "float32", struct.pack("<f", operand)))
        if result not in at:
            at[result] = tensor(shape, "float32")
        made.append(Op(o, tuple(read), (at[result],), "", kind, attributes=attributes, operands=tuple(read)))
    if left or len({t.id for t in new}) != len(new):
        raise fail(f"op {r.op} as sums makes {len(new)} tensors")
    return made, new


def check_recomputed_operations(graph: Graph, plan: Plan) -> str:
    """``recompute``: what recomputed ops cost in a plan that cuts, by the operations of the user's own ops. Raises
    `VerificationError`: the plan gives another figure, or a bound that is none."""
    given = plan.recomputation
    assert given is not None, plan.graph
    flops = {op.id: op.flops or 0 for op in graph.ops}
    of = origins(plan)
    once, more = sum(flops.values()), sum(flops.get(op, 0) for op in of.values())
    if (given.counted, given.once, given.planned) != ("flops", once, once + more):
        raise VerificationError(
            "recompute", f"the plan says {given.planned} of {given.once}, and it is {once + more} of {once}"
        )
    if given.lower_bound > once or given.certificate is not None or given.least_peak_bytes is not None:
        raise VerificationError(
            "recompute", "no bound is proved for ops that are recomputed in tiles, and one is given"
        )
    if given.max_overhead is not None and more > given.max_overhead * once * (1 + 1e-12):
        raise VerificationError("recompute", f"{more} operations are added, more than {given.max_overhead} of {once}")
    most = "" if given.max_overhead is None else f", {100 * given.max_overhead:g} % allowed"
    return f"{len(of):,} runs again add {100 * given.overhead:.3f} % of the operations{most}: operations, not time"
