"""A kernel for an op, and what all makers of kernels ask of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowtide.emit.places import Three, View
from lowtide.errors import InputError
from lowtide.graph import Tensor

Find = Callable[[int], View]
"""Where a tensor lies for the op at hand."""


@dataclass(frozen=True)
class Kernel:
    """What runs an op.

    Attributes
    ----------
    name
        Of the kernel: ``conv``; its parameters are of type ``conv_t``.
    text
        The parameters, an initialiser.
    sizes
        Rows, columns and channels of the result.
    macs
        Multiply-accumulates.
    taps
        Of the window, where the kernel lists them.
    pieces
        Tensors that are joined, initialisers.
    sizes_in, whole_pixels
        Of the operand of a convolution: rows, columns and channels, and whether a pixel's channels lie together.
    op
        What runs, for a comment.
    """

    name: str
    text: str
    sizes: Three
    macs: int = 0
    taps: int = 1
    pieces: tuple[str, ...] = ()
    sizes_in: Three = (0, 0, 0)
    whole_pixels: bool = True
    op: str = ""


def fit(fits: bool) -> None:
    """Raise `InputError` unless the shapes of an op fit together, as code counts on."""
    if not fits:
        raise InputError("its shapes do not fit together; convert the model again")


def is_wide(tensor: Tensor) -> bool:
    """Whether elements have 16 bits."""
    return tensor.dtype == "int16"


def scale_of(tensor: Tensor) -> float:
    """Scale of a tensor that has one."""
    assert tensor.quant is not None, tensor
    return tensor.quant.scales[0]


def zero_of(tensor: Tensor) -> int:
    """Zero point of a tensor that has one."""
    assert tensor.quant is not None, tensor
    return tensor.quant.zero_points[0]
