"""ATen ops as forms: one row a name, overloads apart only where they differ. Backward ops included.

Operands are the tensors among an op's arguments in the order of its schema, None for an optional one left out, a list
of tensors one by one; everything else is an attribute under the schema's name, absent where the default holds.
"""

from __future__ import annotations

from lowtide.ops.aten import attention, backward, movement, norms, products, windows
from lowtide.ops.forms import Form, Pointwise, Reshape
from lowtide.ops.kinds import kind_of
from lowtide.ops.node import Node, NoForm, by_type

ROWS = by_type(windows.ROWS, products.ROWS, norms.ROWS, movement.ROWS, attention.ROWS, backward.ROWS)
"""By name without overload. What is not here is in `POINTWISE`, elementwise or a view in `ops/kinds.py`, or opaque."""

POINTWISE = frozenset(
    """
    _prelu_kernel addcdiv addcmul bitwise_and bitwise_not bitwise_or bitwise_xor clone contiguous copy cosh acos asin
    atan atan2 elu_backward erfc exp2 expm1 fill floor_divide fmod gelu_backward hardsigmoid_backward hardswish_backward
    hardtanh_backward isinf leaky_relu_backward lerp lift_fresh_copy log10 log1p log2 logical_and logical_not logical_or
    logical_xor log_sigmoid_forward masked_fill mish native_dropout native_dropout_backward ones_like remainder rsub
    sgn sigmoid_backward silu_backward sinh softplus_backward square tan tanh_backward threshold threshold_backward
    trunc xlogy zeros_like bernoulli rand_like randn_like expand expand_copy broadcast_to
    """.split()  # noqa: SIM905
)
"""Every result row from the operands' rows at the same place; whether a kernel may write over one is another matter."""

_FREE = frozenset({"clone", "contiguous", "copy", "expand", "expand_copy", "broadcast_to", "fill", "lift_fresh_copy"})
_RANDOM = frozenset(
    "native_dropout dropout bernoulli rand randn rand_like randn_like randint randperm normal multinomial rrelu".split()  # noqa: SIM905
)
_SHAPES = frozenset({"alias", "detach", "dropout"})
"""Views in the table that are pointwise here: any dimension of theirs can be cut."""


def name_of(op_type: str) -> str:
    """Name without namespace and overload.

    >>> name_of("aten.add.Tensor")
    'add'
    """
    return op_type.split(".")[1] if op_type.startswith("aten.") else ""


def form(node: Node) -> Form:
    """Canonical parameters of an ATen op. Raises `NoForm`: there is no row for its name, or what the row asks for is
    not known."""
    name = name_of(node.type)
    row = ROWS.get(name)
    if row is not None:
        return row(node)
    if name.endswith("_") and not name.startswith("_") and name[:-1] in POINTWISE:
        name = name[:-1]
    if name in POINTWISE:
        return Pointwise(cost=int(name not in _FREE))
    kind = kind_of(node.type)
    if kind is None:
        raise NoForm(f"no row for {node.type}")
    return Reshape() if kind.view and name not in _SHAPES else Pointwise(cost=int(kind.elementwise))


def is_random(node: Node) -> bool:
    """Whether the op draws random numbers."""
    name = name_of(node.type)
    if name in ("native_dropout", "dropout"):
        return node.attribute("train", True) is not False and node.attribute("p", 0.5) != 0
    return name in _RANDOM or bool(node.attribute("random")) or bool(node.attribute("dropout_p", 0.0))


def mutates(node: Node) -> tuple[int, ...]:
    """The first operand of an op whose name ends in an underscore."""
    name = name_of(node.type)
    return (0,) if name.endswith("_") and not name.endswith("__") else ()
