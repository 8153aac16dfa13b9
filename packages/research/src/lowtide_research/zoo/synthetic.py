"""Hard synthetic graphs: sizes and dependencies, and operators that only mix bytes (`zoo/mixing.py`).

Each stresses an exact scheduler in one way: many tensors of unrelated sizes alive at once (``random_width``), deep
nesting (``series_parallel``), values that are read far apart (``matmul``, ``fft``), wavefronts (``grid``, ``lstm``)
and wide fans of unequal branches (``moe``). Sizes are bytes and small, since only their ratios matter. The random
ones are drawn with `random.Random(seed)`, whose sequence Python keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from lowtide.errors import InputError
from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.mixing import mix_type

MOST_BYTES = 100  # largest random size of ``random_width`` and ``series_parallel``

MOST_READS = 3
MOST_BRANCHES = 4


def build_random_width(name: str, *, width: int, n: int, seed: int) -> Net:
    """Draw `n` ops of which `width` results stay in use at any time, then add these up in pairs. An op reads up to
    three of the tensors in use. Once there are `width` of them, one that it reads goes out of use."""
    net, random = _net(name), Random(seed)
    live = [_input(net, f"x{i}", random.randint(1, MOST_BYTES)) for i in range(2)]
    for _ in range(n):
        chosen = random.sample(range(len(live)), min(len(live), random.randint(1, MOST_READS)))
        newest = _op(net, [live[i] for i in chosen], random.randint(1, MOST_BYTES))
        if len(live) >= width:
            live.pop(chosen[0])
        live.append(newest)
    net.output(_in_pairs(net, live, lambda: random.randint(1, MOST_BYTES)))
    return net


def build_series_parallel(name: str, *, n: int, seed: int) -> Net:
    """`n` ops, split at random into a series of two parts or into branches that one op joins."""
    net, random = _net(name), Random(seed)

    def build(x: Value, ops: int) -> Value:
        if ops == 1:
            return _op(net, [x], random.randint(1, MOST_BYTES))
        if ops < 3 or random.random() < 0.5:
            first = random.randint(1, ops - 1)
            return build(build(x, first), ops - first)
        branches = random.randint(2, min(MOST_BRANCHES, ops - 1))
        cuts = sorted(random.sample(range(1, ops - 1), branches - 1))
        parts = [b - a for a, b in zip([0, *cuts], [*cuts, ops - 1], strict=True)]
        return _op(net, [build(x, part) for part in parts], random.randint(1, MOST_BYTES))

    net.output(build(_input(net, "x", MOST_BYTES), n))
    return net


def build_matmul(name: str, *, m: int) -> Net:
    """Product of two m x m matrices of unpacked blocks, each entry accumulated in a chain, and the sum of all."""
    net = _net(name)
    packed = [[_input(net, f"{side}{i}_{j}", 1) for i in range(m) for j in range(m)] for side in "ab"]
    left, right = ([_op(net, [x], 4) for x in matrix] for matrix in packed)
    entries: list[Value] = []
    for i in range(m):
        for j in range(m):
            total = _op(net, [left[i * m], right[j]], 4)
            for k in range(1, m):
                total = _op(net, [total, _op(net, [left[i * m + k], right[k * m + j]], 4)], 4)
            entries.append(total)
    net.output(_in_pairs(net, entries, lambda: 4))
    return net


def build_grid(name: str, *, side: int, seed: int) -> Net:
    """`side` x `side` ops, each reading the one above and the one to the left; sizes 1 to 20."""
    net, random = _net(name), Random(seed)
    above: list[Value] = []
    x = _input(net, "x", 1)
    for i in range(side):
        row: list[Value] = []
        for j in range(side):
            read = [*above[j : j + 1], *row[-1:]] if i or j else [x]
            row.append(_op(net, read, random.randint(1, 20)))
        above = row
    net.output(above[-1])
    return net


def build_fft(name: str, *, points: int) -> Net:
    """Butterflies on `points` complex numbers of 8 bytes; every point is an input and an output. Raises `InputError`:
    `points` is no power of two."""
    if points & (points - 1):
        raise InputError(f"points is {points}; use a power of two", f"zoo:{name}")
    net = _net(name)
    row = [_input(net, f"x{i}", 8) for i in range(points)]
    step = 1
    while step < points:
        row = [_op(net, [row[i], row[i ^ step]], 8) for i in range(points)]
        step *= 2
    for value in row:
        net.output(value)
    return net


def build_lstm(name: str, *, layers: int, steps: int) -> Net:
    """Unrolled LSTM of 32 float32 units: ten ops for a layer's step, and one output of 32 bytes for a step."""
    net = _net(name)
    state = 128
    inputs = [_input(net, f"x{t}", 64) for t in range(steps)]
    hidden = [_input(net, f"h{i}", state) for i in range(layers)]
    cell = [_input(net, f"c{i}", state) for i in range(layers)]
    for x in inputs:
        for i in range(layers):
            gates = _op(net, [x, hidden[i]], 4 * state)
            into, forget, out, new = (_op(net, [gates], state) for _ in range(4))
            kept = _op(net, [cell[i], forget], state)
            cell[i] = _op(net, [kept, _op(net, [into, new], state)], state)
            hidden[i] = x = _op(net, [out, _op(net, [cell[i]], state)], state)
        net.output(_op(net, [x], 32))
    return net


def build_moe(name: str, *, experts: int, layers: int, seed: int) -> Net:
    """Mixture of experts: a router, experts of four ops on random shares of 20 to 200 bytes, a sum, a residual."""
    net, random = _net(name), Random(seed)
    x = _input(net, "x", 1000)
    for _ in range(layers):
        router = _op(net, [x], 50)
        results = []
        for _ in range(experts):
            share = random.randint(20, 200)
            y = _op(net, [x, router], share)
            for size in (4 * share, 4 * share, share):
                y = _op(net, [y], size)
            results.append(y)
        x = _op(net, [x, _op(net, results, 1000)], 1000)
    net.output(x)
    return net


def _net(name: str) -> Net:
    return Net(name, merge=False)


def _input(net: Net, name: str, size: int) -> Value:
    return net.input(name, (size,), "uint8")


def _op(net: Net, inputs: list[Value], size: int) -> Value:
    return net.op(mix_type(len(inputs)), inputs, (size,), dtype="uint8")


def _in_pairs(net: Net, values: list[Value], size: Callable[[], int]) -> Value:
    """Join neighbours, row by row, until one is left; a last odd one goes on to the next row."""
    while len(values) > 1:
        pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
        values = [_op(net, pair, size()) if len(pair) == 2 else pair[0] for pair in pairs]
    return values[0]
