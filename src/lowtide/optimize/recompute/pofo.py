"""POFO: which blocks of a chain are recomputed and which values are offloaded, by dynamic programming.

In the forward pass each block is saved, or is one of a stretch that rotor's tables recompute later. The input of a
block stays resident or is offloaded and reloaded. A state has the resident bytes, the bytes still to offload, and those
still to reload at its backward pass; it waits for transfers where memory is full. Source: Beaumont, Eyraud-Dubois and
Shilova, "Efficient Combination of Rematerialization and Offloading for Training DNNs", NeurIPS 2021. Of the states with
bytes in the same slots, the cheapest is kept. The programme estimates the time of transfers. So it runs for several
memory sizes, and its results are evaluated by the exact clock. Rotor's own result, which comes first, is one of them:
within the same memory and time POFO never takes longer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.blocks import LEAST, Chain, best_chain
from lowtide.optimize.recompute.method import Repeated
from lowtide.optimize.recompute.rotor import (
    Rotor,
    Stages,
    Step,
    Tables,
    sequence_of,
    stages_of,
    without_idle,
)
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.optimize.recompute.swaps import clock
from lowtide.stop import Limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_MEMORIES = (1.0, 0.9, 0.8, 0.95, 0.7, 1.1, 0.85, 0.6)
"""Parts of the budget that the programme is asked for: what it counts is not what is needed."""

_PLAYED = 8  # answers of each that are played


@dataclass(frozen=True)
class Pofo:
    """Recomputation and transfers for a chain of blocks (Beaumont et al., 2021; ``--allow recompute,offload``)."""

    name: ClassVar[str] = "pofo"
    moves: ClassVar[bool] = True
    slots: int = 12  # resolution of the memory in states
    most_blocks: int = 60  # longer chains merge the neighbours of least time

    def __post_init__(self) -> None:
        if self.slots < 1 or self.most_blocks < LEAST:
            raise InputError(f"pofo.slots is a whole number from 1, pofo.most_blocks one from {LEAST}")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether the graph is a chain of blocks, in its own order."""
        return Rotor(most_blocks=self.most_blocks).supports(problem)

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The answer that takes least time by the clock: as long as the ops take, each once, is least of all."""
        chain = best_chain(problem, order, self.most_blocks)
        if isinstance(chain, str):
            return Repeated((), "complete", chain)
        among = f"checkpoints and transfers of a chain of {len(chain.blocks)} blocks"
        stages = stages_of(chain)
        alone = Rotor().repeat(problem, order, budget, limits).order  # of its own chain, which may have more blocks
        tables = Tables.of(stages, 20 * self.slots, stages.most_bytes, limits)
        best = (clock(problem, alone), alone) if alone else None
        played = 0
        room = budget - sum(v.size for v in problem.values if v.maker < 0)
        for part in _MEMORIES if tables is not None else ():
            assert tables is not None
            for steps, moved in Programme(stages, tables, _rates(problem), part * room, self.slots).answers(limits):
                sequence = with_transfers(problem, without_idle(problem, sequence_of(chain, steps)),
                                          _values(chain, moved), budget)  # fmt: skip
                played += 1
                if peak_of(problem, sequence) <= budget and (best is None or clock(problem, sequence) < best[0]):
                    best = clock(problem, sequence), tuple(sequence)
            if limits.over() or (best is not None and best[0] <= problem.costs.total):
                break
        ended = "time" if tables is None or limits.over() else "complete"
        counters = {"blocks": len(chain.blocks), "played": played}
        return Repeated(best[1] if best else (), ended, among, counters=counters)


def _rates(problem: Sequenced) -> tuple[float, float]:
    """Bytes per unit of cost to the slow memory, and from it: those of the largest transfer."""
    row = max(problem.transfers, key=lambda row: problem.values[row.value].size, default=None)
    if row is None:
        return 0.0, 0.0
    size = problem.values[row.value].size
    return size / max(1, row.store), size / max(1, row.load)


Moved = tuple[int, bool]
"""A block of which what goes in leaves, and whether that is all that is saved of the block before."""


def _values(chain: Chain, moved: Sequence[Moved]) -> list[int]:
    values: list[int] = []
    for k, saved in moved:
        before = chain.blocks[k - 1]
        values += [x for x in sorted(before.saved) if x != before.boundary] if saved else []
        values += [before.boundary] if before.boundary >= 0 else []
    return values


class Programme:
    """States before each block, those behind a saved one apart from those behind one that was passed."""

    def __init__(self, stages: Stages, tables: Tables, rates: tuple[float, float], memory: float, slots: int) -> None:
        self.stages, self.tables, self.memory, self.unit = stages, tables, memory, max(1.0, memory / slots)
        self.out, self.back = rates
        n = len(stages.saved)
        self.rows: dict[tuple[int, bool], list[Numbers]] = {(i, bar): [] for i in range(n + 1) for bar in (True, False)}
        self.kept: dict[tuple[int, bool], Numbers] = {}

    def answers(self, limits: Limits) -> Iterator[tuple[list[Step], list[Moved]]]:
        """The cheapest ends, as steps and what is moved; none if the time is up."""
        import numpy as np

        n = len(self.stages.saved)
        # Columns: stays, to leave, to come back, cost, and where from: block, saved, row, moved, behind the stretch.
        self.rows[0, False].append(np.array([[0, 0, 0, 0, -1, 0, 0, 0, 0]], dtype=np.float64))
        for i in range(n + 1):
            for bar in (False, True):
                self._gather(i, bar)
                if i < n and len(self.kept[i, bar]):
                    for moved in (False, True) if i and self.out else (False,):
                        self._save(i, bar, moved)
                        for j in range(i, n):
                            self._stretch(i, j, bar, moved)
            if limits.over():
                return
        ends = [(row[3], bar, k) for bar in (False, True) for k, row in enumerate(self.kept[n, bar])]
        for _, bar, k in sorted(ends)[:_PLAYED]:
            yield self._way_to(bar, k)

    def _gather(self, i: int, bar: bool) -> None:
        """Of states in the same slots the cheapest."""
        import numpy as np

        rows = np.concatenate([*self.rows.pop((i, bar)), np.empty((0, 9))])
        rows = rows[np.isfinite(rows[:, 3])]
        rows = rows[np.argsort(rows[:, 3], kind="stable")]
        _, first = np.unique((rows[:, :3] // self.unit).astype(np.int64), axis=0, return_index=True)
        self.kept[i, bar] = rows[np.sort(first)]

    def _goes_in(self, i: int, bar: bool) -> int:
        at = self.stages
        return 0 if not i else at.saved[i - 1] if bar else at.boundary[i - 1]

    def _on(
        self,
        i: int,
        bar: bool,
        moved: bool,
        there: tuple[float, float],
        back: tuple[Numbers | float, float],
        behind: int,
        ways: NDArray[np.bool_] | bool = True,
    ) -> None:
        """The states after a step. `there` and `back`: its time, and its bytes in addition to the resident ones;
        `ways`: where it is feasible."""
        import numpy as np

        kept, size = self.kept[i, bar], self._goes_in(i, bar)
        stays, to_leave, to_come = kept[:, 0], kept[:, 1], kept[:, 2]
        room = self.memory - stays - size
        waits = np.maximum(0.0, there[1] + to_leave - room)
        comes = np.maximum(0.0, back[1] + to_come - room)
        fits = (there[1] <= room) & (back[1] <= room) & ways
        new = np.empty((len(kept), 9))
        new[:, 0] = stays + (0 if moved else size)
        new[:, 1] = np.maximum(0.0, to_leave + (size if moved else 0) - there[0] * self.out - waits)
        new[:, 2] = np.maximum(0.0, to_come - back[0] * self.back - comes) + (size if moved else 0)
        waiting = (waits / self.out if self.out else 0) + (comes / self.back if self.back else 0)
        new[:, 3] = np.where(fits, kept[:, 3] + there[0] + back[0] + waiting, np.inf)
        new[:, 4:] = np.stack([np.full(len(kept), i), np.full(len(kept), bar), np.arange(len(kept)),
                               np.full(len(kept), moved), np.full(len(kept), behind)], axis=1)  # fmt: skip
        self.rows[behind or i + 1, not behind].append(new)

    def _save(self, i: int, bar: bool, moved: bool) -> None:
        at = self.stages
        there = (float(at.saving[i]), float(at.save_peak[i] + at.resident[-1]))
        self._on(i, bar, moved, there, (float(at.back[i]), float(at.back_peak[i])), 0)

    def _stretch(self, i: int, j: int, bar: bool, moved: bool) -> None:
        """Blocks i to j are passed, and recomputed by the tables."""
        import numpy as np

        at, kept = self.stages, self.kept[i, bar]
        peaks = [at.pass_peak[k] + (at.boundary[k - 1] if k > i else 0) for k in range(i, j + 1)]
        slots = self._slots(kept[:, 0] + self._goes_in(i, bar))
        cost = np.where(slots >= 0, self.tables.cost[i, j][np.maximum(slots, 0)], np.inf)
        there = (float(sum(at.passing[i : j + 1])), float(max(peaks) + at.resident[-1]))
        self._on(i, bar, moved, there, (np.where(np.isfinite(cost), cost, 0.0), 0.0), j + 1, np.isfinite(cost))

    def _slots(self, stays: Numbers) -> NDArray[np.int64]:
        import numpy as np

        return np.minimum((self.memory - stays) // self.tables.unit, self.tables.slots).astype(np.int64)

    def _way_to(self, bar: bool, k: int) -> tuple[list[Step], list[Moved]]:
        """A state's way, from its end."""
        import numpy as np

        there: list[list[Step]] = []
        back: list[list[Step]] = []
        moved: list[Moved] = []
        row = self.kept[len(self.stages.saved), bar][k]
        while row[4] >= 0:
            i, saved, behind = int(row[4]), bool(row[5]), int(row[8])
            if row[7]:
                moved.append((i, saved))
            at = self.kept[i, saved][int(row[6])]
            if behind:
                slots = int(self._slots(np.array([at[0] + self._goes_in(i, saved)]))[0])
                there.append([("pass", b) for b in range(i, behind)])
                back.append(self.tables.steps(slots, i, behind - 1))
            else:
                there.append([("save", i)])
                back.append([("back", i)])
            row = at
        return [step for part in (*there[::-1], *back) for step in part], moved[::-1]


def with_transfers(problem: Sequenced, sequence: Sequence[int], values: Sequence[int], budget: int) -> list[int]:
    """The sequence with stores and loads of values around their longest time without a reader. A store is placed where
    it ends without waiting, or where memory is full; a load in time for its reader, or as soon as memory is free."""
    row_of = {row.value: k for k, row in enumerate(problem.transfers)}
    starts = [0, *accumulate(problem.costs.units[i] for i in sequence)]
    gaps = _gaps(problem, sequence, starts, {x for x in values if x in row_of})
    live = problem.exact.footprints(list(sequence))
    size = [v.size for v in problem.values]
    away: list[list[int]] = []  # first step of which it is gone, step that reads it, value
    ends = 0
    for p, q, x, made in gaps:
        ends = max(ends, starts[made + 1]) + problem.transfers[row_of[x]].store
        away.append([min(q, max(p + 1, bisect_left(starts, ends))), q, x])
    change, gone = [0] * (len(sequence) + 1), 0  # bytes that leave before a step, less those that come back
    for at, q, x in away:
        change[at] += size[x]
        change[q] -= size[x]
    for step in range(len(sequence)):
        gone += change[step]
        over = live[step] - budget - gone
        if over <= 0:
            continue
        for row, (p, _, x, _) in zip(away, gaps, strict=True):
            if over > 0 and p < step < row[0]:
                change[row[0]] -= size[x]
                row[0], over, gone = step, over - size[x], gone + size[x]
    away = [row for row in away if row[0] < row[1]]
    for at, q, x in away:
        for step in range(at, q):
            live[step] -= size[x]
    loads, deadline = [], starts[-1]
    for at, q, x in sorted(away, key=lambda row: -row[1]):
        deadline = min(deadline, starts[q]) - problem.transfers[row_of[x]].load
        loads.append([at, max(at, next((step for step in range(q, at, -1) if starts[step] <= deadline), at)), q, x])
    before: dict[int, list[int]] = {}
    for at, wanted, q, x in loads[::-1]:
        step = q
        while step > wanted and live[step - 1] + size[x] <= budget:
            step -= 1
            live[step] += size[x]
        if step > at:
            before.setdefault(at, []).append(len(problem.ops) + 2 * row_of[x])
            before.setdefault(step, []).append(len(problem.ops) + 2 * row_of[x] + 1)
    return [entry for step, i in enumerate(sequence) for entry in (*before.get(step, ()), i)]


def _gaps(
    problem: Sequenced, sequence: Sequence[int], starts: Sequence[int], values: set[int]
) -> list[tuple[int, int, int, int]]:
    """Of each value the longest time between two uses of it, the second of which reads it: the steps of both, the
    value, and the step that made it. The first steps first."""
    longest: dict[int, tuple[int, int, int, int]] = {}
    used: dict[int, int] = {}
    made: dict[int, int] = {}
    for step, i in enumerate(sequence):
        op = problem.ops[i]
        for x in values.intersection(op.reads):
            if x in used:
                before = used[x]
                gap = (starts[step] - starts[before + 1], before, step, made[x])
                longest[x] = max(longest.get(x, gap), gap)
            used[x] = step
        for x in values.intersection(op.makes):
            used[x] = made[x] = step
    return sorted((p, q, x, maker) for x, (_, p, q, maker) in longest.items())
