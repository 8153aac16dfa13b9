"""The report in a real browser: it draws, answers to mouse and keyboard, asks for nothing, and trusts no name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from support.browser import Browser

pytestmark = pytest.mark.slow

SEARCH = "document.querySelector('input[type=search]')"
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"'><svg onload=document.title='owned'>",
    "<!-- ]]> {{7*7}} ${document.title='owned'}",
    "javascript:document.title='owned'",
    "\u202egnp.exe\u0000\u001b[2J",
    "http://example.invalid/x.png",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all of these."""
    with Browser() as made:
        yield made


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NASNet-A for CIFAR-10."""
    path = tmp_path_factory.mktemp("report") / "nasnet.html"
    lowtide.research.plan("zoo:nasnet_a_cifar").report(path)
    return path


def _hostile() -> Graph:
    kinds = [Kind.INPUT, *[Kind.ACTIVATION] * (len(HOSTILE) - 1), Kind.OUTPUT]
    tensors = tuple(Tensor(i, 100 + i, kind, HOSTILE[i % len(HOSTILE)]) for i, kind in enumerate(kinds))
    ops = tuple(Op(i, (i,), (i + 1,), f"{name}/{name}", name) for i, name in enumerate(HOSTILE))
    return Graph(HOSTILE[0], tensors, ops)


def _readout(browser: Browser) -> str:
    return browser.run("document.querySelector('.readout').textContent")


def test_it_draws_and_complains_of_nothing(browser: Browser, report: Path):
    """No error, no warning, no request."""
    browser.open(report)
    assert browser.run("document.documentElement.dataset.ready") == "yes"
    assert browser.complaints() == []
    assert browser.run("document.querySelectorAll('.arena .marks > rect:not(.hatched)').length") == 780
    assert browser.run("document.querySelectorAll('.live path').length") >= 4
    assert "1,786,624 B" in _readout(browser)
    assert "this is the peak" in _readout(browser)


def test_the_keyboard_steps_through_the_ops(browser: Browser, report: Path):
    """Arrows, Home, End, P, zoom and back."""
    browser.open(report)
    browser.run("document.querySelector('.live .box').focus()")
    for key, step in (("Home", "step 0 of"), ("ArrowRight", "step 1 of"), ("End", "step 779 of"), ("p", "step 271 of")):
        browser.key(key)
        assert step in _readout(browser)
    browser.key("ArrowLeft", shift=True)
    assert "step 261 of" in _readout(browser)
    assert browser.run("document.querySelector('.live .box').getAttribute('aria-valuenow')") == "261"
    assert "bytes" in browser.run("document.querySelector('.live .box').getAttribute('aria-valuetext')")
    marks = "document.querySelectorAll('.arena .marks > rect').length"
    whole = browser.run(marks)
    browser.key("+")
    assert browser.run(marks) < whole
    browser.key("0")
    assert browser.run(marks) == whole


def test_the_mouse_hovers_pins_and_zooms(browser: Browser, report: Path):
    """A click holds the cursor, the next one lets it go; a drag shows those steps alone."""
    browser.open(report)
    bounds = "document.querySelector('.live .box').getBoundingClientRect()"
    box = browser.run(f"(({{left, top}}) => [left, top])({bounds})")
    x, y = box[0] + 200, box[1] + 40
    browser.mouse("mouseMoved", x, y)
    hovered = _readout(browser)
    assert "(pinned)" not in hovered
    browser.mouse("mousePressed", x, y)
    browser.mouse("mouseReleased", x, y)
    browser.mouse("mouseMoved", x + 100, y)
    assert "(pinned)" in _readout(browser)
    assert hovered.partition(":")[0].split("(")[0].strip() in _readout(browser)
    marks = browser.run("document.querySelectorAll('.arena .marks > rect').length")
    browser.mouse("mousePressed", x, y)
    browser.mouse("mouseMoved", x + 150, y, held=True)
    assert browser.run("document.querySelectorAll('.selection').length") == 1
    browser.mouse("mouseReleased", x + 150, y)
    assert browser.run("document.querySelectorAll('.arena .marks > rect').length") < marks
    assert browser.complaints() == []


def test_a_rectangle_says_what_it_is(browser: Browser, report: Path):
    """Name, size, addresses, steps, who made it and who used it last."""
    browser.open(report)
    browser.run("document.querySelector('.readout .link').click()")
    told = browser.run("document.querySelector('.about').textContent")
    for word in ("cell7/Pad_270", "float32 1x192x33x33", "836,352 B", "0x", "steps", "last used by"):
        assert word in told


def test_search_finds_ops_and_tensors(browser: Browser, report: Path):
    """Enter goes on to the next one."""
    browser.open(report)
    browser.run(f"{SEARCH}.value = 'pad_270', {SEARCH}.dispatchEvent(new Event('input'))")
    assert browser.run("document.querySelector('.matches').textContent").startswith("2 found")
    assert browser.run("document.querySelectorAll('.found').length") == 1
    browser.run(f"{SEARCH}.focus()")
    browser.key("Enter")
    assert "step 271 of" in _readout(browser)
    assert browser.run("document.querySelector('.matches').textContent") == "1 of 2"


def test_tables_hold_the_numbers(browser: Browser, report: Path):
    """For those who read no picture: made when they are opened."""
    browser.open(report)
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.wait(lambda: browser.run("document.querySelectorAll('details table').length") == 3)
    rows = "[...document.querySelectorAll('section details')].map((d) => d.querySelectorAll('tbody tr').length)"
    assert browser.run(rows) == [780, 780]


def test_hostile_names_stay_text(browser: Browser, tmp_path: Path):
    """Markup in names of ops, tensors, types and the graph is shown, and never taken as such."""
    path = tmp_path / "hostile.html"
    plan = lowtide.research.plan(_hostile(), target="strict")
    plan.report(path, before=plan)
    text = path.read_text()
    assert "<img src=x" not in text
    assert text.count("<script") == 2
    browser.open(path)
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for name in HOSTILE:
        browser.run(f"{SEARCH}.value = {name[:20]!r}, {SEARCH}.dispatchEvent(new Event('input'))")
        browser.run("document.querySelector('.readout .link')?.click()")
    assert "owned" not in browser.run("document.title").replace("'owned'", "")
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert browser.complaints() == []


def test_two_plans_stand_beside_each_other(browser: Browser, tmp_path: Path):
    """Cursors go by the names of ops."""
    path = tmp_path / "two.html"
    own, best = (lowtide.research.plan("zoo:nasnet_a_cifar", method=method) for method in ("own", "exact"))
    best.report(path, before=own)
    browser.open(path)
    readouts = "[...document.querySelectorAll('.readout b')].map((b) => b.textContent)"
    browser.run("document.querySelector('.live .box').focus()")
    for key in ("Home", "End", "p", "ArrowRight"):
        browser.key(key)
        first, second = browser.run(readouts)
        assert first == second
    assert "left" in browser.run("document.body.textContent")
    assert browser.complaints() == []


def test_sixty_thousand_buffers_are_drawn_at_once(browser: Browser, tmp_path: Path):
    """On a canvas, within half a second."""
    n = 62_185
    tensors = tuple(
        Tensor(i, 64 + 16 * (i % 61), Kind.INPUT if not i else Kind.OUTPUT if i == n - 1 else Kind.ACTIVATION, f"t{i}")
        for i in range(n)
    )
    ops = tuple(Op(i, tuple({i, max(0, i - i % 37)}), (i + 1,), f"block{i // 900}/op{i}", "Add") for i in range(n - 1))
    path = tmp_path / "many.html"
    lowtide.research.plan(Graph("many", tensors, ops), method="own", target="strict", time=5).report(path)
    browser.open(path)
    drawn, how, milliseconds = browser.run("document.querySelector('.arena .box').dataset.drawn").split()
    assert (drawn, how) == (str(n), "canvas")
    assert float(milliseconds) < 500
    browser.run("document.querySelector('.live .box').focus()")
    frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    press = "document.querySelector('.live .box').dispatchEvent(new KeyboardEvent('keydown', {key: '0'}))"
    clock = "performance.now()"
    whole = f"(async () => {{ const began = {clock}; {press}; await {frame}; return {clock} - began }})()"
    assert min(browser.run(whole) for _ in range(3)) < 500
    assert browser.complaints() == []


@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_is_cut_off(browser: Browser, report: Path, width: int):
    """At 320 pixels, which are 1,280 at 400 %, the page does not scroll sideways."""
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(report)
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_dark_is_dark(browser: Browser, report: Path):
    """As the reader's system asks for."""
    colour = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    brightness = f"(([r, g, b]) => r + g + b)({colour})"
    seen = {}
    for scheme in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.open(report)
        seen[scheme] = browser.run(brightness)
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert seen["dark"] < 150 < 650 < seen["light"]
