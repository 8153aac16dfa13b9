"""Families of ops, each written once: canonical parameters and shapes to an `Access` and to FLOPs.

A family is a pair of functions of (form, shapes of the operands, shapes of the results). Which one a form belongs to is
a line of `FAMILIES`. FLOPs count two for a multiplication and its addition, biases left out; one (or the form's `cost`)
for an element elsewhere; none for what only moves data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from lowtide.ops import forms, rearrange, windows
from lowtide.ops.access import Access, Shape, Shapes, labelled, opaque
from lowtide.ops.index import NOTHING, Index


class Family(NamedTuple):
    """What is written once for many ops."""

    name: str
    access: Callable[[Any, Shapes, Shapes], Access]
    flops: Callable[[Any, Shapes, Shapes], int]


def access_of(form: forms.Form, reads: Shapes, writes: Shapes) -> Access:
    """Which rows an op of this form reads, for operands and results of these shapes (None: left out)."""
    return FAMILIES[type(form)].access(form, reads, writes)


def flops_of(form: forms.Form, reads: Shapes, writes: Shapes) -> int:
    """Floating-point (or integer) operations of one run."""
    return FAMILIES[type(form)].flops(form, reads, writes)


def family_of(form: forms.Form) -> str:
    """Name of a form's family."""
    return form.family if isinstance(form, forms.Labelled | forms.Indexed | forms.Custom) else FAMILIES[type(form)].name


def elements(shape: Shape | None) -> int:
    """Elements of a tensor, 0 of one that is left out."""
    return 0 if shape is None else prod(shape)


def untiled(shape: Shape | None) -> forms.Labels | None:
    """Labels of an operand that is read in full."""
    return None if shape is None else (None,) * len(shape)


def aligned_last(shape: Shape | None, rank: int) -> forms.Labels | None:
    """Labels of an operand that is broadcast to `rank` dimensions, trailing ones aligned."""
    return None if shape is None else tuple(range(rank - len(shape), rank))


def _pointwise(form: forms.Pointwise, reads: Shapes, writes: Shapes) -> Access:
    rank = len(writes[0] or ())
    labels = tuple(untiled(s) if i in form.literal else aligned_last(s, rank) for i, s in enumerate(reads))
    results = tuple(aligned_last(s, rank) or () for s in writes)
    return _of(form, labelled(labels, results, reads, writes))


def _along(form: forms.Along, reads: Shapes, writes: Shapes) -> Access:
    rank = len(reads[form.data] or ())

    def labels(i: int, shape: Shape | None) -> forms.Labels | None:
        if shape is None or i in form.literal:
            return untiled(shape)
        return tuple(None if d in form.dims or d < 0 else d for d in range(rank - len(shape), rank))

    operands = tuple(labels(i, s) for i, s in enumerate(reads))
    results = tuple(labels(-1, s) or () for s in writes)
    return _of(form, labelled(operands, results, reads, writes))


def _channelwise(form: forms.Channelwise, reads: Shapes, writes: Shapes) -> Access:
    data = reads[0] or ()
    channels = data[form.channel]
    untiled_dims = set(form.untiled)
    axes = [d for d in range(len(data)) if d not in untiled_dims]
    number = {d: i for i, d in enumerate(axes)}
    grain = [1] * len(axes)
    if form.groups:
        grain[number[form.channel]] = channels // form.groups

    def vector(size: int) -> tuple[Index | None]:
        share = channels // max(1, size)
        return (None if size == 1 else Index(number[form.channel], 1, share),)

    def operand(i: int, shape: Shape | None) -> tuple[Index | None, ...] | None:
        if shape is None:
            return None
        if i == 0:
            return tuple(Index(number[d]) if d in number else None for d in range(len(shape)))
        if i in form.vectors and len(shape) == 1:
            return vector(shape[0])
        block = dict(form.blocks).get(i)
        if block is None:
            return (None,) * len(shape)
        at = number[form.channel]
        grain[at] = block
        return tuple(Index(at, 1, block) if d == form.channel else Index(number[d]) for d in range(len(shape)))

    def result(shape: Shape | None) -> tuple[int | None, ...]:
        if len(shape or ()) == len(data):
            return tuple(number.get(d) for d in range(len(data)))
        return (number[form.channel],) if len(shape or ()) == 1 else (None,) * len(shape or ())

    inputs = tuple(operand(i, s) for i, s in enumerate(reads))
    outputs = tuple(result(s) for s in writes)
    access = _without_partial(tuple(data[d] for d in axes), outputs, inputs, tuple(grain))
    return replace(access, exact=form.exact)


def _without_partial(
    sizes: tuple[int, ...],
    outputs: tuple[tuple[int | None, ...], ...],
    inputs: tuple[tuple[Index | None, ...] | None, ...],
    grain: tuple[int, ...],
) -> Access:
    """An access without the axes that some result does not have: they are untiled."""
    kept = [axis for axis in range(len(sizes)) if all(axis in dims for dims in outputs)]
    number = {axis: i for i, axis in enumerate(kept)}
    return Access(
        tuple(sizes[axis] for axis in kept),
        tuple(tuple(None if axis is None else number.get(axis) for axis in dims) for dims in outputs),
        tuple(
            dims
            and tuple(
                None if index is None or index.axis not in number else index.on(number[index.axis]) for index in dims
            )
            for dims in inputs
        ),
        grain=tuple(grain[axis] for axis in kept),
    )


def _reduction(form: forms.Reduction, reads: Shapes, writes: Shapes) -> Access:
    rank = len(reads[0] or ())
    lost = None if form.merge is None else 0
    data = tuple(d if lost is not None or d not in form.dims else None for d in range(rank))
    if form.keep:
        result = tuple(None if d in form.dims else d for d in range(rank))
    else:
        result = tuple(d for d in range(rank) if d not in form.dims)
    labels = (data, *(untiled(s) for s in reads[1:]))
    access = labelled(labels, (result,) * len(writes), reads, writes)
    return _of(form, access, merge=form.merge or "sum", merged=form.merged)


def _contraction(form: forms.Contraction, reads: Shapes, writes: Shapes) -> Access:
    return _of(form, labelled(form.reads, form.writes, reads, writes), merged=form.merged, once=form.once)


def _contraction_flops(form: forms.Contraction, reads: Shapes, writes: Shapes) -> int:
    sizes: dict[int, int] = {}
    for labels, shape in [*zip(form.reads, reads, strict=True), *zip(form.writes, writes, strict=True)]:
        for label, size in zip(labels or (), shape or (), strict=True):
            if label is not None:
                sizes[label] = max(size, sizes.get(label, 0))
    return 2 * prod(sizes.values())


def _labels(form: forms.Labelled, reads: Shapes, writes: Shapes) -> Access:
    everywhere = set(form.writes[0]).intersection(*form.writes[1:]) if form.writes else set[int | None]()

    def kept(labels: forms.Labels | None) -> forms.Labels | None:
        return labels and tuple(label if label in everywhere else None for label in labels)

    operands = tuple(kept(labels) for labels in form.reads)
    results = tuple(kept(labels) or () for labels in form.writes)
    return _of(form, labelled(operands, results, reads, writes, broadcast=form.broadcast))


def _generate(form: forms.Generate, reads: Shapes, writes: Shapes) -> Access:
    sizes = (writes[0] or ()) if form.free else ()
    outputs = tuple(tuple(range(len(s or ()))) if form.free else (None,) * len(s or ()) for s in writes)
    inputs = tuple(
        None if s is None else (None,) * len(s) if i in form.literal else (NOTHING,) * len(s)
        for i, s in enumerate(reads)
    )
    return Access(sizes, outputs, inputs, literal=form.literal)


def _of(
    form: forms.Pointwise | forms.Along | forms.Reduction | forms.Contraction | forms.Labelled,
    access: Access,
    **fields: Any,
) -> Access:
    return replace(access, exact=form.exact, literal=form.literal, **fields)


def _nothing(form: Any, reads: Shapes, writes: Shapes) -> int:
    return 0


def _result(form: Any, reads: Shapes, writes: Shapes) -> int:
    return form.cost * elements(writes[0])


FAMILIES: Mapping[type, Family] = {
    forms.Pointwise: Family("pointwise", _pointwise, _result),
    forms.Along: Family("along", _along, lambda form, reads, writes: form.cost * elements(reads[form.data])),
    forms.Channelwise: Family("channelwise", _channelwise, lambda form, reads, writes: form.cost * elements(reads[0])),
    forms.Convolution: Family("convolution", windows.convolution, windows.convolution_flops),
    forms.Pool: Family("pool", windows.pool, windows.pool_flops),
    forms.Reduction: Family("reduction", _reduction, lambda form, reads, writes: elements(reads[0])),
    forms.Contraction: Family("contraction", _contraction, _contraction_flops),
    forms.Labelled: Family("labelled", _labels, lambda form, reads, writes: form.flops),
    forms.Reshape: Family("rearrange", rearrange.reshape, _nothing),
    forms.Transpose: Family("rearrange", rearrange.transpose, _nothing),
    forms.Blocks: Family("rearrange", rearrange.blocks, _nothing),
    forms.Concat: Family("piece", rearrange.concat, _nothing),
    forms.Indexed: Family("piece", rearrange.indexed, _result),
    forms.Split: Family("piece", rearrange.split, _nothing),
    forms.Repeat: Family("piece", rearrange.repeat, _nothing),
    forms.Generate: Family("generate", _generate, _nothing),
    forms.Custom: Family("custom", lambda form, reads, writes: form.access, lambda form, reads, writes: form.flops),
    forms.Opaque: Family("opaque", lambda form, reads, writes: opaque(reads, writes), _nothing),
}
