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
    """Every operand is broadcast to every result, trailing dimensions aligned; equal rank is the plain case."""

    literal: tuple[int, ...] = ()  # operands that say a shape: Expand's
    cost: int = 1  # operations an element, 0 for copies
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Along:
    """Operand `data` is untiled along `dims` and row by row elsewhere: softmax, layer norm, cumulative sums, top k.

    Other operands are aligned with it from their last dimension backwards; every result has the rank of `data`.
    """

    dims: Dims
    data: int = 0
    literal: tuple[int, ...] = ()  # operands that hold axes or counts
    cost: int = 5
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Channelwise:
    """One number for each channel: batch, instance and group norms, quantisation along an axis."""

    channel: int  # dimension of operand 0 and of result 0 that the vectors run along
    vectors: tuple[int, ...] = ()  # operands of one dimension, and results of one dimension, that run along `channel`
    untiled: Dims = ()  # dimensions that are untiled: the statistics run over them
    groups: int | None = None  # channels of one group share statistics
    blocks: tuple[tuple[int, int], ...] = ()  # operands of operand 0's rank that have one row for this many channels
    cost: int = 2
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Convolution:
    """Convolution over the dimensions of `windows`; plain, grouped, depthwise and transposed."""

    # (dimension of data and of the result, geometry), for each dimension that a window slides over.
    windows: tuple[tuple[int, Window], ...]
    channel: int = 1  # dimension of data and of the result
    # filters, depth: dimensions of the weights along output channels and along input channels; a transposed
    # convolution's weights have all input channels in `depth` and one group's output channels in `filters`, a plain
    # one's the reverse. The two are one dimension where a depthwise format has no other.
    filters: int = 0
    depth: int = 1
    groups: int = 1  # 1: plain; as many as input channels: depthwise
    # data, weights: positions of the operands.
    data: int = 0
    weights: int = 1
    bias: int | None = 2  # operand that is added, of one dimension; given to one part of the input channels only
    vectors: tuple[int, ...] = ()  # further operands of one number for each output channel: scales, zero points
    added: int | None = None  # operand of the result's shape that is added
    literal: tuple[int, ...] = ()
    transposed: bool = False  # whether rows of data are spread over the result
    # exact, merged: as in `Access`.
    exact: Alone = "kernel"
    merged: Literal["sum", "never"] = "sum"


@dataclass(frozen=True, slots=True)
class Pool:
    """A window over some dimensions, every other dimension by itself: pools, response normalisation."""

    windows: tuple[tuple[int, Window], ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """Dimensions of operand 0 are reduced away, or to size 1."""

    dims: Dims
    keep: bool
    # How results of parts of a reduced dimension become one; None: they cannot.
    merge: Literal["sum", "max", "min"] | None
    merged: Literal["bits", "sum", "never"] = "sum"
    literal: tuple[int, ...] = ()  # operands that hold axes
    exact: Alone = "bits"


@dataclass(frozen=True, slots=True)
class Contraction:
    """Sums of products, dimensions labelled as in einsum: matrix products of every rank."""

    # reads, writes: label of each dimension of each operand and result; None: untiled; None for an operand: left out.
    reads: tuple[Labels | None, ...]
    writes: tuple[Labels, ...]
    once: tuple[int, ...] = ()  # operands that are added and not multiplied: a bias
    literal: tuple[int, ...] = ()
    exact: Alone = "kernel"
    merged: Literal["bits", "sum", "never"] = "sum"


@dataclass(frozen=True, slots=True)
class Labelled:
    """Dimensions labelled as in einsum, nothing summed: gathers, samplers, recurrent layers cut along the batch."""

    # What to call it.
    family: Literal["gather", "along", "recurrent", "resample", "pointwise", "contraction", "channelwise"]
    reads: tuple[Labels | None, ...]
    writes: tuple[Labels, ...]
    literal: tuple[int, ...] = ()
    # (operand, values below): what index operands may hold, for tests that draw some.
    limits: tuple[tuple[int, int], ...] = ()
    exact: Alone = "bits"
    broadcast: bool = False  # whether an operand's dimension of size 1 under a longer label is read in full
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
    """Depth to space (`spread`) or space to depth, `factor` rows to one along each dimension of `dims`."""

    dims: Dims
    channel: int  # dimension that gives or takes ``factor ** len(dims)`` channels
    factor: int
    spread: bool
    # Whether the channels of one block lie next to each other (ONNX's CRD): only then can channels be cut.
    channel_first: bool = False


@dataclass(frozen=True, slots=True)
class Concat:
    """Operands concatenated along a dimension, in order of their positions; `literal` ones are not concatenated."""

    dim: int
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Indexed:
    """Result 0 is what indices pick of operand 0: slice, pad, resize, rolled windows."""

    family: Literal["piece", "resample", "gather"]  # what to call it
    # For each dimension of operand 0 its index, whose axis is a dimension of the result (or fixed); None: untiled.
    indices: tuple[Index | None, ...]
    literal: tuple[int, ...] = ()  # operands that hold starts, pads, scales
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
    """Result 0 comes from shapes, literals and random numbers; no operand's elements are read."""

    free: bool  # whether every dimension of the result can be cut: a fill, and no shape of something else
    literal: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Custom:
    """An op whose access an operator table gives: backward ops of several results, each with axes of its own."""

    family: str
    access: Access
    flops: int = 0
    limits: tuple[tuple[int, int], ...] = ()  # as in `Labelled`


@dataclass(frozen=True, slots=True)
class Opaque:
    """Nothing is known: everything needs everything, and every cut ends here."""

    reason: str  # why, for people


Form = (
    Pointwise | Along | Channelwise | Convolution | Pool | Reduction | Contraction | Labelled | Reshape | Transpose
    | Blocks | Concat | Indexed | Split | Repeat | Generate | Custom | Opaque
)  # fmt: skip
