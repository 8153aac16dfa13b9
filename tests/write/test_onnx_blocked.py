"""Parts of convolutions in the blocked layout: cut along rows alone, and the same bits in onnxruntime."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from lowtide.ops.onnx.blocked import DOMAIN, is_blocked, touches_blocked
from lowtide.read import read_model
from lowtide.run.blocks import block_size
from lowtide.run.optimise_process import optimize
from lowtide.run.probe_cuts import probe_cut
from lowtide.run.probe_onnx import OnnxRunner
from lowtide.transform.cut import Cut, Cutter
from lowtide.transform.parts import apply
from lowtide.write.lean import make_lean
from lowtide.write.onnx_parts import write_onnx_parts
from support.blocked_nets import drawn_blocked_net
from support.onnx_builder import saved
from support.part_runs import difference, feeds, session
from support.part_suite import drawn_regions

pytestmark = pytest.mark.skipif(block_size() == 0, reason="convolutions have no blocked layout on this processor")
_SEEDS = range(24)
Networks = Callable[[int], tuple[Path, Path]]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Networks:
    """A drawn network by its seed, and what onnxruntime runs of it."""

    @functools.cache
    def network(seed: int) -> tuple[Path, Path]:
        folder = tmp_path_factory.mktemp("net")
        source, optimised = saved(drawn_blocked_net(seed), folder), folder / "optimised.onnx"
        optimize(source, optimised, {}, "all")
        return source, optimised

    return network


def test_a_block_is_8_or_16_channels() -> None:
    """What onnxruntime has on x86-64 and ARM."""
    assert block_size() in (8, 16)


@pytest.mark.parametrize("seed", _SEEDS)
def test_the_optimised_network_gives_the_bits_of_todays(seed: int, networks: Networks) -> None:
    """Elementwise ops that stay in the blocked layout among them."""
    source, optimised = networks(seed)
    given = feeds(source, seed)
    today = ort.InferenceSession(str(source), providers=["CPUExecutionProvider"]).run(None, given)
    for a, b in zip(today, session(optimised).run(None, given), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.slow
def test_parts_give_the_bits_of_the_whole(tmp_path: Path, networks: Networks) -> None:
    """Drawn regions of drawn networks, as written and without what a session does not need."""
    cut = 0
    for seed in _SEEDS:
        _, optimised = networks(seed)
        given = feeds(optimised, seed)
        cutter, draw = Cutter(read_model(optimised)), random.Random(seed)
        for _ in range(4):
            ways = [(*(draw.randrange(64) for _ in range(4)), draw.randrange(2, 6)) for _ in range(3)]
            target = tmp_path / "parts.onnx"
            try:
                parts = apply(cutter, drawn_regions(cutter, ways))  # type: ignore[arg-type]
            except ValueError:  # one of the regions would run before and behind another
                continue
            write_onnx_parts(optimised, parts, parts.graph.own_order, target)
            assert difference(optimised, target, given) == 0
            before = target.stat().st_size
            make_lean(target)
            assert target.stat().st_size < before
            assert difference(optimised, target, given) == 0
            nodes = onnx.load(str(target)).graph.node
            cut += sum(n.op_type == "Conv" and n.domain == DOMAIN for n in nodes) > sum(
                op.type == f"{DOMAIN}::Conv" for op in cutter.graph.ops
            )
    assert cut > len(_SEEDS)


def test_channels_and_columns_of_blocked_tensors_are_not_cut(networks: Networks) -> None:
    """They are in pieces there."""
    seen = 0
    for seed in _SEEDS:
        graph = read_model(networks(seed)[1])
        cutter = Cutter(graph)
        for op in graph.ops:
            if not touches_blocked(graph, op):
                continue
            for axis in cutter.axes(op.id):
                dims = {cutter.dim(op.id, t, axis) for t in op.outputs}
                assert dims <= {0, 2}, (op.type, axis)
                seen += dims == {2}
        assert any(is_blocked(graph, t.id) for t in graph.tensors)
        assert not any(is_blocked(graph, t.id) for t in graph.tensors if t.kind in ("input", "output"))
    assert seen > len(_SEEDS)


def test_cut_ops_alone_give_what_the_op_gives(networks: Networks) -> None:
    """As `verify --run` proves them, with plain numbers brought into blocks and back."""
    proved = 0
    for seed in range(8):
        graph = read_model(networks(seed)[1])
        cutter, runner = Cutter(graph), OnnxRunner()
        for op in graph.ops:
            for axis in cutter.axes(op.id):
                known = cutter.meaning(op.id)
                assert known is not None
                rows = known.access.sizes[axis]
                if op.type.startswith(DOMAIN) and rows > 2:
                    how = cutter.spelling(op.id, axis)
                    assert how is not None
                    cut = Cut(op.id, axis, (rows // 2 // how.grain * how.grain or how.grain, rows))
                    assert not probe_cut(cutter, cut, runner, seed, 10**7), op.label
                    proved += 1
    assert proved > 20
