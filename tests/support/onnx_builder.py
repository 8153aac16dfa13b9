"""Small ONNX models for tests, written tersely."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from lowtide.graph import Graph
from lowtide.read.onnx.wire import varint

Shape = Sequence[int | str | None]


def value(name: str, shape: Shape | None = (4,), dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    """A declared tensor; without a shape if that is None."""
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, reads: str, makes: str, **attributes: object) -> NodeProto:
    """A node; `reads` and `makes` are names between blanks, ``_`` for a left-out optional one."""
    names = [["" if n == "_" else n for n in text.split()] for text in (reads, makes)]
    domain = str(attributes.pop("domain", ""))
    return helper.make_node(op, *names, name=f"{op}.{names[1][0]}", domain=domain, **attributes)  # type: ignore


def constant(name: str, values: Sequence[float], shape: Sequence[int] | None = None, dtype: int = 1) -> TensorProto:
    """An initializer."""
    return helper.make_tensor(name, dtype, [len(values)] if shape is None else shape, values)


def graph(
    nodes: Iterable[NodeProto],
    inputs: Iterable[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
    constants: Iterable[TensorProto] = (),
    declared: Iterable[ValueInfoProto] = (),
) -> GraphProto:
    """A graph named ``g``."""
    return helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants), value_info=list(declared))


def model(
    nodes: Iterable[NodeProto],
    inputs: Iterable[ValueInfoProto],
    outputs: Iterable[ValueInfoProto],
    constants: Iterable[TensorProto] = (),
    declared: Iterable[ValueInfoProto] = (),
    opset: int = 20,
) -> ModelProto:
    """A model of IR version 10."""
    return helper.make_model(
        graph(nodes, inputs, outputs, constants, declared),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", opset)],
    )


def saved(model: ModelProto | bytes, folder: Path, name: str = "m.onnx") -> Path:
    """The file that `model` is written to."""
    path = folder / name
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def random_order(read: Graph, seed: int) -> list[int]:
    """A random topological order of op ids."""
    generator = random.Random(seed)
    waits = [set(before) for before in read.predecessors]
    ready = [i for i, before in enumerate(waits) if not before]
    order = []
    while ready:
        done = ready.pop(generator.randrange(len(ready)))
        order.append(read.ops[done].id)
        for i, before in enumerate(waits):
            if done in before:
                before.discard(done)
                if not before:
                    ready.append(i)
    return order


def record(field: int, payload: bytes) -> bytes:
    """A protobuf record of that number, with a length."""
    return varint(field << 3 | 2) + varint(len(payload)) + payload
