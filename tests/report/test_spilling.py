"""Plans with spilling as text."""

from __future__ import annotations

import msgspec
import pytest

from lowtide.report.spilling import spilling_text
from lowtide.spill_plan import PlanStream, TrafficProof
from support.spill_plans import good


def rows(text: str) -> dict[str, str]:
    """The cells of the head by their names."""
    cells = [line.split("  ", 1) for line in text.partition("\n\n")[0].splitlines()]
    return {name: rest.strip() for name, rest in cells}


def test_traffic_above_its_bound_names_the_bound():
    """A row is read by itself: what the percentage is of stands in it."""
    plan = msgspec.structs.replace(good(), optimal=False, traffic_bytes=1730, traffic_lower_bound_bytes=60)
    assert rows(spilling_text(plan))["traffic"].endswith(", 2,783.3 % above the bound")
    assert "above" not in rows(spilling_text(good()))["traffic"]


@pytest.mark.parametrize(("traffic", "why"), [(0, "(nothing is moved)"), (8, "(every order moves these slices)")])
def test_why_no_order_has_less_where_no_tensor_moves(traffic: int, why: str):
    """All traffic is of pieces, which every order of these tiles moves, or there is no traffic."""
    streams = [PlanStream(tensor=1, stored_bytes=4, loaded_bytes=4)] if traffic else None
    plan = msgspec.structs.replace(
        good(), moves=[], streams=streams, traffic_bytes=traffic, traffic_lower_bound_bytes=traffic, optimal=True,
        traffic_proof=TrafficProof(kind="none"),
    )  # fmt: skip
    assert rows(spilling_text(plan))["traffic bound"].endswith(f"no order has less {why}")
