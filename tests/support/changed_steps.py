"""Steps of a plan that tiles ops, bytes live at each, and a search for an order of few bytes. Nothing is lowtide's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Step:
    """A part of an op, a slice, a concatenation or an addition: tensors by number, and which may be written over.

    `after`: a step that the search runs before: parts of an op run in turn, so that fewer orders are alike.
    `how`: what the step computes (`support.changed_numbers`).
    """

    label: str
    reads: tuple[int, ...]
    makes: tuple[int, ...]
    view: bool = False
    over: tuple[int, ...] = ()
    after: int | None = None
    how: tuple[Any, ...] = ()


@dataclass
class Steps:
    """The graph of a plan. Of each tensor its bytes; inputs are there from the start, outputs to the end."""

    sizes: list[int]
    inputs: set[int]
    outputs: set[int]
    steps: list[Step] = field(default_factory=list[Step])

    def tensor(self, size: int) -> int:
        """A new tensor."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def add(
        self, label: str, reads: Sequence[int], makes: Sequence[int], *,
        view: bool = False, over: Sequence[int] = (), after: int | None = None, how: tuple[Any, ...] = (),
    ) -> int:  # fmt: skip
        """A new step; `over`: operands that it may write over."""
        self.steps.append(Step(label, tuple(reads), tuple(makes), view, tuple(over), after, how))
        return len(self.steps) - 1

    def replay(self, order: Sequence[int]) -> list[int]:
        """Bytes live at each step of an order of all steps: what is there before it, what it makes, less what it writes
        over."""
        storage = self._storages()
        assert sorted(order) == list(range(len(self.steps)))
        last: dict[int, int] = {}
        for at, k in enumerate(order):
            for t in (*self.steps[k].reads, *self.steps[k].makes):
                last[storage[t]] = at
        kept = {storage[t] for t in self.outputs}
        from_start = {storage[t] for t in self.inputs}
        live = {s for s in from_start if s in last or s in kept}
        there, result = set(self.inputs), list[int]()
        for at, k in enumerate(order):
            step = self.steps[k]
            assert there.issuperset(step.reads), f"{step.label} reads what is not made"
            there |= set(step.makes)
            live |= {storage[t] for t in step.makes}
            dying = {s for s in live if last.get(s) == at and s not in kept}
            saved = [self.sizes[t] for t in step.over if storage[t] in dying - from_start]
            result.append(sum(self.sizes[s] for s in live) - max(saved, default=0))
            live -= dying
        return result

    def _storages(self) -> list[int]:
        """For each tensor the one in whose storage it lies."""
        storage = list(range(len(self.sizes)))
        for step in self.steps:
            if step.view:
                storage[step.makes[0]] = storage[step.reads[0]]
        return storage

    @cached_property
    def compiled(self) -> Compiled:
        """The steps as the search has them."""
        return Compiled(self)


class Compiled:
    """Steps as bits: for each what it reads, and the storages that it touches."""

    def __init__(self, steps: Steps) -> None:
        storage = steps._storages()
        maker = {t: k for k, step in enumerate(steps.steps) for t in step.makes}
        users: dict[int, int] = {}
        for k, step in enumerate(steps.steps):
            for t in (*step.reads, *step.makes):
                users[storage[t]] = users.get(storage[t], 0) | 1 << k
        kept = {storage[t] for t in steps.outputs}
        at_start = {storage[t] for t in steps.inputs}
        self.count = len(steps.steps)
        self.all = (1 << self.count) - 1
        self.before: list[int] = []
        self.after: list[list[int]] = [[] for _ in steps.steps]
        for k, s in enumerate(steps.steps):
            needs = {maker[t] for t in s.reads if t in maker} | ({s.after} if s.after is not None else set())
            self.before.append(sum(1 << j for j in needs))
            for j in needs:
                self.after[j].append(k)
        self.start = sum(steps.sizes[s] for s in at_start if s in users or s in kept)
        self.begins: list[list[tuple[int, int]]] = []
        self.ends: list[list[tuple[int, int]]] = []
        self.saves: list[list[tuple[int, int]]] = []
        for step in steps.steps:
            touched = {storage[t] for t in (*step.reads, *step.makes)}
            self.begins.append([(steps.sizes[s], users[s]) for s in sorted(touched - at_start)])
            self.ends.append([(steps.sizes[s], users[s]) for s in sorted(touched - kept)])
            over = {storage[t] for t in step.over} - kept - at_start
            self.saves.append([(steps.sizes[s], users[s]) for s in sorted(over)])
        self.least = self._least([(steps.sizes[s], u, s in at_start, s in kept) for s, u in users.items()])

    def _least(self, storages: Sequence[tuple[int, int, bool, bool]]) -> int:
        """What the highest step needs in every order: what it touches, and what is there before and behind it."""
        above, below, most = [0] * self.count, [0] * self.count, self.start
        for k in range(self.count):  # steps stand in an order in which they can run
            for j in self.after[k]:
                above[j] |= above[k] | 1 << k
        for k in reversed(range(self.count)):
            for j in self.after[k]:
                below[k] |= below[j] | 1 << j
        for k in range(self.count):
            up, down = above[k] | 1 << k, below[k] | 1 << k
            need = sum(s for s, users, start, end in storages if (start or users & up) and (end or users & down))
            most = max(most, need - max((s for s, _ in self.saves[k]), default=0))
        return most

    def step(self, done: int, k: int) -> tuple[int, int]:
        """What step k needs above the state before it, and by how much the state after it is above that one."""
        up = fall = save = 0
        for size, users in self.begins[k]:
            if not users & done:
                up += size
        left = ~(done | 1 << k)
        for size, users in self.ends[k]:
            if not users & left:
                fall += size
        for size, users in self.saves[k]:
            if not users & left and size > save:
                save = size
        return up - save, up - fall

    def order_below(self, limit: int, most_states: int) -> list[int] | None:
        """An order whose steps all need less than `limit` bytes, if one is found in so many states.

        A step that leaves no more behind than was there is taken at once.
        """
        if self.least >= limit:
            return None
        ready = sum(1 << k for k, before in enumerate(self.before) if not before)
        stack: list[tuple[int, int, int, tuple[int, ...]]] = [(0, ready, self.start, ())]
        seen: set[int] = set()
        while stack and len(seen) < most_states:
            done, ready, live, order = stack.pop()
            children: list[tuple[int, int]] = []
            taken = True
            while taken:
                taken, children = False, []
                bits = ready
                while bits:
                    low = bits & -bits
                    bits ^= low
                    k = low.bit_length() - 1
                    up, grows = self.step(done, k)
                    if live + up >= limit:
                        continue
                    if grows > 0:
                        children.append((grows, k))
                        continue
                    done, ready, live, order = (
                        self._ran(done, ready, k),
                        self._ready(done, ready, k),
                        live + grows,
                        (*order, k),
                    )
                    taken = True
                    break
            if done == self.all:
                return list(order)
            if done in seen:
                continue
            seen.add(done)
            for grows, k in sorted(children, reverse=True):
                after = self._ran(done, ready, k)
                if after not in seen:
                    stack.append((after, self._ready(done, ready, k), live + grows, (*order, k)))
        return None

    def _ran(self, done: int, ready: int, k: int) -> int:
        return done | 1 << k

    def _ready(self, done: int, ready: int, k: int) -> int:
        done |= 1 << k
        ready &= ~(1 << k)
        for j in self.after[k]:
            if not self.before[j] & ~done:
                ready |= 1 << j
        return ready


def least_peak(steps: Steps, most_states: int = 100_000) -> int:
    """The least peak over all orders of a small graph of steps: the limit falls until no order is below."""
    compiled = steps.compiled
    order = compiled.order_below(2**62, most_states)
    assert order is not None
    peak = max(steps.replay(order))
    while (order := compiled.order_below(peak, most_states)) is not None:
        peak = max(steps.replay(order))
    return peak
