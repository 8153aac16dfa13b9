"""A plan played through in one block of bytes, with numbers that a runtime gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowtide.graph import Graph, Kind


def spoiled(
    graph: Graph, order: Sequence[int], offsets: Mapping[int, int], size: int, numbers: Mapping[str, np.ndarray]
) -> str:
    """What an op, or the caller at the end, finds overwritten where it reads; empty: nothing.

    Parameters
    ----------
    order
        Op ids.
    offsets
        Bytes from the start of the arena, of every tensor id that is no constant.
    size
        Bytes of the arena.
    numbers
        What each tensor is to be, by its name.
    """
    arena = bytearray(size)

    def write(tensor_id: int) -> None:
        data, at = numbers[graph.tensor_by_id[tensor_id].name].tobytes(), offsets[tensor_id]
        assert at + len(data) <= size, f"tensor {tensor_id} ends behind the arena"
        arena[at : at + len(data)] = data

    def whole(tensor_id: int) -> bool:
        tensor = graph.tensor_by_id[tensor_id]
        if tensor.kind is Kind.CONSTANT or not tensor.size:
            return True
        data, at = numbers[tensor.name].tobytes(), offsets[tensor_id]
        return arena[at : at + len(data)] == data

    for tensor in graph.tensors:
        if tensor.kind is Kind.INPUT and tensor.id in offsets:
            write(tensor.id)
    for op in (graph.op_by_id[i] for i in order):
        for tensor_id in op.inputs:
            if not whole(tensor_id):
                return f"op {op.id} reads tensor {tensor_id}, which is overwritten"
        for tensor_id in op.outputs:
            if tensor_id in offsets:
                write(tensor_id)
    for tensor in graph.tensors:
        if tensor.kind is Kind.OUTPUT and not whole(tensor.id):
            return f"result {tensor.id} is overwritten"
    return ""
