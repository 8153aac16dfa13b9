"""Networks that stack one cell: NASNet-A, AmoebaNet-A, PNASNet-5 and DARTS.

A cell reads the outputs of the two cells before it (``0`` the older one, ``1`` the newer one), makes hidden
states ``2, 3, ...``, each the sum of two operations on earlier states, and concatenates some of them::

    older --- fit --------- 0 --+-- op --+
                                |        add -- 2 --+
    newer --- ReLU - 1x1 -- 1 --+-- op --+          |   ...     concat
                                +-------------------+

The configuration is that of HMCOS (Wang et al., DAC 2022): a stem of one convolution, batch normalisation
folded into the convolutions (and kept after a concatenation), a separable convolution as two ops, repeated
ops merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import msgspec

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.network import table

Operation = tuple[str, int]  # name of an operation, and the hidden state that it reads


@dataclass(frozen=True)
class Genotype:
    """A normal and a reduction cell. Operations 2 i and 2 i + 1 are added up to hidden state i + 2."""

    normal: tuple[Operation, ...]
    normal_concat: tuple[int, ...]
    reduction: tuple[Operation, ...]
    reduction_concat: tuple[int, ...]

    def cell(self, net: Net, states: list[Value], apply: Callable[[Value, str, int], Value], reduction: bool) -> Value:
        """Add hidden states to those of the inputs, and concatenate. `apply`: gives an operation's ops, by its operand,
        its name and its stride."""
        operations = self.reduction if reduction else self.normal
        for i in range(0, len(operations), 2):
            parts = [apply(states[at], what, 2 if reduction and at < 2 else 1) for what, at in operations[i : i + 2]]
            states.append(net.add(parts[0], parts[1]))
        return net.concat([states[i] for i in (self.reduction_concat if reduction else self.normal_concat)])


@cache
def genotype_of(cell: str) -> Genotype:
    """A published cell, a table of genotypes.toml."""
    return msgspec.convert(table("genotypes")[cell], Genotype)


@dataclass(frozen=True)
class CellLayout:
    """What a data set settles: input, classes, and how many reduction cells come before the first stack."""

    side: int
    classes: int
    stem_stride: int
    leading_reductions: int


CIFAR = CellLayout(side=32, classes=10, stem_stride=1, leading_reductions=0)
IMAGENET = CellLayout(side=224, classes=1000, stem_stride=2, leading_reductions=2)
STACKS = 3
STEM_FILTERS = 32


def build_published(name: str, *, cell: str, data: str, n: int, filters: int) -> Net:
    """The network of a published cell, for ``cifar`` or ``imagenet``."""
    return build_cells(name, genotype_of(cell), CIFAR if data == "cifar" else IMAGENET, n, filters)


def build_cells(name: str, genotype: Genotype, layout: CellLayout, n: int, filters: int) -> Net:
    """Stack `n` normal cells three times, a reduction cell between stacks. `name`: name of the graph. `genotype`,
    `layout`: the cells, and the data set. `n`: normal cells per stack. `filters`: filters of the first cell. They
    double before every later reduction cell."""
    net = Net(name)
    x = net.input("image", (1, 3, layout.side, layout.side))
    newer = net.conv(x, STEM_FILTERS, 3, layout.stem_stride)
    older: Value | None = None
    cells = ["reduction"] * layout.leading_reductions
    for stack in range(STACKS):
        cells += ["reduction"] * (stack > 0) + ["normal"] * n
    width = filters
    for i, kind in enumerate(cells):
        with net.scope(f"cell{i}"):
            if kind == "reduction":
                width *= 2 if i else 1
                newest = _cell(net, older, newer, width, genotype.reduction, genotype.reduction_concat, 2)
            else:
                newest = _cell(net, older, newer, width, genotype.normal, genotype.normal_concat, 1)
        older, newer = newer, newest
    with net.scope("head"):
        pooled = net.squeeze(net.global_average_pool(net.relu(newer)), (2, 3))
        net.output(net.dense(pooled, layout.classes, bias=False))
    return net


def _cell(
    net: Net,
    older: Value | None,
    newer: Value,
    filters: int,
    operations: tuple[Operation, ...],
    concat: tuple[int, ...],
    stride: int,
) -> Value:
    squeezed = net.conv(net.relu(newer), filters, 1)
    states = [squeezed if older is None else _fit(net, older, newer, filters), squeezed]
    for i in range(0, len(operations), 2):
        parts = [_OPERATIONS[k](net, states[at], filters, stride if at < 2 else 1) for k, at in operations[i : i + 2]]
        states.append(net.add(parts[0], parts[1]))
    return net.concat([states[i] for i in concat])


def _fit(net: Net, older: Value, newer: Value, filters: int) -> Value:
    """Bring the older input to the newer one's height and width and to `filters` channels. Factorised reduction:
    half of the channels see the even rows and columns, half the odd ones."""
    x = net.relu(older)
    if older.shape[2:] == newer.shape[2:]:
        return net.conv(x, filters, 1)
    batch, channels, height, width = x.shape
    even = net.conv(net.average_pool(x, 1, 2), filters // 2, 1, bias=False)
    shifted = net.pad(x, (0, 0, 0, 0), (0, 0, 1, 1))
    shifted = net.slice(shifted, (0, 0, 1, 1), (batch, channels, height + 1, width + 1))
    odd = net.conv(net.average_pool(shifted, 1, 2), filters - filters // 2, 1, bias=False)
    return net.batch_norm(net.concat([even, odd]))


def _separable(kernel: int, times: int) -> Callable[[Net, Value, int, int], Value]:
    def apply(net: Net, x: Value, filters: int, stride: int) -> Value:
        for i in range(times):
            x = net.depthwise(net.relu(x), kernel, stride if i == 0 else 1)
            x = net.conv(x, filters, 1)
        return x

    return apply


def _skip(net: Net, x: Value, filters: int, stride: int) -> Value:
    assert stride == 1, "no published cell skips while it reduces"
    return x


def _spatial(net: Net, x: Value, filters: int, stride: int) -> Value:
    x = net.conv(x, filters, (1, 7), stride, bias=False)
    return net.conv(x, filters, (7, 1))


_OPERATIONS: dict[str, Callable[[Net, Value, int, int], Value]] = {
    "separable 3x3": _separable(3, 2),
    "separable 5x5": _separable(5, 2),
    "separable 7x7": _separable(7, 2),
    "single separable 3x3": _separable(3, 1),
    "average pool": lambda net, x, filters, stride: net.average_pool(x, 3, stride),
    "max pool": lambda net, x, filters, stride: net.max_pool(x, 3, stride),
    "skip": _skip,
    "1x1": lambda net, x, filters, stride: net.conv(x, filters, 1, stride),
    "1x7 then 7x1": _spatial,
}
