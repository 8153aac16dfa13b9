"""Several plans: which are on the front, and the page that shows one of them at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lowtide
from lowtide.report.page.front import least
from support.browser import Browser
from support.command import Captured, run

NETWORK = "zoo:swiftnet_cell_a"


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Own order, a greedy one, and the best."""
    folder = tmp_path_factory.mktemp("plans")
    paths = [folder / f"{method}.plan.json" for method in ("own", "rpo", "exact")]
    for path in paths:
        lowtide.plan(NETWORK, target="strict", method=path.name.partition(".")[0]).save(path)
    return paths


@pytest.mark.parametrize(
    ("points", "best"),
    [
        ([(1, 9), (2, 5), (3, 5), (4, 6), (5, 1)], [0, 1, 4]),
        ([(1, 1), (1, 1)], [0, 1]),
        ([(2, 7), (1, 7), (1, 8)], [1]),
        ([(3, 3)], [0]),
    ],
)
def test_the_front_is_what_no_plan_beats(points: list[tuple[int, int]], best: list[int]) -> None:
    """Fewer ops or a lower peak than every other."""
    assert least(points) == best


def test_a_report_of_several_plans(plans: list[Path], tmp_path: Path, capsys: Captured) -> None:
    """A point and a row for each, all sections, no request; a trace is of one plan, and a hundred are the most."""
    out = tmp_path / "front.html"
    assert run(capsys, "report", *plans, "-o", out)[0] == 0
    text = out.read_text()
    assert text.count('class="point') == 3
    assert text.count('class="point beaten"') == 2
    assert [int(k) for k in re.findall(r'<div class="choice" id="choice-(\d)">', text)] == [0, 1, 2]
    assert re.search(r'(?:src|href)="(?!#|data:)', text) is None
    status, _, err = run(capsys, "report", *plans, "--trace", tmp_path / "t.json")
    assert (status, "of one plan or two" in err) == (2, True)
    status, _, err = run(capsys, "report", *plans * 40, "-o", out)
    assert (status, "at most 100 plans" in err) == (2, True)


def test_plans_of_different_models_are_no_front(plans: list[Path], tmp_path: Path, capsys: Captured) -> None:
    """Refused, with the file; nothing is written."""
    other, out = tmp_path / "other.plan.json", tmp_path / "front.html"
    lowtide.plan("zoo:swiftnet_cell_b", target="strict", method="own").save(other)
    status, _, err = run(capsys, "report", *plans[:2], other, "-o", out)
    assert (status, out.exists()) == (2, False)
    assert f"{other}: this plan is of swiftnet_cell_b" in err
    assert "of one model, so leave it out" in err


@pytest.mark.slow
def test_a_click_swaps_the_plan_shown(plans: list[Path], tmp_path: Path, capsys: Captured) -> None:
    """One section at a time, drawn in full; by the point and by the row."""
    out = tmp_path / "front.html"
    assert run(capsys, "report", *plans, "-o", out)[0] == 0
    shown = "[...document.querySelectorAll('.choice')].map((c) => +!c.hidden).join('')"
    bars = "document.querySelectorAll('#plan-2 .arena .marks > rect:not(.hatched)').length"
    with Browser() as browser:
        browser.open(out)
        assert browser.run("document.documentElement.dataset.ready") == "yes"
        assert browser.run(shown) == "100"
        browser.run("document.querySelector('a[data-plan=\"2\"] circle').dispatchEvent("
                    "new MouseEvent('click', {bubbles: true, cancelable: true}))")  # fmt: skip
        assert browser.run(shown) == "001"
        assert browser.run(bars) == 22  # an input, and what 21 ops make
        assert browser.run("document.querySelector('#plan-2 .live').clientWidth > 300")
        browser.run("document.querySelector('td a[data-plan=\"1\"]').click()")
        assert browser.run(shown) == "010"
        assert browser.run("document.querySelector('td a.chosen').textContent") == "rpo"
        assert browser.complaints() == []
