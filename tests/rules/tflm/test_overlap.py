"""The distances of TFLM's kernels in the interpreter itself: enough, and not a row more than enough."""

from __future__ import annotations

import pytest

from lowtide.graph import Graph
from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.kernels import BY_TYPE, distances
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_overlap import overlap_rows
from support.tflite_builder import Net, s

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")


def graph(net: Net) -> Graph:
    """Graph of a model."""
    return graph_of(parse_tflite(net.bytes(), "m"), [], "m", "")


def test_every_kind_is_tried():
    """No operator is in the table of kernels without an experiment."""
    assert {kind for kind, _ in kinds()} == set(BY_TYPE)


@pytest.mark.slow
def test_the_distance_is_enough_and_a_row_nearer_is_not():
    """All outputs are bit-equal at the distance; for each kind some are spoilt a row nearer, in some variant.

    But for kernels that have read everything before they write: theirs could lie anywhere.
    """
    spoilt: dict[str, int] = {}
    for row in overlap_rows(6, 1, slack=False):
        assert row.shapes >= 3, row
        assert row.equal == row.shapes, row
        spoilt[row.kind] = spoilt.get(row.kind, 0) + row.row_nearer_corrupt
    assert {kind for kind, n in spoilt.items() if not n} == {k for k, row in BY_TYPE.items() if row.reads == "before"}


def test_what_may_not_be_overlapped():
    """What is broadcast itself, a constant, operators that are not in the table, what is empty."""
    net = Net()
    x = net.tensor((1, 4, 4, 2), "float32")
    y = net.tensor((2,), "float32")
    c = net.tensor((1, 4, 4, 2), "float32", [[[[1.0] * 2] * 4] * 4])
    outs = [net.like(x) for _ in range(3)]
    net.op("ADD", [x, y], [outs[0]])
    net.op("ADD", [x, c], [outs[1]])
    net.op("TILE", [x, y], [outs[2]])
    empty, w = net.tensor((1, 4, 4, 0)), net.tensor((2, 1, 1, 2), "int8", [1, 2, 3, 4])
    outs.append(net.tensor((1, 4, 4, 2)))
    net.op("TRANSPOSE_CONV", [w, w, empty], [outs[3]], s.TransposeConvOptionsT())
    net.ends([x, y, empty], outs)
    found = graph(net)
    assert [distances(found, op) for op in found.ops] == [((x, 0),), ((x, 0),), (), ()]
