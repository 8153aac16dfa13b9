"""What COSMA's program is about: storages with a maker and readers, and the steps at which each can be what.

The overlap analysis (section III-F) is ASAP and ALAP: op i runs after its ancestors and before its descendants, so in
steps |anc(i)| .. n-1-|desc(i)|; a storage is there from its maker's first step to its readers' last one. Two storages
never meet if all that touch the one are ancestors of the other's maker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.spill.problem import SpillProblem, model_while_used

OUTSIDE = -1  # maker of a graph input or a constant: it is loaded, for nothing, when it is first read


@dataclass(frozen=True, slots=True)
class CosmaStorage:
    """A storage as the program sees it."""

    index: int  # index in the model
    size: int  # bytes it takes in memory
    bytes: int  # what a move of it moves
    maker: int  # position of the op that makes it, or `OUTSIDE`
    readers: tuple[int, ...]  # positions of the ops that read it, ascending, without the maker
    free: bool  # whether it leaves for nothing: there is a copy outside in any case
    written_late: bool = False  # whether it must be there after the last step, or have been spilled
    stays: bool = False  # whether it must be there after the last step
    # present, away, later: of parts of a graph: whether it is there before the first step; whether it is outside, so
    # that the first load costs a read too; whether it is needed after the last step, and costs a read if it is not
    # there.
    present: bool = False
    away: bool = False
    later: bool = False


@dataclass(frozen=True)
class Space:
    """Ops, storages and when they can be."""

    n: int  # ops
    steps: int  # timesteps: n, and one more if something has to be there after the last op
    # first, last: per op, the steps between which it can run.
    first: tuple[int, ...]
    last: tuple[int, ...]
    preds: tuple[tuple[int, ...], ...]
    ancestors: tuple[int, ...]  # per op, a set of positions as bits
    storages: tuple[CosmaStorage, ...]  # storages that take room
    workspace: tuple[int, ...]  # per op, bytes
    overlap: bool

    def begins(self, a: int) -> tuple[int, int]:
        """Steps between which a storage is made, or loaded for the first time; -1 if it is there before step 0."""
        storage = self.storages[a]
        if storage.present:
            return -1, -1
        if storage.maker != OUTSIDE:
            return self.first[storage.maker], self.last[storage.maker]
        if not self.overlap:
            return 0, self.steps - 1
        readers = storage.readers
        end = self.steps - 1
        return min((self.first[u] for u in readers), default=end), min((self.last[u] for u in readers), default=end)

    def ends(self, a: int) -> int:
        """Last step at which a storage can be of use."""
        storage = self.storages[a]
        if storage.stays or not self.overlap:
            return self.steps - 1
        if storage.written_late or storage.later:
            return self.n - 1
        return max([self.begins(a)[1], *(self.last[u] for u in storage.readers)])

    def meet(self, a: int, b: int) -> bool:
        """Whether two storages can be in memory at the same step, by what must run before what."""
        return not self.overlap or not (self._before(a, b) or self._before(b, a))

    def _before(self, a: int, b: int) -> bool:
        first, then = self.storages[a], self.storages[b]
        if then.maker == OUTSIDE or first.stays or first.written_late or first.later:
            return False
        before = self.ancestors[then.maker]
        users = first.readers if first.maker == OUTSIDE else (first.maker, *first.readers)
        return all(before >> i & 1 for i in users)


def why_not(problem: SpillProblem) -> str | None:
    """None if COSMA's program can say this problem, else what it has no equation for."""
    model = problem.model
    if problem.semantics.lead:
        return "COSMA has no equation for moves that take steps; leave out moves.lead"
    for i, touched in enumerate(model.touched):
        need = sum(model.storages[s].size for s in touched) + model.workspace[i]
        if need > problem.capacity:
            label = model.graph.ops[i].label
            return f"{label} needs {need:,} bytes where nothing is written in place, and COSMA has no in-place ops"
    ancestors = ancestors_of(model.graph.predecessors)
    for s, storage in enumerate(model.storages):
        writers = problem.writers[s]
        label = model.graph.tensor_by_id[storage.tensors[0]].label
        if len(writers) > 1 or (writers and storage.at_start):
            return f"the storage of {label} is written more than once, for which COSMA has no equation"
        if writers and any(not ancestors[i] >> writers[0] & 1 for i in storage.users if i != writers[0]):
            return f"the storage of {label} may be touched before it is written, for which COSMA has no equation"
    return None


def ancestors_of(preds: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Per op, the ops that must run before it, as bits."""
    ancestors: list[int] = []
    for before in preds:
        bits = 0
        for p in before:
            bits |= ancestors[p] | 1 << p
        ancestors.append(bits)
    return tuple(ancestors)


def space_of(problem: SpillProblem, *, order: Sequence[int] | None = None, overlap: bool = True) -> Space:
    """Ops and storages of a problem that `why_not` has nothing against. `order`: If given, the only one that is allowed
    (equation 16). `overlap`: whether to analyse who can be when; if not, everything may be at every step."""
    model = problem.model
    n = problem.steps
    preds = model.graph.predecessors
    ancestors = ancestors_of(preds)
    storages = []
    for s, storage in enumerate(model.storages):
        stays = problem.is_output[s] and problem.semantics.outputs_end_fast
        if not storage.size or not (storage.users or stays):
            continue
        maker = problem.writers[s][0] if problem.writers[s] else OUTSIDE
        free = problem.written_free[s] or (problem.copied[s] and maker == OUTSIDE)
        readers = tuple(i for i in storage.users if i != maker)
        late = problem.is_output[s] and not free and not stays
        storages.append(CosmaStorage(s, storage.size, problem.traffic_bytes[s], maker, readers, free, late, stays))
    steps = n + any(storage.stays for storage in storages)
    first, last = windows(ancestors, order, overlap)
    return Space(n, steps, first, last, preds, ancestors, tuple(storages), model.workspace, overlap)


def space_without_spilling(problem: SpillProblem, *, overlap: bool = True) -> Space:
    """As `space_of`, but every storage lives as in a plan without spilling: graph inputs from before step 0, graph
    outputs to the end; constants, if they are counted, while ops read them."""
    model = model_while_used(problem)
    n = problem.steps
    ancestors = ancestors_of(model.graph.predecessors)
    storages = []
    for s, storage in enumerate(model.storages):
        if not storage.size:
            continue
        maker = OUTSIDE if storage.at_start else storage.users[0]
        readers = tuple(i for i in storage.users if i != maker)
        storages.append(
            CosmaStorage(s, storage.size, storage.size, maker, readers, free=False, written_late=storage.at_end)
        )
    first, last = windows(ancestors, None, overlap)
    return Space(n, n, first, last, model.graph.predecessors, ancestors, tuple(storages), model.workspace, overlap)


def windows(
    ancestors: Sequence[int], order: Sequence[int] | None, overlap: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """First and last step of each op: the order's, by ASAP and ALAP, or any."""
    n = len(ancestors)
    if order is not None:
        step_of = {i: step for step, i in enumerate(order)}
        steps = tuple(step_of[i] for i in range(n))
        return steps, steps
    if not overlap:
        return (0,) * n, (n - 1,) * n
    followers = [0] * n
    for bits in ancestors:
        while bits:
            low = bits & -bits
            followers[low.bit_length() - 1] += 1
            bits ^= low
    return tuple(bits.bit_count() for bits in ancestors), tuple(n - 1 - f for f in followers)
