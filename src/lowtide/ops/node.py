"""One op as an operator table sees it: operands by position, shapes, attributes, values of small constants."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lowtide.graph import Graph, Op, Tensor
from lowtide.ops.access import Shape, Shapes
from lowtide.ops.forms import Form

_CODES = {
    "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
    "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip


class NoForm(Exception):
    """An op has no canonical parameters; the message says why, for people."""


@dataclass
class Node:
    """An op with what an operator table asks of it."""

    graph: Graph
    op: Op
    # Positions of the operands whose values were requested: they are in the form, and a part is given its own.
    literal: dict[int, None] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """The op type, under the dialect's name."""
        return self.op.type

    @cached_property
    def operands(self) -> tuple[Tensor | None, ...]:
        """Operands at the positions that the format numbers; None: left out."""
        tensors = self.graph.tensor_by_id
        given = self.op.operands or self.op.inputs
        return tuple(None if t is None else tensors[t] for t in given)

    @cached_property
    def results(self) -> tuple[Tensor, ...]:
        """What the op makes."""
        return tuple(self.graph.tensor_by_id[t] for t in self.op.outputs)

    @cached_property
    def reads(self) -> Shapes:
        """Shapes of the operands; None: left out."""
        return tuple(None if t is None else _shape(t) for t in self.operands)

    @cached_property
    def writes(self) -> Shapes:
        """Shapes of the results."""
        return tuple(_shape(t) for t in self.results)

    def given(self, position: int) -> bool:
        """Whether there is an operand at a position."""
        return position < len(self.operands) and self.operands[position] is not None

    def shape(self, position: int = 0) -> Shape:
        """Shape of an operand. Raises `NoForm`: it is left out."""
        if not self.given(position):
            raise NoForm(f"operand {position} is left out")
        return self.reads[position] or ()

    def result(self, position: int = 0) -> Shape:
        """Shape of a result."""
        return self.writes[position] or ()

    def rank(self, position: int = 0) -> int:
        """Dimensions of an operand."""
        return len(self.shape(position))

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute as the reader kept it."""
        return self.op.attributes.get(name, default)

    def ints(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """An attribute that is a list of integers; a single one counts as a list."""
        value = self.attribute(name)
        if value is None:
            return default
        return tuple(int(v) for v in value) if isinstance(value, tuple | list) else (int(value),)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a string."""
        value = self.attribute(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def values(self, position: int) -> tuple[Any, ...]:
        """Values of a constant operand, row by row; it counts as literal from now on. Raises `NoForm`: it is left out,
        no constant, or too large for its value to be at hand."""
        values = self.peek(position)
        if values is None:
            raise NoForm(f"operand {position} is no constant whose value is known")
        self.literal[position] = None
        return values

    def peek(self, position: int) -> tuple[Any, ...] | None:
        """Values of an operand if they are at hand, without making it a literal. Raises `NoForm`: it is left out."""
        tensor = self.operands[position] if position < len(self.operands) else None
        if tensor is None:
            raise NoForm(f"operand {position} is left out")
        code = _CODES.get(tensor.dtype or "")
        if tensor.value is None or code is None:
            return None
        return struct.unpack(f"<{len(tensor.value) // struct.calcsize(code)}{code}", tensor.value)

    def literals(self) -> tuple[int, ...]:
        """Positions of the operands whose values are in the form, ascending."""
        return tuple(sorted(self.literal))

    def dim(self, value: int, rank: int) -> int:
        """A dimension counted from the front. Raises `NoForm`: there is no such dimension."""
        if not -rank <= value < max(1, rank):
            raise NoForm(f"dimension {value} of {rank}")
        return value % rank if rank else 0


def _shape(tensor: Tensor) -> Shape:
    if tensor.shape is None:
        raise NoForm(f"the shape of {tensor.label} is not known")
    return tensor.shape


Row = Callable[[Node], Form]  # canonical parameters of an op of some type


def by_type(*tables: Mapping[str, Row]) -> dict[str, Row]:
    """The row of each op type. A key of a table names the types of its row, separated by spaces."""
    return {name: row for table in tables for names, row in table.items() for name in names.split()}
