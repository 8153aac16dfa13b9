"""Orders of a step within a budget: its own, one with recomputed ops, the exact scheduler's, then better ones by the
core's search for sequences (`core/sequence`), from what both of them begin with.

What a step holds is what that search counts: values and workspace. In addition there is one more rule: what reads a
parameter is not recomputed after the update of that parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lowtide._core import SequenceProblem, SequenceResult, search_sequence
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind, Tensor
from lowtide.optimize.recompute.bound import price_bound
from lowtide.optimize.recompute.costs import Costs as Units
from lowtide.optimize.recompute.least_bytes import lower, on_front, sweep
from lowtide.optimize.recompute.sequence import (
    Runnable,
    Sequenced,
    Transfer,
    Value,
    by_cost,
    first_plans,
    least_possible,
)
from lowtide.optimize.recompute.swaps import Bandwidth, nanoseconds
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide.torch.sequence import runs_once, writers_over

EXACT_SHARE = 0.2  # part of the time that the search for an order may take
_WITHOUT_MOVES = 0.5  # part of the time for the least bytes within a bound on the time in which no tensor leaves memory

STEPS = 4000
"""Repairs that are tried from each start at most: where the time is enough for them, the same call gives the same."""

_NANO = 1_000_000_000

_Row = tuple[list[int], list[int], list[int], int, int, int, bool, list[int]]


def footprints(graph: Graph) -> dict[int, int]:
    """Of each op's id the bytes that it takes with what it reads and makes, workspace included."""
    counted = {t.id: t.size for t in graph.tensors if t.id in graph.producer and t.alias_of is None}
    return {
        op.id: op.workspace + sum(counted.get(t, 0) for t in dict.fromkeys((*op.inputs, *op.outputs)))
        for op in graph.ops
    }


def largest_op(graph: Graph) -> tuple[int, int]:
    """What the largest op takes; and its id."""
    most = footprints(graph)
    at = max(most, key=lambda op: (most[op], -op), default=0)
    return most.get(at, 0), at


@dataclass(frozen=True)
class Moves:
    """Tensors that may leave memory, by id, and how fast."""

    tensors: tuple[int, ...]
    bandwidth: Bandwidth


def search(
    graph: Graph,
    seconds: Mapping[int, float],
    budget: int | None,
    time: float,
    steps: int = STEPS,
    moves: Moves | None = None,
    report: Callable[[float], None] | None = None,
) -> Sequence[int]:
    """Ids of the ops as they should run, within the budget or as near as was found in `time` seconds; with `moves`
    transfers among them, as `lowtide.torch.swap` has them. `report` is called with the seconds that the first plan
    within the budget takes, as soon as it is there: all of the time may be spent on that, before anything else is.

    Own order where no budget asks for another, or the exact scheduler's where that fits.
    """
    own = list(range(len(graph.ops)))
    if budget is None or largest_op(graph)[0] > budget:
        return graph.own_order
    problem = problem_of(graph, seconds, moves)
    if max(problem.footprints(own), default=0) <= budget:
        return graph.own_order
    limits, results = Limits(time), [_first(problem, own, budget, Limits(time), report)]
    share = Limits(limits.left_seconds * EXACT_SHARE, budget_bytes=budget)
    other = list(Exact().schedule(memory_model(graph, resolve("torch")), share).order)
    if max(problem.footprints(other), default=0) <= budget:
        return [graph.ops[i].id for i in other]
    if other != own:
        results.append(_first(problem, other, budget, limits))
    for left, first in zip((2, 1)[-len(results) :], tuple(results), strict=True):
        results.append(search_sequence(problem, first.order, budget, 0, limits.left_seconds / left, steps))
    best = min(results, key=by_cost)
    return _entries(graph, best.order, moves)


def _first(
    problem: SequenceProblem,
    order: Sequence[int],
    budget: int,
    limits: Limits,
    report: Callable[[float], None] | None = None,
) -> SequenceResult:
    """The cheapest plan without repairs from an order; `report`: as soon as there is one."""
    tried = list[SequenceResult]()
    for result in first_plans(problem, order, budget, 0, lambda: limits.left_seconds):
        if report is not None and result.found and not any(other.found for other in tried):
            report(result.cost / _NANO)
        tried.append(result)
    return min(tried, key=by_cost)


def _entries(graph: Graph, order: Sequence[int], moves: Moves | None) -> list[int]:
    """Positions and transfers as the core has them, as ids and transfers of a step; of one tensor the first store."""
    n = len(graph.ops)
    entries: list[int] = []
    for i in order:
        if i < n:
            entries.append(graph.ops[i].id)
        elif moves is not None:
            entry = n + 2 * moves.tensors[(i - n) // 2] + (i - n) % 2
            if (i - n) % 2 or entry not in entries:
                entries.append(entry)
    return entries


def lowest(
    graph: Graph,
    seconds: Mapping[int, float],
    most: float,
    budgets: Sequence[int],
    time: float,
    moves: Moves | None = None,
) -> Sequence[int]:
    """Ids of the ops as they should run for the least peak that was found in `time` seconds, if all runs together may
    take `most` seconds; file order where that is more.

    Read off the front of these budgets (`front`), so that it is no worse, and looked at more closely there
    (`lowtide.optimize.recompute.least_bytes.on_front`). With `moves` half of the time goes to sequences without, and
    the rest to halvings of the budget from the best of them.
    """
    problem, limits = _Steps.of(graph, seconds), Limits(time)
    units, least = round(most * _NANO), least_possible(problem)[0]
    if units < problem.costs.total:
        return graph.own_order
    share = limits if moves is None else Limits(time * _WITHOUT_MOVES)
    best = on_front(problem, range(len(graph.ops)), budgets, units, least, share).found[-1]
    if moves is not None:
        moved = _Steps.of(graph, seconds, moves)
        best = lower(moved, best, units, least_possible(moved)[0], Limits(limits.left_seconds)).found[-1]
    return _entries(graph, best.order, moves)


def pareto_front(graph: Graph, seconds: Mapping[int, float], budgets: Sequence[int], time: float) -> list[list[int]]:
    """Orders of ever lower peaks, each within one of the budgets, none as high and as dear as another; file order
    first. Budgets descend."""
    problem = _Steps.of(graph, seconds)
    points, _ = sweep(problem, range(len(graph.ops)), budgets, Limits(time))
    return [[graph.ops[i].id for i in spent.order] for spent in points]


def least_more(graph: Graph, seconds: Mapping[int, float], budget: int, time: float) -> float:
    """Seconds that every sequence of the ops within a budget takes at least beyond each op once, over all orders and
    any number of runs: the best price cut (`lowtide.optimize.recompute.bound`) over the ops, those first at which
    file order is highest, as far as `time` seconds last."""
    problem, limits = _Steps.of(graph, seconds), Limits(time)
    heights = problem.core().footprints(list(range(len(graph.ops))))
    asked = sorted(range(len(graph.ops)), key=lambda position: (-heights[position], position))
    return price_bound(problem, budget, asked, lambda: not limits.over()).units / _NANO


class _Steps(Sequenced):
    """A step as `lowtide.optimize.recompute` takes problems: views are no ops of it."""

    @classmethod
    def of(cls, graph: Graph, seconds: Mapping[int, float], moves: Moves | None = None) -> _Steps:
        """Of a step's graph."""
        rows, values = _rows(graph, seconds)
        transfers = tuple([Transfer(*row) for row in _moves(graph, moves)])
        ops = [Runnable(tuple(reads), tuple(makes), work, 0, once) for reads, makes, _, _, work, _, once, _ in rows]
        stored = [Value(size, maker, kept, False) for size, maker, kept in values]
        costs = Units("cost", tuple([row[3] for row in rows]), _NANO)
        return cls(memory_model(graph, resolve("torch")), tuple(ops), tuple(stored), costs, transfers)

    def core(self, unit: int = 1, *, bound: bool = False) -> SequenceProblem:
        """As it is, in bytes: what the allocator rounds is in the sizes."""
        graph = self.model.graph
        seconds = {op.id: cost / _NANO for op, cost in zip(graph.ops, self.costs.units, strict=True)}
        moves = [] if bound else [(row.value, row.store, row.load) for row in self.transfers]
        return SequenceProblem(*_rows(graph, seconds), moves)


def problem_of(graph: Graph, seconds: Mapping[int, float], moves: Moves | None = None) -> SequenceProblem:
    """The graph as the core's search takes it, by positions; times in nanoseconds."""
    return SequenceProblem(*_rows(graph, seconds), _moves(graph, moves))


def _moves(graph: Graph, moves: Moves | None) -> list[tuple[int, int, int]]:
    """Per tensor that may leave memory its value, and the nanoseconds of a store and of a load."""
    if moves is None:
        return []
    number = {t.id: k for k, t in enumerate(_counted(graph))}
    sizes = {t: graph.tensor_by_id[t].size for t in moves.tensors}
    out, back = moves.bandwidth.to_host, moves.bandwidth.from_host
    return [(number[t], nanoseconds(size, out), nanoseconds(size, back)) for t, size in sizes.items()]


def _counted(graph: Graph) -> list[Tensor]:
    """What the step's ops make, in memory of its own."""
    return [t for t in graph.tensors if t.id in graph.producer and t.alias_of is None]


def _rows(graph: Graph, seconds: Mapping[int, float]) -> tuple[list[_Row], list[tuple[int, int, bool]]]:
    counted = _counted(graph)
    number = {t.id: k for k, t in enumerate(counted)}
    position, producer, writers = graph.index_of, graph.producer, writers_over(graph)
    rows: list[_Row] = []
    for op in graph.ops:
        reads = [number[t] for t in dict.fromkeys(op.inputs) if t in number]
        makes = [number[t] for t in op.outputs if t in number]
        behind = {*op.after, *(producer[t] for t in op.inputs if t in producer and t not in number)}
        after, until = [position[o] for o in sorted(behind)], [position[w] for w in writers.get(op.id, ())]
        cost = max(1, round(seconds[op.id] * _NANO))
        rows.append((reads, makes, after, cost, op.workspace, 0, runs_once(graph, op), until))
    values = [(t.size, position[producer[t.id]], t.kind is Kind.OUTPUT) for t in counted]
    return rows, values
