"""What a picture shows agrees with the plan: bytes of every step, rectangles, who is live at the peak."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.analyse.liveness import largest_single_op
from lowtide.analyse.storage import memory_model
from lowtide.api.writing import write_zoo
from lowtide.errors import InputError
from lowtide.plan import Plan, from_json
from lowtide.report.page.page import page
from lowtide.report.svg import figures
from lowtide.report.trace import trace_json
from lowtide.report.view import PlanView
from lowtide.target import BUILT_IN
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
        plan = lowtide.research.plan(random_graph(rng, rng.randint(1, 9)), target=target, time=5)
        view = _agrees(plan)
        assert list(view.live_bytes) == [_live(view, step) for step in range(view.steps)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("zoo:nasnet_a_cifar:n=1", {"target": "onnxruntime"}),
        ("zoo:swiftnet_cell_a", {"memories": ["fast=190KiB", "slow=100KiB"], "target": "strict", "time": 3}),
        ("zoo:swiftnet_cell_a", {"banks": ["a=64KiB", "b=1MiB"]}),
        ("cut.onnx", {"allow": "tile", "time": 2}),
        ("zoo:swiftnet_cell_a", {"allow": "recompute", "budget": "95%"}),
    ],
)
def test_every_kind_of_plan_has_a_view(model: str, settings: dict, tmp_path: Path):
    """Memories, moves, cuts, ops that run again."""
    if model == "cut.onnx":  # a zoo network as a file: graphs without one are not cut
        model = str(tmp_path / model)
        write_zoo("mobilenet_v2_035:side=32", model)
    view = _agrees(lowtide.research.plan(model, **settings))
    if "memories" in settings:
        assert view.edits["moves"] == len(view.moves) > 0
        assert view.bound_bytes is None
    if "allow" in settings and settings["allow"] == "tile":
        assert view.edits["tiled"]
        names = {op.name for op in lowtide.load(model).ops}
        assert {op.of for op in view.ops if op.edit in ("", "part")} <= names


def test_who_is_live_comes_largest_first():
    """And is there at that step."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a"))
    live = view.at(view.peak_step)
    sizes = [view.rectangles[i].size for i in live]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == view.peak_bytes + view.shared_bytes[view.peak_step]


def test_a_plan_without_a_profile_is_refused():
    """With what to do."""
    plan = msgspec.structs.replace(lowtide.research.plan("zoo:swiftnet_cell_a"), profile=None)
    with pytest.raises(InputError, match="again"):
        PlanView.of(plan)


@pytest.mark.parametrize("change", [{"storages": [10**9]}, {"bytes": [1]}, {"starts": [10**6]}])
def test_a_profile_of_something_else_is_refused(change: dict):
    """A plan from a stranger is an input, not a crash."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a")
    assert plan.profile is not None
    columns = {k: v * len(getattr(plan.profile, k)) if k != "bytes" else v for k, v in change.items()}
    told = msgspec.structs.replace(plan.profile, **columns)
    with pytest.raises(InputError, match="profile"):
        PlanView.of(msgspec.structs.replace(plan, profile=told))


def test_room_is_what_the_budget_leaves():
    """Less the reserve, and under tflm less the tail."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", budget="300KiB", reserve="20KiB")
    assert PlanView.of(plan).room_bytes == 280 * 1024


@pytest.mark.slow
def test_moves_of_every_kind_add_up():
    """The fast memory's bytes, in place too, under several targets and costs of moves."""
    rng, moved, over = Random(3), 0, 0
    for _ in range(40):
        graph, target = random_graph(rng, rng.randint(3, 12)), rng.choice(["hmcos", "strict"])
        least = largest_single_op(memory_model(graph, BUILT_IN[target]))
        room = max(1, least, int(lowtide.research.plan(graph, target=target, time=2).peak_bytes * rng.uniform(0.6, 1)))
        for moves in ({}, {"rematerialise": "true"}, *([{"parameters": "true"}] if target == "strict" else [])):
            memories = [f"fast={room}", "slow=20"]
            plan = lowtide.research.plan(graph, target=target, memories=memories, moves=moves, time=2)
            if plan.moves is None:
                continue
            view = PlanView.of(plan)
            assert view.peak_bytes == plan.peak_bytes
            assert all(sum(c) == live for *c, live in zip(*view.kinds.values(), view.live_bytes, strict=True))
            assert min(view.shared_bytes, default=0) >= 0
            moved += len(plan.moves) > 0
            over += len(plan.in_place) > 0
    assert moved > 5
    assert over > 3


def _worse(rng: Random, value: Any) -> Any:
    """A JSON value with one thing in it changed."""
    if isinstance(value, dict) and value:
        key = rng.choice(sorted(value))
        return (
            {**value, key: _worse(rng, value[key])} if rng.random() < 0.9 else {k: value[k] for k in value if k != key}
        )
    if isinstance(value, list) and value:
        at = rng.randrange(len(value))
        return [*value[:at], _worse(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return rng.choice([0, -1, value + 1, value * 2, 10**6])
    return rng.choice(["", "other", "<b>"]) if isinstance(value, str) else value


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"banks": ["a=64KiB", "b=1MiB"]}, {"memories": ["fast=190KiB"], "time": 1}])
def test_a_plan_from_a_stranger_is_drawn_or_refused(settings: dict[str, Any]):
    """Whatever is wrong in it: no crash."""
    rng = Random(8)
    document = msgspec.json.decode(lowtide.research.plan("zoo:swiftnet_cell_a", target="generic", **settings).to_json())
    for _ in range(150):
        changed = document
        for _ in range(rng.randint(1, 3)):
            key = rng.choice(
                ["profile", "tensors", "ops", "order", "in_place", "residency", "offsets", "memories", "moves"]
            )
            if changed.get(key):
                changed = {**changed, key: _worse(rng, changed[key])}
        try:
            plan = from_json(msgspec.json.encode(changed))
            view = PlanView.of(plan)
        except InputError:
            continue
        page(view, view)
        trace_json(view)
        for _ in figures(view):
            pass
