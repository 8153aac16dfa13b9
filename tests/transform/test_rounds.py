"""Parts that are cut again: run beside the whole they give the same numbers, as what they are said to be, in their
arena; and the checker puts the same graph together, round by round."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.run_reports import RunReport
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.rounds import nested, of_file
from lowtide.transform.sections import by_sections, of_user, products
from lowtide.write.onnx_parts import write_onnx_parts
from support.cut_rounds import Ways, drawn_regions, plan_of_rounds, rounds_exactness
from support.section_nets import attention
from support.small_nets import pyramid, random_net

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from support.arena_replay import spoiled
from support.part_runs import RELATIVE, check_file, difference, feeds, tensors_of


@st.composite
def _drawn(draw: st.DrawFn) -> tuple[bytes, list[Ways]]:
    """A network, and for each of two or three rounds up to two regions: numbers counted modulo what there is."""
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((2, 4, 7))))
    many = st.integers(0, 99)
    ways = st.lists(st.tuples(many, many, many, many, st.integers(2, 4)), min_size=1, max_size=2)
    return model.SerializeToString(), draw(st.lists(ways, min_size=2, max_size=3))


def _rounds(source: Path, drawn: list[Ways]) -> PartGraph:
    """A network in parts, which are cut again; gives the example up if they cannot be."""
    parts = None
    for ways in drawn:
        cutter = Cutter(read_model(source) if parts is None else parts.graph)
        regions = drawn_regions(cutter, ways)
        if not regions:
            continue
        try:
            made = apply(cutter, regions)
        except ValueError as error:
            if "before and after" not in str(error):
                raise
            continue
        parts = made if parts is None else nested(parts, made)
    assume(parts is not None and parts.earlier)
    assert parts is not None
    return parts


def _runs(source: Path) -> bool:
    try:
        return difference(source, source, feeds(source)) == 0
    except Exception:  # onnxruntime's own kinds of error have no common base
        return False


@pytest.mark.slow
@settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
@given(_drawn())
def test_random_networks_cut_again(drawn: tuple[bytes, list[Ways]]) -> None:
    """Equal to the bit where that is said, else to 1e-5; the checker agrees, and the arena spoils nothing."""
    model, ways = drawn
    with TemporaryDirectory() as name:
        source, target = Path(name) / "m.onnx", Path(name) / "rounds.onnx"
        source.write_bytes(model)
        assume(_runs(source))
        parts = _rounds(source, ways)
        write_onnx_parts(source, of_file(parts), parts.graph.own_order, target)
        check_file(source, target, parts.graph)
        exact = rounds_exactness(read_model(source), parts)
        assert difference(source, target, feeds(source)) <= (0 if exact == "bits" else RELATIVE)
        plan = plan_of_rounds(source, parts, "generic")
        lowtide.verify(source, plan)
        assert plan.offsets is not None
        assert plan.arena_bytes is not None
        offsets = {int(t): at for t, at in plan.offsets.items()}
        numbers = {**feeds(source), **tensors_of(target)}
        assert not spoiled(parts.graph, plan.order, offsets, plan.arena_bytes, numbers)


def _rows_then_channels(folder: Path) -> tuple[Path, PartGraph]:
    """Convolutions whose rows are cut, then channels of some of the parts."""
    source = folder / "net.onnx"
    source.write_bytes(pyramid().model().SerializeToString())
    graph = read_model(source)
    cutter = Cutter(graph)
    axes = cutter.grow(graph.own_order, graph.own_order[1], 2)
    assert axes is not None
    first = apply(cutter, [cutter.region(graph.own_order, axes, 4)])
    return source, nested(first, _columns(first.graph, "Conv", 1, 3))


def _columns(graph: Graph, kind: str, dim: int, stripes: int) -> PartGraph:
    """The first op of a kind cut along a dimension of its result, by itself."""
    cutter, op = Cutter(graph), next(op for op in graph.ops if op.type == kind)
    axis = next(a for a in cutter.axes(op.id) if cutter.dim(op.id, op.outputs[0], a) == dim)
    axes = cutter.grow([op.id], op.id, axis)
    assert axes is not None
    return apply(cutter, [cutter.region(graph.own_order, axes, stripes)])


def test_a_weight_is_cut_with_the_channels_of_parts(tmp_path: Path) -> None:
    """Two dimensions of one tensor: rows, then channels, of the weights too; the file says the same as before."""
    source, parts = _rows_then_channels(tmp_path)
    write_onnx_parts(source, of_file(parts), parts.graph.own_order, tmp_path / "out.onnx")
    assert difference(source, tmp_path / "out.onnx", feeds(source)) <= RELATIVE
    both = [piece for piece in parts.slices.values() if piece.of in parts.earlier[0].slices]
    assert both
    weights = {
        t.shape for t in read_model(tmp_path / "out.onnx").tensors if t.kind == "constant" and len(t.shape or ()) == 4
    }
    assert (4, 2, 3, 3) in weights


def test_the_checker_puts_the_same_graph_together(tmp_path: Path) -> None:
    """What is measured in onnxruntime is what the plan of both rounds says, op by op."""
    source, parts = _rows_then_channels(tmp_path)
    plan = plan_of_rounds(source, parts)
    assert plan.rounds is not None
    assert len(plan.rounds) == 1
    run = lowtide.verify(source, plan, run=True).run
    assert isinstance(run, RunReport)
    assert all(n.planned_bytes in (None, n.in_use_bytes) for n in run.planned.nodes)


def test_columns_of_sections_are_cut_again(tmp_path: Path) -> None:
    """Products by sections, their heads, and then rows of the scores: pieces of pieces of the file's weights."""
    source, target = tmp_path / "net.onnx", tmp_path / "out.onnx"
    source.write_bytes(attention(way="split").model().SerializeToString())
    graph = read_model(source)
    sectioned = by_sections(graph, products(graph))
    cutter, softmax = Cutter(sectioned.graph), next(op.id for op in sectioned.graph.ops if op.type == "Softmax")
    axes = cutter.grow(sectioned.graph.own_order[:-1], softmax, 0)
    assert axes is not None
    parts = of_user(apply(cutter, [cutter.region(sectioned.graph.own_order, axes, 2)]), sectioned)
    parts = nested(parts, _columns(parts.graph, "MatMul", 2, 2))
    parts = nested(parts, _columns(parts.graph, "Softmax", 1, 3))
    write_onnx_parts(source, of_file(parts), parts.graph.own_order, target)
    assert difference(source, target, feeds(source)) <= RELATIVE
    first, second = parts.earlier
    assert any(piece.of in first.slices for piece in second.slices.values())
    lowtide.verify(source, plan_of_rounds(source, parts, first=sectioned.graph))


def test_one_round_is_itself(tmp_path: Path) -> None:
    """Nothing is new of a graph that is cut once, and its plan has no rounds."""
    source, parts = _rows_then_channels(tmp_path)
    assert of_file(parts.earlier[0]) is parts.earlier[0]
    assert plan_of_rounds(source, parts.earlier[0]).rounds is None
