"""Products whose columns are read separately: X [A|B|C], then a split into three, are three products.

    X @ W + b -> [rows, 3 n] -> reshape, transpose -> take 0, 1, 2        X @ W[:, 0:n]     + b[0:n]      (a section)
                                                                    =>    X @ W[:, n:2n]    + b[n:2n]
                                                                          X @ W[:, 2n:3n]   + b[2n:3n]

Exporters write the queries, keys and values of attention as one product. That product runs before all its consumers,
and no region can tile the heads of all three. A section is columns of the product, all its rows, in some order of
dimensions: `Section` has it. Every number is the same sum of the same products.

The layout of a section is derived on strides: a dimension of a tensor after the product is a list of atoms ``(stride,
size)`` of the product's elements, outermost first. Reshapes split and merge atoms, transposes permute them, a slice is
an offset and smaller atoms.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import Any

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.names import FreeNames
from lowtide.ops.access import Box
from lowtide.ops.forms import Indexed as Taken
from lowtide.ops.forms import Reshape, Split, Transpose
from lowtide.ops.index import FIXED, Range
from lowtide.ops.meaning import meaning
from lowtide.ops.piece import Part, Piece
from lowtide.rewrites import Section, Sections
from lowtide.transform.part_builder import all_names, bytes_of_rows
from lowtide.transform.parts import PartGraph

_LEAST_OPSET = 7
"""Below it arithmetic broadcasts in other ways."""

_FLOATS = ("float32", "float16", "float64", "bfloat16")

Atom = tuple[int, int]
"""Stride and size."""
Dims = tuple[tuple[Atom, ...], ...]


@dataclass(frozen=True)
class Product:
    """A product that can be computed section by section."""

    # op, add: ids: of the MatMul or Gemm, and of the sum with a bias after it, if there is one.
    op: int
    add: int | None
    gone: tuple[int, ...]  # ids of all ops that are not run then, in file order
    columns: int  # how many it has
    sections: tuple[Section, ...]  # in the order of their columns, of which no two have one together


@dataclass(frozen=True)
class Sectioned:
    """A graph with products by sections."""

    graph: Graph
    rewrites: tuple[Sections, ...]  # the change of each product
    weights: dict[int, Piece]  # for each new constant, the columns of the file's constant that it is


def products(graph: Graph) -> tuple[Product, ...]:
    """Products of a graph that can be computed by sections, in file order."""
    if graph.dialect != "onnx" or 0 < graph.opset < _LEAST_OPSET:
        return ()
    found = (_product(graph, op) for op in graph.ops if op.type in ("MatMul", "Gemm"))
    return tuple(p for p in found if p is not None)


def _product(graph: Graph, op: Op) -> Product | None:
    tensors = graph.tensor_by_id
    shapes = [tensors[t].shape for t in (*op.inputs, *op.outputs)]
    if not 2 <= len(op.inputs) <= 3 or len(op.outputs) != 1 or op.after or any(s is None or 0 in s for s in shapes):
        return None
    weights, made = tensors[op.inputs[1]], tensors[op.outputs[0]]
    if op.inputs[0] in op.inputs[1:] or made.dtype not in _FLOATS:
        return None
    columns = _columns(op, weights)
    if weights.kind is not Kind.CONSTANT or not made.shape or not columns or made.shape[-1] != columns:
        return None
    add = _bias(graph, op)
    gone = [op.id] if add is None else [op.id, add.id]
    sections = _sections(graph, (add or op).outputs[0], columns, gone)
    if sections is None or len(sections) < 2:
        return None
    sections.sort(key=lambda s: s.columns)
    apart = all(a.columns[1] <= b.columns[0] for a, b in pairwise(sections))
    order = tuple(sorted(gone, key=graph.index_of.__getitem__))
    return Product(op.id, None if add is None else add.id, order, columns, tuple(sections)) if apart else None


def _columns(op: Op, weights: Tensor) -> int:
    """Columns of a product; 0: its weights have none."""
    if len(weights.shape or ()) != 2:
        return 0
    return (weights.shape or ())[0 if op.type == "Gemm" and op.attributes.get("transB") else 1]


def _bias(graph: Graph, op: Op) -> Op | None:
    """The sum with a constant that alone reads a product, of the product's shape."""
    readers = graph.consumers.get(op.outputs[0], ())
    add = graph.op_by_id[readers[0]] if len(readers) == 1 else None
    if add is None or add.type != "Add" or add.after or graph.tensor_by_id[op.outputs[0]].kind is Kind.OUTPUT:
        return None
    constants = [t for t in add.inputs if graph.tensor_by_id[t].kind is Kind.CONSTANT]
    shapes = [graph.tensor_by_id[t].shape for t in (op.outputs[0], add.outputs[0])]
    fits = len(constants) == 1 and op.outputs[0] in add.inputs and shapes[0] == shapes[1]
    return add if fits and graph.tensor_by_id[constants[0]].shape is not None else None


def _sections(graph: Graph, tensor: int, columns: int, gone: list[int]) -> list[Section] | None:
    """The sections that are taken of a tensor; None if some consumer reads more of it. `gone` gets the ops on the
    way."""
    shape = graph.tensor_by_id[tensor].shape or ()
    dims = tuple(((prod(shape[d + 1 :]), size),) for d, size in enumerate(shape))
    result: list[Section] = []
    queue: list[tuple[int, Dims]] = [(tensor, dims)]
    while queue:
        t, dims = queue.pop()
        if graph.tensor_by_id[t].kind is Kind.OUTPUT or not graph.consumers.get(t, ()):
            return None
        for reader in graph.consumers[t]:
            op = graph.op_by_id[reader]
            if op.after or op.inputs.count(t) != 1 or op.inputs[0] != t or reader in gone:
                return None
            gone.append(reader)
            if not _follow(graph, op, dims, queue, result, (prod(shape), columns)):
                return None
    return result


def _follow(
    graph: Graph,
    op: Op,
    dims: Dims,
    queue: list[tuple[int, Dims]],
    result: list[Section],
    size: tuple[int, int],
) -> bool:
    """Whether an op moves elements or takes some out; what it makes goes to `queue` or to `result`."""
    known = meaning(graph, op)
    form = None if known is None or op.bodies else known.form
    shapes = [graph.tensor_by_id[t].shape for t in op.outputs]
    if any(s is None or 0 in s for s in shapes):
        return False
    moved: Dims | None
    match form:
        case Reshape():
            moved = _reshaped(dims, shapes[0] or ())
        case Transpose():
            moved = tuple(dims[d] for d in form.order)
        case Split():
            at = 0
            for t, shape in zip(op.outputs, shapes, strict=True):
                rows = (at, at + (shape or ())[form.dim])
                at = rows[1]
                if not _end(graph, t, _taken(dims, {form.dim: rows}), size, result):
                    return False
            return True
        case Taken() if op.type in ("Slice", "Gather"):
            rows = _rows_taken(form, shapes[0] or ())
            return rows is not None and _end(graph, op.outputs[0], _taken(dims, rows), size, result)
        case _:
            return False
    if moved is None:
        return False
    queue.append((op.outputs[0], moved))
    return True


def _rows_taken(form: Taken, shape: Sequence[int]) -> dict[int, Range] | None:
    """Rows of each dimension of what a slice or a gather reads; None: not all, or not in turn."""
    rows: dict[int, Range] = {}
    for d, index in enumerate(form.indices):
        if index is None:
            return None
        if index.axis == FIXED:
            rows[d] = (index.lo, index.hi + 1)
        elif (index.num, index.den) != (1, 1) or index.lo != index.hi or index.lo < 0:
            return None
        else:
            rows[d] = (index.lo, index.lo + shape[index.axis])
    return rows


def _merged(atoms: Iterable[Atom]) -> list[Atom]:
    """Atoms outermost first, contiguous ones merged.

    >>> _merged([(12, 4), (3, 4), (1, 1), (1, 3)])
    [(1, 48)]
    """
    result: list[Atom] = []
    for stride, size in atoms:
        if size == 1:
            continue
        if result and result[-1][0] == stride * size:
            result[-1] = (stride, result[-1][1] * size)
        else:
            result.append((stride, size))
    return result


def _reshaped(dims: Dims, shape: Sequence[int]) -> Dims | None:
    """Dimensions of another shape with the same elements in the same order; None if one would begin within an atom."""
    left = _merged(atom for dim in dims for atom in dim)[::-1]
    result = []
    for size in shape:
        atoms = []
        while size > 1:
            stride, count = left.pop()
            if size % count and count % size:
                return None
            outer = min(size, count)
            atoms.append((stride * (count // outer), outer))
            if outer < count:
                left.append((stride, count // outer))
            size //= outer
        result.append(tuple(atoms))
    return tuple(result)


def _taken(dims: Dims, rows: dict[int, Range]) -> tuple[int, Dims] | None:
    """The first element and the dimensions of some rows; None if they are no atoms."""
    offset, result = 0, list(dims)
    for d, (a, b) in rows.items():
        inner = prod(size for _, size in dims[d][1:])
        if not dims[d] or (a, b) == (0, inner * dims[d][0][1]):
            continue
        if b - a == 1:
            at = a
            for stride, size in reversed(dims[d]):
                offset += at % size * stride
                at //= size
            result[d] = ()
        elif a % inner or b % inner:
            return None
        else:
            stride = dims[d][0][0]
            offset += a // inner * stride
            result[d] = ((stride, (b - a) // inner), *dims[d][1:])
    return offset, tuple(result)


def _end(
    graph: Graph, tensor: int, taken: tuple[int, Dims] | None, size: tuple[int, int], result: list[Section]
) -> bool:
    """Whether a slice is columns of all rows; it goes to `result` if it has a consumer."""
    if taken is None:
        return False
    if not graph.consumers.get(tensor, ()) and graph.tensor_by_id[tensor].kind is not Kind.OUTPUT:
        return True
    offset, dims = taken
    elements, columns = size
    atoms = _at_rows([atom for dim in dims for atom in dim], columns)
    if atoms is None:
        return False
    order = sorted(range(len(atoms)), key=lambda i: -atoms[i][0])
    width = _contiguous([atoms[i] for i in order if atoms[i][0] < columns], 1)
    rows = _contiguous([atoms[i] for i in order if atoms[i][0] >= columns], columns)
    if not width or rows * columns != elements or offset + width > columns:
        return False
    perm = [order.index(i) for i in range(len(atoms))]
    plain = perm == sorted(perm)
    shape = [] if plain else [atoms[i][1] for i in order]
    result.append(Section(tensor=tensor, columns=(offset, offset + width), shape=shape, perm=[] if plain else perm))
    return True


def _at_rows(atoms: Iterable[Atom], columns: int) -> list[Atom] | None:
    """Atoms of which each is within a row or of rows alone; None if one ends elsewhere."""
    result = []
    for stride, size in _merged(atoms):
        if stride < columns < stride * size:
            inner = columns // stride
            if columns % stride or size % inner:
                return None
            result += [(columns, size // inner), (stride, inner)]
        else:
            result.append((stride, size))
    return result


def _contiguous(atoms: Sequence[Atom], step: int) -> int:
    """Elements of atoms, outermost first, that are contiguous, `step` apart; 0 if they are not."""
    count = 1
    for stride, size in reversed(atoms):
        if stride != step * count:
            return 0
        count *= size
    return count


def by_sections(graph: Graph, chosen: Sequence[Product]) -> Sectioned:
    """The graph with some products by sections. Ids hang on which are chosen and on their order alone."""
    maker = _Maker(graph)
    instead: dict[int, list[Op]] = {}
    rewrites = []
    for product in chosen:
        first_op, first_tensor = len(maker.ops), len(maker.tensors)
        for section in product.sections:
            maker.section(product, section)
        made = maker.ops[first_op:]
        instead[product.op] = made
        rewrites.append(
            Sections(
                op=product.op,
                add=product.add,
                gone=list(product.gone),
                sections=list(product.sections),
                ops=[op.id for op in made],
                tensors=[t.id for t in maker.tensors[first_tensor:]],
            )
        )
    gone = {op for product in chosen for op in product.gone}
    ops = [op for own in graph.ops for op in instead.get(own.id, [] if own.id in gone else [own])]
    used = {t for op in (*ops, *graph.folded) for t in (*op.inputs, *op.outputs)}
    lost = {t for op in gone for t in graph.op_by_id[op].outputs} - used
    kept = [t for t in graph.tensors if t.id not in lost]
    changed = replace(graph, tensors=(*kept, *maker.tensors), ops=tuple(ops), file_order=())
    return Sectioned(changed, tuple(rewrites), maker.weights)


@dataclass
class _Maker:
    """Makes the ops of sections, with unused ids and names."""

    graph: Graph
    ops: list[Op] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    weights: dict[int, Piece] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph
        self.next_op = max((op.id for op in (*graph.ops, *graph.folded)), default=-1) + 1
        self.next_tensor = max((t.id for t in graph.tensors), default=-1) + 1
        self.names = FreeNames(all_names(graph))

    def section(self, product: Product, section: Section) -> None:
        """The ops that make one: the product of its columns, its bias, and what puts it in order."""
        graph, op = self.graph, self.graph.op_by_id[product.op]
        (a, b), result = section.columns, graph.tensor_by_id[op.outputs[0]]
        plain, wanted = (*(result.shape or ())[:-1], b - a), graph.tensor_by_id[section.tensor].shape or ()
        moved = tuple(section.shape[d] for d in section.perm) if section.perm else plain
        steps = [("Reshape", tuple(section.shape))] if section.perm and tuple(section.shape) != plain else []
        steps += [("Transpose", moved)] if section.perm else []
        steps += [("Reshape", wanted)] if moved != wanted else []
        own = [op] if product.add is None else [op, graph.op_by_id[product.add]]
        left, made = len(own) + len(steps), op.inputs[0]
        for k, like in enumerate(own):
            read = [
                t if t in (op.inputs[0], op.outputs[0]) else self._columns(like, t, product, section)
                for t in like.inputs
            ]
            given = [made if t == (op.outputs[0] if k else op.inputs[0]) else t for t in read]
            left -= 1
            made = self._op(
                like.type, like.name, given, plain, like.attributes, result, None if left else section.tensor
            )
        for kind, shape in steps:
            given = [made] if kind == "Transpose" else [made, self._integers(op, shape)]
            attributes = {"perm": tuple(section.perm)} if kind == "Transpose" else {}
            left -= 1
            name = f"{op.name or op.type}/{kind}"
            made = self._op(kind, name, given, shape, attributes, result, None if left else section.tensor)

    def _columns(self, op: Op, tensor: int, product: Product, section: Section) -> int:
        """Columns of a constant operand; the constant itself if it is the same for all."""
        full = self.graph.tensor_by_id[tensor]
        shape, (a, b) = full.shape or (), section.columns
        dim = 0 if op.type == "Gemm" and op.attributes.get("transB") and tensor == op.inputs[1] else len(shape) - 1
        if not shape or shape[dim] != product.columns:
            return tensor
        box: Box = tuple((a, b) if d == dim else (0, size) for d, size in enumerate(shape))
        name, size = self.names.take(f"{full.label}/columns_{a}-{b}"), full.size * (b - a) // product.columns
        made, value = tuple(end - first for first, end in box), bytes_of_rows(full, box)
        at = self._tensor(Tensor(self.next_tensor, size, Kind.CONSTANT, name, made, full.dtype, value=value))
        self.weights[at] = Piece(tensor, box)
        return at

    def _integers(self, op: Op, values: Sequence[int]) -> int:
        name, data = self.names.take(f"{op.name or op.type}/shape"), struct.pack(f"<{len(values)}q", *values)
        return self._tensor(
            Tensor(self.next_tensor, len(data), Kind.CONSTANT, name, (len(values),), "int64", value=data)
        )

    def _op(
        self,
        kind: str,
        name: str,
        operands: Sequence[int],
        shape: tuple[int, ...],
        attributes: Mapping[str, Any],
        result: Tensor,
        into: int | None,
    ) -> int:
        """An op whose result has the elements of another tensor, and is tensor `into` if that is given."""
        given, name = tuple(operands), self.names.take(name or kind)
        if into is None:
            size = result.size * prod(shape) // prod(result.shape or ())
            label = self.names.take(f"{name}/result")
            into = self._tensor(Tensor(self.next_tensor, size, Kind.ACTIVATION, label, shape, result.dtype))
        self.ops.append(Op(self.next_op, given, (into,), name, kind, attributes=attributes, operands=given))
        self.next_op += 1
        return into

    def _tensor(self, tensor: Tensor) -> int:
        self.tensors.append(tensor)
        self.next_tensor += 1
        return tensor.id


def of_user(parts: PartGraph, sectioned: Sectioned) -> PartGraph:
    """The parts of a graph by sections, with the origins of their ops and tensors in the user's file."""
    new = {op for r in sectioned.rewrites for op in r.ops}
    unmodified = {op.id: Part("whole", op.id) for op in parts.graph.ops if op.id in new}
    constants = {t.id for t in parts.graph.tensors if t.kind is Kind.CONSTANT}
    weights = {t: origin for t, origin in sectioned.weights.items() if t in constants}
    return replace(
        parts,
        slices={**parts.slices, **weights},
        parts={**parts.parts, **unmodified},
        sources={**parts.sources, **dict.fromkeys(new, None)},
        gone=parts.gone | {op for r in sectioned.rewrites for op in r.gone},
        before=(*sectioned.rewrites, *parts.before),
    )
