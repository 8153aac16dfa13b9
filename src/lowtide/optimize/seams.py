"""Concat eliminations that lower the peak: all at first, then without those that the peak does not need.

Eliminations often save jointly: without one concat, the peak moves to the next. So the search applies all of them, or
all near the peak of the untiled order, whichever is lower. Then it restores concats, half of the rest at a time, while
the exact scheduler finds an order within the same peak. The rest has the fewest parts that this search finds. A bound
is over orders of these tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph
from lowtide.transform.seam_parts import apply_with_elimination
from lowtide.transform.seams import NO_ELIMINATION, Elimination, find_elimination, operand_rows

_ROUNDS = 4  # how often sums are added up in the order in which the last order had their operands
_ONE = 0.25  # share of the time that is left for one order of parts
_NEAR = (0.95, 0.8, 0.65, 0.5)  # shares of the peak above which an order is near it
_STATES_BYTES = 2**24  # memory of the search for one: an order that is not found with it counts as none


@dataclass(frozen=True)
class BestElimination:
    """Concat eliminations that lower the peak."""

    elimination: Elimination  # empty if none lowers the peak
    parts: PartGraph | None  # its part graph
    order: tuple[int, ...]  # op ids of the part graph, in the best order
    peak: int  # bytes of that order
    tried: int  # part graphs that were ordered
    interrupted: bool = False  # whether Ctrl-C ended the search


@dataclass(frozen=True)
class _Choice:
    """Concats that are unmodified, and those whose operands are sliced."""

    without: frozenset[int] = frozenset()
    fine: frozenset[int] = frozenset()


@dataclass(frozen=True)
class _Tried:
    """A choice, and an order of its parts."""

    choice: _Choice
    parts: PartGraph
    order: tuple[int, ...]
    peak: int
    bound: int


def best_elimination(
    cutter: Cutter,
    memory: MemoryModel,
    order: Sequence[int],
    limits: Limits,
    *,
    accumulate: bool = False,
    enough: int = 0,
    most_ops: int = 0,
) -> BestElimination:
    """The concat elimination of lowest peak that this search finds, with the fewest tiled ops that it finds. `memory`:
    the graph under a target. `order`: positions in the file order: the best untiled order. `accumulate`: as
    `find_elimination`. `enough`: bytes; no lower peak is of use. `most_ops`: ops that may run; 0: any number."""
    search = _Search(cutter, memory, order, limits, accumulate, most_ops)
    uncut_peak = max(search.footprint, default=0)
    best: _Tried | None = None
    interrupted = False
    try:
        best = search.run(enough)
    except KeyboardInterrupt:
        interrupted = True
    if best is None:
        return BestElimination(NO_ELIMINATION, None, (), uncut_peak, search.tried, interrupted)
    return BestElimination(best.parts.elimination, best.parts, best.order, best.peak, search.tried, interrupted)


class _Search:
    """Orders part graphs."""

    def __init__(
        self,
        cutter: Cutter,
        memory: MemoryModel,
        order: Sequence[int],
        limits: Limits,
        accumulate: bool,
        most_ops: int,
    ) -> None:
        self.cutter, self.target, self.limits = cutter, memory.target, limits
        self.accumulate, self.most_ops = accumulate, most_ops
        self.position = {cutter.graph.ops[i].id: k for k, i in enumerate(order)}
        self.footprint = profile(memory, order).footprint
        self.concats = [op.id for op in cutter.graph.ops if operand_rows(cutter, op.id) is not None]
        self.tried = 0

    def elimination(self, choice: _Choice) -> Elimination:
        """The elimination of a choice."""
        return find_elimination(self.cutter, choice.without, accumulate=self.accumulate, fine=choice.fine)

    def parts(self, choice: _Choice) -> PartGraph | None:
        """The part graph of a choice; None if nothing is cut, or it has more ops than may run."""
        elimination = self.elimination(choice)
        if not elimination.cuts:
            return None
        result = apply_with_elimination(self.cutter, (), elimination)
        return None if self.most_ops and len(result.graph.ops) > self.most_ops else result

    def run(self, enough: int) -> _Tried | None:
        """Eliminations near the peak, or all of them; then the necessary ones; then with sliced operands."""
        peak = max(self.footprint, default=0)
        near, everything = self.near_the_peak(peak, fine=False), self.all_at_once()
        best = min((t for t in (near, everything) if t is not None), key=lambda t: t.peak, default=None)
        if best is None or best.peak >= peak:
            return None
        best = self.in_turns(self.fewest(best, max(best.peak, enough)))
        if best.peak > enough and not self.limits.over():
            finer = self.near_the_peak(best.peak, fine=True)
            if finer is not None:
                best = self.in_turns(self.fewest(finer, max(finer.peak, enough)))
        return best

    def near_the_peak(self, peak: int, *, fine: bool) -> _Tried | None:
        """The best of a few choices: concats that are live where the untiled order is near a peak. None if none is
        below the peak."""
        best, before = None, frozenset[int]()
        for share in _NEAR:
            hot = frozenset(o for o in self.concats if self._is_hot(o, int(share * peak)))
            choice = _Choice(frozenset(self.concats) - hot, hot if fine else frozenset())
            parts = None if hot == before or self.limits.over() else self.parts(choice)
            before = hot
            if parts is not None:
                tried = self.order(choice, parts)
                if tried.peak < (peak if best is None else best.peak):
                    best = tried
        return best

    def all_at_once(self) -> _Tried | None:
        """Every elimination; those with the most tiles are left out while there are too many."""
        choice = _Choice()
        left = sorted(self.concats, key=lambda o: len(self.cutter.graph.op_by_id[o].inputs))
        parts = self.parts(choice)
        while parts is None and left and self.most_ops and not self.limits.over():
            choice = replace(choice, without=choice.without | {left.pop()})
            parts = self.parts(choice)
        return None if parts is None else self.order(choice, parts)

    def order(self, choice: _Choice, parts: PartGraph, within: int | None = None) -> _Tried:
        """The best order of parts, or any within a peak; neither with more states than `_STATES_BYTES` hold."""
        memory = memory_model(parts.graph, self.target)
        limits = replace(self.limits.share(_ONE), memory_bytes=_STATES_BYTES)
        self.tried += 1
        exact = Exact()
        found = exact.schedule(memory, limits) if within is None else exact.within(memory, within, limits)
        order = tuple(parts.graph.ops[i].id for i in found.order)
        return _Tried(choice, parts, order, profile(memory, found.order).peak, found.lower_bound)

    def fewest(self, best: _Tried, peak: int) -> _Tried:
        """Without concats, then slices, that the peak does not need."""
        needed = best

        def leave(some: Sequence[int]) -> _Choice:
            return replace(needed.choice, without=needed.choice.without | set(some))

        def unsliced(some: Sequence[int]) -> _Choice:
            return replace(needed.choice, fine=needed.choice.fine - set(some))

        steps: list[tuple[Callable[[Sequence[int]], _Choice], Collection[int]]] = [
            (leave, [o for o in self.concats if o not in best.choice.without]),
            (unsliced, best.choice.fine),
        ]
        for change, ids in steps:
            left = sorted(i for i in ids if i not in needed.choice.without)
            cold = [i for i in left if not self._is_hot(i, peak)]
            stack = [[i for i in left if i not in set(cold)], cold]
            while stack and not self.limits.over():
                some = stack.pop()
                parts = self.parts(change(some)) if some else None
                if parts is not None and len(parts.graph.ops) <= len(needed.parts.graph.ops):
                    tried = self.order(change(some), parts, peak)
                    if tried.peak <= peak:
                        needed = tried
                        continue
                if len(some) > 1:
                    stack += [some[len(some) // 2 :], some[: len(some) // 2]]
        return needed

    def _is_hot(self, concat: int, peak: int) -> bool:
        """Whether the order without cuts is above a peak while something of a concat is there."""
        graph, op = self.cutter.graph, self.cutter.graph.op_by_id[concat]
        makers = [self.position[graph.producer[t]] for t in op.inputs if t in graph.producer]
        readers = [self.position[r] for r in graph.consumers.get(op.outputs[0], ())]
        first, last = min(makers, default=0), max(readers, default=self.position[concat])
        return any(size > peak for size in self.footprint[first : last + 1])

    def in_turns(self, best: _Tried) -> _Tried:
        """Sums added up in the order in which their operands are there."""
        for _ in range(_ROUNDS):
            if best.bound >= best.peak or self.limits.over():
                break
            elimination = best.parts.elimination.turned(turns_of(self.cutter, best.parts, best.order))
            if elimination == best.parts.elimination:
                break
            tried = self.order(best.choice, apply_with_elimination(self.cutter, (), elimination))
            if tried.peak > best.peak:
                break
            best = tried
        return best


def turns_of(cutter: Cutter, parts: PartGraph, order: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """For each sum, its parts by when an order has what they read."""
    position = {o: k for k, o in enumerate(order)}
    maker = {t: position[op.id] for op in parts.graph.ops for t in op.outputs}
    ready: dict[int, list[tuple[int, int]]] = {}
    cuts = {c.op: c for c in parts.elimination.cuts if c.turns}
    sums = {t for t in parts.slices if parts.slices[t].terms is not None}
    for op in parts.graph.ops:
        part = parts.parts.get(op.id)
        if part is None or part.of not in cuts or part.rows is None:
            continue
        read = (maker.get(t, -1) for t in op.inputs if t not in sums)
        at = max(read, default=-1)
        ready.setdefault(part.of, []).append((at, cuts[part.of].parts.index(part.rows)))
    return {o: tuple(k for _, k in sorted(parts_of)) for o, parts_of in ready.items()}
