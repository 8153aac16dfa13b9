"""What some rows of a tensor take over from it: values, scales, and the names that are there."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from lowtide.graph import Graph, Quant, Tensor
from lowtide.ops.access import Box


def quant_of_rows(quant: Quant | None, box: Box) -> Quant | None:
    """How rows of a tensor are quantised: each along the axis has a scale of its own."""
    if quant is None or quant.axis is None:
        return quant
    a, b = box[min(quant.axis, len(box) - 1)]  # a bias may name the weights' dimension
    return Quant(quant.scales[a:b], quant.zero_points[a:b], quant.axis if b - a > 1 else None)


def all_names(graph: Graph) -> Iterator[str]:
    """Names of all ops and tensors, those in bodies too."""
    for tensor in graph.tensors:
        yield tensor.name
    for op in (*graph.folded, *graph.ops):
        yield op.name
        for body in op.bodies:
            yield from all_names(body)


def bytes_of_rows(tensor: Tensor, box: Box) -> bytes | None:
    """The bytes of some rows of a small constant."""
    shape = tensor.shape or ()
    count = prod(shape)
    if tensor.value is None or not count or len(tensor.value) % count:
        return None
    width = len(tensor.value) // count
    value, offsets = tensor.value, [0]
    for (a, b), size in zip(box, shape, strict=True):
        offsets = [at * size + row for at in offsets for row in range(a, b)]
    return b"".join(value[at * width : (at + 1) * width] for at in offsets)
