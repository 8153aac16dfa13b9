"""Writing .tflite files: orders, offline plans, and every other byte as it was."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from lowtide.errors import InputError
from lowtide.read.tflite.dependencies import CONTROL_DEPENDENCIES, control_dependencies, dependency_bytes
from lowtide.read.tflite.model import OFFLINE_PLAN, parse_tflite
from lowtide.read.tflite.reader import read_tflite
from lowtide.write import write_model
from lowtide.write.tflite import offline_plan, planned_bytes
from support.tflite_builder import Net, branches, residual, s


def orders(count: int, net: Net, folder: Path) -> list[list[int]]:
    """Random topological orders."""
    (folder / "m.tflite").write_bytes(net.bytes())
    graph = read_tflite(folder / "m.tflite")
    draw = random.Random(0)
    found = []
    for _ in range(count):
        left = {op.id: set(graph.predecessors[op.id]) for op in graph.ops}
        order: list[int] = []
        while left:
            ready = [o for o, before in left.items() if not before - set(order)]
            order.append(draw.choice(ready))
            del left[order[-1]]
        found.append(order)
    return found


def plan_of(data: bytes) -> list[int] | None:
    """The offline plan in a file, as TFLM's code would read it: the last one of that name."""
    model = s.ModelT.InitFromObj(s.Model.GetRootAsModel(bytearray(data), 0))
    found = None
    for m in model.metadata or []:
        if m.name == OFFLINE_PLAN.encode():
            found = list(
                struct.unpack(f"<{len(model.buffers[m.buffer].data) // 4}i", bytes(model.buffers[m.buffer].data))
            )
    return found


def test_a_new_order_moves_offsets_only(tmp_path: Path):
    """Operators stand in the new order, no byte outside their vector changes, and the inverse gives the file back."""
    net = branches()
    whole = net.bytes()
    at = parse_tflite(whole, "m").subgraphs[0].operators_at
    assert at is not None
    for order in orders(20, net, tmp_path):
        made = planned_bytes(whole, order, None, "m")
        n = 4 * len(order)
        assert made[:at] + made[at + n :] == whole[:at] + whole[at + n :]
        was, came = parse_tflite(whole, "m").subgraphs[0].ops, parse_tflite(made, "m").subgraphs[0].ops
        assert list(came) == [was[i] for i in order]
        inverse = [order.index(i) for i in range(len(order))]
        assert planned_bytes(made, inverse, None, "m") == whole
        assert planned_bytes(whole, range(len(order)), None, "m") == whole


def test_a_plan_goes_in_front_of_the_old_file():
    """The old file stands behind it byte for byte, the schema's own reader finds it all, and a second plan replaces
    the first where it stands."""
    net = residual()
    net.metadata("min_runtime_version", b"1.5.0")
    whole = net.bytes()
    steps = range(8)
    made = planned_bytes(whole, steps, {0: 16, 3: 32}, "m")
    assert made.endswith(whole)
    assert (len(made) - len(whole)) % 16 == 0
    assert made[4:8] == b"TFL3"
    was, came = (s.ModelT.InitFromObj(s.Model.GetRootAsModel(bytearray(d), 0)) for d in (whole, made))
    assert [m.name for m in came.metadata] == [b"min_runtime_version", OFFLINE_PLAN.encode()]
    assert len(came.buffers) == len(was.buffers) + 1
    for a, b in zip(was.buffers, came.buffers, strict=False):
        assert (a.data is None and b.data is None) or bytes(a.data) == bytes(b.data)
    offsets = plan_of(made)
    tensors = len(was.subgraphs[0].tensors)
    assert offsets is not None
    assert offsets[:3] == [0, 1, tensors]
    assert len(offsets) == 3 + tensors
    assert (offsets[3], offsets[3 + 3], offsets[3 + 1]) == (16, 32, -1)
    again = planned_bytes(made, steps, {0: 48}, "m")
    assert len(again) == len(made)
    assert sum(a != b for a, b in zip(made, again, strict=True)) <= 8
    assert (plan_of(again) or [])[3] == 48


def test_a_stale_plan_is_emptied_when_the_order_changes(tmp_path: Path):
    """TFLM never checks a plan: one for another order would give wrong results without a word."""
    net = branches()
    whole = net.bytes()
    order = next(o for o in orders(20, net, tmp_path) if o != sorted(o))
    planned = planned_bytes(whole, range(len(order)), {0: 0}, "m")
    assert set((plan_of(planned_bytes(planned, order, None, "m")) or [])[3:]) == {-1}
    assert planned_bytes(planned, range(len(order)), None, "m") == planned


def test_a_stale_plan_of_another_length_is_left_out(tmp_path: Path):
    """Then the metadata are the others."""
    net = branches()
    net.metadata(OFFLINE_PLAN, struct.pack("<4i", 0, 1, 1, 0))
    net.metadata("other", b"kept")
    order = next(o for o in orders(20, net, tmp_path) if o != sorted(o))
    made = planned_bytes(net.bytes(), order, None, "m")
    assert plan_of(made) is None
    assert [name for name, _ in parse_tflite(made, "m").metadata] == ["other"]
    made = planned_bytes(net.bytes(), order, {0: 16}, "m")
    assert (plan_of(made) or [])[3] == 16


def test_control_dependencies_follow_the_operators(tmp_path: Path):
    """Pairs name positions in the file, and those change."""
    net = branches()
    whole = orders(1, net, tmp_path)[0]
    first, second = 0, len(whole) - 1
    net.metadata(CONTROL_DEPENDENCIES, dependency_bytes([[(first, second)]]))
    order = next(o for o in orders(20, net, tmp_path) if o != sorted(o) and o[0] != 0)
    made = planned_bytes(net.bytes(), order, None, "m")
    model = parse_tflite(made, "m")
    extent = model.metadata_extent(CONTROL_DEPENDENCIES)
    assert extent is not None
    pairs = control_dependencies(made[extent.at : extent.at + extent.size], 1, "m")
    assert pairs == [[(order.index(first), order.index(second))]]


def test_orders_that_the_file_does_not_allow():
    """An operator before what it reads, and operators with state in another order."""
    with pytest.raises(InputError, match="topological"):
        planned_bytes(residual().bytes(), [1, 0, 2, 3, 4, 5, 6, 7], None, "m")
    net = Net()
    x, v, a, b = (
        net.tensor((4,), "float32"),
        net.tensor((4,), "float32", variable=True),
        *(net.tensor((4,), "float32") for _ in range(2)),
    )
    net.op("SVDF", [x, v], [a])
    net.op("SVDF", [x, v], [b])
    net.ends([x], [a, b])
    with pytest.raises(InputError, match="which it needs"):
        planned_bytes(net.bytes(), [1, 0], None, "m")


def test_what_tflm_cannot_plan_is_reported():
    """A variable of a further subgraph, where TFLM would look at the offset of another tensor."""
    net = Net()
    x = net.tensor((4,), "float32")
    y = net.unary("RELU", x)
    net.ends([x], [y])
    net.subgraph()
    net.tensor((4,), "float32", variable=True)
    model = parse_tflite(net.bytes(), "m")
    with pytest.raises(InputError, match="cannot take an offline plan"):
        offline_plan(model, {0: 0, 1: 16})
    assert offline_plan(model, {1: 16})


def test_tensors_that_nothing_touches_lie_at_0():
    """TFLM gives them memory; there they cost nothing as long as they are no larger than the arena."""
    net = Net()
    x = net.tensor((4,), "float32")
    idle = net.tensor((4,), "float32")
    net.ends([x], [net.unary("RELU", x)])
    data = offline_plan(parse_tflite(net.bytes(), "m"), {x: 16})
    assert struct.unpack("<6i", data)[3:] == (16, 0, -1)
    assert idle == 1


def test_the_output_has_the_models_format(tmp_path: Path):
    """And is not the input."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    write_model(path, range(8), tmp_path / "out.tflite", offsets={0: 0})
    assert plan_of((tmp_path / "out.tflite").read_bytes())
    with pytest.raises(InputError, match=r"\.tflite"):
        write_model(path, range(8), tmp_path / "out.onnx")
    with pytest.raises(InputError, match="is the input"):
        write_model(path, range(8), path)
