"""Products by sections give the numbers of the whole, however the sections are taken out."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from lowtide.transform.sections import by_sections, of_user, products
from lowtide.write.onnx_parts import write_onnx_parts
from support.section_nets import WAYS, attention, product, section_net, sections
from support.small_nets import Nets

pytest.importorskip("onnxruntime", reason="products by sections are run in onnxruntime, which is not installed")
from support.part_runs import RELATIVE, difference, feeds


def _nothing(options: object) -> object:
    raise AssertionError("nothing is drawn")


def _one(way: str, kind: str = "bias", count: int = 3) -> Nets:
    nets = Nets(_nothing)
    y = product(nets, nets.input((2, 5, 6)), 4 * count, kind)
    for t in sections(nets, y, count, way):
        nets.node("Relu", [t])
    return nets


def _saved(nets: Nets, folder: Path) -> Path:
    source = folder / "net.onnx"
    source.write_bytes(nets.model().SerializeToString())
    return source


def _by_sections(source: Path, target: Path) -> int:
    """Write a model with all its products by sections; how many there are."""
    graph = read_model(source)
    sectioned = by_sections(graph, products(graph))
    parts = of_user(apply(Cutter(sectioned.graph), ()), sectioned)
    write_onnx_parts(source, parts, parts.graph.own_order, target)
    read_model(target)
    return len(sectioned.rewrites)


@pytest.mark.parametrize("kind", ["matmul", "bias", "gemm"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_and_each_product(way: str, kind: str, tmp_path: Path):
    """What follows is the same; nothing of the whole product is left."""
    source, target = _saved(_one(way, kind), tmp_path), tmp_path / "sections.onnx"
    assert _by_sections(source, target) == 1
    assert difference(source, target, feeds(source)) <= RELATIVE
    shapes = [t.shape for t in read_model(target).tensors]
    assert all(not shape or shape[-1] != 12 for shape in shapes)


def test_sections_as_they_are_read_need_no_other_op(tmp_path: Path):
    """A product, its bias and a split become three products, each with its bias."""
    source, target = _saved(attention(way="split"), tmp_path), tmp_path / "sections.onnx"
    before = [op.type for op in read_model(source).ops]
    assert _by_sections(source, target) == 1
    after = [op.type for op in read_model(target).ops]
    assert sorted([*after, "MatMul", "Add", "Split"]) == sorted([*before, *["MatMul", "Add"] * 3])


@pytest.mark.slow
@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_networks_give_the_same(data: st.DataObject):
    """All products of a network at once."""
    nets = section_net(lambda options: data.draw(st.sampled_from(tuple(options))))
    with TemporaryDirectory() as folder:
        source, target = _saved(nets, Path(folder)), Path(folder) / "sections.onnx"
        assert _by_sections(source, target) >= 1
        assert difference(source, target, feeds(source)) <= 10 * RELATIVE


def _reads_the_whole(nets: Nets, y: str) -> None:
    nets.node("Sigmoid", [y])


def _reads_rows(nets: Nets, y: str) -> None:
    nets.node("Slice", [y, nets.ints(0), nets.ints(1), nets.ints(1)])


def _reads_backwards(nets: Nets, y: str) -> None:
    nets.node("Slice", [y, nets.ints(-1), nets.ints(-5), nets.ints(2), nets.ints(-1)])


def _reads_every_second(nets: Nets, y: str) -> None:
    nets.node("Slice", [y, nets.ints(0), nets.ints(12), nets.ints(2), nets.ints(2)])


def _reads_columns_twice(nets: Nets, y: str) -> None:
    nets.node("Slice", [y, nets.ints(3), nets.ints(9), nets.ints(2)])


@pytest.mark.parametrize(
    "more", [_reads_the_whole, _reads_rows, _reads_backwards, _reads_every_second, _reads_columns_twice]
)
def test_who_reads_something_else_keeps_the_product_whole(more, tmp_path: Path):
    """Whoever reads rows of it, all of it, columns of two sections or not in turn needs the product as it is."""
    nets = _one("split")
    more(nets, next(n.output[0] for n in nets.nodes if n.op_type == "Add"))
    assert products(read_model(_saved(nets, tmp_path))) == ()


@pytest.mark.parametrize("name", ["MatMul", "Add", "Split"])
def test_a_result_stays(name: str, tmp_path: Path):
    """A product that is a result of the model is not taken apart; a section may be one."""
    nets = _one("split")
    source = tmp_path / "net.onnx"
    source.write_bytes(
        nets.model([next(n.output[0] for n in nets.nodes if n.op_type == name)]).SerializeToString()
    )  # fmt: skip
    found = products(read_model(source))
    assert len(found) == (name == "Split")
    if found:
        assert _by_sections(source, tmp_path / "sections.onnx") == 1
        assert difference(source, tmp_path / "sections.onnx", feeds(source)) <= RELATIVE


def test_weights_that_are_computed_have_no_columns(tmp_path: Path):
    """Both operands of a product of attention are activations."""
    nets = Nets(_nothing)
    x = nets.input((4, 6))
    (y,) = nets.node("MatMul", [x, nets.input((6, 8))])
    for t in nets.node("Split", [y], 2, axis=1, num_outputs=2):
        nets.node("Relu", [t])
    assert products(read_model(_saved(nets, tmp_path))) == ()


def test_columns_of_weights_are_cut_again(tmp_path: Path):
    """A region that cuts the heads cuts the columns of a section: columns of columns of the file's weights."""
    source, target = _saved(attention(), tmp_path), tmp_path / "parts.onnx"
    graph = read_model(source)
    sectioned = by_sections(graph, products(graph))
    cutter = Cutter(sectioned.graph)
    softmax = next(op for op in sectioned.graph.ops if op.type == "Softmax")
    axes = cutter.grow(sectioned.graph.own_order[:-1], softmax.id, 0)
    assert axes is not None
    assert sum(sectioned.graph.op_by_id[op].type == "MatMul" for op in axes) == 5
    region = cutter.region(sectioned.graph.own_order, axes, 4)
    parts = of_user(apply(cutter, [region]), sectioned)
    write_onnx_parts(source, parts, parts.graph.own_order, target)
    read = feeds(source)
    assert difference(source, target, read) <= RELATIVE
    widths = {t.shape for t in read_model(target).tensors if t.kind == "constant" and t.dtype == "float32"}
    assert {(8, 2), (2,), (8, 8)} == widths
    assert np.isfinite(read["x0"]).all()
