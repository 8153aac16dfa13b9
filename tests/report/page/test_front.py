"""Several plans: which are on the front, and the page that shows one of them at a time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import lowtide
from lowtide.optimize.curve import Curve, CurvePoint, Front, FrontPoint
from lowtide.report.columns import change
from lowtide.report.curve import AGAINST, curve_text, front_text
from lowtide.report.page.front import least
from support.browser import Browser
from support.command import Captured, run
from support.onnx_builder import model, node, saved, value

NETWORK = "zoo:swiftnet_cell_a"


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Own order, a greedy one, and the best."""
    folder = tmp_path_factory.mktemp("plans")
    paths = [folder / f"{method}.plan.json" for method in ("own", "rpo", "exact")]
    for path in paths:
        lowtide.research.plan(NETWORK, target="strict", method=path.name.partition(".")[0]).save(path)
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
    lowtide.research.plan("zoo:swiftnet_cell_b", target="strict", method="own").save(other)
    status, _, err = run(capsys, "report", *plans[:2], other, "-o", out)
    assert (status, out.exists()) == (2, False)
    assert f"{other}: this plan is of swiftnet_cell_b" in err
    assert "of one model at the same sizes, so leave it out" in err


def test_plans_of_one_file_at_different_sizes_are_no_front(tmp_path: Path, capsys: Captured) -> None:
    """Less for a smaller batch is no better plan; two beside each other say so, and no percentage of one another."""
    free = model([node("Relu", "x", "y")], [value("x", ("n", 4))], [value("y", ("n", 4))])
    path, out = saved(free, tmp_path), tmp_path / "front.html"
    files = [tmp_path / f"{n}.plan.json" for n in (4, 8, 8)]
    for file, n in zip(files, (4, 8, 8), strict=True):
        lowtide.research.plan(path, dims={"n": n}).save(file)
    status, _, err = run(capsys, "report", *files, "-o", out)
    assert (status, out.exists()) == (2, False)
    assert f"{files[1]}: this plan is at other sizes (n=8, not n=4); three plans or more" in err
    assert run(capsys, "report", *files[:2], "-o", out)[0] == 0
    assert "at other sizes (n=4, not n=8)" in out.read_text()
    assert "compared with the other" not in out.read_text()
    assert run(capsys, "report", *files[1:], files[1], "-o", out)[0] == 0
    assert "at other sizes" not in out.read_text()


def test_per_cent_are_of_the_own_order(plans: list[Path], tmp_path: Path, capsys: Captured) -> None:
    """In the table, at the points, and in the text of a curve, which all say so."""
    out = tmp_path / "front.html"
    assert run(capsys, "report", *plans, "-o", out)[0] == 0
    best = lowtide.research.plan(NETWORK, target="strict")
    share = change(best.own_order_peak_bytes, best.peak_bytes)
    text = out.read_text()
    assert f'<th class="number">{AGAINST}</th>' in text
    assert f'<td class="number">{share}</td>' in text
    assert f"{best.peak_bytes:,} B ({share} {AGAINST})" in text
    curve = Curve("g", "t", 200, (CurvePoint(100, 3, 0, 110), CurvePoint(50, 6, 1, 70)), True, 0.1)
    head, first, second = curve_text(curve).splitlines()[4:7]
    assert head.count(AGAINST) == 2
    assert first.split()[:4] == ["100", "B", "-50.0", "%"]
    assert first.split()[-4:] == ["110", "B", "-47.6", "%"]  # file order: 210 B
    assert second.split()[2:4] == ["-75.0", "%"]
    front = Front("g", "t", 200, 10, "cost", (FrontPoint(100, 0.0, 0, 0.0), FrontPoint(50, 0.1, 1, 0.1)), True, 0.1)
    assert [line.split()[2] for line in front_text(front).splitlines()[6:8]] == ["-50.0", "-75.0"]


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
