"""What a picture shows agrees with the plan: bytes of every step, rectangles, who is live at the peak."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest

import lowtide
from lowtide.api.writing import write_zoo
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.report.view import PlanView
from support.random_graphs import random_graph


def _live(view: PlanView, step: int) -> int:
    """By the definition: bytes of a step, rectangle by rectangle, addresses that two hold counted once."""
    there = [r for r in view.rectangles if r.start <= step < r.end and view.counts(r)]
    held = {(r.memory, a) for r in there for a in range(r.offset or 0, (r.offset or 0) + r.size)}
    return len(held)


def _agrees(plan: Plan) -> PlanView:
    view = PlanView.of(plan)
    assert view.steps == len(plan.order)
    assert view.peak_bytes == plan.peak_bytes
    for step, live in enumerate(view.live_bytes):
        assert sum(column[step] for column in view.kinds.values()) == live
        assert all(column[step] >= 0 for column in view.kinds.values())
    for r in view.rectangles:
        assert 0 <= r.start < r.end <= max(view.steps, 1)
        if r.over is not None:
            under = view.rectangles[r.over]
            assert under.end == r.start + 1
            assert r.offset is None or under.offset is None or under.offset < r.offset + r.size
        if r.offset is not None:
            assert r.offset + r.size <= view.memories[r.memory].size
    return view


@pytest.mark.parametrize("target", ["strict", "generic"])
def test_bytes_are_those_of_the_rectangles(target: str):
    """Where outputs lie exactly over inputs, what is live is the addresses that rectangles cover."""
    rng = Random(5)
    for _ in range(25):
        plan = lowtide.plan(random_graph(rng, rng.randint(1, 9)), target=target, time=5)
        view = _agrees(plan)
        assert list(view.live_bytes) == [_live(view, step) for step in range(view.steps)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("zoo:nasnet_a_cifar:n=1", {"target": "onnxruntime"}),
        ("zoo:swiftnet_cell_a", {"memories": ["fast=190KiB", "slow=100KiB"], "target": "strict", "time": 3}),
        ("zoo:swiftnet_cell_a", {"banks": ["a=64KiB", "b=1MiB"]}),
        ("cut.onnx", {"allow": "fission"}),
        ("zoo:swiftnet_cell_a", {"allow": "recompute", "budget": "95%"}),
    ],
)
def test_every_kind_of_plan_has_a_view(model: str, settings: dict, tmp_path: Path):
    """Memories, moves, cuts, ops that run again."""
    if model == "cut.onnx":  # a zoo network as a file: graphs without one are not cut
        model = str(tmp_path / model)
        write_zoo("mobilenet_v2_035:side=32", model)
    view = _agrees(lowtide.plan(model, **settings))
    if "memories" in settings:
        assert view.edits["moves"] == len(view.moves) > 0
        assert view.bound_bytes is None
    if "allow" in settings and settings["allow"] == "fission":
        assert view.edits["cut"]
        names = {op.name for op in lowtide.load(model).ops}
        assert {op.of for op in view.ops if op.edit in ("", "part")} <= names


def test_who_is_live_comes_largest_first():
    """And is there at that step."""
    view = PlanView.of(lowtide.plan("zoo:swiftnet_cell_a"))
    live = view.at(view.peak_step)
    sizes = [view.rectangles[i].size for i in live]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == view.peak_bytes + view.shared_bytes[view.peak_step]


def test_a_plan_without_a_profile_is_refused():
    """With what to do."""
    plan = msgspec.structs.replace(lowtide.plan("zoo:swiftnet_cell_a"), profile=None)
    with pytest.raises(InputError, match="again"):
        PlanView.of(plan)


@pytest.mark.parametrize("change", [{"storages": [10**9]}, {"bytes": [1]}, {"starts": [10**6]}])
def test_a_profile_of_something_else_is_refused(change: dict):
    """A plan from a stranger is an input, not a crash."""
    plan = lowtide.plan("zoo:swiftnet_cell_a")
    assert plan.profile is not None
    columns = {k: v * len(getattr(plan.profile, k)) if k != "bytes" else v for k, v in change.items()}
    told = msgspec.structs.replace(plan.profile, **columns)
    with pytest.raises(InputError, match="profile"):
        PlanView.of(msgspec.structs.replace(plan, profile=told))


def test_room_is_what_the_budget_leaves():
    """Less the reserve, and under tflm less the tail."""
    plan = lowtide.plan("zoo:swiftnet_cell_a", budget="300KiB", reserve="20KiB")
    assert PlanView.of(plan).room_bytes == 280 * 1024
