"""Families with windows: convolutions of every kind, and pools."""

from __future__ import annotations

from math import prod

from lowtide.ops import geometry
from lowtide.ops.access import Access, Shape, Shapes
from lowtide.ops.forms import Convolution, Pool
from lowtide.ops.index import Index


def convolution(form: Convolution, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions, then, with one group, the input channels, which are summed. With several
    groups, output channels are cut between groups only, and take their group's input channels along."""
    data, result = reads[form.data] or (), writes[0] or ()
    rank, output = len(result), form.channel
    channels = data[form.channel]
    ranges = dict(form.windows)
    per_group, given = max(1, result[output] // form.groups), channels // form.groups
    plain = form.groups == 1
    group = Index(output, given, per_group, 0, given - 1)

    def spatial(d: int) -> Index:
        window = ranges.get(d)
        if window is None:
            return Index(d)
        return window.transposed(d) if form.transposed else window.index(d)

    def weight(d: int) -> Index | None:
        if d == form.filters and (plain or not form.transposed):
            return Index(output)
        if d == form.depth and form.filters != form.depth:
            return Index(rank) if plain else group if form.transposed else None
        return None

    def operand(i: int, shape: Shape | None) -> tuple[Index | None, ...] | None:
        if shape is None:
            return None
        if i == form.data:
            return tuple((Index(rank) if plain else group) if d == output else spatial(d) for d in range(rank))
        if i == form.added:
            return tuple(Index(d) for d in range(rank))
        if i == form.weights:
            return tuple(weight(d) for d in range(len(shape)))
        if (i == form.bias or i in form.vectors) and shape == (result[output],):
            return (Index(output),)
        return (None,) * len(shape)

    grain = tuple(per_group if d == output and not plain else 1 for d in range(rank))
    return Access(
        (*result, channels) if plain else result,
        (tuple(range(rank)),),
        tuple(operand(i, s) for i, s in enumerate(reads)),
        (rank,) if plain else (),
        exact=form.exact,
        merged=form.merged,
        grain=(*grain, 1) if plain else grain,
        once=() if form.bias is None or form.bias >= len(reads) or reads[form.bias] is None else (form.bias,),
        literal=form.literal,
    )


def convolution_flops(form: Convolution, reads: Shapes, writes: Shapes) -> int:
    """Two for each tap of each window and each input channel of its group."""
    data, weights, result = reads[form.data] or (), reads[form.weights] or (), writes[0] or ()
    if form.transposed:
        return geometry.convolution_flops(data, weights, form.depth)
    return geometry.convolution_flops(result, weights, form.filters)


def pool(form: Pool, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions."""
    result = writes[0] or ()
    ranges = dict(form.windows)
    data = tuple(ranges[d].index(d) if d in ranges else Index(d) for d in range(len(result)))
    return Access(
        result,
        (tuple(range(len(result))),) * len(writes),
        (data, *(None if s is None else (None,) * len(s) for s in reads[1:])),
    )


def pool_flops(form: Pool, reads: Shapes, writes: Shapes) -> int:
    """One for each tap of each window."""
    return prod(writes[0] or ()) * prod(window.taps for _, window in form.windows)
