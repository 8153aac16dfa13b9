"""What ops take by a cost file: measured, in a line between, or from rates; and sums that are those of the core."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lowtide
from lowtide.cost.model import CostModel, between, family_of, full_bytes, work_of
from lowtide.cost.signature import of_entry, of_op
from lowtide.graph import Graph
from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from support.costs import costs
from support.small_nets import pyramid


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A network that is worth cutting."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        path.write_bytes(pyramid().model().SerializeToString())
        return read_model(path)


def _conv(cutter: Cutter) -> int:
    return next(op.id for op in cutter.graph.ops if op.type == "Conv")


def test_entries_count_before_rates(graph: Graph) -> None:
    """An op that was measured takes that; one that was not, what its family takes; sums add up."""
    cutter = Cutter(graph)
    conv = _conv(cutter)
    signature = of_op(graph, graph.op_by_id[conv], cutter.meaning(conv))
    plain, measured = CostModel(costs([]), cutter), CostModel(costs([signature.entry(3e-3)]), cutter)
    assert plain.op(conv)[1] == "roofline"
    assert measured.op(conv) == (3_000_000, "measured")
    work = work_of(graph, graph.op_by_id[conv], cutter.meaning(conv))
    assert plain.op(conv)[0] == round((1e-5 + 1e-10 * work.flops + 1e-9 * work.bytes) * 1e9)
    whole = plain.untiled()
    assert whole.nanoseconds == sum(plain.op(op.id)[0] for op in graph.ops)
    assert whole.by == {"roofline": len(graph.ops)}


def test_signatures_are_those_of_parts(graph: Graph) -> None:
    """A part in the part graph has the signature under which a part of so many rows is looked up."""
    cutter = Cutter(graph)
    conv = _conv(cutter)
    for axis in cutter.axes(conv):
        axes = cutter.grow([conv], conv, axis)
        assert axes is not None
        known = cutter.meaning(conv)
        assert known is not None
        if known.access.sizes[axis] < 4:
            continue
        parts = apply(cutter, [cutter.region([conv], axes, 4)])
        part = next(op for op in parts.graph.ops if op.id in parts.parts and parts.parts[op.id].of == conv)
        rows = parts.parts[part.id].rows
        assert rows is not None
        signature = of_op(parts.graph, part, Cutter(parts.graph).meaning(part.id))
        assert of_entry(signature.entry(1.0)) == signature
        found = CostModel(costs([signature.entry(7e-4)]), cutter).part(conv, axis, rows[1] - rows[0])
        assert found == (700_000, "measured"), axis


def test_parts_lie_between_what_was_measured(graph: Graph) -> None:
    """In a line; the family's own line where nothing was, from what every part reads whole to the op."""
    cutter = Cutter(graph)
    conv = _conv(cutter)
    known = cutter.meaning(conv)
    assert known is not None
    axis = next(a for a in cutter.axes(conv) if known.access.sizes[a] >= 8 and a not in known.access.reduce)
    size = known.access.sizes[axis]
    model = CostModel(costs([]), cutter)
    fixed = full_bytes(graph, graph.op_by_id[conv], known, axis)
    assert model.anchors(conv, axis) == ((0, round((1e-5 + 1e-9 * fixed) * 1e9)), (size, model.op(conv)[0]))
    one, other = model.part(conv, axis, size // 2)[0], model.part(conv, axis, size)[0]
    assert 2 * one > other  # two halves read the weights twice
    assert model.part(conv, axis, 1)[1] == "roofline"


def test_no_part_is_much_faster_than_its_share(graph: Graph) -> None:
    """A measurement that came out too short is not what a search for the least time is to live on."""
    cutter = Cutter(graph)
    conv = _conv(cutter)
    known = cutter.meaning(conv)
    assert known is not None
    axis = next(a for a in cutter.axes(conv) if known.access.sizes[a] >= 8 and a not in known.access.reduce)
    axes, size = cutter.grow([conv], conv, axis), known.access.sizes[axis]
    assert axes is not None
    parts = apply(cutter, [cutter.region([conv], axes, 2)])
    part = next(op for op in parts.graph.ops if op.id in parts.parts and parts.parts[op.id].of == conv)
    whole = of_op(graph, graph.op_by_id[conv], known)
    half = of_op(parts.graph, part, Cutter(parts.graph).meaning(part.id))
    model = CostModel(costs([whole.entry(1e-3), half.entry(1e-6)]), cutter)
    rows = parts.parts[part.id].rows
    assert rows is not None
    assert model.part(conv, axis, rows[1])[0] == int(0.85 * 1_000_000 * rows[1] / size)
    assert model.part(conv, axis, size)[0] == 1_000_000


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(st.integers(1, 50), st.integers(0, 10**6), min_size=1), st.integers(1, 60))
def test_a_line_stays_between_its_ends(points: dict[int, int], rows: int) -> None:
    """At an anchor it is the anchor's, between two no lower than the lower one and no higher than the higher one."""
    anchors = ((0, 5), *sorted(points.items()))
    value = between(anchors, rows)
    if rows in points:
        assert value == points[rows]
    below = [n for r, n in anchors if r <= rows][-1]
    above = next((n for r, n in anchors if r >= rows), anchors[-1][1])
    assert min(below, above) <= value <= max(below, above)


def test_another_dialect_is_refused(graph: Graph) -> None:
    """With what to do."""
    with pytest.raises(lowtide.InputError, match="tflite ops, and the model is of onnx; measure the model"):
        CostModel(costs([], dialect="tflite"), Cutter(graph))


def test_families_tell_kernels_apart(graph: Graph) -> None:
    """Convolutions by groups and taps; what means nothing is of no family that was measured."""
    cutter = Cutter(graph)
    names = {family_of(cutter.meaning(op.id)) for op in graph.ops}
    assert any(name.startswith("convolution") for name in names)
    assert family_of(None) == "opaque"
