"""What the page of MAGIS's curves says of the plans that were made."""

from __future__ import annotations

import math
from typing import Any

import pytest

curves: Any = pytest.importorskip("magis_curves", reason="needs bench/, which an installed package has not")


def _cell(share: float, overhead: float, status: str = "ok") -> dict[str, Any]:
    return {"status": status, "share": share, "overhead": overhead}


def test_a_plan_within_less_is_one_within_more() -> None:
    """Whatever it was sought for: one that missed its budget, or the row of least peaks, counts where it fits."""
    cells = {"again_60": _cell(0.602, 0.01, "over_budget"), "again_80": _cell(0.8, 0.03)}
    plans = curves.plans_of(cells, {"again_at_40%": _cell(0.4, 0.08), "again_5": _cell(0.47, 0.04)})
    assert [curves.least_time(plans, "again", share) for share in (80, 60, 40, 30)] == [0.01, 0.04, 0.08, None]


def test_plans_of_other_rules_do_not_count() -> None:
    """Siblings as one are other rules; a budget that was not run stays empty."""
    cells = {"joint_40": _cell(0.39, 0.02), "pofo_40": {"status": "refused", "why": "no chain"}}
    plans = curves.plans_of(cells, {"merged_10": _cell(0.1, 0.0), "mergedmicro_10": _cell(0.1, 0.0)})
    assert set(plans) == {"joint"}
    assert [curves._text(cells, plans, "joint", share) for share in (60, 40)] == ["not run", "2.00"]
    assert curves._text(cells, plans, "pofo", 40) == "refused"


def test_a_baseline_below_is_told() -> None:
    """By as many points as it is below the better of ours; where only it meets a budget, that."""
    cells = {
        "joint_40": _cell(0.4, 0.05), "micro_40": _cell(0.4, 0.03), "joint_20": _cell(0.25, 0.05, "over_budget"),
        "dtr_20": _cell(0.2, 0.5), "micro_20": _cell(math.inf, 0.0, "over_budget"),
    }  # fmt: skip
    told, *_, gains, _ = curves._least_gain({"net": cells}, {"net": curves.plans_of(cells, {})})
    assert told == "Below it lie: net at 40 %: micro 2.00 points; net at 20 %: dtr meets it."
    assert gains == "- net: 40 %: 0.00"
