"""Chains of convolutions cut into blocks of fused layers: every block, three ways to run it, and the best of all paths.

A block holds what it reads and what it makes whole, and of each tensor between its layers no more than a buffer::

    x ==[ conv ]-- buffer --[ depthwise ]-- buffer --[ conv ]== y       == whole, but for the network's own ends

    rows       the rows that a window of the next layer spans; each is made once
    pixels     one row less, and a window's width of pixels; each is made once
    again      msf-CNN's: columns as high as the tile; rows that two tiles share are made for each of them

This is the accounting of msf-CNN (NeurIPS 2025): bytes are elements (int8), the network's input and output are free,
weights, padding and residual additions are not counted. A setting is a path from layer to layer over blocks, its peak
the largest block. All blocks are tried, so that what `front` gives is the least that this family has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op
from lowtide.ops.forms import Convolution
from lowtide.ops.meaning import meaning

Way = Literal["whole", "rows", "pixels", "again"]
"""How a block runs; one layer by itself is whole."""
KEPT: tuple[Way, ...] = ("rows", "pixels")
"""Ways that make everything once."""
WAYS: tuple[Way, ...] = get_args(Way)[1:]


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of a chain. Shapes are rows, columns, channels; `taps`, `stride`, `before` of both sides alike.

    `multiplications` are of the layer run once.
    """

    reads: tuple[int, int, int]
    makes: tuple[int, int, int]
    taps: int
    stride: int
    before: int
    multiplications: int

    def __post_init__(self) -> None:
        assert self.taps > 0, self
        assert self.stride > 0, self


@dataclass(frozen=True, slots=True)
class Block:
    """Layers ``[begin, end)`` fused in one way: bytes while it runs, multiplications with those made again."""

    begin: int
    end: int
    way: Way
    bytes: int
    multiplications: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A path over blocks: bytes of the largest, multiplications of all."""

    peak_bytes: int
    multiplications: int
    blocks: tuple[Block, ...]


def chain(graph: Graph) -> tuple[Layer, ...]:
    """The layers of a graph that is a chain of convolutions of images with square windows.

    Raises
    ------
    InputError
        It is none.
    """
    return tuple(_layer(graph, op, graph.ops[i - 1] if i else None) for i, op in enumerate(graph.ops))


def _layer(graph: Graph, op: Op, before: Op | None) -> Layer:
    known = meaning(graph, op)
    form = None if known is None else known.form
    read = [graph.tensor_by_id[t] for t in op.inputs if graph.tensor_by_id[t].kind is not Kind.CONSTANT]
    follows = len(read) == 1 and (before is None or read[0].id in before.outputs)
    data = read[0].shape if follows else None
    result = graph.tensor_by_id[op.outputs[0]].shape
    windows = {} if not isinstance(form, Convolution) or form.transposed else dict(form.windows)
    square = sorted(windows) == [2, 3] and windows[2] == windows[3]
    if not square or data is None or result is None or len(data) != 4 or len(result) != 4:
        message = f"{op.label} is no convolution with a square window that follows the op before it"
        raise InputError(message, graph.source or graph.name)
    assert isinstance(form, Convolution)
    window = windows[2]
    return Layer(
        (data[2], data[3], data[1]),
        (result[2], result[3], result[1]),
        window.taps,
        window.stride,
        window.before,
        prod(result) * window.taps**2 * (data[1] // form.groups),
    )


def block(layers: Sequence[Layer], begin: int, end: int, way: Way) -> Block | None:
    """A block of a chain; None if msf-CNN's tile is higher than what it reads.

    Parameters
    ----------
    begin, end
        Positions; the block is ``layers[begin:end]``.
    """
    inner = layers[begin:end]
    held = (prod(inner[0].reads) if begin else 0) + (prod(inner[-1].makes) if end < len(layers) else 0)
    once = sum(layer.multiplications for layer in inner)
    if end - begin == 1:
        return Block(begin, end, "whole", held, once)
    if way == "again":
        return _again(inner, Block(begin, end, way, held, 0))
    for layer in inner[1:]:
        rows, columns, channels = layer.reads
        pixels = layer.taps * columns if way == "rows" else (layer.taps - 1) * columns + layer.taps
        held += min(pixels, rows * columns) * channels
    return Block(begin, end, way, held, once)


def _again(inner: Sequence[Layer], ends: Block) -> Block | None:
    """msf-CNN's fused block with a cache along the rows: one row of the result at a time, each tile from its input on.

    Its buffers are as high as the last tile is; its multiplications count tiles that reach into the padding.
    """
    tile, step = 1, 1
    for layer in reversed(inner):
        tile, step = (tile - 1) * layer.stride + layer.taps, step * layer.stride
    if tile > min(inner[0].reads[:2]):
        return None
    held, multiplied, stride, height = ends.bytes, 0, 1, tile
    first = (inner[0].reads[0] - tile) // step * step
    for layer in inner:
        rows, columns, channels = layer.reads
        stride *= layer.stride
        held += layer.taps * height * channels
        at = first // stride
        edges = (at == 0) + (at + height >= rows)
        height = (height - layer.taps + edges * layer.before) // layer.stride + 1

        per_pixel = layer.multiplications // prod(layer.makes[:2])
        inside = (tile - layer.taps) // layer.stride + 1
        tiles = (rows + 2 * layer.before - tile) // step + 1
        across = (columns + 2 * layer.before - layer.taps) // layer.stride + 1
        multiplied += tiles * across * inside * per_pixel
        tile, step = inside, step // layer.stride
    return Block(ends.begin, ends.end, "again", held, multiplied)


def least(layers: Sequence[Layer], ways: Sequence[Way] = KEPT) -> Setting:
    """The path of least peak among those of the ways given, then of the fewest multiplications."""
    return front(layers, ways)[-1]


def front(layers: Sequence[Layer], ways: Sequence[Way] = WAYS) -> list[Setting]:
    """Paths of ever lower peak, each with the fewest multiplications for it; with all ways no path beats them.

    Labels (peak, multiplications) go from layer to layer, and one goes if another is no worse in both: a block that
    follows raises both alike, so that no best path is lost.
    """
    labels: list[list[tuple[int, int, Block | None, int]]] = [[(0, 0, None, -1)]]
    for end in range(1, len(layers) + 1):
        reached = []
        for begin in range(end):
            for fused in _blocks(layers, begin, end, ways):
                for k, (peak, multiplied, _, _) in enumerate(labels[begin]):
                    reached.append((max(peak, fused.bytes), multiplied + fused.multiplications, fused, k))
        labels.append(_undominated(reached))
    settings = []
    for peak, multiplied, last, k in labels[-1]:
        blocks: list[Block] = []
        while last is not None:
            blocks.append(last)
            _, _, last, k = labels[blocks[-1].begin][k]
        settings.append(Setting(peak, multiplied, tuple(reversed(blocks))))
    return settings[::-1]


def _blocks(layers: Sequence[Layer], begin: int, end: int, ways: Sequence[Way]) -> list[Block]:
    """Blocks of the same layers, none of which is worse than another in both bytes and multiplications."""
    every = [block(layers, begin, end, way) for way in (ways if end - begin > 1 else ("whole",))]
    best = _undominated([(b.bytes, b.multiplications, b, 0) for b in every if b is not None])
    return [b for _, _, b, _ in best if b is not None]


def _undominated(
    labels: list[tuple[int, int, Block | None, int]],
) -> list[tuple[int, int, Block | None, int]]:
    kept: list[tuple[int, int, Block | None, int]] = []
    for label in sorted(labels, key=lambda one: one[:2]):
        if not kept or label[1] < kept[-1][1]:
            kept.append(label)
    return kept
