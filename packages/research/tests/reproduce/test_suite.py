"""The table paper x figure: states of rows, rows for all that is printed, and rows that are run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from lowtide.analyse.liveness import profile
from lowtide.errors import InputError
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide_research.bench.machine import machine
from lowtide_research.bench.measure import make_subject
from lowtide_research.bench.networks import graph_of
from lowtide_research.bench.suite import Watch, run
from lowtide_research.reproduce.row import Direction, Measured, Row, Why, outcome
from lowtide_research.reproduce.suite import PAPERS, ReproduceSuite, matches, pictures_of, rows_of
from lowtide_research.zoo.published import figures
from lowtide_research.zoo.published.cases import ZHONG_RANDWIRE


def row(printed: str, amount: float | None = None, better: Direction = "less", *, finished: bool = True) -> Row:
    """A row whose experiment gives an amount."""
    experiment = None if amount is None else lambda _: Measured(amount, finished=finished)
    return Row("table-1/a", "Table 1", "what", printed, "MiB", experiment, better, why=Why("a reason"))


@pytest.mark.parametrize(
    ("printed", "amount", "better", "state"),
    [
        ("1.70", 1.704, "less", "equal"),
        ("4.40", 4.406, "less", "equal"),
        ("1.70", 1.71, "less", "differs"),
        ("1.70", 1.6, "less", "better"),
        ("1.68", 1.9, "more", "better"),
        ("2,511", 2591, "neither", "differs"),
        ("2,511", 2511, "neither", "equal"),
        (">3600", 20.0, "less", "better"),
        (">3600", 4000.0, "less", "differs"),
        ("<=5", 4.6, "less", "equal"),
        ("<=5", 5.1, "less", "differs"),
        (">=4", 30.0, "more", "equal"),
        ("", 3.0, "less", "no number"),
    ],
)
def test_states(printed: str, amount: float, better: Direction, state: str) -> None:
    """A state follows from the digits that are printed; only what is not as printed needs a reason."""
    got = outcome("hmcos", row(printed, amount, better), Limits())
    assert got.state == state
    assert bool(got.why) == (state in ("differs", "no number"))


def test_what_cannot_be_measured() -> None:
    """A row without an experiment says what is missing; a limit or an error is a state of its own, and has no ratio."""
    assert (got := outcome("hmcos", row("1.70"), Limits())).state == "not measured"
    assert got.why == Why("a reason")
    late = outcome("hmcos", replace(row(">3600", 20.0, finished=False), unit="s"), Limits())
    assert (late.state, late.ratio) == ("unfinished", None)
    assert outcome("hmcos", row("1.70", 1.9, finished=False), Limits()).state == "unfinished"
    assert outcome("hmcos", row("1.70", 1.7, finished=False), Limits()).state == "equal"

    def refuse(_: Limits) -> Measured:
        raise InputError("no such file", "x.json")

    failed = outcome("hmcos", Row("a", "a", "a", "1", "s", refuse), Limits())
    assert failed.state == "failed"
    assert "no such file" in failed.note


@pytest.mark.parametrize("paper", PAPERS)
def test_rows_have_names_and_reasons(paper: str) -> None:
    """Each row has a name of its own, and one without an experiment says what is missing."""
    rows = rows_of(paper)
    assert len({r.name for r in rows}) == len(rows)
    assert all(r.why for r in rows if r.measure is None)
    assert all(r.printed or r.why or r.explains for r in rows)


@pytest.mark.parametrize("paper", PAPERS)
def test_reasons_name_rows_or_commands(paper: str) -> None:
    """What is said to show a reason is there: rows of the same paper, or a command of lowtide."""
    rows = rows_of(paper)
    for why in {r.why for r in rows if r.why and r.why.shown_by}:
        if why.shown_by.startswith("lowtide "):
            continue
        assert any(matches(r.name, why.shown_by) for r in rows), why
        assert all(why.shown_by != r.name for r in rows if r.why == why), f"{why} is its own proof"


QUICK = {
    "serenity": "table-*", "hmcos": "table-1/*imagenet*", "zhong": "table-ii/*/rpo/peak",
    "cosma": "figure-3/fcn_resnet50/*", "magis": "table-2/*",
}  # fmt: skip
"""Rows that take a second or so."""


@pytest.mark.parametrize("paper", PAPERS)
def test_drawn_rows_run(paper: str) -> None:
    """Three rows of each paper, drawn by seed: each gives an amount and a state, or says what is missing."""
    quick = [r for r in rows_of(paper) if matches(r.name, QUICK[paper])]
    for row in Random(33).sample(quick, 3):
        got = outcome(paper, row, Limits(10))
        assert got.state != "failed", got
        assert (got.ours is None) == (row.measure is None)
        assert got.state not in ("differs", "not measured") or got.why, got


@pytest.mark.parametrize(
    ("paper", "beginning"), [("serenity", "SERENITY"), ("hmcos", "HMCOS"), ("zhong", "Zhong"), ("cosma", "COSMA")]
)
def test_every_published_figure_has_a_row(paper: str, beginning: str) -> None:
    """No printed figure of the data files is left out."""
    every = [f for f in figures("spill" if paper == "cosma" else "schedule") if f.paper.startswith(beginning)]
    texts = [(r.place, r.printed) for r in rows_of(paper)]
    for figure in every:
        assert (figure.table, figure.text) in texts, figure


def test_a_row_is_measured_by_its_beginning_or_pattern() -> None:
    """`--row` takes the first words of names, or patterns; a name that there is not is refused with those there are."""
    suite = ReproduceSuite(papers=["hmcos"], row=["table-1/*/hmcos/peak", "table-1/darts_imagenet/rpo"])
    names = [r.row for r in run(ReproduceSuite(papers=["hmcos"], row=suite.row, listing=True)).rows]
    assert "table-1/darts_imagenet/rpo/peak" in names
    assert "table-1/darts_cifar/rpo/peak" not in names
    with pytest.raises(InputError, match=r"no row is called 'table-9'.*table-1"):
        list(ReproduceSuite(papers=["hmcos"], row=["table-9"]).rows(Watch()))


def test_rows_are_measured() -> None:
    """A row of a table: ours, its state, and a page with the counts of states."""
    results = run(ReproduceSuite(papers=["hmcos"], row=["table-1/darts_imagenet"]))
    states = {r.row.removeprefix("table-1/darts_imagenet/"): r.state for r in results.rows}
    assert states["rpo/peak"] == states["serenity/peak"] == states["hmcos/peak"] == "equal"
    assert "hmcos: " in results.suite.text(results)
    assert set(results.suite.files(results, results.suite.stem(results, ""))) == {
        "reproduce-hmcos.json",
        "reproduce-hmcos.md",
    }


def test_cosma_rows_are_measured() -> None:
    """Bars of a network: what COSMA moves, beside the four schemes, and nothing at the least peak."""
    results = run(ReproduceSuite(papers=["cosma"], row=["figure-3/fcn_resnet50/*/traffic"], time=10))
    amounts = {r.row.split("/")[2]: r.ours for r in results.rows}
    assert set(amounts) == {"M_R", "M_H", "M_P", "M_Rp", "M_Hp", "M_Pp"}
    assert amounts["M_P"] == amounts["M_Pp"] == 0
    assert all("belady own" in r.note and r.why for r in results.rows)


def test_what_the_zoo_does_not_know_of_a_paper_is_said() -> None:
    """AmoebaNet-A of Zhong et al. has another size here: no figure of it counts as better, each has its reason."""
    rows = [r for r in rows_of("zhong") if "amoebanet" in r.name]
    assert len(rows) > 8
    assert all(r.better == "neither" and r.why and "the size of AmoebaNet-A" in r.why.text for r in rows)


def test_seeds_have_the_printed_peaks() -> None:
    """RandWire's seeds are those whose RPO peak and optimum are Zhong et al.'s."""
    printed = {r.name: r.printed for r in rows_of("zhong") if r.name.startswith("table-ii/randwire")}
    results = run(ReproduceSuite(papers=["zhong"], row=["table-ii/randwire*/rpo/peak"]))
    assert [r.state for r in results.rows] == ["equal"] * 3
    for case in ZHONG_RANDWIRE:
        model = make_subject("main", case, graph_of(case)).model
        least = profile(model, Exact().schedule(model, Limits(20)).order).peak
        assert str(least // 1024) == printed[f"table-ii/{case.name}/zhong/peak"]


def test_pictures_are_drawn_with_their_rows() -> None:
    """SERENITY's Figure 12: two panels of three curves, written next to the page, which shows it."""
    assert set(pictures_of("hmcos")) == {"figure-5"}
    results = run(ReproduceSuite(papers=["serenity"], row=["figure-12"]))
    files = results.suite.files(results, results.suite.stem(results, ""))
    root = ElementTree.fromstring(files["reproduce-serenity-figure-12.svg"])
    assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 6
    assert "(reproduce-serenity-figure-12.svg)" in files["reproduce-serenity.md"]


def test_both_kinds_of_differences_are_counted() -> None:
    """The page says of each difference whether an experiment shows why, and with which command."""
    wanted = ["table-2/rewriting/nodes", "figure-3/250-kb"]
    results = run(ReproduceSuite(papers=["serenity"], row=wanted))
    page = results.suite.files(results, "page")["page.md"]
    assert "5 equal" not in page
    assert "2 differs (1 by experiment, 1 not public)" in page
    assert "1. Experiment: a misprint" in page
    assert "--row 'table-2/rewriting/nodes/*'" in page
    assert "2. Not public, or not available here: the cell's graph" in page


def test_a_run_goes_on_where_another_ended(tmp_path: Path) -> None:
    """Rows of JSON of the same commit and limits are not measured again; another limit or commit is refused."""
    first = run(ReproduceSuite(papers=["serenity"], row=["table-1"]))
    files, earlier = first.suite.files(first, "page"), tmp_path / "page.json"
    earlier.write_text(files["page.json"])
    both = run(ReproduceSuite(papers=["serenity"], row=["table-2/plain/nodes"], resume=str(earlier)))
    assert [r for r in both.rows if r.row.startswith("table-1")] == list(first.rows)
    assert sum(r.row.startswith("table-2/plain/nodes") for r in both.rows) == 4
    with pytest.raises(InputError, match="other limits"):
        run(ReproduceSuite(papers=["serenity"], row=["table-1"], time=7, resume=str(earlier)))
    earlier.write_text(files["page.json"].replace(f'"{machine().commit}"', '"another"'))
    with pytest.raises(InputError, match="another commit"):
        run(ReproduceSuite(papers=["serenity"], row=["table-1"], resume=str(earlier)))
    with pytest.raises(InputError, match="cannot go on"):
        run(ReproduceSuite(papers=["serenity"], row=["table-1"], resume=str(tmp_path / "none.json")))
