"""The document: one file, small, without anything that is not its own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.page import page as page_module
from lowtide.report.page.page import page
from lowtide.report.view import PlanView

EVIL = "</script><script>alert(1)</script><img src=http://example.invalid/x onerror=alert(2)>'\"&\u0007"


class _Tags(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def _tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Tags()
    parser.feed(text)
    return parser.tags


def _script() -> str:
    return "".join(map(page_module._asset, page_module.SCRIPTS))


def _evil() -> PlanView:
    tensors = tuple(Tensor(i, 8, kind, EVIL) for i, kind in enumerate([Kind.INPUT, Kind.ACTIVATION, Kind.OUTPUT]))
    ops = (Op(0, (0,), (1,), EVIL, EVIL), Op(1, (1,), (2,), EVIL, EVIL))
    return PlanView.of(lowtide.research.plan(Graph(EVIL, tensors, ops), target="strict"))


def test_nothing_is_loaded():
    """No address outside the file, two scripts, and a policy that lets nothing else run."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a"))
    text = page(view, view)
    tags = _tags(text)
    for tag, attributes in tags:
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "action", "data", "background", "style"), (tag, name)
            assert not name.startswith("on"), (tag, name)
            if name == "href":
                assert value == "data:,"
    assert [tag for tag, _ in tags].count("script") == 2
    policy = next(a["content"] for t, a in tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    script = _script()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|fetch\(|XMLHttp", script
    )


def test_the_script_is_small():
    """Ours, plain, below 40 kB."""
    assert len(_script().encode()) <= 40_000


@pytest.mark.slow
def test_a_thousand_ops_take_little():
    """At most 300 kB, all in all."""
    view = PlanView.of(lowtide.research.plan("zoo:series_parallel:n=1000", time=0.3))
    assert view.steps >= 1000
    assert len(page(view).encode()) <= 300_000


def test_hostile_names_are_no_markup():
    """In the words, the tables, the title, the still figure, the data."""
    view = _evil()
    tags = _tags(page(view, view))
    assert [tag for tag, _ in tags].count("script") == 2
    assert not [tag for tag, _ in tags if tag == "img"]
    assert "\u0007" not in page(view)


def test_the_same_plan_gives_the_same_page():
    """Byte for byte."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a")
    assert page(PlanView.of(plan)) == page(PlanView.of(plan))
