"""DTR's evicted neighbourhood, next to its definition walked anew each time."""

from __future__ import annotations

from random import Random

import pytest

from lowtide.optimize.recompute.sequence import least_possible, peak_of
from lowtide.stop import Limits
from lowtide_research.recompute import dtr
from lowtide_research.recompute.dtr import Dtr
from support.chains import step_of_a_chain
from support.sequences import costly_graph, own


class _Slow(dtr._Replay):
    """Compares each price with its definition: recursion over what is evicted, nothing kept from before."""

    compared = 0

    def _price(self, value: int) -> float:
        maker, units = self.problem.values[value].maker, self.problem.costs.units

        def missing(op: int) -> list[int]:
            return [x for x in self.problem.ops[op].makes if op in self.sequence and x not in self.there]

        def before(op: int) -> set[int]:
            makers = {self.problem.values[x].maker for x in self.problem.ops[op].reads} - {-1}
            gone = {i for i in makers if missing(i)}
            return gone.union(*(before(i) for i in gone))

        def behind(op: int) -> set[int]:
            made = set(self.problem.ops[op].makes)
            readers = {i for i, other in enumerate(self.problem.ops) if made & set(other.reads)}
            gone = {i for i in readers if any(self.left[x] for x in missing(i))}
            return gone.union(*(behind(i) for i in gone))

        ops = (before(maker) | behind(maker)) - {maker}
        stale = self.clock - self.touched[value] + 1
        price = sum(units[i] for i in {maker, *ops}) / (self.sizes[value] * stale)
        assert super()._price(value) == price
        _Slow.compared += 1
        return price


def test_prices_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """On random graphs, at every eviction."""
    monkeypatch.setattr(dtr, "_Replay", _Slow)
    rng, evicted = Random(5), 0
    for _ in range(60):
        problem = own(costly_graph(rng, 12))
        least, peak = least_possible(problem)[0], max(problem.core().footprints(range(12)))
        result = Dtr(cost="neighbourhood").repeat(problem, range(12), rng.randint(least, peak), Limits(5))
        evicted += result.counters["evicted"]
    assert evicted > 20
    assert _Slow.compared > 100


@pytest.mark.parametrize("cost", ["neighbourhood", "before", "local"])
def test_the_best_of_the_costs_is_no_dearer_than_each(cost: dtr.Cost) -> None:
    """Within every budget of a chain that the cost gets through; all fit."""
    problem, met = step_of_a_chain(24), 0
    peak = max(problem.core().footprints(range(48)))
    for budget in range(6, peak):
        one, best = (Dtr(cost=c).repeat(problem, range(48), budget, Limits(5)).order for c in (cost, "best"))
        if one:
            met += 1
            assert peak_of(problem, best) <= budget
            assert sum(problem.costs.units[i] for i in best) <= sum(problem.costs.units[i] for i in one)
    assert met > 3


def test_the_neighbourhood_takes_less_than_the_local_cost() -> None:
    """On a chain, where an op that is evicted next to evicted ones makes the next run of each of them dearer."""
    problem, units = step_of_a_chain(24), []
    for cost in ("neighbourhood", "local"):
        order = Dtr(cost=cost).repeat(problem, range(48), 12, Limits(5)).order
        units.append(sum(problem.costs.units[i] for i in order))
    assert 0 < units[0] < units[1]
