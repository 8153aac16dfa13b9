import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import lowtide
from lowtide import api
from lowtide.analyse.storage import MemoryModel
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.report.comparison import comparison_text
from lowtide.schedule import registry
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits
from support.command import run
from support.small_models import branches, graph_file, matrix_product


@dataclass(frozen=True)
class Broken:
    """A user's method that raises."""

    name: ClassVar[str] = "broken"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Raise."""
        raise ZeroDivisionError("by\nzero")


@dataclass(frozen=True)
class Wrong(Broken):
    """A user's method whose order is none."""

    name: ClassVar[str] = "wrong"

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """The file order backwards."""
        return Schedule(tuple(range(len(model.graph.ops)))[::-1])


@dataclass(frozen=True)
class Liar(Broken):
    """A user's method that claims a bound above the optimum."""

    name: ClassVar[str] = "liar"

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """The file order, said to be best."""
        return Schedule(tuple(range(len(model.graph.ops))), lower_bound=10**9)


@dataclass(frozen=True)
class Picky(Broken):
    """A user's method that cannot do this graph."""

    name: ClassVar[str] = "picky"

    def supports(self, model: MemoryModel) -> str | None:
        """No graph."""
        return "it has ops"


@dataclass(frozen=True)
class Stopped(Broken):
    """A user's method in which Ctrl-C comes."""

    name: ClassVar[str] = "stopped"

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Raise."""
        raise KeyboardInterrupt


def test_every_method_has_a_row(tmp_path: Path):
    """In the registry's order; the exact one is never beaten, and its bound tells who else is optimal."""
    rows = lowtide.research.compare(graph_file(tmp_path, branches()), target="strict", time=10, every=True)
    assert [row.method for row in rows] == list(registry.methods())
    best = next(row for row in rows if row.method == "exact")
    for row in rows:
        if row.peak_bytes is not None:
            assert row.peak_bytes >= (best.peak_bytes or 0)
            assert row.optimal == (row.peak_bytes == best.lower_bound_bytes)


def test_the_papers_slow_searches_are_left_out_unless_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What is left out is said, with how to ask for it; not where methods are named."""
    path = graph_file(tmp_path, branches())
    quick = [name for name in registry.methods() if name not in api.slow_methods(spilling=False)]
    assert [row.method for row in lowtide.research.compare(path, target="strict", time=10)] == quick
    assert [row.method for row in lowtide.research.compare(path, memories=["fast=108"], target="strict")] == [
        "spill", "belady", "greedy-spill",
    ]  # fmt: skip
    assert "hmcos, serenity, zhong (--all" in run(capsys, "research", "compare", path)[1]
    assert "--all" not in run(capsys, "research", "compare", path, "--methods", "own,hmcos")[1]
    with pytest.raises(InputError, match="did you mean greedy"):
        lowtide.research.compare(path, ["greedi"])


def test_what_goes_wrong_in_a_method_is_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Exceptions, orders that are none, false claims and refusals; the others are as ever."""
    known = {m.name: m for m in (Broken, Wrong, Liar, Picky)} | {"own": registry.built_in()["own"]}
    monkeypatch.setattr(registry, "methods", lambda: known)
    rows = {row.method: row for row in lowtide.research.compare(graph_file(tmp_path, branches()), target="strict")}
    assert rows["own"].status == "ok"
    line = Broken.schedule.__code__.co_firstlineno + 2
    assert rows["broken"].status == "error"
    assert rows["broken"].reason == f"ZeroDivisionError: by zero (test_surveys.py:{line})"
    assert rows["wrong"].status == "error"
    assert rows["liar"].status == "error"
    assert (rows["picky"].status, rows["picky"].reason) == ("unsupported", "it has ops")
    shown = comparison_text(list(rows.values()), "strict")
    assert "error: ZeroDivisionError: by zero" in shown
    assert "unsupported: it has ops" in shown


@pytest.mark.slow
def test_each_method_has_its_own_time(tmp_path: Path):
    """One that does not end in time is a timeout, with the best it found."""
    rows = lowtide.research.compare(
        graph_file(tmp_path, matrix_product(6)), ["own", "exact"], target="strict", time=0.3
    )
    assert [row.status for row in rows] == ["ok", "timeout"]
    assert rows[1].reason == "stopped by time"
    assert rows[1].peak_bytes is not None
    assert not rows[1].optimal


def test_interrupted_keeps_the_rows_that_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Ctrl-C within a method: those before it, its own row marked, none after it; printed, and the status is 130."""
    known = {name: registry.built_in()[name] for name in ("own", "rpo")} | {"stopped": Stopped}
    known |= {"exact": registry.built_in()["exact"]}
    monkeypatch.setattr(registry, "methods", lambda: known)
    path = graph_file(tmp_path, branches())
    rows = lowtide.research.compare(path, target="strict")
    assert [(row.method, row.status, row.interrupted) for row in rows] == [
        ("own", "ok", False), ("rpo", "ok", False), ("stopped", "timeout", True),
    ]  # fmt: skip
    assert main(["research", "compare", str(path), "--target", "strict", "-q"]) == 130
    shown = capsys.readouterr().out
    assert "timeout: stopped by interrupt" in shown
    assert "rpo" in shown
    assert main(["research", "compare", str(path), "--target", "strict", "--json", "-q"]) == 130
    assert json.loads(capsys.readouterr().out)[2]["reason"] == "stopped by interrupt"


def test_options_reach_their_method(tmp_path: Path):
    """And only methods that are compared may have any."""
    path = graph_file(tmp_path, branches())
    rows = lowtide.research.compare(path, ["exact"], options={"exact": {"cut": "false"}})
    assert rows[0].counters["cuts"] == 0
    with pytest.raises(lowtide.InputError, match="not compared"):
        lowtide.research.compare(path, ["own"], options={"exact": {"cut": "false"}})


@pytest.mark.slow
def test_published_figures_stand_beside_measured_ones():
    """Under the paper's own memory rules and its method's own settings; elsewhere there are none."""
    rpo, hmcos, exact = lowtide.research.compare("zoo:darts_imagenet", ["rpo", "hmcos", "exact"], target="hmcos")
    assert [(f.figure, f.text) for f in rpo.published] == [("peak", "4.91 MiB"), ("arena", "5.29 MiB")]
    assert {f.source for f in (*rpo.published, *hmcos.published)} == {"HMCOS (DAC 2022), Table 1"}
    assert (hmcos.ops_to_order, exact.published) == (286, ())
    shown = comparison_text([rpo, hmcos, exact], "hmcos")
    assert "peak 3.66 MiB, arena 4.53 MiB, time 0.042 s" in shown
    assert "published: HMCOS (DAC 2022), Table 1" in shown
    assert lowtide.research.compare("zoo:darts_imagenet", ["rpo"], target="strict")[0].published == ()
    other = lowtide.research.compare(
        "zoo:darts_imagenet", ["hmcos"], target="hmcos", options={"hmcos": {"memo": "false"}}
    )
    assert other[0].published == ()


def test_columns_that_are_empty_are_left_out(tmp_path: Path):
    """A plain order has no states, and nobody printed anything of this graph; what a solver takes is variables."""
    path = graph_file(tmp_path, branches())
    shown = comparison_text(lowtide.research.compare(path, ["own"], target="strict"), "strict")
    assert "states" not in shown
    assert "published" not in shown
    rows = lowtide.research.compare(path, ["zhong", "exact"], target="strict", time=10)
    assert (rows[0].variables is None, rows[1].states is None) == (False, False)
    assert "ops to order" in comparison_text(rows, "strict")
