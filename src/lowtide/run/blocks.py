"""How many channels a block has in the layout of onnxruntime's convolutions, NCHWc, on this processor."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from lowtide.run.ort_session import runtime

_CHANNELS, _MOST = 4, 64


@cache
def block_size() -> int:
    """Channels in a block: what onnxruntime's optimiser pads the filters of a small convolution to; 0: no such layout.

    Raises
    ------
    MissingExtraError
        onnxruntime is not installed.
    """
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    ort = runtime()
    shape = [1, _CHANNELS, 1, 1]
    weights = numpy_helper.from_array(np.ones((1, _CHANNELS, 1, 1), np.float32), "w")
    given, made = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in "xy")
    made.type.tensor_type.shape.dim[1].dim_value = 1
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "block", [given], [made], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        file = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(file)
        ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        optimized = onnx.load(str(file))
    if not any(node.domain == "com.microsoft.nchwc" for node in optimized.graph.node):
        return 0
    return int(optimized.graph.initializer[0].dims[0])
