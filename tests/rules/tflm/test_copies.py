"""Distances of kernels that move elements against a simulation of every read and write, made with numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.graph import Kind, Op, Tensor
from lowtide.rules.tflm.copies import COPIED, copy_distance, first_interpolated, nearest

Order = list[tuple[int, int]]
"""Per element that is written, in the order of writing: its place, and what it is copied from (-1: filled)."""


def least(order: Order, at_once: int) -> int:
    """Least distance, 0 or more; pieces of so many elements are copied by memcpy (0: element by element)."""
    size = at_once or 1
    need, lowest = 0, math.inf
    for first in range(len(order) - size, -1, -size):
        piece = order[first : first + size]
        end, reads = max(w for w, _ in piece) + 1, [r for _, r in piece if r >= 0]
        if at_once and reads:
            lowest = min(lowest, min(reads))
        if lowest < math.inf:
            need = max(need, end - int(lowest))
        if reads:
            lowest = min(lowest, min(reads))
    return need


def walked(out: np.ndarray) -> Order:
    """The order of a kernel that walks its output; `out` holds what each element is copied from."""
    return list(enumerate(out.ravel().tolist()))


def driven(out: np.ndarray) -> Order:
    """The order of a kernel that walks its input, and leaves out what the output has not."""
    return sorted(((w, r) for w, r in walked(out) if r >= 0), key=lambda pair: pair[1])


def op(kind: str, **attributes: Any) -> Op:
    """An operator with constants at the positions that are numbers."""
    held = {int(k[1:]): tuple(v) for k, v in attributes.items() if k[0] == "_"}
    options = {k: v for k, v in attributes.items() if k[0] != "_"}
    return Op(0, (0,), (1,), type=kind, attributes=options | {"held": held})


def distance(asked: Op, given: tuple[int, ...], output: tuple[int, ...]) -> int | None:
    """Distance of an operator whose first input has shape `given`."""
    held = asked.attributes["held"]
    data = [Tensor(0, 0, shape=given)]
    for position in range(1, max(held, default=0) + 1):
        value = np.array(held.get(position, ()), np.int32).tobytes()
        data.append(Tensor(position, len(value), Kind.CONSTANT, dtype="int32", value=value))
    return copy_distance(asked, data, output)


shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
images = st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))


def indices(shape: tuple[int, ...]) -> np.ndarray:
    """A tensor whose elements are their own places."""
    return np.arange(math.prod(shape)).reshape(shape)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(shapes, st.data())
def test_paddings(shape: tuple[int, ...], data: st.DataObject):
    """PAD, and no distance where the shapes do not fit the paddings."""
    pads = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in shape]
    out = np.pad(indices(shape), pads, constant_values=-1)
    asked = op("PAD", _1=np.ravel(pads).tolist())
    assert distance(asked, shape, out.shape) == least(walked(out), 0)
    assert distance(asked, shape, (*out.shape[:-1], out.shape[-1] + 1)) is None
    assert distance(op("PAD"), shape, out.shape) is None


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(shapes, st.data())
def test_slices(shape: tuple[int, ...], data: st.DataObject):
    """SLICE element by element, STRIDED_SLICE by runs of the last axis."""
    at = [data.draw(st.integers(0, d - 1)) for d in shape]
    stop = [data.draw(st.integers(a + 1, d)) for a, d in zip(at, shape, strict=True)]
    step = [data.draw(st.integers(1, 3)) for _ in shape]
    plain = indices(shape)[tuple(slice(*v) for v in zip(at, stop, strict=True))]
    assert distance(op("SLICE"), shape, plain.shape) == least(walked(plain), 0)
    out = indices(shape)[tuple(slice(*v) for v in zip(at, stop, step, strict=True))]
    negative = [a - d if data.draw(st.booleans()) else a for a, d in zip(at, shape, strict=True)]
    asked = op("STRIDED_SLICE", _1=negative, _2=stop, _3=step)
    assert distance(asked, shape, out.shape) == least(walked(out), out.shape[-1] if step[-1] == 1 else 0)
    assert distance(op("STRIDED_SLICE", _1=at, _2=stop, _3=[-1] * len(at)), shape, out.shape) is None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(shapes, st.data())
def test_permutations(shape: tuple[int, ...], data: st.DataObject):
    """TRANSPOSE, whatever stays in front, at the end, or is of size 1."""
    order = data.draw(st.permutations(range(len(shape))))
    out = np.transpose(indices(shape), order)
    assert distance(op("TRANSPOSE", _1=order), shape, out.shape) == least(walked(out), 0)


@settings(max_examples=100, deadline=None)
@given(images, st.integers(1, 3))
def test_space_and_depth(image: tuple[int, int, int, int], block: int):
    """SPACE_TO_DEPTH walks its input, DEPTH_TO_SPACE its output."""
    n, h, w, d = image
    wide, deep = (n, h * block, w * block, d), (n, h, w, d * block**2)
    out = indices(wide).reshape(n, h, block, w, block, d).transpose(0, 1, 3, 2, 4, 5).reshape(deep)
    assert distance(op("SPACE_TO_DEPTH", block_size=block), wide, deep) == least(driven(out), 0)
    out = indices(deep).reshape(n, h, w, block, block, d).transpose(0, 1, 3, 2, 4, 5).reshape(wide)
    assert distance(op("DEPTH_TO_SPACE", block_size=block), deep, wide) == least(walked(out), 0)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(images, st.tuples(st.integers(1, 3), st.integers(1, 3)), st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_space_and_batches(image: tuple[int, int, int, int], block: tuple[int, int], pads: list[int]):
    """SPACE_TO_BATCH_ND walks its output, BATCH_TO_SPACE_ND its input, pixel by pixel."""
    n, h, w, d = image
    whole = (h * block[0], w * block[1])
    inside = (whole[0] - pads[0] - pads[1], whole[1] - pads[2] - pads[3])
    if min(inside) < 1:
        return
    wide, deep = (n, *inside, d), (n * block[0] * block[1], h, w, d)
    padded = np.pad(indices(wide), ((0, 0), (pads[0], pads[1]), (pads[2], pads[3]), (0, 0)), constant_values=-1)
    out = padded.reshape(n, h, block[0], w, block[1], d).transpose(2, 4, 0, 1, 3, 5).reshape(deep)
    assert distance(op("SPACE_TO_BATCH_ND", _1=block, _2=pads), wide, deep) == least(walked(out), d)
    spread = indices(deep).reshape(*block, n, h, w, d).transpose(2, 3, 0, 4, 1, 5).reshape(n, *whole, d)
    out = spread[:, pads[0] : whole[0] - pads[1], pads[2] : whole[1] - pads[3]]
    assert distance(op("BATCH_TO_SPACE_ND", _1=block, _2=pads), deep, wide) == least(driven(out), d)


@settings(max_examples=150, deadline=None)
@given(images, st.integers(1, 9), st.integers(1, 9), st.sampled_from([(0, 0), (1, 0), (0, 1)]))
def test_resizing(image: tuple[int, int, int, int], height: int, width: int, how: tuple[int, int]):
    """RESIZE_NEAREST_NEIGHBOR copies pixels; rows stay inside, ascend, and double where sizes do."""
    asked = op("RESIZE_NEAREST_NEIGHBOR", _1=(height, width), align_corners=how[0], half_pixel_centers=how[1])
    rows = [nearest(y, image[1], height, asked) for y in range(height)]
    columns = [nearest(x, image[2], width, asked) for x in range(width)]
    out = indices(image)[:, rows][:, :, columns]
    assert distance(asked, image, out.shape) == least(walked(out), image[3])
    assert rows == sorted(rows)
    for whole in (False, True):
        first = [first_interpolated(y, image[1], height, asked, integer=whole) for y in range(height)]
        assert first == sorted(first)
        assert 0 <= first[0] <= first[-1] < image[1]


def test_doubling_keeps_all_of_the_input():
    """An image twice as wide and high needs its own bytes and one pixel, which memcpy may not copy onto itself."""
    asked = op("RESIZE_NEAREST_NEIGHBOR", _1=(16, 16))
    assert distance(asked, (1, 8, 8, 4), (1, 16, 16, 4)) == 16 * 16 * 4 - 8 * 8 * 4 + 4


@pytest.mark.parametrize("kind", COPIED)
def test_what_is_not_known_gives_nothing(kind: str):
    """Empty tensors, other ranks, missing constants."""
    bare = op(kind)
    assert distance(bare, (0, 2), (0, 2)) is None
    if kind != "SLICE":
        assert distance(bare, (2, 2), (2, 2)) is None
    assert distance(bare, (2,), (2, 2)) is None
