"""The ONNX model of a part graph: cut nodes in parts, and every other byte as it was.

The records of the graph stay in their order; the nodes are where the first of them was, what is new is at the end::

    graph  | node 0 | node 1 | initializer w | value_info t | ...         node 1 is cut, t lay between its parts
           | node 0 | node 1/0-4 | node 1/4-8 | initializer x | ... | initializer w/rows_0-4 | value_info ...

Nodes that are not cut, initializers that some node still reads, and everything outside the graph are copied as byte
ranges. A part of a node is its NodeProto with another name, inputs, outputs, and those attributes that `Op.attributes`
says differ. Rows of a weight are an initializer (`lowtide.write.onnx_rows`). Where there is none to be had (a folded
node computes the constant, a caller may feed another one, elements below 8 bits), they are a Slice node of it, which
reads constants only and is folded as others are. Weights, folded nodes and declared types of which only cut nodes knew
are left out. Inputs and outputs with free dimensions get the sizes that the parts were made for. A clone of an op, and
an op that reads one, is a part that covers the full op (`lowtide.transform.runs.as_parts`): no size hangs on it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.files import Buffer, open_bytes
from lowtide.graph import Kind, Op, Tensor
from lowtide.ops.access import Box
from lowtide.ops.onnx.blocked import is_blocked
from lowtide.ops.part import adapter
from lowtide.outputs import Outputs
from lowtide.read.onnx.proto import protobuf_classes
from lowtide.read.onnx.structure import read_structure
from lowtide.read.onnx.types import element_name
from lowtide.read.onnx.wire import GRAPH_FIELD, LENGTH_DELIMITED, NODE_FIELD, parse_model, varint
from lowtide.transform.parts import PartGraph
from lowtide.transform.rounds import slice_of_file
from lowtide.write.onnx import copy_external_data, copy_range, external_to_copy, graph_records
from lowtide.write.onnx_rows import Weights
from lowtide.write.slots import check_order

if TYPE_CHECKING:
    from onnx import ModelProto

_INITIALIZER, _INPUT, _OUTPUT, _VALUE_INFO, _ANNOTATION, _SPARSE = 5, 11, 12, 13, 14, 15  # fields of GraphProto
_OPSETS = 8  # field of ModelProto
_MAY_BE_FED = 4
"""IR version from which on an initializer that is a graph input is a default; before, every one is an input."""
_MOST_BYTES = 2**31 - 1  # an ONNX file, a protobuf, cannot be larger
Chunk = tuple[int, int] | bytes  # a range of the source file, or new bytes


def write_onnx_parts(
    source: str | Path,
    parts: PartGraph,
    order: Sequence[int],
    target: str | Path,
    copy_external: bool | None = False,
    outputs: Outputs | None = None,
) -> None:
    """Write the ONNX model of a part graph.

    `source`: the model that was cut; never changed. `parts`: what it was cut into. `order`: op ids of ``parts.graph``,
    each once, topological. Folded nodes stand before the first node that reads them. `target`, `copy_external`,
    `outputs`: as `lowtide.write.onnx.write_onnx`. Raises `InputError`: as `lowtide.write.onnx.write_onnx`; `source` is
    not the model that was cut; rows of external data are needed that is not there; the file would be larger than 2 GiB;
    the model holds training steps.
    """
    with Outputs() if outputs is None else nullcontext(outputs) as outputs:
        source, target = Path(source), Path(target)
        outputs.protect(source)
        check_order(parts.graph.ops, order, str(source))
        with open_bytes(source) as data:
            model = parse_model(data, str(source))
            external = external_to_copy(model, source, target, copy_external, outputs)
            chunks = _Writer(source, data, model, parts).chunks(order)
            with outputs.create(target) as file:
                for chunk in chunks:
                    if isinstance(chunk, bytes):
                        file.write(chunk)
                    else:
                        copy_range(data, *chunk, file)
        copy_external_data(external, source, target, outputs)


class _Writer:
    """The file of a part graph, as byte ranges of its source and new records."""

    def __init__(self, source: Path, data: Buffer, model: ModelProto, parts: PartGraph) -> None:
        self.place = str(source)
        self.data, self.model, self.parts, self.graph = data, model, parts, parts.graph
        self.outer, self.records = graph_records(data, self.place)
        self.nodes = [r for r in self.records if r[0] == NODE_FIELD]
        self.structure = read_structure(model, self.place)
        self.names = {t.id: t.name for t in self.structure.tensors}
        self._check()
        self.proto = protobuf_classes()
        self.types = {element_name(number): number for number in self.proto.TensorProto.DataType.values()}
        self.may_be_fed = {v.name for v in model.graph.input} if model.ir_version >= _MAY_BE_FED else set[str]()
        self.initializers: list[Any] = []
        self.slices: dict[str, tuple[str, bytes]] = {}
        self.taken = {*self.names.values(), *(t.name for t in self.graph.tensors)}
        self._constants()
        self.folded, self.gone = self._left()

    def _check(self) -> None:
        """That the file is the one that was cut."""
        if self.model.training_info:
            raise InputError(
                "the model holds training information, which names its weights; remove it, then tile", self.place
            )
        old = {op.id: op for op in (*self.structure.ops, *self.structure.folded)}
        cut = {cut.op for region in self.parts.regions for cut in region.cuts}
        cut.update(cut.op for cut in self.parts.elimination.cuts)
        cut.update(op for op in self.parts.parts if op in old)
        kept = [op for op in (*self.graph.ops, *self.graph.folded) if op.id not in self.parts.parts]
        cut.update(self.parts.gone)
        fits = {op.id for op in kept} | (cut & old.keys()) == set(old) and all(
            [self.names[t] for t in (*old[op.id].inputs, *old[op.id].outputs)]
            == [self.name(t) for t in (*op.inputs, *op.outputs)]
            for op in kept
        )
        if not fits:
            raise InputError(
                "this is not the model that was tiled; give the file that the graph was read from", self.place
            )

    def name(self, tensor: int | None) -> str:
        """A tensor's name in the file."""
        return "" if tensor is None else self.graph.tensor_by_id[tensor].name

    def _constants(self) -> None:
        """Initializers for numbers and for rows of weights, and slices of what has no rows to be had."""
        made_by = {self.names[op.outputs[0]]: op.id for op in self.structure.folded if op.type == "Constant"}
        dense = (r for r in self.records if r[0] == _INITIALIZER)
        weights = Weights(
            Path(self.place),
            self.data,
            {t.name: r[3:] for t, r in zip(self.model.graph.initializer, dense, strict=True)},
            {name: self.nodes[index][3:] for name, index in made_by.items()},
        )
        for t in dict.fromkeys(t for op in self.graph.ops for t in op.inputs):
            tensor, of_file = self.graph.tensor_by_id[t], self.parts.slices.get(t)
            if tensor.kind is not Kind.CONSTANT or t in self.names:
                continue
            if of_file is None:
                self._number(tensor.name, tensor.shape or (), tensor.dtype or "", tensor.value or b"")
                continue
            of_file = slice_of_file(self.parts.slices, of_file)
            of = self.names[of_file.of]
            rows = None if of in self.may_be_fed else weights.rows(of, of_file.box, tensor.name)
            if rows is not None:
                self.initializers.append(rows)
            elif tensor.value is not None and of not in self.may_be_fed:
                self._number(tensor.name, tensor.shape or (), tensor.dtype or "", tensor.value)
            else:
                self._slice(tensor, of_file.of, of_file.box)

    def _number(self, name: str, shape: tuple[int, ...], dtype: str, value: bytes) -> None:
        proto = self.proto.TensorProto
        self.initializers.append(proto(name=name, data_type=self.types[dtype], dims=shape, raw_data=value))

    def _slice(self, tensor: Tensor, of: int, box: Box) -> None:
        """A node that makes rows of a constant."""
        spell = adapter(self.graph)
        assert spell is not None, self.graph.dialect
        shape = self.graph.tensor_by_id[of].shape or ()
        glue = spell.slicing(self.graph, {d: rows for d, rows in enumerate(box) if rows != (0, shape[d])}, shape)
        inputs = [self.names[of]]
        for word, values in zip(("starts", "ends", "axes"), glue.literals, strict=False):
            name = f"{tensor.name}/{word}"
            while name in self.taken:
                name += "_"
            inputs.append(name)
            value = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
            self._number(inputs[-1], (len(values),), "int64", value)
        node = self.proto.NodeProto(op_type=glue.type, name=f"{tensor.name}/slice", input=inputs, output=[tensor.name])
        node.attribute.extend(_attribute(name, value) for name, value in glue.attributes.items())
        self.slices[tensor.name] = (self.names[of], _record(NODE_FIELD, node))

    def _left(self) -> tuple[list[Op], set[str]]:
        """Folded ops that stay, and names that no node makes or reads any more."""
        old = (*self.structure.ops, *self.structure.folded)
        read = {self.names[t] for op in old for t in op.inputs}
        live = {self.name(t) for op in self.graph.ops for t in op.inputs} | {of for of, _ in self.slices.values()}
        live.update(v.name for v in self.model.graph.output)
        folded, kept = [], {op.id for op in self.graph.folded}
        for op in reversed([op for op in self.structure.folded if op.id in kept]):  # others run, or are cut
            makes = {self.names[t] for t in op.outputs}
            if makes & live or not makes & read:
                folded.append(op)
                live.update(self.names[t] for t in op.inputs)
        made = {self.name(t) for op in self.graph.ops for t in op.outputs}
        lost = {self.names[t] for op in self.structure.ops for t in op.outputs} - made
        constants = {t.name for t in self.structure.tensors if t.kind is Kind.CONSTANT}
        return folded[::-1], lost | ((constants & read) - live - self.may_be_fed)

    def chunks(self, order: Sequence[int]) -> list[Chunk]:
        """The complete file."""
        inner = list(self._graph(order))
        size = sum(len(c) if isinstance(c, bytes) else c[1] - c[0] for c in inner)
        head = varint(GRAPH_FIELD << 3 | LENGTH_DELIMITED) + varint(size)
        _, _, begin, _, end = self.outer
        if begin + len(head) + size + len(self.data) - end > _MOST_BYTES:
            raise InputError(
                "with its tiles it is larger than 2 GiB, more than an ONNX file holds; save it with external data",
                self.place,
            )
        return [(0, begin), head, *inner, (end, len(self.data)), *self._domains()]

    def _graph(self, order: Sequence[int]) -> Iterator[Chunk]:
        """What is inside the graph."""
        at, first = self.outer[3], self.nodes[0]
        for record in self.records:
            if record[0] == NODE_FIELD or self.named.get(record[2]) in self.gone:
                yield at, record[2]
                at = record[4]
            if record is first:
                yield from self._sequence(order)
            if record[2] in self.bound:
                yield at, record[2]
                yield self.bound[record[2]]
                at = record[4]
        yield at, self.outer[4]
        for proto in self.initializers:
            yield _record(_INITIALIZER, proto)
            if self.model.ir_version < _MAY_BE_FED:
                yield _record(_INPUT, self._value(proto.name, proto.data_type, tuple(proto.dims)))
        for t in (t for op in self.graph.ops for t in op.outputs if t in self.parts.slices):
            tensor = self.graph.tensor_by_id[t]
            yield _record(_VALUE_INFO, self._value(tensor.name, self.types[tensor.dtype or ""], tensor.shape or ()))

    @cached_property
    def bound(self) -> Mapping[int, bytes]:
        """Inputs and outputs with free dimensions, by where their record begins: with the sizes that were cut, since
        the parts hold for no others and a runtime would leave out the rows beyond."""
        if not self.parts.regions and not self.parts.elimination.cuts and not self.parts.before:
            return {}
        shapes = {t.name: t.shape or () for t in self.graph.tensors}
        declared = {_INPUT: iter(self.model.graph.input), _OUTPUT: iter(self.model.graph.output)}
        result = {}
        for field, _, begin, body, end in self.records:
            if field not in declared:
                continue
            name = next(declared[field]).name
            value = self.proto.ValueInfoProto.FromString(self.data[body:end])
            dims, shape = value.type.tensor_type.shape.dim, shapes.get(name, ())
            free = [d for d, dim in enumerate(dims) if not dim.HasField("dim_value")]
            if free and len(shape) == len(dims):
                for d in free:
                    dims[d].dim_value = shape[d]
                result[begin] = _record(field, value)
        return result

    @cached_property
    def named(self) -> Mapping[int, str]:
        """The name that a record of the graph speaks of, by where the record begins."""
        graph = self.model.graph
        names = {
            _INITIALIZER: [t.name for t in graph.initializer],
            _INPUT: [v.name for v in graph.input],
            _VALUE_INFO: [v.name for v in graph.value_info],
            _ANNOTATION: [a.tensor_name for a in graph.quantization_annotation],
            _SPARSE: [t.values.name for t in graph.sparse_initializer],
        }
        each = {field: iter(listed) for field, listed in names.items()}
        return {r[2]: next(each[r[0]]) for r in self.records if r[0] in each}

    def _value(self, name: str, element: int, shape: tuple[int, ...]) -> Any:
        value = self.proto.ValueInfoProto(name=name)
        value.type.tensor_type.elem_type = element
        value.type.tensor_type.shape.SetInParent()
        for size in shape:
            value.type.tensor_type.shape.dim.add(dim_value=size)
        return value

    def _sequence(self, order: Sequence[int]) -> Iterator[Chunk]:
        """The nodes; folded ones before the first that reads them, those without a consumer first of all."""
        makers = {self.names[t]: op for op in self.folded for t in op.outputs}
        wanted = {name for op in self.folded for name in (self.names[t] for t in op.inputs)}
        wanted.update(self.name(t) for op in self.graph.ops for t in op.inputs)
        wanted.update(of for of, _ in self.slices.values())
        placed: set[str] = set()

        def constants(names: list[str]) -> Iterator[Chunk]:
            for name in names:
                if name in placed:
                    continue
                placed.add(name)
                if name in self.slices:
                    of, node = self.slices[name]
                    yield from constants([of])
                    yield node
                elif name in makers:
                    op = makers[name]
                    placed.update(self.names[t] for t in op.outputs)
                    yield from constants([self.names[t] for t in op.inputs])
                    yield self.nodes[op.id][2], self.nodes[op.id][4]

        for op in self.folded:
            if not any(self.names[t] in wanted for t in op.outputs):
                yield from constants([self.names[t] for t in op.inputs])
                if not placed.issuperset(self.names[t] for t in op.outputs) or not op.outputs:
                    placed.update(self.names[t] for t in op.outputs)
                    yield self.nodes[op.id][2], self.nodes[op.id][4]
        for o in order:
            op = self.graph.op_by_id[o]
            yield from constants([self.name(t) for t in op.inputs])
            part = self.parts.parts.get(o)
            if part is None:
                yield self.nodes[o][2], self.nodes[o][4]
            else:
                of = part.of if part.of is None else self.parts.sources.get(part.of, part.of)
                node = self._part(op, of)
                for each in self._of_rows(op, node) if of is None else [node]:
                    yield _record(NODE_FIELD, each)

    def _part(self, op: Op, of: int | None) -> Any:
        """The node of a part, or of what holds parts together."""
        inputs = [self.name(t) for t in op.operands]
        outputs = [self.name(t) for t in op.outputs]
        if of is None:
            node = self.proto.NodeProto(op_type=op.type, name=op.name, input=inputs, output=outputs)
            before: Mapping[str, Any] = {}
        else:
            _, _, _, body, end = self.nodes[of]
            node = self.proto.NodeProto.FromString(self.data[body:end])
            slots = iter(outputs)
            node.name, node.input[:] = op.name, inputs
            if op.type != self.types_of[of]:
                node.domain, _, node.op_type = op.type.rpartition("::")
            node.output[:] = [next(slots) if name else "" for name in node.output]
            before = self.attributes[of]
        differs = {k for k in (*before, *op.attributes) if before.get(k) != op.attributes.get(k)}
        for attribute in [a for a in node.attribute if a.name in differs]:
            node.attribute.remove(attribute)
        node.attribute.extend(_attribute(k, v) for k, v in op.attributes.items() if k in differs)
        return node

    def _of_rows(self, op: Op, node: Any) -> list[Any]:
        """A slice or join along rows; of blocked tensors between views whose rows are contiguous in each block."""
        tensors = [self.graph.tensor_by_id[t] for t in dict.fromkeys((*op.inputs, *op.outputs))]
        if not any(is_blocked(self.graph, t) for t in op.inputs):
            return [node]
        views: dict[bool, list[Any]] = {True: [], False: []}
        for t in tensors:
            if t.kind is Kind.CONSTANT:
                continue
            batch, channels, rows, columns = shape = t.shape or (1, 1, 1, 1)
            inner = f"{op.name}/{t.name}"
            read = t.id in op.inputs
            to = (batch, channels // self.block, rows, columns * self.block) if read else shape
            self._number(f"{inner}/shape", (4,), "int64", struct.pack("<4q", *to))
            ends = (t.name, inner) if read else (inner, t.name)
            view = self.proto.NodeProto(op_type="Reshape", name=f"{inner}/view")
            view.input[:], view.output[:] = (ends[0], f"{inner}/shape"), ends[1:]
            views[read].append(view)
            for names in (node.input, node.output):
                names[:] = [inner if name == t.name else name for name in names]
        return [*views[True], node, *views[False]]

    @cached_property
    def block(self) -> int:
        """Channels in a block of the layout that this processor's convolutions have."""
        from lowtide.run.blocks import block_size

        return block_size()

    @cached_property
    def types_of(self) -> Mapping[int, str]:
        """Types of the ops of the file, also of those that run under a target that folds nothing."""
        return {op.id: op.type for op in (*self.structure.ops, *self.structure.folded)}

    def _domains(self) -> Iterator[bytes]:
        """Versions of operators of others, which the file has not named so far."""
        named = {o.domain for o in self.model.opset_import}
        for domain in sorted({op.type.rpartition("::")[0] for op in self.graph.ops} - named - {""}):
            yield _record(_OPSETS, self.proto.OperatorSetIdProto(domain=domain, version=1))

    @cached_property
    def attributes(self) -> Mapping[int, Mapping[str, Any]]:
        """Attributes of the same."""
        return {op.id: op.attributes for op in (*self.structure.ops, *self.structure.folded)}


def _attribute(name: str, value: Any) -> Any:
    from onnx import helper

    return helper.make_attribute(name, value)


def _record(field: int, proto: Any) -> bytes:
    payload = proto.SerializeToString(deterministic=True)
    return varint(field << 3 | LENGTH_DELIMITED) + varint(len(payload)) + payload
