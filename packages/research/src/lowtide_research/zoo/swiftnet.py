"""Cells like those of SwiftNet (Cheng et al., arXiv 1906.08305), rebuilt for SERENITY's experiments (MLSys 2020).

SERENITY schedules three cells of a SwiftNet for human presence detection, of 21, 19 and 22 nodes, 62 in all, which
its graph rewriting makes 33, 28 and 29; neither paper publishes the graphs. The ones here have these numbers. They
are wired by hand from SwiftNet's elements, a concatenation, a depthwise 3x3 and a 1x1 convolution::

    input --+-- reads --+-- blends --+-- blends --+-- concat
            +-- reads --+-- joins  --+            |
            ...

A ``read`` is depthwise and 1x1, a ``blend`` concat, depthwise and 1x1, a ``join`` concat and 1x1. Rewriting a
concat of k into k parts adds 2 (k - 1) nodes to a blend and k - 1 to a join. An op is a node: activations and batch
normalisation are folded as TFLite does, and left out. Side and widths make the cells' least peaks SERENITY's. The
file order is breadth first.
"""

from __future__ import annotations

from typing import NamedTuple

from lowtide_research.zoo.builder import Net, Value

SIDE = 224
STEM_FILTERS = 16
CLASSES = 2


class CellBlock(NamedTuple):
    """Part of a cell: its kind, the blocks that it reads (a read: the cell's input), its channels."""

    kind: str
    inputs: tuple[int, ...]
    channels: int


class SwiftnetCell(NamedTuple):
    """Waves of blocks, numbered through; the blocks that are concatenated; the stride of the reads."""

    waves: tuple[tuple[CellBlock, ...], ...]
    concat: tuple[int, ...]
    stride: int


def read(channels: int) -> CellBlock:
    """Depthwise and 1x1 convolution of the cell's input."""
    return CellBlock("read", (), channels)


def blend(*inputs: int, channels: int) -> CellBlock:
    """Concatenation, depthwise and 1x1 convolution."""
    return CellBlock("blend", inputs, channels)


def join(*inputs: int, channels: int) -> CellBlock:
    """Concatenation and 1x1 convolution."""
    return CellBlock("join", inputs, channels)


A = SwiftnetCell(
    (
        (read(1), read(2), read(1), read(4)),
        (blend(0, 1, channels=2), blend(1, 2, channels=1)),
        (blend(0, 4, 5, channels=6), blend(3, 4, 5, channels=2)),
    ),
    concat=(6, 7),
    stride=2,
)
B = SwiftnetCell(
    (
        (read(3), read(4), read(5)),
        (blend(0, 1, channels=4), join(1, 2, channels=5)),
        (join(2, 3, channels=2),),
        (blend(0, 4, 5, channels=3), join(3, 5, channels=6)),
    ),
    concat=(6, 7),
    stride=2,
)
C = SwiftnetCell(
    (
        (read(13), read(5), read(5), read(11), read(3)),
        (blend(0, 1, channels=10), blend(2, 3, channels=3)),
        (blend(4, 5, channels=10), join(5, 6, channels=6)),
    ),
    concat=(7, 8),
    stride=1,
)
CELLS = (A, B, C)
INPUTS = ((6, 56), (8, 28), (9, 14))
"""Channels and side of what each cell reads."""


def build_network(name: str, *, blocks: int, filters: int) -> Net:
    """Stem, cells A, B and C, and a tail of `blocks` depthwise and 1x1 convolutions of `filters` channels."""
    net = Net(name, merge=False)
    x = net.conv(net.input("image", (1, 3, SIDE, SIDE)), STEM_FILTERS, 3, 2)
    x = net.conv(net.depthwise(net.relu(x), 3, 2), INPUTS[0][0], 1)
    x = _chain(net, x)
    with net.scope("tail"):
        for _ in range(blocks):
            x = net.conv(net.depthwise(net.relu(x), 3), filters, 1)
        net.output(net.gemm(net.reshape(net.global_average_pool(net.relu(x)), x.shape[:2]), CLASSES))
    return net


def build_cells(name: str) -> Net:
    """The three cells in a row: 62 ops."""
    net = Net(name, merge=False)
    net.output(_chain(net, _features(net, 0)))
    return net


def build_cell(name: str, *, cell: int) -> Net:
    """One cell alone."""
    net = Net(name, merge=False)
    net.output(add_cell(net, _features(net, cell), CELLS[cell]))
    return net


def _features(net: Net, cell: int) -> Value:
    channels, side = INPUTS[cell]
    return net.input("features", (1, channels, side, side))


def _chain(net: Net, x: Value) -> Value:
    for letter, cell in zip("abc", CELLS, strict=True):
        with net.scope(f"cell_{letter}"):
            x = add_cell(net, x, cell)
    return x


def add_cell(net: Net, x: Value, cell: SwiftnetCell) -> Value:
    """Add a cell, its waves step by step: all concats, then all depthwise convolutions, then all 1x1."""
    branches: list[Value] = []
    for wave in cell.waves:
        strides = [cell.stride if len(branches) + i in cell.concat else 1 for i in range(len(wave))]
        values = [net.concat([branches[i] for i in b.inputs]) if b.inputs else x for b in wave]
        values = [
            v if b.kind == "join" else net.depthwise(v, 3, s) for b, v, s in zip(wave, values, strides, strict=True)
        ]
        branches += [
            net.conv(v, b.channels, 1, s if b.kind == "join" else 1)
            for b, v, s in zip(wave, values, strides, strict=True)
        ]
    return net.concat([branches[i] for i in cell.concat])
