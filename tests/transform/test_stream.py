"""Streamed tensors: slices and joins become transfers, and their bytes are those that pieces have."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.optimize.regions import working_ways
from lowtide.read import read_model
from lowtide.spill.one_order import along
from lowtide.spill.problem import Memory, spill_problem
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.transform.stream import elements_of, streamable, streamed
from support.small_nets import pyramid, random_net

STRICT = BUILT_IN["strict"]

BOXES = st.lists(
    st.tuples(*[st.tuples(st.integers(0, 4), st.integers(1, 3)).map(lambda p: (p[0], p[0] + p[1]))] * 2), max_size=6
)


@given(BOXES)
def test_elements_in_several_boxes_count_once(boxes: list[tuple[tuple[int, int], ...]]) -> None:
    """As many as there are different places in the boxes."""
    places = {place for box in boxes for place in product(*(range(a, b) for a, b in box))}
    assert elements_of(boxes) == len(places)


def _read(model: bytes) -> Graph:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(model)
        return read_model(path)


def _pyramid_in_stripes(stripes: int) -> PartGraph:
    graph = _read(pyramid().model().SerializeToString())
    cutter = Cutter(graph)
    ids = list(graph.own_order)
    axes = cutter.grow(ids, ids[-1], 2)
    assert axes is not None
    return apply(cutter, [cutter.region(ids, axes, stripes)])


def test_input_and_output_are_streamed_for_what_is_read_twice() -> None:
    """Rows at the edges of stripes are loaded again; the output is stored once, as it has to be."""
    parts = _pyramid_in_stripes(4)
    found = streamed(parts, streamable(parts))
    assert found is not None
    sizes = parts.graph.tensor_by_id
    x = next(t for t in parts.graph.tensors if t.kind is Kind.INPUT)
    slices = [op.outputs[0] for op in parts.graph.ops if op.inputs[0] == x.id]
    again = sum(sizes[t].size for t in slices) - x.size
    assert again > 0
    assert found.bytes == sum(s.loaded_bytes for s in found.streams) == again
    assert [op.id for op in found.graph.ops] == [op.id for op in parts.graph.ops]
    touched = {t for op in found.graph.ops for t in (*op.inputs, *op.outputs)}
    assert x.id not in touched


def test_nothing_is_streamed_unless_asked() -> None:
    """The graph stays the part graph."""
    parts = _pyramid_in_stripes(4)
    found = streamed(parts, ())
    assert found is not None
    assert (found.graph.ops, found.graph.tensors, found.bytes) == (parts.graph.ops, parts.graph.tensors, 0)


@st.composite
def _nets(draw: st.DrawFn) -> Graph:
    model = random_net(lambda options: draw(st.sampled_from(tuple(options))), draw(st.sampled_from((3, 6, 9))))
    return _read(model.SerializeToString())


@pytest.mark.slow
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(_nets())
def test_every_op_fits_in_the_working_set_that_a_way_needs(graph: Graph) -> None:
    """With all that is sliced or joined streamed, its parts run in just so many bytes."""
    memory = memory_model(graph, STRICT)
    cutter = Cutter(graph)
    order = range(len(graph.ops))
    most = max(sum(memory.storages[s].size for s in row) for row in memory.touched)
    limits = [most, most - 1, most // 2, most // 4]
    for way in working_ways(cutter, memory, order, Limits(20), limits):
        assert way.peak <= most
        assert bool(way.regions) == (way.peak < most) or way.peak == most
        parts = apply(cutter, way.regions)
        found = streamed(parts, streamable(parts))
        if found is None:
            continue
        fast = Memory("fast", way.peak)
        assert along(spill_problem(found.graph, STRICT, [fast]), range(len(found.graph.ops)), Limits(20)) is not None
