"""Greedy orders that look at sizes: one step at a time, the ready op that looks best now.

What running an op would cost depends only on the storages it touches: it begins those that no op touched yet
and frees those that no other op will touch. So a cost changes only when such a storage begins, or is left
with one user; each happens once per storage, and all updates together take time linear in the graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import ClassVar

from lowtide.analyse.storage import MemoryModel
from lowtide.schedule.method import Schedule
from lowtide.schedule.order import successors
from lowtide.stop import Limits


class LiveBytes:
    """What is live between two steps, and what each next op would change. `live_bytes`: bytes live now."""

    def __init__(self, model: MemoryModel) -> None:
        self._model = model
        self._left = [len(s.users) for s in model.storages]
        self._begun = [s.at_start for s in model.storages]
        self._done = bytearray(len(model.graph.ops))
        self.live_bytes = sum(s.size for s in model.storages if s.at_start)

    def cost(self, i: int) -> tuple[int, int]:
        """Bytes that running op `i` now adds to what is live: while it runs (its footprint), and after it."""
        model, left, begun = self._model, self._left, self._begun
        during = after = 0
        for s in model.touched[i]:
            storage = model.storages[s]
            if not begun[s]:
                during += storage.size
                after += storage.size
            if left[s] == 1 and not storage.at_end:
                after -= storage.size
        saving = 0
        for o in model.overwrites[i]:
            if left[o.storage] == 1 and o.saving > saving:
                saving = o.saving
        return during + model.workspace[i] - saving, after

    def run(self, i: int) -> list[int]:
        """Run op `i`; returns the ops not yet run whose cost this changed (some may be listed twice)."""
        self.live_bytes += self.cost(i)[1]
        model, left, done = self._model, self._left, self._done
        done[i] = True
        changed: list[int] = []
        for s in model.touched[i]:
            left[s] -= 1
            users = model.storages[s].users
            if not self._begun[s]:
                self._begun[s] = True
                changed += [j for j in users if not done[j]]
            elif left[s] == 1:
                changed.append(next(j for j in users if not done[j]))
        return changed


@dataclass(frozen=True)
class Greedy:
    """At each step the ready op of least footprint, then of least transient footprint; ties by file order."""

    name: ClassVar[str] = "greedy"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Ready ops wait in a heap; an op whose cost changed is put in anew, and the older entry ignored."""
        after, waits = successors(model.graph)
        live = LiveBytes(model)
        cost: dict[int, tuple[int, int]] = {}
        heap: list[tuple[tuple[int, int], int]] = []

        def put(i: int) -> None:
            new = live.cost(i)
            if cost.get(i) != new:
                cost[i] = new
                heappush(heap, (new, i))

        for i, n in enumerate(waits):
            if n == 0:
                put(i)
        order: list[int] = []
        while heap:
            paid, i = heappop(heap)
            if cost.get(i) != paid:
                continue
            del cost[i]
            order.append(i)
            changed = live.run(i)
            for j in after[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    put(j)
            for j in changed:
                if j in cost:
                    put(j)
        return Schedule(tuple(order))


@dataclass(frozen=True)
class Lpmf:
    """Least peak memory first, as PyTorch Inductor's `reorder_for_peak_memory` has it.

    At each step take the ready op with the least of: first, the larger of its footprint and the largest
    footprint so far; second, what it leaves live; third, its place in the file. So as long as some op fits
    under the peak so far, the one of those that leaves least live runs; otherwise the one that raises the
    peak least. The peak so far starts at the larger of the graph's inputs and its outputs.

    Source: `topological_sort_lpmf` in torch/_inductor/memory.py (pull request 134874), after "Buffer memory
    optimization for video codec application modeled in Simulink" (DAC 2006). Inductor knows neither
    workspaces nor in-place ops; here a footprint includes the former and is less what the latter save, as
    everywhere.
    """

    name: ClassVar[str] = "lpmf"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """The costs of the ready ops lie in two arrays, so that a step costs a few array operations."""
        import numpy as np

        after, waits = successors(model.graph)
        live = LiveBytes(model)
        peak = max(live.live_bytes, sum(s.size for s in model.storages if s.at_end))
        ready = [i for i, n in enumerate(waits) if n == 0]
        slot_of = {i: k for k, i in enumerate(ready)}
        room = max(16, len(ready))
        during, left = np.zeros(room, np.int64), np.zeros(room, np.int64)
        ops = np.zeros(room, np.int64)

        def put(k: int, i: int) -> None:
            ops[k] = i
            during[k], left[k] = live.cost(i)

        for k, i in enumerate(ready):
            put(k, i)
        order: list[int] = []
        while slot_of:
            width = len(slot_of)
            some = np.flatnonzero(during[:width] <= peak - live.live_bytes)
            if not some.size:
                least = during[:width].min()
                some = np.flatnonzero(during[:width] == least)
            if some.size > 1:
                leaves = left[some]
                some = some[leaves == leaves.min()]
            k = int(some[ops[some].argmin()]) if some.size > 1 else int(some[0])
            i = int(ops[k])
            peak = max(peak, live.live_bytes + int(during[k]))
            order.append(i)
            del slot_of[i]
            width -= 1
            if k != width:
                ops[k], during[k], left[k] = ops[width], during[width], left[width]
                slot_of[int(ops[k])] = k
            changed = live.run(i)
            for j in after[i]:
                waits[j] -= 1
                if waits[j] == 0:
                    if width == len(ops):
                        during, left, ops = (np.resize(a, 2 * width) for a in (during, left, ops))
                    slot_of[j] = width
                    put(width, j)
                    width += 1
            for j in changed:
                if j in slot_of:
                    put(slot_of[j], j)
        return Schedule(tuple(order))
