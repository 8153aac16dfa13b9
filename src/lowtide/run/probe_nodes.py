"""Takes an op of a graph to its probe: operands as they are or smaller, literals with their values, the runner.

Smaller operands for an op that is slow to probe, under the same map.

An axis can be made shorter by k * den rows if every dimension that runs along it gives k * num: windows keep their
phase, strides and edges. What a literal or an attribute says the size of stays.
"""

from __future__ import annotations

from math import prod

import numpy as np

from lowtide.graph import Graph, Op, Tensor
from lowtide.ops.access import Access, Shape, Shapes
from lowtide.ops.families import access_of, elements, flops_of
from lowtide.ops.forms import Blocks, Concat, Convolution, Form, Generate, Indexed, Pointwise, Reshape
from lowtide.ops.meaning import Meaning
from lowtide.run.probe import Findings, Operand, Probe, RefusedError, Runner

_MOST_ELEMENTS = 10**8


def runner_of(dialect: str) -> Runner | None:
    """What runs single ops of a dialect; None if nothing does."""
    if dialect == "onnx":
        from lowtide.run.probe_onnx import OnnxRunner

        return OnnxRunner()
    if dialect == "tflite":
        from lowtide.run.probe_tflite import TfliteRunner

        return TfliteRunner()
    if dialect == "aten":
        from lowtide.run.probe_aten import AtenRunner

        return AtenRunner()
    return None


def probe_node(
    graph: Graph, op: Op, meaning: Meaning, runner: Runner, seed: int, budget: int, most_macs: int
) -> tuple[Findings, bool]:
    """Prove an op's access. `meaning`: of the op; not opaque. `budget`: elements and multiplications above which
    smaller operands are taken. `most_macs`: multiplications above which it is not run. Returns `smaller`: whether
    operands were smaller than the graph's. Raises `RefusedError`: it is too large, or the runtime does not take it."""
    operands, results = _tensors(graph, op)
    shapes: Shapes = tuple(None if t is None else t.shape or () for t in operands)
    writes: Shapes = tuple(t.shape or () for t in results)
    reads = _with_vector_bias(meaning.form, shapes)
    small_reads, small_writes = shrunk(meaning.form, reads, writes, budget)
    smaller = (small_reads, small_writes) != (reads, writes)
    macs = cost(meaning.form, small_reads, small_writes)
    if macs > most_macs or max(map(elements, (*small_reads, *small_writes)), default=0) > _MOST_ELEMENTS:
        raise RefusedError(f"{macs:,} multiplications or elements, more than {most_macs:,}")
    given = [
        None if t is None or shape is None else _operand(t, shape, i, meaning, small_writes, runner)
        for i, (t, shape) in enumerate(zip(operands, small_reads, strict=True))
    ]
    access = meaning.access if small_reads == shapes else access_of(meaning.form, small_reads, small_writes)
    kernel = runner.open(graph, op, given)
    probe = Probe(kernel, given, meaning.form, access, seed)
    probe.expect(tuple(shape or () for shape in small_writes))
    return probe.run(), smaller


def _with_vector_bias(form: Form, reads: Shapes) -> Shapes:
    """Shapes with a convolution's bias as a vector: torch 2.13 exports a missing one with two dimensions."""
    bias = form.bias if isinstance(form, Convolution) else None
    return tuple(shape[:1] if i == bias and shape is not None else shape for i, shape in enumerate(reads))


def _tensors(graph: Graph, op: Op) -> tuple[list[Tensor | None], list[Tensor]]:
    tensors = graph.tensor_by_id
    return [None if t is None else tensors[t] for t in op.operands or op.inputs], [tensors[t] for t in op.outputs]


def _operand(tensor: Tensor, shape: Shape, position: int, meaning: Meaning, writes: Shapes, runner: Runner) -> Operand:
    """An operand to draw, or with its value if the form holds it or no number is drawn for its type."""
    dtype = tensor.dtype or ""
    if position not in meaning.access.literal:
        return Operand(shape, str(runner.dtype(dtype)))
    value = literal_value(tensor, meaning.form, writes, runner)
    return Operand(value.shape, dtype, value)


def literal_value(tensor: Tensor, form: Form, writes: Shapes, runner: Runner) -> np.ndarray:
    """A literal's value: the file's, or for shapes that the model works out the shape that it gets. Raises
    `RefusedError`: it is not known."""
    shape, dtype = tensor.shape or (), tensor.dtype or ""
    if tensor.value is not None:
        return runner.value_of(dtype, tensor.value, shape)
    if isinstance(form, Reshape | Pointwise | Generate) and prod(shape) == len(writes[0] or ()):
        return np.array(writes[0], runner.dtype(dtype)).reshape(shape)
    raise RefusedError(f"the value of {tensor.label} is not known")


_LEAST = 8


def shrunk(form: Form, reads: Shapes, writes: Shapes, budget: int) -> tuple[Shapes, Shapes]:
    """Shapes of operands and results under which the op has at most `budget` elements and operations, if possible."""
    access = access_of(form, reads, writes)
    frozen = {axis for axis in range(len(access.sizes)) if not _free(form, access, reads, axis)}
    while cost(form, reads, writes) > budget:
        axes = [axis for axis, size in enumerate(access.sizes) if axis not in frozen and size > _LEAST]
        if not axes:
            break
        axis = max(axes, key=lambda axis: access.sizes[axis])
        smaller = _shortened(access, reads, writes, axis)
        if smaller is None:
            frozen.add(axis)
            continue
        reads, writes = smaller
        access = access_of(form, reads, writes)
    return reads, writes


def cost(form: Form, reads: Shapes, writes: Shapes) -> int:
    """Elements touched, or half the operations, whichever is more."""
    return max(flops_of(form, reads, writes) // 2, *(elements(shape) for shape in (*reads, *writes)))


def _free(form: Form, access: Access, reads: Shapes, axis: int) -> bool:
    """Whether nothing but shapes speaks of the axis's size."""
    if isinstance(form, Reshape | Generate) or (isinstance(form, Pointwise) and form.literal):
        return False
    if isinstance(form, Indexed) and form.family == "resample":
        return False
    if isinstance(form, Convolution) and form.groups > 1 and axis == form.channel:
        return False
    if access.grain_of(axis) > 1:
        return False
    for dims, shape in zip(access.inputs, reads, strict=True):
        for index, size in zip(dims or (), shape or (), strict=True):
            if index is None or index.axis != axis:
                continue
            placed = isinstance(form, Indexed | Blocks | Concat) and not (index.same and size == access.sizes[axis])
            if index.num < 1 or placed:
                return False
    return True


def _shortened(access: Access, reads: Shapes, writes: Shapes, axis: int) -> tuple[Shapes, Shapes] | None:
    """Shapes with about half of an axis; None if some dimension does not go along."""
    indices = [index for dims in access.inputs for index in dims or () if index is not None and index.axis == axis]
    den = max((index.den for index in indices), default=1)
    size = access.sizes[axis]
    steps = (size - max(_LEAST, size // 2)) // den
    if steps < 1 or any(den % index.den for index in indices):
        return None
    less = steps * den
    smaller_reads = []
    for dims, shape in zip(access.inputs, reads, strict=True):
        if shape is None or dims is None:
            smaller_reads.append(shape)
            continue
        sizes = tuple(
            s - less * index.num // index.den if index is not None and index.axis == axis else s
            for index, s in zip(dims, shape, strict=True)
        )
        if min(sizes, default=1) < 1:
            return None
        smaller_reads.append(sizes)
    smaller_writes = tuple(
        shape and tuple(s - less if at == axis else s for at, s in zip(dims, shape, strict=True))
        for dims, shape in zip(access.outputs, writes, strict=True)
    )
    return tuple(smaller_reads), smaller_writes
