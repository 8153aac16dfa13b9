"""Bad ONNX files: each is refused with one line that names the file."""

import os
import random

import onnx
import pytest
from onnx import TensorProto

from lowtide.errors import InputError
from lowtide.read.onnx.reader import read_onnx
from support.light_models import light_paths
from support.onnx_builder import constant, model, node, saved, value


def _refused(path, match=None):
    with pytest.raises(InputError, match=match) as caught:
        read_onnx(path)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


@pytest.fixture(scope="module")
def shipped():
    """A model whose graph is its last field but one, and the same bytes with the graph first."""
    return light_paths()["squeezenet"].read_bytes(), light_paths()["densenet121"].read_bytes()


def test_truncated_at_every_kilobyte(shipped, tmp_path):
    """No prefix of a model is taken for a model."""
    path = tmp_path / "cut.onnx"
    for data in shipped:
        for size in range(1024, len(data), 1024):
            path.write_bytes(data[:size])
            _refused(path)


def test_every_prefix_of_a_small_model(tmp_path):
    """A cut at any byte, between two fields too, is refused: as written, and with the graph first."""
    made = model([node("Relu", "x", "z")], [value("x")], [value("z")])
    head, tail = onnx.ModelProto(graph=made.graph), onnx.ModelProto()
    tail.CopyFrom(made)
    tail.ClearField("graph")
    path = tmp_path / "cut.onnx"
    for data in (made.SerializeToString(), head.SerializeToString() + tail.SerializeToString()):
        end = data.index(made.opset_import[0].SerializeToString())
        for size in range(max(end, data.index(made.graph.SerializeToString()) + made.graph.ByteSize())):
            path.write_bytes(data[:size])
            _refused(path)


def test_empty_directory_text_and_pipe(tmp_path):
    """What is no model file at all is named as what it is."""
    (tmp_path / "empty.onnx").touch()
    _refused(tmp_path / "empty.onnx", "the file is empty")
    (tmp_path / "dir.onnx").mkdir()
    _refused(tmp_path / "dir.onnx", "this is a directory")
    (tmp_path / "text.onnx").write_text("This is not a model, it is a letter.\n" * 99)
    _refused(tmp_path / "text.onnx", "not an ONNX model")
    os.mkfifo(tmp_path / "pipe.onnx")
    _refused(tmp_path / "pipe.onnx", "not a regular file")
    _refused(tmp_path / "missing.onnx", "No such file")
    with pytest.raises(InputError, match="null byte"):
        read_onnx("a\0b.onnx")


@pytest.mark.parametrize("size", [10 * 1024**2, 40 * 1024**2])
def test_random_bytes(size, tmp_path):
    """Ten megabytes of noise, and enough of it that the file is mapped and not read."""
    path = tmp_path / "noise.onnx"
    path.write_bytes(random.Random(3).randbytes(size))
    _refused(path, "not an ONNX model")


@pytest.mark.parametrize("tag", [b"\x3a", b"\x42", b"\xfa\x01"])
def test_a_claim_of_two_gigabytes_in_a_kilobyte(tag, tmp_path):
    """A length that the file does not have costs no memory."""
    path = tmp_path / "claim.onnx"
    path.write_bytes(b"\x08\x0a" + tag + b"\xff\xff\xff\xff\x07" + bytes(1000))
    _refused(path, "not an ONNX model")


@pytest.mark.slow
def test_damaged_models_are_read_or_refused(tmp_path):
    """Random bytes changed in a small model: a graph or an InputError, nothing else."""
    made = model(
        [node("Conv", "x w", "y"), node("Reshape", "y to", "v"), node("Dropout", "v r t", "z")],
        [value("x", (1, 2, 4, 4))],
        [value("z", None)],
        [
            constant("w", [0.5] * 8, (4, 2, 1, 1)),
            constant("to", [4, 16], dtype=TensorProto.INT64),
            constant("r", [0.5], ()),
            constant("t", [0], (), TensorProto.BOOL),
        ],
    )
    data, generator = made.SerializeToString(), random.Random(5)
    path = tmp_path / "m.onnx"
    refused = 0
    for _ in range(2000):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(damaged)
        try:
            read_onnx(path)
        except InputError:
            refused += 1
    assert 0 < refused < 2000


def _model(nodes, constants=(), inputs=None, outputs=None, declared=()):
    return model(nodes, inputs or [value("x")], outputs or [value("z")], constants, declared)


RELU = node("Relu", "x", "z")
HUGE = [value("x", (2**40, 2**40))]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (_model([node("Add", "x b", "a"), node("Add", "a x", "b"), node("Relu", "b", "z")]), "cycle: .*Add.a"),
        (_model([node("Relu", "z", "z")]), "has a cycle"),
        (_model([node("Add", "x w", "z")]), "reads 'w', which is no graph input, no initializer"),
        (_model([RELU, node("Abs", "x", "z")]), "'z' is made by op 1 .* and by op 0"),
        (_model([RELU, node("Abs", "x", "x")]), "'x' is made by op 1 .* and is a graph input"),
        (_model([RELU], [constant("z", [1.0])]), "'z' is made by op 0 .* and is an initializer"),
        (_model([RELU], [constant("w", [1.0]), constant("w", [2.0])]), "two initializers 'w'"),
        (_model([RELU], inputs=[value("x"), value("x")]), "two graph inputs 'x'"),
        (_model([RELU], inputs=[value("x"), value("")]), "graph input 1 has no name"),
        (_model([RELU], [constant("", [1.0])]), "initializer 0 has no name"),
        (_model([RELU], outputs=[value("nobody")]), "graph output 'nobody' is made by no node"),
        (_model([RELU], inputs=[value("x", (4, -2))]), "1 dimension is free: x:1; bind it"),
        (_model([RELU], inputs=HUGE, outputs=HUGE), r"2\^62"),
        (_model([RELU], inputs=[value("x", (2**61,))], outputs=[value("z", (2**61,))]), r"2\^62"),
        (_model([RELU], inputs=[value("x", None)]), "'x' has no shape, not even a rank"),
        (_model([RELU], inputs=[value("x", (4,), 77)], outputs=[value("z", (4,), 77)]), "element type number 77"),
        (_model([]), "the graph has no nodes"),
        (model([RELU], [value("x")], []), "the graph has no outputs"),
        (onnx.ModelProto(ir_version=9), "no graph in it"),
        (onnx.ModelProto(graph=_model([RELU]).graph), "no opset_import"),
    ],
)  # fmt: skip
def test_malformed_graphs(model, message, tmp_path):
    """Each malformed graph is refused with the place and the remedy."""
    _refused(saved(model, tmp_path), message)


def test_negative_dimension_of_an_initializer(tmp_path):
    """An initializer's dimensions are checked too."""
    broken = constant("w", [1.0])
    broken.dims[0] = -1
    _refused(saved(_model([node("Add", "x w", "z")], [broken]), tmp_path), "'w' has shape .*negative")


def test_a_name_that_is_not_utf8(tmp_path):
    """A damaged name is no traceback."""
    data = _model([node("Relu", "x", "zq")], outputs=[value("zq")]).SerializeToString()
    _refused(saved(data.replace(b"zq", b"\xff\xfe"), tmp_path), "is not UTF-8")


def test_a_node_whose_inputs_are_all_left_out(tmp_path):
    """An empty name is an input that is not given; an elementwise op that has no other has no shape."""
    made = _model([onnx.helper.make_node("Relu", [""], ["y"]), node("Relu", "y", "z")])
    _refused(saved(made, tmp_path), "no shape is known for 'y'")
