"""torch.export archives as graphs: sizes, views, what is written into, what keeps its turn."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.graph import MAX_NESTED, Array, Graph, Kind
from lowtide.read.aten.trace import Form
from lowtide.read.pt2.reader import Pt2File
from lowtide.target import BUILT_IN
from lowtide.verify.check.memory import work_out
from support.pt2_builder import archive, branches, call, document, meta, symbol, tensor


def read(path: Path, program: object, **dims: int) -> lowtide.Graph:
    """The graph of a document."""
    return lowtide.load(archive(path / "m.pt2", program), dims)  # type: ignore[arg-type]


def test_ids_sizes_and_kinds(tmp_path: Path) -> None:
    """Ops by position, tensors by first appearance, weights constant, sizes from the metadata."""
    graph = read(tmp_path, branches(2))
    assert [op.type for op in graph.ops][:3] == ["aten.linear.default", "aten.linear.default", "aten.relu.default"]
    assert [op.id for op in graph.ops] == list(range(7))
    by_name = {t.name: t for t in graph.tensors}
    assert [t.name for t in graph.tensors][:4] == ["w", "x", "pre0", "pre1"]
    assert by_name["w"].kind is Kind.CONSTANT
    assert by_name["x"].kind is Kind.INPUT
    assert by_name["s1"].kind is Kind.OUTPUT
    assert (by_name["wide0"].size, by_name["wide0"].shape, by_name["wide0"].dtype) == (2048, (1, 64, 8), "float32")


def test_auto_is_torch_and_the_order_gets_better(tmp_path: Path) -> None:
    """Breadth-first order needs every wide tensor at once, the best one only two."""
    path = archive(tmp_path / "m.pt2", branches(4))
    plan = lowtide.research.plan(path)
    assert plan.target == "torch"
    assert plan.own_order_peak_bytes == 5 * 2048
    assert plan.peak_bytes == 2 * 2048 + 32
    assert plan.optimal


def test_views_are_aliases_and_reshapes_where_strides_allow(tmp_path: Path) -> None:
    """A slice begins inside its source; reshape of a transposed tensor copies; contiguous of a whole one does not."""
    nodes = [
        call("exp.default", ["x"], ["a"]),
        call("split.Tensor", ["a"], {"as_tensors": [{"name": "l"}, {"name": "r"}]}),
        call("transpose.int", ["r"], ["t"]),
        call("reshape.default", ["t"], ["copy"]),
        call("contiguous.default", ["copy"], ["same"]),
        call("view.default", ["same"], ["v"]),
        call("sum.default", ["v"], ["y"]),
        call("dropout.default", ["l"], ["d"], train={"as_bool": False}),
    ]
    metas = {
        "x": meta([4, 6]), "a": meta([4, 6]), "l": meta([2, 6]), "r": meta([2, 6], offset=12),
        "t": meta([6, 2], [1, 6], 12), "copy": meta([12]), "same": meta([12]), "v": meta([3, 4]), "y": meta([]),
        "d": meta([2, 6]),
    }  # fmt: skip
    graph = read(tmp_path, document(nodes, ["x"], ["y", "d"], metas))
    by_name = {t.name: t for t in graph.tensors}
    a, copy = by_name["a"].id, by_name["copy"].id
    assert [(by_name[n].alias_of, by_name[n].alias_offset) for n in ("l", "r", "t", "d")] == [
        (a, 0), (a, 48), (a, 48), (a, 0)
    ]  # fmt: skip
    assert by_name["copy"].alias_of is None
    assert [by_name[n].alias_of for n in ("same", "v")] == [copy, copy]
    assert by_name["y"].size == 4


def test_what_is_written_into_keeps_its_place(tmp_path: Path) -> None:
    """Readers before an ``add_`` stay before it, readers after it behind it, through views too."""
    nodes = [
        call("exp.default", ["x"], ["a"]),
        call("view.default", ["a"], ["v"]),
        call("sum.default", ["v"], ["before"]),
        call("add_.Tensor", ["a", "x"], ["a2"]),
        call("sum.default", ["v"], ["behind"]),
        call("sub.Tensor", ["before", "behind"], ["y"]),
    ]
    metas = {n: meta([4]) for n in ("x", "a", "v", "a2")} | {n: meta([]) for n in ("before", "behind", "y")}
    graph = read(tmp_path, document(nodes, ["x"], ["y"], metas))
    assert set(graph.ops[3].after) >= {2}
    assert 3 in graph.ops[4].after
    assert {t.name: t.alias_of for t in graph.tensors}["a2"] == {t.name: t.id for t in graph.tensors}["a"]
    plan = lowtide.research.plan(graph)
    assert plan.order.index(2) < plan.order.index(3) < plan.order.index(4)


def test_random_and_unknown_operators_keep_their_turn(tmp_path: Path) -> None:
    """Two draws stay in their order, and so do two operators of somebody's own library."""
    nodes = [
        call("rand.default", [], ["a"]), call("torch.ops.mine.log.default", ["x"], ["b"]),
        call("bernoulli.default", ["x"], ["c"]), call("add.Tensor", ["a", "b"], ["y"]),
    ]  # fmt: skip
    graph = read(tmp_path, document(nodes, ["x"], ["y", "c"], {n: meta([4]) for n in "xabcy"}))
    assert [op.after for op in graph.ops] == [(), (0,), (1,), ()]


def test_symbols_take_a_size_from_dim(tmp_path: Path) -> None:
    """By symbol or by input and axis; expressions are worked out; a free one is named with the example's size."""
    nodes = [
        call("sym_size.int", ["x"], {"as_sym_int": {"as_name": "n"}}),
        call("cat.default", [{"as_tensors": [{"name": "x"}, {"name": "x"}]}], ["c"]),
        call("view.default", ["c", {"as_sym_ints": [{"as_name": "n"}, {"as_int": -1}]}], ["y"]),
    ]
    spelt = "Symbol('s0', positive=True, integer=True)"
    shape = [symbol(f"Add(Mul(Integer(2), {spelt}), FloorDiv(s0, 2))", 10), 3]
    metas = {"x": meta([symbol(spelt, 4), 3]), "c": meta(shape, [3, 1]), "y": meta(shape, [3, 1])}
    made = document(nodes, ["x"], ["y"], metas)
    path = archive(tmp_path / "m.pt2", made)
    with pytest.raises(InputError, match=r"free: s0 \(4 in the example\).*--dim"):
        lowtide.load(path)
    for dims in ({"s0": 6}, {"x:0": 6}):
        graph = lowtide.load(path, dims)
        assert {t.name: t.size for t in graph.tensors} == {"x": 72, "n": 0, "c": 180, "y": 180}
    assert graph.ops[2].inputs == (2, 1)
    with pytest.raises(InputError, match="no free dimension 's9'"):
        lowtide.load(path, {"s0": 6, "s9": 1})


def inside(graph: Graph, target: str) -> int:
    """Bytes that the bodies of the first op need, as the planner and as the checker work them out."""
    rules = BUILT_IN[target]
    planned = memory_model(graph, rules).workspace[0]
    assert planned == work_out(graph, rules).workspace[0]
    return planned


def test_a_body_is_workspace(tmp_path: Path) -> None:
    """A higher-order operator needs the peak of its largest body, beyond what it makes."""
    inner = document([call("exp.default", ["p"], ["q"]), call("sin.default", ["q"], ["r"])], ["p"], ["r"],
                     {n: meta([8]) for n in "pqr"})  # fmt: skip
    body = {"as_graph": {"name": "b", "graph": inner["graph_module"]["graph"]}}
    nodes = [call("torch.ops.higher_order.wrap", [body, "x"], ["y"])]
    graph = read(tmp_path, document(nodes, ["x"], ["y"], {n: meta([8]) for n in "xy"}))
    assert [inside(graph, target) for target in ("torch", "strict", "generic")] == [32, 32, 0]
    assert graph.ops[0].attributes == {"a0": 0, "operand_names": ("a1",)}


def test_a_loop_carries_what_its_body_made(tmp_path: Path) -> None:
    """While it runs again, what it is given lies beside what it makes; what is not carried lives outside."""
    inner = document([call("add.Tensor", ["p", "w"], ["r"])], ["p", "w"], ["r"], {n: meta([8]) for n in "pwr"})
    body = {"as_graph": {"name": "b", "graph": inner["graph_module"]["graph"]}}
    lists = [{"as_tensors": [{"name": name}]} for name in "xv"]
    nodes = [call("torch.ops.higher_order.while_loop", [body, *lists], {"as_tensors": [{"name": "y"}]})]
    graph = read(tmp_path, document(nodes, ["x", "v"], ["y"], {n: meta([8]) for n in "xyv"}))
    assert [t.size for t in graph.ops[0].bodies[0].tensors] == [32, 0, 32]
    assert inside(graph, "torch") == 32


def test_bodies_nested_deep_are_refused(tmp_path: Path) -> None:
    """In one line; the reader, the planner and the checker walk into them."""
    made = document([call("exp.default", ["x"], ["y"])], ["x"], ["y"], {n: meta([8]) for n in "xy"})
    for _ in range(MAX_NESTED + 1):
        body = {"as_graph": {"name": "b", "graph": made["graph_module"]["graph"]}}
        nodes = [call("torch.ops.higher_order.wrap", [body, "x"], ["y"])]
        made = document(nodes, ["x"], ["y"], {n: meta([8]) for n in "xy"})
    with pytest.raises(InputError, match="nested more than 8 deep"):
        read(tmp_path, made)


def test_arguments_keep_their_place_and_their_names(tmp_path: Path) -> None:
    """Tensors are operands, with the argument that each is of; all else is an attribute of a plain value."""
    nodes = [
        call("sym_size.int", ["x", {"as_int": 0}], {"as_sym_int": {"as_name": "n"}}),
        call(
            "mixed.default", [{"as_tensors": [{"name": "x"}, {"name": "x"}]}], ["y"],
            bias={"as_none": True}, weight=tensor("x"), stride={"as_ints": [1, 2]}, eps={"as_float": 0.5},
            indices={"as_optional_tensors": [{"as_none": True}, tensor("x")]}, approximate={"as_string": "none"},
            size={"as_sym_ints": [{"as_name": "n"}, {"as_int": -1}]}, dtype={"as_scalar_type": 7},
            device={"as_device": {"type": "cuda", "index": 1}}, flag={"as_bool": False}, other={"as_new": 1},
            long={"as_ints": [1] * 513}, lists={"as_int_lists": [[1], [2, 3]]},
        ),
    ]  # fmt: skip
    op = read(tmp_path, document(nodes, ["x"], ["y"], {n: meta([4]) for n in "xy"})).ops[1]
    assert op.inputs == (0, 1)
    assert op.operands == (0, 0, 0, None, 0, 1)
    assert op.attributes == {
        "bias": None, "stride": (1, 2), "eps": 0.5, "approximate": "none", "size": (None, -1), "dtype": "float32",
        "device": "cuda:1", "flag": False, "other": None, "long": Array("int64", (513,)), "lists": ((1,), (2, 3)),
        "operand_names": ("a0", "a0", "weight", "indices", "indices", "size"),
    }  # fmt: skip


def test_a_graph_pickles_and_keeps_the_sizes_it_was_given(tmp_path: Path) -> None:
    """It says its dialect, too; the file may be gone."""
    metas = {n: meta([symbol("s0", 4)], [1]) for n in "xy"}
    path = archive(tmp_path / "m.pt2", document([call("exp.default", ["x"], ["y"])], ["x"], ["y"], metas))
    graph = lowtide.load(path, {"s0": 6})
    path.unlink()
    again = pickle.loads(pickle.dumps(graph))
    assert (again, again.dialect, again.file) == (graph, "aten", Pt2File((("s0", 6),)))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda g: g["nodes"][0]["inputs"][0]["arg"]["as_tensor"].update(name="nobody"), "reads 'nobody'"),
        (lambda g: g["nodes"].append(g["nodes"][0]), "made twice"),
        (lambda g: g["tensor_values"]["x"].update(dtype=99), "element type of number 99"),
        (lambda g: g["tensor_values"]["x"]["sizes"].append({"as_int": 1}), "4 sizes and 3 strides"),
        (lambda g: g["tensor_values"]["x"]["sizes"].__setitem__(0, {"as_int": -1}), "negative"),
        (lambda g: g["tensor_values"]["x"]["sizes"].__setitem__(0, symbol("s0**9999999", 1)), "not understood|free"),
        (lambda g: g["tensor_values"]["x"]["sizes"].__setitem__(0, symbol("__import__('os')", 1)), "not understood"),
        (lambda g: g["outputs"].append(tensor("nobody")), "'nobody' is made by no node"),
        (lambda g: g.pop("nodes"), "form that is not known"),
        (lambda g: g["inputs"].append(tensor("x")), "two graph inputs 'x'"),
    ],
)
def test_what_does_not_fit_together_is_reported(spoil: object, message: str, tmp_path: Path) -> None:
    """One line that names the file and the place."""
    made = branches(2)
    spoil(made["graph_module"]["graph"])  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as raised:
        read(tmp_path, made)
    assert str(tmp_path / "m.pt2") in str(raised.value)


def test_what_is_no_archive_is_reported(tmp_path: Path) -> None:
    """No zip, a zip without a graph, a graph that is no JSON."""
    (tmp_path / "a.pt2").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"not a torch\.export archive"):
        lowtide.load(tmp_path / "a.pt2")
    with pytest.raises(InputError, match="no JSON"):
        read(tmp_path, b"{")
    good = archive(tmp_path / "b.pt2", branches(2))
    good.write_bytes(good.read_bytes().replace(b"models/model.json", b"models/model.jsoX"))
    with pytest.raises(InputError, match="no graph"):
        lowtide.load(good)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_mutated_archive_is_read_or_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Never anything but a graph or an `InputError`."""
    text = bytearray(json.dumps(branches(2)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 6))] = data.draw(st.binary(max_size=4))
    path = archive(tmp_path_factory.mktemp("m") / "m.pt2", bytes(text))
    with contextlib.suppress(InputError):
        assert lowtide.load(path).ops is not None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), seed=st.integers(0, 10**6))
def test_views_by_strides_are_numpys(shape: list[int], seed: int) -> None:
    """`viewable_as` says yes only where numpy needs no copy, and does where it can tell."""
    import random

    import numpy as np

    rng = random.Random(seed)
    base = np.zeros([n + rng.randrange(2) for n in shape], np.float32)
    seen = base[tuple(slice(0, n) for n in shape)].transpose(rng.sample(range(len(shape)), len(shape)))
    count, new = seen.size, []
    while count > 1 and rng.random() < 0.8:
        factor = rng.choice([d for d in range(1, count + 1) if count % d == 0])
        new.append(factor)
        count //= factor
    new.append(count)
    form = Form(seen.shape, tuple(s // 4 for s in seen.strides), 0, "float32", 4, ("cpu", None))
    assert form.viewable_as(tuple(new)) == np.shares_memory(seen.reshape(new), base)
