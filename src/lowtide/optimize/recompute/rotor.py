"""Rotor: which blocks of a chain keep only their input, and which all that their backward pass reads.

For blocks s to t with the input of s kept, forward and backward within m bytes take at least C(s, t, m). Either the
forward pass saves all that the backward pass of s reads, until then. Or it keeps the input of a later block s', runs s'
to t forward and backward, and then recomputes s to s' - 1. Source: Beaumont, Eyraud-Dubois, Herrmann, Joly and Shilova,
"Optimal checkpointing for heterogeneous chains: how to train deep neural networks with limited memory", 2019, theorem
1. It is optimal for a chain, sizes in a fixed number of slots, among sequences that keep a checkpoint until its block's
backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from lowtide.errors import InputError
from lowtide.optimize.recompute.blocks import LEAST, Chain, best_chain
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.stop import Limits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]


@dataclass(frozen=True)
class Rotor:
    """Optimal checkpoints of a chain of blocks (Beaumont et al., 2019)."""

    name: ClassVar[str] = "rotor"
    moves: ClassVar[bool] = False
    slots: int = 500  # resolution of the memory
    most_blocks: int = 100  # of more, neighbours that take least time are one

    def __post_init__(self) -> None:
        if self.slots < 1 or self.most_blocks < LEAST:
            raise InputError("rotor.slots is a whole number from 1, rotor.most_blocks one from 3")

    def supports(self, problem: Sequenced) -> str | None:
        """Whether the graph is a chain of blocks, in its own order."""
        if (shared := shares_storages(problem)) is not None:
            return shared
        chain = best_chain(problem, range(len(problem.ops)), self.most_blocks)
        return chain if isinstance(chain, str) else None

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """The cheapest sequence of the tables that is within the budget, of all numbers of slots: what they count in
        slots is a little more than what is needed."""
        chain = best_chain(problem, order, self.most_blocks)
        if isinstance(chain, str):
            return Repeated((), "complete", chain)
        return self.along(chain, budget, limits)

    def along(self, chain: Chain, budget: int, limits: Limits) -> Repeated:
        """The same for a chain that is known."""
        problem, among = chain.problem, f"checkpoints of a chain of {len(chain.blocks)} blocks"
        stages = stages_of(chain)
        tables = Tables.of(stages, self.slots, stages.most_bytes, limits)
        if tables is None:
            return Repeated((), "time", among)
        tried = 0
        for slots in tables.answers():
            sequence = without_idle(problem, sequence_of(chain, tables.steps(slots)))
            tried += 1
            if peak_of(problem, sequence) <= budget:
                return Repeated(
                    tuple(sequence), "complete", among, counters={"blocks": len(chain.blocks), "tried": tried}
                )
            if limits.over():
                return Repeated((), "time", among)
        return Repeated((), "complete", among, counters={"blocks": len(chain.blocks), "tried": tried})


@dataclass(frozen=True)
class Stages:
    """A chain in bytes and units of cost, per block."""

    # boundary, saved: bytes of its output for the next block, and of all that a saved block keeps, this included.
    boundary: tuple[int, ...]
    saved: tuple[int, ...]
    # passing, saving, back: cost forward without saving, with saving, and backward.
    passing: tuple[int, ...]
    saving: tuple[int, ...]
    back: tuple[int, ...]
    # pass_peak, save_peak: peak bytes of these, without the block's input.
    pass_peak: tuple[int, ...]
    save_peak: tuple[int, ...]
    back_peak: tuple[int, ...]  # peak bytes of the backward pass, saved and held values included
    # Bytes live in addition to checkpoints, from where the blocks up to this one remain to its backward pass.
    resident: tuple[int, ...]

    @cached_property
    def most_bytes(self) -> int:
        """Bytes within which no block is recomputed."""
        peaks = [*self.back_peak, *(max(a, b) + c for a, b, c in zip(
            self.pass_peak, self.save_peak, self.resident, strict=True
        ))]  # fmt: skip
        return sum(self.saved) + max(peaks)


Step = tuple[str, int]  # ``pass``, ``save`` or ``back``, and a block


class Tables:
    """C(s, t, m) for all m in slots, and what is done first: 0, s is saved; s' > s, what goes into s' is kept; -1,
    there is no way."""

    def __init__(self, stages: Stages, slots: int, most_bytes: int) -> None:
        self.stages, self.slots, self.unit = stages, slots, max(1, -(-most_bytes // slots))
        self.cost: dict[tuple[int, int], Costs] = {}
        self.first: dict[tuple[int, int], NDArray[np.int32]] = {}

    @classmethod
    def of(cls, stages: Stages, slots: int, most_bytes: int, limits: Limits) -> Tables | None:
        """All of them; None if the time was up."""
        tables, n = cls(stages, slots, most_bytes), len(stages.saved)
        for length in range(n):
            for s in range(n - length):
                if limits.over():
                    return None
                tables._fill(s, s + length)
        return tables

    def in_slots(self, size: int) -> int:
        """Rounded up."""
        return -(-size // self.unit)

    def _fill(self, s: int, t: int) -> None:
        import numpy as np

        at, slots = self.stages, np.arange(self.slots + 1)
        cost = np.full(self.slots + 1, np.inf)
        first = np.full(self.slots + 1, -1, dtype=np.int32)
        alone = max(at.resident[t] + at.save_peak[s], at.back_peak[s] if s == t else 0)
        if s == t:
            fits = slots >= self.in_slots(alone)
            cost[fits], first[fits] = at.saving[s] + at.back[s], 0
        else:
            kept = self._after(s + 1, t, self.in_slots(at.saved[s])) + at.saving[s] + at.back[s]
            fits = (slots >= self.in_slots(max(alone, at.back_peak[s]))) & np.isfinite(kept)
            cost[fits], first[fits] = kept[fits], 0
            on_the_way, there = 0, 0
            for later in range(s + 1, t + 1):
                k = later - 1
                on_the_way = max(on_the_way, at.pass_peak[k] + (at.boundary[k - 1] if k > s else 0))
                there += at.passing[k]
                kept = self._after(later, t, self.in_slots(at.boundary[k])) + there + self.cost[s, k]
                fits = (slots >= self.in_slots(at.resident[t] + on_the_way)) & (kept < cost)
                cost[fits], first[fits] = kept[fits], later
        self.cost[s, t], self.first[s, t] = cost, first

    def _after(self, s: int, t: int, slots: int) -> Costs:
        """C(s, t, m - slots) for all m."""
        import numpy as np

        shifted = np.full(self.slots + 1, np.inf)
        if slots <= self.slots:
            shifted[slots:] = self.cost[s, t][: self.slots + 1 - slots]
        return shifted

    def answers(self) -> Iterator[int]:
        """Numbers of slots for the complete chain, the cheapest first, of equal ones the fewest."""
        cost = self.cost[0, len(self.stages.saved) - 1]
        before = None
        for m in sorted(range(self.slots + 1), key=lambda m: (cost[m], m)):
            if cost[m] < float("inf") and cost[m] != before:
                before = cost[m]
                yield m

    def steps(self, slots: int, s: int = 0, t: int | None = None) -> list[Step]:
        """What is done for blocks s to t, all of them by default, within a given number of slots."""
        steps: list[Step] = []
        todo: list[tuple[int, int, int] | Step] = [(s, len(self.stages.saved) - 1 if t is None else t, slots)]
        while todo:
            at = todo.pop()
            if len(at) == 2:
                steps.append(at)
                continue
            s, t, m = at
            later = int(self.first[s, t][m])
            assert later >= 0, "no way"
            if later:
                steps += [("pass", k) for k in range(s, later)]
                inside = self.in_slots(self.stages.boundary[later - 1])
                todo += [(s, later - 1, m), (later, t, m - inside)]
            else:
                steps.append(("save", s))
                todo.append(("back", s))
                if s < t:
                    todo.append((s + 1, t, m - self.in_slots(self.stages.saved[s])))
        return steps


def stages_of(chain: Chain) -> Stages:
    """A chain in figures."""
    problem, blocks = chain.problem, chain.blocks
    size, units = [v.size for v in problem.values], problem.costs.units
    passes = [chain.to_pass(k) for k in range(len(blocks))]
    saves = [chain.to_save(k) for k in range(len(blocks))]
    saved = [block.saved | ({block.boundary} - {-1}) for block in blocks]
    held = [sum(size[x] for i in block.there for x in problem.ops[i].makes if x in chain.held) for block in blocks]
    inside = [_held_back(chain, k) for k in range(len(blocks))]
    return Stages(
        tuple(size[b.boundary] if b.boundary >= 0 else 0 for b in blocks),
        tuple(sum(size[x] for x in values) for values in saved),
        tuple(sum(units[i] for i in runs) for runs in passes),
        tuple(sum(units[i] for i in runs) for runs in saves),
        tuple(sum(units[i] for i in block.back) for block in blocks),
        tuple(_peak(problem, runs, {b.boundary}, chain.held) for b, runs in zip(blocks, passes, strict=True)),
        tuple(_peak(problem, runs, kept, chain.held) for kept, runs in zip(saved, saves, strict=True)),
        tuple(sum(held[: k + 1]) + inside[k] + _back_peak(chain, k, saved[k]) for k in range(len(blocks))),
        tuple(sum(held[: k + 1]) + inside[k] for k in range(len(blocks))),
    )


def _peak(problem: Sequenced, runs: Sequence[int], kept: set[int] | frozenset[int], apart: frozenset[int]) -> int:
    """Bytes of what these runs make while they run, their workspaces among them."""
    last = {x: step for step, i in enumerate(runs) for x in (*problem.ops[i].makes, *problem.ops[i].reads)}
    live, peak = set[int](), 0
    for step, i in enumerate(runs):
        live.update(x for x in problem.ops[i].makes if x not in apart)
        peak = max(peak, sum(problem.values[x].size for x in live) + problem.ops[i].workspace)
        live = {x for x in live if x in kept or last[x] > step}
    return peak


def _held_back(chain: Chain, k: int) -> int:
    """Bytes that the way back of later blocks leaves for that of the blocks up to k, or for good."""
    problem, behind = chain.problem, {i for block in chain.blocks[k + 1 :] for i in block.back}
    ahead = {x for block in chain.blocks[: k + 1] for i in block.back for x in problem.ops[i].reads}
    return sum(v.size for x, v in enumerate(problem.values) if v.maker in behind and (v.kept or x in ahead))


def _back_peak(chain: Chain, k: int, saved: frozenset[int]) -> int:
    """Peak bytes of the backward pass of a block, without the values that later blocks leave (`_held_back`)."""
    made = {x for i in chain.blocks[k].back for x in chain.problem.ops[i].makes}
    read_on = {x for block in chain.blocks[:k] for i in block.back for x in chain.problem.ops[i].reads}
    kept = {x for x in made if chain.problem.values[x].kept or x in read_on}
    return sum(chain.problem.values[x].size for x in saved) + _peak(
        chain.problem, chain.blocks[k].back, kept, frozenset()
    )


def sequence_of(chain: Chain, steps: Sequence[Step]) -> list[int]:
    """Positions of the ops that these steps run; what a block never ran before runs where it is saved first."""
    ops, sequence = chain.problem.ops, list[int]()
    passed, ran = set[int](), set[int]()
    for what, k in steps:
        block = chain.blocks[k]
        if what == "back":
            sequence += block.back
            continue
        if what == "pass":
            runs = set(chain.to_pass(k, first=k not in passed))
        else:
            fresh = {i for i in block.there if i not in ran}
            wanted = {x for i in fresh for x in ops[i].reads} if k in passed else set[int]()
            runs = {*fresh, *chain.to_save(k), *chain.needed(k, wanted, first=False)} if k in passed else fresh
        sequence += [i for i in block.there if i in runs and not (ops[i].once and i in ran)]
        passed.add(k)
        ran |= runs
    return sequence


def without_idle(problem: Sequenced, sequence: Sequence[int]) -> list[int]:
    """The sequence without runs of which nothing is read, as long as each op runs."""
    return [sequence[step] for step in busy_steps(problem, sequence)]


def busy_steps(problem: Sequenced, sequence: Sequence[int]) -> list[int]:
    """Steps of a sequence of which something is read, and one of each op."""
    left: dict[int, int] = {}
    for i in sequence:
        left[i] = left.get(i, 0) + 1
    need, runs = {x for x, v in enumerate(problem.values) if v.kept}, set[int]()
    kept: list[int] = []
    for step in range(len(sequence) - 1, -1, -1):
        i = sequence[step]
        left[i] -= 1
        op = problem.ops[i]
        if need.isdisjoint(op.makes) and (left[i] or i in runs):
            continue
        kept.append(step)
        runs.add(i)
        need.difference_update(op.makes)
        need.update(op.reads)
    return kept[::-1]
