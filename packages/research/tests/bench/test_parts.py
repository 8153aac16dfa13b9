"""What the papers print, the networks it is of, and the runs that stand for its rows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import lowtide
from lowtide.schedule.registry import methods
from lowtide.stop import Limits
from lowtide_research import zoo
from lowtide_research.bench.machine import machine
from lowtide_research.bench.measure import make_subject, measure
from lowtide_research.bench.networks import graph_of
from lowtide_research.bench.parts import METHODS, PARTS
from lowtide_research.zoo.published import UNITS, figures, printed
from lowtide_research.zoo.published.cases import FORMS, Case, case_of

SMALL = Case("swiftnet_cell_c")


def test_published_figures_are_of_networks_that_are_there() -> None:
    """Every row names a network of the zoo, a target, a method, a unit, and reads as a number."""
    assert len(figures()) > 150
    known_methods = set(methods())
    for f in figures():
        zoo.network(f.network).settings(f.network.partition(":")[2])
        assert f.method in known_methods
        assert f.unit in UNITS
        assert f.relation in ("=", ">")
        assert f.amount > 0
        assert f.figure in ("peak", "time", "arena", "variables")
        case = case_of(f.network)
        assert case is None or case.target == f.target


def test_no_figure_is_published_twice() -> None:
    """One value for each figure."""
    keys = [(f.network, f.method, f.setting, f.figure) for f in figures()]
    assert len(keys) == len(set(keys))


def test_published_figures_have_a_cell() -> None:
    """Every network and setting in the CSV is run by some part."""
    for f in figures():
        assert any(f.network in {c.network for c in part.cases} for part in PARTS.values()), f
    assert [f.text for f in printed("nasnet_a_cifar", "hmcos", "hmcos", "configuration 1")] == [">3600"]


def test_every_form_keeps_the_outputs() -> None:
    """What a paper takes for one op leaves the graph's ends as they are."""
    graph = zoo.build("darts_imagenet_normal_cell").graph()
    for form in FORMS.values():
        made = form(graph)
        assert {t.id for t in made.tensors if t.kind.value == "output"} == {
            t.id for t in graph.tensors if t.kind.value == "output"
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "count"), [("main", 7), ("zhong-4", 5), ("zhong-5", 4), ("zhong-6", 7), ("zhong-9", 4)]
)
def test_parts_run_their_settings(part: str, count: int) -> None:
    """Each method, or each setting of one, ends with a peak that is at least the optimum."""
    subject = make_subject(part, SMALL, graph_of(SMALL))
    runs = list(PARTS[part].runs(SMALL, subject.model, METHODS))
    cells = [measure(subject, r.method, lambda: Limits(30), setting=r.setting) for r in runs]
    assert len(cells) == count
    assert all(c.status == "ok" and (c.peak_bytes or 0) >= 32_928 for c in cells)
    if part == "main":
        assert (cells[-1].peak_bytes, cells[-1].lower_bound_bytes) == (32_928, 32_928)


def test_what_goes_wrong_is_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in a method is a cell with its reason; a limit is one with the best found."""
    from lowtide.schedule.exact import Exact
    from lowtide.schedule.order import Rpo

    def fail(*_: object) -> None:
        raise ValueError("it  broke")

    with monkeypatch.context() as broken:
        broken.setattr(Rpo, "schedule", fail)
        cell = measure(make_subject("main", SMALL, graph_of(SMALL)), Rpo(), Limits)
    assert (cell.status, cell.reason) == ("error", "ValueError: it broke")
    wide = Case("random_width:n=100,width=32")
    cell = measure(make_subject("main", wide, graph_of(wide)), Exact(), lambda: Limits(0.3))
    assert (cell.status, cell.runs, cell.peak_bytes is not None) == ("time", 1, True)


def test_machine_says_no_names() -> None:
    """Version, and a commit if this is a checkout."""
    m = machine()
    assert m.lowtide == lowtide.__version__
    assert m.cores >= 1
    assert m.commit is None or len(m.commit.rstrip("+")) == 40


def test_a_results_page_does_not_change_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that writes its page names the commit it measures; a changed source file adds a plus."""
    page, source = tmp_path / "packages/research/results" / "page", tmp_path / "src/lowtide/__init__.py"
    for path in (page, source, tmp_path / "core" / "source"):
        path.parent.mkdir(parents=True)
        path.write_text("before")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", tmp_path]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(lowtide, "__file__", str(source))
    clean = machine().commit
    assert clean is not None
    assert len(clean) == 40
    page.write_text("after")
    assert machine().commit == clean
    source.write_text("after")
    assert machine().commit == f"{clean}+"
