"""Canonical parameters of ops, whatever format they come from: what an operator table makes and a family reads.

Dimensions and operands are positions from 0 on, never negative; an operand is at the position that its format numbers.
Layouts are in the form: `channel` is 1 in NCHW and 3 in NHWC. Shapes are not in a form: a family gets them in addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lowtide.ops.access import Access
from lowtide.ops.index import Index, Window

Dims = tuple[int, ...]
Alone = Literal["bits", "kernel"]
"""Whether rows that are computed by themselves have the same bits, or the runtime's arithmetic hangs on their place."""
Labels = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Every operand is broadcast to every result, trailing dimensions aligned; equal rank is the plain case.

    Attributes
    ----------
    literal
        Operands that say a shape: Expand's.
    cost
        Operations an element, 0 for copies.
    """

    literal: tuple[int, ...] = ()
    cost: int = 1
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Along:
    """Operand `data` is untiled along `dims` and row by row elsewhere: softmax, layer norm, cumulative sums, top k.

    Other operands are aligned with it from their last dimension backwards; every result has the rank of `data`.

    Attributes
    ----------
    literal
        Operands that hold axes or counts.
    """

    dims: Dims
    data: int = 0
    literal: tuple[int, ...] = ()
    cost: int = 5
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Channelwise:
    """One number for each channel: batch, instance and group norms, quantisation along an axis.

    Attributes
    ----------
    channel
        Dimension of operand 0 and of result 0 that the vectors run along.
    vectors
        Operands of one dimension, and results of one dimension, that run along `channel`.
    untiled
        Dimensions that are untiled: the statistics run over them.
    groups
        Channels of one group share statistics.
    blocks
        Operands of operand 0's rank that have one row for so many channels.
    """

    channel: int
    vectors: tuple[int, ...] = ()
    untiled: Dims = ()
    groups: int | None = None
    blocks: tuple[tuple[int, int], ...] = ()
    cost: int = 2
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution over the dimensions of `windows`; plain, grouped, depthwise and transposed.

    Attributes
    ----------
    windows
        (dimension of data and of the result, geometry), for each dimension that a window slides over.
    channel
        Dimension of data and of the result.
    filters, depth
        Dimensions of the weights along output channels and along input channels; a transposed convolution's weights
        have all input channels in `depth` and one group's output channels in `filters`, a plain one's the reverse. The
        two are one dimension where a depthwise format has no other.
    groups
        1: plain; as many as input channels: depthwise.
    data, weights
        Positions of the operands.
    bias
        Operand that is added, of one dimension; given to one part of the input channels only.
    vectors
        Further operands of one number for each output channel: scales, zero points.
    added
        Operand of the result's shape that is added.
    transposed
        Whether rows of data are spread over the result.
    exact, merged
        As in `Access`.
    """

    windows: tuple[tuple[int, Window], ...]
    channel: int = 1
    filters: int = 0
    depth: int = 1
    groups: int = 1
    data: int = 0
    weights: int = 1
    bias: int | None = 2
    vectors: tuple[int, ...] = ()
    added: int | None = None
    literal: tuple[int, ...] = ()
    transposed: bool = False
    exact: Alone = "kernel"
    merged: Literal["sum", "never"] = "sum"


@dataclass(frozen=True, slots=True)
class Pool:
    """A window over some dimensions, every other dimension by itself: pools, response normalisation."""

    windows: tuple[tuple[int, Window], ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Dimensions of operand 0 are reduced away, or to size 1.

    Attributes
    ----------
    merge
        How results of parts of a reduced dimension become one; None: they cannot.
    literal
        Operands that hold axes.
    """

    dims: Dims
    keep: bool
    merge: Literal["sum", "max", "min"] | None
    merged: Literal["bits", "sum", "never"] = "sum"
    literal: tuple[int, ...] = ()
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Contraction:
    """Sums of products, dimensions labelled as in einsum: matrix products of every rank.

    Attributes
    ----------
    reads, writes
        Label of each dimension of each operand and result; None: untiled; None for an operand: left out.
    once
        Operands that are added and not multiplied: a bias.
    """

    reads: tuple[Labels | None, ...]
    writes: tuple[Labels, ...]
    once: tuple[int, ...] = ()
    literal: tuple[int, ...] = ()
    exact: Alone = "kernel"
    merged: Literal["bits", "sum", "never"] = "sum"


@dataclass(frozen=True, slots=True)
class Labelled:
    """Dimensions labelled as in einsum, nothing summed: gathers, samplers, recurrent layers cut along the batch.

    Attributes
    ----------
    family
        What to call it.
    broadcast
        Whether an operand's dimension of size 1 under a longer label is read in full.
    limits
        (operand, values below): what index operands may hold, for tests that draw some.
    """

    family: Literal["gather", "along", "recurrent", "resample", "pointwise", "contraction", "channelwise"]
    reads: tuple[Labels | None, ...]
    writes: tuple[Labels, ...]
    literal: tuple[int, ...] = ()
    limits: tuple[tuple[int, int], ...] = ()
    exact: Alone = "bits"
    broadcast: bool = False
    flops: int = 0


@dataclass(frozen=True, slots=True)
class Reshape:
    """Operand 0's elements in the same order under another shape; shapes say all."""

    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Transpose:
    """Dimension d of the result is dimension ``order[d]`` of operand 0."""

    order: Dims
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocks:
    """Depth to space (`spread`) or space to depth, `factor` rows to one along each dimension of `dims`.

    Attributes
    ----------
    channel
        Dimension that gives or takes ``factor ** len(dims)`` channels.
    channel_first
        Whether the channels of one block lie next to each other (ONNX's CRD): only then can channels be cut.
    """

    dims: Dims
    channel: int
    factor: int
    spread: bool
    channel_first: bool = False


@dataclass(frozen=True, slots=True)
class Concat:
    """Operands concatenated along a dimension, in order of their positions; `literal` ones are not concatenated."""

    dim: int
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Indexed:
    """Result 0 is what indices pick of operand 0: slice, pad, resize, rolled windows.

    Attributes
    ----------
    family
        What to call it.
    indices
        For each dimension of operand 0 its index, whose axis is a dimension of the result (or fixed); None: untiled.
    literal
        Operands that hold starts, pads, scales.
    """

    family: Literal["piece", "resample", "gather"]
    indices: tuple[Index | None, ...]
    literal: tuple[int, ...] = ()
    exact: Alone = "bits"
    cost: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """Results side by side along a dimension of operand 0, which is untiled; results are cut together elsewhere."""

    dim: int
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeat:
    """Operand 0 repeated along each dimension; shapes say how often. Only full copies are parts."""

    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Generate:
    """Result 0 comes from shapes, literals and random numbers; no operand's elements are read.

    Attributes
    ----------
    free
        Whether every dimension of the result can be cut: a fill, and no shape of something else.
    """

    free: bool
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Custom:
    """An op whose access an operator table gives: backward ops of several results, each with axes of its own.

    Attributes
    ----------
    limits
        As in `Labelled`.
    """

    family: str
    access: Access
    flops: int = 0
    limits: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """Nothing is known: everything needs everything, and every cut ends here.

    Attributes
    ----------
    reason
        Why, for people.
    """

    reason: str


Form = (
    Pointwise
    | Along
    | Channelwise
    | Convolution
    | Pool
    | Reduction
    | Contraction
    | Labelled
    | Reshape
    | Transpose
    | Blocks
    | Concat
    | Indexed
    | Split
    | Repeat
    | Generate
    | Custom
    | Opaque
)
