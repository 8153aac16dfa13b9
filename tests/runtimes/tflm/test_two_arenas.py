"""TFLM's head and tail in arrays of their own: sizes as measured in builds of TFLM, and what must hold of any."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from lowtide.read.tflite.model import parse_tflite
from lowtide.read.tflite.reader import graph_of
from lowtide.rules.tflm.rule import TflmRule
from lowtide.runtimes.tflm.builds import I386, X86_64, Build, two_arena_build
from lowtide.runtimes.tflm.persistent import ArenaParts, arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide.target import resolve
from lowtide_research.bench.tflite_kinds import kinds
from support.tflite_builder import Net, branches, residual

RESULTS = Path(__file__).parents[3] / "packages/research/results/tflm-apart-operators.json"
BUILDS = {
    "32-reference": Build(I386, False, False),
    "32-cmsis_nn": Build(I386, False, False, "cmsis_nn", "none"),
    "64-reference": Build(X86_64, False, False),
}


def parts_of(data: bytes, build: Build) -> tuple[int, ArenaParts]:
    """The head, and what is beside it."""
    model = parse_tflite(data, "m")
    graph = graph_of(model, [], "m", "")
    head = tflm_head(model, graph, graph.own_order, None, TflmRule(build.kernels, build.simd, build.abi.pointer))
    assert head is not None
    return head.bytes, arena_parts(model, graph, graph.own_order, build)


def test_sizeof_of_the_allocators():
    """PersistentArenaBufferAllocator and NonPersistentArenaBufferAllocator, as a compiler says (bench/tflm32)."""
    for abi, sizes in ((I386, [(16, 4), (32, 4)]), (X86_64, [(32, 8), (56, 8)])):
        assert list(Build(abi, False, False, two_arenas=True).allocators[:2]) == sizes


def test_the_build_of_a_target_has_no_recording_allocator():
    """Whoever makes two arenas makes them himself; else it is the target's build."""
    build = two_arena_build(resolve("tflm"))
    assert (build.two_arenas, build.recording, build.pip, build.abi) == (True, False, False, X86_64)
    assert "two arenas" in build.words
    assert two_arena_build(resolve("tflm,pointer=32,kernels=cmsis_nn")).kernels == "cmsis_nn"


@pytest.mark.parametrize("make", [branches, residual])
@pytest.mark.parametrize("name", list(BUILDS))
def test_two_arrays_take_what_one_does(make, name: str):
    """The head is the same; both together are 0 to 48 bytes more, or more by what starting needs beside the head."""
    data, build = make().bytes(), BUILDS[name]
    head, one = parts_of(data, build)
    same, two = parts_of(data, replace(build, two_arenas=True))
    assert head == same
    assert 0 <= two.persistent_bytes - one.persistent_bytes <= 48
    assert two.head_arena(head) == max(head, two.planning_bytes, two.preparing_bytes)
    assert two.head_arena(head) + two.persistent_bytes >= one.smallest_arena(head)


@pytest.mark.slow
@pytest.mark.skipif(not RESULTS.exists(), reason="needs packages/research/results, which an installed package has not")
@pytest.mark.parametrize("name", list(BUILDS))
def test_operators_as_measured_in_builds(name: str):
    """Both arrays of every kind of operator; those where preparing takes most may be some bytes too large."""
    rows = [r for r in json.loads(RESULTS.read_text())["rows"] if r["build"] == name and r["outputs"] != "none"]
    assert len(rows) >= 160
    missed = 0
    for row in rows:
        kind, rest = row["model"].split(" ", 1)
        variant, seed = rest.rsplit(" ", 1)
        net = Net(int(seed))
        given, out = kinds()[kind, variant](random.Random(row["model"]), net)
        net.ends(given, [out])
        head, parts = parts_of(net.bytes(), replace(BUILDS[name], two_arenas=True))
        size = parts.head_arena(head)
        assert parts.persistent_bytes == row["tail"], row["model"]
        assert size == row["head"] or (size == parts.preparing_bytes and size > row["head"]), row["model"]
        missed += size != row["head"]
    assert missed <= 0.05 * len(rows)
