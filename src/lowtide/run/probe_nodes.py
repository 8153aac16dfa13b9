"""Takes an op of a graph to its probe: operands as they are or smaller, literals with their values, the runner."""

from __future__ import annotations

from math import prod

import numpy as np

from lowtide.graph import Graph, Op, Tensor
from lowtide.ops.access import Shape, Shapes
from lowtide.ops.families import access_of, elements
from lowtide.ops.forms import Convolution, Form, Generate, Pointwise, Reshape
from lowtide.ops.meaning import Meaning
from lowtide.run.probe import Findings, Operand, Probe, RefusedError, Runner
from lowtide.run.probe_sizes import cost, shrunk

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
    """Prove an op's access.

    Parameters
    ----------
    meaning
        Of the op; not opaque.
    budget
        Elements and multiplications above which smaller operands are taken.
    most_macs
        Multiplications above which it is not run.

    Returns
    -------
    findings, smaller
        `smaller`: whether operands were smaller than the graph's.

    Raises
    ------
    RefusedError
        It is too large, or the runtime does not take it.
    """
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
    """A literal's value: the file's, or for shapes that the model works out the shape that it gets.

    Raises
    ------
    RefusedError
        It is not known.
    """
    shape, dtype = tensor.shape or (), tensor.dtype or ""
    if tensor.value is not None:
        return runner.value_of(dtype, tensor.value, shape)
    if isinstance(form, Reshape | Pointwise | Generate) and prod(shape) == len(writes[0] or ()):
        return np.array(writes[0], runner.dtype(dtype)).reshape(shape)
    raise RefusedError(f"the value of {tensor.label} is not known")
