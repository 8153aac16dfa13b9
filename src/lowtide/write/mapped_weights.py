"""Weights of an ONNX file in a file of their own, which onnxruntime maps instead of copying it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

LEAST_BYTES = 1024
"""Smaller tensors stay in the model's file."""
_PAGE = 4096
"""Where a tensor's bytes begin: at a multiple of this."""


def move_weights(model: Path, data: BinaryIO, name: str) -> None:
    """Move the weights of the main graph out of a model's file.

    Parameters
    ----------
    model
        The file, which is written anew.
    data
        Where their bytes go.
    name
        The name that this file will have, in the model's folder.
    """
    import onnx

    proto = onnx.load(str(model), load_external_data=False)
    end = 0
    for tensor in proto.graph.initializer:
        if tensor.data_location == tensor.EXTERNAL or tensor.data_type == tensor.STRING:
            continue
        if not tensor.HasField("raw_data"):
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        content = tensor.raw_data
        if len(content) < LEAST_BYTES:
            continue
        data.write(bytes(-end % _PAGE))
        end += -end % _PAGE
        data.write(content)
        entries = {"location": name, "offset": str(end), "length": str(len(content))}
        end += len(content)
        tensor.ClearField("raw_data")
        tensor.data_location = tensor.EXTERNAL
        del tensor.external_data[:]
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)
    model.write_bytes(proto.SerializeToString(deterministic=True))
