"""Small random ONNX networks in which what sees a dimension whole stands beside what goes along it, and all cuts of
such a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations

import onnx

from lowtide.transform.cut import Cut, Cutter, Region
from support.small_nets import Nets, Pick

_ALONE = ("Relu", "Neg", "rows", "columns", "rows", "columns", "dense", "norm", "mean", "slice", "transpose", "flat")
_TWO = ("Sub", "Mul", "Add", "Concat", "MatMul")


def forked_net(pick: Pick, nodes: int = 5) -> onnx.ModelProto:
    """A network of about so many nodes: rows and columns, each node of what one of the last few made, or of two.

    Often something wide is read by a node that sees all of one dimension and by one that goes along it with a tensor
    made before; and often results are narrow, so that the most is there between.
    """
    nets = Nets(pick)
    made = [nets.input((1, pick((2, 4, 6)), pick((2, 4, 9))))]
    if pick((False, True, True)):
        made += nets.node("MatMul", [made[0], nets.floats((nets.shapes[made[0]][-1], pick((8, 16, 24))))])
    while len(nets.nodes) < nodes:
        made += _fork(nets, made, pick) if pick((False, True)) else _node(nets, made, pick)
        nodes -= 1 if pick((False, False, True)) else 0
    read = {name for node in nets.nodes for name in node.input}
    for t in made[1:]:
        if t not in read and len(nets.shapes[t]) > 2 and pick((False, True, True)):
            nets.node("MatMul", [t, nets.floats((nets.shapes[t][-1], 1))])
    return nets.model([made[-2]] if pick((False,) * 7 + (True,)) and len(made) > 2 else [])


def _fork(nets: Nets, made: Sequence[str], pick: Pick) -> list[str]:
    """A tensor, what is made of it, something that sees a dimension of that whole, and what goes along with both."""
    first, axis = pick(made[-3:]), pick((-1, -2))
    found = nets.node(pick(("Relu", "Softmax", "Neg")), [first])
    found += nets.node("Softmax", found[-1:], axis=axis) if found and pick((False, True, True)) else []
    if found:
        found += nets.node(pick(("Sub", "Mul")), [first, found[-1]])
        found += nets.node("Softmax", [found[-2]], axis=pick((axis, -3 - axis)))
    return found


def _node(nets: Nets, made: Sequence[str], pick: Pick) -> list[str]:
    t = pick(made[-3:])
    shape = nets.shapes[t]
    if len(made) > 1 and pick((False, True)):
        kind, other = pick(_TWO), pick(made)
        if kind == "Concat":
            return nets.node(kind, [t, other], axis=pick((1, 2)) if len(shape) > 2 else 1)
        return nets.node(kind, [t, other])
    kind = pick(_ALONE)
    if kind in ("rows", "columns"):
        return nets.node("Softmax", [t], axis=-2 if kind == "rows" else -1)
    if kind == "dense":
        return nets.node("MatMul", [t, nets.floats((shape[-1], pick((1, 2, 8, 16))))])
    if kind == "norm":
        return nets.node("LayerNormalization", [t, nets.floats((shape[-1],))], axis=-1)
    if kind == "mean":
        return nets.node("ReduceMean", [t, nets.ints(pick((-1, -2)))], keepdims=1)
    if kind == "slice":
        begin, dim = pick((0, 1)), pick((1, 2))
        return nets.node("Slice", [t, nets.ints(begin), nets.ints(shape[dim % len(shape)]), nets.ints(dim)])
    if kind == "transpose":
        return nets.node("Transpose", [t], perm=[0, 2, 1])
    if kind == "flat":
        return nets.node("Reshape", [t, nets.ints(1, shape[-1], -1)])
    return nets.node(kind, [t])


def every_cut(cutter: Cutter, most: int = 2) -> Iterator[list[Region]]:
    """Regions of a small graph: all that can be cut together with one op, in two stripes or as many as there are rows,
    the largest first, alone and then up to so many of them together; some of these do not go together
    (`lowtide.transform.parts.apply` says so)."""
    ids = list(cutter.graph.own_order)
    grown: dict[frozenset[tuple[int, int]], dict[int, int]] = {}
    for within in chain.from_iterable(combinations(ids, n) for n in range(len(ids), 0, -1)):
        for op in within:
            for axis in cutter.axes(op):
                axes = cutter.grow(within, op, axis)
                if axes is not None:
                    grown[frozenset(axes.items())] = axes
    regions: dict[tuple[Cut, ...], Region] = {}
    for axes in sorted(grown.values(), key=len, reverse=True):
        for stripes in (2, 64):
            region = cutter.region(ids, axes, stripes)
            regions[region.cuts] = region
    for count in range(1, most + 1):
        for several in combinations(regions.values(), count):
            ops = [cut.op for region in several for cut in region.cuts]
            if len(set(ops)) == len(ops):
                yield list(several)
