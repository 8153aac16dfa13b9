"""One order of the ops: the gaps that it drops, and a quick answer for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide import _core
from lowtide.spill.core_problem import CoreProblem, core_problem, least_traffic
from lowtide.spill.problem import Gap, SpillProblem, timeline
from lowtide.spill.traffic import intervals_of, moves_of, traffic_of
from lowtide.stop import Limits

CHAIN_WIDTH = 30  # of the beam for an order alone


@dataclass(frozen=True)
class OrderWithGaps:
    """An order, the gaps that are dropped in it, and the bytes that this costs; addresses not looked at.

    `leaving_steps` are those at which the search made room.
    """

    order: tuple[int, ...]
    dropped: tuple[Gap, ...]
    traffic_bytes: int
    leaving_steps: frozenset[int] = frozenset()


def order_with_gaps(problem: SpillProblem, question: CoreProblem, result: _core.SpillResult) -> OrderWithGaps:
    """The result of a search of all orders, as an order and gaps."""
    order = tuple(question.ops[v] for v in result.order if v < len(question.ops))
    line = timeline(problem, order)
    by_storage: dict[int, list[Gap]] = {}
    for gap in line.gaps:
        by_storage.setdefault(gap.storage, []).append(gap)
    dropped = []
    for step, s in result.leaves:
        dropped += [gap for gap in by_storage.get(question.storages[s], ()) if gap.start <= step < gap.end]
    traffic = traffic_of(moves_of(problem, order, intervals_of(line, dropped)))
    return OrderWithGaps(order, tuple(dropped), traffic, frozenset(step for step, _ in result.leaves))


def along(problem: SpillProblem, order: Sequence[int], limits: Limits) -> OrderWithGaps | None:
    """About the best residency of an order, addresses not looked at: a beam, and no search beyond. None if an op does
    not fit, or nothing was found in time."""
    if problem.largest_op[0] > problem.capacity:
        return None
    question = core_problem(problem, order, chain=True)
    result = least_traffic(question.core, limits, width=CHAIN_WIDTH, least_seconds=LEAST_SECONDS)
    return order_with_gaps(problem, question, result) if result.found else None


LEAST_SECONDS = 1.0  # that a beam for one order is given, even where the time is over
