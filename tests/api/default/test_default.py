"""The front door: what a model takes today, and with a plan, for every kind of model and of wish."""

from __future__ import annotations

import itertools
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import onnx
import pytest

import lowtide
from lowtide import fit, plan
from lowtide.api.default import onnx as default
from lowtide.api.writing import PlanFiles, write_all
from lowtide.comparison import OptimizedFrom
from lowtide.errors import InputError
from lowtide.plan import Plan, read_plan
from lowtide.rewrites import TRANSFORMATIONS
from lowtide.run.session_texts import SessionSettings, session_text
from lowtide.run_reports import RunReport
from support.onnx_builder import constant, model, node, saved, value
from support.small_models import branches, graph_file, onnx_file


def convolutions(folder: Path, batch: int | str = 1, size: int | str = 96) -> Path:
    """Three convolutions that swell and shrink, with weights."""
    rng = np.random.default_rng(0)
    widths = (3, 32, 32, 4)
    weights = [
        constant(f"w{k}", rng.standard_normal(b * a * 9).tolist(), [b, a, 3, 3])
        for k, (a, b) in enumerate(itertools.pairwise(widths))
    ]
    nodes = [
        node("Conv", "x w0", "a", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Relu", "a", "b"),
        node("Conv", "b w1", "c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Add", "c b", "d"),
        node("Conv", "d w2", "y", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
    ]
    shapes = value("x", (batch, 3, size, size)), value("y", (batch, 4, size, size))
    return saved(model(nodes, [shapes[0]], [shapes[1]], weights), folder)


@pytest.mark.slow
def test_an_onnx_model_is_measured_beside_its_runtimes_defaults(tmp_path: Path) -> None:
    """Both in fresh processes; what is written is the planned file, and the checker accepts it for the user's model."""
    pytest.importorskip("onnxruntime")
    source, out = convolutions(tmp_path), tmp_path / "small.onnx"
    made = plan(source, slower=1000, without=TRANSFORMATIONS)
    seen = made.comparison
    assert seen is not None
    assert seen.measured
    assert seen.figure == "process memory"
    assert seen.outputs in ("equal", "rounding")
    assert min(seen.today_bytes, seen.planned_bytes) > seen.tensors_bytes > 0  # type: ignore[operator]
    assert made.optimized_from is not None
    assert made.optimized_from.level == "all"
    assert made.model_sha256 != made.optimized_from.sha256
    made.apply(source, out)
    made.save(tmp_path / "p.plan.json")
    report = lowtide.verify(source, read_plan(tmp_path / "p.plan.json"), run=True)
    assert isinstance(report.run, RunReport)
    assert report.run.equal
    with pytest.raises(InputError, match="another model"):
        lowtide.verify(onnx_file(tmp_path, "other.onnx"), made)


@pytest.mark.slow
def test_a_portable_file_has_no_nodes_of_one_processor(tmp_path: Path) -> None:
    """It is of a level without blocked layouts, whoever chooses the layout later, and no session module refuses it."""
    pytest.importorskip("onnxruntime")
    source, out = convolutions(tmp_path), tmp_path / "small.onnx"
    made = plan(source, slower=1000, without=TRANSFORMATIONS, target="onnxruntime,portable")
    origin = made.optimized_from
    assert origin is not None
    assert (origin.level, origin.block) == ("extended", 0)
    assert made.comparison is not None
    assert made.comparison.outputs in ("equal", "rounding")
    assert (made.comparison.tensors_bytes is None) == origin.layout_at_load
    write_all(made, source, PlanFiles(out, snippet=tmp_path / "small_session.py"))
    assert {n.domain for n in onnx.load(out).graph.node} <= {"", "com.microsoft"}
    assert "check_processor" not in (tmp_path / "small_session.py").read_text()
    assert lowtide.verify(source, made, run=True).run is not None


def test_a_session_that_chooses_the_layout_keeps_no_order(tmp_path: Path) -> None:
    """It has onnxruntime optimise the file as it opens it, in an arena that grows by a MiB."""
    pytest.importorskip("onnxruntime")
    source = convolutions(tmp_path)
    made = lowtide.research.plan(source, target="onnxruntime", time=5)
    origin = OptimizedFrom(sha256="", runtime="", level="extended", layout_at_load=True)
    chosen = SessionSettings.of_plan(
        msgspec.structs.replace(made, optimized_from=origin), source, source, tmp_path / "s.py"
    )
    (tmp_path / "s.py").write_text(session_text(chosen, "s.py"))
    module = runpy.run_path(str(tmp_path / "s.py"))
    assert module["ARENA_BYTES"] == 2**20 != made.runtime_arena_bytes
    assert str(module["options"]().graph_optimization_level).endswith("ORT_ENABLE_ALL")
    feed = {"x": np.random.default_rng(0).random((1, 3, 96, 96), np.float32)}
    assert module["open_session"]().run(None, feed)[0].shape == (1, 4, 96, 96)


@pytest.mark.slow
def test_a_budget_that_no_process_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over budget, and never called impossible: what is not tensors was measured, not proved."""
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr("lowtide.api.default.onnx._ATTEMPTS", 1)
    made = plan(convolutions(tmp_path, size=32), budget="1KiB")
    assert made.status == "over_budget"
    assert made.budget_bytes == 1024
    assert "too much" in repr(made)


@pytest.mark.slow
def test_free_sizes_are_assumed_and_said(tmp_path: Path) -> None:
    """Usual ones; those that a call names are taken as they are."""
    pytest.importorskip("onnxruntime")
    made = plan(convolutions(tmp_path, "n", "s"), dims={"s": 40}, slower=1000, without=TRANSFORMATIONS)
    assert made.comparison is not None
    assert made.comparison.assumed
    assert made.comparison.sizes == {"x": "1x3x40x40"}
    assert "x 1x3x40x40 (sizes assumed; the written model accepts only these)" in repr(made)


@pytest.mark.slow
def test_optimised_files_are_the_same_in_every_process(tmp_path: Path) -> None:
    """onnxruntime draws names of what it adds anew in each: they are numbered."""
    pytest.importorskip("onnxruntime")
    source = convolutions(tmp_path)
    code = (
        "import sys; from pathlib import Path; from lowtide.run.optimise import write_optimized; "
        "write_optimized(Path(sys.argv[1]), Path(sys.argv[2]), {}, 'all')"
    )
    outs = [tmp_path / f"{k}.onnx" for k in range(3)]
    for out in outs:
        subprocess.run([sys.executable, "-c", code, str(source), str(out)], check=True)
    assert len({out.read_bytes() for out in outs}) == 1
    assert b"_token_" not in outs[0].read_bytes()


@pytest.mark.slow
def test_compilers_get_arenas(tmp_path: Path) -> None:
    """A graph JSON is for a compiler of one's own: today is the file's order."""
    made = plan(graph_file(tmp_path, branches()), target="strict")
    assert made.comparison is not None
    assert (made.comparison.today_bytes, made.comparison.planned_bytes) == (208, 109)
    assert repr(made).splitlines()[2].split()[:6] == ["arena", "208", "B", "109", "B", "-47.6"]
    assert len(repr(made).splitlines()) <= 8
    assert plan(graph_file(tmp_path, branches()), target="strict", budget=100).status == "impossible"


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"only": ["tiles"]}, "did you mean tile"),
        ({"slower": "a lot"}, "a lot"),
        ({"budget": "-1"}, "budget"),
        ({"target": "onnxrutime"}, "onnxruntime"),
        ({"slower": float("nan")}, "slower is 'nan'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, words: dict[str, object], match: str) -> None:
    """In one line."""
    with pytest.raises(InputError, match=match):
        plan(graph_file(tmp_path, branches()), **words)  # type: ignore[arg-type]


def test_the_largest_batch_that_fits(tmp_path: Path) -> None:
    """As planning every size shows."""
    source = onnx_file(tmp_path, batch="n")
    budget = 20_000
    found = fit(source, budget, target="generic", without=TRANSFORMATIONS)
    sizes = found.size, found.size + 1
    takes = {k: plan(source, target="generic", dims={"n": k}, without=TRANSFORMATIONS).comparison for k in sizes}
    assert [c.planned_bytes <= budget for c in takes.values() if c] == [True, False]
    assert f"n = {found.size} fits 20,000 B" in repr(found)
    assert fit(source, 400, target="generic", without=TRANSFORMATIONS).size == 0
    with pytest.raises(InputError, match="fixed"):
        fit(onnx_file(tmp_path), budget, target="generic")
    pytest.importorskip("onnxruntime")
    for words in ({"only": ["tile"]}, {"without": ["tile"]}):
        with pytest.raises(InputError, match="leave out --only and --without"):
            fit(source, "100MiB", **words)  # type: ignore[arg-type]


def test_a_runtime_opens_its_own_format(tmp_path: Path) -> None:
    """A plan for another one would be of no use."""
    with pytest.raises(InputError, match=r"tflm opens \.tflite files; .*one of onnxruntime, generic"):
        plan(onnx_file(tmp_path), target="tflm")


def test_what_onnxruntime_cannot_load_ends_in_one_line(tmp_path: Path) -> None:
    """Its optimiser runs in another process."""
    pytest.importorskip("onnxruntime")
    strange = saved(model([node("NoSuchOp", "x", "y")], [value("x")], [value("y")], []), tmp_path)
    with pytest.raises(InputError, match="NoSuchOp"):
        plan(strange)


@pytest.mark.slow
def test_impossible_is_said_of_all_that_is_allowed(tmp_path: Path) -> None:
    """A bound of the orders of an unchanged graph refutes nothing where the graph may be changed."""
    source = onnx_file(tmp_path, batch=2)
    least = plan(source, target="generic", without=TRANSFORMATIONS)
    assert least.optimal
    below = least.lower_bound_bytes - 1
    assert plan(source, target="generic", budget=below, without=TRANSFORMATIONS).status == "impossible"
    assert plan(source, target="generic", budget=below).status != "impossible"


def test_the_best_plan_is_measured_for_longer() -> None:
    """Its runs decide then: another plan is taken where it is too slow, and it is taken where it only seemed so."""
    from dataclasses import replace

    from lowtide.run.timing import FreshRun

    made = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS)
    today = FreshRun((1.0, 1.0, 1.0, 1.0), 200, 50)
    least = default._Candidate(made, today, FreshRun((1.2, 1.2, 1.2, 0.95), 100, 50), "equal", 0.05)
    more = default._Candidate(made, today, FreshRun((1.0, 1.0, 1.0, 1.0), 150, 50), "equal", 0.05)
    slow = replace(least, planned=FreshRun((1.06, 1.06, 1.06, 1.06), 100, 50), settled=True)
    fast = replace(least, planned=FreshRun((1.04, 1.04, 1.04, 1.04), 100, 50), settled=True)
    assert (least.too_slow, more.too_slow, slow.too_slow, fast.too_slow) == (False, False, True, False)

    class Trial:
        def __init__(self, *longer: default._Candidate) -> None:
            self.longer = [*longer]

        def settled(self, *_: object) -> default._Candidate:
            return self.longer.pop(0)

    settled = replace(more, settled=True)
    assert default._settled(Trial(slow, settled), [least, more], None) is settled  # type: ignore[arg-type]
    assert default._settled(Trial(fast), [least, more], None) is fast  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slowdowns", "opened", "middle"),
    [((1.0, 9), 1, 1.0), ((1.2, 1.3, 1.1), 3, 1.2), ((1.2, 1.0, 1.3, 1.01, 1.02), 5, 1.02)],
)
def test_a_plan_that_seems_too_slow_is_opened_anew(slowdowns: tuple[float, ...], opened: int, middle: float) -> None:
    """Until most of five agree; one that is not too slow is opened once."""
    from lowtide.run.timing import FreshRun

    made, today, left = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS), FreshRun((1.0,), 200, 50), [*slowdowns]

    class Trial:
        def measured(self, *_: object, **__: object) -> list[default._Candidate]:
            return [default._Candidate(made, today, FreshRun((left.pop(0),), 100, 50), "equal", 0.05)]

    settled = default.Trial.settled(Trial(), made, None)  # type: ignore[arg-type]
    assert len(slowdowns) - len(left) == opened
    assert (settled.slowdown, settled.settled) == (middle, True)


@pytest.mark.parametrize(("slowdowns", "taken"), [((1.5, 1.04), 1.04), ((1.5, 1.6), 1.5), ((1.03,), 1.03)])
def test_a_budget_gets_the_fastest_plan_that_fits(slowdowns: tuple[float, ...], taken: float) -> None:
    """Tiles that take any time come first; where these fit and are slow, tiles of at most 5 % are searched too."""
    from lowtide.api.default.request import Request
    from lowtide.run.timing import FreshRun

    made, left, asked = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS), [*slowdowns], list[float | None]()

    def candidate(slowdown: float, size: int) -> default._Candidate:
        today, planned = FreshRun((1.0,), 200, 50), FreshRun((slowdown,), size, 50)
        return default._Candidate(made, today, planned, "equal", None, settled=True)

    class Trial:
        request = Request("m.onnx", budget_bytes=100, slower=None)

        def changed(self, _: object, extra: float | None) -> object:
            asked.append(extra)
            return made if left else None

        def settled(self, *_: object) -> default._Candidate:
            return candidate(left.pop(0), 90)

    candidates = [candidate(1.0, 190)]
    default._measure_changed(Trial(), candidates)  # type: ignore[arg-type]
    assert asked[0] is None
    assert default._best(candidates, 100).slowdown == taken
    assert not left


@pytest.mark.parametrize(
    ("outside", "predicted", "tried"),
    [
        (False, (1000, 999, 999), [0, 1]),  # a little less is enough to be measured
        (False, (1000, 1000, 900), [0, 2]),
        (True, (800, 1000, 900), [1, 2]),  # the first is impossible
    ],
)
def test_weights_are_tried_where_they_are_predicted_to_take_less(
    outside: bool, predicted: tuple[int, ...], tried: list[int]
) -> None:
    """In the order of the ways, each that is predicted below all before it."""
    made = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS)

    class Trial:
        optimized = SimpleNamespace(outside=outside)

        def _written(self, _: object) -> None: ...

        def _process(self, _: object, one: Plan, __: int) -> SimpleNamespace:
            return SimpleNamespace(total_bytes=predicted[default.WAYS.index(one.weights)])

    found = default.Trial._promising(Trial(), made, default.WAYS)  # type: ignore[arg-type]
    assert [default.WAYS.index(one.weights) for one, _ in found] == tried


@pytest.mark.parametrize(("mapped_bytes", "mapped"), [(189, True), (190, False)])
def test_tiles_have_their_weights_where_these_take_least(mapped_bytes: int, mapped: bool) -> None:
    """Next to all tensors a little less is about equal; with tiles it is not."""
    from lowtide.api.default.request import Request
    from lowtide.run.timing import FreshRun

    made, used = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS), list[object]()

    def candidate(size: int, weights: object) -> default._Candidate:
        today, planned = FreshRun((1.0,), 1050, 50), FreshRun((1.0,), size + 50, 50)
        return default._Candidate(
            msgspec.structs.replace(made, weights=weights), today, planned, "equal", None, settled=True
        )

    class Trial:
        request = Request("m.onnx", slower=None)

        def changed(self, *_: object) -> object:
            return None if used else made

        def settled(self, _: object, weights: object) -> default._Candidate:
            used.append(weights)
            return candidate(90, weights)

    default._measure_changed(Trial(), [candidate(190, None), candidate(mapped_bytes, default.WAYS[1])])  # type: ignore[arg-type]
    assert used == [default.WAYS[1] if mapped else None]


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of the order alone, where the search of changed graphs is interrupted."""
    pytest.importorskip("onnxruntime")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(default.Trial, "changed", interrupted)
    made = plan(convolutions(tmp_path), slower=1000)
    assert made.stopped == "interrupt"
    assert made.comparison is not None
    assert made.comparison.measured
    assert made.rewrites is None


@pytest.mark.slow
def test_what_runs_for_seconds_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside one way to hold its weights; a plan that seems too slow is run once more. The prediction comes first."""
    pytest.importorskip("onnxruntime")
    from lowtide.api.default import plan_request
    from lowtide.api.default.request import Request
    from lowtide.plan import Plan
    from lowtide.run import timing

    monkeypatch.setattr(timing, "SLOW_SECONDS", 0.0)
    source, shown = convolutions(tmp_path), list[object]()
    made = plan_request(Request.of(source, None, 1000, None, {}, None, TRANSFORMATIONS), shown.append)
    assert made.comparison is not None
    assert (made.comparison.measured, made.comparison.inputs_run) == (True, 1)
    assert sum("one run of about" in str(news) for news in shown) == 1
    first = next(news for news in shown if isinstance(news, Plan))
    assert first.comparison is not None
    assert not first.comparison.measured
    assert first.order == made.order

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(default.Trial, "measured", interrupted)
    kept = plan(source, slower=1000)
    assert kept.stopped == "interrupt"
    assert kept.comparison == first.comparison


def test_single_runs_are_compared_by_the_fastest_of_each() -> None:
    """One that seems too slow is not decided by one run; both sides run again."""
    from dataclasses import replace

    from lowtide.run.timing import FreshRun

    made = plan("zoo:swiftnet_cell_a", without=TRANSFORMATIONS)
    today, planned = FreshRun((3.0,), 200, 50, warm=False), FreshRun((4.0,), 100, 50, warm=False)
    once = default._Candidate(made, today, planned, "equal", 0.05)
    assert (once.seems_too_slow, once.too_slow) == (True, False)

    class Trial:
        measured = staticmethod(lambda *_, **__: [replace(once, planned=replace(planned, seconds=(3.0,)))])
        remeasured = default.Trial.remeasured

    longer = default._settled(Trial(), [once], None)  # type: ignore[arg-type]
    assert (longer.settled, longer.too_slow, longer.slowdown) == (True, False, 1.0)


def test_rules_of_no_runtime_are_a_compilers(tmp_path: Path) -> None:
    """Also of an ONNX file: today is its file's order under the same rules, never a runtime's session."""
    made = plan(onnx_file(tmp_path), target="strict", without=TRANSFORMATIONS)
    assert made.comparison is not None
    assert made.comparison.runtime == "target strict"
    assert made.comparison.today_bytes == made.own_order_peak_bytes


def test_only_has_to_name_what_is_tried(tmp_path: Path) -> None:
    """One line says what is tried for the model where it runs; recomputation is tried for compilers."""
    pytest.importorskip("onnxruntime")
    source = convolutions(tmp_path)
    for name in ("recompute", "alias", "offload"):
        with pytest.raises(InputError, match=f"{name} alone changes nothing .* in onnxruntime; there tile, .* concat"):
            plan(source, only=[name])
    with pytest.raises(InputError, match=r"recompute-halos alone .* under target strict; there tile, "):
        plan(source, only=["recompute-halos"], target="strict")
    assert plan(source, only=["recompute"], target="strict").allow in (None, ["recompute"])
