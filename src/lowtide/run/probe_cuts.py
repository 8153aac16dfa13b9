"""Proves cuts by running them: an op untiled, and in the parts that it is cut into, in the runtime that it is for.

The op is alone with operands of random numbers, as large as in the model or smaller; its parts are what
`lowtide.transform.parts` makes of it, slices, joins, sums and padding with them, and every one of them is a node of its
own in the runtime (`lowtide.run.probe.Runner`). What comes of them has to be what the untiled op gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.access import Shape, Shapes
from lowtide.ops.forms import Custom, Labelled
from lowtide.ops.meaning import Meaning
from lowtide.ops.onnx.blocked import DOMAIN
from lowtide.run.probe import Operand, RefusedError, Runner
from lowtide.run.probe_feeds import Arrays, Feeds
from lowtide.run.probe_nodes import cost, literal_value, shrunk
from lowtide.run_reports import rounding
from lowtide.transform.cut import Cut, Cutter, Region
from lowtide.transform.part_builder import quant_of_rows
from lowtide.transform.parts import PartGraph, apply

PALETTES = (0, 1)
"""Of numbers: normal ones, and positive ones, for what has roots and logarithms."""

Values = dict[int, np.ndarray]


def probe_cut(cutter: Cutter, cut: Cut, runner: Runner, seed: int, budget: int) -> str:
    """What is wrong with the parts of an op; empty: nothing. `cutter`: of the graph that is cut. `budget`: elements
    and multiplications above which smaller operands are taken, and parts of the same shares. Raises `RefusedError`:
    the runtime does not take the op, or it cannot be cut when it is smaller."""
    op, known = cutter.graph.op_by_id[cut.op], cutter.meaning(cut.op)
    assert known is not None, op.label
    alone = _alone(cutter.graph, op, known, runner, budget)
    small = Cutter(alone)
    own = small.meaning(op.id)
    how = small.spelling(op.id, cut.axis) if own is not None else None
    if own is None or how is None:
        raise RefusedError("a smaller one cannot be tiled in the same way")
    size, grain = own.access.sizes[cut.axis], max(how.grain, own.access.grain_of(cut.axis))
    ends = _ends(cut, known.access.sizes[cut.axis], size, grain)
    parts = apply(small, [Region((Cut(op.id, cut.axis, ends),))])
    bits = own.access.exactness(cut.axis) == "bits"
    refused = []
    for palette in PALETTES:
        try:
            values, expected = _untiled(alone, op, own, runner, seed, palette)
        except RefusedError as error:  # numbers that the op does not take: others may do
            refused.append(error)
            continue
        up_to = f"parts up to {', '.join(map(str, ends))}"
        try:
            other = _in_parts(parts, values, runner)
        except RefusedError as error:
            return f"its {up_to} do not run: {error}"
        for t, right in zip(op.outputs, expected, strict=True):
            wrong = _differs(right, other[t], bits=bits)
            if wrong:
                return f"{alone.tensor_by_id[t].label} of its {up_to}: {wrong}"
    if len(refused) == len(PALETTES):
        raise refused[0]
    return ""


def _ends(cut: Cut, size: int, smaller: int, grain: int) -> tuple[int, ...]:
    """Where parts of an axis end that may be shorter, at the same shares of it; the last with the axis."""
    at = [-(-end * smaller // (size * grain)) * grain for end in cut.ends[:-1]] if smaller != size else cut.ends[:-1]
    rising = [min(smaller, end) for end in dict.fromkeys(at) if end > 0]
    return (*(end for end in rising if end < smaller), smaller)


def _alone(graph: Graph, op: Op, meaning: Meaning, runner: Runner, budget: int) -> Graph:
    """A graph of the op alone, smaller if it is large."""
    given = [None if t is None else graph.tensor_by_id[t] for t in op.operands or op.inputs]
    made = [graph.tensor_by_id[t] for t in op.outputs]
    reads: Shapes = tuple(None if t is None else t.shape or () for t in given)
    writes: Shapes = tuple(t.shape or () for t in made)
    blocked = op.type.startswith(DOMAIN)  # all channels are needed, and nothing says which rows are few
    smaller_reads, smaller_writes = (reads, writes) if blocked else shrunk(meaning.form, reads, writes, budget)
    if cost(meaning.form, smaller_reads, smaller_writes) > 100 * budget:
        raise RefusedError("it is large, and cannot be made smaller")
    tensors: dict[int, Tensor] = {}
    for i, (tensor, shape) in enumerate(zip(given, smaller_reads, strict=True)):
        if tensor is None or shape is None:
            continue
        kind = Kind.CONSTANT if tensor.kind is Kind.CONSTANT else Kind.INPUT
        own = replace(_with_shape(tensor, shape), kind=kind)
        if i in meaning.access.literal:
            value = literal_value(tensor, meaning.form, smaller_writes, runner)
            own = replace(_with_shape(tensor, value.shape), kind=kind, value=value.tobytes(), size=value.nbytes)
        if tensors.setdefault(tensor.id, own).shape != own.shape:
            raise RefusedError("a tensor that it reads twice cannot be made smaller")
    for tensor, shape in zip(made, smaller_writes, strict=True):
        tensors[tensor.id] = replace(_with_shape(tensor, shape or ()), kind=Kind.OUTPUT)
    free = replace(op, after=(), overwrites=None)
    return replace(graph, tensors=tuple(tensors.values()), ops=(free,), folded=(), file=None, file_order=())


def _with_shape(tensor: Tensor, shape: Shape) -> Tensor:
    """The first rows of a tensor; its value is drawn, and it is no alias."""
    quant = quant_of_rows(tensor.quant, tuple((0, rows) for rows in shape))
    size = tensor.size * prod(shape) // max(1, prod(tensor.shape or ()))
    return replace(tensor, shape=shape, size=size, value=None, quant=quant, alias_of=None, alias_offset=0)


def _untiled(
    graph: Graph, op: Op, meaning: Meaning, runner: Runner, seed: int, palette: int
) -> tuple[Values, list[np.ndarray]]:
    """What an op is given, and what it makes of that."""
    given = [None if t is None else graph.tensor_by_id[t] for t in op.operands or op.inputs]
    operands = [None if t is None else _operand(t, runner) for t in given]
    kernel = runner.open(graph, op, operands)
    limits = dict(meaning.form.limits) if isinstance(meaning.form, Labelled | Custom) else {}
    drawn = Feeds(kernel, operands, limits, np.random.default_rng(seed)).of(palette)[0]
    values: Values = {}
    for tensor, array in zip(given, drawn, strict=True):
        if tensor is not None and array is not None:
            values.setdefault(tensor.id, array)
    expected = kernel([None if t is None else values[t.id] for t in given])
    shapes, declared = [y.shape for y in expected], [graph.tensor_by_id[t].shape for t in op.outputs]
    if shapes != declared:
        raise RefusedError(f"its results have shapes {shapes}, and the graph says {declared}")
    return values, expected


def _operand(tensor: Tensor, runner: Runner) -> Operand:
    dtype, shape = tensor.dtype or "", tensor.shape or ()
    held = None if tensor.value is None else runner.value_of(dtype, tensor.value, shape)
    return Operand(shape, str(runner.dtype(dtype)), held)


def _in_parts(parts: PartGraph, values: Mapping[int, np.ndarray], runner: Runner) -> Values:
    """What comes of parts, each run by itself."""
    graph, known = parts.graph, dict(values)
    for tensor in graph.tensors:
        if tensor.id in known or tensor.kind is not Kind.CONSTANT:
            continue
        rows = parts.slices.get(tensor.id)
        if rows is not None and rows.of in known:
            known[tensor.id] = known[rows.of][tuple(slice(a, b) for a, b in rows.box)]
        elif tensor.value is not None:
            known[tensor.id] = runner.value_of(tensor.dtype or "", tensor.value, tensor.shape or ())
    for op in graph.ops:
        given = [None if t is None else graph.tensor_by_id[t] for t in op.operands or op.inputs]
        operands = [None if t is None else _operand(t, runner) for t in given]
        arrays: Arrays = [None if t is None else known[t.id] for t in given]
        known.update(zip(op.outputs, runner.open(graph, op, operands)(arrays), strict=True))
    return known


def _differs(right: np.ndarray, other: np.ndarray, *, bits: bool) -> str:
    """How a result is another than it should be; empty: it is not, or by no more than rounding where that may be."""
    if right.shape != other.shape:
        return f"shape {other.shape} instead of {right.shape}"
    if np.array_equal(right, other, equal_nan=right.dtype.kind == "f"):
        return ""
    if right.dtype.kind != "f":
        return f"{np.count_nonzero(right != other):,} of {right.size:,} numbers differ"
    finite = np.isfinite(right)
    if not np.array_equal(finite, np.isfinite(other)):
        return "other numbers are finite"
    apart = float(np.abs(right[finite].astype(np.float64) - other[finite]).max(initial=0.0))
    largest = float(np.abs(right[finite]).max(initial=0.0))
    may_be = not bits and apart <= rounding((right.dtype.name,)) * largest
    return "" if may_be else f"it differs by {apart:.3g}, and is at most {largest:.3g}"
