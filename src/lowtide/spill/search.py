"""lowtide's own method: the least traffic over all orders, by exact search, with the addresses.

1. If some order fits as it is, nothing moves (the exact scheduler finds it).
2. The file order and the order of least peak, each with its best residency: exact, as the core searches one order only.
3. Beams over all orders, wider and wider; then exact best-first search for anything better. Its frontier is a lower
   bound over all orders, which sums of windows raise. Where it does not end, stretches of the best order are searched
   exactly once more, the rest fixed.
4. Addresses by the arena engines. What does not fit is repaired by `lowtide.spill.repair`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

from lowtide import _core
from lowtide.certificates import CutCertificate
from lowtide.errors import sound
from lowtide.schedule.method import Schedule
from lowtide.spill.answer import NoRoomError, SpillAnswer
from lowtide.spill.core_problem import CoreProblem, core_problem, least_traffic
from lowtide.spill.one_order import CHAIN_WIDTH, OrderWithGaps, order_with_gaps
from lowtide.spill.online import cheapest, furthest, simulate_arena, simulate_arena_until, why_not_apart
from lowtide.spill.phases import BoundedWindow, Phase, ancestors, live_too_much, longest_chain, phases, windows
from lowtide.spill.problem import SpillProblem, least_peak, order_by, timeline
from lowtide.spill.repair import PlacedResidency, place, repair
from lowtide.spill.rows import by_rows
from lowtide.spill.traffic import intervals_of, moves_of, traffic_of
from lowtide.spill_plan import TrafficPart, TrafficProof
from lowtide.stop import Limits, Progress

WIDTHS = (1, 10, 100, 1000)

CHAIN_STATES = 20_000
"""For an order alone: after a beam, the exact search. All its states at a step have run the same ops."""


@dataclass(frozen=True)
class Spill:
    """Least traffic over all orders, with proof where the search ends."""

    name: ClassVar[str] = "spill"

    states: int = 3_000_000  # states of the best-first search, at most; its memory is limited besides
    window_states: int = 20_000  # states for each window of the bound
    window: int = 40  # ops of the stretches that are searched a second time when there is no proof
    # Whether to say, in the counters, what the order would move if parts of tensors could leave (`rows.py`).
    rows: bool = False
    # safe_moves, dominance: the two pruning rules of the search; both are sound.
    safe_moves: bool = True
    dominance: bool = True

    def supports(self, problem: SpillProblem) -> str | None:
        """Every problem."""
        return None

    def spill(self, problem: SpillProblem, limits: Limits) -> SpillAnswer:
        """Find the best order, residency and addresses within the limits."""
        search = _TrafficSearch(problem, limits, self)
        search.run()
        if search.proved or search.no_room or why_not_apart(problem) is not None:
            return search.answer()
        orders = list(search.orders)
        if search.best is not None:
            orders.append(search.best.order)
        online = [
            answer
            for order, policy in product(dict.fromkeys(orders), (cheapest, furthest))
            if (answer := simulate_arena_until(limits.over, problem, order, policy)) is not None
        ]
        if search.best is None and not online:  # like the greedy arena, this takes the time it takes
            online.append(simulate_arena(problem, orders[0], furthest))
        return search.answer(min(online, key=lambda answer: answer.traffic_bytes, default=None))


class _TrafficSearch:
    def __init__(self, problem: SpillProblem, limits: Limits, options: Spill) -> None:
        self.problem, self.limits, self.options = problem, limits, options
        self.best: OrderWithGaps | None = None
        self.orders: list[tuple[int, ...]] = []
        self.peak = Schedule(())
        self.bound = 0
        self.proof = TrafficProof(kind="none")
        self.states = 0
        self.interrupted = False
        self.no_room = False

    def run(self) -> None:
        """Search; where nothing is proved, see what the least peak says."""
        try:
            if self.problem.semantics.lead:
                self._with_lead()
                return
            self._run()
        except KeyboardInterrupt:
            self.interrupted = True
        if self.best is not None and not self.proved:
            self._raise_by_peak(self.best.traffic_bytes)

    def _run(self) -> None:
        """Orders that are known, beams, then the proof."""
        problem = self.problem
        self.peak = least_peak(problem, self.limits.until(0.2))
        for order in (self.peak.order, order_by("own", problem, self.limits)):
            self.orders.append(tuple(order))
            alone = core_problem(problem, order, chain=True)
            self._ask(alone, width=CHAIN_WIDTH)
            if not self.proved:
                self._ask(alone, state_limit=CHAIN_STATES)
            if self.proved:
                return
        question = core_problem(problem)
        beams = self._beams(question)
        next(beams, None)
        next(beams, None)
        if self._prove(question, 20_000):
            return
        parts = self._parts()
        next(beams, None)
        if self.proved or self._prove(question, 200_000):
            return
        for _ in beams:
            if self.proved:
                return
        summed = core_problem(problem, segments=[(w.ops, w.bytes) for w in parts])
        if not self._prove(summed, self.options.states, parts) and self.best is not None:
            self._improve()

    def _parts(self) -> tuple[BoundedWindow, ...]:
        """Bounds by parts of the graph around the best order; the windows among them, which a search can add up."""
        if self.best is None:
            return ()
        by_windows = windows(self.problem, self.best.order, self.options.window_states, self.limits)
        self._raise(sum(w.bytes for w in by_windows), "windows", parts=by_windows)
        if not self.proved and self.limits.left_seconds > 0:
            line = longest_chain(ancestors(self.problem), self._left_before())
            split = phases(self.problem, line, self.options.window_states, self.limits)
            self._raise(sum(p.bytes for p in split), "phases", parts=split)
        return by_windows

    def _with_lead(self) -> None:
        """The orders that are good without a lead, each searched with it; what they cost without it is a bound."""
        free = replace(self.problem, semantics=replace(self.problem.semantics, lead=0))
        without = _TrafficSearch(free, self.limits, self.options)
        without.run()
        self.states, self.interrupted = without.states, without.interrupted
        if without.best is None:
            self.no_room = without.no_room
            return
        orders = [order_by(name, self.problem, self.limits) for name in ("own", "exact")]
        for order in (without.best.order, *orders):
            self._ask(core_problem(self.problem, order, chain=True), state_limit=self.options.states)
        self.bound, self.proof = without.bound, without.proof

    def _raise(self, bound: int, kind: str, *, states: int = 0, parts: Sequence[BoundedWindow | Phase] = ()) -> None:
        if bound > self.bound:
            self.bound = bound if self.best is None else sound(bound, self.best.traffic_bytes)
            self.proof = TrafficProof(kind=kind, states=states, parts=[self._in_ids(part) for part in parts])

    def _raise_by_peak(self, upper: int) -> None:
        """Count what no order keeps at once; `upper` bytes were attained."""
        peak, certificate = self.peak.lower_bound, self.peak.certificate
        bound = sound(live_too_much(self.problem, peak), upper)
        if bound > self.bound:
            cut = certificate if isinstance(certificate, CutCertificate) else None
            self.bound = bound
            self.proof = TrafficProof(kind="peak", parts=[TrafficPart(bytes=bound, peak=peak, cut=cut)])

    def _in_ids(self, part: BoundedWindow | Phase) -> TrafficPart:
        """The part as a plan names it, by ids."""
        ops = self.problem.model.graph.ops
        if isinstance(part, BoundedWindow):
            return TrafficPart(bytes=part.bytes, ops=[ops[i].id for i in part.ops])
        begin, end = (None if i is None else ops[i].id for i in (part.begin, part.end))
        return TrafficPart(bytes=part.bytes, begin=begin, end=end)

    def _left_before(self) -> list[int]:
        """Ops of the best order before which something leaves, by step."""
        assert self.best is not None
        return [self.best.order[t] for t in sorted(self.best.leaving_steps)]

    def _beams(self, question: CoreProblem) -> Iterator[None]:
        for width in WIDTHS:
            self._ask(question, width=width)
            yield

    def _prove(self, question: CoreProblem, state_limit: int, parts: Sequence[BoundedWindow] = ()) -> bool:
        """Whether the search ended: then the best is proved. `parts`: windows that `question` counts on."""
        if self.interrupted or self.limits.left_seconds <= 0:
            return False
        result = self._ask(question, state_limit=min(state_limit, self.options.states))
        if self.best is None:
            self.no_room = result.proved
        else:
            self._raise(min(result.bound, self.best.traffic_bytes), "search", states=result.states, parts=parts)
        return self.proved or self.no_room

    def _ask(self, question: CoreProblem, *, width: int = 0, state_limit: int = 0) -> _core.SpillResult:
        """One search for something better than the best."""
        best = self.best
        result = least_traffic(
            question.core,
            self.limits,
            width=width,
            state_limit=state_limit,
            upper=-1 if best is None else best.traffic_bytes,
            safe_moves=self.options.safe_moves,
            dominance=self.options.dominance,
        )
        self.states += result.states
        self.interrupted |= result.ended == "interrupt"
        if result.found:
            better = order_with_gaps(self.problem, question, result)
            if best is None or better.traffic_bytes < best.traffic_bytes:
                self.best = better
        self._report()
        return result

    def _report(self) -> None:
        """Say how far the search is: the traffic, and the bound on it. Who looks on may raise KeyboardInterrupt."""
        if self.limits.report is None or self.best is None:
            return
        traffic, passed = self.best.traffic_bytes, self.limits.passed_seconds
        self.limits.report(Progress(traffic, min(self.bound, traffic), passed))

    def _improve(self) -> None:
        """Search stretches of the best order a second time, the rest fixed, until none gets better."""
        size = self.options.window
        better = True
        while better and not self.proved:
            better = False
            for begin in range(0, self.problem.steps, size // 2):
                if self.interrupted or self.limits.left_seconds <= 0:
                    return
                assert self.best is not None
                before = self.best.traffic_bytes
                held = core_problem(self.problem, self.best.order, free=range(begin, begin + size))
                self._ask(held, state_limit=100_000)
                better |= self.best.traffic_bytes < before

    @property
    def proved(self) -> bool:
        """Whether no order has less traffic than the best, addresses not looked at."""
        return self.best is not None and self.best.traffic_bytes <= self.bound

    def answer(self, online: SpillAnswer | None = None) -> SpillAnswer:
        """The best with its addresses, or what an online arena reaches if that is better. Raises `NoRoomError`: nothing
        was found."""
        placed = None if self.best is None else self._placed()
        if online is not None and (placed is None or online.traffic_bytes < placed.traffic_bytes):
            stopped = "interrupt" if self.interrupted else "complete" if self.limits.left_seconds > 0 else "time"
            counters = {"states": self.states, "height_bytes": self.problem.capacity, "mended": False}
            return replace(
                online,
                traffic_lower_bound_bytes=sound(self.bound, online.traffic_bytes),
                proof=self.proof,
                stopped=stopped,
                counters=counters,
            )
        if placed is None:
            raise NoRoomError(proved=self.no_room)
        return placed

    def _placed(self) -> SpillAnswer:
        assert self.best is not None
        problem, best = self.problem, self.best
        placement, repaired = self._addresses(best)
        moves = moves_of(problem, best.order, placement.intervals)
        traffic = traffic_of(moves)
        counters: dict[str, Any] = {"states": self.states, "height_bytes": placement.height_bytes, "mended": repaired}
        if self.options.rows:
            parts = by_rows(problem, best.order)
            if parts is not None:
                counters |= {"by_rows_bytes": parts.traffic_bytes, "by_rows_bound_bytes": parts.bound_bytes}
        stopped = "interrupt" if self.interrupted else "proof" if traffic == self.bound else "complete"
        if stopped == "complete" and self.limits.left_seconds <= 0:
            stopped = "time"
        return SpillAnswer(
            best.order,
            placement.intervals,
            moves,
            placement.in_place,
            placement.workspace_offsets,
            traffic,
            sound(self.bound, traffic),
            self.proof,
            stopped,
            counters,
        )

    def _addresses(self, best: OrderWithGaps) -> tuple[PlacedResidency, bool]:
        """Offsets of everything; if the intervals do not fit, the residency gives way."""
        line = timeline(self.problem, best.order)
        intervals = sorted(intervals_of(line, best.dropped))
        placement = place(self.problem, best.order, intervals, line.in_place, self.limits)
        if placement.height_bytes <= self.problem.capacity:
            return placement, False
        return repair(self.problem, best.order, best.dropped, self.limits).placement, True
