"""Every row of the ONNX operator table, proved in onnxruntime on a small instance."""

from __future__ import annotations

import pytest

from lowtide.api.probing import probe
from lowtide.ops.meaning import meaning
from lowtide.ops.onnx import ROWS, blocked
from support.onnx_rows import INSTANCES, RANDOM, Instance

pytest.importorskip("onnxruntime", reason="the maps are proved in onnxruntime, which is not installed")


@pytest.mark.slow
@pytest.mark.parametrize("instance", INSTANCES, ids=[instance.label for instance in INSTANCES])
def test_row(instance: Instance) -> None:
    """Nothing outside moves a part, everything that an index names moves one, reduced axes merge."""
    graph = instance.graph()
    (op,) = graph.ops
    known = meaning(graph, op)
    assert known is not None
    assert known.opaque is None
    (found,) = probe(graph).probes
    assert not found.skipped
    assert not found.wrong
    assert bool(found.parts + found.sums) == bool(known.access.cuttable())
    if instance.kind != "RoiAlign":  # a region drawn at random may lie outside
        assert found.inside_moved == found.inside


def test_every_row_has_an_instance() -> None:
    """No row is without a proof, but for those that draw random numbers; parts of blocked ops run in
    tests/write/test_onnx_blocked.py."""
    assert ROWS.keys() <= {instance.type for instance in INSTANCES} | RANDOM | blocked.ROWS.keys()
