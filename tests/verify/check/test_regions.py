"""Bounds over all regions as the checker proves them: none is above what a plan by brute force needs."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import onnx
import pytest

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.read import read_model
from lowtide.rewrites import RegionBound
from lowtide.target import BUILT_IN
from lowtide.verify.check.last_results import end_needs
from lowtide.verify.check.regions import _Search, check_regions  # type: ignore[reportPrivateUsage]
from support.cut_brute import Brute, drawn_net, floor_of
from support.small_nets import Nets

STRICT = BUILT_IN["strict"]


def _read(model: onnx.ModelProto, folder: Path) -> Graph:
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return read_model(path)


def _beside() -> onnx.ModelProto:
    """`b` is read by an op that sees all rows, and by one that goes along with them, and so does `a`, of which it is
    made: 768 bytes each."""
    nets = Nets(lambda options: next(iter(options)))
    x = nets.input((1, 8, 4))
    (a,) = nets.node("MatMul", [x, nets.floats((4, 24))])
    (e,) = nets.node("Softmax", [a], axis=2)
    (b,) = nets.node("Softmax", [e], axis=2)
    (c,) = nets.node("Softmax", [b], axis=1)
    (_,) = nets.node("MatMul", [c, nets.floats((24, 1))])
    (d,) = nets.node("Sub", [a, b])
    (_,) = nets.node("MatMul", [d, nets.floats((24, 1))])
    return nets.model()


def test_what_goes_along_does_not_wait_for_what_is_joined(tmp_path: Path) -> None:
    """Cut by rows, 1,568 bytes are enough: the last op of the rows reads each piece before all of them are joined."""
    graph = _read(_beside(), tmp_path)
    for joined in (False, True):
        for op in graph.ops:
            assert not _Search(graph, STRICT, 1569, materialised=joined).refuted(op.id)
    plan = lowtide.research.plan(tmp_path / "net.onnx", target="strict")
    bound = RegionBound(bytes=2304, op=2)
    forged = msgspec.structs.replace(plan, allow=["tile"], region_bound=bound, proved_over="orders_and_regions")
    with pytest.raises(VerificationError, match="regions: 2304 bytes over all regions are not proved"):
        check_regions(graph, forged, STRICT)


def check(seed: int, folder: Path) -> tuple[int, bool | None]:
    """The floor of a drawn graph, and whether brute force goes below it; None: too many states."""
    nets = drawn_net(random.Random(seed))
    graph = _read(nets.model(), folder)
    total = sum(t.size for t in graph.tensors if t.kind is not Kind.CONSTANT)
    ops = [floor_of(lambda goal, v=op.id: _Search(graph, STRICT, goal).refuted(v), 2 * total) for op in graph.ops]
    facts = _Search(graph, STRICT, 0).facts()
    ends = floor_of(lambda goal: end_needs(facts, goal), 2 * total)
    floor = max(*ops, ends)
    return floor, Brute(graph).reaches(floor - 1)


@pytest.mark.slow
def test_no_floor_is_above_what_brute_force_reaches(tmp_path: Path) -> None:
    """Of those seeds two found a floor that took what goes along for what waits (32, 63)."""
    below = [check(seed, tmp_path)[1] for seed in (*range(20, 40), 63)]
    assert True not in below
    assert below.count(None) < 3
