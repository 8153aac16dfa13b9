"""Products that a plan computes section by section, and the ops that take their place.

Element i of what a product makes is given the number i. The ops that took sections out of it are replayed on these
numbers, and so is each section of the plan: columns of all rows, in a shape, transposed. Both have to give the same
numbers. The rest follows: columns of a product are the product with columns of the weights and of the bias.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import Section, Sections
from lowtide.verify.check.part_rows import tile_value
from lowtide.verify.check.replaced_ops import Replacement, fail, with_replacements

Numbers = np.ndarray[Any, np.dtype[np.int64]]

_SAME_ORDER = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def with_sections(graph: Graph, plan: Plan) -> Graph:
    """The graph with the plan's products by sections. Raises `VerificationError`: ``rewrites``: an op that is no
    product with constant weights, ops after it that do something else than the sections say, an op that reads what is
    gone, or other numbers of ops and tensors."""
    listed = [r for r in plan.rewrites or () if isinstance(r, Sections)]
    if not listed:
        return graph
    if graph.dialect != "onnx" or 0 < graph.opset < 7:
        raise fail("sections of products are written with ONNX's operators from version 7 on")
    return with_replacements(graph, (_replacement(graph, plan, r) for r in listed), "by sections")


def _replacement(graph: Graph, plan: Plan, r: Sections) -> Replacement:
    """The ops and tensors of one product."""
    _check_sections(graph, r)
    made = _Nodes(graph, plan, r)
    return r, made.ops, made.tensors


def _check_sections(graph: Graph, r: Sections) -> None:
    """That what is read of the ops that are gone is what the sections say."""
    gone = set(r.gone)
    if len(gone) != len(r.gone) or not gone <= graph.index_of.keys() or r.op not in gone:
        raise fail(f"op {r.op} by sections: ops are gone that are not there")
    op, last = graph.op_by_id[r.op], _last(graph, r)
    shape = graph.tensor_by_id[op.outputs[0]].shape or ()
    if shape != graph.tensor_by_id[last].shape or not shape or shape[-1] != _columns(graph, op):
        raise fail(f"{op.label} has no columns that are its weights'")
    numbers: dict[int, Numbers] = {last: np.arange(prod(shape), dtype=np.int64).reshape(shape)}
    for other in graph.ops:
        if other.id in gone and other.id not in (r.op, r.add):
            if not other.inputs or other.inputs[0] not in numbers or other.after or other.bodies:
                raise fail(f"{other.label} takes no section of {op.label}")
            try:
                made = _moved(graph, other, numbers[other.inputs[0]])
            except (ValueError, IndexError, KeyError) as error:
                raise fail(f"what {other.label} takes is not known: {error}") from None
            numbers |= dict(zip(other.outputs, made, strict=True))
    made = {t for o in gone for t in graph.op_by_id[o].outputs}
    read = {t for other in (*graph.ops, *graph.folded) if other.id not in gone for t in other.inputs}
    ends = {t for t in made if t in read or graph.tensor_by_id[t].kind is Kind.OUTPUT}
    if ends != {s.tensor for s in r.sections} or len(ends) != len(r.sections) or not ends <= numbers.keys():
        raise fail(f"what is read of {op.label} is not what its sections make")
    elements = numbers[last].reshape(-1, shape[-1])
    for section in r.sections:
        planned = _elements(elements, section, numbers[section.tensor].shape)
        if planned is None or not np.array_equal(planned, numbers[section.tensor]):
            raise fail(f"{graph.tensor_by_id[section.tensor].label} is no such section of {op.label}")


def _last(graph: Graph, r: Sections) -> int:
    """What a product makes, with its bias."""
    op = graph.op_by_id[r.op]
    constants = [graph.tensor_by_id[t].kind is Kind.CONSTANT for t in op.inputs]
    if op.type not in ("MatMul", "Gemm") or constants[1:] != [True] * (len(constants) - 1) or len(constants) < 2:
        raise fail(f"{op.label} is no product with constant weights")
    if op.inputs[0] in op.inputs[1:] or len(op.outputs) != 1 or op.after:
        raise fail(f"{op.label} is no product of its own")
    if r.add is None:
        return op.outputs[0]
    add = graph.op_by_id.get(r.add)
    if add is None or r.add not in r.gone or add.type != "Add" or add.inputs.count(op.outputs[0]) != 1 or add.after:
        raise fail(f"op {r.add} is no sum after {op.label}")
    others = [graph.tensor_by_id[t] for t in add.inputs if t != op.outputs[0]]
    if [t.kind for t in others] != [Kind.CONSTANT]:
        raise fail(f"op {r.add} adds no bias to {op.label}")
    return add.outputs[0]


def _columns(graph: Graph, op: Op) -> int:
    shape = graph.tensor_by_id[op.inputs[1]].shape or ()
    if len(shape) != 2:
        raise fail(f"{op.label} has weights that are no matrix")
    return shape[0] if op.type == "Gemm" and op.attributes.get("transB", 0) else shape[1]


def _moved(graph: Graph, op: Op, read: Numbers) -> list[Numbers]:
    """What an op that moves elements makes of some."""
    shapes = [graph.tensor_by_id[t].shape for t in op.outputs]
    given = (op.operands or op.inputs)[1:]
    values = [() if t is None else graph.tensor_by_id[t].integers for t in given]
    known = all(t is None or graph.tensor_by_id[t].kind is Kind.CONSTANT for t in given)
    if not known or any(s is None for s in shapes):
        raise fail(f"what {op.label} takes is not known")
    made: list[Numbers] | None = None
    if op.type in _SAME_ORDER:
        made = [read.reshape(shapes[0] or ())] if prod(shapes[0] or ()) == read.size else None
    elif op.type == "Transpose":
        made = [read.transpose(op.attributes.get("perm", tuple(range(read.ndim))[::-1]))]
    elif op.type == "Split":
        axis = int(op.attributes.get("axis", 0)) % read.ndim
        ends = list(accumulate((s or ())[axis] for s in shapes))
        made = list(np.split(read, ends[:-1], axis)) if ends[-1] == read.shape[axis] else None
    elif op.type == "Gather" and len(values) == 1 and len(values[0]) == 1:
        rows = np.asarray(values[0]).reshape(graph.tensor_by_id[given[0] or 0].shape or ())
        made = [np.take(read, rows, int(op.attributes.get("axis", 0)))]
    elif op.type == "Slice":
        made = [_sliced(op, read, values)]
    if made is None or [x.shape for x in made] != shapes:
        raise fail(f"{op.label} does more than take a section, or something else")
    return made


def _sliced(op: Op, read: Numbers, values: list[tuple[int, ...]]) -> Numbers:
    a = op.attributes
    starts, ends, *more = (
        values if values else [tuple(a["starts"]), tuple(a["ends"]), *([a["axes"]] if "axes" in a else [])]
    )
    axes = more[0] if more and more[0] else tuple(range(len(starts)))
    steps = more[1] if len(more) > 1 and more[1] else (1,) * len(starts)
    at = [slice(None)] * read.ndim
    for first, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step < 1:
            raise fail(f"{op.label} goes backwards")
        at[axis] = slice(first, end, step)
    return read[tuple(at)]


def _elements(elements: Numbers, section: Section, shape: tuple[int, ...]) -> Numbers | None:
    """Elements of a section as the plan has it, in a shape; None if it is none."""
    a, b = section.columns
    if not 0 <= a < b <= elements.shape[1]:
        return None
    taken = elements[:, a:b]
    if section.perm:
        fits = sorted(section.perm) == list(range(len(section.shape)))
        if not fits or any(size < 1 for size in section.shape) or prod(section.shape) != taken.size:
            return None
        taken = taken.reshape(section.shape).transpose(section.perm)
    return taken.reshape(shape) if prod(shape) == taken.size else None


class _Nodes:
    """The ops in the place of a product, with the plan's ids and names, one section after the other."""

    def __init__(self, graph: Graph, plan: Plan, r: Sections) -> None:
        self.graph, self.r = graph, r
        self.names, self.op_names = {t.id: t.name for t in plan.tensors}, {op.id: op.name for op in plan.ops}
        self.slices = {t.id: t.piece for t in plan.tensors}
        self.left, self.left_ops = list(reversed(r.tensors)), list(reversed(r.ops))
        self.ops: list[Op] = []
        self.tensors: list[Tensor] = []
        for section in r.sections:
            self._section(section)
        if self.left or self.left_ops or len(set(r.tensors)) < len(r.tensors) or len(set(r.ops)) < len(r.ops):
            raise fail(f"op {r.op} by sections has {len(self.ops)} ops and {len(self.tensors)} tensors")

    def _section(self, section: Section) -> None:
        graph, op = self.graph, self.graph.op_by_id[self.r.op]
        add = None if self.r.add is None else graph.op_by_id[self.r.add]
        a, b = section.columns
        rows = (graph.tensor_by_id[op.outputs[0]].shape or ())[:-1]
        at, wanted = (*rows, b - a), graph.tensor_by_id[section.tensor].shape or ()
        moves: list[tuple[str, tuple[int, ...]]] = []
        if section.perm:
            if tuple(section.shape) != at:
                moves.append(("Reshape", tuple(section.shape)))
            at = tuple(section.shape[d] for d in section.perm)
            moves.append(("Transpose", at))
        if at != wanted:
            moves.append(("Reshape", wanted))
        plain = (*rows, b - a)
        x = self._op(
            op.type, [op.inputs[0], *(self._constant(op, t, a, b) for t in op.inputs[1:])], plain, op.attributes,
            None if add is not None or moves else section.tensor,
        )  # fmt: skip
        if add is not None:
            read = [x if t == op.outputs[0] else self._constant(add, t, a, b) for t in add.inputs]
            x = self._op("Add", read, plain, add.attributes, None if moves else section.tensor)
        for k, (kind, shape) in enumerate(moves):
            into = section.tensor if k + 1 == len(moves) else None
            if kind == "Transpose":
                x = self._op(kind, [x], shape, {"perm": tuple(section.perm)}, into)
            else:
                value = struct.pack(f"<{len(shape)}q", *shape)
                at_shape = self._tensor(len(value), Kind.CONSTANT, (len(shape),), "int64", value)
                x = self._op(kind, [x, at_shape], shape, {}, into)

    def _constant(self, op: Op, t: int, a: int, b: int) -> int:
        """Columns of a constant; the constant itself where it is the same for all columns."""
        constant, count = self.graph.tensor_by_id[t], _columns(self.graph, self.graph.op_by_id[self.r.op])
        shape = constant.shape
        if shape is None:
            raise fail(f"{constant.label} has no known shape")
        along = 0 if op.type == "Gemm" and op.attributes.get("transB", 0) and t == op.inputs[1] else len(shape) - 1
        if not shape or shape[along] == 1 != count:
            return t
        if shape[along] != count:
            raise fail(f"{constant.label} has other columns than its product")
        box = [(a, b) if d == along else (0, size) for d, size in enumerate(shape)]
        made = tuple(end - first for first, end in box)
        size = constant.size // prod(shape) * prod(made)
        new = self._tensor(size, Kind.CONSTANT, made, constant.dtype, tile_value(constant, box))
        given = self.slices.get(new)
        if given is None or (given.of, [tuple(rows) for rows in given.box]) != (t, box) or given.terms or given.sure:
            raise fail(f"tensor {new} is not columns {a} to {b} of {constant.label}")
        return new

    def _op(
        self, kind: str, read: list[int], shape: tuple[int, ...], attributes: Mapping[str, Any], into: int | None
    ) -> int:
        if not self.left_ops:
            raise fail(f"op {self.r.op} by sections takes more ops than are listed")
        o = self.left_ops.pop()
        if into is None:
            like = self.graph.tensor_by_id[self.graph.op_by_id[self.r.op].outputs[0]]
            size = like.size // prod(like.shape or ()) * prod(shape)
            into = self._tensor(size, Kind.ACTIVATION, shape, like.dtype, None)
        given = tuple(read)
        self.ops.append(Op(o, given, (into,), self.op_names.get(o, ""), kind, attributes=attributes, operands=given))
        return into

    def _tensor(self, size: int, kind: Kind, shape: tuple[int, ...], dtype: str | None, value: bytes | None) -> int:
        if not self.left:
            raise fail(f"op {self.r.op} by sections makes more tensors than are listed")
        t = self.left.pop()
        self.tensors.append(Tensor(t, size, kind, self.names.get(t, ""), shape, dtype, value=value))
        return t
