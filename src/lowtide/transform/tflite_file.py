"""The .tflite file of a part graph, without weights: TFLM's arena depends on it before the file is written.

The remaining tensors of the user's file keep their numbers, so that inputs, outputs and signatures stay valid. New
tensors take the numbers of removed ones, since TFLM keeps a record of every tensor and allocates those without a
consumer, too; further ones follow at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from lowtide.graph import ELEMENT_BITS, Graph, Kind, ModelFile, Tensor
from lowtide.read.tflite.model import TfliteFile, TfliteModel, TfliteOp, TfliteTensor
from lowtide.read.tflite.reader import graph_of
from lowtide.transform.parts import PartGraph

EMPTY = TfliteTensor("", (0,), "int8", 8, 0, 0, False, False, False, None)
"""The entry of an unused number: it takes no memory."""


@dataclass(frozen=True)
class TfliteParts(ModelFile):
    """The file of a part graph."""

    source: TfliteFile  # the user's file
    tensors: Mapping[int, int]  # number in the file of each tensor of the part graph, by id
    ops: Mapping[int, int]  # the same of each op, in the part graph's order
    new: tuple[int, ...]  # ids of the tensors that the user's file does not have
    model: TfliteModel  # the future file

    @cached_property
    def graph(self) -> Graph:
        """Subgraph 0 of the file, with its numbers as ids."""
        made = graph_of(self.model, (), self.model.place, "")
        return replace(made, file=TfliteFile(self.model, self.source.size_bytes))


def with_file(parts: PartGraph) -> PartGraph:
    """The part graph with the file that it will be, if the user's is a .tflite file."""
    file = parts.graph.file
    file = file.source if isinstance(file, TfliteParts) else file  # nested tiles
    if not isinstance(file, TfliteFile):
        return parts
    return replace(parts, graph=replace(parts.graph, file=_parts_file(parts, file)))


def _parts_file(parts: PartGraph, file: TfliteFile) -> TfliteParts:
    graph, main = parts.graph, file.model.subgraphs[0]
    numbers, new = _numbers(parts, len(main.tensors), file)
    listed = [EMPTY] * (max(numbers.values(), default=-1) + 1)
    listed += [EMPTY] * (len(main.tensors) - len(listed))
    for t, number in numbers.items():
        listed[number] = main.tensors[t] if t < len(main.tensors) else _tensor(graph.tensor_by_id[t])
    ops = tuple(
        TfliteOp(
            op.type,
            tuple(-1 if t is None else numbers[t] for t in op.operands),
            tuple(numbers[t] for t in op.outputs),
            main.ops[op.id].intermediates if op.id < len(main.ops) else (),
            dict(op.attributes),
        )
        for op in graph.ops
    )
    made = replace(main, tensors=tuple(listed), ops=ops, operators_at=None)
    model = replace(file.model, subgraphs=(made, *file.model.subgraphs[1:]))
    return TfliteParts(file, numbers, {op.id: i for i, op in enumerate(graph.ops)}, new, model)


def _numbers(parts: PartGraph, count: int, file: TfliteFile) -> tuple[dict[int, int], tuple[int, ...]]:
    """Number of each tensor that the file has, of its own and new ones."""
    graph, main = parts.graph, file.model.subgraphs[0]
    used = dict.fromkeys((*main.inputs, *main.outputs))
    for op in graph.ops:
        used.update(dict.fromkeys((*op.inputs, *op.outputs)))
        if op.id < len(main.ops):
            used.update(dict.fromkeys(t for t in main.ops[op.id].intermediates if t >= 0))
    new = tuple(t.id for t in graph.tensors if t.id >= count and t.id in used)
    free = [t for t in range(count) if t not in used]
    free += range(count, count + max(0, len(new) - len(free)))
    return {**{t: t for t in used if t < count}, **dict(zip(new, free, strict=False))}, new


def _tensor(tensor: Tensor) -> TfliteTensor:
    constant = tensor.kind is Kind.CONSTANT
    bits = ELEMENT_BITS[tensor.dtype or ""]
    held = tensor.size if constant else 0
    shape = tensor.shape or ()
    return TfliteTensor(
        tensor.name, shape, tensor.dtype or "", bits, 0, held, False, False, False, tensor.quant, None, tensor.value
    )
