"""The table of op kinds: which op types are views, which are elementwise, and what their kernels may overwrite.

It knows an op by its type alone, in all formats; an operator table (`lowtide.ops.meaning`) reads all of the op, in one
dialect. Names are ONNX's (default domain), TFLite's builtin codes and ATen's (without the overload). A type that is not
in the table is neither a view nor elementwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class OpKind:
    """One row of the table."""

    family: str  # the row's name
    view: bool  # the output is the first input's bytes under another shape
    elementwise: bool  # each output element depends on the elements at the same place (after broadcasting) alone
    overwrites: str  # which inputs an elementwise kernel may write over: every data input, or only the first
    types: tuple[str, ...]  # the op types of the row


TABLE: tuple[OpKind, ...] = (
    OpKind("reshape", True, False, "none",
        ("Reshape", "Flatten", "Squeeze", "Unsqueeze",
         "RESHAPE", "SQUEEZE", "EXPAND_DIMS",
         "aten.view", "aten._unsafe_view", "aten.reshape", "aten.flatten", "aten.squeeze", "aten.unsqueeze")),
    OpKind("identity", True, False, "none", ("Identity", "Dropout", "aten.alias", "aten.detach")),
    OpKind("unary", False, True, "first",
        ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Cos", "Cosh", "Erf", "Exp",
         "Floor", "IsInf", "IsNaN", "Log", "Neg", "Not", "Reciprocal", "Round", "Sign", "Sin", "Sinh", "Sqrt", "Tan",
         "ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "LOGICAL_NOT", "NEG", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT",
         "SQUARE",
         "aten.abs", "aten.ceil", "aten.cos", "aten.erf", "aten.exp", "aten.floor", "aten.log", "aten.neg",
         "aten.reciprocal", "aten.round", "aten.rsqrt", "aten.sign", "aten.sin", "aten.sqrt", "aten.isnan")),
    OpKind("activation", False, True, "first",
        ("Celu", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Selu", "Shrink", "Sigmoid",
         "Softplus", "Softsign", "Swish", "Tanh", "ThresholdedRelu",
         "ELU", "GELU", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "RELU", "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "TANH",
         "aten.elu", "aten.gelu", "aten.hardsigmoid", "aten.hardswish", "aten.hardtanh", "aten.leaky_relu", "aten.relu",
         "aten.sigmoid", "aten.silu", "aten.softplus", "aten.tanh")),
    OpKind("clip", False, True, "first", ("Clip", "aten.clamp", "aten.clamp_min", "aten.clamp_max")),
    OpKind("cast", False, True, "first", ("Cast", "CastLike", "CAST", "aten._to_copy")),
    OpKind("binary", False, True, "any",
        ("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
         "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Mul", "Or", "Pow", "PRelu", "Sub", "Xor",
         "ADD", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL",
         "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL", "NOT_EQUAL", "POW", "PRELU", "SQUARED_DIFFERENCE",
         "SUB",
         "aten.add", "aten.div", "aten.eq", "aten.ge", "aten.gt", "aten.le", "aten.lt", "aten.maximum", "aten.minimum",
         "aten.mul", "aten.ne", "aten.pow", "aten.sub")),
    OpKind(
        "variadic", False, True, "any",
        ("Max", "Mean", "Min", "Sum", "Where", "ADD_N", "SELECT", "SELECT_V2", "aten.where"),
    ),
    OpKind("batch_normalisation", False, False, "first", ("BatchNormalization",)),
)  # fmt: skip
"""`batch_normalisation` is not elementwise in HMCOS's list, but at inference a kernel may run it in place."""

NORMALISATIONS = frozenset(
    ("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "LpNormalization",
     "RMSNormalization", "SimplifiedLayerNormalization", "Softmax",
     "L2_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX")
)  # fmt: skip
"""Types in no row whose kernels may write over the first input all the same, where a target says so: each reads all
that it takes statistics of before it writes the first of it."""


@cache
def _rows() -> Mapping[str, OpKind]:
    return {name: row for row in TABLE for name in row.types}


def kind_of(op_type: str) -> OpKind | None:
    """Row of an op type, or None if the table does not know it.

    An ATen overload is dropped before the look-up.

    >>> kind_of("aten.add.Tensor").family
    'binary'
    >>> kind_of("com.example::Relu") is None
    True
    """
    row = _rows().get(op_type)
    if row is None and op_type.startswith("aten."):
        row = _rows().get(".".join(op_type.split(".")[:2]))
    return row


def names_only(op_type: str) -> bool:
    """Whether an op of this type, where it makes a tensor inside the memory of what it reads, writes nothing there.

    So do views, and of ATen's ops those whose name does not end with an underscore.

    >>> names_only("Reshape"), names_only("aten.t"), names_only("aten.relu_"), names_only("Add")
    (True, True, False, False)
    """
    row = kind_of(op_type)
    if row is not None and row.view:
        return True
    name = op_type.removeprefix("aten.")
    return name != op_type and not name.partition(".")[0].endswith("_")
