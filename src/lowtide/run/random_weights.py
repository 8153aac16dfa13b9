"""Random weights for a model that comes without its own, so that it can be run and measured all the same."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from lowtide.errors import InputError
from lowtide.files import open_regular

_PERIOD = 65521
_EXTERNAL = 1
_WITH_BIAS = frozenset(
    {"Conv", "ConvTranspose", "Gemm", "BatchNormalization", "InstanceNormalization", "LayerNormalization"}
)
"""Ops whose third input is a bias (and the fourth, if any, a mean)."""
_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_MOST_BYTES = 2**31 - 2**20
"""An ONNX file, a protobuf, cannot be larger."""
_PAGE = 4096
"""Weights outside begin at multiples of this, so that a runtime can map them."""


def missing_weights(model: Path) -> list[str]:
    """Files of external data that a model's initializers name and that are not there, each once."""
    places = {
        entry.value: None
        for tensor in _load(model).graph.initializer
        if tensor.data_location == _EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [name for name in places if not (model.parent / name).is_file()]


def check_weights(model: Path) -> None:
    """Raise `InputError` if a model's weights are not in its folder."""
    missing = missing_weights(model)
    if missing:
        raise InputError(
            f"its weights are in {missing[0]!r}, which does not exist; put it into the model's folder, or use random "
            "weights (--random-weights)",
            str(model),
        )


def weighted(model: Path, out: Path) -> Path:
    """The model, or `out`: a copy with random numbers where its weights are missing."""
    if not model.is_file() or not missing_weights(model):
        return model
    with_random_weights(model, out)
    return out


def with_random_weights(model: Path, out: Path) -> None:
    """Write a model whose missing weights are random; the same name and shape give the same values.

    Activations stay finite: matrices and filters are scaled by their fan-in, biases and means lie about 0, other
    vectors (scales, variances) about 1; integers are 0. Weights that are there stay as they are. With `fillers`,
    ConstantOfShape nodes of a known shape, with which the models of the onnx package stand for weights, are weights
    too. A missing bias of a convolution becomes the vector that it has to be: torch 2.13 exports three-dimensional
    convolutions without bias with one of shape (filters, 2), which onnxruntime refuses whatever is in it. Weights that
    an ONNX file cannot hold (2 GiB) are written to ``OUT.data`` next to it. Raises `InputError`: the model cannot be
    read.
    """
    proto = _load(model)
    absent = set(missing_weights(model))
    period = np.random.default_rng(0).standard_normal(_PERIOD).astype(np.float32)
    near_zero = {name for node in proto.graph.node for name in node.input[2:4] if node.op_type in _WITH_BIAS}
    biases = {name for node in proto.graph.node for name in node.input[2:3] if node.op_type in _CONVOLUTIONS}
    outside = [t for t in proto.graph.initializer if t.data_location == _EXTERNAL]
    missing = [t for t in outside if _location(t) in absent]
    if absent:
        _take_in([t for t in outside if _location(t) not in absent], model.parent)
    for tensor in missing:
        if tensor.name in biases and len(tensor.dims) > 1:
            del tensor.dims[1:]
            for value in [v for v in proto.graph.value_info if v.name == tensor.name]:
                proto.graph.value_info.remove(value)
    if sum(map(_bytes, missing)) > _MOST_BYTES:
        with open(out.with_name(f"{out.name}.data"), "wb") as file:
            for tensor in missing:
                _fill(tensor, period, near_zero)
                _move_out(tensor, file)
    else:
        for tensor in missing:
            _fill(tensor, period, near_zero)
    out.write_bytes(proto.SerializeToString())


def _location(tensor: Any) -> str:
    return next((e.value for e in tensor.external_data if e.key == "location"), "")


def _bytes(tensor: Any) -> int:
    from onnx import helper

    return int(np.prod(tensor.dims, dtype=np.int64)) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _take_in(tensors: Iterable[Any], folder: Path) -> None:
    from onnx.external_data_helper import load_external_data_for_tensor

    for tensor in tensors:
        load_external_data_for_tensor(tensor, str(folder))
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")


def _move_out(tensor: Any, file: BinaryIO) -> None:
    """Write a tensor's bytes to the end of a file, and leave the tensor their place there."""
    file.write(bytes(-file.tell() % _PAGE))
    begin = file.tell()
    file.write(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = _EXTERNAL
    place = {"location": Path(file.name).name, "offset": begin, "length": file.tell() - begin}
    for key, value in place.items():
        tensor.external_data.add(key=key, value=str(value))


def _fill(tensor: Any, period: np.ndarray, near_zero: Collection[str]) -> None:
    """Put values into a tensor of external data."""
    from onnx import helper, numpy_helper

    shape, dtype = tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.kind == "f":
        values = np.resize(np.roll(period, zlib.crc32(tensor.name.encode()) % _PERIOD), shape)
        if len(shape) > 1:
            values = values * np.float32(1.2 / np.sqrt(max(1, np.prod(shape[1:]))))
        else:
            values = np.float32(tensor.name not in near_zero) + np.float32(0.1) * values.clip(-3, 3)
    else:
        values = np.zeros(shape)
    tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))


def _load(model: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        with open_regular(model) as (file, _):
            return onnx.load(file, load_external_data=False)
    except DecodeError:
        raise InputError("not an ONNX model, or cut short; export it again", str(model)) from None
