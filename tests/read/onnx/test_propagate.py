"""Sizes that hang on arithmetic with shapes are known before the model runs, and are what onnxruntime makes."""

import numpy as np
import pytest
from onnx import TensorProto

from lowtide.errors import InputError
from lowtide.read.onnx.forward import MOST_ELEMENTS, Values
from lowtide.read.onnx.reader import read_onnx
from lowtide.read.onnx.types import TensorType
from support.onnx_builder import constant, model, node, saved, value

INT64 = TensorProto.INT64


def _ints(name, *numbers, shape=None):
    return constant(name, numbers, shape, INT64)


SIZES = [_ints("zero", 0, shape=()), _ints("last", -1), _ints("first", 0), _ints("one", 1), _ints("two", 2),
         _ints("three", 3), _ints("four", 4, shape=()), _ints("heads", 4)]  # fmt: skip

CASES = {
    "heads": [
        node("Shape", "x", "s"), node("Gather", "s two", "d"), node("Div", "d heads", "each"),
        node("Cast", "each", "c", to=INT64), node("Concat", "first first heads c", "to", axis=0),
        node("Reshape", "x to", "y"),
    ],
    "mod": [
        node("Shape", "x", "s"), node("Gather", "s two", "d"), node("Mod", "d three", "left"),
        node("Sub", "d left", "fits"), node("Slice", "x first fits two", "y"),
    ],
    "floats": [
        node("Shape", "x", "s"), node("Gather", "s two", "d"), node("Cast", "d", "f", to=1),
        node("Sqrt", "f", "r"), node("Ceil", "r", "e"), node("Cast", "e", "n", to=INT64), node("Concat", "n last", "to",
        axis=0), node("Reshape", "x to", "y"),
    ],
    "range": [
        node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Add", "n four", "end"),
        node("Cast", "four", "step", to=INT64), node("Range", "zero end step", "y"),
    ],
    "positions": [
        node("Shape", "x", "s"), node("ConstantOfShape", "s", "full", value=_ints("v", 1)),
        node("NonZero", "full", "where"),
        node("Shape", "where", "many"), node("ConstantOfShape", "many", "y"),
    ],
    "empty": [
        node("Shape", "x", "s"), node("ConstantOfShape", "s", "full"), node("NonZero", "full", "y"),
    ],
    "chosen": [
        node("Shape", "x", "s"), node("Size", "x", "all"), node("Equal", "s heads", "same"), node("Where",
        "same all s", "to"), node("Expand", "one to", "y"),
    ],
    "split": [
        node("Shape", "x", "s"), node("Split", "s", "a b c", num_outputs=3), node("Mul", "a b", "ab"),
        node("Concat", "ab c", "to", axis=0), node("Reshape", "x to", "y"),
    ],
    "squeezed": [
        node("Shape", "x", "s"), node("Slice", "s one three", "cut"), node("ReduceProd", "cut", "p", keepdims=0),
        node("Unsqueeze", "p first", "u"), node("Concat", "first u", "to", axis=0), node("Reshape", "x to", "y"),
    ],
    "turned": [
        node("Shape", "x", "s"), node("Max", "s three", "m"), node("Tile", "three two", "t"),
        node("Concat", "m t", "long", axis=0), node("Squeeze", "two first", "k"), node("Gather", "long k", "g"),
        node("Unsqueeze", "g first", "to"), node("ConstantOfShape", "to", "y"),
    ],
}  # fmt: skip


def _made(nodes, x_shape):
    kind = INT64 if nodes[-1].op_type in ("Range", "Expand", "NonZero") else TensorProto.FLOAT
    return model(nodes, [value("x", x_shape)], [value("y", None, kind)], SIZES)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("x_shape", [(2, 6, 8), (1, 5, 16)])
def test_what_hangs_on_shapes_has_the_size_that_onnxruntime_makes(case, x_shape, tmp_path):
    """Whatever arithmetic leads from a shape to a size, in opset 20."""
    ort = pytest.importorskip("onnxruntime")
    path = saved(_made(CASES[case], x_shape), tmp_path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    y = session.run(["y"], {"x": np.zeros(x_shape, np.float32)})[0]
    read = next(t for t in read_onnx(path).tensors if t.name == "y")
    assert (read.shape, read.size) == (y.shape, y.nbytes)


def test_the_plan_keeps_the_ops_whose_values_are_known(tmp_path):
    """A runtime runs them, so they are in the order, and nothing is folded that reads an input."""
    read = read_onnx(saved(_made(CASES["heads"], (2, 6, 8)), tmp_path))
    assert [op.type for op in read.ops] == ["Shape", "Gather", "Div", "Cast", "Concat", "Reshape"]
    assert not read.folded


def test_any_number_of_layers_is_followed_in_one_walk(tmp_path):
    """Each layer's sizes hang on those of the layer before it."""
    nodes = []
    for i in range(60):
        nodes += [node("Shape", f"x{i}", f"s{i}"), node("Gather", f"s{i} two", f"d{i}"),
                  node("Div", f"d{i} heads", f"e{i}"), node("Mul", f"e{i} heads", f"f{i}"),
                  node("Concat", f"first first f{i}", f"t{i}", axis=0),
                  node("Reshape", f"x{i} t{i}", f"x{i + 1}")]  # fmt: skip
    made = model(nodes, [value("x0", (2, 6, 8))], [value("x60", None)], SIZES)
    assert read_onnx(saved(made, tmp_path)).tensors[-1].shape == (2, 6, 8)


def test_what_hangs_on_numbers_is_still_refused(tmp_path):
    """A size that an input's numbers decide is not known before the model runs."""
    made = model([node("Cast", "x", "n", to=INT64), node("Expand", "one n", "y")], [value("x", (3,))],
                 [value("y", None, INT64)], SIZES)  # fmt: skip
    with pytest.raises(InputError, match=r"\(Expand\) makes 'y', whose shape depends on data"):
        read_onnx(saved(made, tmp_path))


@pytest.mark.parametrize(
    ("made", "types"),
    [
        (node("ConstantOfShape", "many", "y"), {}),
        (node("ConstantOfShape", "many", "y"), {"y": TensorType(1, (MOST_ELEMENTS + 1,))}),
        (node("Range", "zero end one", "y"), {}),
        (node("Range", "zero end zero", "y"), {}),
        (node("Div", "many zero", "y"), {}),
        (node("Reshape", "many three", "y"), {}),
        (node("RandomUniform", "", "y", shape=[2]), {}),
    ],
)
def test_large_wrong_and_random_values_are_left_alone(made, types):
    """Nothing is computed that is larger than a size has to be, fails, or is drawn."""
    constants = [_ints("many", MOST_ELEMENTS + 1), _ints("end", MOST_ELEMENTS + 9, shape=()), *SIZES]
    of = model([made], [], [value("y", None)], [*constants[:2], *SIZES])
    values = Values(of)
    values.add(made, types)
    known = values.tensor("y")
    assert known is None or (made.op_type == "Div" and list(known.dims) == [1])


def test_values_of_constants_that_are_not_in_the_file_are_not_known():
    """The weights are left out where a file is read; what is left of them says nothing."""
    bare = TensorProto(name="w", data_type=INT64, dims=[3])
    made = model([node("Neg", "w", "y")], [], [value("y", (3,), INT64)], [bare])
    values = Values(made)
    values.add(made.graph.node[0], {})
    assert (values.tensor("w"), values.tensor("y")) == (None, None)


def test_a_node_of_an_older_operator_set_is_computed_by_it(tmp_path):
    """Axes were attributes before opset 13."""
    made = model([node("Shape", "x", "s"), node("Slice", "s", "c", starts=[1], ends=[2]), node("Squeeze", "c", "n",
                 axes=[0]), node("Unsqueeze", "n", "u", axes=[0]), node("ConstantOfShape", "u", "y")],
                 [value("x", (2, 7))], [value("y", None)], opset=9)  # fmt: skip
    assert read_onnx(saved(made, tmp_path)).tensors[-1].shape == (7,)


def test_a_folded_result_of_unknown_shape_is_known_now(tmp_path):
    """What is computed from constants alone has its size too."""
    made = model([node("Div", "heads two", "n"), node("Expand", "one n", "w"), node("Add", "w x", "y")],
                 [value("x", (2,), INT64)], [value("y", None, INT64)], SIZES)  # fmt: skip
    read = read_onnx(saved(made, tmp_path))
    assert next(t for t in read.tensors if t.name == "w").size == 16
