"""Shapes that the user gives: of inputs at once, and of what only the running model knows."""

import numpy as np
import pytest
from onnx import TensorProto

import lowtide
from lowtide.api.optimized import optimized_file
from lowtide.errors import ForeignDimensionError, InputError
from lowtide.read.onnx.reader import read_onnx
from support.onnx_builder import constant, model, node, saved, value

INT64 = TensorProto.INT64


def _free(tmp_path):
    nodes = [node("Relu", "x", "a"), node("Concat", "a x", "y", axis=0)]
    return saved(model(nodes, [value("x", ("n", 4, None))], [value("y", ("m", 4, None))]), tmp_path)


def test_a_shape_says_all_free_sizes_of_an_input(tmp_path):
    """It is the same as each of them, named or not."""
    path = _free(tmp_path)
    at_once, one_by_one = read_onnx(path, {"x": (3, 4, 5)}), read_onnx(path, {"n": 3, "x:2": 5})
    assert at_once == one_by_one
    assert at_once.tensors[-1].shape == (6, 4, 5)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({"x": (3, 4)}, r"'x' has 3 dimensions, and 3x4 has 2"),
        ({"x": (3, 5, 5)}, r"the model fixes axis 1 of 'x' at 4, not 5"),
        ({"x": (3, 4, 5), "n": 2}, r"dimension 'n' is bound to 2 and to 3|'n' is bound to"),
        ({"x": (0, 4, 5)}, r"bound to 0; give a whole number from 1 up"),
        ({"n": 3, "x:2": 5, "aa": (3, 4, 5)}, r"there is no tensor 'aa' to give a shape; did you mean a\?"),
        ({"n": 3, "x:2": 5, "y": (7,)}, r"'y' has the shape 6x4x5, not 7"),
    ],
)
def test_a_shape_that_the_model_does_not_have_is_refused(dims, words, tmp_path):
    """By name, with what the model says."""
    path = _free(tmp_path)
    with pytest.raises(InputError, match=words):
        lowtide.research.plan(path, dims=dims)


def test_a_shape_of_no_tensor_may_be_of_another_model(tmp_path):
    """Sharing asks each model for what it has a use for."""
    with pytest.raises(ForeignDimensionError) as caught:
        read_onnx(_free(tmp_path), {"n": 3, "x:2": 5, "else": (2,)})
    assert caught.value.names == ("else",)


def test_an_input_without_a_rank_gets_one(tmp_path):
    """Nothing but its element type is declared."""
    made = model([node("Exp", "x", "y")], [value("x", None)], [value("y", None)])
    assert [t.size for t in read_onnx(saved(made, tmp_path), {"x": (2, 3)}).tensors] == [24, 24]


def test_what_hangs_on_data_is_planned_for_the_shape_given(tmp_path):
    """With the element type that ONNX knows, or the first operand's."""
    nodes = [node("NonZero", "x", "k"), node("Neg", "k", "n"), node("Magic", "x", "z", domain="com.example")]
    made = model(nodes, [value("x", (8,))], [value("n", None, INT64), value("z", None)])
    read = read_onnx(saved(made, tmp_path), {"k": (1, 5), "z": [2, 2]})
    assert {t.name: (t.shape, t.size) for t in read.tensors[1:]} == {
        "k": ((1, 5), 40), "n": ((1, 5), 40), "z": ((2, 2), 16)
    }  # fmt: skip
    with pytest.raises(InputError, match=r"give it with --shape k=AxBx\.\.\."):
        read_onnx(saved(made, tmp_path), {"z": [2, 2]})


def test_a_type_behind_a_step_that_onnx_does_not_follow_is_its_own(tmp_path):
    """NonZero makes integers, whatever it reads, even where ONNX's own inference does not come by."""
    sizes = [constant("two", [2], dtype=INT64), constant("zero", [0], dtype=INT64)]
    nodes = [node("Shape", "x", "s"), node("Div", "s two", "h"), node("Concat", "h two", "t", axis=0),
             node("Reshape", "x t", "r"), node("NonZero", "r", "k")]  # fmt: skip
    made = model(nodes, [value("x", (4,))], [value("k", None, INT64)], sizes)
    read = read_onnx(saved(made, tmp_path), {"k": (2, 3)})
    assert (read.tensors[-1].dtype, read.tensors[-1].size) == ("int64", 48)


def test_a_run_draws_inputs_of_the_shape_given(tmp_path):
    """`verify --run` knows the sizes of axes without a name."""
    pytest.importorskip("onnxruntime")
    path = _free(tmp_path)
    plan = lowtide.research.plan(path, dims={"x": (3, 4, 5)}, target="onnxruntime")
    assert lowtide.verify(path, plan, dims={"x": (3, 4, 5)}, run=True).run.equal


def test_the_optimiser_takes_shapes(tmp_path):
    """Of inputs: all dimensions are fixed in its file, those without a name too."""
    pytest.importorskip("onnxruntime")
    out = tmp_path / "o.onnx"
    optimized_file(_free(tmp_path), out, {"x": (3, 4, 5)})
    assert read_onnx(out, {}).tensors[0].shape == (3, 4, 5)


def test_numbers_of_a_shape_may_be_of_numpy(tmp_path):
    """A shape that comes from an array."""
    shape = tuple(np.zeros((3, 4, 5)).shape)
    assert read_onnx(_free(tmp_path), {"x": shape}).tensors[0].size == 240
