"""A sample of `stress_cuts.py`, and a wrong rule, which it sees."""

from __future__ import annotations

import pytest

pytest.importorskip("onnxruntime", reason="parts are run in onnxruntime, which is not installed")
from stress_cuts import Count, Flaw, check, page
from support.part_rules import RULES


@pytest.mark.slow
def test_random_cuts_hold() -> None:
    """Whole, in parts, and inside an arena; the page counts them."""
    count = Count()
    for seed in range(10):
        check(seed, count)
    assert count.networks == 10 == sum(count.by_class.values())
    assert count.parts > count.ops
    on = {"cpu": "none", "commit": "none"}
    document = {"machine": on, "asked": 10, "seed": 0, "count": vars(count), "flaws": [], "rules": {"halo": "windows"}}
    assert "10 random networks" in page(document)


@pytest.mark.slow
def test_a_wrong_halo_is_a_flaw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some network out of a few."""
    RULES["halo"](monkeypatch)
    flaws = 0
    for seed in range(30):
        try:
            check(seed, Count())
        except Flaw:
            flaws += 1
        except Exception:  # it could not be written or run
            flaws += 1
    assert flaws
