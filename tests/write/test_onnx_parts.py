"""Models in parts: what is not cut stays byte for byte, what nobody reads any more is gone, and the rest runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowtide
from lowtide import files
from lowtide.errors import InputError
from lowtide.read import read_model
from lowtide.read.onnx.wire import records
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.write import onnx_parts
from lowtide.write.onnx_parts import write_onnx_parts
from support.onnx_builder import constant, graph, model, node, random_order, record, saved, value

pytest.importorskip("onnxruntime", reason="what is written is run in onnxruntime, which is not installed")
from support.part_runs import check_file, difference, differs, feeds, session


def _chain(**changes: object) -> onnx.ModelProto:
    """Two products, of which the second is cut in these tests, and a sum with a weight that nobody cuts."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("w", (4, 6)), ("v", (6, 8)), ("b", (8,)), ("rest", (8,)))
    ]
    nodes = [
        node("MatMul", "x w", "a"),
        node("MatMul", "a v", "c"),
        node("Add", "c b", "d"),
        node("Mul", "d rest", "y"),
    ]
    declared = [value("a", (3, 6)), value("c", (3, 8)), value("d", (3, 8))]
    return model(nodes, [value("x", (3, 4))], [value("y", (3, 8))], weights, declared, **changes)  # type: ignore


def _columns(path: Path, stripes: int = 2) -> tuple[Cutter, PartGraph]:
    """The second product and the sum behind it, cut along columns."""
    cutter = Cutter(read_model(path))
    ops = {op.outputs[0]: op.id for op in cutter.graph.ops}
    names = {t.name: t.id for t in cutter.graph.tensors}
    within = [ops[names["c"]], ops[names["d"]]]
    axis = next(a for a in cutter.axes(within[0]) if cutter.dim(within[0], names["c"], a) == 1)
    axes = cutter.grow(within, within[0], axis)
    assert axes is not None
    return cutter, apply(cutter, [cutter.region(within, axes, stripes)])


def _written(source: Path, parts: PartGraph, name: str = "parts.onnx", **given: bool) -> Path:
    target = source.parent / name
    write_onnx_parts(source, parts, parts.graph.own_order, target, **given)
    return target


def _inside(data: bytes) -> list[bytes]:
    """Records of the graph, without those that say where they lie."""
    ((_, _, _, body, end),) = (r for r in records(data, 0, len(data)) if r[0] == 7)
    return [data[begin:stop] for _, _, begin, _, stop in records(data, body, end)]


def test_what_is_not_cut_stays_byte_for_byte(tmp_path: Path) -> None:
    """Nodes, initializers, fields that nobody knows, and everything around the graph."""
    made = _chain()
    made.metadata_props.add(key="k", value="v")
    made.graph.doc_string = "words"
    made.graph.node[0].doc_string = "more words"
    data = made.SerializeToString()
    unknown = record(777, b"nobody knows")
    ((_, _, begin, body, end),) = (r for r in records(data, 0, len(data)) if r[0] == 7)
    data = unknown + data[:begin] + record(7, unknown + data[body:end]) + data[end:] + unknown
    source = saved(data, tmp_path)
    cutter, parts = _columns(source)
    assert not differs(source, tmp_path, cutter, parts)
    after = (tmp_path / "parts.onnx").read_bytes()
    old, new = _inside(data), _inside(after)
    gone = {2: "MatMul.c", 3: "Add.d"}
    kept = [r for r in old if not any(word.encode() in r for word in gone.values())]
    lost = [r for r in kept if r not in new]
    assert sorted(_names_of(lost)) == ["b", "c", "v"]  # two weights of which rows are left, and the type of what is not
    outside = [[d[b:e] for f, _, b, _, e in records(d, 0, len(d)) if f != 7] for d in (data, after)]
    assert outside[0] == outside[1]


def _names_of(lost: list[bytes]) -> list[str]:
    whole = onnx.GraphProto.FromString(b"".join(lost))
    return [t.name for t in (*whole.initializer, *whole.value_info)]


def test_nothing_dead_is_left(tmp_path: Path) -> None:
    """Weights that only parts of a node read are there in rows only, and what lay between parts is not declared."""
    source = saved(_chain(), tmp_path)
    _, parts = _columns(source)
    after = onnx.load(_written(source, parts))
    read = {name for n in after.graph.node for name in n.input}
    made = {name for n in after.graph.node for name in n.output}
    assert {t.name for t in after.graph.initializer} <= read
    assert {v.name for v in after.graph.value_info} <= made
    floats = [t for t in after.graph.initializer if t.data_type == TensorProto.FLOAT]
    assert sum(int(np.prod(t.dims)) for t in floats) == 4 * 6 + 6 * 8 + 8 + 8


def test_what_was_dead_before_stays(tmp_path: Path) -> None:
    """It is none of ours."""
    made = _chain()
    made.graph.initializer.append(constant("unread", [1.0, 2.0]))
    made.graph.node.insert(0, node("Constant", "", "nothing", value_float=1.0))
    source = saved(made, tmp_path)
    _, parts = _columns(source)
    after = onnx.load(_written(source, parts))
    assert "unread" in {t.name for t in after.graph.initializer}
    assert after.graph.node[0] == made.graph.node[0]


def test_any_order(tmp_path: Path) -> None:
    """Nodes stand in the order that is given; one that does not fit is refused."""
    source = saved(_chain(), tmp_path)
    cutter, parts = _columns(source, 4)
    for seed in range(3):
        order = random_order(parts.graph, seed)
        assert not differs(source, tmp_path, cutter, parts, order)
        names = [n.name for n in onnx.load(tmp_path / "parts.onnx").graph.node]
        assert names == [parts.graph.op_by_id[o].name for o in order]
    target = tmp_path / "wrong.onnx"
    for order in (parts.graph.own_order[::-1], parts.graph.own_order[1:], (*parts.graph.own_order, 0)):
        with pytest.raises(InputError, match="order"):
            write_onnx_parts(source, parts, order, target)
    assert not target.exists()


@pytest.mark.parametrize("rows", ["rows", "columns"])
def test_external_weights(rows: str, tmp_path: Path) -> None:
    """Rows in one piece stay where they are; others are copied; the file beside the model is needed for those only."""
    made = _chain()
    if rows == "rows":
        made.graph.node[1].CopyFrom(helper.make_node("Gemm", ["a", "vt"], ["c"], name="MatMul.c", transB=1))
        whole = numpy_helper.to_array(made.graph.initializer[1])
        made.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.ascontiguousarray(whole.T), "vt"))
    source = tmp_path / "m.onnx"
    onnx.save(made, source, save_as_external_data=True, location="w.bin", size_threshold=0)
    cutter, parts = _columns(source)
    assert not differs(source, tmp_path, cutter, parts)
    after = onnx.load(tmp_path / "parts.onnx", load_external_data=False)
    cut = [t for t in after.graph.initializer if t.name.startswith("v") and "rows" in t.name]
    outside = [t.data_location == TensorProto.EXTERNAL for t in cut]
    assert outside == [rows == "rows"] * 2
    with pytest.raises(InputError, match="--copy-external"):
        write_onnx_parts(source, parts, parts.graph.own_order, tmp_path / "there" / "m.onnx")
    (tmp_path / "there").mkdir()
    other = tmp_path / "there" / "m.onnx"
    write_onnx_parts(source, parts, parts.graph.own_order, other, copy_external=True)
    assert difference(source, other, feeds(source)) <= 1e-5
    (tmp_path / "w.bin").unlink()
    if rows == "columns":
        with pytest.raises(InputError, match=r"w\.bin"):
            _written(source, parts, "without.onnx")
    else:
        _written(source, parts, "without.onnx")


def test_external_weights_that_end_too_early(tmp_path: Path) -> None:
    """Rows that are not there are not made up."""
    source = tmp_path / "m.onnx"
    onnx.save(_chain(), source, save_as_external_data=True, location="w.bin", size_threshold=0)
    _, parts = _columns(source)
    (tmp_path / "w.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="ends after"):
        _written(source, parts)


def test_weights_that_a_node_computes(tmp_path: Path) -> None:
    """Their rows are slices of what it makes, and fold when they are read again; a Constant's are rows of its value."""
    for kind in ("Neg", "Constant"):
        made = _chain()
        held = made.graph.initializer[1]
        if kind == "Neg":
            held.name = "negative"
            made.graph.node.insert(0, node("Neg", "negative", "v"))
        else:
            held.name = ""
            made.graph.node.insert(0, node("Constant", "", "v", value=held))
            del made.graph.initializer[1]
        source = saved(made, tmp_path, f"{kind}.onnx")
        cutter, parts = _columns(source)
        assert not differs(source, tmp_path, cutter, parts)
        kinds = [n.op_type for n in onnx.load(tmp_path / "parts.onnx").graph.node]
        assert (kinds.count("Slice"), kinds.count(kind)) == ((2, 1) if kind == "Neg" else (0, 0))


def test_a_weight_that_may_be_fed(tmp_path: Path) -> None:
    """An initializer that is a graph input is a default: whoever feeds another one gets that one's rows."""
    made = _chain()
    made.graph.input.append(value("v", (6, 8)))
    source = saved(made, tmp_path)
    cutter, parts = _columns(source)
    assert not differs(source, tmp_path, cutter, parts)
    other = {**feeds(source), "v": np.ones((6, 8), np.float32)}
    assert difference(source, tmp_path / "parts.onnx", other) <= 1e-5
    (before,), (after,) = (session(p).run(None, other) for p in (source, tmp_path / "parts.onnx"))
    assert np.allclose(before, after)


def test_old_files_list_every_weight_as_an_input(tmp_path: Path) -> None:
    """Before IR version 4; so do the new ones."""
    made = _chain(opset=9)
    made.ir_version = 3
    for t in made.graph.initializer:
        made.graph.input.append(value(t.name, tuple(t.dims)))
    source = saved(made, tmp_path)
    cutter, parts = _columns(source)
    assert not differs(source, tmp_path, cutter, parts)
    after = onnx.load(tmp_path / "parts.onnx")
    assert {t.name for t in after.graph.initializer} == {v.name for v in after.graph.input} - {"x"}


def test_a_mapped_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files are mapped, and give the same bytes."""
    source = saved(_chain(), tmp_path)
    _, parts = _columns(source)
    whole = _written(source, parts).read_bytes()
    monkeypatch.setattr(files, "MAX_READ_BYTES", 0)
    assert _written(source, parts, "mapped.onnx").read_bytes() == whole


def test_names_are_new(tmp_path: Path) -> None:
    """Whatever the model's own names are, in bodies too, no new one is among them."""
    made = _chain()
    taken = ["c/rows_0-3_0-4", "v/rows_0-6_0-4", "MatMul.c/0-4", "d/join", "c/rows_0-4", "v/rows_0-4"]
    inner = graph([node("Relu", "d", taken[0])], [], [value(taken[0], (3, 8))])
    other = graph([node("Identity", "d", "e")], [], [value("e", (3, 8))])
    made.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    made.graph.input.append(value(taken[4], (2,)))
    made.graph.node.extend(node("Relu", taken[4], taken[k]) for k in (1, 5))
    made.graph.node.append(node("If", "yes", "z", then_branch=inner, else_branch=other))
    made.graph.node[0].name = taken[2]
    made.graph.node[3].name = taken[3]
    made.graph.output.extend([value(taken[1], (2,)), value(taken[5], (2,)), value("z", (3, 8))])
    source = saved(made, tmp_path)
    cutter, parts = _columns(source)
    assert not differs(source, tmp_path, cutter, parts)
    after = onnx.load(tmp_path / "parts.onnx")
    names = [name for n in after.graph.node for name in n.output] + [t.name for t in after.graph.initializer]
    assert len({*names, taken[0]}) == len(names) + 1
    assert len({n.name for n in after.graph.node}) == len(after.graph.node)


def test_another_model_is_refused(tmp_path: Path) -> None:
    """Parts belong to the file that was cut."""
    _, parts = _columns(saved(_chain(), tmp_path))
    made = _chain()
    made.graph.node[3].input[1] = "b"
    with pytest.raises(InputError, match="not the model that was tiled"):
        _written(saved(made, tmp_path, "other.onnx"), parts)


def test_training_steps_are_refused(tmp_path: Path) -> None:
    """They speak of weights that would be gone."""
    made = _chain()
    made.training_info.add().algorithm.CopyFrom(graph([node("Relu", "v", "u")], [], [value("u", (6, 8))]))
    source = saved(made, tmp_path)
    _, parts = _columns(source)
    with pytest.raises(InputError, match="training"):
        _written(source, parts)


def test_a_file_that_would_be_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ONNX file holds 2 GiB."""
    source = saved(_chain(), tmp_path)
    _, parts = _columns(source)
    monkeypatch.setattr(onnx_parts, "_MOST_BYTES", 100)
    with pytest.raises(InputError, match="2 GiB"):
        _written(source, parts)


def test_other_versions(tmp_path: Path) -> None:
    """Slices with attributes and with operands; the file reads back with the part graph's sizes."""
    for opset in (7, 9, 11, 13, 21):
        nodes = [
            node("Conv", "x w", "a", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            node("Relu", "a", "b"),
            node("MaxPool", "b", "y", kernel_shape=[2, 2], strides=[2, 2]),
        ]
        weights = [constant("w", [0.1 * i for i in range(36)], (2, 2, 3, 3))]
        made = model(nodes, [value("x", (1, 2, 8, 6))], [value("y", (1, 2, 4, 3))], weights, opset=opset)
        source = saved(made, tmp_path, f"{opset}.onnx")
        cutter = Cutter(read_model(source))
        axes = cutter.grow(cutter.graph.own_order, 2, 2)
        assert axes is not None
        parts = apply(cutter, [cutter.region(cutter.graph.own_order, axes, 2)])
        assert not differs(source, tmp_path, cutter, parts)
        check_file(source, tmp_path / "parts.onnx", parts.graph)


def test_free_dimensions_are_those_that_were_cut(tmp_path: Path) -> None:
    """Parts hold for one size: the runtime refuses another one, where it would leave out the rows beyond."""
    weights = [
        numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (("w", (8, 64)), ("v", (64, 8)))
    ]
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), node("MatMul", "b v", "y")]
    free = [value("x", ("n", 8))], [value("y", ("n", 8))]
    source = saved(model(nodes, *free, weights), tmp_path)
    cutter = Cutter(read_model(source, dims={"n": 8}))
    ops = [op.id for op in cutter.graph.ops]
    last = cutter.graph.op_by_id[ops[-1]]
    rows = next(a for a in cutter.axes(last.id) if cutter.dim(last.id, last.outputs[0], a) == 0)
    axes = cutter.grow(ops, last.id, rows)
    assert axes is not None
    target = _written(source, apply(cutter, [cutter.region(ops, axes, 4)]))
    written = onnx.load(target).graph
    sizes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in (*written.input, *written.output)]
    assert sizes == [[8, 8], [8, 8]]
    feed = {"x": np.ones((8, 8), np.float32)}
    assert difference(source, target, feed) <= 1e-5
    with pytest.raises(Exception, match="invalid dimensions"):
        session(target).run(None, {"x": np.ones((12, 8), np.float32)})


@pytest.mark.parametrize(("opset", "inputs"), [(10, "b s"), (11, "b roi s"), (12, "b roi s"), (13, "b _ s")])
def test_resize_in_parts_keeps_its_empty_region_of_interest(tmp_path: Path, opset: int, inputs: str) -> None:
    """A Resize of version 11 may not be without an operand that is empty; the plan holds, and onnxruntime opens it."""
    rng = np.random.default_rng(1)
    weights = [
        *(
            constant(n, [*rng.standard_normal(9 * 12).tolist()][: a * b], (a, b, 1, 1))
            for n, a, b in (("w", 12, 3), ("v", 2, 12))
        ),
        constant("roi", (), (0,)),
        constant("s", [1, 1, 2, 2]),
    ]
    nodes = [node("Conv", "x w", "a"), node("Relu", "a", "b"), node("Resize", inputs, "c"), node("Conv", "c v", "y")]
    made = model(nodes, [value("x", (1, 3, 16, 16))], [value("y", (1, 2, 32, 32))], weights, opset=opset)
    source, target = saved(made, tmp_path), tmp_path / "parts.onnx"
    plan = lowtide.research.plan(source, allow="tile", time=2)
    plan.apply(source, target)
    resizes = [n for n in onnx.load(target).graph.node if n.op_type == "Resize"]
    assert len(resizes) > 1
    onnx.checker.check_model(str(target))
    assert not difference(source, target, feeds(source))


def test_an_op_of_constants_that_runs_is_written_once(tmp_path: Path) -> None:
    """Under a target that folds nothing it is an op like others, whole or in parts, and not also a constant's."""
    rng = np.random.default_rng(2)
    weights = [
        numpy_helper.from_array(rng.standard_normal((64, 8)).astype(np.float32), "w"),
        numpy_helper.from_array(np.array([1], np.int64), "axes"),
    ]
    nodes = [
        node("Transpose", "w", "v", perm=[1, 0]),
        node("MatMul", "x v", "a"),
        node("Sigmoid", "a", "b"),
        node("ReduceMax", "b axes", "y"),
    ]
    made = model(nodes, [value("x", (32, 8))], [value("y", (32, 1))], weights, opset=18)
    source, target = saved(made, tmp_path), tmp_path / "parts.onnx"
    plan = lowtide.research.plan(source, target="onnxruntime", allow="tile", time=1)
    plan.apply(source, target)
    written = onnx.load(target).graph.node
    assert sum(n.op_type == "Sigmoid" for n in written) > 1
    assert len({n.name for n in written}) == len({name for n in written for name in n.output}) == len(written)
    assert difference(source, target, feeds(source)) <= 1e-5
