"""Types of numbers that operators have code for, other than 8 bits to 8 bits."""

from __future__ import annotations

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
