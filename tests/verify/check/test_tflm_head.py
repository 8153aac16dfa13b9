"""The head that TFLM makes of a plan, worked out by the checker: the planner's own figure, and not another."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.api.models import load
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.runtimes.registry import runtime_of
from lowtide.target import resolve
from lowtide.verify.check.runtime_arena import tflm_heads
from lowtide_research.bench.tflite_kinds import kinds
from lowtide_research.bench.tflite_net import Net, branches, residual


def drawn(index: int) -> Net:
    """A model of one operator."""
    (kind, variant), make = list(kinds().items())[index]
    net = Net(index)
    given, out = make(random.Random(f"{kind} {variant}"), net)
    net.ends(given, [out])
    return net


@pytest.mark.slow
def test_the_heads_are_those_of_tflms_planner(tmp_path: Path) -> None:
    """Two pieces of code, one figure for each library, on nets and models of one operator each."""
    seen = 0
    for net in (residual(), branches(), *(drawn(k) for k in range(0, 160, 8))):
        path = tmp_path / "m.tflite"
        path.write_bytes(net.bytes())
        graph, rules = load(path), resolve("tflm,pointer=32")
        plan = lowtide.research.plan(path, target=rules)
        heads = tflm_heads(graph, plan, rules)
        offsets = {int(t): at for t, at in (plan.offsets or {}).items()}
        required = runtime_of(rules).required(graph, plan.order, offsets)
        if heads is None or required is None:
            continue
        assert heads == {name: one.planned_bytes for name, one in required.each.items()}
        seen += 1
    assert seen >= 20


def changed(plan: lowtide.Plan, graph: Graph, by: dict[str, Any]) -> lowtide.Plan:
    """A plan whose parts say otherwise, and whose block and required bytes follow from them."""
    parts = plan.runtime_parts
    assert parts is not None
    parts = msgspec.structs.replace(parts, **by)
    block = max(parts.planned + parts.persistent, parts.planning)
    arenas = {**parts.arenas, parts.decided_by: block} if parts.arenas else {}
    parts = msgspec.structs.replace(parts, arenas=arenas)
    return msgspec.structs.replace(plan, runtime_parts=parts, runtime_arena_bytes=block, required_bytes=block)


@pytest.mark.parametrize("kernels", ["any", "reference", "cmsis_nn", "esp_nn"])
def test_a_head_of_other_bytes_is_refused(tmp_path: Path, kernels: str) -> None:
    """Lower or higher, with all that follows from it."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    graph, target = load(path), f"tflm,pointer=32,kernels={kernels}"
    plan = lowtide.research.plan(path, target=target)
    assert plan.runtime_parts is not None
    lowtide.verify(path, plan)
    for by in (-16, 16, -512):
        planned = plan.runtime_parts.planned + by
        forged = changed(plan, graph, {"planned": planned})
        if kernels != "any":
            forged = msgspec.structs.replace(forged, arena_bytes=planned)
        with pytest.raises(VerificationError):
            lowtide.verify(path, forged)


def test_a_head_that_leaves_a_library_out_is_refused(tmp_path: Path) -> None:
    """Where no kernels are named: the plan's head is the largest, and no library's arena is below its head."""
    path = tmp_path / "m.tflite"
    path.write_bytes(branches().bytes())
    plan = lowtide.research.plan(path, target="tflm,pointer=32")
    parts = plan.runtime_parts
    assert parts is not None
    assert plan.arena_bytes is not None
    low = msgspec.structs.replace(parts, arenas={**parts.arenas, "reference": 1024})
    with pytest.raises(VerificationError, match="with kernels 'reference' the head alone takes"):
        lowtide.verify(path, msgspec.structs.replace(plan, runtime_parts=low))
