"""`cosma-peak` against brute force over orders."""

from random import Random

import pytest

pytest.importorskip("ortools", reason="the integer programs need the extra solvers")

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.schedule.registry import make
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from support.brute import optimum
from support.random_graphs import random_graph

STRICT = BUILT_IN["strict"]


def test_it_finds_the_least_peak() -> None:
    """By name, without a memory to spill from; it proves nothing to lowtide."""
    rng = Random(8)
    for _ in range(12):
        graph = random_graph(rng, rng.randint(2, 7), aliases=0)
        model = memory_model(graph, STRICT)
        found = make("cosma-peak").schedule(model, Limits(20))
        peak = profile(model, found.order).peak
        assert peak == optimum(graph, STRICT) == found.counters["ilp_bound_bytes"]
        assert (found.lower_bound, found.stopped) == (0, "complete")


def test_a_program_too_large_is_not_built() -> None:
    """The better of the file order and reverse post-order is given, and why there is no other."""
    model = memory_model(zoo.build("transformer:layers=8").graph(), STRICT)
    found = make("cosma-peak", {"overlap": "false"}).schedule(model, Limits(20))
    assert (found.stopped, found.counters["ilp_status"]) == ("memory", "memory")
    assert profile(model, found.order).peak <= profile(model, range(len(model.graph.ops))).peak
