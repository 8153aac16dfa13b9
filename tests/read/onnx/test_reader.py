"""The ONNX reader: ids, kinds, sizes, dimensions, folding."""

import hashlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read import read_model
from lowtide.read.onnx.reader import read_onnx
from support.onnx_builder import constant, model, node, saved, value


def _read(model, tmp_path, dims=None):
    return read_onnx(saved(model, tmp_path), dims or {})


def _names(graph):
    return [t.name for t in graph.tensors]


def test_ids_are_first_appearance_and_node_index(tmp_path):
    """Tensor ids count inputs, initializers, then what nodes read and make; op ids are node indices."""
    made = model(
        [node("Relu", "y", "r"), node("Constant", "", "c", value_float=1.0), node("Add", "r c", "z")],
        [value("x"), value("y")],
        [value("z")],
        [constant("w", [1.0])],
    )
    graph = _read(made, tmp_path)
    assert _names(graph) == ["x", "y", "w", "r", "c", "z"]
    assert [t.id for t in graph.tensors] == list(range(6))
    assert [op.id for op in graph.ops] == [0, 2]
    assert [op.id for op in graph.folded] == [1]
    assert graph.sha256 == hashlib.sha256((tmp_path / "m.onnx").read_bytes()).hexdigest()
    assert graph.ops[1].label == "op 2 'Add.z' (Add)"


def test_initializers_are_constants_even_when_they_are_graph_inputs(tmp_path):
    """IR version 3 lists initializers among the graph inputs too."""
    made = model([node("Add", "x w", "z")], [value("x"), value("w")], [value("z")], [constant("w", [1, 2, 3, 4])])
    made.ir_version = 3
    graph = _read(made, tmp_path)
    assert [t.kind for t in graph.tensors] == [Kind.INPUT, Kind.CONSTANT, Kind.OUTPUT]
    assert [t.size for t in graph.tensors] == [16, 16, 16]


def test_optional_inputs_and_outputs_are_no_tensors(tmp_path):
    """The empty name stands for nothing, on either side."""
    made = model(
        [node("Clip", "x _ hi", "y"), node("MaxPool", "y", "z _", kernel_shape=[1])],
        [value("x", (1, 1, 4))],
        [value("z", None)],
        [constant("hi", [6.0], ())],
    )
    graph = _read(made, tmp_path)
    assert _names(graph) == ["x", "hi", "y", "z"]
    assert graph.ops[0].inputs == (0, 1)


def test_constant_only_nodes_are_folded_but_random_ones_are_not(tmp_path):
    """A transposed weight is a constant; a random tensor of a constant's shape is made anew on every run."""
    made = model(
        [
            node("Transpose", "w", "wt", perm=[1, 0]),
            node("RandomNormalLike", "w", "noise"),
            node("Bernoulli", "w", "coin"),
            node("Dropout", "w half yes", "dropped"),
            node("MatMul", "x wt", "z"),
            node("Sum", "noise coin dropped", "s"),
        ],
        [value("x", (1, 3))],
        [value("z", None), value("s", None)],
        [
            constant("w", [0.5] * 6, (2, 3)),
            constant("half", [0.5], ()),
            constant("yes", [1], (), TensorProto.BOOL),
        ],
    )
    graph = _read(made, tmp_path)
    assert [op.type for op in graph.folded] == ["Transpose"]
    assert [op.type for op in graph.ops] == ["RandomNormalLike", "Bernoulli", "Dropout", "MatMul", "Sum"]
    assert graph.tensor_by_id[graph.folded[0].outputs[0]].kind is Kind.CONSTANT
    assert graph.tensor_by_id[graph.folded[0].outputs[0]].shape == (3, 2)
    assert graph.ops[3].flops == 2 * 3 * 2


def test_a_shape_behind_a_reshape_of_constants_is_found(tmp_path):
    """Shape, Gather and Concat of known sizes give Reshape its shape (data propagation)."""
    made = model(
        [
            node("Shape", "x", "sx"),
            node("Gather", "sx first", "n", axis=0),
            node("Concat", "n minus", "to", axis=0),
            node("Reshape", "x to", "z"),
        ],
        [value("x", ("N", 3, 4))],
        [value("z", None)],
        [constant("first", [0], dtype=TensorProto.INT64), constant("minus", [-1], dtype=TensorProto.INT64)],
    )
    graph = _read(made, tmp_path, {"N": 5})
    assert graph.tensors[-1].shape == (5, 12)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("FLOAT", 20), ("DOUBLE", 40), ("FLOAT16", 10), ("BFLOAT16", 10), ("INT64", 40), ("BOOL", 5),
        ("COMPLEX64", 40), ("COMPLEX128", 80), ("FLOAT8E4M3FN", 5), ("FLOAT8E5M2", 5), ("UINT4", 3), ("INT4", 3),
        ("FLOAT4E2M1", 3), ("UINT2", 2), ("INT2", 2), ("FLOAT6E2M3", 4),
    ],
)  # fmt: skip
def test_sizes_of_element_types(dtype, size, tmp_path):
    """Five elements of each type; those below a byte are packed."""
    if dtype not in TensorProto.DataType.keys():  # noqa: SIM118 - an enum wrapper, not a dict
        pytest.skip("this onnx does not know the type")
    number = TensorProto.DataType.Value(dtype)
    made = model([node("Identity", "x", "z")], [value("x", (5,), number)], [value("z", (5,), number)])
    graph = _read(made, tmp_path)
    assert [t.size for t in graph.tensors] == [size, size]


def test_all_free_dimensions_are_named_and_bound(tmp_path):
    """One error lists every free dimension; names and INPUT:AXIS bind them, wherever the name stands."""
    made = model(
        [node("MatMul", "x y", "z")],
        [value("x", ("batch", 3)), value("y", (3, None))],
        [value("z", ("batch", None))],
    )
    with pytest.raises(InputError, match=r"2 dimensions are free: batch, y:1; .* --dim batch=1 --dim y:1=16000"):
        _read(made, tmp_path)
    graph = _read(made, tmp_path, {"batch": 2, "y:1": 7})
    assert graph.tensors[-1].shape == (2, 7)
    assert _read(made, tmp_path, {"x:0": 2, "y:1": 7}) == graph
    with pytest.raises(InputError, match=r"1 dimension is free: y:1; bind it, for example --dim y:1=16000$"):
        _read(made, tmp_path, {"batch": 2})


def test_sizes_of_minus_one_and_question_marks_are_free_each_by_itself(tmp_path):
    """Axes written -1 and two named ``?`` take sizes of their own, and are no promise about what the model makes."""
    made = model(
        [node("GlobalAveragePool", "x", "a"), node("Flatten", "a", "z")],
        [value("x", (-1, 3, "?", "?"))],
        [value("z", (-1, "?"))],
        declared=[value("a", (-1, 3, "?", "?"))],
    )
    with pytest.raises(InputError, match=r"3 dimensions are free: x:0, x:2, x:3; .*=1 --dim x:2=224 --dim x:3=224$"):
        _read(made, tmp_path)
    with pytest.raises(InputError, match=r"no free dimension '.'; the free ones are x:0, x:2, x:3"):
        _read(made, tmp_path, {"?": 48})
    graph = _read(made, tmp_path, {"x:0": 1, "x:2": 48, "x:3": 192})
    assert [t.shape for t in graph.tensors] == [(1, 3, 48, 192), (1, 3, 1, 1), (1, 3)]
    assert _read(made, tmp_path, {"x": (1, 3, 48, 192)}) == graph


def test_what_is_offered_for_free_dimensions_is_what_the_model_takes(tmp_path):
    """A model that takes lines of 48 rows only is not offered 224: the first usual size that it can be read with is."""
    made = model(
        [node("MaxPool", "x", "a", kernel_shape=[48, 1]), node("Squeeze", "a axes", "z")],
        [value("x", ("?", 3, "?", "width"))],
        [value("z", None)],
        [constant("axes", [2], dtype=TensorProto.INT64)],
    )
    with pytest.raises(InputError) as caught:
        _read(made, tmp_path)
    assert str(caught.value).endswith("--dim x:0=1 --dim x:2=48 --dim width=320")
    assert _read(made, tmp_path, {"x:0": 1, "x:2": 48, "width": 320}).tensors[-1].shape == (1, 3, 320)


def test_a_file_that_is_not_sorted_is_read_in_its_stable_topological_order(tmp_path):
    """Ids are the file's; a node runs where it stands, or as soon as what it needs is there."""
    made = model(
        [
            node("Mul", "c w", "a"), node("Relu", "a", "b"), node("Add", "b k", "z"),
            node("Constant", "", "k", value_float=1.0), node("Neg", "n", "w"), node("Cast", "x", "c", to=1),
            node("Constant", "", "n", value_float=2.0),
        ],
        [value("x", (4,), TensorProto.FLOAT16)],
        [value("z")],
    )  # fmt: skip
    graph = _read(made, tmp_path)
    assert [op.id for op in graph.ops] == [5, 0, 1, 2]
    assert [op.id for op in graph.folded] == [3, 6, 4]
    assert {t.name: t.shape for t in graph.tensors if t.kind is not Kind.CONSTANT} == dict.fromkeys("xabcz", (4,))
    assert graph.op_by_id[5].type == "Cast"
    assert graph.op_by_id[0].label == "op 0 'Mul.a' (Mul)"


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": 1, "q": 3}, "no free dimension 'q'; the free ones are n"),
        ({"x:1": 3}, "no free dimension 'x:1'"),
        ({"n": 0}, "bound to 0; give a whole number from 1 up"),
        ({"n": -4}, "bound to -4"),
        ({"n": 2, "x:0": 3}, "bound to 2 and to 3"),
    ],
)
def test_wrong_dimensions_are_refused(dims, message, tmp_path):
    """A size for a dimension that is not free, no size at all, or two sizes for one."""
    made = model([node("Relu", "x", "z")], [value("x", ("n", 2))], [value("z", ("n", 2))])
    with pytest.raises(InputError, match=message):
        _read(made, tmp_path, dims)


def test_shapes_that_hang_on_data_are_refused_by_name_of_the_op(tmp_path):
    """NonZero needs a declared static shape, and is accepted with one."""
    nodes = [node("NonZero", "x", "where"), node("Cast", "where", "z", to=1)]
    inputs, outputs = [value("x", (2, 3))], [value("z", None)]
    with pytest.raises(
        InputError, match=r"op 0 'NonZero.where' \(NonZero\) makes 'where', whose shape depends on data"
    ):
        _read(model(nodes, inputs, outputs), tmp_path)
    declared = [value("where", (2, 6), TensorProto.INT64)]
    assert _read(model(nodes, inputs, outputs, declared=declared), tmp_path).tensors[-1].shape == (2, 6)


def test_the_first_tensor_without_a_shape_is_named(tmp_path):
    """An unknown op whose output is not declared stops the reading."""
    made = model([node("Magic", "x", "y", domain="com.example"), node("Relu", "y", "z")], [value("x")], [value("z")])
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(InputError, match=r"no shape is known for 'y', which op 0 'Magic.y' \(com.example::Magic\)"):
        _read(made, tmp_path)
    made.graph.value_info.append(value("y"))
    assert [op.type for op in _read(made, tmp_path).ops] == ["com.example::Magic", "Relu"]


def test_elementwise_shapes_are_found_where_onnx_knows_no_such_opset(tmp_path):
    """ONNX's inference refuses an opset from the future; broadcasting does not need it."""
    made = model(
        [
            node("Add", "x y", "a"),
            node("Greater", "a x", "b"),
            node("Where", "b a y", "c"),
            node("Relu", "c", "d"),
        ],
        [value("x", (3, 1)), value("y", (4,))],
        [value("d", None)],
        opset=999,
    )
    graph = _read(made, tmp_path)
    assert [t.size for t in graph.tensors[2:]] == [48, 12, 48, 48]


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(1, [2])), "sequence"),
        (helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2])), "optional"),
        (helper.make_sparse_tensor_type_proto(1, [2]), "sparse tensor"),
        (helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2])), "map"),
    ],
)
def test_what_is_no_tensor_is_refused_by_name(kind, word, tmp_path):
    """Sequences, optionals, maps and sparse tensors have no fixed size."""
    made = model([node("Identity", "x", "y"), node("Relu", "w", "z")], [value("w")], [value("z")])
    made.graph.input.add(name="x", type=kind)
    with pytest.raises(InputError, match=f"tensor 'x' is of type {word}, which has no fixed size"):
        _read(made, tmp_path)


def test_sequences_and_strings_made_inside_are_refused(tmp_path):
    """The message names the op that makes the sequence, or the tensor of strings."""
    made = model(
        [node("SplitToSequence", "x", "s"), node("ConcatFromSequence", "s", "z", axis=0)],
        [value("x")],
        [value("z")],
    )
    with pytest.raises(InputError, match=r"'s', made by op 0 'SplitToSequence.s' .* of type sequence"):
        _read(made, tmp_path)
    text = model([node("Identity", "x", "z")], [value("x", (2,), 8)], [value("z", (2,), 8)])
    with pytest.raises(InputError, match="tensor 'x' is of strings, which has no fixed size"):
        _read(text, tmp_path)


def test_outputs_may_be_inputs_initializers_or_folded(tmp_path):
    """A passed-through input is an output without a producer; a constant output is a constant."""
    made = model(
        [node("Relu", "x", "z"), node("Neg", "w", "v")],
        [value("x")],
        [value("z"), value("x"), value("w"), value("v")],
        [constant("w", [1, 2, 3, 4])],
    )
    graph = _read(made, tmp_path)
    kinds = {t.name: t.kind for t in graph.tensors}
    assert kinds == {"x": Kind.OUTPUT, "w": Kind.CONSTANT, "z": Kind.OUTPUT, "v": Kind.CONSTANT}


def test_sparse_initializers_are_constants(tmp_path):
    """A sparse initializer has the bytes of its values and indices."""
    made = model([node("Add", "x w", "z")], [value("x", (2, 4))], [value("z", (2, 4))])
    values, indices = constant("w", [1.0, 2.0]), constant("i", [1, 5], dtype=TensorProto.INT64)
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 4]))
    graph = _read(made, tmp_path)
    assert graph.tensors[1].kind is Kind.CONSTANT
    assert (graph.tensors[1].size, graph.tensors[1].shape) == (8 + 16, (2, 4))


@pytest.mark.parametrize(
    ("values", "trains"),
    [
        (node("Dropout", "x", "z"), False),
        (node("Dropout", "x half", "z"), False),
        (node("Dropout", "x half no", "z"), False),
        (node("Dropout", "x half yes", "z"), True),
        (node("Dropout", "x half flag", "z"), True),
        (node("BatchNormalization", "x s s s s", "z"), False),
        (node("BatchNormalization", "x s s s s", "z m v", training_mode=1), True),
    ],
)
def test_training_mode_is_an_attribute(values, trains, tmp_path):
    """A Dropout or batch normalisation that trains is no view and not in place."""
    read = model(
        [values],
        [value("x", (2, 3)), value("flag", (), TensorProto.BOOL)],
        [value("z", (2, 3))],
        [
            constant("half", [0.5], ()),
            constant("yes", [1], (), TensorProto.BOOL),
            constant("no", [0], (), TensorProto.BOOL),
            constant("s", [1.0] * 3),
        ],
    )
    assert bool(_read(read, tmp_path).ops[0].attributes.get("training_mode")) is trains


def test_a_call_of_a_local_function_is_one_op(tmp_path):
    """Its type carries the domain, its shape comes from inference through the function."""
    made = model([node("Twice", "x", "z", domain="local")], [value("x")], [value("z", None)])
    made.opset_import.append(helper.make_opsetid("local", 1))
    made.functions.append(
        helper.make_function("local", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 20)])
    )
    graph = _read(made, tmp_path)
    assert graph.ops[0].type == "local::Twice"
    assert graph.tensors[1].size == 16


def test_external_data_is_not_needed_but_small_shapes_are_looked_up(tmp_path):
    """Weights in a missing file are no obstacle; a shape that lies beside the model is read from there."""
    made = model(
        [node("Reshape", "x to", "y"), node("MatMul", "y w", "z")],
        [value("x", (6,))],
        [value("z", None)],
        [from_array(np.array([2, 3]), "to"), from_array(np.zeros((3, 4), np.float32), "w")],
    )
    path = tmp_path / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=0)
    assert read_onnx(path).tensors[-1].shape == (2, 4)
    (tmp_path / "m.data").unlink()
    with pytest.raises(InputError, match=r"\(Reshape\) makes 'y', whose shape depends on data"):
        read_onnx(path)
    made = onnx.load(path, load_external_data=False)
    made.graph.value_info.append(value("y", (2, 3)))
    assert read_onnx(saved(made, tmp_path)).tensors[-1].shape == (2, 4)


def test_formats_are_known_by_the_ending(tmp_path):
    """An unknown ending is refused with the known ones, and so are dimensions for a graph JSON."""
    with pytest.raises(InputError, match=r"must end in \.onnx, \.tflite, \.pt2, \.graph\.json, \.hlo or \.hlo\.txt"):
        read_model(tmp_path / "model.txt")
    with pytest.raises(InputError, match="a graph JSON has no free dimensions"):
        read_model(tmp_path / "x.graph.json", {"n": 1})
    made = model([node("Relu", "x", "z")], [value("x")], [value("z")])
    assert read_model(saved(made, tmp_path)).ops[0].type == "Relu"
