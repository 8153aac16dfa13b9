"""Every row of the ONNX operator table in parts, along every axis that can be spelled, run beside the whole."""

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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance", "axes"),
    [
        (Instance("Slice", ((8, 9), ints(1, 2), ints(7, 9), ints(0, 1), ints(2, 1))), (0, 1)),
        (Instance("Slice", ((8, 9), ints(-5), ints(2**62))), (0, 1)),
        (Instance("Slice", ((8, 9), ints(7), ints(-9), ints(0), ints(-1))), (1,)),
        (Instance("Slice", ((8, 9),), {"starts": [2], "ends": [-1], "axes": [1]}, 9), (0, 1)),
        (Instance("Pad", ((6, 4), ints(1, 0, 2, 1))), (0, 1)),
        (Instance("Pad", ((6, 4), ints(-1, 2, 0, -1))), (0, 1)),
        (Instance("Pad", ((1, 4), ints(2, 0, 2, 0))), (1,)),
        (Instance("Pad", ((5, 6), ints(2, 0, 1, 0)), {"mode": "edge"}), (1,)),
        (Instance("Pad", ((5, 6),), {"pads": [1, 0, 0, 2]}, 10), (0, 1)),
    ],
)
def test_slices_and_pads_are_cut_along_what_they_change(
    instance: Instance, axes: tuple[int, ...], tmp_path: Path
) -> None:
    """Not backwards, not where padding is made of rows, and not where parts would be of padding alone."""
    _check_every_axis(instance, tmp_path)
    graph = read_model(tmp_path / "m.onnx")
    assert Cutter(graph).axes(graph.ops[0].id) == axes


def test_a_slice_whose_end_is_worked_out_is_not_cut_there(tmp_path: Path) -> None:
    """Its own attributes would speak of the whole."""
    path = tmp_path / "m.onnx"
    path.write_bytes(Instance("Slice", ((8, 9), ints(1), ints(7), ints(0))).model().SerializeToString())
    graph = read_model(path)
    end = graph.ops[0].inputs[2]
    tensors = tuple(replace(t, value=None) if t.id == end else t for t in graph.tensors)
    assert Cutter(graph).axes(graph.ops[0].id) == (0, 1)
    assert Cutter(replace(graph, tensors=tensors)).axes(graph.ops[0].id) == (1,)
