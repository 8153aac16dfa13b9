"""RandWire on CIFAR-10 and CIFAR-100 in the sizes of SERENITY (Ahn et al., MLSys 2020), and the cells they stack.

SERENITY publishes neither the graphs nor the seeds nor the widths, only multiplications and weights (Table 1) and
how many cells there are: A and B, or A, B and C. What is here is rebuilt: the small regime of the RandWire paper,
WS(4, 0.75) with 32 nodes, on 32x32 images, each cell at half the side and twice the width of the one before;
77 and 80 channels (78 in that regime) bring both figures of Table 1 within 3 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.network import Network, Parameter
from lowtide_research.zoo.randwire import PAPER, draw_connected, stage, watts_strogatz

SIDE = 32
LAST_FILTERS = 1280


@dataclass(frozen=True)
class RandwireShape:
    """A data set's network: `cells` random cells from `channels` channels on, what SERENITY says of its size."""

    data: str
    classes: int
    cells: int
    channels: int
    macs: str
    weights: str


CIFAR_10 = RandwireShape("CIFAR-10", 10, 2, 77, "111.0 M", "1.2 M")
CIFAR_100 = RandwireShape("CIFAR-100", 100, 3, 80, "160.0 M", "4.7 M")


def build_network(name: str, *, layout: RandwireShape, nodes: int, channels: int, seed: int) -> Net:
    """Stem, the cells, head."""
    random = Random(seed)
    net = Net(name)
    x = net.conv(net.input("image", (1, 3, SIDE, SIDE)), max(channels // 2, 1), 3)
    for i in range(layout.cells):
        with net.scope(f"cell_{'abc'[i]}"):
            x = _cell(net, x, nodes, channels << i, random)
    with net.scope("head"):
        x = net.relu(net.conv(net.relu(x), LAST_FILTERS, 1))
        net.output(net.gemm(net.reshape(net.global_average_pool(x), (1, LAST_FILTERS)), layout.classes))
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
    return draw_connected(nodes, lambda n, r: watts_strogatz(n, 4, 0.75, r), random)


def _cell(net: Net, x: Value, nodes: int, channels: int, random: Random) -> Value:
    return stage(net, x, nodes, _wiring(nodes, random), channels, stacked=False)


def _networks(name: str, layout: RandwireShape) -> tuple[Network, ...]:
    parameters = {
        "nodes": Parameter(32, 8, 1024, "nodes per cell"),
        "channels": Parameter(layout.channels, 1, 1024, "channels of cell A"),
        "seed": Parameter(0, 0, 10**9, "seed of the wiring"),
    }
    shared = (
        f"{layout.data}, float32, batch 1, WS(4, 0.75), 32 nodes per cell, {layout.channels} channels, "
        "weighted sums as one Sum op"
    )
    whole = Network(
        name,
        PAPER,
        f"{shared}; rebuilt with our own seeds, as SERENITY's graph is not public; its size (MLSys 2020, Table 1): "
        f"{layout.macs} multiplications, {layout.weights} weights",
        partial(build_network, layout=layout),
        parameters,
    )
    cells = (
        Network(
            f"{name}_cell_{'abc'[i]}",
            PAPER,
            f"{shared}; cell {'ABC'[i]} of {name}, rebuilt: SERENITY (MLSys 2020, Figure 15) publishes no graph",
            partial(build_cell, cell=i),
            parameters,
        )
        for i in range(layout.cells)
    )
    return (whole, *cells)


NETWORKS = (*_networks("randwire_cifar10", CIFAR_10), *_networks("randwire_cifar100", CIFAR_100))
