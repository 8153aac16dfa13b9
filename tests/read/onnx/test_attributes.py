"""What an ONNX op says of itself: attributes, operand positions, small values."""

import pickle

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper
from onnx.helper import tensor_dtype_to_np_dtype
from onnx.numpy_helper import from_array

from lowtide.errors import InputError
from lowtide.graph import ELEMENT_BITS, MAX_VALUE_BYTES, Array, Graph
from lowtide.read.onnx.reader import read_onnx
from lowtide.target import BUILT_IN
from support.onnx_builder import constant, graph, model, node, saved, value


def _read(model, tmp_path) -> Graph:
    return read_onnx(saved(model, tmp_path))


def _custom(tmp_path, **attributes) -> dict:
    made = model([node("Own", "x", "y", domain="own", **attributes)], [value("x")], [value("y")])
    made.opset_import.add(domain="own", version=1)
    return dict(_read(made, tmp_path).ops[0].attributes)


def _tensor(graph: Graph, name: str):
    return next(t for t in graph.tensors if t.name == name)


def test_every_kind_of_attribute_becomes_a_plain_value(tmp_path):
    """Numbers, texts and lists as themselves, tensors as arrays, bytes where a text is no UTF-8."""
    got = _custom(
        tmp_path, i=7, f=0.5, s="ab", ints=[1, -2], floats=[1.5], strings=["a", "b"], raw=b"\xff\xfe",
        t=from_array(np.array([[1, 2]], np.int16)), ts=[from_array(np.zeros(0, np.float32))],
    )  # fmt: skip
    assert got == {
        "i": 7, "f": 0.5, "s": "ab", "ints": (1, -2), "floats": (1.5,), "strings": ("a", "b"), "raw": b"\xff\xfe",
        "t": Array("int16", (1, 2), b"\x01\x00\x02\x00"), "ts": (Array("float32", (0,), b""),),
    }  # fmt: skip


def test_an_attribute_without_a_kind_is_what_it_holds(tmp_path):
    """Old files do not say the kind of an attribute; an empty list is a list of integers."""
    made = model([node("Conv", "x w", "y", strides=[1, 1], group=1, auto_pad="VALID")], [value("x", (1, 1, 4, 4))],
                 [value("y", (1, 1, 4, 4))], [constant("w", [1.0], (1, 1, 1, 1))])  # fmt: skip
    for attribute in made.graph.node[0].attribute:
        attribute.ClearField("type")
    assert _read(made, tmp_path).ops[0].attributes == {"strides": (1, 1), "group": 1, "auto_pad": "VALID"}
    made.graph.node[0].attribute.append(AttributeProto(name="pads"))
    assert _read(made, tmp_path).ops[0].attributes["pads"] == ()


def test_large_attributes_stay_in_the_file(tmp_path):
    """A list, a text or a tensor above the limit is its type and shape."""
    n = MAX_VALUE_BYTES
    got = _custom(tmp_path, ints=range(n), floats=[0.0] * n, s="a" * (n + 1), t=from_array(np.zeros(n, np.float32)))
    assert got == {
        "ints": Array("int64", (n,)), "floats": Array("float32", (n,)), "s": Array("string", (1,)),
        "t": Array("float32", (n,)),
    }  # fmt: skip
    assert len(pickle.dumps(got)) < 1000


def test_left_out_operands_keep_their_place(tmp_path):
    """`operands` counts as ONNX does, `inputs` holds those that are there."""
    made = model([node("Clip", "x _ hi", "y")], [value("x")], [value("y")], [constant("hi", [6.0], ())])
    op = _read(made, tmp_path).ops[0]
    assert (op.operands, op.inputs) == ((0, None, 1), (0, 1))


def test_captures_are_inputs_and_no_operands(tmp_path):
    """What a body reads from outside stands behind the operands; a graph is its index among the bodies."""
    branch = graph([node("Neg", "x", "t")], [], [value("t")])
    made = model([node("If", "c", "z", else_branch=branch, then_branch=branch)],
                 [value("c", (), TensorProto.BOOL), value("x")], [value("z")])  # fmt: skip
    op = _read(made, tmp_path).ops[0]
    assert (op.operands, op.inputs) == ((0,), (0, 1))
    assert sorted(op.attributes.items()) == [("else_branch", 0), ("then_branch", 1)]


_NUMBERS = {name: list(range(3)) for name in ELEMENT_BITS if not name.startswith(("float6", "complex32"))}


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("dtype", sorted(_NUMBERS))
def test_values_are_bytes_in_row_order_however_they_are_stored(tmp_path, dtype, raw):
    """Both ways to store a tensor give numpy's bytes."""
    spelt = {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
    number = TensorProto.DataType.Value(spelt)
    array = np.array([0, 1, 1, 0, 1, 1]).astype(tensor_dtype_to_np_dtype(number))
    tensor = helper.make_tensor("w", number, [2, 3], array.flatten().tolist())
    packed = from_array(array.reshape(2, 3), "w")
    assert packed.data_type == number
    made = model([node("Own", "x w", "y", domain="own")], [value("x")], [value("y")], [packed if raw else tensor])
    made.opset_import.add(domain="own", version=1)
    w = _tensor(_read(made, tmp_path), "w")
    assert (w.dtype, w.value) == (dtype, packed.raw_data)
    assert w.size == -(-6 * ELEMENT_BITS[dtype] // 8) == len(packed.raw_data)


def test_values_above_the_limit_and_outside_the_file_are_left_out(tmp_path):
    """Weights stay where they are; a tensor that holds fewer bytes than its shape asks for has no value."""
    edge, over = (from_array(np.zeros(n // 4, np.float32), f"w{n}") for n in (MAX_VALUE_BYTES, MAX_VALUE_BYTES + 4))
    outside = TensorProto(name="o", data_type=TensorProto.INT64, dims=[2], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="gone.bin")
    short = TensorProto(name="s", data_type=TensorProto.INT64, dims=[2], raw_data=b"\0" * 8)
    made = model([node("Own", f"x {edge.name} {over.name} o s", "y", domain="own")], [value("x")], [value("y")],
                 [edge, over, outside, short])  # fmt: skip
    made.opset_import.add(domain="own", version=1)
    held = {t.name: t.value for t in _read(made, tmp_path).tensors}
    assert held == {"x": None, edge.name: bytes(MAX_VALUE_BYTES), over.name: None, "o": None, "s": None, "y": None}


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_int": -1}, np.array(-1, np.int64)),
        ({"value_ints": [1, 2]}, np.array([1, 2], np.int64)),
        ({"value_float": 0.5}, np.array(0.5, np.float32)),
        ({"value_floats": [0.5]}, np.array([0.5], np.float32)),
        ({"value": from_array(np.array([True]))}, np.array([True])),
    ],
)
def test_a_constant_node_gives_its_value(tmp_path, attributes, expected):
    """In each of its spellings."""
    made = model([node("Constant", "", "c", **attributes), node("Own", "x c", "y", domain="own")],
                 [value("x")], [value("y")])  # fmt: skip
    made.opset_import.add(domain="own", version=1)
    c = _tensor(_read(made, tmp_path), "c")
    assert (c.value, c.shape, c.dtype) == (expected.tobytes(), expected.shape, expected.dtype.name)


def test_a_graph_says_its_dialect_and_opset(tmp_path):
    """The meaning of an op hangs on both."""
    read = _read(model([node("Neg", "x", "y")], [value("x")], [value("y")], opset=11), tmp_path)
    assert (read.dialect, read.opset) == ("onnx", 11)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"strides": 2}, "attribute 'strides' of another kind than integers"),
        ({"group": "all"}, "attribute 'group' of another kind than an integer"),
        ({"auto_pad": [1]}, "attribute 'auto_pad' of another kind than a string"),
        ({"strides": [0, 1]}, "has strides (0, 1); give whole numbers from 1 up"),
        ({"group": 0}, "has group 0; give"),
        ({"pads": [0] * MAX_VALUE_BYTES}, "attribute 'pads' with 4096 entries; no operator has so many"),
    ],
)
def test_attributes_that_no_operator_of_onnx_has_are_refused(tmp_path, attributes, message):
    """In one line that names the node and the attribute."""
    made = model([node("Conv", "x w", "y", **attributes)], [value("x", (1, 1, 4, 4))], [value("y", (1, 1, 4, 4))],
                 [constant("w", [1.0], (1, 1, 1, 1))])  # fmt: skip
    with pytest.raises(InputError, match=r"Conv 'Conv\.y'") as caught:
        _read(made, tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("opset", "turns"), [(11, False), (13, True)])
def test_a_softmax_before_opset_13_needs_no_turn(tmp_path, opset, turns):
    """Under onnxruntime: it ran along all axes from one on, and now along one, which is first made the last."""
    made = model([node("Softmax", "x", "y", axis=0)], [value("x", (2, 3))], [value("y", (2, 3))], opset=opset)
    read = _read(made, tmp_path)
    assert (BUILT_IN["onnxruntime"].workspace(read, read.ops[0]) > 0) is turns
