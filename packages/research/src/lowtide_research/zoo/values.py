"""What a `Net` is made of: values with an estimate of what they hold, weights, nodes."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lowtide.errors import InputError

if TYPE_CHECKING:
    import numpy as np

_ITEM_BYTES = {"float32": 4, "bfloat16": 2, "int64": 8, "uint8": 1}
_LITTLE_ENDIAN = {"float32": "<f4", "int64": "<i8"}

TINY = 1e-12  # least variance that an estimate is taken for

Ints = tuple[int, ...]


class Signal(NamedTuple):
    """Estimate of what a tensor holds, over all its elements."""

    mean: float
    variance: float

    @property
    def square(self) -> float:
        """Mean square."""
        return self.mean**2 + self.variance

    def rectified(self) -> Signal:
        """Signal after ReLU, if it is normal before."""
        mean, deviation = self.mean, math.sqrt(max(self.variance, TINY))
        above = 0.5 * (1 + math.erf(mean / deviation / math.sqrt(2)))
        density = math.exp(-0.5 * (mean / deviation) ** 2) / math.sqrt(2 * math.pi)
        after = mean * above + deviation * density
        return Signal(after, max(self.square * above + mean * deviation * density - after**2, TINY))


UNIT = Signal(0.0, 1.0)


class Value(NamedTuple):
    """A tensor of a `Net`: handle `key` within the net, shape, dtype, estimated signal."""

    key: int
    name: str
    shape: Ints
    dtype: str = "float32"
    signal: Signal = UNIT

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * _ITEM_BYTES[self.dtype]


class Weight(NamedTuple):
    """An initializer: normal with `mean` and `deviation`, or the given `values`.

    `centred`: along which axes it adds up to zero. `trained`: whether it is a parameter of the network, and no
    fixed number or running statistic.
    """

    value: Value
    mean: float = 0.0
    deviation: float = 0.0
    centred: Ints = ()
    values: tuple[float, ...] | None = None
    trained: bool = True

    def draw(self, generator: np.random.Generator) -> np.ndarray:
        """The numbers, little-endian; uses up the same stretch of random numbers on every call."""
        import numpy as np

        if self.values is not None:
            return np.array(self.values, dtype=_LITTLE_ENDIAN[self.value.dtype])
        data = generator.standard_normal(self.value.shape, dtype=np.float32) * np.float32(self.deviation)
        if math.prod(self.value.shape[a] for a in self.centred) > 1:
            data -= data.mean(axis=self.centred, keepdims=True)
        return (data + np.float32(self.mean)).astype("<f4")


class NetOp(NamedTuple):
    """An op with one output."""

    type: str
    name: str
    inputs: tuple[Value, ...]
    output: Value
    attributes: tuple[tuple[str, Any], ...]

    @property
    def macs(self) -> int | None:
        """Multiplications with addition of a convolution or matrix product, bias left out; else None."""
        if self.type not in ("Conv", "ConvTranspose", "MatMul", "Gemm"):
            return None
        x, weight = self.inputs[:2]
        if self.type == "ConvTranspose":
            return math.prod(x.shape) * math.prod(weight.shape[1:])
        each = math.prod(weight.shape[1:]) if self.type == "Conv" else x.shape[-1]
        return math.prod(self.output.shape) * each


@cache
def mean_taps(length: int, kernel: int, stride: int, dilation: int = 1) -> float:
    """Mean number of taps of a kernel that fall inside, over the output positions along one axis."""
    reach = kernel // 2
    taps = [tap * dilation for tap in range(-reach, kernel - reach)]
    positions = range(0, length, stride)
    return sum(0 <= p + tap < length for p in positions for tap in taps) / len(positions)


def check_multiple(name: str, number: int, of: int, what: str, unit: str) -> None:
    """Raise `InputError` unless a size is a multiple of another."""
    if number % of:
        raise InputError(f"{what} {number} is no multiple of {unit} {of}; change one of them", f"zoo:{name}")
