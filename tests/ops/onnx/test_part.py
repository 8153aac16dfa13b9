"""Every row of the ONNX adaptor in parts, along every axis that can be spelled, run beside the whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import apply
from support.onnx_rows import INSTANCES, Instance, ints

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph, NotImplemented

from support.part_runs import differs, session


@pytest.mark.slow
@pytest.mark.parametrize("instance", INSTANCES, ids=[instance.label for instance in INSTANCES])
def test_parts_of_a_row(instance: Instance, tmp_path: Path) -> None:
    """In two, in three and in as many parts as there are rows: the same numbers, and files that read back alike."""
    _check_every_axis(instance, tmp_path)


def _check_every_axis(instance: Instance, folder: Path) -> tuple[int, ...]:
    source = folder / "m.onnx"
    source.write_bytes(instance.model().SerializeToString())
    session(source)
    cutter = Cutter(read_model(source))
    (op,) = cutter.graph.ops
    for axis in cutter.axes(op.id):
        for stripes in (2, 3, 8):
            region = cutter.region([op.id], {op.id: axis}, stripes)
            assert not differs(source, folder, cutter, apply(cutter, [region])), (axis, stripes)
    known = cutter.meaning(op.id)
    assert known is not None
    return tuple(axis for axis in cutter.axes(op.id) if axis in known.access.reduce)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"])
@pytest.mark.parametrize("opset", [6, 11, 12, 20])
@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceMax", "ReduceMin"])
def test_sums_of_every_type(kind: str, opset: int, dtype: str, tmp_path: Path) -> None:
    """What is reduced is cut where a node can merge the parts, in the version and of the type of the model."""
    instance = Instance(kind, ((dtype, (2, 4, 3)), *((ints(1),) if opset == 20 else ())), {}, opset)
    if opset < 20:
        instance = replace(instance, attributes={"axes": [1]})
    try:
        reduced = _check_every_axis(instance, tmp_path)
    except (Fail, InvalidGraph, NotImplemented) as error:
        if "parts.onnx" in str(error):
            raise
        pytest.skip("onnxruntime does not run the whole")
    whole = dtype.startswith(("int", "uint"))
    assert bool(reduced) == (opset >= (7 if kind == "ReduceSum" else 12 if whole else 6) and dtype != "bool")
