"""Pieces that nobody puts together: less than with joins, counted as the parts are, checked, run, refused elsewhere."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api.problem import Problem
from lowtide.errors import InputError, VerificationError
from lowtide.graph import Kind
from lowtide.ops.piece import Part
from lowtide.optimize.handed import best_forwarded, forwardable
from lowtide.optimize.regions import best_regions
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.rewrites import Split
from lowtide.run_reports import RunReport
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cutter
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import apply
from support.onnx_builder import saved
from support.small_models import branches, graph_file
from support.small_nets import Nets, pyramid, random_net

pytest.importorskip("onnxruntime", reason="plans are run in onnxruntime, which is not installed")
from support.part_runs import RELATIVE, difference, feeds

NO_PART = Part("part", -1)
"""What stands for an op that is whole."""


def _first(options: Any) -> Any:
    return next(iter(options))


def _excited() -> Nets:
    """A squeeze-and-excite block: a wide tensor that a mean over its image and a product read, channel by channel."""
    nets = Nets(_first)
    x = nets.input((1, 4, 8, 8))
    (wide,) = nets.node("Conv", [x, nets.floats((32, 4, 1, 1), 0.3)])
    (active,) = nets.node("Relu", [wide])
    (deep,) = nets.node("MaxPool", [active], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    (mean,) = nets.node("GlobalAveragePool", [deep])
    (gate,) = nets.node("Conv", [mean, nets.floats((32, 32, 1, 1), 0.1)])
    (gate,) = nets.node("Sigmoid", [gate])
    (scaled,) = nets.node("Mul", [deep, gate])
    nets.node("Conv", [scaled, nets.floats((4, 32, 1, 1), 0.3)])
    return nets


def _stem() -> Nets:
    """A convolution with a pool, of which channels could be cut, and blocks behind, of which rows alone can be."""
    nets = Nets(_first)
    (a,) = nets.node("Conv", [nets.input((1, 1, 32, 16)), nets.floats((8, 1, 3, 3), 0.3)], pads=[1, 1, 1, 1])
    (b,) = nets.node("Relu", [a])
    (block,) = nets.node("MaxPool", [b], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    for _ in range(2):
        (wide,) = nets.node("Conv", [block, nets.floats((32, 8, 1, 1), 0.3)])
        (active,) = nets.node("Relu", [wide])
        (block,) = nets.node("Conv", [active, nets.floats((8, 32, 3, 3), 0.3)], pads=[1, 1, 1, 1])
    nets.node("Conv", [block, nets.floats((8, 8, 3, 3), 0.3)], pads=[1, 1, 1, 1], strides=[4, 4])
    return nets


STEM_BYTES, STEM_WIDE_BYTES = 9728, 4 * 32 * 16 * 8
"""What is reached where makers and readers agree on rows (12,032 where each is cut as suits it alone), and of a wide
tensor of the blocks."""


DEEP_BYTES = 4 * 32 * 8 * 8
"""Of the wide tensor that has to be there until its mean is known."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The block in a file."""
    return saved(_excited().model(), tmp_path_factory.mktemp("handed"))


@pytest.fixture(scope="module")
def plan(source: Path) -> Plan:
    """With pieces handed on."""
    return lowtide.research.plan(source, allow="tile,unmaterialised", time=3)


@pytest.mark.slow
def test_what_others_read_in_parts_is_there_once(source: Path, plan: Plan, tmp_path: Path):
    """Joined it would be there twice; written and run to the same numbers."""
    problem = Problem.of(read_model(source), BUILT_IN["generic"])
    joined = best_regions(Cutter(problem.graph), problem.memory, range(len(problem.graph.ops)), Limits(10))
    assert joined.peak >= 2 * DEEP_BYTES > 1.3 * plan.peak_bytes
    assert plan.region_bound is not None
    assert plan.region_bound.bytes < plan.peak_bytes
    assert plan.proved_over == "orders"
    assert lowtide.verify(source, plan).checks
    assert lowtide.research.plan(source, allow="tile", time=3).peak_bytes == plan.peak_bytes
    plan.apply(source, tmp_path / "out.onnx")
    assert difference(source, tmp_path / "out.onnx", feeds(source)) <= RELATIVE


@pytest.mark.slow
def test_onnxruntime_has_in_use_what_is_planned(source: Path):
    """To the byte, at every op."""
    plan = lowtide.research.plan(source, target="onnxruntime", allow="tile,unmaterialised", time=1)
    run = lowtide.verify(source, plan, run=True, timed=False).run
    assert isinstance(run, RunReport)
    assert run.planned.peak_bytes < run.original.peak_bytes
    assert all(node.planned_bytes in (None, node.in_use_bytes) for node in run.planned.nodes)


@pytest.mark.slow
def test_what_does_not_hold_is_found(source: Path, plan: Plan):
    """Every piece of the wide tensor said to be the channels beside its own, or to be made by nobody."""
    deep = read_model(source).op_by_id[2].outputs[0]
    pieces = [k for k, t in enumerate(plan.tensors) if t.piece is not None and t.piece.of == deep]
    assert len(pieces) > 1
    for k in pieces:
        piece = plan.tensors[k].piece
        assert piece is not None
        (low, high), by = piece.box[1], 1 if piece.box[1][0] == 0 else -1
        box = [*piece.box[:1], (low + by, high + by), *piece.box[2:]]
        tensors = list(plan.tensors)
        tensors[k] = msgspec.structs.replace(tensors[k], piece=msgspec.structs.replace(piece, box=box))
        with pytest.raises((VerificationError, InputError)):
            lowtide.verify(source, msgspec.structs.replace(plan, tensors=tensors))


def test_tensors_that_may_be_handed_on(source: Path):
    """The wide tensor along its channels, not along its rows, over which a mean is taken; no output, no input."""
    graph = read_model(source)
    forwarded = forwardable(Cutter(graph))
    deep = graph.op_by_id[2].outputs[0]
    assert forwarded[deep] == (1,)
    assert all(graph.tensor_by_id[t].kind is Kind.ACTIVATION for t in forwarded)


def test_one_region_makes_what_the_next_one_reads_along_the_same_dimension(tmp_path: Path):
    """Rows all along, though the first region by itself would do with channels; in less than a wide tensor."""
    graph = read_model(saved(_stem().model(), tmp_path))
    cutter, problem, order = Cutter(graph), Problem.of(graph, BUILT_IN["generic"]), range(len(graph.ops))
    best, _ = best_forwarded(cutter, problem.memory, order, Limits(10), profile(problem.memory, order).peak)
    assert best is not None
    assert best.peak == best.way.peak == STEM_BYTES < STEM_WIDE_BYTES
    assert len(best.way.regions) > 1
    assert len(best.way.forwarded) == len(best.way.regions) - 1
    assert {cutter.dim(r.cuts[-1].op, graph.op_by_id[r.cuts[-1].op].outputs[0], r.cuts[-1].axis)
            for r in best.way.regions} == {2}  # fmt: skip


@pytest.mark.slow
def test_what_is_taken_for_handed_on_is_joined_by_nobody(tmp_path: Path):
    """On random networks: the search and the part graph agree."""
    several = 0
    for seed in range(100):
        graph = read_model(saved(random_net(random.Random(seed).choice, 12), tmp_path))
        cutter, problem, order = Cutter(graph), Problem.of(graph, BUILT_IN["generic"]), range(len(graph.ops))
        way = best_regions(cutter, problem.memory, order, Limits(10), forwarded=forwardable(cutter))
        parts = hand_on(graph, apply(cutter, way.regions, [graph.ops[i].id for i in way.order]))
        joined = {op.outputs[0] for op in parts.graph.ops if parts.parts.get(op.id, NO_PART).role == "join"}
        assert joined.isdisjoint(way.forwarded), seed
        several += bool(way.forwarded)
    assert several > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_peak_is_that_of_the_parts_and_holds(seed: int, tmp_path: Path):
    """On random networks: what is said is what the part graph needs; plans are checked and run."""
    rng = random.Random(seed)
    path = saved(random_net(rng.choice, 9), tmp_path)
    graph = read_model(path)
    problem = Problem.of(graph, BUILT_IN["generic"])
    order = range(len(graph.ops))
    best, interrupted = best_forwarded(
        Cutter(graph), problem.memory, order, Limits(10), profile(problem.memory, order).peak
    )
    assert not interrupted
    if best is not None:
        memory = memory_model(best.parts.graph, BUILT_IN["generic"])
        assert best.peak == profile(memory, range(len(best.parts.graph.ops))).peak
    plan = lowtide.research.plan(path, allow="tile,unmaterialised", time=1)
    assert lowtide.verify(path, plan).checks
    assert plan.peak_bytes <= lowtide.research.plan(path, time=1).peak_bytes
    plan.apply(path, tmp_path / "out.onnx")
    assert difference(path, tmp_path / "out.onnx", feeds(path)) <= RELATIVE


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"allow": "unmaterialised"}, "write --allow tile,unmaterialised"),
        ({"allow": "tile,unmaterialised", "max_overhead": "10%"}, "leave out unmaterialised"),
        ({"allow": "tile,unmaterialised", "memories": ["fast=20KiB"]}, "leave out unmaterialised"),
    ],
)
def test_what_does_not_go_together_is_said(settings: dict[str, Any], text: str, source: Path):
    """With what to do instead."""
    with pytest.raises(InputError, match=text):
        lowtide.research.plan(source, **settings)


def test_no_format_but_onnx(tmp_path: Path):
    """A graph of no format has no parts."""
    with pytest.raises(InputError, match="only ONNX"):
        lowtide.research.plan(graph_file(tmp_path, branches()), allow="tile,unmaterialised")


def test_a_budget_that_is_met_without_cuts_nothing(tmp_path: Path):
    """Nothing is cut that need not be."""
    path = saved(pyramid().model(), tmp_path)
    assert lowtide.research.plan(path, allow="tile,unmaterialised", budget="1MiB", time=3).rewrites is None


def test_what_stays_in_pieces_is_said_and_checked(tmp_path: Path):
    """A plan that says so of a tensor that is made whole is refused."""
    path = tmp_path / "net.onnx"
    path.write_bytes(pyramid().model().SerializeToString())
    graph = lowtide.load(path)
    plan = lowtide.research.plan(path, target="generic", allow="tile", time=1)
    kept = [r for r in plan.rewrites or () if not isinstance(r, Split)]
    whole = [t for op in graph.ops if op.id in plan.order for t in op.outputs]
    made = [t.id for t in plan.tensors if t.kind == "output"]
    for tensor in (*whole[:1], *made):
        said = msgspec.structs.replace(plan, rewrites=[*kept, Split(tensors=[tensor])])
        with pytest.raises(VerificationError, match="listed as unmaterialised"):
            lowtide.verify(path, said)
