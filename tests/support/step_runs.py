"""A training step run in numpy, as it stands and as a plan has it: parts one after the other, ops again where it says,
tensors stored and loaded.

What is dead is dropped, so that a plan whose ops read what is no longer there fails here. It is a reference: plain,
slow, for small sizes and for the kinds of ops of `support.step_kernels`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from lowtide.errors import InputError
from lowtide.fission_plan import PlanFission
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.labels import word_of
from lowtide.plan import Plan
from lowtide.rewrites import Recompute
from lowtide.transform.fission import (
    Fission,
    Loop,
    Region,
    access_of,
    body_of,
    outer_of,
    region_of,
)
from lowtide.transform.runs import LOAD, STORE
from lowtide.transform.siblings import Siblings, apply
from lowtide.verify.check.rewrites import with_ops
from support.step_kernels import KERNELS

Array = Any
Values = dict[int, Array]


@dataclass
class Held:
    """The most bytes of arrays that were held at once, `peak`: a part's with what is whole around it."""

    peak: int = 0

    def see(self, size: int) -> None:
        """That so many are held now."""
        self.peak = max(self.peak, size)


def random_feeds(graph: Graph, seed: int = 0, dtype: str = "float64") -> Values:
    """Numbers for the inputs of a step, drawn from a normal distribution of deviation 0.3; ``grad`` is 1."""
    generator = np.random.default_rng(seed)
    feeds: Values = {}
    for t in graph.tensors:
        if t.kind is Kind.INPUT:
            drawn = 0.3 * generator.standard_normal(t.shape or ())
            feeds[t.id] = (np.ones(t.shape or ()) if t.name == "grad" else drawn).astype(dtype)
    return feeds


def run_step(graph: Graph, feeds: Mapping[int, Array]) -> Values:
    """Results of a step in its own order."""
    return _run(graph, graph.own_order, feeds, {}, held=Held())


def run_plan(graph: Graph, plan: Plan, feeds: Mapping[int, Array], held: Held | None = None) -> Values:
    """Results of a step as a plan has it, those of the step: what merged products read and make side by side is put
    there, and taken from there. `held` sees what is held, each result by itself: nothing is written in place.

    Raises
    ------
    InputError
        An op is of a kind that this cannot compute, or the plan is no plan of this step.
    """
    parts, merges = ((), ()) if plan.fission is None else (plan.fission.parts, plan.fission.merged)
    beside: dict[int, tuple[int, ...]] = {}
    for merge in merges:
        change = apply(graph, Siblings(tuple(merge.products)))
        graph, beside = change.graph, {**beside, **change.stacked}
    feeds = {**feeds, **{t: np.stack([feeds[w] for w in of]) for t, of in beside.items() if of[0] in feeds}}
    inner = msgspec.structs.replace(plan, fission=None)
    loops = {part.op: _Loop.of(graph, part) for part in parts}
    stand_for = [Loop(loops[part.op].region, int(part.body["required_bytes"]), None) for part in parts]
    outer = outer_of(graph, stand_for) if parts else graph
    again = {r.op: r.of for r in plan.rewrites or () if isinstance(r, Recompute)}
    loops |= {op: loops[of] for op, of in again.items() if of in loops}
    results = _run(with_ops(outer, inner), plan.order, feeds, loops, held=held or Held())
    for wide, of in beside.items():
        if wide in results:
            results |= zip(of, results.pop(wide), strict=True)
    return results


def run_parts(graph: Graph, region: Region, ends: Sequence[int], feeds: Mapping[int, Array]) -> Values:
    """Results of a step of which a region runs in parts that end at these rows, without a plan: nothing runs again."""
    body = body_of(graph, region, Fission(region.axes, tuple(ends)).all, None)
    loop = _Loop(region, ends, body.graph, [op.id for op in body.graph.ops], body.copies)
    outer = outer_of(graph, [Loop(region, 0, None)])
    number = next(op.id for op in outer.ops if op.id not in graph.op_by_id)
    return _run(outer, [op.id for op in outer.ops], feeds, {number: loop}, held=Held())


@dataclass(frozen=True)
class _Loop:
    """A region, ready to run in parts: the graph of a part, perhaps with ops again, and its order; `copies`: its ops
    that copy rows, each with the tensor."""

    region: Region
    ends: Sequence[int]
    graph: Graph
    order: Sequence[int]
    copies: Mapping[int, int]

    @classmethod
    def of(cls, graph: Graph, part: PlanFission) -> _Loop:
        """As a plan has it."""
        axes: dict[int, int] = {}
        for op_id, word in part.ops:
            op = graph.op_by_id[op_id]
            access = access_of(graph, op)
            named = [axis for axis in range(len(access.sizes)) if word_of(op, access, axis) == word]
            if len(named) != 1:
                raise InputError(f"{op.label} has no rows {word!r}: the plan is for another step", graph.name)
            axes[op_id] = named[0]
        region = region_of(graph, axes)
        body = body_of(graph, region, Fission(region.axes, tuple(part.ends)).all, None)
        plan = msgspec.convert(part.body, Plan)
        copies = dict(body.copies)
        for rewrite in plan.rewrites or ():
            if isinstance(rewrite, Recompute) and rewrite.of in copies:
                copies[rewrite.op] = copies[rewrite.of]
        return cls(region, part.ends, with_ops(body.graph, plan), plan.order, copies)

    def run(self, operands: Sequence[Array], held: Held) -> list[Array]:
        """All parts, from whole operands to whole results, as the op that stands for them has them, or one of its
        clones; `held` sees what a part holds beside these."""
        read = sorted((*(t for t, _ in self.region.sliced), *self.region.untiled))
        given = dict(zip(read, operands, strict=True))
        results: Values = {}
        first = 0
        dims, joined = dict(self.region.sliced), dict(self.region.concatenated)

        def hand_over(t: int, rows: Array) -> None:
            if t in joined:
                if t not in results:
                    shape = list(rows.shape)
                    shape[joined[t]] = self.region.rows
                    results[t] = np.empty(shape, rows.dtype)
                results[t][(*(slice(None),) * joined[t], slice(first, end))] = rows
            elif t in self.region.summed:
                results[t] = results[t] + rows if t in results else rows.copy()

        for end in self.ends:
            feeds = {t: _rows(given[t], dims[t], first, end) if t in dims else given[t] for t in given}
            _run(self.graph, self.order, feeds, {}, hand_over, self.copies, held=held, free=feeds)
            first = end
        return [results[t] for t in sorted(self.region.results)]


def _rows(x: Array, dim: int, first: int, end: int) -> Array:
    return x[(*(slice(None),) * dim, slice(first, end))]


def _run(
    graph: Graph,
    order: Sequence[int],
    feeds: Mapping[int, Array],
    loops: Mapping[int, _Loop],
    hand_over: Callable[[int, Array], None] | None = None,
    copies: Mapping[int, int] | None = None,
    *,
    held: Held,
    free: Container[int] = (),
) -> Values:
    """Ops in an order; what nobody reads any more is dropped, but for outputs. `hand_over` is given each result as soon
    as it is there; `held` sees all bytes but those of `free` tensors."""
    values: Values = dict(feeds)
    keep = {t.id for t in graph.tensors if t.kind is Kind.OUTPUT}
    last = {t: step for step, v in enumerate(order) for t in graph.op_by_id[v].inputs}
    stored: Values = {}  # by the op that stores it
    for step, v in enumerate(order):
        op, inside = graph.op_by_id[v], 0
        if v in loops:
            given = [values[t] for t in op.inputs]
            values.update(zip(op.outputs, loops[v].run(given, part := Held()), strict=True))
            inside = part.peak
        elif op.type == STORE:
            stored[v] = values[op.inputs[0]].copy()
        elif op.type == LOAD:
            values[op.outputs[0]] = stored[op.after[0]].copy()
        elif copies is not None and v in copies:
            values[op.outputs[0]] = values[op.inputs[0]].copy()
        else:
            values.update(zip(op.outputs, _computed(graph, op, [values[t] for t in op.inputs]), strict=True))
        if hand_over is not None:
            for t in op.outputs:
                hand_over(t, values[t])
        held.see(inside + sum(array.nbytes for t, array in values.items() if t not in free))
        for t in (*op.inputs, *op.outputs):
            if last.get(t, step) == step and t not in keep:
                values.pop(t, None)
    return {t: values[t] for t in keep if t in values}


def _computed(graph: Graph, op: Op, operands: Sequence[Array]) -> list[Array]:
    """An op's results."""
    kernel = KERNELS.get(op.type)
    if kernel is None:
        raise InputError(f"{op.label} is of no kind that can be computed here", graph.name)
    shapes = [graph.tensor_by_id[t].shape or () for t in op.outputs]
    if any(given.shape != graph.tensor_by_id[t].shape for t, given in zip(op.inputs, operands, strict=True)):
        shapes = _shapes_of_part(op, operands, shapes, graph)
    made = kernel(operands, op.attributes, shapes[0])
    results = [made] if len(shapes) == 1 else [part.copy() for part in made]
    for result, shape in zip(results, shapes, strict=True):
        if result.shape != tuple(shape):
            raise InputError(f"{op.label} made {result.shape}, not {tuple(shape)}", graph.name)
    return results


def _shapes_of_part(
    op: Op, operands: Sequence[Array], shapes: Sequence[tuple[int, ...]], graph: Graph
) -> list[tuple[int, ...]]:
    """The results' shapes where operands have fewer rows than the graph says, by the labels."""
    from lowtide.ops.labels import parsed

    reads, writes = parsed(str(op.attributes["labels"]))
    sizes: dict[str, int] = {}
    for t, words, given in zip(op.inputs, reads, operands, strict=True):
        for word, size, real in zip(words, graph.tensor_by_id[t].shape or (), given.shape, strict=True):
            if size != real:
                sizes[word] = real
    return [
        tuple([sizes.get(word, size) for word, size in zip(words, shape, strict=True)])
        for words, shape in zip(writes, shapes, strict=True)
    ]
