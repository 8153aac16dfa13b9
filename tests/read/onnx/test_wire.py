"""The wire format: records, skeletons, files over 2 GB."""

import hashlib
import mmap

import onnx
import pytest
from onnx import TensorProto

from lowtide import files
from lowtide.errors import InputError
from lowtide.read.onnx.reader import read_onnx
from lowtide.read.onnx.wire import WireError, records, skeleton, varint
from support.onnx_builder import constant, graph, model, node, record, saved, value


def test_records_of_every_wire_type():
    """Varints, fixed words, lengths and groups are walked; offsets are of tag, payload and end."""
    data = b"\x08\x96\x01" + b"\x15abcd" + b"\x19abcdefgh" + b"\x22\x02hi" + b"\x2b\x08\x01\x33\x34\x2c"
    assert list(records(data, 0, len(data))) == [
        (1, 0, 0, 1, 3), (2, 5, 3, 4, 8), (3, 1, 8, 9, 17), (4, 2, 17, 19, 21), (5, 3, 21, 22, 27)
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x08", b"\x08\x80", b"\x0c", b"\x02\x00", b"\x0b\x08\x01", b"\x0f"])
def test_broken_records(data):
    """Cut payloads and numbers, stray ends of groups, field 0, unended groups, unknown wire types."""
    with pytest.raises(WireError):
        list(records(data, 0, len(data)))


def _heavy(side=8):
    """A model with weights in every place that can hold one."""
    count = side * side
    body = graph([node("Add", "x v", "t")], [], [value("t", (count,))], [constant("v", [1.0] * count)])
    other = graph([node("Neg", "x", "e")], [], [value("e", (count,))])
    made = model(
        [
            node("If", "c", "y", then_branch=body, else_branch=other),
            node("Constant", "", "k", value=constant("", [2.0] * count)),
            node("Reshape", "y to", "r"),
            node("Add", "r w", "s"),
            node("Mul", "s k2", "z"),
            node("Reshape", "k to", "k2"),
        ],
        [value("x", (count,)), value("c", (), TensorProto.BOOL)],
        [value("z", None)],
        [constant("w", [1.5] * count, (side, side)), constant("to", [side, side], dtype=TensorProto.INT64)],
    )
    nodes = list(made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([*nodes[:4], nodes[5], nodes[4]])
    made.graph.initializer[0].raw_data = bytes(4 * count)
    made.graph.initializer[0].ClearField("float_data")
    made.graph.doc_string = "kept " * 20
    return made


def test_a_skeleton_lacks_payloads_only():
    """All but the payload of large tensors is there, in order, and unknown fields too."""
    made = _heavy()
    data = made.SerializeToString() + record(999, b"unknown" * 20)
    thin = skeleton(data, keep_bytes=64)
    assert len(thin) < len(data) - 3 * 256
    assert thin.endswith(record(999, b"unknown" * 20))
    parsed = onnx.ModelProto.FromString(thin)
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.node[1].attribute[0].t.ClearField("float_data")
    for attribute in made.graph.node[0].attribute:
        for tensor in attribute.g.initializer:
            tensor.ClearField("float_data")
    assert parsed.graph == made.graph
    assert list(parsed.graph.initializer[1].int64_data) == [8, 8]
    assert skeleton(data, keep_bytes=len(data)) == data


def test_unpacked_payloads_are_left_out():
    """An old writer's repeated field, one record per element, is payload too."""
    tensor = record(8, b"w") + b"\x08\x40\x10\x01" + b"\x25\x00\x00\x80\x3f" * 64
    data = record(7, record(5, tensor))
    assert skeleton(data, keep_bytes=64) == record(7, record(5, record(8, b"w") + b"\x08\x40\x10\x01"))


def test_a_mapped_file_reads_as_a_whole_one(tmp_path, monkeypatch):
    """The graph of a large file is the graph of the same file read whole."""
    path = saved(_heavy(64), tmp_path)
    whole = read_onnx(path)
    monkeypatch.setattr(files, "MAX_READ_BYTES", 0)
    assert read_onnx(path) == whole
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"claims .* bytes more than there are"):
        read_onnx(path)


def test_a_file_over_two_gigabytes(tmp_path, monkeypatch):
    """Protobuf parses no such file; its skeleton is small (a sparse file; no digest is taken)."""
    size = 2**31 + 4096
    small = model([node("MatMul", "x w", "z")], [value("x", (2, 2**15))], [value("z", None)], [constant("u", [0.0])])
    head = record(8, b"w") + b"\x08" + varint(2**15) + b"\x08" + varint(2**14) + b"\x10\x01"
    tensor = head + varint(9 << 3 | 2) + varint(size)
    rest = small.graph.SerializeToString()
    opening = varint(5 << 3 | 2) + varint(len(tensor) + size) + tensor
    path = tmp_path / "huge.onnx"
    with path.open("wb") as file:
        file.write(b"\x08\x0a" + record(8, small.opset_import[0].SerializeToString()))
        file.write(varint(7 << 3 | 2) + varint(len(rest) + len(opening) + size) + rest + opening)
        file.truncate(file.tell() + size)

    class Digest:
        def hexdigest(self):
            return "0" * 64

    def sha256(data):
        assert isinstance(data, mmap.mmap)
        assert len(data) > 2**31
        return Digest()

    monkeypatch.setattr(hashlib, "sha256", sha256)
    read = read_onnx(path)
    assert [(t.name, t.size) for t in read.tensors] == [
        ("x", 2**18), ("u", 4), ("w", 2**31), ("z", 2**17)
    ]  # fmt: skip
    path.unlink()
