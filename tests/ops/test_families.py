"""Every family against its op written out in numpy: what lies outside the map must not reach the part.

All that `need` leaves out is NaN, which no sum or copy swallows: a part with a NaN in it was promised too little. A row
of NaN inside must reach the part, at the first and last row that the map names: else the map names too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.ops.access import Access, Box
from lowtide.ops.families import access_of, family_of, flops_of
from lowtide.ops.forms import (
    Along,
    Blocks,
    Channelwise,
    Concat,
    Contraction,
    Convolution,
    Form,
    Indexed,
    Labelled,
    Opaque,
    Pointwise,
    Pool,
    Reduction,
    Repeat,
    Reshape,
    Split,
    Transpose,
)
from lowtide.ops.index import Index, Window, fixed

Arrays = Sequence[np.ndarray]
Run = Callable[..., "np.ndarray | tuple[np.ndarray, ...]"]
SIZES = st.integers(1, 5)


def inside(box: Box) -> tuple[slice, ...]:
    """A box as numpy takes it."""
    return tuple(slice(a, b) for a, b in box)


def parts(access: Access, axis: int) -> list[tuple[int, int]]:
    """Every range of an axis that a cut can yield, but for the empty ones."""
    bounds = [*range(0, access.sizes[axis], access.grain_of(axis)), access.sizes[axis]]
    return [(a, b) for a, b in product(bounds, bounds) if a < b]


def check(form: Form, run: Run, operands: Arrays, *, tight: bool = True) -> Access:
    """Prove a form's access on these operands; returns it."""

    def results(given: Arrays) -> tuple[np.ndarray, ...]:
        made = run(*given)
        return made if isinstance(made, tuple) else (made,)

    whole = results(operands)
    shapes = tuple(x.shape for x in operands)
    access = access_of(form, shapes, tuple(y.shape for y in whole))
    assert flops_of(form, shapes, tuple(y.shape for y in whole)) >= 0
    assert not np.isnan(np.concatenate([y.ravel() for y in whole])).any()
    for axis in range(len(access.sizes)):
        if axis in access.reduce:
            check_sum(access, axis, results, operands, whole)
            continue
        for a, b in parts(access, axis):
            check_part(access, {axis: (a, b)}, results, operands, whole, tight=tight)
    return access


def check_part(access: Access, part: dict, results: Callable, operands: Arrays, whole: Arrays, *, tight: bool) -> None:
    """One part: its numbers, and that each border of what it needs matters."""
    given = []
    for i, x in enumerate(operands):
        kept = np.full_like(x, np.nan)
        box = access.need(i, x.shape, part)
        kept[inside(box)] = x[inside(box)]
        given.append(x if i in access.literal else kept)
    boxes = [inside(access.written(j, y.shape, part)) for j, y in enumerate(whole)]
    for y, z, box in zip(whole, results(given), boxes, strict=True):
        assert np.array_equal(y[box], z[box]), part
    for i, x in enumerate(operands) if tight else ():
        dims = access.inputs[i] or ()
        if i in access.literal or any(index is not None and index.num == 0 for index in dims):
            continue
        for d, (first, end) in enumerate(access.need(i, x.shape, part)):
            index = dims[d]
            if index is None or index.axis not in part or first >= end:
                continue
            for row in {first, end - 1}:
                broken = [*given]
                broken[i] = given[i].copy()
                broken[i][(slice(None),) * d + (row,)] = np.nan
                assert any(np.isnan(z[box]).any() for z, box in zip(results(broken), boxes, strict=True)), (
                    f"{part}: row {row} of dimension {d} of operand {i} does not matter"
                )


def check_sum(access: Access, axis: int, results: Callable, operands: Arrays, whole: Arrays) -> None:
    """Results of two parts of a reduced axis become the whole one."""
    size = access.sizes[axis]
    fill = {"sum": 0.0, "max": -np.inf, "min": np.inf}[access.merge]
    for at in range(1, size):
        made = []
        for a, b in ((0, at), (at, size)):
            given = []
            for i, x in enumerate(operands):
                kept = np.full_like(x, fill)
                box = inside(access.need(i, x.shape, {axis: (a, b)}))
                kept[box] = x[box]
                given.append(kept if i not in access.once or a == 0 else np.zeros_like(x))
            made.append(results(given))
        for y, first, second in zip(whole, *made, strict=True):
            merged = {"sum": np.add, "max": np.maximum, "min": np.minimum}[access.merge](first, second)
            assert np.allclose(y, merged)


def draw(data: st.DataObject, *shape: int) -> np.ndarray:
    """Numbers that no sum makes zero by chance."""
    seed = data.draw(st.integers(0, 999), label="seed")
    return np.random.default_rng(seed).uniform(1, 2, shape)


def convolve(x: np.ndarray, w: np.ndarray, b: np.ndarray, form: Convolution) -> np.ndarray:
    """NCHW convolution, plain or transposed, tap by tap; no padding behind."""
    windows = [window for _, window in form.windows]
    sizes = [s if form.transposed else s + v.before for s, v in zip(x.shape[2:], windows, strict=True)]
    if form.transposed:
        rows = [(s - 1) * v.stride + v.reach for s, v in zip(sizes, windows, strict=True)]
    else:
        rows = [v.rows(s, 0) for s, v in zip(x.shape[2:], windows, strict=True)]
        x = np.pad(x, [(0, 0), (0, 0), *((v.before, 0) for v in windows)])
    outs = len(b) // form.groups
    x = x.reshape(x.shape[0], form.groups, -1, *x.shape[2:])
    w = w.reshape(form.groups, -1, *w.shape[1:])
    y = np.zeros((x.shape[0], form.groups, outs, *rows))
    for taps in product(*(range(v.taps) for v in windows)):
        steps = tuple(
            slice(t * v.dilation, t * v.dilation + ((s if form.transposed else r) - 1) * v.stride + 1, v.stride)
            for t, v, s, r in zip(taps, windows, sizes, rows, strict=True)
        )
        weight = w[(..., *taps)]
        if form.transposed:
            y[(..., *steps)] += np.einsum("ngi...,gio->ngo...", x, weight)
        else:
            y += np.einsum("ngi...,goi->ngo...", x[(..., *steps)], weight)
    y = y.reshape(y.shape[0], -1, *rows) + b.reshape(1, -1, *(1,) * len(rows))
    if form.transposed:
        y = y[(..., *(slice(v.before, None) for v in windows))]
    return y


@pytest.mark.slow
@given(st.data(), st.booleans(), st.sampled_from([(1, 2, 3), (2, 1, 1), (2, 2, 1), (3, 1, 2)]))
def test_convolution(data: st.DataObject, transposed: bool, channels: tuple[int, int, int]) -> None:
    """Plain, grouped, depthwise and transposed, one and two dimensions, any stride, dilation and padding."""
    groups, ins, outs = channels
    windows, rows = [], []
    for d in range(data.draw(st.integers(1, 2))):
        window = Window(*(data.draw(st.integers(1, 3)) for _ in range(3)), data.draw(st.integers(0, 2)))
        if window.before >= window.reach:
            window = Window(window.taps, window.stride, window.dilation)
        windows.append((2 + d, window))
        rows.append(data.draw(st.integers(1 if transposed else window.reach, 5 + window.reach)) if d == 0 else 3)
        if rows[-1] + window.before < window.reach:
            rows[-1] = window.reach
    form = Convolution(
        tuple(windows), groups=groups, transposed=transposed, filters=int(transposed), depth=1 - transposed
    )
    taps = [window.taps for _, window in windows]
    w = draw(data, *((groups * ins, outs) if transposed else (groups * outs, ins)), *taps)
    x, b = draw(data, 2, groups * ins, *rows), draw(data, groups * outs)
    dense = all(window.dilation == 1 and window.stride <= window.taps for _, window in windows)
    access = check(form, lambda *given: convolve(*given, form), (x, w, b), tight=dense and len(windows) == 1)
    assert (len(access.reduce) == 1) == (groups == 1)
    assert not dense or flops_of(form, (x.shape, w.shape, b.shape), (convolve(x, w, b, form).shape,)) > 0


@given(st.data(), st.integers(1, 3), st.integers(1, 3), st.integers(1, 2))
def test_pool(data: st.DataObject, taps: int, stride: int, dilation: int) -> None:
    """A sum over windows of the last dimension."""
    window = Window(taps, stride, dilation)
    x = draw(data, 2, data.draw(st.integers(window.reach, 9)))

    def run(x: np.ndarray) -> np.ndarray:
        rows = window.rows(x.shape[1], 0)
        return sum(x[:, t * dilation :][:, : (rows - 1) * stride + 1 : stride] for t in range(taps))  # type: ignore

    check(Pool(((1, window),)), run, (x,))


@given(st.data(), st.lists(st.tuples(SIZES, st.booleans(), st.booleans()), max_size=3), st.integers(0, 2))
def test_pointwise(data: st.DataObject, dims: list[tuple[int, bool, bool]], dropped: int) -> None:
    """Broadcast in every way."""
    a = draw(data, *(1 if one else size for size, one, _ in dims))
    b = draw(data, *(1 if one else size for size, _, one in dims[dropped:]))
    access = check(Pointwise(), np.add, (a, b))
    assert family_of(Pointwise()) == "pointwise"
    assert access.exact == "bits"


@given(st.data(), st.lists(SIZES, min_size=2, max_size=3), st.integers(0, 1))
def test_along(data: st.DataObject, shape: list[int], dim: int) -> None:
    """A norm along one dimension with a scale: that dimension is whole, the others are cut."""
    x, scale = draw(data, *shape), draw(data, *shape[dim:])
    access = check(Along((dim,)), lambda x, s: x / x.sum(axis=dim, keepdims=True) * s, (x, scale))
    assert len(access.sizes) == len(shape) - 1


@given(st.data(), st.sampled_from([None, 1, 2, 3]), st.booleans())
def test_channelwise(data: st.DataObject, groups: int | None, statistics: bool) -> None:
    """Vectors along the channels; statistics over the places, and over groups of channels."""
    x, scale = draw(data, 2, 6, 3), draw(data, 6)

    def run(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        total = 1.0
        if statistics:
            grouped = x.reshape(2, groups or 6, -1)
            total = np.repeat(grouped.sum(axis=2), 6 // (groups or 6), axis=1)[:, :, None]
        return x * scale[None, :, None] / total

    form = Channelwise(1, (1,), (2,) if statistics else (), groups if statistics else None)
    access = check(form, run, (x, scale))
    assert access.grain_of(1) == (6 // groups if statistics and groups else 1)


@given(st.data(), st.sampled_from([1, 2, 3]))
def test_channelwise_in_blocks(data: st.DataObject, block: int) -> None:
    """One number for each block of channels."""
    x, scale = draw(data, 2, 6), draw(data, 2, 6 // block)
    check(Channelwise(1, blocks=((1, block),)), lambda x, s: x * np.repeat(s, block, axis=1), (x, scale))


@pytest.mark.slow
@given(
    st.data(), st.sampled_from([(0,), (1,), (0, 2), (0, 1, 2)]), st.booleans(), st.sampled_from(["sum", "max", None])
)
def test_reduction(data: st.DataObject, dims: tuple[int, ...], keep: bool, merge: str | None) -> None:
    """Sums and largest of parts; a product of its own kind is whole along what it reduces."""
    run = {"sum": np.sum, "max": np.max, None: np.prod}[merge]
    form = Reduction(dims, keep, merge)  # type: ignore[arg-type]
    access = check(form, lambda x: run(x, axis=dims, keepdims=keep), (draw(data, 3, 2, 4),))
    assert len(access.reduce) == (len(dims) if merge else 0)


@given(
    st.data(), st.sampled_from(["ij,jk->ik", "bij,bjk->bik", "bij,jk->bik", "ij,ij->", "ii->i", "ij->ji", "i,j->ij"])
)
def test_contraction(data: st.DataObject, equation: str) -> None:
    """Products of every rank, labelled as in einsum."""
    letters, result = equation.split("->")
    size = {letter: data.draw(SIZES) for letter in sorted(set(letters) - {","})}
    reads = tuple(tuple(map(ord, part)) for part in letters.split(","))
    operands = [draw(data, *(size[letter] for letter in part)) for part in letters.split(",")]
    form = Contraction(reads, (tuple(map(ord, result)),))
    check(form, lambda *given: np.einsum(equation, *given), operands, tight=False)


@given(st.data())
def test_a_bias_goes_to_one_part_of_a_sum(data: st.DataObject) -> None:
    """What is added to a product is added once."""
    form = Contraction(((0, 1), (1, 2), (2,)), ((0, 2),), once=(2,))
    check(form, lambda a, b, c: a @ b + c, (draw(data, 2, 3), draw(data, 3, 2), draw(data, 2)))


def shapes_of(total: list[int], data: st.DataObject) -> tuple[int, ...]:
    """A shape of so many elements, from the factors in this order, some of them put together, some ones between."""
    shape: list[int] = []
    for factor in total:
        if shape and data.draw(st.booleans()):
            shape[-1] *= factor
        else:
            shape.append(factor)
        if data.draw(st.integers(0, 5)) == 0:
            shape.append(1)
    return tuple(shape)


@pytest.mark.slow
@given(st.data(), st.lists(st.sampled_from([2, 3, 4]), max_size=4))
def test_reshape(data: st.DataObject, factors: list[int]) -> None:
    """Any two shapes of as many elements: merges, splits, and groups whose rows meet only now and then."""
    read, written = shapes_of(factors, data), shapes_of(factors, data)
    access = check(Reshape(), lambda x: x.reshape(written), (draw(data, *read),))
    if written and factors and written[0] > 1 and read and read[0] % written[0] == 0:
        assert access.cuttable()


@given(st.data(), st.permutations(range(3)))
def test_transpose(data: st.DataObject, order: list[int]) -> None:
    """Dimensions in another order."""
    check(Transpose(tuple(order)), lambda x: x.transpose(order), (draw(data, 2, 3, 4),))


@given(st.data(), st.booleans(), st.booleans())
def test_blocks(data: st.DataObject, spread: bool, channel_first: bool) -> None:
    """Depth to space and back, both orders of the channels."""
    x = draw(data, 2, 8, 3, 2) if spread else draw(data, 2, 2, 6, 4)

    def run(x: np.ndarray) -> np.ndarray:
        n, c, h, w = x.shape
        if spread:
            apart = x.reshape((n, c // 4, 2, 2, h, w) if channel_first else (n, 2, 2, c // 4, h, w))
            order = (0, 1, 4, 2, 5, 3) if channel_first else (0, 3, 4, 1, 5, 2)
            return apart.transpose(order).reshape(n, c // 4, 2 * h, 2 * w)
        order = (0, 1, 3, 5, 2, 4) if channel_first else (0, 3, 5, 1, 2, 4)
        return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(order).reshape(n, 4 * c, h // 2, w // 2)

    access = check(Blocks((2, 3), 1, 2, spread, channel_first), run, (x,))
    assert (1 in access.outputs[0][1:2]) == channel_first


@pytest.mark.slow
@given(st.data(), st.lists(SIZES, min_size=1, max_size=3), st.integers(0, 1))
def test_concat(data: st.DataObject, sizes: list[int], dim: int) -> None:
    """A part asks only the pieces that it reaches."""
    pieces = [draw(data, *((size, 2) if dim == 0 else (2, size))) for size in sizes]
    check(Concat(dim), lambda *given: np.concatenate(given, axis=dim), pieces)


@given(st.data(), st.integers(1, 3), st.integers(0, 3), st.booleans())
def test_slice(data: st.DataObject, step: int, start: int, backwards: bool) -> None:
    """Every step, forwards and backwards; a row taken out."""
    x = draw(data, 9, 4)
    taken = slice(8 - start, None, -step) if backwards else slice(start, None, step)
    index = Index(0, -step, 1, 8 - start, 8 - start) if backwards else Index(0, step, 1, start, start)
    check(Indexed("piece", (index, fixed(1, 2))), lambda x: x[taken, 1], (x,))


@given(st.data(), st.integers(1, 4), st.integers(0, 1))
def test_split(data: st.DataObject, at: int, dim: int) -> None:
    """Results are cut together, along what is not split."""
    check(Split(dim), lambda x: tuple(np.split(x, [at], axis=dim)), (draw(data, 5, 5),))


@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_repeat(data: st.DataObject, first: int, second: int) -> None:
    """Whole copies are parts; a dimension that is there once is cut anywhere."""
    check(Repeat(), lambda x: np.tile(x, (first, second)), (draw(data, 2, 3),))


@given(st.data())
def test_labelled(data: st.DataObject) -> None:
    """A gather: the data whole along what indices pick, cut elsewhere."""
    picks = np.array([[0, 2], [1, 1]])
    form = Labelled("gather", ((None, 2),), ((0, 1, 2),))
    access = check(form, lambda x: x[picks], (draw(data, 3, 2),))
    assert access.inputs[0] == (None, Index(2))
    assert family_of(form) == "gather"


def test_opaque() -> None:
    """Nothing known: no axis, everything whole."""
    access = access_of(Opaque("no row"), ((2, 3), None), ((4,),))
    assert access == Access((), ((None,),), ((None, None), None))
    assert not access.cuttable()
