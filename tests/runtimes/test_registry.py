"""What a runtime makes of a plan is asked in one place, and of the graph alone."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide.plan import Plan, Seconds
from lowtide.runtimes.base import Runtime
from lowtide.runtimes.registry import runtime_of
from lowtide.runtimes.tflm.offline import ONLINE, emptied_tensors, listed_offsets, offline_offsets, without_elements
from lowtide.target import BUILT_IN, resolve
from support.tflite_builder import branches


def _without_times(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, seconds=Seconds())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A small .tflite file."""
    file = tmp_path / "m.tflite"
    file.write_bytes(branches().bytes())
    return file


@pytest.mark.parametrize("target", BUILT_IN)
def test_a_graph_whose_file_is_gone_is_planned(target: str, path: Path) -> None:
    """Under every target, after a journey to another process too; and judged as it stands."""
    whole, judged = (lowtide.research.plan(path, target=target), lowtide.check(path, "1MiB", target=target, as_is=True))
    graph = pickle.loads(pickle.dumps(lowtide.load(path)))
    path.unlink()
    assert _without_times(lowtide.research.plan(graph, target=target)) == _without_times(whole)
    assert lowtide.check(graph, "1MiB", target=target, as_is=True) == judged


def test_each_target_has_its_runtime() -> None:
    """Those with a planner or with bytes of their own are no plain ones."""
    kinds = {name: type(runtime_of(target)).__name__ for name, target in BUILT_IN.items()}
    assert {name: kind for name, kind in kinds.items() if kind != "Runtime"} == {
        "tflm": "Tflm", "tflite": "Litert", "onnxruntime": "Onnxruntime", "torch": "Eager",
    }  # fmt: skip


def test_a_plain_runtime_takes_the_plan(path: Path) -> None:
    """Its order and its offsets; all room is theirs, and nothing is in the file."""
    graph = lowtide.load(path)
    plain = Runtime(BUILT_IN["generic"])
    assert plain.arena_budget(graph, 100) == 100
    assert (plain.required(graph, graph.own_order, {}), plain.of_unmodified(graph)) == (None, None)
    assert plain.offline(graph) is None
    assert (plain.kernel_targets(), plain.target_of_file(graph)) == ({}, BUILT_IN["generic"])
    assert (plain.budgeted_bytes(5, 7), runtime_of(BUILT_IN["torch"]).budgeted_bytes(5, 7)) == (7, 5)


def test_the_room_under_tflm_is_exact(path: Path) -> None:
    """A head fits what the tail leaves if and only if both fit; 15 bytes more change nothing."""
    graph = lowtide.load(path)
    runtime = runtime_of(resolve("tflm"))
    arena = runtime.of_unmodified(graph)
    assert arena is not None
    assert arena.planned_bytes % 16 == 0
    assert arena.required_bytes == arena.planned_bytes + arena.parts.persistent
    for more, room in ((0, 0), (15, 0), (16, 16), (-1, -16), (-16, -16)):
        assert runtime.arena_budget(graph, arena.required_bytes + more) == arena.planned_bytes + room


def test_scratch_of_a_library_is_known(path: Path) -> None:
    """CMSIS-NN's and ESP-NN's as well, which the reference kernels do not take."""
    graph = lowtide.load(path)
    for kernels in ("any", "reference", "cmsis_nn", "esp_nn"):
        arena = runtime_of(resolve(f"tflm,kernels={kernels}")).of_unmodified(graph)
        assert arena is not None
        assert arena.parts.exact
        assert arena.parts.kernels == kernels


def test_offsets_are_listed_as_they_are_written(path: Path, tmp_path: Path) -> None:
    """What is played through beforehand is what the written file holds."""
    plan = lowtide.research.plan(path)
    plan.apply(path, tmp_path / "o.tflite")
    before, after = lowtide.load(path), lowtide.load(tmp_path / "o.tflite")
    offsets = offline_offsets(plan)
    assert offsets is not None
    assert listed_offsets(before.file.model, offsets) == after.file.offline_plan()  # type: ignore[union-attr]
    tflm = runtime_of(BUILT_IN["tflm"])
    arena, there = tflm.required(before, plan.order, offsets), tflm.of_unmodified(after)
    assert arena is not None
    assert there is not None
    assert (arena.planned_bytes, arena.required_bytes, arena.buffers) == (
        there.planned_bytes, there.required_bytes, there.buffers,
    )  # fmt: skip
    assert offline_offsets(lowtide.research.plan(path, target="generic")) is None


def test_a_tensor_without_elements_takes_nothing(path: Path) -> None:
    """Idle tensors larger than the plan are emptied; there are none here, and ONLINE stands for what is left."""
    model = lowtide.load(path).file.model  # type: ignore[union-attr]
    assert emptied_tensors(model, {}) == []
    assert without_elements(model, []) is model
    assert without_elements(model, [0]).subgraphs[0].tensors[0].size == 0
    assert set(listed_offsets(model, {})) == {ONLINE}
