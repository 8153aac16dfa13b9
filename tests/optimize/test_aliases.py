"""The search for aliases: as low as any choice of them, and no alias that the peak does not need."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.aliases import BestAliases, best_aliases
from lowtide.read import read_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import Target, resolve
from lowtide.transform.alias import Aliases, apply, why_not
from lowtide.transform.alias_candidates import Candidates
from support.arena_run import AliasNets

TARGETS = {word: resolve(f"generic,in_place_normalisation=true,pieces={word}") for word in ("contiguous", "strided")}


def alias_net(rng: Random, ops: int, outer: int = 1) -> Graph:
    """A random network."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(AliasNets(rng.choice, outer).build(ops).SerializeToString())
        return read_model(path)


def _least(graph: Graph, target: Target, aliases: Aliases = ()) -> tuple[int, tuple[int, ...]]:
    memory = memory_model(apply(graph, target, aliases).graph, target)
    answer = Exact().schedule(memory, Limits(seconds=20))
    peak = profile(memory, answer.order).peak
    assert answer.lower_bound == peak
    return peak, tuple(answer.order)


def _searched(graph: Graph, target: Target) -> BestAliases:
    return best_aliases(graph, target, _least(graph, target)[1], Limits(seconds=30))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.integers(0, 10**6), st.sampled_from((4, 6, 8)), st.sampled_from((1, 2)), st.sampled_from(tuple(TARGETS)))
def test_no_choice_of_aliases_needs_less(seed: int, ops: int, outer: int, pieces: str):
    """Up to ten aliases, every set of them that can be, each with the least peak over all orders."""
    target = TARGETS[pieces]
    graph = alias_net(Random(seed), ops, outer)
    some = Candidates(graph, target).all
    if len(some) > 10:
        return
    least = min(
        _least(graph, target, choice)[0]
        for k in range(len(some) + 1)
        for choice in combinations(some, k)
        if why_not(graph, target, choice) is None
    )
    best = _searched(graph, target)
    assert best.peak == least if best.least else best.peak >= least
    assert _least(graph, target, best.aliases)[0] == best.peak
    if len(some) <= 8:
        assert best.least


@pytest.mark.parametrize("pieces", TARGETS)
def test_an_unneeded_alias_is_left_out(pieces: str):
    """Of a random network's aliases none can go without a higher peak, as far as one op's are taken together."""
    target = TARGETS[pieces]
    graph = alias_net(Random(12), 9)
    best = _searched(graph, target)
    assert best.aliases, "this network is to have some"
    for o in {alias.op for alias in best.aliases}:
        kept = tuple(alias for alias in best.aliases if alias.op != o)
        above = {alias.tensor for alias in kept}
        kept = tuple(a for a in kept if a.how not in ("same", "over") or a.of in above)
        assert _least(graph, target, kept)[0] > best.peak


def test_the_search_is_deterministic():
    """The same network gives the same aliases."""
    graph = alias_net(Random(12), 9)
    assert _searched(graph, TARGETS["strided"]) == _searched(graph, TARGETS["strided"])
