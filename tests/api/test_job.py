"""A job is frozen, checked when it is made, and means the same in another process."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide.api import FastMemory, Job, OneArena, Rules, Search, SeveralMemories, plan_job
from lowtide.api.planning import find_goal
from lowtide.plan import Seconds
from lowtide.stop import Progress
from support.small_models import branches, graph_file, matrix_product

ARENA = OneArena.of("1KiB", 16, spread=True)
GOALS = {
    "one arena": ARENA,
    "several memories": SeveralMemories.of(OneArena(reserve=8), ["a=60", "b=1KiB"], None, {"t1": "b"}),
    "a fast memory": FastMemory.of(OneArena(), ["fast=108", "slow=1KiB"], {"lead": "0", "bandwidth": "100MB"}),
}


def _job(goal: Any, model: Any, **rules: Any) -> Job:
    return Job(model, {}, Rules("strict", **rules), goal, Search(goal.method("exact", {}), 5.0, seed=3))


def _same(one: lowtide.Plan, other: lowtide.Plan) -> bool:
    return msgspec.structs.replace(one, seconds=Seconds()) == msgspec.structs.replace(other, seconds=Seconds())


@pytest.mark.parametrize("name", GOALS)
def test_a_job_survives_pickling(name: str, tmp_path: Path) -> None:
    """Of a path and of a graph; the plan is the same but for its times."""
    path = graph_file(tmp_path, branches())
    for model in (path, lowtide.load(path)):
        job = _job(GOALS[name], model, overwrite_inputs=True)
        again = pickle.loads(pickle.dumps(job))
        assert again == job
        assert _same(plan_job(again), plan_job(job))


def test_a_target_file_is_read_when_the_job_is_made(tmp_path: Path) -> None:
    """A job goes to where that file is not."""
    path, file = graph_file(tmp_path, branches()), tmp_path / "mine.toml"
    file.write_text('base = "strict"\nalignment = 8\n')
    goal = OneArena()
    job = pickle.dumps(Job(path, {}, Rules(str(file)), goal, Search(goal.method("exact", {}))))
    file.unlink()
    assert plan_job(pickle.loads(job)).alignment == 8


def test_what_is_in_a_job_is_its_own() -> None:
    """Later changes of what it was made from do not reach it, and it cannot be changed."""
    dims, fixed, names = {"n": 1}, {"a": 0}, ["a", "a"]
    rules = Rules("strict", persistent=names, fixed=fixed)
    job = Job("m.onnx", dims, rules, OneArena(), Search(OneArena().method("own", {})))
    for changed in (dims, fixed):
        changed.clear()
    names.append("b")
    assert (job.dims, job.rules.fixed, job.rules.persistent) == ({"n": 1}, {"a": 0}, ("a",))
    with pytest.raises(FrozenInstanceError):
        job.goal = ARENA  # type: ignore[misc]


@pytest.mark.parametrize(
    ("goal", "rules", "words"),
    [
        ("several memories", {"target": "tflite"}, "target tflite has one arena; plan for memories under another"),
        ("several memories", {"target": "onnxruntime"}, "target onnxruntime has one arena; plan for memories under"),
        (
            "several memories",
            {"target": "tflm"},
            "'t1' is in TFLM's head, as all tensors are; place the head or the tail",
        ),
        ("a fast memory", {"target": "onnxruntime"}, "target onnxruntime has one arena; spill under another one"),
        ("a fast memory", {"persistent": ["t1"]}, "--persistent keeps a tensor in its place"),
        ("a fast memory", {"fixed": {"t1": 0}}, "--fix keeps a tensor in its place"),
        ("one arena", {"target": "tflm"}, "target tflm places tensors by rules of its own; leave out --spread"),
        ("one arena", {"overwrite_inputs": True, "pin_inputs": True}, "cannot be both overwritten and pinned"),
    ],
)
def test_what_a_goal_cannot_honour_is_refused_at_once(goal: str, rules: dict[str, Any], words: str) -> None:
    """Before the model is read: there is no such file."""
    search = Search(GOALS[goal].method("exact", {}))
    with pytest.raises(lowtide.InputError, match=words):
        Job("nothing.onnx", {}, Rules(**{"target": "strict"} | rules), GOALS[goal], search)


def test_a_target_that_keeps_tensors_cannot_spill(tmp_path: Path) -> None:
    """Whether it says so itself or the call does."""
    path = graph_file(tmp_path, branches())
    target = lowtide.Target("mine", persistent=("t1",))
    with pytest.raises(lowtide.InputError, match="--persistent keeps a tensor in its place"):
        lowtide.research.plan(path, target=target, memories=["fast=1KiB"])


def test_the_goal_is_the_one_that_is_asked_for() -> None:
    """By what is said of memories; contradictions are errors, and `no` of each kind is one arena."""
    nothing: Any = (None, None, {})
    assert find_goal(ARENA, nothing, ((), {})) is ARENA
    assert find_goal(OneArena(), (["a=8"], None, {}), ((), {})) == SeveralMemories.of(OneArena(), ["a=8"], None, {})
    assert isinstance(find_goal(OneArena(), nothing, (["a=8"], {})), FastMemory)
    with pytest.raises(lowtide.InputError, match="leave out --budget"):
        find_goal(OneArena(), (["a=8"], None, {}), (["a=8"], {}))


def test_rules_are_those_of_a_plan(tmp_path: Path) -> None:
    """What a plan says of its target is what it is checked and exported under."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(
        path, overwrite_inputs=True, persistent=["t1"], double_buffered=["t2"], fixed={"t3": 64}
    )
    rules = Rules.of_plan(plan)
    assert rules == Rules("generic", True, False, ["t1"], ["t2"], {"t3": 64})
    assert rules.named == ("t1", "t2", "t3")
    assert _same(lowtide.research.plan(path, target=rules.resolve(), overwrite_inputs=True, persistent=["t1"],
                              double_buffered=["t2"], fixed={"t3": 64}), plan)  # fmt: skip


def test_a_fast_memory_that_is_too_small_is_reported_with_the_rest(tmp_path: Path) -> None:
    """The plan without moves has the own name of the method, the trace and who looks on."""
    path, trace, heard = graph_file(tmp_path, branches()), [], []
    plan = lowtide.research.plan(path, target="strict", memories=["fast=70"], trace=trace, report=heard.append)
    assert (plan.status, plan.moves, plan.method, plan.budget_bytes) == ("impossible", None, "exact", 70)
    assert [progress.best_bytes for progress in trace][-1] == 109


@pytest.mark.slow
def test_who_looks_on_can_end_a_search_for_moves(tmp_path: Path) -> None:
    """KeyboardInterrupt from the callback: the best plan so far, which holds."""

    def report(_: Progress) -> None:
        raise KeyboardInterrupt

    path = graph_file(tmp_path, matrix_product(6))
    plan = lowtide.research.plan(path, target="strict", memories=["fast=120"], time=60, report=report)
    assert (plan.stopped, plan.exit_status) == ("interrupt", 130)
    assert plan.seconds.schedule < 30
    lowtide.verify(path, plan)
