"""Figures with matplotlib: what is drawn is what the view holds."""

from __future__ import annotations

from typing import Any

import pytest

import lowtide
from lowtide.report.plots import arena_plot, live_plot, png_figures
from lowtide.report.svg import COLOURS, figure_names
from lowtide.report.view import PlanView

to_hex = pytest.importorskip("matplotlib.colors", reason="pip install '.[plot]'").to_hex
figure = pytest.importorskip("matplotlib.figure", reason="pip install '.[plot]'")


def _axes() -> Any:
    return figure.Figure().subplots()


def test_live_bytes_reach_the_peak():
    """Stacked kinds, the file order behind."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a", budget="300KiB"))
    axes = _axes()
    live_plot(view, axes)
    stacked = [c for c in axes.collections if c.get_label() in view.kinds]
    assert max(max(path.vertices[:, 1]) for c in stacked for path in c.get_paths()) == view.peak_bytes
    assert {line.get_ydata()[0] for line in axes.lines} == {view.bound_bytes, view.room_bytes}


def test_every_rectangle_is_where_it_lies():
    """Corners at its steps and addresses, in the colour of its kind; outlined at the peak, hatched over an input."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a"))
    axes = _axes()
    arena_plot(view, 0, axes)
    drawn = {
        (
            *path.vertices[0],
            *path.vertices[2],
            to_hex(c.get_facecolor()[0]),
            c.get_linewidth()[0] > 1,
            bool(c.get_hatch()),
        )
        for c in axes.collections
        for path in c.get_paths()
    }
    live = view.at(view.peak_step)
    assert drawn == {
        (r.start, r.offset, r.end, (r.offset or 0) + r.size, COLOURS[r.kind], i in live, r.over is not None)
        for i, r in enumerate(view.rectangles)
        if r.size
    }


def test_each_figure_is_a_file():
    """As many as of SVG, also with two memories."""
    view = PlanView.of(lowtide.research.plan("zoo:swiftnet_cell_a", target="strict", memories=["fast=190KiB"], time=2))
    made = dict(png_figures(view))
    assert list(made) == list(figure_names(view))
    assert all(content.startswith(b"\x89PNG") for content in made.values())
