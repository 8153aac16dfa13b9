import _thread
import importlib.util
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from lowtide.allocate.arena import THOROUGH, allocate_buffers
from lowtide.allocate.buffers import Pair, Problem, block
from lowtide.allocate.cp_sat import CpSat
from lowtide.allocate.greedy import Portfolio
from lowtide.solvers.cp_sat import solve
from lowtide.stop import Limits, Progress
from support.small_problems import FULL, check, least_height, random_buffers

INSTALLED = importlib.util.find_spec("ortools") is not None
needs_ortools = pytest.mark.skipif(not INSTALLED, reason="needs the extra lowtide[solvers]")
ONE = CpSat(keys=("area",), slices=(1.0,))


@needs_ortools
def test_heights_are_those_of_brute_force() -> None:
    """Plain buffers, rigid groups, interlocking ones too, alignments, fixed offsets: each least, with proof."""
    rng = Random(2)
    for k in range(150):
        buffers = list(random_buffers(k, rng.randint(1, 5), 5, 4, rng.choice(((1,), (1, 2), (2,)))))
        if k % 4 == 0:
            buffers[0] = replace(buffers[0], offset=rng.randrange(4) * buffers[0].alignment)
        problem = Problem(tuple(buffers))
        packing = ONE.pack(problem, Limits())
        check(problem, packing.offsets)
        assert packing.lower_bound_bytes == packing.height_bytes == least_height(problem)


@needs_ortools
def test_it_proves_that_a_full_memory_is_too_small() -> None:
    """16 bytes are live all the time, but no placement has 16; in steps of what all sizes share."""
    packing = ONE.pack(FULL, Limits())
    check(FULL, packing.offsets)
    assert packing.lower_bound_bytes == packing.height_bytes == 17
    assert packing.engine == Portfolio().pack(FULL, Limits()).engine
    large = Problem(tuple(block(b.name, b.start, b.end, 64 * b.size, 64) for b in FULL.buffers))
    assert ONE.pack(large, Limits()).lower_bound_bytes == 64 * 17


@needs_ortools
def test_the_same_every_time_and_nothing_without_time() -> None:
    """Limits are CP-SAT's own, not the clock's; no time is no answer, not a no."""
    assert ONE.pack(FULL, Limits()) == ONE.pack(FULL, Limits())
    packing = ONE.pack(FULL, Limits(seconds=0))
    assert packing.counters == {"cp-sat calls": 0}
    assert packing.lower_bound_bytes == 16


@needs_ortools
def test_an_interrupt_keeps_what_is_proved() -> None:
    """Ctrl-C while it reports ends it with what is known."""

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    packing = ONE.pack(FULL, Limits(report=stop))
    check(FULL, packing.offsets)
    assert packing.interrupted


def test_what_it_does_not_support() -> None:
    """Pairs and buffers kept apart are no rectangles in a plane."""
    buffers = (block("a", 0, 2, 1), block("b", 1, 3, 1))
    assert ONE.supports(Problem(buffers, (Pair(0, 1, 0),))) == "pairs, or buffers kept apart"
    assert ONE.supports(Problem(buffers, (), ((0, 1),))) == "pairs, or buffers kept apart"
    assert (ONE.supports(Problem(buffers)) is None) == INSTALLED


def test_without_ortools_it_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the extra, and plain buffers are placed all the same."""

    def nothing(name: str, path: Sequence[str] | None = None) -> None:
        return None

    monkeypatch.setattr(sys.modules[CpSat.__module__], "find_spec", nothing)
    assert CpSat().supports(FULL) == "needs OR-tools: pip install 'ortools>=9.12'"
    assert any(isinstance(engine, CpSat) for engine in THOROUGH)
    assert allocate_buffers(FULL).optimal


def test_an_interrupt_ends_the_solver() -> None:
    """Ctrl-C while it solves tells it to stop, and is raised; what the solver itself raises comes through."""
    asked_to_stop, ended = threading.Event(), threading.Event()

    def until_stopped(_: object) -> None:
        _thread.interrupt_main()
        asked_to_stop.wait(60)
        sleep(0.05)
        ended.set()

    stub: Any = SimpleNamespace(parameters=SimpleNamespace(), solve=until_stopped, stop_search=asked_to_stop.set)
    with pytest.raises(KeyboardInterrupt):
        solve(stub, stub)
    assert asked_to_stop.is_set()
    assert ended.is_set()

    def broken(_: object) -> None:
        raise ValueError("a wrong model")

    stub.solve = broken
    with pytest.raises(ValueError, match="a wrong model"):
        solve(stub, stub)
