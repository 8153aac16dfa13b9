"""ATen's convolutions, pools and resampling."""

from __future__ import annotations

from math import gcd

from lowtide.ops.forms import Convolution, Form, Indexed, Labelled, Pool, Reduction
from lowtide.ops.index import Index, Window
from lowtide.ops.node import Node, NoForm, Row


def spread(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    """One entry for each dimension; a single one is for all. Raises `NoForm`: neither one nor `count` of them."""
    if len(values) not in (1, count):
        raise NoForm(f"{len(values)} entries for {count} dimensions")
    return values * count if len(values) == 1 else values


def required_ints(node: Node, name: str) -> tuple[int, ...]:
    """A list of integers that the op cannot do without. Raises `NoForm`: it is not among the attributes: the graph
    carries sizes alone."""
    values = node.ints(name)
    if not values:
        raise NoForm(f"its argument {name} is not known")
    return values


def convolution(node: Node) -> Convolution:
    """`convolution` with weights of shape (out, in / groups, ...), or (in, out / groups, ...) if transposed."""
    count = node.rank() - 2
    strides, dilations = spread(required_ints(node, "stride"), count), spread(node.ints("dilation", (1,)), count)
    pads = spread(node.ints("padding", (0,)), count)
    kernel = node.shape(1)[2:]
    return Convolution(
        tuple(
            (d + 2, Window(taps, stride, dilation, pad))
            for d, (taps, stride, dilation, pad) in enumerate(zip(kernel, strides, dilations, pads, strict=True))
        ),
        filters=1 if node.attribute("transposed", False) else 0,
        depth=0 if node.attribute("transposed", False) else 1,
        groups=int(node.attribute("groups", 1)),
        bias=2 if node.given(2) else None,
        transposed=bool(node.attribute("transposed", False)),
    )


def _convolution_of_rank(count: int) -> Row:
    def row(node: Node) -> Form:
        if node.rank() != count + 2:
            raise NoForm("no dimension for the batch")
        if isinstance(node.attribute("padding"), str):
            raise NoForm("padding given by a word")
        strides = spread(node.ints("stride", (1,)), count)
        pads, dilations = spread(node.ints("padding", (0,)), count), spread(node.ints("dilation", (1,)), count)
        kernel = node.shape(1)[2:]
        return Convolution(
            tuple(
                (d + 2, Window(*sizes)) for d, sizes in enumerate(zip(kernel, strides, dilations, pads, strict=True))
            ),
            groups=int(node.attribute("groups", 1)),
            bias=2 if node.given(2) else None,
        )

    return row


def _windows(node: Node, count: int) -> tuple[tuple[int, Window], ...]:
    kernel = spread(required_ints(node, "kernel_size"), count)
    strides = spread(node.ints("stride") or kernel, count)
    pads, dilations = spread(node.ints("padding", (0,)), count), spread(node.ints("dilation", (1,)), count)
    first = node.rank() - count
    return tuple(
        (first + d, Window(*sizes)) for d, sizes in enumerate(zip(kernel, strides, dilations, pads, strict=True))
    )


def _pool(count: int) -> Row:
    return lambda node: Pool(_windows(node, count))


def outer(count: int, cost: int = 2) -> Row:
    """Form of ops that work on planes of the last `count` dimensions, plane by plane."""
    return lambda node: planes(node, count, cost)


def planes(node: Node, count: int, cost: int = 2) -> Labelled:
    """Every operand and result by its leading dimensions, the last `count` ones untiled. Raises `NoForm`: the operands'
    planes are not counted alike."""
    rank = node.rank()
    if any(shape is not None and len(shape) != rank for shape in (*node.reads, *node.writes)):
        raise NoForm("operands of several ranks")
    labels = tuple(d if d < rank - count else None for d in range(rank))
    elements = 1
    for size in node.result():
        elements *= size
    return Labelled(
        "along",
        tuple(None if shape is None else labels for shape in node.reads),
        (labels,) * len(node.writes),
        flops=cost * elements,
    )


def _adaptive(count: int) -> Row:
    """To one row it is a mean; to rows that divide evenly a pool; else planes are untiled."""

    def row(node: Node) -> Form:
        rank = node.rank()
        sizes = list(zip(node.shape()[rank - count :], node.result()[rank - count :], strict=True))
        if all(result == 1 for _, result in sizes):
            return Reduction(tuple(range(rank - count, rank)), True, "sum")
        if all(result and size % result == 0 for size, result in sizes):
            first = rank - count
            return Pool(tuple((first + d, Window(size // rows, size // rows)) for d, (size, rows) in enumerate(sizes)))
        return planes(node, count)

    return row


def _nearest(count: int) -> Row:
    """Row r of the result is row ``r * size in // size out``; other scales than the sizes' are not taken."""

    def row(node: Node) -> Form:
        rank = node.rank()
        indices: list[Index | None] = [Index(d) for d in range(rank)]
        for d in range(rank - count, rank):
            size, rows = node.shape()[d], node.result()[d]
            if rows % size and size % rows:
                return planes(node, count)
            shared = gcd(size, rows)
            indices[d] = Index(d, size // shared, rows // shared)
        return Indexed("resample", tuple(indices))

    return row


def _grid(node: Node) -> Form:
    return Labelled("resample", ((0, 1, None, None), (0, 2, 3, None)), ((0, 1, 2, 3),), exact="kernel")


ROWS: dict[str, Row] = {
    "convolution": convolution,
    "conv1d": _convolution_of_rank(1),
    "conv2d": _convolution_of_rank(2),
    "conv3d": _convolution_of_rank(3),
    "max_pool1d avg_pool1d": _pool(1),
    "max_pool2d avg_pool2d": _pool(2),
    "max_pool3d avg_pool3d": _pool(3),
    # The second result counts places of the full plane, so that no part of a plane gives the same numbers.
    "max_pool2d_with_indices": lambda node: planes(node, 2),
    "max_pool3d_with_indices": outer(3),
    "_adaptive_avg_pool2d adaptive_avg_pool2d": _adaptive(2),
    "_adaptive_avg_pool3d": _adaptive(3),
    "adaptive_avg_pool1d": _adaptive(1),
    "adaptive_max_pool2d": outer(2),
    "upsample_nearest1d": _nearest(1),
    "upsample_nearest2d": _nearest(2),
    "upsample_nearest3d": _nearest(3),
    "upsample_bilinear2d": outer(2, 8),
    "upsample_bicubic2d": outer(2, 32),
    "upsample_linear1d": outer(1, 4),
    "reflection_pad1d replication_pad1d": outer(1, 0),
    "reflection_pad2d replication_pad2d": outer(2, 0),
    "pixel_shuffle pixel_unshuffle": outer(3, 0),
    "grid_sampler_2d": _grid,
}
