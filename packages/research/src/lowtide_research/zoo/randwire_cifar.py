"""RandWire on CIFAR-10 and CIFAR-100 in the sizes of SERENITY (Ahn et al., MLSys 2020), and the cells they stack.

SERENITY publishes neither the graphs nor the seeds nor the widths, only multiplications and weights (Table 1) and
how many cells there are: A and B, or A, B and C. What is here is rebuilt: the small regime of the RandWire paper,
WS(4, 0.75) with 32 nodes, on 32x32 images, each cell at half the side and twice the width of the one before;
77 and 80 channels (78 in that regime) bring both figures of Table 1 within 3 %.
"""

from __future__ import annotations

from random import Random

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.randwire import WIRINGS, draw_connected, stage

SIDE = 32
LAST_FILTERS = 1280

SHAPES = {"cifar10": (10, 2), "cifar100": (100, 3)}  # classes and cells


def build_network(name: str, *, data: str, nodes: int, channels: int, seed: int) -> Net:
    """Stem, the cells, head."""
    random, (classes, cells) = Random(seed), SHAPES[data]
    net = Net(name)
    x = net.conv(net.input("image", (1, 3, SIDE, SIDE)), max(channels // 2, 1), 3)
    for i in range(cells):
        with net.scope(f"cell_{'abc'[i]}"):
            x = _cell(net, x, nodes, channels << i, random)
    with net.scope("head"):
        x = net.relu(net.conv(net.relu(x), LAST_FILTERS, 1))
        net.output(net.gemm(net.reshape(net.global_average_pool(x), (1, LAST_FILTERS)), classes))
    return net


def build_cell(name: str, *, cell: int, nodes: int, channels: int, seed: int) -> Net:
    """Cell number `cell` alone, wired as in the network of the same seed."""
    random = Random(seed)
    for _ in range(cell):
        _wiring(nodes, random)
    net = Net(name)
    width = max((channels << cell) // 2, 1)
    x = net.input("features", (1, width, SIDE >> cell, SIDE >> cell))
    net.output(_cell(net, x, nodes, channels << cell, random))
    return net


def _wiring(nodes: int, random: Random) -> set[tuple[int, int]]:
    return draw_connected(nodes, WIRINGS["ws"], random)


def _cell(net: Net, x: Value, nodes: int, channels: int, random: Random) -> Value:
    return stage(net, x, nodes, _wiring(nodes, random), channels, stacked=False)
