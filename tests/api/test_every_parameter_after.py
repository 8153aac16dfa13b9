"""Nothing that a call is asked for is dropped, of calls that take a plan, place buffers or write files."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lowtide
from lowtide import api
from lowtide.allocate.buffers import block
from lowtide.allocate.csv_buffers import read_problem
from lowtide.api import checking, probing, running
from lowtide.api.reporting import Pictures
from lowtide.stop import Progress
from support.onnx_builder import model, node, saved, value
from support.parameters import Changes, Refused, Reports, Row, Shows, a_function, keywords
from support.small_models import branches, graph_file, onnx_file

GOALS: dict[str, dict[str, Any]] = {
    "one arena": {},
    "several memories": {"banks": ["a=110", "b=1KiB"]},
    "a fast memory": {"memories": ["fast=108"]},
}
BUFFERS = [block("a", 0, 2, 16), block("b", 1, 3, 8), block("c", 2, 4, 8)]


class Enough(Exception):
    """What was to be seen has been seen."""


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("call", [lowtide.verify, lowtide.research.prove], ids=["verify", "prove"])
@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("target", "hmcos", "name"),
        ("overwrite_inputs", True, "overwrite_inputs"),
        ("pin_inputs", True, "overwrite_inputs"),
    ],
)
def test_rules_reach_the_checker(
    goal: str, call: Any, name: str, given: Any, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under each goal: the target that a plan is checked under is another one."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(
        path, target="generic" if name == "overwrite_inputs" else "strict", **_sizes(goal, name)
    )
    targets: list[Any] = []

    def noted(graph: Any, plan: Any, target: Any, **_: Any) -> Any:
        targets.append(target)
        raise Enough

    monkeypatch.setattr(import_module("lowtide.verify.check.plan"), "verify_plan", noted)
    monkeypatch.setattr(import_module("lowtide.verify.prove.search"), "prove", noted)
    for settings in ({}, {name: given}):
        with pytest.raises(Enough):
            call(path, plan, **settings)
    assert getattr(targets[0], field) != getattr(targets[1], field)


def _sizes(goal: str, name: str) -> dict[str, Any]:
    """Memories that hold the small model, also under an alignment of 64 bytes."""
    return {"memories": ["fast=1KiB"]} if goal == "a fast memory" and name == "overwrite_inputs" else GOALS[goal]


@pytest.mark.parametrize("goal", GOALS)
def test_proving_is_asked_for_with_its_time(goal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`prove` of verify, and the seconds of both."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(path, target="strict", **GOALS[goal])
    assert lowtide.verify(path, plan).proof is None
    assert lowtide.verify(path, plan, prove=True).proof is not None
    seconds: list[float] = []
    monkeypatch.setattr(
        import_module("lowtide.verify.prove.search"), "prove", lambda *_, **more: seconds.append(more["seconds"])
    )
    lowtide.verify(path, plan, prove=True, time=7.0)
    lowtide.research.prove(path, plan, time=8.0)
    assert seconds == [7.0, 8.0]


def test_verify_takes_the_plan_that_it_is_given(tmp_path: Path) -> None:
    """A file, an object, or that of the model itself."""
    path = graph_file(tmp_path, branches())
    plan = lowtide.research.plan(path)
    plan.save(tmp_path / "p.json")
    assert lowtide.verify(path, tmp_path / "p.json") == lowtide.verify(path, plan)
    with pytest.raises(lowtide.InputError, match="give the plan: lowtide verify "):
        lowtide.verify(path)
    for wanted in ({"run": True}, {"prove": True}):
        with pytest.raises(lowtide.InputError, match="--run and --prove are about a plan"):
            lowtide.verify(path, **wanted)


def test_running_is_asked_for_in_so_many_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run`, and what it hands on."""
    path = onnx_file(tmp_path)
    plan, ran = lowtide.research.plan(path), []

    def noted(*arguments: Any, **more: Any) -> Any:
        ran.append(more)
        raise Enough

    monkeypatch.setattr(checking, "run_both", noted)
    lowtide.verify(path, plan)
    with pytest.raises(Enough):
        lowtide.verify(path, plan, run=True, random_weights=True, timed=True)
    assert [(more["random_weights"], more["timed"]) for more in ran] == [(True, True)]
    with pytest.raises(lowtide.InputError, match="--random-weights is for --run"):
        lowtide.verify(path, plan, random_weights=True)
    with pytest.raises(lowtide.InputError, match="timed is for --run"):
        lowtide.verify(path, plan, timed=True)


@pytest.mark.parametrize("kind", ["step in parts", "graph", "pt2", "no runtime"])
def test_what_cannot_be_run_is_refused_before_anything_else(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proof that takes a minute is not begun for a model that no runtime runs, or none that is installed."""
    path, plan = onnx_file(tmp_path), lowtide.research.plan("zoo:swiftnet_cell_a", method="own", quick=True)
    monkeypatch.setattr(import_module("lowtide.verify.check.plan"), "verify_plan", None)
    monkeypatch.setattr(import_module("lowtide.verify.prove.search"), "prove", None)
    calls: dict[str, tuple[Any, str]] = {
        "step in parts": ("zoo:magis_bert_base", "only ONNX, TFLite and .pt2 models can be run"),
        "graph": (lowtide.load(path), "a Graph cannot be run"),
        "pt2": (tmp_path / "m.pt2", "torch does not return all tensors of an archive"),
        "no runtime": (path, "lowtide verify --run needs onnxruntime"),
    }
    if kind == "pt2":
        plan = msgspec.structs.replace(plan, loops=["a loop"])
    if kind == "no runtime":
        monkeypatch.setattr(running, "find_spec", lambda _: None)
    model, words = calls[kind]
    with pytest.raises(lowtide.InputError, match=words):
        lowtide.verify(model, plan, run=True, prove=True)


def test_dimensions_that_a_model_does_not_have_are_refused(tmp_path: Path) -> None:
    """By each call that reads the model of a plan."""
    path = onnx_file(tmp_path)
    plan = lowtide.research.plan(path)
    files = api.PlanFiles(exports=api.Exports(header=tmp_path / "h.h"))
    for call in (
        lambda: lowtide.load(path, {"n": 1}),
        lambda: lowtide.research.plan(path, dims={"n": 1}),
        lambda: lowtide.verify(path, plan, dims={"n": 1}),
        lambda: lowtide.research.prove(path, plan, dims={"n": 1}),
        lambda: lowtide.run(path, None, plan, dims={"n": 1}),
        lambda: lowtide.export(plan, path, header=tmp_path / "h.h", dims={"n": 1}),
        lambda: api.write_all(plan, path, files, dims={"n": 1}),
    ):
        with pytest.raises(lowtide.InputError, match="no free dimension 'n'"):
            call()


def test_run_hands_on_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planned file, footprints and sizes; what no runtime takes is refused."""
    free = model([node("Relu", "x", "y")], [value("x", ("n",))], [value("y", ("n",))])
    path, ran = saved(free, tmp_path), []
    plan = lowtide.research.plan(path, dims={"n": 4})
    monkeypatch.setattr(
        import_module("lowtide.run.onnx"), "run_onnx", lambda *arguments, **more: ran.append((arguments, more))
    )
    lowtide.run(path, tmp_path / "planned.onnx", plan, dims={"n": 4}, footprint_bytes=[1], timed=True)
    (original, planned, _), more = ran[0]
    assert (original, planned) == (path, tmp_path / "planned.onnx")
    assert (more["dims"], more["footprint_bytes"], more["timed"]) == ({"n": 4}, [1], True)
    weighted: list[Path] = []
    monkeypatch.setattr(
        import_module("lowtide.run.random_weights"), "weighted", lambda file, _: weighted.append(file) or file
    )
    lowtide.run(path, None, plan, random_weights=True)
    assert weighted == [path]
    for name in ("m.tflite", "m.pt2"):
        with pytest.raises(lowtide.InputError, match="footprint_bytes is measured in onnxruntime alone"):
            lowtide.run(name, None, plan, footprint_bytes=[1])
    for name in ("m.tflite", "m.pt2", "zoo:nasnet_a_cifar"):
        with pytest.raises(lowtide.InputError, match="leave out --random-weights"):
            lowtide.run(name, None, plan, random_weights=True)


def test_the_calls_have_no_other_parameters() -> None:
    """A new one has to be thought of here."""
    rules = {"target", "dims", "overwrite_inputs", "pin_inputs"}
    running = {"run", "random_weights", "timed"}
    assert set(keywords(lowtide.verify)) == {*rules, *running, "model", "plan", "prove", "time"}
    assert set(keywords(lowtide.research.prove)) == {*rules, "model", "plan", "time"}
    assert set(keywords(lowtide.run)) == {
        "model",
        "planned",
        "plan",
        "dims",
        "footprint_bytes",
        "random_weights",
        "timed",
    }
    assert set(keywords(lowtide.apply)) == {"plan", "model", "out", "copy_external"}
    assert set(keywords(lowtide.export)) == {"plan", "model", "header", "table", "usmp", "target", "dims"}
    # `board`: no output replaces its file (tests/api/test_writing.py); `opened`: a file to be run (api/default/onnx.py)
    assert set(keywords(api.write_all)) == {"plan", "model", "files", "trace", "target", "dims", "board", "opened"}
    assert set(keywords(lowtide.load)) == {"model", "dims"}
    assert set(keywords(api.plan_job)) == {"job", "trace", "report"}
    assert set(keywords(lowtide.research.allocate, ("buffers",))) == {*ALLOCATE}
    assert set(keywords(lowtide.research.plan_sizes)) == {"model", "sizes", "dims", "settings"}  # test_size_table.py
    # test_curve.py
    assert set(keywords(lowtide.research.curve)) == {*rules, "model", "time", "exact_bits", "cost", "report"}
    # test_front.py, tests/optimize/test_parted.py
    assert set(keywords(lowtide.research.front)) == {*rules, "model", "time", "seed", "allow", "cost", "report"}
    timed = {"model", "threads", "level", "time", "seed", "dims", "max_overhead", "report"}  # test_measuring.py
    assert set(keywords(lowtide.research.measure)) == timed
    assert set(keywords(lowtide.research.probe)) == {"model", "dims", "seed", "most_macs", "report"}


def test_every_public_call_is_in_a_table() -> None:
    """Those that only look something up have nothing to drop."""
    lookups = {"board", "boards", "schema", "target", "targets"}
    planning = {"plan", "fit", "check", "compare", "inspect", "share"}
    rest = {
        "verify",
        "prove",
        "run",
        "apply",
        "export",
        "load",
        "allocate",
        "probe",
        "plan_sizes",
        "curve",
        "front",
        "measure",
        "report",
        "emit_c",  # tests/emit
        "board_fits",  # default/test_on_boards.py
        "ways_to_fit",  # test_ways_to_fit.py
        "sweep",  # test_sweeping.py
    }
    functions = {name for name in lowtide.__all__ if isfunction(getattr(lowtide, name))} | {*lowtide.research.__all__}
    assert functions == lookups | planning | rest


def test_probe_hands_on_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed, and who looks on; nodes with more multiplications are skipped."""
    free = model([node("MatMul", "x w", "y")], [value("x", ("n", 4)), value("w", (4, 4))], [value("y", ("n", 4))])
    path, asked, heard = saved(free, tmp_path), [], []
    with pytest.raises(lowtide.InputError, match="no free dimension 'k'"):
        lowtide.research.probe(path, dims={"n": 2, "k": 1})
    probed = probing._probed

    def noted(*arguments: Any) -> Any:
        asked.append(arguments[-2:])
        return probed(*arguments)

    monkeypatch.setattr(probing, "_probed", noted)
    pytest.importorskip("onnxruntime")
    lowtide.research.probe(path, dims={"n": 2}, seed=3, most_macs=5, report=heard.append)
    assert asked == [(3, 5)]
    assert heard == ["op 0 'MatMul.y' (MatMul)"]


@pytest.mark.parametrize("name", ["header", "table", "usmp"])
def test_each_export_is_written(name: str, tmp_path: Path) -> None:
    """Alone; and under the plan's own target only."""
    path, out = graph_file(tmp_path, branches()), tmp_path / "out"
    plan = lowtide.research.plan(path)
    lowtide.export(plan, path, **{name: out})
    assert out.stat().st_size
    with pytest.raises(lowtide.InputError, match="the plan is for target 'generic', not 'strict'"):
        lowtide.export(plan, path, **{name: out}, target="strict")


FILES: dict[str, str] = {
    "out": "o.onnx", "plan": "p.json", "log": "l.csv", "snippet": "session", "sessions": "s.js",
    "buffer_plan": "b.h", "commands": "c.txt",
    "exports": "h.h", "copy_external": "", "pictures": "r.html",
}  # fmt: skip
SPECIAL = {"buffer_plan": "a buffer plan is for TFLM", "commands": "commands are for a plan with spilling"}


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_written(name: str, tmp_path: Path) -> None:
    """Alone, or it is said why it cannot be."""
    assert {*FILES, "texts"} == set(api.PlanFiles.__dataclass_fields__)  # texts: what emit_c writes
    path, file = onnx_file(tmp_path), tmp_path / FILES[name]
    plan = lowtide.research.plan(path, target="onnxruntime")
    if name == "copy_external":
        with pytest.raises(lowtide.InputError, match="--copy-external is for the model that -o writes"):
            api.PlanFiles(copy_external=True)
        return
    several = {"sessions": (file,), "exports": api.Exports(header=file), "pictures": Pictures(report=file)}
    files = api.PlanFiles(**{name: several.get(name, file)})
    assert files.paths == [file]
    if name in SPECIAL:
        with pytest.raises(lowtide.InputError, match=SPECIAL[name]):
            api.write_all(plan, path, files)
        assert not file.exists()
        return
    api.write_all(plan, path, files, trace=[Progress(7, 5, 0.25)])
    assert file.exists()
    if name == "log":
        assert file.read_text().splitlines()[1] == "0.250000,7,5"


def test_external_data_is_copied_if_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `apply`, by the plan itself, and with other files."""
    path, asked = onnx_file(tmp_path), []
    plan = lowtide.research.plan(path)
    monkeypatch.setattr(import_module("lowtide.write"), "write_model", lambda *arguments: asked.append(arguments[3]))
    for wanted in (False, True):
        lowtide.apply(plan, path, tmp_path / "o.onnx", copy_external=wanted)
        plan.apply(path, tmp_path / "o.onnx", copy_external=wanted)
        api.write_all(plan, path, api.PlanFiles(tmp_path / "o.onnx", copy_external=wanted))
    assert asked == [False] * 3 + [True] * 3


def test_exports_are_made_under_the_target_that_is_named(tmp_path: Path) -> None:
    """A target of a file is not built in: a plan under it is exported with its rules, or with its file."""
    path, file = graph_file(tmp_path, branches()), tmp_path / "mine.toml"
    file.write_text('base = "strict"\nalignment = 8\n')
    plan = lowtide.research.plan(path, target=str(file))
    files = api.PlanFiles(exports=api.Exports(table=tmp_path / "t.txt"))
    bare = msgspec.structs.replace(plan, rules=None)
    with pytest.raises(lowtide.InputError, match="the plan is for target 'mine'; name its file with --target"):
        api.write_all(bare, path, files)
    for one, target in ((bare, str(file)), (plan, "auto")):
        api.write_all(one, path, files, target=target)
        (tmp_path / "t.txt").unlink()


ALLOCATE: dict[str, Row] = {
    "capacity": Changes(20, "conflict"),
    "banks": Changes(["a=16", "b=64"], "memory_of"),
    "board": Changes("rp2040", "memory_of"),
    "places": Changes({"c": "b"}, "memory_of", {"banks": ["a=32", "b=64"]}),
    "spread": Changes(True, "alone", {"capacity": 64}),
    "reuse_cost": Refused(True, "there are no penalties to weigh", {"capacity": 64}),  # tests/read/test_dsa_problem.py
    "time": Refused(-1.0, "time is -1.0"),
    "seed": Shows(3, "seed", 3),
    "report": Reports(a_function),
}


@pytest.mark.parametrize("name", ALLOCATE)
def test_allocate(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each parameter; time and seed are those of the search, and it hears who looks on."""
    limits: list[Any] = []
    searched = import_module("lowtide.allocate.arena")
    engine = searched.allocate_buffers

    def noted(problem: Any, capacity: Any, own: Any) -> Any:
        limits.append(own)
        if own.report is not None:
            own.report(Progress(1, 1, 0.0))
        return engine(problem, capacity, own)

    monkeypatch.setattr(searched, "allocate_buffers", noted)

    def allocate(**settings: Any) -> Any:
        placed = lowtide.research.allocate(BUFFERS, **settings)
        return _Placed(limits[-1].seed) if name == "seed" else placed

    ALLOCATE[name].check(allocate, name)
    if name == "time":
        lowtide.research.allocate(BUFFERS, time=3.0)
        assert limits[-1].seconds == 3.0


class _Placed:
    search: dict[str, Any] | None = None

    def __init__(self, seed: int) -> None:
        self.seed = seed


def test_buffers_are_read_once(tmp_path: Path) -> None:
    """What was read of a CSV goes in as it is, with the memories that it names."""
    path = tmp_path / "b.csv"
    path.write_text("id,lower,upper,size,memory\na,0,2,16,slow\nb,1,3,8,fast\n")
    banks = {"fast": 64, "slow": 64}
    placed = [lowtide.research.allocate(buffers, banks=banks) for buffers in (path, read_problem(path))]
    assert [p.memory_of for p in placed] == [{"a": "slow", "b": "fast"}] * 2
