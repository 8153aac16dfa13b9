"""Waists of an order: states that some best order passes, whatever stands before and after them.

Let X be a downset between two others, L and H. It is a **waist** if f, the bytes live between two steps, is no more
at X than

    (A) at any T inside X (and around L) at which an op outside X is ready,
    (B) at any U around X (and inside H) of which some last op of X is needed by nothing that U has besides X.

Then every order from L to H can be put into one that passes X, at no step higher (docs/proofs.md, theorem 6): what runs
before X and what runs after it are problems of their own, with fixed ends. Both conditions are minimum cuts, over X
without what must run before the op outside, and over what is after X and does not need that last op of it: small
wherever the graph is narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from itertools import accumulate, pairwise
from typing import Any

from lowtide import _core
from lowtide.analyse.model import MemoryModel
from lowtide.optimize.loop_flow import members

WIDEST = 400  # ops of a minimum cut; a state whose cuts have more is taken for no waist


@dataclass(frozen=True)
class Segment:
    """Ops that run between two states, as a problem of the core."""

    ops: tuple[int, ...]  # positions, ascending: those of the core's model, in its order
    order: tuple[int, ...]  # in which they run in the order that was given: numbers of the core's model
    around: int  # bytes live throughout that none of them touches
    model: _core.Model
    key: bytes  # the same for problems that are the same, wherever they stand


class Waists:
    """The waists of an order of a model.

    The ops of a chain that the core fuses (`_core.fused`) are one step: some best order runs them one right after the
    other, and what holds for ops holds for these. Sets of steps are the bits of a number.

    `order`: the order with the ops of each chain together, where their last one stood. `at`: how many ops of it have
    run at each waist, ascending; its begin and its end are the first and the last.
    """

    def __init__(self, model: MemoryModel, order: Sequence[int]) -> None:
        self.model = model
        chains = [tuple(chain) for chain in _core.fused(model.core)]
        steps = _steps(model, chains, order)
        of = {v: k for k, step in enumerate(steps) for v in step}
        self._preds = [sorted({of[u] for v in step for u in model.graph.predecessors[v]} - {k})
                       for k, step in enumerate(steps)]  # fmt: skip
        self._succs: list[list[int]] = [[] for _ in steps]
        for k, own in enumerate(self._preds):
            for u in own:
                self._succs[u].append(k)
        self._before = _closure(range(len(steps)), self._preds)
        self._after = _closure(range(len(steps) - 1, -1, -1), self._succs)
        self.order = tuple([v for step in steps for v in step])
        ran = [0, *accumulate(map(len, steps))]
        transient = model.core.profile(self.order).transient
        begin = sum(s.size for s in model.storages if s.at_start and (s.users or s.at_end))
        self._live = [transient[k - 1] if k else begin for k in ran]
        self._users = [_bits({of[v] for v in s.users}) for s in model.storages]
        self._touched = [sorted({s for v in step for s in model.touched[v]}) for step in steps]
        self.at = tuple([ran[k] for k in self._waists(len(steps))])
        self._ran = {count: k for k, count in enumerate(ran)}

    def _waists(self, steps: int) -> list[int]:
        found, more = [0, steps], True
        while more:  # a waist makes what lies beside it a smaller problem, in which more states may be
            more = False
            for low, high in list(pairwise(found)):
                inner = self._between(low, high)
                more = more or bool(inner)
                found += inner
            found.sort()
        return found

    def _between(self, low: int, high: int) -> list[int]:
        """Waists between two others, each with the one before it as its begin."""
        found: list[int] = []
        pending = {v: sum(u >= low for u in self._preds[v]) for v in range(low, high)}
        ready = {v for v, count in pending.items() if not count}
        last: set[int] = set()
        begin = low
        for v in range(low, high - 1):
            ready.discard(v)
            for w in self._succs[v]:
                if w in pending:
                    pending[w] -= 1
                    if not pending[w]:
                        ready.add(w)
            last.difference_update(self._preds[v])
            last.add(v)
            if self._is_waist(begin, v + 1, high, ready, last):
                begin = v + 1
                found.append(begin)
                last.clear()
        return found

    def _is_waist(self, low: int, at: int, high: int, ready: Set[int], last: Set[int]) -> bool:
        """Whether the first `at` steps are a waist between the first `low` and the first `high`. `ready`: steps that
        could run next. `last`: steps after `low` that none of the steps before `at` needs."""
        live = self._live[at]
        first = min((self._preds[w][-1] + 1 if self._preds[w] else 0 for w in ready), default=at)
        until = max((self._succs[m][0] if self._succs[m] else high for m in last), default=at)
        if min(self._live[max(low, first) : min(high, until) + 1], default=live) < live:
            return False  # the order itself has a lower state
        inside, outside = _between(low, at), _between(at, high)
        needs = _least([self._before[w] & inside for w in ready])
        leaves = _least([self._after[m] & outside for m in last])
        frees = [(inside & ~need, False) for need in needs] + [(outside & ~leave, True) for leave in leaves]
        if any(free.bit_count() > WIDEST for free, _ in frees):
            return False
        return all(self._stays(free, at, behind=behind) for free, behind in frees if free)

    def _stays(self, free: int, at: int, *, behind: bool) -> bool:
        """Whether no state has fewer bytes than the first `at` steps that lacks some of these steps; `behind`: that has
        some of them besides."""
        here = _between(0, at)
        low, steps = here if behind else here & ~free, list(members(free))
        model, number = self.model, {v: k for k, v in enumerate(steps)}
        touched: dict[int, list[int]] = {}
        for k, v in enumerate(steps):
            for s in self._touched[v]:
                touched.setdefault(s, []).append(k)
        around = self._live[at] - sum(model.storages[s].size for s in touched if self._is_live(s, here))
        core = _core.Model(
            preds=[[number[u] for u in self._preds[v] if u in number] for v in steps] + [[]],  # one may run any time
            sizes=[model.storages[s].size for s in touched],
            users=list(touched.values()),
            at_start=[self._begun(s, low) for s in touched],
            at_end=[self._needed(s, low | free) for s in touched],
            workspace=[0] * (len(steps) + 1),
            overwrites=[[] for _ in range(len(steps) + 1)],
        )
        return around + _core.cut_at(core, len(steps)).value >= self._live[at]

    def _begun(self, storage: int, state: int) -> bool:
        return self.model.storages[storage].at_start or bool(self._users[storage] & state)

    def _needed(self, storage: int, state: int) -> bool:
        return self.model.storages[storage].at_end or bool(self._users[storage] & ~state)

    def _is_live(self, storage: int, state: int) -> bool:
        return self._begun(storage, state) and self._needed(storage, state)

    def segments(self) -> Iterator[Segment]:
        """What runs between each two neighbours."""
        for low, high in pairwise(self.at):
            yield self._segment(low, high)

    def _segment(self, low: int, high: int) -> Segment:
        model, ops = self.model, sorted(self.order[low:high])
        number = {v: k for k, v in enumerate(ops)}
        begin, end = _between(0, self._ran[low]), _between(0, self._ran[high])
        touched: dict[int, list[int]] = {}
        for k, v in enumerate(ops):
            for s in model.touched[v]:
                touched.setdefault(s, []).append(k)
        around = self._live[self._ran[low]] - sum(model.storages[s].size for s in touched if self._is_live(s, begin))
        rank = {s: k for k, s in enumerate(touched)}
        problem: dict[str, Any] = {
            "preds": [sorted(number[u] for u in model.graph.predecessors[v] if u in number) for v in ops],
            "sizes": [model.storages[s].size for s in touched],
            "users": list(touched.values()),
            "at_start": [self._begun(s, begin) for s in touched],
            "at_end": [self._needed(s, end) for s in touched],
            "workspace": [model.workspace[v] for v in ops],
            "overwrites": [[(rank[o.storage], o.saving) for o in model.overwrites[v]] for v in ops],
        }
        key = blake2b(repr(list(problem.values())).encode(), digest_size=16).digest()
        numbers = tuple([number[v] for v in self.order[low:high]])
        return Segment(tuple(ops), numbers, around, _core.Model(**problem), key)


def _steps(model: MemoryModel, chains: Sequence[tuple[int, ...]], order: Sequence[int]) -> list[tuple[int, ...]]:
    """Chains in an order: each where the last of its ops stands, as soon as what it needs has run."""
    place = {v: k for k, v in enumerate(order)}
    of = {v: c for c, chain in enumerate(chains) for v in chain}
    waits = [{of[u] for v in chain for u in model.graph.predecessors[v]} - {c} for c, chain in enumerate(chains)]
    readers: list[list[int]] = [[] for _ in chains]
    for c, before in enumerate(waits):
        for u in before:
            readers[u].append(c)
    left = [len(before) for before in waits]
    late = [max(place[v] for v in chain) for chain in chains]
    ready = [(late[c], c) for c, count in enumerate(left) if not count]
    heapify(ready)
    result: list[tuple[int, ...]] = []
    while ready:
        _, at = heappop(ready)
        result.append(chains[at])
        for reader in readers[at]:
            left[reader] -= 1
            if not left[reader]:
                heappush(ready, (late[reader], reader))
    return result


def _between(low: int, high: int) -> int:
    """The set of the steps from one to another."""
    return (1 << high) - (1 << low)


def _closure(order: Iterable[int], before: Sequence[Sequence[int]]) -> list[int]:
    """All that must run before each op."""
    result = [0] * len(before)
    for v in order:
        for u in before[v]:
            result[v] |= result[u] | 1 << u
    return result


def _least(sets: Sequence[int]) -> list[int]:
    """The sets that have no other one inside."""
    kept: list[int] = []
    for bits in sorted(sets, key=int.bit_count):
        if not any(k & ~bits == 0 for k in kept):
            kept.append(bits)
    return kept


def _bits(ops: Iterable[int]) -> int:
    result = 0
    for v in ops:
        result |= 1 << v
    return result
