"""MAGIS's rows: what they compute of cells, next to all cells."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from lowtide.errors import InputError
from lowtide.stop import Limits
from lowtide_research.reproduce import magis


def test_the_least_budget_of_a_baseline_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By halves as by trying all: time falls as the budget rises, and below some budget there is no plan."""
    random = Random(3)
    for _ in range(50):
        first, scale = random.randint(1, 90), random.randint(1, 2000)

        def cell(
            net: str, kind: str, bound: str, seconds: float, first: int = first, scale: int = scale
        ) -> dict[str, Any]:
            if kind == "magis":
                return {"status": "ok", "share": 0.2, "overhead": 0.0}
            budget = int(bound[1:])
            met = budget >= first
            return {
                "status": "ok" if met else "over_budget",
                "share": budget / 100,
                "overhead": scale / budget**2 if met else 0,
            }

        monkeypatch.setattr(magis, "_cell", cell)
        within = [b for b in range(1, 101) if b >= first and 100 * scale / b**2 <= 10]
        measured = magis.against("unet", "dtr", 10, Limits(1))
        assert measured.amount == pytest.approx(100 * 20 / min(within, default=100))


def test_a_plan_that_misses_its_bound_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error, and where the paper has a failure, the share that it reached."""
    cell = {"status": "over_budget", "share": 0.738, "overhead": 0.0}
    monkeypatch.setattr(magis, "_cell", lambda *_: cell)
    with pytest.raises(InputError, match=r"over_budget, at 73\.8 %"):
        magis.added("unet", "pofo", 40, Limits(1))
    assert magis.reached("unet", "pofo", 40, Limits(1)).note == "no plan here either"


def test_every_workload_is_in_both_figures() -> None:
    """In MAGIS's own rows and in those of lowtide's search."""
    names = {row.name for row in magis.ROWS}
    for net in magis.NETS:
        for name in ("magis", "lowtide"):
            assert {f"figure-9/{net}/10/{name}", f"figure-9/{net}/5/{name}"} <= names
            assert {f"figure-10/{net}/80/{name}", f"figure-10/{net}/40/{name}"} <= names
