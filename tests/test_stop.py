"""What a search may use."""

import time

from lowtide.stop import Limits


def test_the_clock_runs_down_and_no_further():
    """Seconds left fall, and are never negative."""
    limits = Limits(seconds=100.0)
    first = limits.left_seconds
    time.sleep(0.002)
    assert 0 < limits.left_seconds < first <= 100.0
    assert Limits(seconds=5.0, started=Limits.now() - 10.0).left_seconds == 0.0


def test_each_has_a_clock_of_its_own():
    """The default start is when the limits are made, not when the module was imported."""
    early = Limits()
    time.sleep(0.002)
    assert Limits().started > early.started
