"""Plans for the contest: groups by annealing, then their order and what each keeps for the next.

A state is a list of groups whose union is the graph; an operator may be in several (recomputation). Moves merge two
groups, split one, move an operator, or copy a group into those that read it. A state's cost is the sum of its groups'
prices, with tensors kept where that pays: of the pairs of groups that could follow each other those with the most gain
are chained, one after the other, as long as the graph of groups stays acyclic.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp
from time import monotonic

from lowtide_research.contest.prices import INFEASIBLE, Group, Price, tile_order
from lowtide_research.contest.reader import Problem, Step

Ops = frozenset[int]
NONE: frozenset[int] = frozenset()
HEAT = 0.03  # of the mean cost of a group: what the annealing accepts at its beginning


@dataclass(frozen=True)
class _Link:
    """Two groups in a row, and the tensors that the first keeps for the second."""

    first: int
    second: int
    kept: frozenset[int]


@dataclass
class _Plan:
    cost: float
    groups: list[Ops] = field(default_factory=list[Ops])
    links: list[_Link] = field(default_factory=list[_Link])
    before: list[set[int]] = field(default_factory=list[set[int]])
    inner: list[frozenset[int]] = field(default_factory=list[frozenset[int]])


class Planner:
    """Searches plans of one problem; `seed` makes the search repeatable."""

    def __init__(self, problem: Problem, seed: int = 0) -> None:
        self.problem = problem
        self.random = random.Random(seed)
        self._groups: dict[tuple[Ops, frozenset[int]], Group] = {}
        self._prices: dict[tuple[Ops, frozenset[int], frozenset[int], frozenset[int]], Price] = {}
        self._shapes: dict[object, Price] = {}

    def solve(self, seconds: float, bound: float = 0.0) -> list[Step]:
        """The best solution found in `seconds`, or the first that costs no more than `bound`."""
        start = monotonic()
        end = start + seconds
        best = current = self._merge_greedily([frozenset([op]) for op in range(len(self.problem.ops))], end)
        while monotonic() < end and best.cost > bound * (1 + 1e-9):
            heat = HEAT * best.cost / len(best.groups) * ((end - monotonic()) / seconds) ** 2
            groups = self._neighbour(current.groups)
            other = self._state(groups) if groups else current
            if other.cost <= current.cost or self.random.random() < exp((current.cost - other.cost) / heat):
                current = other
                if current.cost < best.cost * (1 - 1e-12):
                    best = current
        return self._steps(best)

    def price(
        self, ops: Ops, inner: frozenset[int], resident: frozenset[int] = NONE, retained: frozenset[int] = NONE
    ) -> Price:
        """The price of a group; groups of the same form are priced once."""
        key = (ops, inner, resident, retained)
        if key not in self._prices:
            form = self._form(*key)
            if form not in self._shapes:
                self._shapes[form] = self.group(ops, inner).best(resident, retained)
            self._prices[key] = self._shapes[form]
        return self._prices[key]

    def group(self, ops: Ops, inner: frozenset[int]) -> Group:
        """The group itself."""
        key = (ops, inner)
        if key not in self._groups:
            self._groups[key] = Group(self.problem, sorted(ops), sorted(inner))
        return self._groups[key]

    def _form(
        self, ops: Ops, inner: frozenset[int], resident: frozenset[int], retained: frozenset[int]
    ) -> tuple[object, ...]:
        """What the price depends on: tensors by order of appearance, with their shapes."""
        problem = self.problem
        names: dict[int, int] = {}
        found: list[object] = []
        for number in sorted(ops):
            op = problem.ops[number]
            tensors: list[object] = []
            for tensor in (*op.inputs, op.output):
                if tensor not in names:
                    names[tensor] = len(names)
                    tensors.append(
                        (
                            problem.heights[tensor],
                            problem.widths[tensor],
                            tensor in inner,
                            tensor in resident,
                            tensor in retained,
                        )
                    )
                tensors.append(names[tensor])
            found.append((op.matmul, op.cost, tuple(tensors)))
        return tuple(found)

    def _state(self, groups: Sequence[Ops]) -> _Plan:
        """The groups with their links and what they cost; infinite if they cannot run in any order."""
        problem = self.problem
        made = [{problem.ops[op].output for op in ops} for ops in groups]
        read = [{tensor for op in ops for tensor in problem.ops[op].inputs} for ops in groups]
        loads = [r - m for r, m in zip(read, made, strict=True)]
        readers: dict[int, list[int]] = {}
        for number, tensors in enumerate(loads):
            for tensor in tensors:
                readers.setdefault(tensor, []).append(number)
        needed = {*readers, *(tensor for tensor in problem.producer if not problem.consumers[tensor])}
        makers: dict[int, int] = {}
        copies: list[tuple[int, int]] = []
        for number in sorted(range(len(groups)), key=lambda n: (len(made[n] & read[n] & needed), n)):
            for tensor in made[number] & needed:
                if tensor not in makers:
                    makers[tensor] = number
                elif tensor in read[number]:
                    copies.append((makers[tensor], number))
                else:
                    return _Plan(INFEASIBLE.latency)
        inner = [
            frozenset(t for t in m & r & needed if makers[t] == number)
            for number, (m, r) in enumerate(zip(made, read, strict=True))
        ]
        alone = [self.price(ops, kept).latency for ops, kept in zip(groups, inner, strict=True)]
        cost = sum(alone)
        if cost == INFEASIBLE.latency:
            return _Plan(cost)
        before = [{makers[t] for t in tensors if t in makers} for tensors in loads]
        for maker, copy in copies:
            before[copy].add(maker)
        if _sorted(before, []) is None:
            return _Plan(INFEASIBLE.latency)
        candidates: list[tuple[float, int, int, frozenset[int]]] = []
        for number in range(len(groups)):
            users: dict[int, list[int]] = {}
            for tensor in made[number] - inner[number]:
                if makers.get(tensor) == number and len(readers.get(tensor, ())) == 1:
                    users.setdefault(readers[tensor][0], []).append(tensor)
            for user, tensors in users.items():
                kept = frozenset(tensors)
                gain = alone[number] - self.price(groups[number], inner[number], NONE, kept).latency
                gain += alone[user] - self.price(groups[user], inner[user], kept, NONE).latency
                if gain > 0:
                    candidates.append((-gain, number, user, kept))
        links = self._chain(groups, inner, before, sorted(candidates, key=lambda each: each[:3]))
        into = {link.second: link.kept for link in links}
        out = {link.first: link.kept for link in links}
        total = sum(
            self.price(ops, kept, into.get(n, NONE), out.get(n, NONE)).latency
            for n, (ops, kept) in enumerate(zip(groups, inner, strict=True))
        )
        return _Plan(total, list(groups), links, before, inner)

    def _chain(
        self,
        groups: Sequence[Ops],
        inner: Sequence[frozenset[int]],
        before: Sequence[set[int]],
        candidates: Iterable[tuple[float, int, int, frozenset[int]]],
    ) -> list[_Link]:
        """Links of the most gain, each checked with those taken before it."""
        links: list[_Link] = []
        into: dict[int, frozenset[int]] = {}
        out: dict[int, frozenset[int]] = {}
        for _, first, second, kept in candidates:
            if first in out or second in into:
                continue
            old = self._pair(groups, inner, first, second, into, out)
            new = self._pair(groups, inner, first, second, {**into, second: kept}, {**out, first: kept})
            link = _Link(first, second, kept)
            if new < old and _sorted(before, [*links, link]) is not None:
                links.append(link)
                into[second] = out[first] = kept
        return links

    def _pair(
        self,
        groups: Sequence[Ops],
        inner: Sequence[frozenset[int]],
        first: int,
        second: int,
        into: dict[int, frozenset[int]],
        out: dict[int, frozenset[int]],
    ) -> float:
        return sum(
            self.price(groups[n], inner[n], into.get(n, NONE), out.get(n, NONE)).latency for n in (first, second)
        )

    def _merge_greedily(self, groups: Sequence[Ops], end: float) -> _Plan:
        """Merges neighbours while that pays, best first."""
        state = self._state(groups)
        improved = True
        while improved and monotonic() < end:
            improved = False
            tried: list[tuple[float, Ops, Ops]] = []
            for a, b in self._neighbours(state.groups):
                whole = self.price(a | b, NONE).latency
                gain = self.price(a, NONE).latency + self.price(b, NONE).latency - whole
                if gain > 0:
                    tried.append((-gain, a, b))
            for _, a, b in sorted(tried, key=lambda each: each[0]):
                if a in state.groups and b in state.groups:
                    other = self._state([ops for ops in state.groups if ops not in (a, b)] + [a | b])
                    if other.cost < state.cost:
                        state, improved = other, True
        return state

    def _neighbours(self, groups: Sequence[Ops]) -> list[tuple[Ops, Ops]]:
        """Pairs of which the second reads what the first makes."""
        problem = self.problem
        home: dict[int, list[Ops]] = {}
        for ops in groups:
            for op in ops:
                home.setdefault(op, []).append(ops)
        found: dict[tuple[Ops, Ops], None] = {}
        for ops in groups:
            for op in sorted(ops):
                for tensor in problem.ops[op].inputs:
                    if tensor in problem.producer:
                        for maker in home[problem.producer[tensor]]:
                            if maker != ops:
                                found[maker, ops] = None
        return list(found)

    def _neighbour(self, groups: Sequence[Ops]) -> list[Ops] | None:
        """The groups after one random move."""
        problem, pick = self.problem, self.random
        kind = pick.random()
        rest = list(groups)
        if kind < 0.45:
            pairs = self._neighbours(groups)
            if not pairs:
                return None
            a, b = pairs[pick.randrange(len(pairs))]
            rest.remove(a)
            rest.remove(b)
            if kind < 0.25:
                rest.append(a | b)
            elif kind < 0.35:
                ready = [op for op in sorted(a) if not any(u in a for u in problem.consumers[problem.ops[op].output])]
                op = ready[pick.randrange(len(ready))]
                rest += [each for each in (a - {op}, b | {op}) if each]
            else:
                ready = [
                    op for op in sorted(b) if not any(problem.producer.get(t) in b for t in problem.ops[op].inputs)
                ]
                op = ready[pick.randrange(len(ready))]
                rest += [each for each in (a | {op}, b - {op}) if each]
        elif kind < 0.75:
            large = [ops for ops in rest if len(ops) > 1]
            if not large:
                return None
            ops = large[pick.randrange(len(large))]
            rest.remove(ops)
            cut = sorted(ops)[pick.randrange(1, len(ops))]
            rest += [frozenset(op for op in ops if op < cut), frozenset(op for op in ops if op >= cut)]
        else:
            pairs = self._neighbours(groups)
            if not pairs:
                return None
            a, _ = pairs[pick.randrange(len(pairs))]
            rest.remove(a)
            made = {problem.ops[op].output for op in a}
            rest = [ops | a if any(t in made for op in ops for t in problem.ops[op].inputs) else ops for ops in rest]
        return list(dict.fromkeys(rest))

    def _steps(self, plan: _Plan) -> list[Step]:
        """The plan as a solution."""
        into = {link.second: link.kept for link in plan.links}
        out = {link.first: link.kept for link in plan.links}
        steps: list[Step] = []
        for number in _sorted(plan.before, plan.links) or []:
            kept = out.get(number, NONE)
            group = self.group(plan.groups[number], plan.inner[number])
            price = self.price(group_ops := plan.groups[number], plan.inner[number], into.get(number, NONE), kept)
            steps.append(
                Step(
                    tuple(sorted(group_ops)),
                    price.granularity,
                    tuple(sorted(kept)),
                    tile_order(group, price),
                    price.latency,
                )
            )
        return steps


def _sorted(before: Sequence[set[int]], links: Sequence[_Link]) -> list[int] | None:
    """An order of the groups in which linked ones follow each other; None if there is none."""
    follow = {link.first: link.second for link in links}
    heads = [n for n in range(len(before)) if n not in {link.second for link in links}]
    chain_of: dict[int, int] = {}
    chains: list[list[int]] = []
    for head in heads:
        chain = [head]
        while chain[-1] in follow:
            chain.append(follow[chain[-1]])
        for n in chain:
            chain_of[n] = len(chains)
        chains.append(chain)
    waits = [0] * len(chains)
    users: list[set[int]] = [set() for _ in chains]
    for n, makers in enumerate(before):
        for maker in makers:
            if chain_of[maker] != chain_of[n] and chain_of[n] not in users[chain_of[maker]]:
                users[chain_of[maker]].add(chain_of[n])
                waits[chain_of[n]] += 1
    ready = [c for c in range(len(chains) - 1, -1, -1) if not waits[c]]
    order: list[int] = []
    done = 0
    while ready:
        c = ready.pop()
        done += 1
        order += chains[c]
        for user in sorted(users[c], reverse=True):
            waits[user] -= 1
            if not waits[user]:
                ready.append(user)
    return order if done == len(chains) else None
