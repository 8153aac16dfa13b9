"""Channels in a block of onnxruntime's layout of convolutions, NCHWc: 16 with AVX-512F, 8 with less; it depends on the
processor.

A file that onnxruntime optimised at level "all" has its weights in such blocks. On a processor with another block the
same file opens, and computes wrong numbers without an error. So the file says for which block it was made, and who
opens it asks onnxruntime which block it has here: one node that reorders a tensor of zeros and a single one,

    x[channel, place]: the one is at channel 0, place 1    ->    blocked: [place 0 | channels 0 ... b-1][place 1 | ...

tells it by where the one ends up. No list of processor features is needed, and a processor without the layout has no
such node.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.ops.onnx.blocked import DOMAIN
from lowtide.read.onnx.proto import bodies
from lowtide.read.onnx.wire import read_metadata
from lowtide.run.ort_session import new_session, runtime

KEY = "lowtide.channel_block"
"""Of the metadata of a file that has such nodes."""
PORTABLE = "--for onnxruntime,portable"
"""What has `lowtide plan` write a file without blocks."""


def block_probe() -> bytes:
    """A model without inputs whose one output holds a single one, at the index that is the block."""
    import numpy as np
    import onnx
    from onnx import helper

    x = np.zeros((1, 16, 1, 2), np.float32)
    x[0, 0, 0, 1] = 1
    graph = helper.make_graph(
        [helper.make_node("ReorderInput", ["x"], ["y"], domain=DOMAIN)], "probe", [],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], [onnx.numpy_helper.from_array(x, "x")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString(deterministic=True)


@cache
def block_size() -> int:
    """The block of the onnxruntime that is installed on this processor; 0 if it has no such layout. Raises
    `MissingExtraError`: onnxruntime is not installed."""
    runtime()
    try:
        (blocked,) = new_session(block_probe(), "DISABLE_ALL", enable_cpu_mem_arena=False).run(None, {})
    except Exception:  # onnxruntime's own kinds of error have no common base: there is no such node
        return 0
    return int(blocked.ravel().argmax())


def has_blocks(graph: Any) -> bool:
    """Whether nodes of a GraphProto, or of its bodies, read or write blocks."""
    return any(node.domain == DOMAIN or any(map(has_blocks, bodies(node))) for node in graph.node)


def declared_block(model: Path) -> int:
    """The block for which a file says that it was made; 0 if it says none."""
    said = read_metadata(model).get(KEY, "")
    return int(said) if said.isdecimal() else 0


def check_block(block: int, place: str) -> None:
    """Raise `InputError` if a file or a plan is for processors with another block than this one's; 0 suits all."""
    here = block_size() if block else 0
    if block != here:
        has = f"blocks of {here}" if here else "no such layout"
        raise InputError(
            f"it is for processors whose convolutions have blocks of {block} channels, and this one has {has}: "
            f"plan the model anew here, or for any processor with lowtide plan MODEL {PORTABLE} -o OUT",
            place,
        )
