"""What a search may use."""

import signal
import threading
from contextlib import suppress
from dataclasses import replace

import pytest

import lowtide.stop
from lowtide.stop import Limits, count, noting


class Clock:
    """A clock that stands until it is set."""

    now = 10.0

    def perf_counter(self) -> float:
        """What it shows."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The one that limits read."""
    clock = Clock()
    monkeypatch.setattr(lowtide.stop, "time", clock)
    return clock


def test_the_clock_runs_down_and_no_further(clock: Clock):
    """Seconds left fall, and are never negative."""
    limits = Limits(seconds=100.0)
    assert limits.left_seconds == 100.0
    clock.now = 30.0
    assert limits.left_seconds == 80.0
    assert not limits.over()
    clock.now = 110.0
    assert limits.left_seconds == 0.0
    assert limits.over()
    clock.now = 120.0
    assert limits.left_seconds == 0.0


def test_shares_are_of_the_time_in_all_or_of_the_time_left(clock: Clock):
    """A share of the time in all ends at the same second whenever it is taken; one of the time left, and so many
    seconds from now, end later the later they are taken, and never after the limit."""
    limits = Limits(seconds=100.0)
    assert [limits.until(0.25).seconds, limits.share(0.25).seconds, limits.at_most(30.0).seconds] == [25, 25, 30]
    clock.now = 90.0
    assert limits.spent_seconds == 80.0
    assert [limits.until(0.25).seconds, limits.share(0.25).seconds, limits.at_most(30.0).seconds] == [25, 85, 100]
    assert limits.until(0.25).over()
    assert limits.share(0.25).left_seconds == 5.0
    clock.now = 200.0
    assert limits.spent_seconds == 100.0
    assert limits.share(0.25).over()
    assert limits.at_most(30.0).over()


def test_each_has_a_clock_of_its_own():
    """The default start is when the limits are made, not when the module was imported."""
    before = lowtide.stop.clock()
    early = Limits()
    between = lowtide.stop.clock()
    assert before <= early.started <= between <= Limits().started


def test_ctrl_c_is_over_for_all_limits_of_a_search():
    """Of those made of one another, and of no others; noted where somebody else handles it, too."""
    limits, others = Limits(), Limits()
    share = replace(limits, seconds=5.0)
    with share.interrupt:
        raise KeyboardInterrupt
    assert limits.over()
    assert not others.over()
    before = signal.getsignal(signal.SIGINT)
    with noting(others.interrupt), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert others.over()
    assert signal.getsignal(signal.SIGINT) is before


def test_limits_made_of_others_share_what_was_tried(clock: Clock) -> None:
    """Counts and seconds of all of them, by name."""
    limits = Limits(5)
    replace(limits, seconds=1).tally.add("chains", 3, clock.now - 2)
    limits.tally.add("chains", 4, clock.now)
    assert limits.tally.counts == {"chains": 7}
    assert limits.tally.seconds["chains"] == 2
    assert limits.tally.figures()["chains"] == 7
    assert Limits(5).tally.counts == {}


def test_counted_limits_go_by_work(clock: Clock) -> None:
    """Shares are of the work that is noted, whatever the clock shows until that is over; then it ends them."""
    limits = Limits(seconds=1000.0, work_seconds=100.0)
    clock.now = 200.0
    assert (limits.left_seconds, limits.spent_seconds, limits.most(10**9)) == (100, 0, 100)
    count(20 * 10**9)
    assert (limits.left_seconds, limits.spent_seconds, limits.most(10**9)) == (80, 20, 80)
    shares = [limits.until(0.25), limits.share(0.25), limits.at_most(30.0), limits.at_most(90.0)]
    assert [share.left_seconds for share in shares] == [5, 20, 30, 80]
    assert not limits.over()
    count(20 * 10**9)
    assert [share.over() for share in shares] == [True, True, False, False]
    clock.now = 1010.0
    assert limits.over()
    assert (limits.most(1), Limits(seconds=5.0).most(1)) == (1, 0)


def test_each_thread_has_work_of_its_own() -> None:
    """What another one notes does not end a search of this one."""
    limits = Limits(work_seconds=1.0)
    thread = threading.Thread(target=count, args=(10**12,))
    thread.start()
    thread.join()
    assert not limits.over()
