"""Figures without a script: well-formed, small, true to the view."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

import lowtide
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.report.svg import LEFT, arena_svg, figures, timeline_svg
from lowtide.report.view import PlanView

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def view() -> PlanView:
    """NASNet-A of three cells a stack."""
    return PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar:n=2"))


def _highest(path: str) -> float:
    return min(float(y) for y in re.findall(r"(?:V|M[\d.]+ )([\d.]+)", path))


def test_the_timeline_reaches_the_peak(view: PlanView):
    """The stack is as high as the most live bytes, at their step; nothing of it is above."""
    root = ElementTree.fromstring(timeline_svg(view, height=240))
    stack = next(p for p in root.iter(f"{SVG}path") if p.get("fill", "").startswith("#") and p.get("fill") != "#8a8a92")
    most = max(view.peak_bytes, *view.own_order_bytes)
    y = 240 - 24 - view.peak_bytes / most * (240 - 24 - 20)
    assert _highest(stack.get("d") or "") == pytest.approx(y, abs=0.06)


def test_the_arena_has_every_rectangle(view: PlanView):
    """With its name, at its place."""
    root = ElementTree.fromstring(arena_svg(view, width=1000))
    marks = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    assert len(marks) == len(view.rectangles)
    for mark, r in zip(marks, view.rectangles, strict=True):
        title = mark.find(f"{SVG}title")
        assert title is not None
        assert (title.text or "").startswith(r.name)
        left = LEFT + r.start / view.steps * (1000 - LEFT - 8)
        assert float(mark.get("x", "")) == pytest.approx(left, abs=0.01)


def test_ids_begin_with_the_prefix(view: PlanView):
    """Two figures in one page do not clash."""
    for figure in (timeline_svg, arena_svg):
        text = figure(view, prefix="mine")
        assert all(name.startswith("mine-") for name in re.findall(r' id="([^"]+)"', text))
        assert all(name.startswith("mine-") for name in re.findall(r"url\(#([^)]+)\)", text))
        assert "<script" not in text


@pytest.mark.slow
def test_a_timeline_of_many_steps_is_small():
    """Below 30 kB for 20,000 steps of any height, and the highest is not lost."""
    n = 20_000
    tensors = [
        Tensor(i, 10 + 37 * i % 9973, Kind.INPUT if not i else Kind.OUTPUT if i == n - 1 else Kind.ACTIVATION)
        for i in range(n)
    ]
    graph = Graph("long", tuple(tensors), tuple(Op(i, (i,), (i + 1,)) for i in range(n - 1)))
    plan = lowtide.research.plan(graph, method="own", target="strict", time=1.8)
    text = plan._repr_svg_()  # type: ignore[attr-defined]
    assert len(text.encode()) < 30_000
    ElementTree.fromstring(text)


def test_hostile_names_are_escaped():
    """Names are a stranger's."""
    evil = "<script>alert(1)</script>\"'&\x01"
    tensors = (Tensor(0, 8, Kind.INPUT, evil), Tensor(1, 8, Kind.OUTPUT, evil))
    view = PlanView.of(lowtide.research.plan(Graph(evil, tensors, (Op(0, (0,), (1,), evil, evil),)), target="strict"))
    for text in (timeline_svg(view), arena_svg(view)):
        ElementTree.fromstring(text)
        assert "<script" not in text


@pytest.mark.slow
def test_every_figure_has_a_name_for_its_file():
    """The timeline, and a memory each; names cannot leave the folder."""
    plan = lowtide.research.plan("zoo:swiftnet_cell_a", banks=["../sram=64KiB", "live=1MiB"])
    names = [name for name, _ in figures(PlanView.of(plan))]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)


def test_a_graph_without_ops():
    """Nothing to draw is no error."""
    view = PlanView.of(lowtide.research.plan(Graph("none", (), ())))
    assert "<svg" in timeline_svg(view)
