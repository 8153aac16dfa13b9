"""A few small networks in which every rule of a cut matters, and all their cuts, run beside the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import onnx

from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Region
from lowtide.transform.parts import apply
from support.part_runs import differs
from support.small_nets import Nets, pyramid


def _first(options: object) -> object:
    raise AssertionError("nothing is drawn")


def _image(*shape: int) -> tuple[Nets, str]:
    nets = Nets(_first)  # type: ignore[arg-type]
    return nets, nets.input(shape)


def windows() -> Nets:
    """Strides, paddings, dilations, and a sum whose operands lag behind each other."""
    nets, x = _image(1, 2, 13, 4)
    (a,) = nets.node("Conv", [x, nets.floats((2, 2, 3, 3), 0.3), nets.floats((2,))], pads=[1, 1, 1, 1])
    (b,) = nets.node("Conv", [a, nets.floats((2, 2, 3, 1), 0.3)], pads=[2, 0, 2, 0], dilations=[2, 1])
    (c,) = nets.node("Add", [a, b])
    nets.node("MaxPool", [c], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 0, 1], ceil_mode=1)
    return nets


def same() -> Nets:
    """Paddings that nobody says."""
    nets, x = _image(1, 2, 11, 5)
    (a,) = nets.node("Conv", [x, nets.floats((3, 2, 4, 3), 0.3)], auto_pad="SAME_UPPER", strides=[2, 1])
    nets.node("AveragePool", [a], kernel_shape=[3, 2], auto_pad="SAME_LOWER", count_include_pad=1)
    return nets


def widening() -> Nets:
    """Who makes more than it reads, alone, and with what follows it."""
    nets, x = _image(1, 2, 9, 3)
    (a,) = nets.node("Conv", [x, nets.floats((6, 2, 1, 1)), nets.floats((6,))])
    (b,) = nets.node("Sigmoid", [a])
    (c,) = nets.node("Mul", [a, b])
    (d,) = nets.node("Conv", [c, nets.floats((6, 1, 3, 1), 0.3)], group=6, pads=[1, 0, 1, 0])
    (e,) = nets.node("Conv", [d, nets.floats((2, 6, 1, 1), 0.3)])
    (f,) = nets.node("Conv", [e, nets.floats((4, 2, 3, 1), 0.3)], pads=[1, 0, 1, 0])
    (g,) = nets.node("Conv", [f, nets.floats((2, 4, 3, 1), 0.3)], strides=[2, 1])
    (h,) = nets.node("Resize", [g, "", "", nets.ints(1, 2, 16, 3)], coordinate_transformation_mode="asymmetric")
    nets.node("Conv", [h, nets.floats((1, 2, 3, 1), 0.3)], pads=[1, 0, 1, 0])
    return nets


def groups() -> Nets:
    """Channels in groups, and one by one, put together."""
    nets, x = _image(1, 4, 5, 3)
    (a,) = nets.node("Conv", [x, nets.floats((8, 2, 1, 1)), nets.floats((8,))], group=2)
    (b,) = nets.node("Conv", [a, nets.floats((8, 1, 2, 1))], group=8)
    (c,) = nets.node("Slice", [a, nets.ints(1), nets.ints(5), nets.ints(2)])
    nets.node("Concat", [b, c], axis=1)
    return nets


def tokens() -> Nets:
    """Rows that a reshape divides, softmax, products."""
    nets = Nets(_first)  # type: ignore[arg-type]
    x = nets.input((6, 4, 3))
    (a,) = nets.node("Reshape", [x, nets.ints(8, 9)])
    (b,) = nets.node("Softmax", [a], axis=-1)
    (c,) = nets.node("Transpose", [b], perm=[1, 0])
    (d,) = nets.node("Gemm", [c, nets.floats((8, 4)), nets.floats((4,))], beta=0.5)
    nets.node("MatMul", [nets.floats((3, 9)), d])
    nets.node("Flatten", [x], axis=0)
    return nets


def sums() -> Nets:
    """Sums over what is cut, their biases, and what is no sum."""
    nets, x = _image(1, 4, 3, 2)
    nets.node("Conv", [x, nets.floats((3, 4, 1, 1)), nets.floats((3,))])
    for kind in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2"):
        nets.node(kind, [x, nets.ints(1)], keepdims=0)
    nets.node("GlobalAveragePool", [x])
    return nets


def pieces() -> Nets:
    """Rows side by side, left out, added, repeated and backwards."""
    nets, x = _image(1, 2, 6, 4)
    (a,) = nets.node("Relu", [x])
    (b,) = nets.node("Slice", [a, nets.ints(1), nets.ints(6), nets.ints(2), nets.ints(2)])
    (c,) = nets.node("Concat", [a, b, x], axis=2)
    (d,) = nets.node("Pad", [c, nets.ints(0, 0, 1, 0, 0, 0, 0, 2)])
    nets.node("Resize", [d, "", "", nets.ints(1, 2, 32, 6)], coordinate_transformation_mode="asymmetric")
    nets.node("Slice", [a, nets.ints(-1), nets.ints(-9), nets.ints(2), nets.ints(-1)])
    nets.node("Expand", [x, nets.ints(3, 2, 6, 4)])
    nets.node("Tile", [x, nets.ints(1, 1, 2, 1)])
    return nets


def stretched() -> Nets:
    """Rows that are mixed of neighbours, with and without new ones between them."""
    nets, x = _image(1, 2, 7, 3)
    (a,) = nets.node("Conv", [x, nets.floats((2, 2, 3, 1), 0.3)], pads=[1, 0, 1, 0])
    (b,) = nets.node("Resize", [a, "", "", nets.ints(1, 2, 14, 9)], mode="linear")
    (c,) = nets.node("Resize", [b, "", "", nets.ints(1, 2, 14, 9)], mode="linear")
    (d,) = nets.node("Add", [b, c])
    nets.node("Resize", [d, "", nets.values(1, 1, 3, 2)], mode="cubic")
    return nets


def spread() -> Nets:
    """Rows that are spread over others, and gathered."""
    nets, x = _image(1, 4, 4, 2)
    nets.node("ConvTranspose", [x, nets.floats((4, 2, 3, 1))], strides=[2, 1])
    (a,) = nets.node("SpaceToDepth", [x], blocksize=2)
    nets.node("DepthToSpace", [a], blocksize=2, mode="CRD")
    return nets


def twice() -> Nets:
    """A tensor that is read along two dimensions."""
    nets = Nets(_first)  # type: ignore[arg-type]
    x = nets.input((4, 4))
    (a,) = nets.node("Relu", [x])
    (b,) = nets.node("Transpose", [a], perm=[1, 0])
    nets.node("Add", [a, b])
    nets.node("Softmax", [a], axis=0)
    return nets


def beside() -> Nets:
    """Rows of which only padding is seen, or nothing."""
    nets, x = _image(1, 2, 4, 3)
    nets.node("Conv", [x, nets.floats((2, 2, 1, 1)), nets.floats((2,))], pads=[2, 0, 2, 0])
    (a,) = nets.node("Concat", [x, nets.floats((1, 2, 2, 3))], axis=2)
    nets.node("AveragePool", [a], kernel_shape=[2, 2], strides=[2, 1], pads=[1, 0, 0, 0], count_include_pad=1)
    nets.node("AveragePool", [x], kernel_shape=[3, 2], strides=[2, 1], ceil_mode=1, count_include_pad=1)
    return nets


def norms() -> Nets:
    """Vectors of one number a channel."""
    nets, x = _image(1, 3, 4, 2)
    (a,) = nets.node("BatchNormalization", [x, *(nets.floats((3,)) for _ in range(3)), nets.positive(3)])
    (b,) = nets.node("PRelu", [a, nets.floats((3, 1, 1))])
    nets.node("InstanceNormalization", [b, nets.floats((3,)), nets.floats((3,))])
    return nets


def diagonal() -> Nets:
    """A tensor that is cut along one dimension, of which both run along one axis."""
    nets = Nets(_first)  # type: ignore[arg-type]
    (a,) = nets.node("Softmax", [nets.input((4, 4))], axis=1)
    nets.node("Einsum", [a], equation="ii->i")
    return nets


def older() -> Nets:
    """Operands that only newer versions may leave out."""
    nets = Nets(_first, opset=9)  # type: ignore[arg-type]
    x = nets.input((3, 4))
    (a,) = nets.node("Gemm", [x, nets.floats((4, 5)), nets.floats((5,))], beta=0.5)
    (b,) = nets.node("Slice", [a], starts=[1], ends=[3], axes=[0])
    nets.node("MatMul", [b, nets.floats((5, 2))])
    return nets


_ALL = (
    pyramid, windows, same, widening, groups, tokens, sums, pieces, stretched, spread, twice, beside, norms, diagonal,
    older,
)  # fmt: skip
SUITE: Mapping[str, Callable[[], Nets]] = {net.__name__: net for net in _ALL}


def regions(cutter: Cutter, stripes: int) -> Iterator[Region]:
    """Regions for each way to cut ops of a graph together, as far as they are needed and as far as they can run."""
    graph: Graph = cutter.graph
    known = set()
    for op in graph.ops:
        for axis in cutter.axes(op.id):
            for within in (graph.own_order, (op.id,)):
                axes = cutter.grow(within, op.id, axis)
                if axes is not None and (key := frozenset(axes.items())) not in known:
                    known.add(key)
                    ways = (cutter.region(graph.own_order, axes, stripes, pace) for pace in (*PACES, *RECOMPUTED_HALO))
                    yield from dict.fromkeys(islice(ways, len(axes) if len(axes) < 2 else None))


Drawn = tuple[int, int, int, int, int]
"""Of a region: seed, axis, first op, ops, stripes; all but the last counted modulo what there is."""


def drawn_regions(cutter: Cutter, drawn: Sequence[Drawn]) -> list[Region]:
    """Regions of a graph that share no op, as numbers were drawn for each; those that cannot be are left out."""
    graph = cutter.graph
    result: list[Region] = []
    for seed, way, first, many, stripes in drawn:
        rest = [op for op in graph.own_order if not any(op in region.of for region in result)]
        begin = first % max(1, len(rest))
        within = rest[begin:][: many % 12 + 1]
        if not within:
            continue
        op = within[seed % len(within)]
        ways = cutter.axes(op)
        axes = cutter.grow(within, op, ways[way % len(ways)]) if ways else None
        if axes is not None:
            result.append(cutter.region(graph.own_order, axes, stripes, (*PACES, *RECOMPUTED_HALO)[seed % 5]))
    return result


def broken(name: str, folder: Path, stripes: int = 3) -> str:
    """What is wrong with some cut of a network of the suite; empty: nothing."""
    source = folder / f"{name}.onnx"
    source.write_bytes(SUITE[name]().model().SerializeToString())
    onnx.checker.check_model(str(source), full_check=True)
    cutter = Cutter(read_model(source))
    for region in regions(cutter, stripes):
        wrong = differs(source, folder, cutter, apply(cutter, [region]))
        if wrong:
            return f"{[(cutter.graph.op_by_id[c.op].type, c.axis, c.ends) for c in region.cuts]}: {wrong}"
    return ""
