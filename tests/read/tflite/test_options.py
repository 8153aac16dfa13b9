"""What a TFLite operator says of itself: options, operand positions, small values, quantisation."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import flatbuffers
import numpy as np
import pytest

from lowtide.graph import MAX_VALUE_BYTES, Array, Graph, Quant
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.options import OPTIONS, OPTIONS_2, options_of
from lowtide.read.tflite.reader import graph_of
from lowtide.read.tflite.wire import Flatbuffer
from support.tflite_builder import Net, s

_UNIONS = {"BuiltinOptions": OPTIONS, "BuiltinOptions2": OPTIONS_2}
_KINDS = [
    (union, name, number)
    for union in _UNIONS
    for name, number in inspect.getmembers(getattr(s, union), lambda value: isinstance(value, int))
    if name != "NONE"
]


def _graph(net: Net) -> Graph:
    return graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")


def _packed(operator: Any) -> dict[str, Any]:
    builder = flatbuffers.Builder(0)
    builder.Finish(operator.Pack(builder))
    return options_of(Flatbuffer(bytes(builder.Output())).root())


def _operator(union: str, number: int, options: Any) -> Any:
    operator = s.OperatorT()
    setattr(operator, union[0].lower() + union[1:] + "Type", number)
    setattr(operator, union[0].lower() + union[1:], options)
    return operator


def _spelt(values: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "").lower(): value for name, value in values.items()}


@pytest.mark.parametrize(("union", "name", "number"), _KINDS)
def test_every_field_of_every_kind_is_read(union: str, name: str, number: int) -> None:
    """Defaults, and other values, as the schema's own classes write them."""
    options = getattr(s, f"{name}T")()
    defaults = {k: v.encode() if isinstance(v, str) else v for k, v in vars(options).items()}
    assert number in _UNIONS[union] or not defaults
    got = _spelt(_packed(_operator(union, number, options)))
    assert got == _spelt({k: _absent(name, k) if v is None else v for k, v in defaults.items()})
    for field, value in defaults.items():
        setattr(options, field, _other(name, field, value))
    got = _spelt(_packed(_operator(union, number, options)))
    assert got == _spelt({k: _read(v) for k, v in vars(options).items()})


_TEXTS = {"VarHandleOptions", "StablehloCustomCallOptions", "StableHLOCompositeOptions"}
_BYTES = {"quantSpec", "customAttributes", "compositeAttributes", "windowReversal"}


def _text(kind: str, field: str) -> bool:
    return kind in _TEXTS and field in ("container", "sharedName", "callTargetName", "backendConfig", "name")


def _absent(kind: str, field: str) -> Any:
    """What a vector or a text is that the file does not hold."""
    return "" if _text(kind, field) else ()


def _other(kind: str, field: str, value: Any) -> Any:
    if value is None:
        return "ab" if _text(kind, field) else [1, 0] if field in _BYTES else [2, 1]
    return not value if isinstance(value, bool) else value + 1


def _read(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return bytes(value) if value == [1, 0] else tuple(value)


def test_an_operator_without_options_has_none_and_a_custom_one_its_bytes() -> None:
    """Long ones stay in the file."""
    assert _packed(s.OperatorT()) == {}
    custom = s.OperatorT()
    custom.customOptions = [1, 2, 255]
    assert _packed(custom) == {"custom_options": b"\x01\x02\xff"}
    custom.customOptions = [0] * (MAX_VALUE_BYTES + 1)
    assert _packed(custom) == {"custom_options": Array("uint8", (MAX_VALUE_BYTES + 1,))}


def test_small_constants_give_their_bytes() -> None:
    """Of every type; neither long ones, nor what is no constant."""
    net = Net()
    x = net.tensor((1, 2, 2, 1))
    pads = net.tensor((4, 2), "int32", [[0, 0], [1, 2], [3, -4], [0, 0]], scale=0.0)
    wide = net.tensor((2,), "int64", [1, 2], scale=0.0)
    edge = net.tensor((MAX_VALUE_BYTES // 4,), "int32", range(MAX_VALUE_BYTES // 4), scale=0.0)
    long = net.tensor((MAX_VALUE_BYTES // 4 + 1,), "int32", range(MAX_VALUE_BYTES // 4 + 1), scale=0.0)
    out = net.tensor((1, 5, 1, 1))
    net.op("PAD", [x, pads, wide, edge, long], [out], s.PadOptionsT())
    net.ends([x], [out])
    tensors = _graph(net).tensors
    assert [t.value is not None for t in tensors] == [False, True, True, True, False, False]
    assert tensors[pads].integers == (0, 0, 1, 2, 3, -4, 0, 0)
    assert tensors[wide].integers == (1, 2)
    assert tensors[edge].integers == tuple(range(MAX_VALUE_BYTES // 4))
    assert tensors[x].integers == tensors[long].integers == ()


def test_a_left_out_operand_keeps_its_place() -> None:
    """`operands` counts as the format does; no attribute hides values."""
    net = Net()
    x, w = net.tensor((1, 4)), net.tensor((4, 4), "int8", np.ones((4, 4)))
    b, out = net.tensor((4,), "int32", [1, 2, 3, 4]), net.tensor((1, 4))
    net.op("FULLY_CONNECTED", [x, -1, w, b], [out], s.FullyConnectedOptionsT())
    net.ends([x], [out])
    graph = _graph(net)
    assert (graph.dialect, graph.ops[0].operands, graph.ops[0].inputs) == ("tflite", (0, None, 1, 2), (0, 1, 2))
    assert "given" not in graph.ops[0].attributes
    assert pickle.loads(pickle.dumps(graph)) == graph


@pytest.mark.parametrize(
    ("scales", "points", "axis", "expected"),
    [
        ([0.5], [3], 0, Quant((0.5,), (3,))),
        ([0.5, 0.25], [1, 2], 3, Quant((0.5, 0.25), (1, 2), 3)),
        ([0.5, 0.25], [1], 1, Quant((0.5, 0.25), (1, 1), 1)),
        ([0.5, 0.25], None, 1, Quant((0.5, 0.25), (0, 0), 1)),
        (None, [1], 0, None),
    ],
)
def test_quantisation(scales: list[float] | None, points: list[int] | None, axis: int, expected: Quant | None) -> None:
    """One entry a tensor or one a channel; missing zero points are 0, and a single one holds for all."""
    net = Net()
    x, out = net.tensor((1, 2)), net.tensor((1, 2))
    net.op("RELU", [x], [out])
    net.ends([x], [out])
    model = s.ModelT.InitFromObj(s.Model.GetRootAsModel(net.bytes(), 0))
    held = s.QuantizationParametersT()
    held.scale, held.zeroPoint, held.quantizedDimension = scales, points, axis
    model.subgraphs[0].tensors[0].quantization = held
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    graph = graph_of(parse_tflite(bytes(builder.Output()), "m"), [], "m", "")
    assert graph.tensors[0].quant == expected
