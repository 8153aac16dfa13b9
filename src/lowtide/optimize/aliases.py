"""Aliases: which tensors are stored inside others, so that the best order has the lowest peak.

An alias saves a copy, but the containing tensor is live from the first write to the last read. The saving of one alias
moves the peak to another, so aliases are chosen jointly. The search orders: no alias; the aliases of concats, slices
and splits that run near the peak of the order without aliases, with and without what shares memory underneath; all
aliases; then local changes at the peak, by op, by alias and in random groups. The exact scheduler orders every choice.
Aliases that the peak does not need are removed at the end. The peak is minimum over all choices if all are tried, as
few are, or if an op that touches no alias needs as much (`BestAliases.least`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from random import Random

from lowtide.analyse.liveness import largest_single_op, profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.graph import Graph
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import Target
from lowtide.transform.alias import Alias, Aliases, Forest, apply
from lowtide.transform.alias_candidates import Candidates

_NEAR = (1.0, 0.9, 0.75, 0.6, 0.45, 0.3, 0.0)  # shares of the peak above which an order is near it
_ONE = 0.2  # share of the time that is left for one order
_STATES_BYTES = 2**26  # memory of the search for one
_FEW = 8  # aliases of which every choice is tried
_DRAWN = 60  # random changes without success after which the search ends

Key = tuple[int, int]  # bytes of the peak, and steps that need this many


@dataclass(frozen=True)
class BestAliases:
    """Aliases that lower the peak."""

    aliases: Aliases  # empty if none lower the peak
    peak: int  # bytes of the best order
    tried: int  # choices that were ordered
    least: bool = False  # whether no choice has a lower peak, in any order
    interrupted: bool = False  # whether Ctrl-C ended the search


@dataclass(frozen=True)
class _Tried:
    """A choice and its order, with the storages that are live at its peak."""

    aliases: Aliases
    key: Key
    proved: bool
    footprint: tuple[int, ...]
    hot: frozenset[int] = field(repr=False)


def best_aliases(
    graph: Graph, target: Target, order: Sequence[int], limits: Limits, *, enough: int = 0, seed: int = 0
) -> BestAliases:
    """Aliases of the lowest peak that this search finds, and of those it finds the fewest. `order`: positions in the
    graph's own order: the best one without aliases. `enough`: bytes; no lower peak is of use."""
    search = AliasSearch(graph, target, limits, enough, Random(seed))
    first = search.first(order)
    best = first
    interrupted = False
    try:
        best = search.run(first)
    except KeyboardInterrupt:
        best, interrupted = search.best or first, True
    return BestAliases(
        best.aliases, best.key[0], search.tried, search.all_tried or best.key[0] <= search.floor, interrupted
    )


class AliasSearch:
    """Orders choices of aliases."""

    def __init__(self, graph: Graph, target: Target, limits: Limits, enough: int, random: Random) -> None:
        self.graph, self.target, self.limits, self.enough, self.random = graph, target, limits, enough, random
        self.candidates = Candidates(graph, target).all
        self.groups: dict[int, list[Alias]] = {}
        for alias in self.candidates:
            if alias.how in ("join", "nested", "take"):
                self.groups.setdefault(alias.op, []).append(alias)
        self.underneath = [alias for alias in self.candidates if alias.how in ("same", "over")]
        self.floor = self._lower_bound()
        self.seen: dict[Aliases, _Tried] = {}
        self.best: _Tried | None = None
        self.tried = 0
        self.all_tried = False

    def first(self, order: Sequence[int]) -> _Tried:
        """Without aliases, in the order that is known."""
        memory = memory_model(self.graph, self.target)
        return self._seen((), memory, order, largest_single_op(memory))

    def _lower_bound(self) -> int:
        """Lower bound in bytes: the largest working set of an op that touches no candidate."""
        memory = memory_model(self.graph, self.target)
        inside = {memory.storage_of[t] for a in self.candidates for t in (a.tensor, a.of) if t in memory.storage_of}
        rows = zip(memory.touched, memory.workspace, memory.overwrites, strict=True)
        return max(
            (
                sum(memory.storages[s].size for s in touched) + workspace - max((o.saving for o in overs), default=0)
                for touched, workspace, overs in rows
                if inside.isdisjoint(touched)
            ),
            default=0,
        )

    def run(self, first: _Tried) -> _Tried:
        """Search from the choice without aliases."""
        self.best = first
        if not self.candidates or first.key[0] <= max(self.enough, self.floor):
            self.all_tried = not self.candidates
            return first
        if len(self.candidates) <= _FEW:
            return self._every(first)
        for aliases in self._starts(first):
            self._take(self.order(aliases))
            if self._over():
                break
        self._climb()
        return self._fewest() if self.best.key[0] < first.key[0] else first

    def _over(self) -> bool:
        assert self.best is not None
        return self.limits.over() or self.best.key[0] <= max(self.enough, self.floor)

    def _take(self, tried: _Tried) -> bool:
        assert self.best is not None
        if tried.key < self.best.key:
            self.best = tried
            return True
        return False

    def _every(self, first: _Tried) -> _Tried:
        """Every choice, the fewest aliases first."""
        choices = [some for k in range(1, len(self.candidates) + 1) for some in combinations(self.candidates, k)]
        proved = True
        for some in choices:
            forest = Forest(self.graph, self.target)
            if len({alias.tensor for alias in some}) < len(some) or forest.add(some) is not None:
                continue
            if self.limits.over():
                return self.best or first
            tried = self.order(forest.aliases)
            proved = proved and tried.proved
            self._take(tried)
        self.all_tried = proved
        assert self.best is not None
        return self.best if self.best.key[0] < first.key[0] else first

    def _starts(self, first: _Tried) -> Iterator[Aliases]:
        """Aliases of ops near the peak of the order without aliases; last, all aliases."""
        before: set[int] | None = None
        for share in _NEAR:
            hot = {o for o in self.groups if first.footprint[self.graph.index_of[o]] >= share * first.key[0]}
            if hot == before:
                continue
            before = hot
            hot_aliases = [alias for o in sorted(hot) for alias in self.groups[o]]
            yield self._together(hot_aliases)
            yield self._together([*hot_aliases, *self.underneath])

    def _together(self, aliases: Iterable[Alias]) -> Aliases:
        """As many of some aliases as can be together, the first ones first, without what would lie under nothing."""
        forest = Forest(self.graph, self.target)
        for alias in aliases:
            if alias.how in ("join", "nested", "take") or alias.of in forest.above:
                forest.add((alias,))
        return forest.aliases

    def _climb(self) -> None:
        """Changes at what is there where the peak is, the first that helps; then several at random."""
        failures = 0
        while not self._over() and failures < _DRAWN:
            assert self.best is not None
            better = False
            for aliases in self._changes(self.best):
                if self._over():
                    return
                if aliases not in self.seen and self._take(self.order(aliases)):
                    better = True
                    break
            if better:
                failures = 0
                continue
            while not self._over() and failures < _DRAWN:
                failures += 1
                aliases = self._shaken(self.best)
                if aliases not in self.seen and self._take(self.order(aliases)):
                    failures = 0
                    break
            else:
                return

    def _changes(self, tried: _Tried) -> Iterator[Aliases]:
        """Aliases of one op more, or fewer; then single ones."""
        chosen = {alias.tensor: alias for alias in tried.aliases}
        for o in self._hot_ops(tried):
            some = self.groups[o]
            inside = {alias.tensor for alias in some if chosen.get(alias.tensor) == alias}
            if inside:
                yield self._together(alias for alias in tried.aliases if alias.tensor not in inside)
            if len(inside) < len(some):
                rest = [alias for alias in tried.aliases if alias.tensor not in {a.tensor for a in some}]
                yield self._together([*some, *rest])
                yield self._together([*some, *rest, *self.underneath])
        for alias in self.candidates:
            if alias.tensor in tried.hot or alias.of in tried.hot:
                if chosen.get(alias.tensor) == alias:
                    yield self._together(a for a in tried.aliases if a != alias)
                else:
                    yield self._together([*(a for a in tried.aliases if a.tensor != alias.tensor), alias])

    def _hot_ops(self, tried: _Tried) -> list[int]:
        """Ops with aliases of what is there where the peak is."""
        return [o for o, some in self.groups.items() if any({a.tensor, a.of} & tried.hot for a in some)]

    def _shaken(self, tried: _Tried) -> Aliases:
        """A few ops' aliases taken out or put in, those at the peak before others."""
        hot = self._hot_ops(tried)
        pool = hot if len(hot) > 1 and self.random.random() < 0.7 else list(self.groups)
        some = set(self.random.sample(pool, min(len(pool), self.random.randint(2, 4))))
        inside = {alias.op for alias in tried.aliases}
        gone = {alias.tensor for o in some if o in inside for alias in self.groups[o]}
        more = [alias for o in sorted(some - inside) for alias in self.groups[o]]
        kept = [alias for alias in tried.aliases if alias.tensor not in gone]
        return self._together([*more, *kept, *(self.underneath if self.random.random() < 0.5 else ())])

    def _fewest(self) -> _Tried:
        """Without aliases that the peak does not need: halves of them, then halves of those."""
        needed = self.best
        assert needed is not None
        stack = [[o for o in self.groups if any(alias.op == o for alias in needed.aliases)]]
        while stack and not self.limits.over():
            some = stack.pop()
            left = self._together(alias for alias in needed.aliases if alias.op not in some)
            tried = needed if left == needed.aliases else self.order(left)
            if tried.key[0] <= needed.key[0] and len(left) < len(needed.aliases):
                needed = tried
            elif len(some) > 1:
                stack += [some[len(some) // 2 :], some[: len(some) // 2]]
        return needed

    def order(self, aliases: Aliases) -> _Tried:
        """The best order of a choice, or the best that is found."""
        if aliases in self.seen:
            return self.seen[aliases]
        memory = memory_model(apply(self.graph, self.target, aliases).graph, self.target)
        limits = replace(self.limits.share(_ONE), memory_bytes=_STATES_BYTES)
        self.tried += 1
        answer = Exact().schedule(memory, limits)
        return self._seen(aliases, memory, answer.order, answer.lower_bound)

    def _seen(self, aliases: Aliases, memory: MemoryModel, order: Sequence[int], bound: int) -> _Tried:
        lives = profile(memory, order)
        peak = lives.peak
        steps = [k for k, size in enumerate(lives.footprint) if size == peak]
        hot = {
            t
            for storage, first, last in zip(memory.storages, lives.first, lives.last, strict=True)
            if any(first <= k <= last for k in steps)
            for t in storage.tensors
        }
        footprint = [0] * len(order)
        for at, size in zip(order, lives.footprint, strict=True):
            footprint[at] = size
        tried = _Tried(aliases, (peak, len(steps)), bound == peak, tuple(footprint), frozenset(hot))
        self.seen[aliases] = tried
        return tried
