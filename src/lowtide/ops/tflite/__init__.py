"""TFLite operators as forms: one row a kind. Data is in NHWC, options have the schema's names, booleans are 0 or 1.

Quantised kernels give the same bits for a part, since each element is requantised by itself; sums of parts would need
32-bit accumulators, which no tensor holds, so that a reduced axis of theirs is never cut.
"""

from __future__ import annotations

from lowtide.ops.forms import Form, Pointwise, Reshape
from lowtide.ops.kinds import kind_of
from lowtide.ops.node import Node, NoForm, by_type
from lowtide.ops.tflite import movement, products, windows

ROWS = by_type(windows.ROWS, products.ROWS, movement.ROWS)
"""What is not in here is in `POINTWISE`, elementwise or a view in `ops/kinds.py`, or opaque."""

POINTWISE = frozenset(
    {"BITCAST", "BITWISE_XOR", "BROADCAST_ARGS", "DEQUANTIZE", "HARD_SWISH", "QUANTIZE", "RIGHT_SHIFT", "ZEROS_LIKE"}
)
"""Every element from those at the same place; whether a kernel may write over an operand is another matter."""

_RANDOM = frozenset({"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"})


def form(node: Node) -> Form:
    """Canonical parameters of a TFLite operator. Raises `NoForm`: there is no row for its kind, or what the row asks
    for is not known."""
    row = ROWS.get(node.type)
    if row is not None:
        return row(node)
    if node.type in POINTWISE:
        return Pointwise()
    kind = kind_of(node.type)
    if kind is None:
        raise NoForm(f"no row for {node.type}")
    return Reshape(tuple(range(1, len(node.operands)))) if kind.view else Pointwise()


def is_random(node: Node) -> bool:
    """Whether the operator draws random numbers."""
    return node.type in _RANDOM


def mutates(node: Node) -> tuple[int, ...]:
    """Positions of variables: what a state is kept in."""
    return products.STATES.get(node.type, ())
