"""Real models to run: the nine `light_*.onnx` of the `onnx` package, with seeded weights for constants."""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import ModelProto, TensorProto

_PERIOD = 65521
_UNITS, _FEWER_UNITS = 4096, 256


def light_paths() -> dict[str, Path]:
    """File of each light model, by name without `light_` and the ending."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem.removeprefix("light_"): path for path in sorted(folder.glob("light_*.onnx"))}


def light_models() -> dict[str, ModelProto]:
    """The nine light models; every ConstantOfShape output is a seeded random initializer.

    As shipped, each output of these models is one constant, so that running them would show nothing. Dense layers of
    4,096 units, the weights of which are most of three models' hundreds of megabytes, have 256.
    """
    return {name: light_model(name) for name in light_paths()}


def light_model(name: str) -> ModelProto:
    """One of `light_models`."""
    model = onnx.load(light_paths()[name])
    graph = model.graph
    values = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    kept, made = [], []
    for node in graph.node:
        if node.op_type == "Constant":
            values[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
        if node.op_type == "ConstantOfShape":
            made.append(random_tensor(node.output[0], _shape(values[node.input[0]])))
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    for tensor in made:
        graph.initializer.append(tensor)
        graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims))
    return model


def _shape(dims: np.ndarray) -> tuple[int, ...]:
    return tuple(_FEWER_UNITS if d == _UNITS else int(d) for d in dims)


def random_tensor(name: str, shape: tuple[int, ...]) -> TensorProto:
    """Weights that keep activations finite: scaled by fan-in; vectors (scales, variances, biases) about 1."""
    block = _block()
    start = zlib.crc32(name.encode()) % _PERIOD
    values = np.resize(np.roll(block, start), shape)
    if len(shape) > 1:
        values *= np.float32(1.7 / np.sqrt(np.prod(shape[1:])))
    else:
        values = np.float32(1) + np.float32(0.1) * values.clip(-3, 3)
    return onnx.numpy_helper.from_array(values.astype(np.float32), name)


@cache
def _block() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(_PERIOD).astype(np.float32)
