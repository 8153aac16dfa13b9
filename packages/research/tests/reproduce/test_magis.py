"""MAGIS's rows: what they compute of cells, next to all cells."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lowtide.analyse.storage import memory_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research.reproduce import magis
from lowtide_research.reproduce.magis_incremental import carried, changed, random_cells
from lowtide_research.reproduce.row import outcome
from lowtide_research.schedule.incremental import Incremental


def test_the_least_budget_of_a_baseline_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves as by trying all: time falls as the budget rises, and below some budget there is no plan."""
    random = Random(3)
    for _ in range(50):
        first, scale = random.randint(1, 90), random.randint(1, 2000)

        def cell(
            net: str, kind: str, bound: str, seconds: float, first: int = first, scale: int = scale
        ) -> dict[str, Any]:
            if kind == "magis":
                return {"status": "ok", "share": 0.2, "overhead": 0.0, "seconds": 0.0}
            budget = int(bound[1:])
            met = budget >= first
            return {
                "status": "ok" if met else "over_budget",
                "share": budget / 100,
                "overhead": scale / budget**2 if met else 0,
                "seconds": 0.0,
            }

        monkeypatch.setattr(magis, "_cell", cell)
        within = [b for b in range(5, 101, magis.STEP) if b >= first and 100 * scale / b**2 <= 10]
        measured = magis.against("unet", "dtr", 10, Limits(1))
        assert measured.amount == pytest.approx(100 * 20 / min(within, default=100))


def test_a_plan_that_misses_its_bound_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is unfinished, and where the paper has a failure, it is the share that was reached."""
    cell = {"status": "over_budget", "share": 0.738, "overhead": 0.0}
    monkeypatch.setattr(magis, "_cell", lambda *_: cell | {"seconds": 1.0})
    (row,) = [r for r in magis.ROWS if r.name == "figure-10/unet/80/pofo"]
    got = outcome("magis", row, Limits(1))
    assert (got.state, got.ours) == ("unfinished", None)
    assert "73.8 %" in got.note
    assert magis.reached("unet", "pofo", 40, Limits(1)).note == "no plan here either"


def test_a_search_that_the_limit_ended_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the printed figure it is unfinished; a search that ended by itself differs."""
    (row,) = [r for r in magis.ROWS if r.name == "figure-9/unet/10/magis"]
    for seconds, state in ((2.0, "unfinished"), (0.5, "differs")):
        cell = {"status": "unproved", "share": 0.738, "overhead": 0.0, "seconds": seconds}
        monkeypatch.setattr(magis, "_cell", lambda *_, cell=cell: cell)
        assert outcome("magis", row, Limits(1)).state == state


def test_changes_keep_the_graph_sound() -> None:
    """Figure 14: a changed graph has an order that follows the one before, and an incremental search proves no worse a
    peak than a full one."""
    graph, random, incremental = random_cells(1), Random(1), Incremental()
    before = [op.id for op in graph.ops]
    for _ in range(4):
        graph = changed(graph, random)
        model = memory_model(graph, BUILT_IN["strict"])
        order = carried(graph, before)
        assert sorted(order) == list(range(len(graph.ops)))
        new, full = incremental.search(model, order, Limits(5)), Exact().schedule(model, Limits(5))
        assert model.core.peak(list(new.order)) == new.peak
        assert new.peak == model.core.peak(list(full.order)) == full.lower_bound
        before = [graph.ops[i].id for i in new.order]


def test_every_workload_is_in_both_figures() -> None:
    """In MAGIS's own rows and in those of lowtide's search."""
    names = {row.name for row in magis.ROWS}
    for net in magis.NETS:
        for name in ("magis", "lowtide"):
            assert {f"figure-9/{net}/10/{name}", f"figure-9/{net}/5/{name}"} <= names
            assert {f"figure-10/{net}/80/{name}", f"figure-10/{net}/40/{name}"} <= names
