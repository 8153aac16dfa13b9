"""Who is live at one plan's peak, and not at the other's."""

from __future__ import annotations

import lowtide
from lowtide.report.comparison import who_left
from lowtide.report.view import PlanView


def _views() -> tuple[PlanView, PlanView]:
    own, exact = (PlanView.of(lowtide.research.plan("zoo:nasnet_a_cifar:n=2", method=m)) for m in ("own", "exact"))
    return own, exact


def test_both_peaks_are_there_in_full():
    """Columns add up to what is live at either peak."""
    own, exact = _views()
    rows = who_left(own, exact)
    for view, column in ((own, 1), (exact, 2)):
        assert sum(row[column] for row in rows) == sum(view.rectangles[i].size for i in view.at(view.peak_step))
    assert len({row[0] for row in rows}) == len(rows)


def test_what_changed_most_comes_first():
    """Then what stays."""
    rows = who_left(*_views())
    changes = [abs(old - new) for _, old, new in rows]
    assert changes == sorted(changes, reverse=True)


def test_a_plan_beside_itself():
    """Nobody leaves."""
    own, _ = _views()
    assert all(old == new for _, old, new in who_left(own, own))
