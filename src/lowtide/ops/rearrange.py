"""Families that move data: reshapes, transposes, concatenation and splitting.

A reshape keeps the order of elements, so its dimensions fall into groups of equal products, ``[6, 4, 5] -> [24, 5]``
into ``[6, 4] -> [24]`` and ``[5] -> [5]``. In a group, only the first dimensions can be cut (those after it are
strided), and where rows of the two sides end together: at every `grain` rows of the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

from lowtide.ops.access import Access, Shape, Shapes
from lowtide.ops.forms import Blocks, Concat, Indexed, Repeat, Reshape, Split, Transpose
from lowtide.ops.index import Index

Dims = tuple[int, ...]


def groups_of(read: Shape, written: Shape) -> Iterator[tuple[Dims, Dims]]:
    """Least groups of dimensions of equal products, of both shapes; dimensions of size 1 are in none.

    >>> list(groups_of((6, 4, 1, 5), (24, 5)))
    [((0, 1), (0,)), ((3,), (1,))]
    """
    left = [d for d, size in enumerate(read) if size != 1]
    right = [d for d, size in enumerate(written) if size != 1]
    i = j = 0
    while i < len(left) and j < len(right):
        first, second = i, j
        a, b = read[left[i]], written[right[j]]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                a *= read[left[i]]
                i += 1
            else:
                b *= written[right[j]]
                j += 1
        yield tuple(left[first:i]), tuple(right[second:j])


def reshape(form: Reshape, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the first dimension of each group, where it can be cut at all."""
    read, written = reads[0] or (), writes[0] or ()
    sizes: list[int] = []
    grains: list[int] = []
    result: list[int | None] = [None] * len(written)
    data: list[Index | None] = [None] * len(read)
    for left, right in groups_of(read, written) if prod(written) else ():
        stride_read = prod(read[d] for d in left[1:])
        stride_written = prod(written[d] for d in right[1:])
        grain = stride_read // gcd(stride_read, stride_written)
        if grain >= written[right[0]]:
            continue
        axis = len(sizes)
        sizes.append(written[right[0]])
        grains.append(grain)
        result[right[0]] = axis
        data[left[0]] = Index(axis, stride_written, stride_read, 0, stride_written - 1).reduced()
    others = (None if s is None else (None,) * len(s) for s in reads[1:])
    return Access(
        tuple(sizes), (tuple(result),) * len(writes), (tuple(data), *others), grain=tuple(grains), literal=form.literal
    )


def transpose(form: Transpose, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions."""
    axis_of = {d: axis for axis, d in enumerate(form.order)}
    data = tuple(Index(axis_of[d]) for d in range(len(form.order)))
    others = (None if s is None else (None,) * len(s) for s in reads[1:])
    return Access(writes[0] or (), (tuple(range(len(data))),), (data, *others), literal=form.literal)


def blocks(form: Blocks, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions, without the channels if they do not lie block by block."""
    result = writes[0] or ()
    many = form.factor ** len(form.dims)
    axes = [d for d in range(len(result)) if d != form.channel or form.channel_first]
    number = {d: axis for axis, d in enumerate(axes)}

    def rows(d: int) -> tuple[Index | None, int]:
        axis, count = number.get(d), many if d == form.channel else form.factor
        if axis is None:
            return None, 1
        if d not in form.dims and d != form.channel:
            return Index(axis), 1
        if (d == form.channel) == form.spread:
            return Index(axis, count, 1, 0, count - 1), 1
        return Index(axis, 1, count), count

    dims = [rows(d) for d in range(len(result))]
    return Access(
        tuple(result[d] for d in axes),
        (tuple(number.get(d) for d in range(len(result))),),
        (tuple(index for index, _ in dims),),
        grain=tuple(dims[d][1] for d in axes),
    )


def concat(form: Concat, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions; a part that an operand does not reach needs no row of it."""
    result = writes[0] or ()
    offset, inputs = 0, []
    for i, shape in enumerate(reads):
        if shape is None or i in form.literal:
            inputs.append(None if shape is None else (None,) * len(shape))
            continue
        inputs.append(
            tuple(Index(d, 1, 1, -offset, -offset) if d == form.dim else Index(d) for d in range(len(result)))
        )
        offset += shape[form.dim]
    return Access(result, (tuple(range(len(result))),), tuple(inputs), literal=form.literal)


def indexed(form: Indexed, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions that an index runs along."""
    result = writes[0] or ()
    used = sorted({index.axis for index in form.indices if index is not None and index.axis >= 0})
    number = {d: axis for axis, d in enumerate(used)}
    data = tuple(index if index is None or index.axis < 0 else index.on(number[index.axis]) for index in form.indices)
    others = (None if s is None else (None,) * len(s) for s in reads[1:])
    return Access(
        tuple(result[d] for d in used),
        (tuple(number.get(d) for d in range(len(result))),),
        (data, *others),
        exact=form.exact,
        literal=form.literal,
    )


def split(form: Split, reads: Shapes, writes: Shapes) -> Access:
    """Axes: all dimensions but the one that is split."""
    data = reads[0] or ()
    axes = [d for d in range(len(data)) if d != form.dim]
    number = {d: axis for axis, d in enumerate(axes)}
    others = (None if s is None else (None,) * len(s) for s in reads[1:])
    return Access(
        tuple(data[d] for d in axes),
        (tuple(number.get(d) for d in range(len(data))),) * len(writes),
        (tuple(None if d == form.dim else Index(number[d]) for d in range(len(data))), *others),
        literal=form.literal,
    )


def repeat(form: Repeat, reads: Shapes, writes: Shapes) -> Access:
    """Axes: the result's dimensions, cut between copies."""
    data, result = reads[0] or (), writes[0] or ()
    rank = len(result)
    sizes = (1,) * (rank - len(data)) + data
    once = [copy == size for copy, size in zip(sizes, result, strict=True)]
    indices = tuple(Index(d) if once[d] else None for d in range(rank - len(data), rank))
    others = (None if s is None else (None,) * len(s) for s in reads[1:])
    return Access(
        result,
        (tuple(range(rank)),),
        (indices, *others),
        grain=tuple(1 if kept else copy for kept, copy in zip(once, sizes, strict=True)),
        literal=form.literal,
    )
