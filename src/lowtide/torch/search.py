"""Orders of a step within a budget: its own, the exact scheduler's, then ops that run again, by a plain greedy.

::

    t is made ... last use | peak | next use     t is made ... last use | peak | t is made again, next use
    |-------------------------------|      =>    |---------|                  |--------|

At the peak the greedy takes, of the values that lie across it, the one that costs least time for each byte, and runs
its op again just before the next use; what that op reads and is dead by then is made again too, so that chains serve
all later readers: Chen et al.'s segments ("Training Deep Nets with Sublinear Memory Cost", 2016) come out by
themselves. What turns out idle is taken away at the end. It proves nothing.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.torch.sequence import writers_over

MOST_AGAIN = 256
"""Ops that run again for the sake of one value."""

EXACT_SHARE = 0.2
"""Part of the time that the search for an order may take."""


def floor(graph: Graph) -> tuple[int, int]:
    """Bytes that the largest op takes with what it reads and makes, workspace included; and its id."""
    counted = {t.id: t.size for t in graph.tensors if t.id in graph.producer and t.alias_of is None}
    most = {
        op.id: op.workspace + sum(counted.get(t, 0) for t in dict.fromkeys((*op.inputs, *op.outputs)))
        for op in graph.ops
    }
    at = max(most, key=lambda op: (most[op], -op), default=0)
    return most.get(at, 0), at


def search(graph: Graph, seconds: Mapping[int, float], budget: int | None, time: float) -> Sequence[int]:
    """Ids of the ops as they should run, within the budget or as near as was found in `time` seconds.

    Own order where no budget asks for another; among the rest the first of the module's three that fits.
    """
    tape = _Tape(graph, seconds)
    own = list(graph.own_order)
    if budget is None or tape.measure(own).peak <= budget or floor(graph)[0] > budget:
        return own
    end = clock.perf_counter() + time
    order = (
        Exact().schedule(memory_model(graph, resolve("torch")), Limits(time * EXACT_SHARE, budget_bytes=budget)).order
    )
    other = [graph.ops[i].id for i in order]
    if tape.measure(other).peak <= budget:
        return other
    tries = [_shave(tape, start, budget, end) for start in (own, other)]
    fitting = [one for one in tries if tape.measure(one).peak <= budget]
    if not fitting:
        return min(tries, key=lambda one: tape.measure(one).peak)
    return min([_tidy(tape, one, budget, end) for one in fitting], key=tape.cost)


@dataclass(frozen=True)
class _Lives:
    """What a sequence holds: bytes step by step; of each life of a value where it begins, and where it is read."""

    footprint: list[int]
    lives: dict[int, list[tuple[int, list[int]]]]

    @property
    def peak(self) -> int:
        return max(self.footprint, default=0)


class _Tape:
    """A graph as the greedy needs it: which values each op reads and makes, what they take, and what may run again."""

    def __init__(self, graph: Graph, seconds: Mapping[int, float]) -> None:
        self.size = {t.id: t.size for t in graph.tensors if t.id in graph.producer and t.alias_of is None}
        self.reads = {op.id: [t for t in dict.fromkeys(op.inputs) if t in self.size] for op in graph.ops}
        self.makes = {op.id: [t for t in op.outputs if t in self.size] for op in graph.ops}
        self.workspace = {op.id: op.workspace for op in graph.ops}
        self.maker = {t: op for op, made in self.makes.items() for t in made}
        self.ends = {t.id for t in graph.tensors if t.kind is Kind.OUTPUT and t.id in self.size}
        self.seconds, self.writers = seconds, writers_over(graph)
        self.once = {
            op.id
            for op in graph.ops
            if op.attributes.get("random") or any(graph.tensor_by_id[t].alias_of is not None for t in op.outputs)
        }

    def measure(self, order: Sequence[int]) -> _Lives:
        """Lives and footprints of a sequence."""
        n = len(order)
        lives: dict[int, list[tuple[int, list[int]]]] = {}
        for step, op in enumerate(order):
            for t in self.reads[op]:
                lives[t][-1][1].append(step)
            for t in self.makes[op]:
                lives.setdefault(t, []).append((step, []))
        change = [0] * (n + 1)
        for t, spans in lives.items():
            for k, (start, uses) in enumerate(spans):
                change[start] += self.size[t]
                if t not in self.ends or k + 1 < len(spans):
                    change[(uses[-1] if uses else start) + 1] -= self.size[t]
        footprint, live = [], 0
        for step, op in enumerate(order):
            live += change[step]
            footprint.append(live + self.workspace[op])
        return _Lives(footprint, lives)

    def cost(self, order: Sequence[int]) -> float:
        """Seconds of all ops."""
        return sum(self.seconds[op] for op in order)


def _shave(tape: _Tape, order: Sequence[int], budget: int, end: float) -> list[int]:
    """A sequence within the budget, or as low as it gets."""
    best = list(order)
    now = tape.measure(best)
    while now.peak > budget and clock.perf_counter() < end:
        step = _step(tape, best, now, end)
        if step is None:
            break
        best, now = step
    return best


def _step(tape: _Tape, order: list[int], now: _Lives, end: float) -> tuple[list[int], _Lives] | None:
    """One value made again, so that the peak's step holds less and no other more than the peak; None: there is none."""
    peak = now.peak
    at = now.footprint.index(peak)
    written = {op: k for k, op in enumerate(order) if op in tape.once}
    candidates: list[tuple[float, int, int, list[int]]] = []
    for t, spans in now.lives.items():
        for start, uses in spans:
            if not (start < at and uses and uses[-1] > at) or at in uses:
                continue
            use = next(u for u in uses if u > at)
            chain = _chain(tape, now, t, use, written)
            if chain:
                candidates.append((sum(tape.seconds[op] for op in chain) / tape.size[t], t, use, chain))
    for _, _, use, chain in sorted(candidates):
        if clock.perf_counter() > end:
            break
        changed = [*order[:use], *chain, *order[use:]]
        then = tape.measure(changed)
        if then.peak <= peak and then.footprint[at] < peak:
            return changed, then
    return None


def _chain(tape: _Tape, now: _Lives, value: int, use: int, written: Mapping[int, int]) -> list[int]:
    """Ops that make a value again just before a step, in order; empty if one of them must not run there."""
    chain: list[int] = []
    waiting, seen = [(value, False)], set[int]()
    while waiting:
        t, ready = waiting.pop()
        op = tape.maker[t]
        if ready:
            chain.append(op)
            continue
        if op in seen:
            continue
        seen.add(op)
        if op in tape.once or len(seen) > MOST_AGAIN or any(written[w] < use for w in tape.writers.get(op, ())):
            return []
        waiting.append((t, True))
        waiting += [(read, False) for read in tape.reads[op] if not _alive(tape, now, read, use)]
    return chain


def _alive(tape: _Tape, now: _Lives, t: int, step: int) -> bool:
    """Whether a value lies in memory when a step begins."""
    for start, uses in reversed(now.lives[t]):
        if start < step:
            last = start == now.lives[t][-1][0]
            return (last and t in tape.ends) or bool(uses and uses[-1] >= step)
    return False


def _tidy(tape: _Tape, order: list[int], budget: int, end: float) -> list[int]:
    """The sequence without second runs that the budget does not need, the dearest first."""
    seen: set[int] = set()
    again: list[int] = []
    for k, op in enumerate(order):
        if op in seen:
            again.append(k)
        seen.add(op)
    gone: set[int] = set()
    for k in sorted(again, key=lambda k: (-tape.seconds[order[k]], k)):
        if clock.perf_counter() > end:
            break
        shorter = [op for i, op in enumerate(order) if i not in gone and i != k]
        if tape.measure(shorter).peak <= budget:
            gone.add(k)
    return [op for i, op in enumerate(order) if i not in gone]
