"""Every row of the ONNX adaptor in parts, along every axis that can be spelled, run beside the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from support.onnx_rows import INSTANCES, Instance

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from support.part_runs import differs


@pytest.mark.parametrize("instance", INSTANCES, ids=[instance.label for instance in INSTANCES])
def test_parts_of_a_row(instance: Instance, tmp_path: Path) -> None:
    """In two, in three and in as many parts as there are rows: the same numbers, and files that read back alike."""
    source = tmp_path / "m.onnx"
    source.write_bytes(instance.model().SerializeToString())
    cutter = Cutter(read_model(source))
    (op,) = cutter.graph.ops
    for axis in cutter.axes(op.id):
        for stripes in (2, 3, 8):
            region = cutter.region([op.id], {op.id: axis}, stripes)
            assert not differs(source, tmp_path, cutter, apply(cutter, [region])), (axis, stripes)
