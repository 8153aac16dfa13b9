"""RandWire (Xie, Kirillov, Girshick, He: Exploring Randomly Wired Neural Networks, ICCV 2019).

A stage is a random graph, its edges directed from the lower to the higher node. A node mixes its inputs by a
weighted sum, then does ReLU, a separable 3x3 convolution and batch normalisation (folded). Nodes without
predecessors read the stage's input with stride 2; nodes without successors are averaged.

The papers publish no seeds. Ours are drawn by our own generators with `random.Random(seed)`, whose sequence
Python keeps: `SEEDS`, with 32 to 128 nodes, are the ones to quote.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lowtide.errors import InputError
from lowtide_research.zoo.builder import Net, Signal, Value

Edges = set[tuple[int, int]]  # undirected edges, the lower node first
SEEDS = (0, 1, 2, 3, 4)  # seeds whose networks are fixed: a test holds their wiring

_ATTEMPTS = 1000
_SIDE, _CLASSES, _LAST_FILTERS = 224, 1000, 1280


def watts_strogatz(n: int, k: int, p: float, random: Random) -> Edges:
    """Ring of `n` nodes joined to `k` nearest neighbours, each edge rewired with probability `p`."""
    edges = {_edge(i, (i + j) % n) for j in range(1, k // 2 + 1) for i in range(n)}
    for j in range(1, k // 2 + 1):
        for i in range(n):
            old = _edge(i, (i + j) % n)
            if old not in edges or random.random() >= p:
                continue
            free = [w for w in range(n) if w != i and _edge(i, w) not in edges]
            if free:
                edges.remove(old)
                edges.add(_edge(i, free[random.randrange(len(free))]))
    return edges


def erdos_renyi(n: int, p: float, random: Random) -> Edges:
    """Every pair of `n` nodes is joined with probability `p`."""
    return {(i, j) for i in range(n) for j in range(i + 1, n) if random.random() < p}


def barabasi_albert(n: int, m: int, random: Random) -> Edges:
    """Start with `m` nodes; each further one joins `m` earlier ones, drawn in proportion to their degree."""
    edges: Edges = set()
    ends: list[int] = []
    for node in range(m, n):
        chosen: list[int] = list(range(m)) if node == m else []
        while len(chosen) < m:
            pick = ends[random.randrange(len(ends))]
            if pick not in chosen:
                chosen.append(pick)
        edges.update((other, node) for other in chosen)
        for other in chosen:
            ends += [other, node]
    return edges


def _edge(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _connected(n: int, edges: Edges) -> bool:
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    seen, stack = {0}, [0]
    while stack:
        for other in neighbours[stack.pop()]:
            if other not in seen:
                seen.add(other)
                stack.append(other)
    return len(seen) == n


def draw_connected(nodes: int, draw: Callable[[int, Random], Edges], random: Random) -> Edges:
    """Draw graphs until one is connected. Raises `InputError`: no connected graph in 1,000 draws."""
    for _ in range(_ATTEMPTS):
        edges = draw(nodes, random)
        if _connected(nodes, edges):
            return edges
    raise InputError(f"no connected random graph of {nodes} nodes was drawn; take more nodes", "zoo")


WIRINGS: dict[str, Callable[[int, Random], Edges]] = {
    "ws": lambda n, random: watts_strogatz(n, 4, 0.75, random),
    "er": lambda n, random: erdos_renyi(n, 0.2, random),
    "ba": lambda n, random: barabasi_albert(n, 5, random),
}


def build_randwire(name: str, *, wiring: str, nodes: int, stages: int, channels: int, seed: int, stacked: bool) -> Net:
    """Stem, `stages` random stages whose channels double, head. `wiring`: how the edges of a
    stage are drawn, until they connect it. `stacked`: weighted sum as Unsqueeze, Concat, MatMul, Squeeze (as
    in HMCOS's networks); else as one Sum op with the weights left out, which costs no copies. Raises `InputError`:
    no connected graph in 1,000 draws."""
    random = Random(seed)
    net = Net(name)
    x = net.input("image", (1, 3, _SIDE, _SIDE))
    x = net.relu(net.conv(x, max(channels // 2, 1), 3, 2))
    x = net.conv(x, channels, 3, 2)
    for i in range(stages):
        edges = draw_connected(nodes, WIRINGS[wiring], random)
        with net.scope(f"stage{i}"):
            x = stage(net, x, nodes, edges, channels << i, stacked=stacked)
    with net.scope("head"):
        pooled = net.squeeze(net.global_average_pool(net.conv(x, _LAST_FILTERS, 1)), (2, 3))
        net.output(net.dense(pooled, _CLASSES, bias=False))
    return net


def stage(net: Net, x: Value, nodes: int, edges: Edges, channels: int, *, stacked: bool) -> Value:
    """Add the random stage of the given edges, which halves height and width."""
    before: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in sorted(edges):
        before[b].append(a)
    consumed = {a for a, _ in edges}
    values: list[Value] = []
    for node in range(nodes):
        with net.scope(f"node{node}"):
            mixed = _mix(net, [values[a] for a in before[node]], stacked) if before[node] else x
            y = net.depthwise(net.relu(mixed), 3, 1 if before[node] else 2)
            values.append(net.conv(y, channels, 1))
    return _average(net, [values[node] for node in range(nodes) if node not in consumed], stacked)


def _mix(net: Net, values: list[Value], stacked: bool) -> Value:
    if len(values) == 1:
        return values[0]
    k = len(values)
    if not stacked:
        return net.op("Sum", values, values[0].shape, Signal(0.0, sum(v.signal.square for v in values)))
    shares = net.concat([net.unsqueeze(v, -1) for v in values], -1)
    weights = net.weight("shares", (k, 1), 0.1 * k**-0.5, k**-0.5)
    return net.squeeze(net.matmul(shares, weights, shares.signal), (-1,))


def _average(net: Net, values: list[Value], stacked: bool) -> Value:
    if len(values) == 1:
        return values[0]
    signal = Signal(0.0, sum(v.signal.square for v in values) / len(values) ** 2)
    if not stacked:
        return net.op("Mean", values, values[0].shape, signal)
    together = net.concat([net.unsqueeze(v, 0) for v in values], 0)
    return net.op("ReduceMean", [together], values[0].shape, signal, axes=(0,), keepdims=0)
