"""Plans for the contest: groups by annealing, then their order and what each keeps for the next.

A state is a list of groups whose union is the graph; an operator may be in several (recomputation). Moves merge two
groups, split one, move an operator, copy a group into those that read it, or change how much a link is preferred. A
link is a pair of groups that follow each other, with tensors that the first keeps for the second, their only reader.
Links are taken in the order of their gains, times a preference, while the graph of chained groups stays acyclic.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp
from time import monotonic

from lowtide_research.contest.prices import INFEASIBLE, NONE, Group, Price, tile_order
from lowtide_research.contest.reader import Problem, Step

Ops = frozenset[int]
HEAT = 0.03
"""What the annealing accepts at its beginning, of the mean cost of a group."""


@dataclass(frozen=True)
class _Link:
    """Two groups in a row, and the tensors that the first keeps for the second."""

    first: int
    second: int
    kept: frozenset[int]


@dataclass
class _Plan:
    """Groups, those that must run before each, their links, and preferences for links."""

    cost: float
    groups: list[Ops] = field(default_factory=list[Ops])
    before: list[set[int]] = field(default_factory=list[set[int]])
    links: list[_Link] = field(default_factory=list[_Link])
    preference: Mapping[tuple[Ops, Ops], float] = field(default_factory=dict[tuple[Ops, Ops], float])


class Planner:
    """Searches plans of one problem; `seed` makes the moves repeatable."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem = problem
        self.random = random.Random(seed)
        self._prices: dict[tuple[Ops, frozenset[int], frozenset[int]], Price] = {}
        self._forms: dict[object, Price] = {}
        self._tensors: dict[Ops, tuple[frozenset[int], frozenset[int], frozenset[int]]] = {}
        self.final = [tensor for tensor in problem.producer if not problem.consumers[tensor]]

    def solve(self, seconds: float, bound: float = 0.0) -> list[Step]:
        """The best solution found in `seconds`, or the first that costs no more than `bound`."""
        start = monotonic()
        end = start + seconds
        best = current = self._merge_greedily([frozenset([op]) for op in range(len(self.problem.ops))], end)
        while monotonic() < end and best.cost > bound * (1 + 1e-9):
            heat = HEAT * best.cost / len(best.groups) * ((end - monotonic()) / seconds) ** 2
            other = self._neighbour(current)
            if other.cost <= current.cost or self.random.random() < exp((current.cost - other.cost) / heat):
                current = other
                if current.cost < best.cost * (1 - 1e-12):
                    best = current
        return self._steps(best)

    def price(self, ops: Ops, resident: frozenset[int] = NONE, retained: frozenset[int] = NONE) -> Price:
        """The price of a group; groups of the same form are priced once."""
        key = (ops, resident, retained)
        if key not in self._prices:
            form = self.form(*key)
            if form not in self._forms:
                self._forms[form] = Group(self.problem, sorted(ops)).best(resident, retained)
            self._prices[key] = self._forms[form]
        return self._prices[key]

    def form(self, ops: Ops, resident: frozenset[int], retained: frozenset[int]) -> tuple[object, ...]:
        """What the price depends on: tensors by order of appearance, with their shapes."""
        problem = self.problem
        names: dict[int, int] = {}
        found: list[object] = []
        for number in sorted(ops):
            op = problem.ops[number]
            for tensor in (*op.inputs, op.output):
                if tensor not in names:
                    names[tensor] = len(names)
                    found.append(
                        (problem.heights[tensor], problem.widths[tensor], tensor in resident, tensor in retained)
                    )
            found.append((op.matmul, op.cost, *(names[tensor] for tensor in (*op.inputs, op.output))))
        return tuple(found)

    def tensors(self, ops: Ops) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
        """What a group makes, what it loads, and which of the first are its outputs."""
        if ops not in self._tensors:
            made = frozenset(self.problem.ops[op].output for op in ops)
            read = frozenset(tensor for op in ops for tensor in self.problem.ops[op].inputs)
            self._tensors[ops] = made, read - made, made - read
        return self._tensors[ops]

    def _state(self, groups: Sequence[Ops], preference: Mapping[tuple[Ops, Ops], float]) -> _Plan:
        """The groups with their links and what they cost; infinite if they cannot run in any order.

        Each tensor that is loaded or final is the output of one group; groups that make it again run later.
        """
        problem = self.problem
        infeasible = _Plan(INFEASIBLE.latency)
        alone = [self.price(ops).latency for ops in groups]
        if max(alone) == INFEASIBLE.latency:
            return infeasible
        sets = [self.tensors(ops) for ops in groups]
        readers: dict[int, list[int]] = {}
        for number, (_, loads, _) in enumerate(sets):
            for tensor in loads:
                if tensor in problem.producer:
                    readers.setdefault(tensor, []).append(number)
        makers: dict[int, int] = {}
        for number, (_, _, outputs) in enumerate(sets):
            for tensor in outputs:
                if makers.setdefault(tensor, number) != number and (tensor in readers or tensor in self.final):
                    return infeasible
        if any(tensor not in makers for tensor in (*readers, *self.final)):
            return infeasible
        before = [
            {makers[tensor] for tensor in loads if tensor in problem.producer}
            | {makers[tensor] for tensor in made - outputs if tensor in readers or tensor in self.final}
            for made, loads, outputs in sets
        ]
        if _sorted(before, []) is None:
            return infeasible
        candidates: list[tuple[float, _Link]] = []
        for number, (_, _, outputs) in enumerate(sets):
            users: dict[int, list[int]] = {}
            for tensor in sorted(outputs):
                if len(readers.get(tensor, ())) == 1:
                    users.setdefault(readers[tensor][0], []).append(tensor)
            for user, tensors in users.items():
                for kept in {frozenset(tensors), *(frozenset([tensor]) for tensor in tensors)}:
                    if sum(problem.size(tensor) for tensor in kept) <= problem.capacity:
                        gain = alone[number] - self.price(groups[number], NONE, kept).latency
                        gain += alone[user] - self.price(groups[user], kept, NONE).latency
                        if gain > 0:
                            weight = preference.get((groups[number], groups[user]), 1.0)
                            candidates.append((-gain * weight, _Link(number, user, kept)))
        candidates.sort(key=lambda each: (each[0], each[1].first, each[1].second, -len(each[1].kept)))
        links, cost = self._chain(groups, before, [link for _, link in candidates], alone)
        return _Plan(cost, list(groups), before, links, preference)

    def _chain(
        self, groups: Sequence[Ops], before: Sequence[set[int]], candidates: Sequence[_Link], alone: Sequence[float]
    ) -> tuple[list[_Link], float]:
        """The candidates, in turn, that lower the cost and leave an order; the cost with them."""
        links: list[_Link] = []
        into: dict[int, frozenset[int]] = {}
        out: dict[int, frozenset[int]] = {}
        costs = list(alone)
        chain_of = list(range(len(groups)))
        members = [{n} for n in range(len(groups))]
        after: list[set[int]] = [set() for _ in groups]
        for number, makers in enumerate(before):
            for maker in makers:
                after[maker].add(number)

        def is_between(first: int, second: int) -> bool:
            """Whether something must run after the first chain and before the second."""
            seen = {first}
            queue = [chain_of[n] for m in members[first] for n in after[m] if chain_of[n] != second]
            while queue:
                chain = queue.pop()
                if chain == second:
                    return True
                if chain not in seen:
                    seen.add(chain)
                    queue += [chain_of[n] for m in members[chain] for n in after[m]]
            return False

        for link in candidates:
            first, second = link.first, link.second
            if first in out or second in into:
                continue
            new_first = self.price(groups[first], into.get(first, NONE), link.kept).latency
            new_second = self.price(groups[second], link.kept, out.get(second, NONE)).latency
            if new_first + new_second < costs[first] + costs[second]:
                a, b = chain_of[first], chain_of[second]
                if not is_between(a, b):
                    links.append(link)
                    out[first] = into[second] = link.kept
                    costs[first], costs[second] = new_first, new_second
                    members[a] |= members[b]
                    for member in members[b]:
                        chain_of[member] = a
        return links, sum(costs)

    def _merge_greedily(self, groups: Sequence[Ops], end: float) -> _Plan:
        """Merges neighbours while that pays, best first."""
        state = self._state(groups, {})
        is_better = True
        while is_better and monotonic() < end:
            is_better = False
            tried: list[tuple[float, Ops, Ops]] = []
            for a, b in self._neighbours(state.groups):
                gain = self.price(a).latency + self.price(b).latency - self.price(a | b).latency
                if gain > 0:
                    tried.append((-gain, a, b))
            for _, a, b in sorted(tried, key=lambda each: each[0]):
                if a in state.groups and b in state.groups:
                    other = self._state([ops for ops in state.groups if ops not in (a, b)] + [a | b], {})
                    if other.cost < state.cost:
                        state, is_better = other, True
        return state

    def _neighbours(self, groups: Sequence[Ops]) -> list[tuple[Ops, Ops]]:
        """Pairs of which the second loads what the first makes."""
        makers = {tensor: ops for ops in groups for tensor in self.tensors(ops)[2]}
        return list(
            dict.fromkeys((makers[t], ops) for ops in groups for t in sorted(self.tensors(ops)[1] & makers.keys()))
        )

    def _neighbour(self, plan: _Plan) -> _Plan:
        """The plan after one random move, or the plan."""
        problem, pick = self.problem, self.random
        groups = list(plan.groups)
        pairs = self._neighbours(groups)
        large = [ops for ops in groups if len(ops) > 1]
        move = pick.choices(("merge", "push", "pull", "copy", "split", "link"), (3, 2, 2, 1, 3, 4))[0]
        if not (large if move == "split" else pairs):
            return plan
        if move == "split":
            ops = pick.choice(large)
            cut = sorted(ops)[pick.randrange(1, len(ops))]
            groups.remove(ops)
            groups += [frozenset(op for op in ops if op < cut), frozenset(op for op in ops if op >= cut)]
            return self._state(list(dict.fromkeys(groups)), plan.preference)
        first, second = pick.choice(pairs)
        if move == "link":
            return self._state(groups, {**plan.preference, (first, second): pick.choice((0.2, 0.5, 1, 2, 5))})
        groups.remove(first)
        made = self.tensors(first)[0]
        if move == "copy":
            groups = [ops | first if self.tensors(ops)[1] & made else ops for ops in groups]
        else:
            groups.remove(second)
            ops = first | second
            if move == "merge":
                groups.append(ops)
            elif move == "push":
                read = {tensor for op in first for tensor in problem.ops[op].inputs}
                moved = {pick.choice([op for op in sorted(first) if problem.ops[op].output not in read])}
                groups += [part for part in (first - moved, second | moved) if part]
            else:
                made = self.tensors(second)[0]
                moved = {pick.choice([op for op in sorted(second) if not made & set(problem.ops[op].inputs)])}
                groups += [part for part in (first | moved, second - moved) if part]
        return self._state(list(dict.fromkeys(groups)), plan.preference)

    def _steps(self, plan: _Plan) -> list[Step]:
        """The plan as a solution."""
        into = {link.second: link.kept for link in plan.links}
        out = {link.first: link.kept for link in plan.links}
        steps: list[Step] = []
        for number in _sorted(plan.before, plan.links) or []:
            kept = out.get(number, NONE)
            group = Group(self.problem, sorted(plan.groups[number]))
            price = self.price(plan.groups[number], into.get(number, NONE), kept)
            order = tile_order(group, price)
            steps.append(Step(group.ops, price.granularity, tuple(sorted(kept)), order, price.latency))
        return steps


def _sorted(before: Sequence[set[int]], links: Sequence[_Link]) -> list[int] | None:
    """An order of the groups in which linked ones follow each other; None if there is none."""
    follow = {link.first: link.second for link in links}
    chain_of = [0] * len(before)
    chains: list[list[int]] = []
    for head in sorted(set(range(len(before))) - set(follow.values())):
        chain = [head]
        while chain[-1] in follow:
            chain.append(follow[chain[-1]])
        for number in chain:
            chain_of[number] = len(chains)
        chains.append(chain)
    users: list[set[int]] = [set() for _ in chains]
    waits = [0] * len(chains)
    for number, makers in enumerate(before):
        chain = chain_of[number]
        for maker in {chain_of[maker] for maker in makers} - {chain}:
            if chain not in users[maker]:
                users[maker].add(chain)
                waits[chain] += 1
    ready = [chain for chain in range(len(chains) - 1, -1, -1) if not waits[chain]]
    order: list[int] = []
    done = 0
    while ready:
        chain = ready.pop()
        done += 1
        order += chains[chain]
        for user in sorted(users[chain], reverse=True):
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    return order if done == len(chains) else None
