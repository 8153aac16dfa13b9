"""What the pages of MAGIS's workloads say of the plans that were made."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lowtide_research.bench.magis_steps import Workload

magis: Any = pytest.importorskip("magis", reason="needs bench/, which an installed package has not")


def _cell(share: float, overhead: float, status: str = "ok") -> dict[str, Any]:
    return {"status": status, "share": share, "overhead": overhead}


def test_a_plan_within_less_is_one_within_more() -> None:
    """Whatever it was sought for: one that missed its budget, or one of least peak, counts where it fits."""
    cells = {"again_p60": _cell(0.602, 0.01, "over_budget"), "again_p80": _cell(0.8, 0.03)}
    plans = magis.plans_of(cells | {"again_p40": _cell(0.4, 0.08), "again_t5": _cell(0.47, 0.04)})
    assert [magis.least_time(plans, "again", share) for share in (80, 60, 40, 30)] == [0.01, 0.04, 0.08, None]


def test_plans_of_other_rules_do_not_count() -> None:
    """Siblings as one are other rules; a budget that was not run stays empty."""
    cells = {"joint_p40": _cell(0.39, 0.02), "pofo_p40": {"status": "refused", "why": "no chain"}}
    plans = magis.plans_of(cells | {"merged_t10": _cell(0.1, 0.0), "mergedmicro_t10": _cell(0.1, 0.0)})
    assert set(plans) == {"joint"}
    assert [magis.time_text(cells, plans, "joint", share) for share in (60, 40)] == ["not run", "2.00"]
    assert magis.time_text(cells, plans, "pofo", 40) == "refused"


def test_a_baseline_below_is_told() -> None:
    """By as many points as it is below the better of ours; where only it meets a budget, that."""
    cells = {
        "joint_p40": _cell(0.4, 0.05), "micro_p40": _cell(0.4, 0.03), "joint_p20": _cell(0.25, 0.05, "over_budget"),
        "dtr_p20": _cell(0.2, 0.5), "micro_p20": _cell(math.inf, 0.0, "over_budget"),
    }  # fmt: skip
    below = "Below it: net at 40 %: micro 2.00 points; net at 20 %: dtr meets it."
    assert magis.baselines_below({"net": cells}) == below


@pytest.mark.parametrize("kind", ["joint", "magis", "micro", "again", "dtr", "pofo", "merged"])
def test_a_cell_keeps_its_bound_or_says_that_it_does_not(kind: str) -> None:
    """Of every kind of search, on a small step."""
    work = Workload("magis_bert_base:batch=4,seq=8,layers=4,width=8,heads=2", None, 1.0)
    cell = work.cell(kind, "p60") if kind != "merged" else work.cell(kind, "t10")
    if kind == "merged":
        assert cell["overhead"] <= 0.1
    else:
        assert (cell["status"] in ("ok", "unproved")) == (cell["share"] <= 0.6)
