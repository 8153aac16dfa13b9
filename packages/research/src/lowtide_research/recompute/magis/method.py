"""MAGIS's search of training steps (Chen et al., ASPLOS 2024, algorithm 3), on lowtide's transformations and checker.

States wait in a queue, the best first; each is changed by every rule, each new state is hashed and scheduled, and
waits too unless it is worse than the best by more than delta::

    within M bytes       the better state has fewer seconds, then fewer bytes, if both are within M; else fewer bytes
    within T seconds     the same with bytes and seconds changed over

Rules: enable, lift, disable and mutate of the F-Tree; rematerialise, swap, and either taken back. Of TASO's rules there
is the one of merged products, before the search (``--allow ...,merge``). Not as printed:

- nodes of the F-Tree are not enabled inside each other, as plans have no parts within parts;
- an enabled leaf may be lifted at once (unless `leaves`): its parts alone seldom lower the peak, so it would wait
  behind every other rule;
- of each rule `width` places are tried, those of most bytes first;
- the F-Tree is built once, of the step's best order, and the simulator is a cost file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from typing import TYPE_CHECKING, ClassVar

from lowtide.analyse.storage import memory_model
from lowtide.errors import InputError
from lowtide.optimize.recompute.method import Repeated, shares_storages
from lowtide.optimize.recompute.sequence import Sequenced, sequenced
from lowtide.stop import Limits

if TYPE_CHECKING:
    from lowtide.optimize.parted import Found
    from lowtide.optimize.step_search import StepProblem
    from lowtide_research.recompute.magis.state import Evaluated

_KEPT = 24  # states that are handed back, for what an arena takes more
_WAITING = 512  # states of the queue; worse ones are left out


@dataclass(frozen=True)
class Magis:
    """MAGIS's search (Chen et al., 2024): F-Tree mutations, rematerialisation and swapping in one queue."""

    name: ClassVar[str] = "magis"
    moves: ClassVar[bool] = True
    levels: int = 4  # L: of scores in the F-Tree
    delta: float = 1.1  # how much worse than the best a state may be that is followed
    width: int = 8  # of each rule so many places
    leaves: bool = False  # enable leaves of the F-Tree alone, as printed; else a node in the place of a leaf's lifts
    reschedule: float = 0.1  # seconds of incremental scheduling, each time

    def __post_init__(self) -> None:
        if self.levels < 1 or self.width < 1 or self.delta < 1 or self.reschedule <= 0:
            raise InputError("magis.levels and magis.width are numbers from 1, magis.delta from 1.0, "
                             "magis.reschedule is seconds above 0")  # fmt: skip

    def supports(self, problem: Sequenced) -> str | None:
        """It tiles, too."""
        return "it cuts ops; write --allow recompute,fission or --allow recompute,fission,swap"

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """Nothing: it cuts."""
        return Repeated((), "complete", "no sequences")

    def search_step(self, step: StepProblem, limits: Limits) -> Sequence[Found]:
        """The best states, the very best first. Raises `InputError`: ops of the step share memory."""
        return [(at.choice, at.spent) for at in self.states(step, limits)[0]]

    def states(self, step: StepProblem, limits: Limits) -> tuple[list[Evaluated], Counter[str]]:
        """The same with what became of the states: evaluated, known before (``duplicate``), worse than delta
        (``worse``), and how many each rule made."""
        from lowtide_research.recompute.magis.rules import mutated
        from lowtide_research.recompute.magis.state import Evaluator
        from lowtide_research.recompute.magis.tree import Tree

        model = memory_model(step.graph, step.target)
        if (why := shares_storages(sequenced(model, step.order))) is not None:
            raise InputError(f"method {self.name} cannot do this: {why}; leave out --method")
        tree = Tree.built(step.graph, model, step.order, self.levels)
        evaluator, counted = Evaluator(step, tree, self.reschedule), Counter[str]()
        begin = evaluator.evaluated(evaluator.begin())
        assert begin is not None, step.graph
        best, found = begin, [begin]
        seen, number = {evaluator.key(begin.state)}, 0
        waiting = [(rank(step, begin), 0, begin)]
        while waiting and not limits.over():
            at = heappop(waiting)[2]
            for rule, state in mutated(at, tree, step.graph, self.width, leaves=self.leaves):
                if limits.over():
                    break
                counted[rule] += 1
                key = evaluator.key(state)
                if key in seen:
                    counted["duplicate"] += 1
                    continue
                seen.add(key)
                new = evaluator.evaluated(state)
                counted["evaluated"] += 1
                if new is None or rank(step, new) > rank(step, best, self.delta):
                    counted["worse"] += 1
                    continue
                seen.add(evaluator.key(new.state))
                number += 1
                heappush(waiting, (rank(step, new), number, new))
                found = nsmallest(_KEPT, [*found, new], key=lambda other: rank(step, other))
                best = found[0]
            waiting = waiting if len(waiting) < 2 * _WAITING else nsmallest(_WAITING, waiting)
        met = [other for other in found if rank(step, other)[0] <= _bound(step) * (1 + 1e-12)]
        return met or found, counted


def rank(step: StepProblem, at: Evaluated, delta: float = 1.0) -> tuple[float, float, float]:
    """The order of ``BetterThan``, least first; `delta`: of a state that has so many times the bytes and seconds."""
    if step.most_bytes is not None:
        return max(delta * at.peak, step.most_bytes), delta * at.seconds, delta * at.peak
    return max(delta * at.seconds, _bound(step)), delta * at.peak, delta * at.seconds


def _bound(step: StepProblem) -> float:
    bound = step.most_bytes if step.most_bytes is not None else step.most_seconds
    assert bound is not None, step
    return bound
