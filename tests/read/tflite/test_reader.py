"""Reading .tflite files: structure, kinds, order of what has state, and files that are broken."""

from __future__ import annotations

import hashlib
import random
import struct
from pathlib import Path

import pytest

from lowtide.api.models import open_dimensions
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.read.tflite.dependencies import control_dependencies, dependency_bytes
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import read_tflite
from lowtide.read.tflite.wire import Flatbuffer, Table, WireError
from support.tflite_builder import Net, branches, residual, s


def written(folder: Path, net: Net) -> Path:
    """The model as a file."""
    path = folder / "m.tflite"
    path.write_bytes(net.bytes())
    return path


def test_ids_sizes_and_kinds_are_those_of_subgraph_0(tmp_path: Path):
    """Op and tensor ids are indices, sizes are bytes, weights are constants."""
    path = written(tmp_path, residual())
    graph = read_tflite(path)
    assert [op.id for op in graph.ops] == list(range(8))
    assert [op.type for op in graph.ops][:3] == ["CONV_2D", "CONV_2D", "ADD"]
    assert graph.tensor_by_id[0].kind is Kind.INPUT
    assert graph.tensor_by_id[0].size == 16 * 16 * 3
    assert graph.tensor_by_id[1].kind is Kind.CONSTANT
    assert graph.tensor_by_id[graph.ops[-1].outputs[0]].kind is Kind.OUTPUT
    assert graph.ops[0].flops == 2 * 16 * 16 * 8 * 27
    assert graph.ops[0].attributes["stride_w"] == 1
    assert graph.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_reads_constants_only_is_not_folded(tmp_path: Path):
    """Both TFLite runtimes compute it like everything else."""
    net = Net()
    x = net.tensor((4,), "float32")
    c = net.tensor((4,), "int8", [1, 2, 3, 4])
    f = net.tensor((4,), "float32")
    y = net.tensor((4,), "float32")
    net.op("DEQUANTIZE", [c], [f], s.DequantizeOptionsT())
    net.op("ADD", [x, f], [y], s.AddOptionsT())
    net.ends([x], [y])
    graph = read_tflite(written(tmp_path, net))
    assert not graph.folded
    assert graph.tensor_by_id[f].kind is Kind.ACTIVATION


def test_variables_are_no_part_of_the_arena_and_keep_their_order(tmp_path: Path):
    """Operators that share a variable tensor run in the order of the file."""
    net = Net()
    x = net.tensor((4,), "float32")
    v = net.tensor((4,), "float32", variable=True)
    a, b = net.tensor((4,), "float32"), net.tensor((4,), "float32")
    net.op("SVDF", [x, -1, v], [a])
    net.op("SVDF", [x, -1, v], [b])
    net.ends([x], [a, b])
    graph = read_tflite(written(tmp_path, net))
    assert graph.tensor_by_id[v].kind is Kind.CONSTANT
    assert graph.ops[0].inputs == (x, v)
    assert graph.ops[1].after == (0,)


def test_operators_with_state_keep_their_order(tmp_path: Path):
    """Custom operators are unknown, so they may have state; an IF has what its branches have."""
    net = Net()
    x = net.tensor((4,), "float32")
    made = [net.tensor((4,), "float32") for _ in range(4)]
    net.op("mine", [x], [made[0]], custom=True)
    net.op("RELU", [x], [made[1]])
    net.op("other", [x], [made[2]], custom=True)
    o = s.IfOptionsT()
    o.thenSubgraphIndex = o.elseSubgraphIndex = 1
    net.op("IF", [x, x], [made[3]], o)
    net.ends([x], made)
    net.subgraph()
    y = net.tensor((4,), "float32")
    z = net.tensor((4,), "float32")
    net.op("RANDOM_UNIFORM", [y], [z])
    net.ends([y], [z])
    graph = read_tflite(written(tmp_path, net))
    assert [op.after for op in graph.ops] == [(), (), (0,), (2,)]
    assert graph.ops[0].type == "CUSTOM:mine"


def test_an_if_without_state_is_free(tmp_path: Path):
    """Its branches only compute."""
    net = Net()
    x = net.tensor((4,), "float32")
    made = [net.tensor((4,), "float32") for _ in range(2)]
    for m in made:
        o = s.IfOptionsT()
        o.thenSubgraphIndex = o.elseSubgraphIndex = 1
        net.op("IF", [x, x], [m], o)
    net.ends([x], made)
    net.subgraph()
    y = net.tensor((4,), "float32")
    z = net.unary("RELU", y)
    net.ends([y], [z])
    assert [op.after for op in read_tflite(written(tmp_path, net)).ops] == [(), ()]


def test_control_dependencies_become_precedences(tmp_path: Path):
    """Pairs of operators in the metadata; written and read back alike."""
    net = branches(2)
    pairs = [[(1, 0), (0, 200)]]
    data = dependency_bytes(pairs)
    model = parse_tflite(net.bytes(), "m")
    assert control_dependencies(data, len(model.subgraphs), "m") == pairs
    net.metadata("model_control_dependencies", dependency_bytes([[(0, 1)]]))
    assert read_tflite(written(tmp_path, net)).ops[1].after == (0,)


@pytest.mark.parametrize(
    "data", [b"", b"\x02\x01\x00", b"\x01\x05", b"\x01\x01\x07\x00", b"\xff" * 9, b"\x01\x01\x01\x00\x7e"]
)
def test_broken_control_dependencies(tmp_path: Path, data: bytes):
    """Cut short, another version, another number of subgraphs, an operator that does not exist."""
    net = branches(2)
    net.metadata("model_control_dependencies", data or b"\x80")
    with pytest.raises(InputError, match="model_control_dependencies"):
        read_tflite(written(tmp_path, net))


def test_open_dimensions(tmp_path: Path):
    """A shape with a stand-in for an open dimension is taken; one without any is refused."""
    net = Net()
    x = net.tensor((1, 4), "float32", signature=(-1, 4))
    net.ends([x], [net.unary("RELU", x)])
    assert parse_tflite(net.bytes(), "m").subgraphs[0].tensors[0].dynamic
    assert open_dimensions(written(tmp_path, net)) == ["'t0' is planned as [1, 4]"]
    assert open_dimensions(written(tmp_path, residual())) == open_dimensions("none.tflite") == []
    net.graph.tensors[0].shape = [-1, 4]
    with pytest.raises(InputError, match="fixed shapes"):
        read_tflite(written(tmp_path, net))


def test_other_files_and_indices_that_name_nothing(tmp_path: Path):
    """One line each, with the operator or tensor."""
    path = tmp_path / "m.tflite"
    path.write_bytes(b"hello, this is no model")
    with pytest.raises(InputError, match="TFL3"):
        read_tflite(path)
    for broken, said in (("inputs", "reads tensor 99"), ("outputs", "makes tensor 99"), ("opcodeIndex", "code 99")):
        net = branches(2)
        setattr(net.graph.operators[1], broken, 99 if broken == "opcodeIndex" else [99])
        with pytest.raises(InputError, match=said):
            read_tflite(written(tmp_path, net))


@pytest.mark.slow
def test_broken_bytes_are_refused_or_read(tmp_path: Path):
    """Truncated anywhere, or with bytes and words changed: a graph, or one clear line."""
    whole = residual(8).bytes()
    draw = random.Random(0)
    path = tmp_path / "m.tflite"
    seen = {"graph": 0, "refused": 0}
    for turn in range(1500):
        data = bytearray(whole)
        if turn % 3 == 0:
            del data[draw.randrange(len(data)) :]
        else:
            for _ in range(draw.randrange(1, 6)):
                at = draw.randrange(len(data) - 4)
                kind = draw.randrange(3)
                if kind == 0:
                    data[at] = draw.randrange(256)
                else:
                    at = at // 4 * 4
                    word = (
                        draw.randrange(2**32) if kind == 1 else draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data)))
                    )
                    data[at : at + 4] = word.to_bytes(4, "little")
        path.write_bytes(bytes(data) or b"\0")
        try:
            read_tflite(path)
            seen["graph"] += 1
        except InputError:
            seen["refused"] += 1
    assert min(seen.values()) > 100, seen


def test_vectors_shared_over_and_over_are_refused():
    """A file whose tables all name one long vector cannot make the reader work for ever."""
    tables, elements = 20_000, 50_000
    vtable = struct.pack("<HHH", 6, 8, 4)
    root_at = 12
    list_at = root_at + 8
    shared_vtable_at = list_at + 4 + 4 * tables
    table_at = shared_vtable_at + 8
    vector_at = table_at + 8
    data = struct.pack("<I", root_at) + vtable + b"\0\0" + struct.pack("<iI", root_at - 4, list_at - root_at - 4)
    data += struct.pack("<I", tables)
    data += b"".join(struct.pack("<I", table_at - (list_at + 4 + 4 * i)) for i in range(tables))
    data += vtable + b"\0\0" + struct.pack("<iI", table_at - shared_vtable_at, vector_at - table_at - 4)
    data += struct.pack("<I", elements) + bytes(4 * elements)
    found = Flatbuffer(data).root().tables(0)
    assert len(found) == tables
    assert found[0].integers(0) == (0,) * elements
    with pytest.raises(WireError, match="over and over"):
        list(map(Table.integers, found, [0] * tables))
