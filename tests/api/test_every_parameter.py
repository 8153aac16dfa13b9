"""Nothing that a call which plans is asked for is dropped: each parameter changes the result, or is refused by name.

The tables have a row for each parameter of each call under each goal; one that is new and has none fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api import fitting, surveys
from lowtide.api.job import Job
from lowtide.schedule.registry import methods
from support.costs import costs
from support.onnx_builder import model, node, saved, value
from support.parameters import Changes, Refused, Reports, Row, Rows, Shows, a_function, a_list, cases, keywords
from support.small_models import branches, graph_file, matrix_product
from support.small_nets import pyramid

HARD = {"model": "hard"}
FREE = {"model": "free", "target": "onnxruntime"}
BANKS = {"banks": ["a=110", "b=1KiB"]}
FAST = {"memories": ["fast=108"]}

PLAN: dict[str, Rows] = {
    "one arena": {
        "example": Refused((), "example= is what a torch.nn.Module is called with"),
        "target": Changes("generic", "target"),
        "budget": Changes(100, "status"),
        "reserve": Changes(64, "required_bytes"),
        "banks": Changes(["a=110", "b=1KiB"], "memories"),
        "board": Changes("rp2040", "memories"),
        "places": Refused({"t1": "b"}, "name memories with --bank or --board"),
        "memories": Changes(["fast=108"], "moves"),
        "moves": Refused({"lead": "1"}, "--moves says what spilling costs; name the memories"),
        "method": Changes("own", "order"),
        "options": Changes({"cut": "false"}, "states"),
        "time": Shows(0.2, "stopped", "time", HARD),
        "search_memory": Shows("1KiB", "stopped", "memory", HARD | {"time": 60.0}),
        "seed": Changes(3, "seed"),
        "dims": Changes({"n": 8}, "peak_bytes", FREE | {"dims": {"n": 4}}),
        "gap": Shows("90%", "stopped", "complete", HARD | {"time": 60.0}),
        "require_optimal": Changes(True, "status", {"method": "rpo"}),
        "allow": Changes("tile", "rewrites", {"model": "pyramid"}),
        "exact_bits": Changes(True, "rewrites", {"model": "pyramid", "allow": "tile"}),
        "max_ops": Changes(20, "rewrites", {"model": "pyramid", "allow": "tile"}),
        "cost": Changes(costs([]), "cost", {"model": "pyramid", "allow": "tile"}),
        "max_overhead": Changes("5%", "rewrites", {"model": "pyramid", "allow": "tile", "cost": costs([])}),
        "stream_input": Changes(True, "loops", {"model": "pyramid", "target": "loops", "allow": "row-streaming"}),
        "warm_start": Refused("no_such.plan.json", "cannot read the plan"),
        "overwrite_inputs": Changes(True, "overwrite_inputs"),
        "pin_inputs": Changes(True, "pin_inputs"),
        "persistent": Changes(["t1"], "peak_bytes"),
        "double_buffered": Changes(["t1"], "peak_bytes"),
        "fixed": Changes({"t1": 64}, "offsets"),
        "spread": Changes(True, "offsets", {"budget": "1KiB"}),
        "quick": Shows(True, "replayed", False),
        "trace": Reports(a_list),
        "report": Reports(a_function, HARD | {"time": 0.4}),
    },
    "several memories": {
        "example": Refused((), "example= is what a torch.nn.Module is called with"),
        "target": Changes("generic", "target"),
        "budget": Refused(100, "--budget is for one arena"),
        "reserve": Changes(64, "required_bytes"),
        "banks": Changes(["a=60", "b=1KiB"], "residency"),
        "board": Changes("rp2040", "memories"),
        "places": Changes({"t1": "b"}, "residency"),
        "memories": Refused(["fast=108"], "leave out --budget, --reserve, --bank, --board and --place"),
        "moves": Refused({"lead": "1"}, "--moves says what spilling costs; name the memories"),
        "method": Changes("own", "order"),
        "options": Changes({"cut": "false"}, "states"),
        "time": Shows(0.2, "stopped", "time", HARD),
        "search_memory": Shows("1KiB", "stopped", "memory", HARD | {"time": 1.0}),
        "seed": Changes(3, "seed"),
        "dims": Changes({"n": 8}, "peak_bytes", {"model": "free", "target": "generic", "dims": {"n": 4}}),
        "gap": Shows("90%", "stopped", "complete", HARD | {"time": 1.0}),
        "require_optimal": Changes(True, "status", {"method": "rpo"}),
        "allow": Refused("tile", "--allow is for one arena"),
        "exact_bits": Refused(True, "--exact-bits is about what --allow may change"),
        "max_ops": Refused(9, "--max-ops is about what --allow may change"),
        "cost": Refused(costs([]), "--cost is about what --allow may change"),
        "max_overhead": Refused("9%", "--max-overhead is about what --allow may change"),
        "stream_input": Refused(True, "it needs --allow row-streaming"),
        "warm_start": Refused("no_such.plan.json", "cannot read the plan"),
        "overwrite_inputs": Changes(True, "overwrite_inputs"),
        "pin_inputs": Changes(True, "pin_inputs"),
        "persistent": Changes(["t1"], "peak_bytes"),
        "double_buffered": Changes(["t1"], "peak_bytes"),
        "fixed": Changes({"t1": 8}, "residency"),
        "spread": Refused(True, "--spread is for one arena with a budget; leave it out"),
        "quick": Shows(True, "replayed", False),
        "trace": Reports(a_list),
        "report": Reports(a_function, HARD | {"time": 0.4}),
    },
    "a fast memory": {
        "example": Refused((), "example= is what a torch.nn.Module is called with"),
        "target": Changes("hmcos", "target"),
        "budget": Refused(100, "leave out --budget"),
        "reserve": Refused(1, "leave out --budget, --reserve"),
        "banks": Refused(["a=110"], "leave out --budget, --reserve, --bank"),
        "board": Refused("rp2040", "leave out --budget, --reserve, --bank, --board"),
        "places": Refused({"t1": "a"}, "leave out --budget, --reserve, --bank, --board and --place"),
        "memories": Changes(["fast=1KiB"], "traffic_bytes"),
        "moves": Changes({"outputs_end_fast": "true"}, "spilling"),
        "method": Changes("belady", "traffic_bytes"),
        "options": Changes({"rows": "true"}, "by_rows_bytes"),
        "time": Shows(0.2, "stopped", "time", HARD | {"memories": ["fast=120"]}),
        "search_memory": Changes("1B", "stopped"),
        "seed": Changes(3, "seed"),
        "dims": Changes({"n": 8}, "status", {"model": "free", "memories": ["fast=256"], "dims": {"n": 4}}),
        "gap": Refused("3%", "--gap is for the exact search for a peak"),
        "require_optimal": Changes(True, "status", {"method": "belady"}),
        "allow": Changes("tile", "rewrites", {"model": "pyramid", "memories": ["fast=10KB"]}),
        "exact_bits": Refused(True, "--exact-bits is about what --allow may change"),
        "max_ops": Refused(9, "--max-ops is about what --allow may change"),
        "cost": Refused(costs([]), "--cost is about what --allow may change"),
        "max_overhead": Refused("9%", "--max-overhead is about what --allow may change"),
        "stream_input": Refused(True, "it needs --allow row-streaming"),
        "warm_start": Refused("no_such.plan.json", "cannot read the plan"),
        "overwrite_inputs": Changes(True, "overwrite_inputs"),
        "pin_inputs": Changes(True, "pin_inputs"),
        "persistent": Refused(["t1"], "--persistent keeps a tensor in its place, and a plan with spilling moves it"),
        "double_buffered": Refused(["t1"], "--double-buffer keeps a tensor in its place"),
        "fixed": Refused({"t1": 8}, "--fix keeps a tensor in its place"),
        "spread": Refused(True, "--spread is for one arena with a budget; leave it out"),
        "quick": Refused(True, "quick stops at a budget, and a plan with spilling has none"),
        "trace": Reports(a_list),
        "report": Reports(a_function),
    },
}

GOALS: dict[str, dict[str, Any]] = {"one arena": {}, "several memories": BANKS, "a fast memory": FAST}


def paths(folder: Path) -> dict[str, Path]:
    """A small model, one that is hard to prove, one with a free dimension, and one that is worth cutting."""
    nodes = [node("Relu", "x", "a"), node("Concat", "a x", "b", axis=0), node("Sigmoid", "b", "y")]
    free = model(nodes, [value("x", ("n", 4))], [value("y", ("m", 4))])
    return {
        "small": graph_file(folder, branches()),
        "hard": graph_file(folder, matrix_product(4), "hard.graph.json"),
        "free": saved(free, folder, "free.onnx"),
        "pyramid": saved(pyramid().model(), folder, "pyramid.onnx"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "name"), cases(PLAN))
def test_plan(goal: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter under each goal."""
    from lowtide.verify.check import plan as checker

    models, replayed = paths(tmp_path), []
    replay = checker.replay

    def plan(**settings: Any) -> Any:
        replayed.clear()
        settings = {"target": "strict", **GOALS[goal], **settings}
        path = models[settings.pop("model", "small")]
        made = lowtide.research.plan(path, **settings)
        return _Seen(made, bool(replayed)) if name == "quick" else made

    def noted(*arguments: Any) -> Any:
        replayed.append(arguments)
        return replay(*arguments)

    monkeypatch.setattr(checker, "replay", noted)
    PLAN[goal][name].check(plan, name)


class _Seen:
    """A plan, and whether its arena was replayed byte by byte."""

    def __init__(self, plan: lowtide.Plan, replayed: bool) -> None:
        self.search, self.replayed = plan.search, replayed


def test_replay_is_made_unless_it_is_quick(tmp_path: Path) -> None:
    """What `quick` leaves out."""
    report = lowtide.verify(path := paths(tmp_path)["small"], lowtide.research.plan(path))
    assert "replay" in [check.name for check in report.checks]


@pytest.mark.parametrize("goal", PLAN)
def test_every_parameter_of_plan_has_its_row(goal: str) -> None:
    """And no other has."""
    assert sorted(PLAN[goal]) == sorted(keywords(lowtide.research.plan, ("model",)))


@pytest.mark.parametrize("name", keywords(lowtide.research.plan, ("model", "budget")))
def test_check_hands_on_every_parameter_of_plan(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its value is; whether the model's own order is judged or not."""
    path, seen = paths(tmp_path)["small"], {}
    mark = object()

    class Enough(Exception):
        """The call came through."""

    def plan(_: Any, **settings: Any) -> None:
        seen.update(settings)
        raise Enough

    monkeypatch.setattr(fitting, "plan", plan)
    with pytest.raises(Enough):
        lowtide.check(path, 100, **dict[str, Any]({name: mark}))
    assert seen.pop(name) is mark
    assert seen.pop("budget") == 100
    assert seen == ({} if name == "quick" else {"quick": True})


CHECK: Rows = {
    "budget": Changes(109, "status", {"budget": 100}),
    "as_is": Changes(True, "required_bytes", {"budget": 200}),
}
"""Beside `settings`, which are those of `plan`."""


@pytest.mark.parametrize("name", CHECK)
def test_check(name: str, tmp_path: Path) -> None:
    """What is its own."""
    path = paths(tmp_path)["small"]
    CHECK[name].check(lambda **settings: lowtide.check(path, **dict[str, Any](target="strict") | settings), name)
    assert sorted([*CHECK, "settings"]) == sorted(keywords(lowtide.check, ("model",)))


def test_as_is_goes_with_no_other_method(tmp_path: Path) -> None:
    """The file's own order is the method."""
    path = paths(tmp_path)["small"]
    for settings in ({"method": "greedy"}, {"options": {"cut": "false"}}):
        with pytest.raises(lowtide.InputError, match="--as-is judges the file order; leave out --method"):
            lowtide.check(path, 200, as_is=True, **settings)
    assert lowtide.check(path, 208, as_is=True, target="strict", require_optimal=True).status == "unproved"


COMPARE: dict[str, Rows] = {
    "one arena": {
        "methods": Shows(["own"], "names", ["own"]),
        "every": Shows(True, "names", list(methods()), {"methods": ()}),
        "memories": Shows(["fast=108"], "names", ["spill"], {"methods": ["spill"]}),
        "moves": Refused({"lead": "1"}, "--moves says what spilling costs; name the memories"),
        "options": Changes({"exact": {"cut": "false"}}, "states", {"methods": ["exact"]}),
        "report": Reports(a_function, HARD | {"methods": ["exact"], "time": 1.0}),
    },
    "a fast memory": {
        "methods": Shows(["belady"], "names", ["belady"]),
        "every": Refused(True, "leave out --methods", {"methods": ["belady"]}),
        "memories": Changes(["fast=1KiB"], "traffic", {"methods": ["spill"]}),
        "moves": Changes({"inputs_have_copy": "false"}, "traffic", {"methods": ["spill"]}),
        "options": Changes({"spill": {"rows": "true"}}, "counters", {"methods": ["spill"]}),
        "report": Reports(a_function),
    },
}
"""What is not of the job that is run for each method; the rest is in `JOB`."""

JOB: dict[str, tuple[Any, str]] = {
    "target": ("hmcos", "target.name"),
    "time": (7.0, "search.seconds"),
    "gap": (0.25, "search.gap"),
    "search_memory": ("1KiB", "search.memory_bytes"),
    "seed": (3, "search.seed"),
    "dims": ({"n": 8}, "dims"),
    "overwrite_inputs": (True, "rules.overwrite_inputs"),
    "pin_inputs": (True, "rules.pin_inputs"),
    "persistent": (["t1"], "rules.persistent"),
    "double_buffered": (["t1"], "rules.double_buffered"),
    "method": ("own", "search.method.name"),
}
"""What a call hands on to a job, and where it is there; what a job does with it is `PLAN`'s to say."""


class _Rows:
    """The rows of a comparison, as one thing."""

    search: dict[str, Any] | None = None

    def __init__(self, rows: list[lowtide.MethodResult]) -> None:
        self.names = [row.method for row in rows]
        self.states = [row.states for row in rows]
        self.traffic = [row.traffic_bytes for row in rows]
        self.counters = [set(row.counters) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize(("goal", "name"), cases(COMPARE))
def test_compare(goal: str, name: str, tmp_path: Path) -> None:
    """Methods, their options, and what they are compared for."""
    models = paths(tmp_path)

    def compare(**settings: Any) -> _Rows:
        settings = {"target": "strict", "time": 5.0, **GOALS[goal], **settings}
        if "methods" not in settings:
            settings["methods"] = ["spill"] if "memories" in settings else ["own", "exact"]
        return _Rows(lowtide.research.compare(models[settings.pop("model", "small")], **settings))

    COMPARE[goal][name].check(compare, name)


@pytest.mark.parametrize(
    "call", [lowtide.research.compare, lowtide.inspect, lowtide.research.share], ids=lambda call: call.__name__
)
@pytest.mark.parametrize("name", JOB)
def test_the_job_says_what_the_call_asks_for(
    call: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost between the words and the object."""
    if name not in keywords(call):
        assert name in ("persistent", "double_buffered", "method", "options", "gap")
        return
    models, jobs = paths(tmp_path), []

    class Enough(Exception):
        """The job is there."""

    def problem(job: Job) -> Any:
        jobs.append(job)
        raise Enough

    given, where = JOB[name]
    path = models["free" if name == "dims" else "small"]
    monkeypatch.setattr(Job, "problem", problem)
    with pytest.raises(Enough):
        call([path, path] if call is lowtide.research.share else path, **{"target": "strict"} | {name: given})
    if call is lowtide.research.share and name == "dims":  # models are read beforehand, for the sizes that are theirs
        assert jobs[0].model.tensor_by_id[0].shape == (8, 4)
        return
    at: Any = jobs[0]
    for part in where.split("."):
        at = getattr(at, part)
    assert at == {"search_memory": 1024}.get(name, tuple(given) if isinstance(given, list) else given)


SHARE: Rows = {"budget": Changes(10, "status"), "report": Reports(a_function, {"hard": True, "time": 0.4})}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARE)
def test_share(name: str, tmp_path: Path) -> None:
    """What is not of the jobs."""
    models = paths(tmp_path)

    def share(hard: bool = False, **settings: Any) -> Any:
        return lowtide.research.share(
            [models["hard" if hard else "small"], models["small"]], **dict[str, Any](target="strict") | settings
        )

    SHARE[name].check(share, name)


def test_every_parameter_has_its_row() -> None:
    """Of the calls that make a job."""
    for goal in COMPARE:
        of_job = {"target", "time", "search_memory", "seed", "dims", "overwrite_inputs", "pin_inputs"}
        assert {*COMPARE[goal], *of_job} == set(keywords(lowtide.research.compare, ("model",))), goal
    assert set(keywords(lowtide.inspect, ("model",))) <= {*JOB, "options", "report", "ladder"}
    assert set(keywords(lowtide.research.share, ("models",))) == {*SHARE, *JOB} - {"method", "gap"}


INSPECT: dict[str, Row] = {
    "options": Refused({"cut": "perhaps"}, "exact.cut is 'perhaps'"),
    "report": Reports(a_function, {"hard": True, "time": 0.4}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INSPECT)
def test_inspect(name: str, tmp_path: Path) -> None:
    """What is not of the job."""
    models = paths(tmp_path)
    INSPECT[name].check(
        lambda hard=False, **settings: surveys.inspect(models["hard" if hard else "small"], **settings), name
    )


def test_a_dimension_of_none_of_the_models_is_refused(tmp_path: Path) -> None:
    """A size that nobody has a use for."""
    models = paths(tmp_path)
    with pytest.raises(lowtide.InputError, match="none of the models has a free dimension 'k'"):
        lowtide.research.share([models["free"], models["small"]], dims={"n": 4, "k": 2})


def test_a_graph_has_no_free_dimensions(tmp_path: Path) -> None:
    """Its sizes are known: what is said of them is refused, by every call that takes a graph."""
    graph = lowtide.load(paths(tmp_path)["small"])
    plan = lowtide.research.plan(graph)
    for call in (
        lambda: lowtide.research.plan(graph, dims={"n": 1}),
        lambda: lowtide.check(graph, 100, dims={"n": 1}),
        lambda: lowtide.check(graph, 100, as_is=True, dims={"n": 1}),
        lambda: lowtide.inspect(graph, dims={"n": 1}),
        lambda: lowtide.research.compare(graph, ["own"], dims={"n": 1}),
        lambda: lowtide.verify(graph, plan, dims={"n": 1}),
        lambda: lowtide.research.prove(graph, plan, dims={"n": 1}),
        lambda: lowtide.export(plan, graph, dims={"n": 1}),
    ):
        with pytest.raises(lowtide.InputError, match="it has no free dimensions; drop n"):
            call()
