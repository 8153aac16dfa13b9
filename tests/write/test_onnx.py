"""The ONNX writer: nodes move, every other byte stays."""

import os

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from lowtide import files
from lowtide.errors import InputError
from lowtide.graph import Op
from lowtide.outputs import Outputs
from lowtide.read.onnx.reader import read_onnx
from lowtide.read.onnx.wire import records, varint
from lowtide.write import write_model
from lowtide.write.onnx import permuted, write_onnx
from lowtide.write.slots import fill_slots
from support.lines import lines_run
from support.onnx_builder import constant, graph, model, node, random_order, record, saved, value


def _diamond():
    return model(
        [node("Relu", "x", "a"), node("Exp", "x", "b"), node("Neg", "x", "c"), node("Sum", "a b c", "z")],
        [value("x")],
        [value("z")],
    )


def _apply(data, sequence):
    return b"".join(data[begin:end] for begin, end in permuted(data, sequence, "m"))


def _inverse(sequence):
    return sorted(range(len(sequence)), key=sequence.__getitem__)


@st.composite
def scattered_models(draw):
    """Bytes of a model with nodes of many lengths, other fields between them, and fields nobody knows; and a
    permutation of its nodes."""
    count = draw(st.integers(1, 8))
    text = st.text(max_size=200)
    nodes = []
    for i in range(count):
        made = node("Relu", f"x{i}", f"y{i}")
        made.doc_string = draw(text)
        made.metadata_props.add(key=draw(text), value=draw(text))
        if draw(st.booleans()):
            made.attribute.append(helper.make_attribute("w", constant("t", [0.5] * draw(st.integers(0, 99)))))
        unknown = record(draw(st.integers(100, 5000)), draw(st.binary(max_size=150)))
        nodes.append(record(1, made.SerializeToString() + unknown))
    rest = onnx.GraphProto(doc_string=draw(text))
    rest.quantization_annotation.add(tensor_name=draw(text)).quant_parameter_tensor_names.add(key="k", value="v")
    others = [
        rest.SerializeToString(),
        record(13, value("y0").SerializeToString()),
        b"\xd0\x3e" + varint(draw(st.integers(0, 2**63))),
        b"\xdb\x3e\x08\x01\xdc\x3e",
        record(2, draw(text).encode()),
        b"\xd5\x3eabcd",
    ]
    pieces = nodes.copy()
    for other in others:
        pieces.insert(draw(st.integers(0, len(pieces))), other)
    outside = onnx.ModelProto(ir_version=10, producer_name=draw(text))
    outside.metadata_props.add(key="k", value=draw(text))
    outside.training_info.add().algorithm.node.append(node("Relu", "p", "q"))
    after = record(8, helper.make_opsetid("", 20).SerializeToString()) + record(777, draw(st.binary(max_size=99)))
    data = outside.SerializeToString() + record(7, b"".join(pieces)) + after
    return data, draw(st.permutations(range(count)))


@pytest.mark.slow
@settings(deadline=None)
@given(scattered_models())
def test_a_permutation_moves_node_records_only(drawn):
    """The inverse permutation gives the identical bytes; what is no node is the same either way."""
    data, sequence = drawn
    moved = _apply(data, sequence)
    assert len(moved) == len(data)
    assert _apply(moved, _inverse(sequence)) == data

    def split(raw):
        (body, end), = ((r[3], r[4]) for r in records(raw, 0, len(raw)) if r[0] == 7)  # fmt: skip
        spans = [(r[2], r[4]) for r in records(raw, body, end) if r[0] == 1]
        others = [raw[r[2] : r[4]] for r in records(raw, body, end) if r[0] != 1]
        return [raw[a:b] for a, b in spans], others, raw[:body], raw[end:]

    nodes, *unmoved = split(data)
    nodes_after, *unmoved_after = split(moved)
    assert nodes_after == [nodes[i] for i in sequence]
    assert unmoved_after == unmoved


def test_write_follows_the_order(tmp_path):
    """The file holds the nodes in the order; with the inverse it is the input again."""
    source = saved(_diamond(), tmp_path)
    write_onnx(source, [2, 0, 1, 3], tmp_path / "out.onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "out.onnx").graph.node] == ["Neg", "Relu", "Exp", "Sum"]
    write_onnx(tmp_path / "out.onnx", [1, 2, 0, 3], tmp_path / "back.onnx")
    assert (tmp_path / "back.onnx").read_bytes() == source.read_bytes()


def test_a_mapped_file_is_written_alike(tmp_path, monkeypatch):
    """Files too large to read whole are copied in pieces, to the same bytes."""
    source = saved(_diamond(), tmp_path)
    write_onnx(source, [2, 0, 1, 3], tmp_path / "whole.onnx")
    monkeypatch.setattr(files, "MAX_READ_BYTES", 0)
    monkeypatch.setattr("lowtide.write.onnx._CHUNK_BYTES", 7)
    write_model(source, [2, 0, 1, 3], tmp_path / "mapped.onnx")
    assert (tmp_path / "mapped.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()


def test_folded_nodes_keep_their_slot_or_move_before_their_consumer(tmp_path):
    """Constant-only nodes stay, unless a consumer now comes earlier: then they move to just before it."""
    made = model(
        [
            node("Constant", "", "k0", value_floats=[1.0] * 4),
            node("Add", "x k0", "a"),
            node("Exp", "x", "b"),
            node("Constant", "", "k1", value_floats=[2.0] * 4),
            node("Neg", "k1", "k2"),
            node("Mul", "x k2", "c"),
            node("Constant", "", "k3", value_floats=[2.0] * 4),
            node("Sum", "a b c k3", "z"),
        ],
        [value("x")],
        [value("z")],
    )
    source, target = saved(made, tmp_path), tmp_path / "out.onnx"
    assert read_onnx(source).own_order == (1, 2, 5, 7)
    write_onnx(source, [2, 1, 5, 7], target)
    assert [n.output[0] for n in onnx.load(target).graph.node] == ["k0", "b", "a", "k1", "k2", "c", "k3", "z"]
    write_onnx(source, [5, 2, 1, 7], target)
    assert [n.output[0] for n in onnx.load(target).graph.node] == ["k0", "k1", "k2", "c", "b", "a", "k3", "z"]
    onnx.checker.check_model(onnx.load(target))
    write_onnx(target, _inverse([0, 3, 4, 5, 2, 1, 6, 7]), tmp_path / "back.onnx")
    assert (tmp_path / "back.onnx").read_bytes() == source.read_bytes()


def test_captured_tensors_hold_an_op_back(tmp_path):
    """An If whose body reads a tensor must stay after that tensor's producer."""
    then = graph([node("Neg", "a", "t")], [], [value("t")])
    other = graph([node("Exp", "x", "e")], [], [value("e")])
    made = model(
        [node("Relu", "x", "a"), node("If", "c", "z", then_branch=then, else_branch=other)],
        [value("x"), value("c", (), TensorProto.BOOL)],
        [value("z")],
    )
    with pytest.raises(InputError, match=r"puts op 1 'If.z' \(If\) before op 0 'Relu.a' \(Relu\)"):
        write_onnx(saved(made, tmp_path), [1, 0], tmp_path / "out.onnx")


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 1, 3, 2], "puts op 3 .* before op 2"),
        ([0, 1, 2], "op 3 is missing"),
        ([0, 1, 2, 2, 3], "op 2 is listed twice"),
        ([0, 1, 2, 3, 4], "op 4 is unknown"),
    ],
)
def test_wrong_orders_leave_nothing_behind(order, message, tmp_path):
    """An order of another model is refused, and no file appears or changes."""
    source, target = saved(_diamond(), tmp_path), tmp_path / "out.onnx"
    target.write_bytes(b"older")
    with pytest.raises(InputError, match=message):
        write_onnx(source, order, target)
    assert target.read_bytes() == b"older"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "out.onnx"]


def test_a_graph_in_two_pieces_is_refused(tmp_path):
    """Protobuf would merge the pieces; then there is no one place for the nodes."""
    made = _diamond()
    extra = onnx.ModelProto(graph=onnx.GraphProto(doc_string="more"))
    source = saved(made.SerializeToString() + extra.SerializeToString(), tmp_path)
    assert len(read_onnx(source).ops) == 4
    with pytest.raises(InputError, match="has 2 records of its graph; save it anew"):
        write_onnx(source, [0, 1, 2, 3], tmp_path / "out.onnx")


def _external(folder, location="weights/m.data"):
    made = model([node("Add", "x w", "a"), node("Exp", "a", "z")], [value("x")], [value("z")])
    tensor = TensorProto(name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    made.graph.initializer.append(tensor)
    folder.mkdir(exist_ok=True)
    return saved(made, folder)


def test_external_data_stays_beside_the_model(tmp_path):
    """In the same directory nothing is copied, and the weights need not exist; elsewhere it is refused."""
    source = _external(tmp_path / "home")
    write_onnx(source, [0, 1], source.parent / "out.onnx")
    assert (source.parent / "out.onnx").read_bytes() == source.read_bytes()
    (tmp_path / "away").mkdir()
    for copy in (False, True):
        with pytest.raises(InputError, match=r"'weights/m.data' in its folder, which does not exist"):
            write_onnx(source, [0, 1], tmp_path / "away" / "out.onnx", copy_external=copy)
    (source.parent / "weights").mkdir()
    (source.parent / "weights" / "m.data").write_bytes(b"0123456789abcdef")
    with pytest.raises(InputError, match=r"its weights are in 'weights/m.data' in its folder; .*--copy-external"):
        write_onnx(source, [0, 1], tmp_path / "away" / "out.onnx")
    assert not [p for p in (tmp_path / "away").rglob("*") if p.is_file()]


def test_external_data_is_copied_on_demand(tmp_path):
    """The weights come to the same place relative to the new file."""
    source = _external(tmp_path / "home")
    (source.parent / "weights").mkdir()
    (source.parent / "weights" / "m.data").write_bytes(b"0123456789abcdef")
    (tmp_path / "away").mkdir()
    write_onnx(source, [0, 1], tmp_path / "away" / "out.onnx", copy_external=True)
    assert (tmp_path / "away" / "weights" / "m.data").read_bytes() == b"0123456789abcdef"
    with pytest.raises(InputError, match="the output is the input"):
        write_onnx(source, [0, 1], source.parent / "weights" / "m.data", copy_external=True)


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "weights/../../secret", "link", ""])
def test_external_data_outside_the_directory_is_not_copied(location, tmp_path):
    """A path that leaves the model's directory is refused, also through a link."""
    (tmp_path / "secret").write_bytes(b"secret")
    source = _external(tmp_path / "home", location)
    (source.parent / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "away").mkdir()
    with pytest.raises(InputError, match="lies outside the model's directory"):
        write_onnx(source, [0, 1], tmp_path / "away" / "out.onnx", copy_external=True)
    assert list((tmp_path / "away").iterdir()) == []


def test_the_input_is_never_written(tmp_path):
    """Not under its own name, nor through a symbolic or hard link."""
    source = saved(_diamond(), tmp_path)
    data = source.read_bytes()
    (tmp_path / "soft.onnx").symlink_to(source)
    os.link(source, tmp_path / "hard.onnx")
    for target in (source, tmp_path / "soft.onnx", tmp_path / "hard.onnx", tmp_path / "." / "m.onnx"):
        with pytest.raises(InputError, match="the output is the input"):
            write_onnx(source, [2, 0, 1, 3], target)
    assert source.read_bytes() == data


def test_unwritable_outputs(tmp_path):
    """A missing directory, a directory, a file as directory, a device, a null byte: one line each."""
    source = saved(_diamond(), tmp_path)
    for target in (tmp_path / "no" / "out.onnx", source / "out.onnx", tmp_path, "/dev/null", "a\0b.onnx"):
        with pytest.raises(InputError) as caught:
            write_onnx(source, [2, 0, 1, 3], target)
        assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_outputs_appear_together_or_not_at_all(tmp_path):
    """Nothing has its name before the end of the block; an error, or Ctrl-C, leaves nothing."""
    with Outputs() as outputs:
        outputs.write(tmp_path / "a", b"1")
        outputs.write(tmp_path / "b", b"2")
        assert not (tmp_path / "a").exists()
        with pytest.raises(InputError, match="two outputs have this name"):
            outputs.write(tmp_path / "a", b"3")
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == b"12"
    with pytest.raises(KeyboardInterrupt), Outputs() as outputs:  # noqa: PT012 - the block is what is tested
        outputs.write(tmp_path / "a", b"new")
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_bytes() == b"1"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_random_orders_of_a_wide_model(tmp_path):
    """Twenty random orders, each written and read back: the same ops in that order, and reversible."""
    nodes = [node("Relu", "x", "t0")]
    for i in range(1, 30):
        nodes.append(node("Add", f"t{i // 2} t{i // 3}", f"t{i}"))
        if i % 7 == 0:
            nodes.append(node("Constant", "", f"k{i}", value_floats=[1.0] * 4))
            nodes.append(node("Mul", f"t{i} k{i}", f"m{i}"))
    made = model(nodes, [value("x")], [value(f"t{i}") for i in range(15, 30)] + [value(f"m{i}") for i in (7, 14)])
    source = saved(made, tmp_path)
    read = read_onnx(source)
    for seed in range(20):
        order = random_order(read, seed)
        write_onnx(source, order, tmp_path / "out.onnx")
        again = read_onnx(tmp_path / "out.onnx")
        assert [op.name for op in again.ops] == [read.op_by_id[i].name for i in order]


def test_work_is_linear_in_the_nodes():
    """Ten times the ops find their slots in at most eleven times the lines."""

    def lines(count: int) -> int:
        ops = [Op(i, (max(0, i - 1), max(0, i - 9)), (i + 1,)) for i in range(count)]
        assert fill_slots(ops, set(), range(count), "m") == list(range(count))
        return lines_run(lambda: fill_slots(ops, set(), range(count), "m"))

    assert 0 < lines(2000) < 11 * lines(200)


@pytest.mark.parametrize("order", [None, [2, 3, 0, 1]])
def test_a_file_that_is_not_sorted_is_written_sorted(order, tmp_path):
    """Nodes stand in the order asked for, folded ones before what reads them, and the checker takes the file."""
    made = model(
        [
            node("Mul", "c k", "a"), node("Add", "a d", "z"), node("Cast", "x", "c", to=1),
            node("Relu", "c", "d"), node("Neg", "n", "k"), node("Constant", "", "n", value_float=2.0),
        ],
        [value("x", (4,), TensorProto.FLOAT16)],
        [value("z")],
    )  # fmt: skip
    path = saved(made, tmp_path)
    order = order or [op.id for op in read_onnx(path).ops]
    write_onnx(path, order, tmp_path / "out.onnx")
    written = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(written, full_check=True)
    running = [n.name for n in written.graph.node if n.op_type not in ("Constant", "Neg")]
    assert running == [made.graph.node[i].name for i in order]
