"""Random weights for a model that comes without its own, so that it can be run and measured all the same."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from lowtide.errors import InputError

_PERIOD = 65521
_EXTERNAL = 1
_MOST_BYTES = 2**31 - 2**20
"""An ONNX file, a protobuf, cannot be larger."""


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
    """Raise `InputError` if a model's weights are not beside it."""
    missing = missing_weights(model)
    if missing:
        raise InputError(
            f"its weights are in {missing[0]!r}, which is not there; put it beside the model, or run it with random "
            "ones (--random-weights)",
            str(model),
        )


def with_random_weights(model: Path, out: Path, seed: int = 0) -> None:
    """Write a model whose missing weights are random; the same name and shape give the same values.

    Activations stay finite: matrices and filters are scaled by their fan-in, vectors (scales, variances, biases) lie
    about 1; integers are 0. Weights that are there stay as they are.

    Raises
    ------
    InputError
        The model cannot be read, or is larger with its weights than an ONNX file can be (2 GiB).
    """
    proto = _load(model)
    absent = set(missing_weights(model))
    period = np.random.default_rng(seed).standard_normal(_PERIOD).astype(np.float32)
    total = 0
    for tensor in proto.graph.initializer:
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        if tensor.data_location == _EXTERNAL and location in absent:
            total += _fill(tensor, period)
            if total > _MOST_BYTES:
                raise InputError("with its weights it is larger than 2 GiB, more than an ONNX file holds", str(model))
    if absent:
        import onnx

        onnx.load_external_data_for_model(proto, str(model.parent))
    out.write_bytes(proto.SerializeToString())


def _fill(tensor: Any, period: np.ndarray) -> int:
    """Put values into a tensor of external data; bytes they take."""
    from onnx import helper, numpy_helper

    shape, dtype = tuple(tensor.dims), helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.kind == "f":
        values = np.resize(np.roll(period, zlib.crc32(tensor.name.encode()) % _PERIOD), shape)
        if len(shape) > 1:
            values = values * np.float32(1.7 / np.sqrt(max(1, np.prod(shape[1:]))))
        else:
            values = np.float32(1) + np.float32(0.1) * values.clip(-3, 3)
    else:
        values = np.zeros(shape)
    tensor.CopyFrom(numpy_helper.from_array(values.astype(dtype), tensor.name))
    return values.astype(dtype).nbytes


def _load(model: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        return onnx.load(str(model), load_external_data=False)
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror}", str(model)) from None
    except DecodeError:
        raise InputError("not an ONNX model, or cut short; export it again", str(model)) from None
