"""Orders of equal peak whose load is far below it at most steps: they leave an arena room to hold the rest.

A walk over orders by swaps of neighbours, which change the footprints of two steps and nothing else, so that each
swap costs what the two ops touch. No footprint may pass the peak. What is above a share of the peak is penalised,
by its square; simulated annealing lowers the sum. Footprints are exact where they are compared with the peak, and of
sizes rounded up to the alignment where they are penalised: those are what an arena has to hold.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220 (1983).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from random import Random

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, rounded_up

ROUNDS = 100  # swaps tried, in multiples of the number of ops

SHARES = (0.7, 0.8, 0.5)  # loads up to this part of the peak are as good as none; by the seed, in turn


_SWAPS_BETWEEN_LOOKS = 1024  # at the clock


def anneal_load(
    model: MemoryModel,
    order: Sequence[int],
    peak: int,
    seed: int,
    rounds: int = ROUNDS,
    over: Callable[[], bool] | None = None,
) -> tuple[int, ...]:
    """Walk from an order of at most `peak` bytes to one of at most `peak` with less load near it. `model`: graph
    under a target. `order`: positions in file order, topological. `peak`: bytes that no footprint passes. `seed`: of
    the walk; the same one gives the same order. `rounds`: swaps tried, in multiples of the number of ops. `over`:
    says whether the walk ends now."""
    n = len(order)
    if n < 2 or peak <= 0:
        return tuple(order)
    random = Random(seed)
    exact = _SwapWalk(model, order)
    aligned = rounded_up(model)
    walk = exact if aligned is model else _SwapWalk(aligned, order)
    most = max(walk.footprint)
    share = SHARES[seed % len(SHARES)]
    threshold = share * most

    def cost(footprint: int) -> float:
        over = footprint - threshold
        return over * over if over > 0 else 0.0

    hot = ((1 - share) * most) ** 2 / 4
    tries = rounds * n
    for k in range(tries):
        if over is not None and k % _SWAPS_BETWEEN_LOOKS == 0 and over():
            break
        p = random.randrange(n - 1)
        first, second = exact.swapped(p)
        if first < 0 or first > peak or second > peak:
            continue
        if walk is not exact:
            first, second = walk.swapped(p)
            if first > most or second > most:
                continue
        change = cost(first) + cost(second) - cost(walk.footprint[p]) - cost(walk.footprint[p + 1])
        temperature = hot * (1 - k / tries) ** 3
        if change <= 0 or (temperature > 0 and random.random() < exp(-change / temperature)):
            walk.swap(p)
            if walk is not exact:
                exact.swap(p)
    return tuple(walk.order)


class _SwapWalk:
    """An order with its footprints; two neighbours can be swapped."""

    def __init__(self, model: MemoryModel, order: Sequence[int]) -> None:
        steps = profile(model, order)
        self.order = list(order)
        self.footprint, self.transient = list(steps.footprint), list(steps.transient)
        self.start = sum(s.size for s in model.storages if s.at_start)
        self._first, self._last = list(steps.first), list(steps.last)
        self._preds = [frozenset(p) for p in model.graph.predecessors]
        self._touched = model.touched
        self._touches = [frozenset(t) for t in model.touched]
        self._size = [s.size for s in model.storages]
        self._workspace = model.workspace
        self._overwrites = [[(o.storage, o.saving) for o in row] for row in model.overwrites]
        self._footprints = (0, 0, 0)

    def swapped(self, p: int) -> tuple[int, int]:
        """Footprints of steps p and p + 1 if their ops were swapped; (-1, -1) if they may not be."""
        a, b = self.order[p], self.order[p + 1]
        if a in self._preds[b]:
            return -1, -1
        size, first, last = self._size, self._first, self._last
        in_a, in_b = self._touches[a], self._touches[b]
        live = self.transient[p - 1] if p else self.start
        dies = 0
        ends: set[int] = set()
        for s in self._touched[b]:
            if first[s] == p + 1 or (first[s] == p and s in in_a):
                live += size[s]
            if last[s] == p + 1 and s not in in_a:
                dies += size[s]
                ends.add(s)
        one = live + self._workspace[b] - max((v for s, v in self._overwrites[b] if s in ends), default=0)
        middle = live = live - dies
        ends.clear()
        dies = 0
        for s in self._touched[a]:
            if first[s] == p and s not in in_b:
                live += size[s]
            if last[s] == p or last[s] == p + 1:
                dies += size[s]
                ends.add(s)
        two = live + self._workspace[a] - max((v for s, v in self._overwrites[a] if s in ends), default=0)
        self._footprints = one, middle, two
        return one, two

    def swap(self, p: int) -> None:
        """Do what `swapped` was asked about last."""
        a, b = self.order[p], self.order[p + 1]
        in_a, in_b = self._touches[a], self._touches[b]
        first, last = self._first, self._last
        for s in self._touched[a]:
            if s not in in_b:
                first[s] += first[s] == p
                last[s] += last[s] == p
        for s in self._touched[b]:
            if s not in in_a:
                first[s] -= first[s] == p + 1
                last[s] -= last[s] == p + 1
        self.order[p], self.order[p + 1] = b, a
        self.footprint[p], self.transient[p], self.footprint[p + 1] = self._footprints
