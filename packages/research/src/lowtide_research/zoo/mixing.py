"""Operators for graphs that have only sizes: bytes in, bytes out, of whatever lengths.

No ONNX operator takes any number of tensors of unrelated sizes and makes one of any other, so a synthetic op is a
function of the model's own, ``lowtide::MixK`` for K inputs. Byte i of its output is a weighted sum, modulo 256, of
some bytes of the inputs laid end to end: `taps` says of which, `weights` by what; both are attributes of the node,
drawn from the seed, so that no constant is added to the graph. Every byte that is read has an influence, all weights
are odd, and the arithmetic is exact: where two runs differ in a byte, something was overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx

DOMAIN = "lowtide"
VERSION = 1


def mix_type(reads: int) -> str:
    """Type of an op that mixes so many tensors, with its domain."""
    return f"{DOMAIN}::Mix{reads}"


def mix_attributes(total: int, size: int, generator: np.random.Generator) -> dict[str, Any]:
    """Taps and weights of an op that reads `total` bytes and makes `size`: two tensors of shape (size, each)."""
    import numpy as np
    from onnx import numpy_helper

    each = max(-(-total // size), min(total, 2))
    more = generator.integers(0, total, size * each - total)
    taps = generator.permutation(np.concatenate([np.arange(total), more])).astype("<i4").reshape(size, each)
    weights = (2 * generator.integers(0, 128, (size, each)) + 1).astype("<i4")
    return {name: numpy_helper.from_array(array) for name, array in (("taps", taps), ("weights", weights))}


def mix_function(reads: int, opset: int) -> onnx.FunctionProto:
    """The function that `mix_type` names."""
    from onnx import AttributeProto, TensorProto, helper

    def attribute(name: str) -> onnx.NodeProto:
        node = helper.make_node("Constant", [], [name])
        node.attribute.append(AttributeProto(name="value", ref_attr_name=name, type=AttributeProto.TENSOR))
        return node

    inputs = [f"x{i}" for i in range(reads)]
    modulus = helper.make_tensor("", TensorProto.INT32, (), [256])
    last = helper.make_tensor("", TensorProto.INT64, (1,), [1])
    nodes = [
        helper.make_node("Concat", inputs, ["bytes"], axis=0),
        helper.make_node("Cast", ["bytes"], ["numbers"], to=TensorProto.INT32),
        attribute("taps"),
        attribute("weights"),
        helper.make_node("Gather", ["numbers", "taps"], ["chosen"]),
        helper.make_node("Mul", ["chosen", "weights"], ["weighted"]),
        helper.make_node("Constant", [], ["last"], value=last),
        helper.make_node("ReduceSum", ["weighted", "last"], ["sums"], keepdims=0),
        helper.make_node("Constant", [], ["modulus"], value=modulus),
        helper.make_node("Mod", ["sums", "modulus"], ["mixed"]),
        helper.make_node("Cast", ["mixed"], ["y"], to=TensorProto.UINT8),
    ]
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_function(DOMAIN, f"Mix{reads}", inputs, ["y"], nodes, opsets, ["taps", "weights"])
