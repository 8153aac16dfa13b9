"""A kernel for an op, and what all makers of kernels ask of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lowtide.emit.places import Three, View
from lowtide.emit.templates import Part
from lowtide.emit.weights import Weights
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Op, Tensor

Find = Callable[[int], View]
"""Where a tensor lies for the op at hand."""


@dataclass(frozen=True)
class Kernel:
    """What runs an op."""

    name: str  # of the kernel: ``conv``; its parameters are of type ``conv_t``
    text: str  # the parameters, an initialiser
    sizes: Three  # rows, columns and channels of the result
    macs: int = 0  # multiply-accumulates
    taps: int = 1  # of the window, or the elements that it reads, where the kernel lists them
    operands: tuple[str, ...] = ()  # tensors that are concatenated, as initialisers
    # sizes_in, full_pixels: of the operand of a convolution: rows, columns and channels, and whether a pixel's channels
    # lie together
    sizes_in: Three = (0, 0, 0)
    full_pixels: bool = True
    op: str = ""  # what runs, for a comment
    # C templates that the kernel needs, in their order; without any, those of its name in `PARTS`
    parts: tuple[Part, ...] = ()
    operand_type: str = ""  # in C, of the operands
    reduces: tuple[int, ...] = ()  # of a reduction: which of rows, columns and channels


@dataclass
class Material:
    """What kernels are made of."""

    graph: Graph  # of a .tflite file
    weights: Weights  # where constants go
    # states, state_bytes: where what an op keeps from one run to the next begins, and bytes of all of that
    states: dict[int | str, int] = field(default_factory=dict)
    state_bytes: int = 0

    def given(self, op: Op, which: int) -> Tensor:
        """An operand by its place. Raises `InputError` if it is not there."""
        given = op.operands or op.inputs
        tensor = given[which] if which < len(given) else None
        if tensor is None:
            raise InputError(f"{op.label} lacks its input {which}", self.graph.source)
        return self.graph.tensor_by_id[tensor]

    def data(self, op: Op, which: int = 0) -> Tensor:
        """An operand that is no constant. Raises `InputError` if it is one, or not there."""
        t = self.given(op, which)
        if t.kind is Kind.CONSTANT:
            raise InputError(f"its input {which} is a constant; C is written for operands that are computed")
        return t

    def result(self, op: Op) -> Tensor:
        """What an op makes first."""
        return self.graph.tensor_by_id[op.outputs[0]]

    def keep(self, owner: Op | str, size: int) -> int:
        """Where the bytes that an op or a variable keeps from one run to the next begin."""
        begin = self.states.setdefault(owner if isinstance(owner, str) else owner.id, self.state_bytes)
        self.state_bytes = max(self.state_bytes, begin + size)
        return begin


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
