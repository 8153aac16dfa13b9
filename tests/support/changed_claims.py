"""What lowtide says of plans that tile ops, held against the plans that the oracle finds.

A bound that is above a plan of the oracle is false. `Count` has what was held against what, and what failed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

import msgspec

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.cost.file import CostBandwidth, stand_in
from lowtide.graph import Graph
from lowtide.ops.working_set import working_set_bound
from lowtide.optimize.region_bound import RegionBounds
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.transform.cut import Cutter
from lowtide.verify.check.last_results import end_needs
from lowtide.verify.check.regions import _Search  # type: ignore[reportPrivateUsage]
from support.changed_nets import Net, drawn_net, skipping_net, to_graph
from support.changed_ops import VIEWS
from support.changed_plans import RULES, Found, Oracle
from support.changed_runs import Runs
from support.changed_steps import least_peak
from support.changed_swaps import Swaps

TARGETS = ("strict", "generic")


class FalseClaim(Protocol):
    """What a failure says of itself."""

    @property
    def claim(self) -> str:
        """Which claim is false."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As plain values, to replay it."""
        ...


MOST_MOVED = 6
"""Ops of a net of which every transfer is looked at."""


@dataclass(frozen=True)
class Failure:
    """A claim that is false: what was claimed, of which net, and the plan that shows it."""

    claim: str
    target: str
    claimed: int
    reached: int
    net: Net
    plan: str

    def to_json(self) -> dict[str, Any]:
        """As plain values, to replay it (`tests/stress_changed_graphs.py --replay`)."""
        return {
            "claim": self.claim, "target": self.target, "claimed": self.claimed, "reached": self.reached,
            "net": self.net.to_json(),
        }  # fmt: skip

    def __str__(self) -> str:
        first = f"{self.claim} ({self.target}): {self.claimed} claimed, {self.reached} reached by"
        return "\n".join((first, self.plan, json.dumps(self.to_json())))


@dataclass
class Count:
    """What was seen."""

    held: Counter[str] = field(default_factory=Counter[str])
    seen: Counter[str] = field(default_factory=Counter[str])
    failures: list[FalseClaim] = field(default_factory=list[FalseClaim])
    false_nets: int = 0

    def add(self, other: Count) -> None:
        """What another process saw."""
        self.held += other.held
        self.seen += other.seen
        self.failures += other.failures
        self.false_nets += other.false_nets


class Case:
    """A drawn net under a target, with what lowtide says of it."""

    def __init__(self, net: Net, target: str, count: Count) -> None:
        self.net, self.name, self.count = net, target, count
        self.target: Target = BUILT_IN[target]
        self.graph: Graph = self.target.as_seen(to_graph(net))
        self.memory: MemoryModel = memory_model(self.graph, self.target)
        self.oracle = Oracle(net, RULES[target])

    def check(self, *, plans: bool, again: bool) -> None:
        """Every claim; `plans`: what whole plans say, too; `again`: what plans whose ops run again say."""
        failed = len(self.count.failures)
        self.count.seen["nets"] += 1
        own = self.orders()
        none_below = None
        for joined in (False, True):
            none_below = self.regions(own, none_below, joined=joined)
        least = working_set_bound(self.graph, overlap=self.name != "strict").size
        self._hold("floor of all cuts", least, self.oracle.plan_below(least, joined=False))
        if plans:
            self.planned(own)
        if again:
            self.run_again(own)
        self.count.false_nets += len(self.count.failures) > failed

    def orders(self) -> int:
        """The least peak over orders of the whole ops, which the exact method has to find."""
        claimed = profile(self.memory, Exact().schedule(self.memory, Limits(5)).order).peak
        reached = least_peak(self.oracle.whole())
        self.count.held["orders: the least peak is the oracle's"] += 1
        if claimed != reached:
            self._fail("orders", claimed, reached, "")
        return reached

    def regions(self, own: int, none_below: int | None, *, joined: bool) -> int | None:
        """The bounds over all regions, the planner's and the checker's.

        Returns the planner's if the oracle has no plan below; `none_below` is that of the class with more plans.
        """
        word, claimed = "joined regions" if joined else "regions", self.bound(joined=joined)
        found = None if claimed == none_below else self.oracle.plan_below(claimed, joined=joined)
        self._hold(f"planner: bound over {word}", claimed, found)
        proved = claimed
        while self._proved(proved + 1, joined=joined):
            proved += 1
        if proved > claimed:
            found = self.oracle.plan_below(proved, joined=joined)
        if proved > claimed or self._proved(claimed, joined=joined):
            self._hold(f"checker: bound over {word}", proved, found)
        else:
            self.count.seen[f"nets whose bound over {word} the checker does not prove"] += 1
        if claimed > own:
            self._fail(f"planner: bound over {word}", claimed, own, "the best order")
        return claimed if found is None else None

    def bound(self, *, joined: bool) -> int:
        """The planner's bound over all regions, at whichever op it is greatest."""
        bounds = RegionBounds(Cutter(self.graph), self.memory, materialised=joined)
        return max(bounds.ends(), *(bounds.at(op.id) for op in self.graph.ops))

    def _proved(self, value: int, *, joined: bool) -> bool:
        search = _Search(self.graph, self.target, value, materialised=joined)
        inputs = search.sizes([t for t in self.net.inputs if t in self.graph.consumers])
        return (
            inputs >= value or end_needs(search.facts(), value) or any(search.refuted(op.id) for op in self.graph.ops)
        )

    def planned(self, own: int) -> None:
        """A whole plan: what it says, and that it is not above what its own words allow."""
        plan = lowtide.research.plan(to_graph(self.net), target=self.name, allow="tile", time=1)
        self.count.seen["plans"] += 1
        found = self.oracle.plan_below(own, joined=False)
        self.count.seen["plans where the oracle's is below every order"] += found is not None
        if self.name == "strict":  # elsewhere an alignment may make tiles of so few bytes no smaller
            self.count.seen["strict plans where lowtide's is below every order"] += plan.peak_bytes < own
            below = found is not None and found.peak < plan.peak_bytes
            self.count.seen["strict plans where the oracle's first is below lowtide's"] += below
        if plan.status != "ok":
            self._fail(f"plan: status {plan.status}", 0, own, "")
        if plan.region_bound is not None:
            bound, joined = plan.region_bound.bytes, plan.region_bound.joined
            self._hold("plan: region_bound", bound, self.oracle.plan_below(bound, joined=joined))
        if plan.proved_over in ("orders_and_regions", "orders_and_joined_regions"):
            joined = plan.proved_over == "orders_and_joined_regions"
            self._hold(
                f"plan: {plan.proved_over}", plan.peak_bytes, self.oracle.plan_below(plan.peak_bytes, joined=joined)
            )
        if plan.stopped == "time":  # the machine stood still for a second: nothing is claimed of its peak
            self.count.seen["plans that time ended"] += 1
        elif plan.peak_bytes > own:
            self._fail("plan: peak above the best order", plan.peak_bytes, own, "")

    def run_again(self, own: int) -> None:
        """Plans whose ops run again: what is impossible, what a budget costs at least, what a cost needs at least."""
        random = Random(json.dumps(self.net.to_json()))
        costs = [random.choice((1, 1, 2, 3, 10)) for _ in self.net.ops]
        rules, graph = RULES[self.name], to_graph(self.net, costs)
        runs = Runs(self.net, costs, in_place=rules.in_place, views=rules.views)
        lowest = runs.least_peak(10**9)
        self.count.seen["nets with costs"] += 1
        seen = RULES[self.name].views and any(op.kind in VIEWS for op in self.net.ops)
        self.count.seen["nets with costs and views that take no bytes"] += seen
        self.count.seen["nets with costs where running ops again needs less"] += lowest < own
        budget = random.choice((lowest, lowest, (lowest + own) // 2, own - 1, lowest - 1))
        plan = lowtide.research.plan(graph, target=self.name, allow="recompute", budget=budget, time=0.3)
        least, said = runs.least_cost(budget), plan.recomputation
        if plan.status == "impossible":
            self._hold_cost("again: impossible", budget, least, least is not None)
        elif said is not None:
            self._hold_cost(
                "again: least cost", round(said.lower_bound), least, least is not None and said.lower_bound > least
            )
            if plan.status == "ok" and (least is None or said.planned < least):
                self._fail("again: a plan below the oracle's", round(said.planned), least or -1, "")
        most = random.choice((0, 10, 30, 100))
        plan = lowtide.research.plan(graph, target=self.name, allow="recompute", max_overhead=f"{most}%", time=0.3)
        reached = runs.least_peak(sum(costs) * (100 + most) // 100)
        if plan.recomputation is not None and plan.recomputation.least_peak_bytes is not None:
            claimed = plan.recomputation.least_peak_bytes
            self._hold_cost("again: least peak", claimed, reached, claimed > reached)
        if plan.peak_bytes < reached:
            self._fail("again: a plan below the oracle's", plan.peak_bytes, reached, "")

    def moved(self) -> None:
        """Plans whose tensors leave memory: what is impossible, and what a budget takes at least."""
        random = Random(json.dumps(self.net.to_json()))
        times, rates = [random.choice((1, 2, 10, 40)) for _ in self.net.ops], random.choice(((1, 1), (2, 8), (8, 4)))
        again = random.random() < 0.5
        swaps, graph = Swaps(self.net, times, rates, again=again), to_graph(self.net)
        timed = [replace(op, cost=t * 1e-9) for op, t in zip(graph.ops, times, strict=True)]
        graph = replace(graph, ops=tuple(timed))
        needs = [sum(self.net.bytes_of(t) for t in {*op.reads, *op.makes}) for op in self.net.ops]
        own, most = least_peak(self.oracle.whole()), max(needs)
        budget = random.choice((most, most, (most + own) // 2, own - 1, most - 1))
        bandwidth = CostBandwidth(to_host=rates[0] * 1e9, from_host=rates[1] * 1e9)
        file = msgspec.structs.replace(stand_in("rtx3090.json")[0], bandwidth=bandwidth)
        allow = "recompute,offload" if again else "offload"
        plan = lowtide.research.plan(graph, target=self.name, allow=allow, budget=budget, cost=file, time=0.3)
        least, said = swaps.least_time(budget), plan.recomputation
        self.count.seen["nets whose tensors may leave memory"] += 1
        self.count.seen["nets within whose budget nothing is without that"] += least is not None and budget < own
        if plan.status == "impossible":
            self._hold_cost("moved: impossible", budget, least, least is not None)
        elif said is not None:
            bound = round(said.lower_bound)
            self.count.seen["nets whose bound counts transfers"] += bound > sum(times)
            self._hold_cost("moved: least time", bound, least, least is not None and bound > least)

    def _hold_cost(self, claim: str, claimed: int, reached: int | None, false: bool) -> None:
        self.count.held[claim] += 1
        if false:
            self._fail(claim, claimed, reached or 0, "")

    def _hold(self, claim: str, claimed: int, found: Found | None) -> None:
        self.count.held[claim] += 1
        if found is not None:
            self._fail(claim, claimed, found.peak, found.text())

    def _fail(self, claim: str, claimed: int, reached: int, plan: str) -> None:
        self.count.failures.append(Failure(claim, self.name, claimed, reached, self.net, plan))


def cases(seed: int, first: int, end: int) -> Iterator[tuple[Net, str]]:
    """The drawn nets number `first` to `end` of a seed, each with a target."""
    for k in range(first, end):
        yield drawn_net(Random(f"{seed} {k}")), TARGETS[k % len(TARGETS)]


def run(seed: int, first: int, end: int, every: int) -> Count:
    """Hold the claims of nets against the oracle; of every so many what whole plans say, too."""
    count = Count()
    for k, (net, target) in enumerate(cases(seed, first, end), first):
        turn = k // len(TARGETS) % every
        Case(net, target, count).check(plans=turn == 0, again=False)
        if turn == every // 2:
            Case(skipping_net(Random(f"{seed} {k} again")), target, count).check(plans=False, again=True)
        if turn == every // 3:
            net = skipping_net(Random(f"{seed} {k} moved"))
            if len(net.ops) <= MOST_MOVED:
                Case(net, "strict", count).moved()
    return count
