"""A traced ATen program: calls of operators in their order. Readers make it of a file, and of a graph in memory.

A value of an argument is plain (numbers, texts, None, tuples of these), or a `Ref` to what a call or an input gave, or
a `Trace`: a body of a higher-order operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor's shape, strides and offset, in elements, its type and the bytes of an element."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str
    width: int
    device: tuple[str, int | None]

    @property
    def extent_bytes(self) -> int:
        """Bytes from its first element to its last."""
        if 0 in self.shape:
            return 0
        return self.width * (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)))

    @property
    def contiguous(self) -> bool:
        """Whether its elements lie in row-major order without gaps."""
        expected = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and s != expected and 0 not in self.shape:
                return False
            expected *= n
        return True

    def viewable_as(self, shape: tuple[int, ...]) -> bool:
        """Whether these elements can be seen under another shape without a copy: runs of evenly spaced dimensions
        must fill runs of new ones."""
        if 0 in self.shape or self.contiguous:
            return True
        runs: list[int] = []
        last: tuple[int, int] | None = None
        for n, s in zip(self.shape, self.strides, strict=True):
            if n == 1:
                continue
            if last is not None and last[1] == n * s:
                runs[-1] *= n
            else:
                runs.append(n)
            last = n, s
        rest = iter(n for n in shape if n != 1)
        for run in runs:
            filled = 1
            while filled < run:
                filled *= next(rest, run + 1)
            if filled != run:
                return False
        return next(rest, None) is None


@dataclass(frozen=True, slots=True)
class Ref:
    """What an input or a call gave, by name: a tensor, an object that is none, or a number."""

    name: str
    kind: Literal["tensor", "object", "number"] = "tensor"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator."""

    target: str  # its name: ``torch.ops.aten.add.Tensor``
    # Name in the operator's schema (empty if it has none) and value of each that is given.
    arguments: tuple[tuple[str, Any], ...]
    outputs: tuple[str, ...] = ()  # names of what it gives, those of lists one after another
    name: str = ""  # of the call; empty if it has none

    def value(self, name: str) -> Any:
        """Value of the argument of that name; None if it is not given."""
        return next((value for key, value in reversed(self.arguments) if key == name), None)


@dataclass(frozen=True, slots=True)
class Trace:
    """A program or a body: names of its inputs and outputs, its calls, and the form of each tensor."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[Call, ...]
    forms: Mapping[str, Form]


def refs_in(value: Any) -> Iterator[Ref]:
    """The references in a value, without those of bodies."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from refs_in(one)


def bodies_in(value: Any) -> Iterator[Trace]:
    """The bodies in a value."""
    if isinstance(value, Trace):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from bodies_in(one)
