import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

import lowtide
from lowtide.analyse.inspect import detail, own_profile, runners_up
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.read.graph_json import parse_graph_json
from lowtide.report.inspection import inspection_text
from lowtide.target import BUILT_IN
from support.random_graphs import random_graph
from support.small_models import branches


def graph_of(document: dict) -> lowtide.Graph:
    """The graph of a graph JSON."""
    import json

    return parse_graph_json(json.dumps(document).encode())


def test_who_is_live_at_the_peak_and_why():
    """Two branches: at step 1 both are there, the first one only waiting for op 2."""
    seen = lowtide.inspect(graph_of(branches()), target="strict")
    assert (seen.own_order_peak_bytes, seen.peak_bytes, seen.lower_bound_bytes, seen.optimal) == (208, 109, 109, True)
    assert seen.peak is not None
    assert (seen.peak.step, seen.peak.op.name, seen.steps_at_peak) == (1, "op1", 1)
    first, second, third = seen.peak.live
    assert (first.name, first.in_use, [k.name for k in first.kept_by]) == ("t1", False, ["op2"])
    assert (second.name, second.in_use, [k.name for k in second.kept_by]) == ("t2", True, ["op3"])
    assert (third.name, third.made_by, third.kept_by, third.in_use) == ("t0", None, (), True)
    assert (first.peak_if_halved_bytes, first.peak_if_gone_bytes) == (158, 108)
    assert first.percent == pytest.approx(48.1)


def test_runners_up_are_one_of_each_hill():
    """Slopes and plateaus of the peak's hill are no runners-up; the highest comes first."""
    model = memory_model(graph_of(branches()), BUILT_IN["strict"])
    steps = replace(own_profile(model), footprint=(5, 9, 9, 3, 7, 7, 2, 8, 1))
    model = replace(model, graph=replace(model.graph, ops=model.graph.ops))
    order = [0] * 9
    assert [(r.step, r.footprint_bytes) for r in runners_up(model, order, steps)] == [(7, 8), (4, 7)]


def with_size(model: MemoryModel, storage: int, size: int) -> MemoryModel:
    """The model with another size of a storage; what overwrites it, or what it overwrites, saves no more than that."""
    storages = list(model.storages)
    storages[storage] = storages[storage]._replace(size=size)
    rows = tuple(
        tuple(
            replace(o, saving=min(o.saving, size)) if storage in (o.storage, model.storage_of[o.output]) else o
            for o in row
        )
        for row in model.overwrites
    )
    return replace(model, storages=tuple(storages), overwrites=rows)


def profile_with(model: MemoryModel, chosen: dict[int, int], storage: int, size: int) -> int:
    """Peak of the file order with a smaller storage, where each op keeps its in-place choice."""
    smaller = with_size(model, storage, size)
    kept = tuple(tuple(o for o in row if chosen.get(o.op) == o.input) for row in smaller.overwrites)
    return profile(replace(smaller, overwrites=kept), range(len(model.graph.ops))).peak


@pytest.mark.slow
@pytest.mark.parametrize("target", ["strict", "hmcos", "generic"])
def test_what_if_equals_a_profile_of_the_smaller_graph(target: str):
    """On random graphs with views, workspaces and in-place ops: halved and gone, for everything live at every step."""
    rng = Random(7)
    compared = 0
    for _ in range(60):
        graph = random_graph(rng)
        model = memory_model(graph, BUILT_IN[target])
        steps = own_profile(model)
        order = range(len(graph.ops))
        chosen = {o.op: o.input for o in steps.in_place}
        for step in order:
            found = detail(model, order, steps, step)
            assert sum(e.counted_bytes for e in found.live) + found.workspace_bytes == found.footprint_bytes
            for entry in found.live:
                s = model.storage_of[entry.tensor]
                assert entry.peak_if_gone_bytes == profile_with(model, chosen, s, 0)
                assert entry.peak_if_halved_bytes == profile_with(model, chosen, s, entry.size_bytes // 2)
                compared += 1
    assert compared > 500


def test_a_graph_without_ops():
    """Nothing to explain."""
    seen = lowtide.inspect(lowtide.Graph("empty", (), ()))
    assert (seen.peak, seen.runners_up, seen.own_order_peak_bytes, seen.optimal) == (None, (), 0, True)


def test_another_method_proves_nothing():
    """The best known peak is then that method's, or the file order's if that is better."""
    seen = lowtide.inspect(graph_of(branches()), target="strict", method="bfs")
    assert seen.peak_bytes <= 208
    assert seen.lower_bound_bytes == 108


def test_what_cuts_could_give(tmp_path: Path):
    """Relu and Neg on (1, 8, 4): a row of either, 2 * 16 B, beside the whole input and output, which are larger."""
    path = onnx_file(
        tmp_path,
        [("Relu", ["x"], ["a"]), ("Neg", ["a"], ["y"])],
        {"x": (1, 8, 4), "y": (1, 8, 4)},
    )
    seen = lowtide.inspect(path, target="strict")
    assert seen.fission is not None
    assert (seen.peak_bytes, seen.fission.floor_bytes) == (256, 144)
    assert seen.fission.floor_op is not None
    assert seen.fission.floor_op.type == "Relu"
    assert seen.fission.opaque == ()
    assert "at best -43.8 %" in inspection_text(seen)


def test_what_no_cut_passes_is_named(tmp_path: Path):
    """An op of which nothing is known needs all of both, and stands at the peak."""
    path = onnx_file(tmp_path, [("NonMeaning", ["x"], ["y"])], {"x": (2, 4), "y": (2, 4)}, domain="test")
    seen = lowtide.inspect(path, target="strict")
    assert seen.fission is not None
    assert seen.fission.floor_bytes == seen.peak_bytes == 64
    ((op, reason),) = seen.fission.opaque
    assert op.type == "test::NonMeaning"
    assert "no row" in reason
    assert "with tiling      no gain" in inspection_text(seen)
    assert lowtide.inspect(path, target="onnxruntime").fission is None


def onnx_file(
    folder: Path,
    nodes: list[tuple[str, list[str], list[str]]],
    ends: dict[str, tuple[int, ...]],
    domain: str = "",
) -> Path:
    """A float model from `x` to `y`."""
    from onnx import TensorProto, helper, save

    made = [helper.make_node(kind, reads, writes, domain=domain) for kind, reads, writes in nodes]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items())
    graph = helper.make_graph(made, "small", [x], [y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test", 1)]
    path = folder / "small.onnx"
    save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def test_shapes_are_shown_where_there_is_room():
    """With element types; a maker of the tensor's own name is told by its type, and narrow terminals keep the rest."""
    seen = lowtide.inspect("zoo:swiftnet_cell_a")
    assert seen.peak is not None
    assert (seen.peak.live[1].name, seen.peak.live[1].shape, seen.peak.live[1].dtype) == (
        "Conv_0", (1, 6, 56, 56), "float32",
    )  # fmt: skip
    wide, narrow = inspection_text(seen), inspection_text(seen, room=90)
    assert re.search(r"Conv_0 +1x6x56x56 float32 +Conv +Conv_4 +338,688", wide)
    assert wide == inspection_text(seen, room=120)
    assert re.search(r"Conv_0 +Conv +Conv_4 +338,688", narrow)
    at = narrow.splitlines().index(next(line for line in narrow.splitlines() if "live at the peak" in line))
    assert max(len(line) for line in narrow.splitlines()[at : at + 6]) <= 90


def test_a_graph_without_shapes_has_no_column_for_them():
    """Nothing but blanks would be in it."""
    text = inspection_text(lowtide.inspect(graph_of(branches()), target="strict"))
    assert "live at the peak" in text
    assert " shape " not in text
