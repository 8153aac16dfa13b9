"""Types of numbers in C: how code reads and writes one, and how a number is written."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowtide.errors import InputError


@dataclass(frozen=True)
class Format:
    """A type of elements."""

    c_type: str  # what one is read into
    # load, store, cast: what reads it from bytes and writes it there, and what is written is cast to
    load: str
    store: str
    # least, most: of all numbers of the type, as C
    least: str = ""
    most: str = ""
    cast: str = "int32_t"


FORMATS = {
    "bool": Format("int32_t", "byte_at", "set_byte"),
    "int8": Format("int32_t", "byte_at", "set_byte", "INT8_MIN", "INT8_MAX"),
    "int16": Format("int32_t", "half_at", "set_half", "INT16_MIN", "INT16_MAX"),
    "int32": Format("int32_t", "(int32_t)word_at", "set_word", "INT32_MIN", "INT32_MAX", cast="uint32_t"),
    "uint32": Format("uint32_t", "word_at", "set_word", cast="uint32_t"),
    "float32": Format("float", "real_at", "set_real", "-FLT_MAX", "FLT_MAX", cast="float"),
}
"""By the name that a tensor's type has."""


_BOTH = (("int16", "int16"),)
_SIXTEEN = (
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "MEAN",
    "RELU", "RELU6",
    "TRANSPOSE_CONV",
)  # fmt: skip
_QUANTIZED = (
    ("int8", "int16"), ("int16", "int8"), ("int16", "int32"), ("int8", "int32"), ("int32", "int8"), ("int32", "int16"),
    ("int8", "uint8"), ("uint8", "int8"),
)  # fmt: skip
WIDE_TYPES = {
    **dict.fromkeys(_SIXTEEN, _BOTH),
    "QUANTIZE": (*_BOTH, *_QUANTIZED),
    "SOFTMAX": (*_BOTH, ("int8", "int16")),
}
"""Types of operands and result that an operator may have beside int8."""
NEAR = 1e-4
"""Part by which the scale of a softmax of 16 bits may be off 1/65536, or 1/32768."""


def real(value: float) -> str:
    """A number of 32 bits with a point, as C, without loss. Raises `InputError`: it is infinite, or no number.

    >>> real(0.1), real(-2.0)
    ('0x1.99999a0000000p-4f', '-0x1.0000000000000p+1f')
    """
    rounded = float(np.float32(value))
    if not math.isfinite(rounded):
        raise InputError(f"it holds {value}, and C is written for finite weights")
    return f"{rounded.hex()}f"


def real_bounds(kind: int) -> tuple[str, str]:
    """Least and most that a fused activation lets through, as C. Raises `InputError`: it is none of the ReLUs."""
    table = {0: ("-FLT_MAX", "FLT_MAX"), 1: ("0.0f", "FLT_MAX"), 2: ("-1.0f", "1.0f"), 3: ("0.0f", "6.0f")}
    if kind not in table:
        raise InputError(f"it has activation {kind}; C is written for none and for ReLUs")
    return table[kind]
