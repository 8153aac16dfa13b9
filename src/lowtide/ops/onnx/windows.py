"""ONNX convolutions and pools, NCHW of any rank."""

from __future__ import annotations

from lowtide.ops.forms import Along, Convolution, Form, Pool, Reduction
from lowtide.ops.index import Window, same_padding
from lowtide.ops.node import Node, NoForm, Row


def windows_of(node: Node, taps: tuple[int, ...], *, transposed: bool = False) -> tuple[tuple[int, Window], ...]:
    """Geometry of each spatial dimension, padding resolved. Raises `NoForm` where attributes do not fit the kernel."""
    rank = len(taps)
    strides = node.ints("strides", (1,) * rank)
    dilations = node.ints("dilations", (1,) * rank)
    pads = node.ints("pads", (0,) * (2 * rank))
    auto = node.text("auto_pad", "NOTSET")
    if not (len(strides) == len(dilations) == rank and len(pads) == 2 * rank):
        raise NoForm("strides, dilations and pads are not as many as the kernel's dimensions")
    result = []
    for d in range(rank):
        window = Window(taps[d], strides[d], dilations[d], 0 if auto == "VALID" else pads[d])
        size, rows = node.shape()[2 + d], node.result()[2 + d]
        if auto in ("SAME_UPPER", "SAME_LOWER") and not transposed:
            before = same_padding(size, rows, window, upper=auto == "SAME_UPPER")
            window = Window(taps[d], strides[d], dilations[d], before)
        elif transposed and (auto in ("SAME_UPPER", "SAME_LOWER") or node.attribute("output_shape") is not None):
            extra = node.ints("output_padding", (0,) * rank)[d]
            cut = max(0, (size - 1) * strides[d] + extra + window.reach - rows)
            before = cut // 2 if auto == "SAME_UPPER" else cut - cut // 2
            window = Window(taps[d], strides[d], dilations[d], before)
        result.append((2 + d, window))
    return tuple(result)


def _conv(node: Node) -> Form:
    taps = node.shape(1)[2:]
    return Convolution(windows_of(node, taps), groups=node.attribute("group", 1))


def fused_conv(node: Node) -> Form:
    """onnxruntime's convolution with an activation, before which a fourth operand is added: parts of the input channels
    do not add up."""
    windows, groups = windows_of(node, node.shape(1)[2:]), node.attribute("group", 1)
    return Convolution(windows, groups=groups, added=3 if node.given(3) else None, merged="never")


def _conv_transpose(node: Node) -> Form:
    taps = node.shape(1)[2:]
    windows = windows_of(node, taps, transposed=True)
    return Convolution(windows, groups=node.attribute("group", 1), transposed=True, filters=1, depth=0)


def _conv_integer(node: Node) -> Form:
    """Sums of 32 bits: parts add up, but for the zero point of the padding, which counts once."""
    taps = node.shape(1)[2:]
    return Convolution(
        windows_of(node, taps), groups=node.attribute("group", 1), bias=None, vectors=(3,), exact="bits", merged="never"
    )


def _qlinear_conv(node: Node) -> Form:
    taps = node.shape(3)[2:]
    return Convolution(
        windows_of(node, taps), groups=node.attribute("group", 1), data=0, weights=3, bias=8, vectors=(4, 5),
        exact="bits", merged="never",
    )  # fmt: skip


def pool(node: Node) -> Form:
    """A pool of one result. Raises `NoForm` of one with indices."""
    if len(node.results) > 1:
        raise NoForm("its indices count the elements of the whole operand")
    return Pool(windows_of(node, node.ints("kernel_shape")))


def _global_pool(merge: str | None) -> Row:
    def row(node: Node) -> Form:
        return Reduction(tuple(range(2, node.rank())), True, merge)  # type: ignore[arg-type]

    return row


ROWS: dict[str, Row] = {
    "Conv": _conv,
    "com.microsoft::FusedConv": fused_conv,
    "ConvTranspose": _conv_transpose,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
    "MaxPool AveragePool LpPool": pool,
    "GlobalAveragePool": _global_pool("sum"),
    "GlobalMaxPool": _global_pool("max"),
    "GlobalLpPool": _global_pool(None),
    # A window over channels; onnxruntime keeps a running sum, whose bits hang on all channels before.
    "LRN": lambda node: Along((1,)),
}
