"""MAGIS's search of training steps (Chen et al., ASPLOS 2024, algorithm 3), on lowtide's transformations and checker.

States wait in a queue, the best first; each is changed by every rule, each new state is hashed and scheduled, and
waits too unless it is worse than the best by more than delta::

    within M bytes       the better state has fewer seconds, then fewer bytes, if both are within M; else fewer bytes
    within T seconds     the same with bytes and seconds changed over

Rules: enable, lift, disable and mutate of the F-Tree; rematerialise, swap, and either taken back. Of TASO's rules there
is the one of merged products, before the search (``--allow ...,merge``). Not as printed:

- nodes of the F-Tree are not enabled inside each other, as plans have no parts within parts;
- an enabled leaf may be lifted at once (unless `leaves`): its parts alone seldom lower the peak, so it would wait
  after every other rule;
- of each rule `width` places are tried, those of most bytes first;
- the F-Tree is built once, of the step's best order, and the simulator is a cost file.
"""

from __future__ import annotations

import time
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
    from lowtide_research.recompute.magis.state import Evaluated, Evaluator, State
    from lowtide_research.recompute.magis.tree import Tree

_KEPT = 24  # states that are handed back, for what an arena takes more
_WAITING = 512  # states of the queue; worse ones are left out


@dataclass(frozen=True)
class Magis:
    """MAGIS's search (Chen et al., 2024): F-Tree mutations, rematerialisation and swapping in one queue."""

    name: ClassVar[str] = "magis"
    moves: ClassVar[bool] = True
    levels: int = 4  # L: of scores in the F-Tree
    delta: float = 1.1  # how much worse than the best a state may be that is followed
    width: int = 8  # of each rule this many places
    leaves: bool = False  # enable leaves of the F-Tree alone, as printed; else a node in the place of a leaf's lifts
    reschedule: float = 0.1  # seconds of incremental scheduling, each time
    # Section 7.2.5, without a heuristic: regions at random instead of the F-Tree's; rules on all tensors, not on those
    # that are live at the peak.
    naive_fission: bool = False
    naive_rules: bool = False

    def __post_init__(self) -> None:
        if self.levels < 1 or self.width < 1 or self.delta < 1 or self.reschedule <= 0:
            raise InputError("magis.levels and magis.width are numbers from 1, magis.delta from 1.0, "
                             "magis.reschedule is seconds above 0")  # fmt: skip

    def supports(self, problem: Sequenced) -> str | None:
        """It tiles, too."""
        return "it cuts ops; write --allow recompute,tile or --allow recompute,tile,offload"

    def repeat(self, problem: Sequenced, order: Sequence[int], budget: int, limits: Limits) -> Repeated:
        """Nothing: it cuts."""
        return Repeated((), "complete", "no sequences")

    def search_step(self, step: StepProblem, limits: Limits) -> Sequence[Found]:
        """The best states, the very best first. Raises `InputError`: ops of the step share memory."""
        return [(at.choice, at.spent) for at in self.states(step, limits)[0]]

    def states(self, step: StepProblem, limits: Limits) -> tuple[list[Evaluated], Counter[str]]:
        """The same with what became of the states: how many each rule made, and of these how many were scheduled
        (``evaluated``), known before (``duplicate``), or worse than delta (``worse``)."""
        from lowtide_research.recompute.magis.state import Evaluator
        from lowtide_research.recompute.magis.tree import Tree

        model = memory_model(step.graph, step.target)
        if (why := shares_storages(sequenced(model, step.order))) is not None:
            raise InputError(f"method {self.name} cannot do this: {why}; leave out --method")
        tree = (
            Tree.at_random(step.graph) if self.naive_fission else Tree.built(step.graph, model, step.order, self.levels)
        )
        search = _Search(self, step, tree, Evaluator(step, tree, self.reschedule), limits)
        with limits.interrupt:
            search.run()
        met = [at for at in search.found if rank(step, at)[0] <= _bound(step) * (1 + 1e-12)]
        return met or search.found, search.counted


class _Search:
    """Algorithm 3: `found` are the best states, the very best first."""

    def __init__(self, method: Magis, step: StepProblem, tree: Tree, evaluator: Evaluator, limits: Limits) -> None:
        self.method, self.step, self.tree, self.evaluator, self.limits = method, step, tree, evaluator, limits
        self.found: list[Evaluated] = []
        self.counted: Counter[str] = Counter()
        self.waiting: list[tuple[tuple[float, float, float], int, Evaluated]] = []
        self.seen: set[bytes] = set()

    def run(self) -> None:
        """Until no state waits, or the time is up."""
        from lowtide_research.recompute.magis.rules import mutated

        began, method = time.perf_counter(), self.method
        self._take(self.evaluator.begin())
        while self.waiting and not self.limits.over():
            at = heappop(self.waiting)[2]
            states = mutated(
                at, self.tree, self.step.graph, method.width, leaves=method.leaves, everywhere=method.naive_rules
            )
            for rule, state in states:
                if self.limits.over():
                    break
                self.counted[rule] += 1
                self._take(state)
            if len(self.waiting) > 2 * _WAITING:
                self.waiting = nsmallest(_WAITING, self.waiting)
            self.limits.tell(f"{len(self.seen)} states", self.found[0].peak)
        self.limits.tally.add("states", self.counted["evaluated"], began)

    def _take(self, state: State) -> None:
        """Schedule a state that is new, and let it wait unless it is much worse than the best."""
        key = self.evaluator.key(state)
        if key in self.seen:
            self.counted["duplicate"] += 1
            return
        self.seen.add(key)
        new = self.evaluator.evaluated(state)
        self.counted["evaluated"] += 1
        if new is None or (self.found and rank(self.step, new) > rank(self.step, self.found[0], self.method.delta)):
            self.counted["worse"] += 1
            return
        self.seen.add(self.evaluator.key(new.state))
        heappush(self.waiting, (rank(self.step, new), len(self.seen), new))
        self.found = nsmallest(_KEPT, [*self.found, new], key=lambda at: rank(self.step, at))


def rank(step: StepProblem, at: Evaluated, delta: float = 1.0) -> tuple[float, float, float]:
    """The order of ``BetterThan``, least first; `delta`: of a state that has so many times the bytes and seconds."""
    if step.most_bytes is not None:
        return max(delta * at.peak, step.most_bytes), delta * at.seconds, delta * at.peak
    return max(delta * at.seconds, _bound(step)), delta * at.peak, delta * at.seconds


def _bound(step: StepProblem) -> float:
    bound = step.most_bytes if step.most_bytes is not None else step.most_seconds
    assert bound is not None, step
    return bound
