"""Pictures through the front door: functions, methods of a plan, the command."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import main
from lowtide.errors import InputError, MissingExtraError
from lowtide.plan import Plan

MODEL = "zoo:swiftnet_cell_a"


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A small one."""
    return lowtide.research.plan(MODEL)


def _run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_a_plan_writes_its_report(plan: Plan, tmp_path: Path):
    """`plan.report` and `lowtide.report` are one."""
    plan.report(tmp_path / "a.html")
    lowtide.report(plan, tmp_path / "b.html", trace=tmp_path / "t.json", svg=tmp_path / "figure")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sorted(p.name for p in tmp_path.glob("figure*")) == ["figure-arena.svg", "figure-live.svg"]


def test_nothing_to_write_is_an_error(plan: Plan, tmp_path: Path):
    """And so is a folder that is not there."""
    with pytest.raises(InputError, match="name a file"):
        lowtide.report(plan)
    with pytest.raises(InputError):
        plan.report(tmp_path / "nowhere" / "r.html")


def test_the_command_plan_writes_both(tmp_path: Path):
    """Together with the plan, which gives the same report afterwards."""
    report, trace, saved = tmp_path / "r.html", tmp_path / "t.json", tmp_path / "p.json"
    assert _run("research", "plan", MODEL, "--report", report, "--trace", trace, "--plan", saved, "-q") == 0
    assert _run("report", saved, "-o", tmp_path / "again.html", "-q") == 0
    assert (tmp_path / "again.html").read_bytes() == report.read_bytes()
    assert trace.exists()


def test_the_command_report_shows_two(tmp_path: Path):
    """The first one is the one before."""
    for method in ("own", "exact"):
        assert _run("research", "plan", MODEL, "--method", method, "--plan", tmp_path / f"{method}.json", "-q") == 0
    assert _run("report", tmp_path / "own.json", tmp_path / "exact.json", "-o", tmp_path / "r.html", "-q") == 0
    assert "Who left the peak" in (tmp_path / "r.html").read_text()


def test_wrong_calls_are_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Two plans and no output, three plans, a file that is no plan, an output over the plan."""
    plan = tmp_path / "p.json"
    assert _run("research", "plan", MODEL, "--plan", plan, "-q") == 0
    before = plan.read_bytes()
    for words in (
        [plan, plan],
        [plan, plan, plan, "--trace", tmp_path / "t.json"],
        [__file__, "-o", tmp_path / "r.html"],
    ):
        assert _run("report", *words) == 2
    assert _run("report", plan, "-o", plan) == 2
    assert plan.read_bytes() == before
    assert not (tmp_path / "r.html").exists()
    assert "lowtide: " in capfd.readouterr().err


def test_a_plan_of_an_earlier_version_is_told_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Without a profile there is nothing to draw."""
    path = tmp_path / "old.json"
    document = json.loads(lowtide.research.plan(MODEL).to_json())
    del document["profile"]
    path.write_text(json.dumps(document))
    assert _run("report", path, "-o", tmp_path / "r.html") == 2
    assert "make the plan again" in capfd.readouterr().err


def test_a_notebook_shows_it(plan: Plan):
    """A line of numbers and a figure, no script, below 30 kB, ids of its own."""
    html, svg = plan._repr_html_(), plan._repr_svg_()  # type: ignore[attr-defined]
    assert svg.startswith("<svg ")
    assert svg in html
    assert "<script" not in html
    assert len(html.encode()) < 30_000
    other = lowtide.research.plan(MODEL, method="own")._repr_svg_()  # type: ignore[attr-defined]
    assert svg.split('id="')[1].split("-title")[0] != other.split('id="')[1].split("-title")[0]


def test_repr_is_short_and_print_says_more(plan: Plan):
    """One line, and the summary of the command."""
    assert len(repr(plan)) < 400
    assert "\n" not in repr(plan)
    assert "lower bound" in str(plan)
    assert len(str(plan)) < 5000


def test_a_plot_needs_matplotlib(plan: Plan):
    """And says so where it is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(MissingExtraError, match="matplotlib"):
            plan.plot()
        return
    import matplotlib  # pyright: ignore[reportMissingImports]

    matplotlib.use("Agg")
    axes = plan.plot()
    assert plan.graph in axes.get_title()
    assert len(axes.collections) >= 2


def test_png_needs_matplotlib(plan: Plan, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """A file for each figure that SVG has; without matplotlib one line has the command, and nothing is written."""
    saved = tmp_path / "p.json"
    plan.save(saved)
    status = _run("report", saved, "--png", tmp_path / "figure.png", "--svg", tmp_path / "figure", "-q")
    if importlib.util.find_spec("matplotlib") is None:
        assert status == 2
        assert "pip install 'matplotlib" in capfd.readouterr().err
        assert not list(tmp_path.glob("figure*"))
        with pytest.raises(MissingExtraError, match="matplotlib"):
            plan.report(png=tmp_path / "figure")
        return
    assert status == 0
    made = sorted(tmp_path.glob("figure-*.png"))
    assert [p.stem for p in made] == sorted(p.stem for p in tmp_path.glob("figure-*.svg"))
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in made)
    first = [p.read_bytes() for p in made]
    plan.report(png=tmp_path / "figure")
    assert [p.read_bytes() for p in made] == first


def test_a_table_for_pandas(plan: Plan):
    """A row for each thing in memory; those at the peak add up to it."""
    if importlib.util.find_spec("pandas") is None:
        with pytest.raises(MissingExtraError, match="pandas"):
            plan.to_pandas()
        return
    table = plan.to_pandas()
    assert table[table.at_peak].bytes.sum() == plan.peak_bytes
    assert (table.offset + table.bytes).max() == plan.arena_bytes
    assert list(table.columns[:5]) == ["name", "kind", "bytes", "first_step", "last_step"]
    assert (table.first_step <= table.last_step).all()
