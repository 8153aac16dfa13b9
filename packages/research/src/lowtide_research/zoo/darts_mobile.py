"""DARTS on ImageNet as its authors run it: 14 cells, 48 filters (Liu et al., ICLR 2019), and its first normal cell.

SERENITY (MLSys 2020) takes "only the first cell" of this network. The cell's graph is not public; here it is cut from
the network. Its Table 1 repeats DARTS's own figures for the whole: 4.7 M weights, which this network has, and 574.0 M
multiplications. Convolutions and the classifier make 529.9 M, and 546.5 M with four operations for each normalised
element, as PyTorch-OpCounter counts (quark0/darts, issue 46: 523 to 545 M by what is counted).
"""

from __future__ import annotations

from functools import partial

from lowtide_research.zoo.builder import Net, Value
from lowtide_research.zoo.cells import genotype_of
from lowtide_research.zoo.values import Ints

SIDE = 224
CLASSES = 1000


def build_darts(name: str, *, cells: int, filters: int) -> Net:
    """Two stems that shrink the image eightfold, then `cells` cells, reducing at one and at two thirds."""
    net = Net(name)
    x = net.input("image", (1, 3, SIDE, SIDE))
    with net.scope("stem"):
        x = net.relu(net.conv(x, filters // 2, 3, 2, bias=True))
        older = net.conv(x, filters, 3, 2)
        newer = net.conv(net.relu(older), filters, 3, 2)
    width = filters
    for i in range(cells):
        reduction = i in (cells // 3, 2 * cells // 3)
        width *= 2 if reduction else 1
        with net.scope(f"cell{i}"):
            older, newer = newer, _cell(net, older, newer, width, reduction=reduction)
    with net.scope("head"):
        pooled = net.global_average_pool(newer)
        net.output(net.gemm(net.reshape(pooled, newer.shape[:2]), CLASSES))
    return net


def build_normal_cell(name: str, *, filters: int, folded: int) -> Net:
    """First cell: it reads the outputs of both stems, at 56x56 and 28x28."""
    net = _Folded(name) if folded else Net(name)
    older = net.input("older", (1, filters, SIDE // 4, SIDE // 4))
    newer = net.input("newer", (1, filters, SIDE // 8, SIDE // 8))
    net.output(_cell(net, older, newer, filters, reduction=False))
    return net


class _Folded(Net):
    """A net whose activations are part of the ops before them, and whose shifted reads are part of the ops after them,
    as TensorFlow Lite has them."""

    def relu(self, x: Value) -> Value:
        """No op of its own."""
        return x

    def slice(self, x: Value, start: Ints, end: Ints) -> Value:
        """No op of its own: the convolution that reads it starts one row and one column later."""
        return x


def _cell(net: Net, older: Value, newer: Value, filters: int, *, reduction: bool) -> Value:
    if older.shape[2:] == newer.shape[2:]:
        first = net.conv(net.relu(older), filters, 1)
    else:
        first = _factorised(net, older, filters)
    states = [first, net.conv(net.relu(newer), filters, 1)]
    return genotype_of("darts").cell(net, states, partial(_apply, net, filters=filters), reduction)


def _factorised(net: Net, x: Value, filters: int) -> Value:
    """Halve height and width: half of the channels see the even rows and columns, half the odd ones."""
    x = net.relu(x)
    even = net.conv(x, filters // 2, 1, 2)
    odd = net.slice(x, (0, 0, 1, 1), x.shape)
    return net.concat([even, net.conv(odd, filters - filters // 2, 1, 2)])


def _apply(net: Net, x: Value, kind: str, stride: int, *, filters: int) -> Value:
    if kind == "skip":
        return x if stride == 1 else _factorised(net, x, filters)
    if kind == "max pool":
        return net.max_pool(x, 3, stride)
    if kind == "single separable 3x3":
        return net.conv(net.depthwise(net.relu(x), 3, stride, dilation=2), filters, 1)
    assert kind == "separable 3x3", kind
    for step in (stride, 1):
        x = net.conv(net.depthwise(net.relu(x), 3, step), filters, 1)
    return x
