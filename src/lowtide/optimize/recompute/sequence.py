"""A sequence of ops, some of them more than once, whose peak is within a budget: the core's search, asked in Python.

What the search counts is what `docs/contract.md` does, but that nothing is written in place and that sizes are rounded
up to the alignment: the plan's own peak is at most that of its sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from lowtide._core import SequenceProblem, SequenceResult, cut_starts, search_sequence
from lowtide.analyse.model import MemoryModel
from lowtide.analyse.storage import memory_model
from lowtide.graph import Kind
from lowtide.ops.kinds import names_only
from lowtide.optimize.recompute.costs import Costs, costs_of
from lowtide.sizes import format_size, round_up
from lowtide.stop import Limits, Progress, count
from lowtide.transform.clone import repeatable

_ALONE = 0.15  # part of the time that is left for a search with transfers alone, and for one with repetitions alone

_START, _CHAIN, _REPAIR = 10_000, 5_000, 200_000
"""Nanoseconds that a search takes for each op before it begins, for each chain that it tries, and for each repair
besides."""

_WAITS = 15_000  # nanoseconds that a repair takes more for each op where values may leave memory: its moves are timed

_UNLIMITED = 2**62  # repairs


@dataclass(frozen=True)
class Value:
    """A storage of the model; `maker`: its op, -1: live from the start. `size` is bytes.

    `shared`: another op makes a tile of it.
    """

    size: int
    maker: int
    kept: bool
    shared: bool


@dataclass(frozen=True)
class Runnable:
    """An op as the search sees it: values that it reads and makes, and whether it runs `once`.

    A `view` makes nothing: it runs where its storage is read through it (`with_views`). `saving`: bytes by which an
    in-place write may lower its working set, also over a copy of a result.
    """

    reads: tuple[int, ...]
    makes: tuple[int, ...]
    workspace: int
    saving: int
    once: bool
    view: bool = False


@dataclass(frozen=True)
class Transfer:
    """A value that may be stored in a slow memory and reloaded, and the units of cost of each
    (`lowtide.optimize.recompute.swaps`)."""

    value: int
    store: int
    load: int


@dataclass(frozen=True)
class Sequenced:
    """A model with ops that may be recomputed."""

    model: MemoryModel
    # ops, values: by position; values stand for the model's storages.
    ops: tuple[Runnable, ...]
    values: tuple[Value, ...]
    costs: Costs  # of the ops
    # In a sequence, with n ops, number n + 2 k is where the store of transfer k has ended, and n + 2 k + 1 is where its
    # load begins.
    transfers: tuple[Transfer, ...] = ()

    def transfer_of(self, number: int) -> tuple[Transfer, bool]:
        """The transfer of a number in a sequence, and whether it is the load."""
        k, load = divmod(number - len(self.ops), 2)
        return self.transfers[k], bool(load)

    def core(self, unit: int = 1, *, bound: bool = False) -> SequenceProblem:
        """As the core takes it, sizes rounded up to multiples of `unit` bytes.

        For a `bound` the storages that several ops make are left out, as any of these may be the first.
        """
        before = self.model.graph.predecessors
        views: set[int] = set() if bound else {i for i, op in enumerate(self.ops) if op.view}
        left_out = {x for x, v in enumerate(self.values) if bound and v.shared}
        rows = []
        units = self.costs.units if bound else self._with_their_views()
        for i, (op, cost) in enumerate(zip(self.ops, units, strict=True)):
            reads = [x for x in op.reads if x not in left_out]
            makers = {self.values[x].maker for x in reads}
            makes = [x for x in op.makes if x not in left_out]
            after = [u for u in before[i] if u not in makers and u not in views]
            rows.append((reads, makes, after, cost, op.workspace, op.saving, op.once, []))
        values = [
            (0 if x in left_out else round_up(v.size, unit), -1 if x in left_out else v.maker, v.kept)
            for x, v in enumerate(self.values)
        ]
        moves = [] if bound else [(row.value, row.store, row.load) for row in self.transfers]
        return SequenceProblem(rows, values, moves)

    @cached_property
    def exact(self) -> SequenceProblem:
        """As the core takes it, sizes as they are."""
        return self.core()

    def _with_their_views(self) -> list[int]:
        """Costs of ops, each with all views of its results: recomputation may have to repeat them. Views themselves
        have no position and no cost; views of storages that are live from the start are left out."""
        units = list(self.costs.units)
        maker_of = {x: i for i, op in enumerate(self.ops) for x in op.makes}
        for i, op in enumerate(self.ops):
            if op.view:
                if op.reads[0] in maker_of:
                    units[maker_of[op.reads[0]]] += units[i]
                units[i] = 0
        return units

    def without_views(self, order: Sequence[int]) -> list[int]:
        """A sequence as the core takes it: it knows nothing of views."""
        return [i for i in order if i >= len(self.ops) or not self.ops[i].view]

    @property
    def unmoved_units(self) -> int:
        """Units of the views of what is there from the start: each of them runs once, and in no sum of the core."""
        made = {x for op in self.ops for x in op.makes}
        return sum(
            cost for op, cost in zip(self.ops, self.costs.units, strict=True) if op.view and op.reads[0] not in made
        )

    def with_views(self, order: Sequence[int]) -> list[int]:
        """A sequence of the other ops, with views before the first read of their storage; a view that is an output or
        has no consumer comes after the last run of its maker."""
        graph, step = self.model.graph, 0
        maker_of = {x: i for i, op in enumerate(self.ops) for x in op.makes}
        producer = {t: graph.index_of[op] for t, op in graph.producer.items()}
        made_at: dict[int, int] = {}
        viewed_at: dict[int, int] = {}
        sequence: list[int] = []

        def view(i: int) -> None:
            x = self.ops[i].reads[0]
            if viewed_at.get(i, -1) >= made_at.get(x, 0):
                return
            above = producer.get(graph.ops[i].inputs[0])
            if above is not None and self.ops[above].view:
                view(above)
            viewed_at[i] = step
            sequence.append(i)

        ends: dict[int, list[int]] = {}
        for i, op in enumerate(self.ops):
            if op.view and (self._is_output(i) or graph.consumers.keys().isdisjoint(graph.ops[i].outputs)):
                ends.setdefault(maker_of.get(op.reads[0], -1), []).append(i)
        last = {i: step for step, i in enumerate(order)}
        for step, i in enumerate(order):
            if i >= len(self.ops):
                row, load = self.transfer_of(i)
                sequence.append(i)
                made_at.update({row.value: step} if load else {})
                continue
            for t in graph.ops[i].inputs:
                above = producer.get(t)
                if above is not None and self.ops[above].view:
                    view(above)
            sequence.append(i)
            made_at.update(dict.fromkeys(self.ops[i].makes, step))
            if last[i] == step:
                for v in ends.get(i, ()):
                    view(v)
        for v in ends.get(-1, ()):
            view(v)
        return sequence

    def _is_output(self, position: int) -> bool:
        graph = self.model.graph
        return any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in graph.ops[position].outputs)

    def touched_bytes(self, position: int) -> int:
        """Bytes that an op needs by itself, in place where it may be."""
        op = self.ops[position]
        return sum(self.values[x].size for x in {*op.reads, *op.makes}) + op.workspace - op.saving

    def untouched_bytes(self, position: int) -> int:
        """What of the bytes that an op touches, as the core counts them for bounds, `touched_bytes` has not."""
        op = self.ops[position]
        counted = sum(self.values[x].size for x in {*op.reads, *op.makes} if not self.values[x].shared)
        return counted - self.touched_bytes(position)


def sequenced(model: MemoryModel, order: Sequence[int]) -> Sequenced:
    """The model with ops free to be recomputed, unless they would make other values or another op writes their memory.
    `order`: positions of all ops: of the ops that make a part of a storage, the first one begins it."""
    graph = model.graph
    step_of = {i: step for step, i in enumerate(order)}
    free = repeatable(graph)
    views = _views(model)
    overwrites = _over_copies(model).overwrites
    makers: list[list[int]] = [[] for _ in model.storages]
    for i in sorted(range(len(graph.ops)), key=step_of.__getitem__):
        for s in dict.fromkeys(model.storage_of[t] for t in graph.ops[i].outputs if t in model.storage_of):
            if i not in views:
                makers[s].append(i)
    values: list[Value] = []
    reads: list[list[int]] = [[] for _ in graph.ops]
    makes: list[list[int]] = [[] for _ in graph.ops]
    once = {i for i, op in enumerate(graph.ops) if op.id not in free}
    for s, storage in enumerate(model.storages):
        maker = -1 if storage.at_start or not makers[s] else makers[s][0]
        shared = len(makers[s]) > (maker >= 0)
        once.update(makers[s] if shared else ())
        for i in storage.users:
            (makes if i == maker else reads)[i].append(s)
        values.append(Value(storage.size, maker, storage.at_end, shared))
    ops = tuple(
        Runnable(
            tuple(reads[i]),
            tuple(makes[i]),
            model.workspace[i],
            max((o.saving for o in overwrites[i]), default=0),
            i in once,
            i in views and not values[reads[i][0]].shared,
        )
        for i in range(len(graph.ops))
    )
    return Sequenced(model, ops, tuple(values), costs_of(graph))


def _over_copies(model: MemoryModel) -> MemoryModel:
    """The model in which results may be written over: a run may do so whose op makes them once more after it."""
    graph = model.graph
    if all(t.kind is not Kind.OUTPUT or t.id not in graph.producer for t in graph.tensors):
        return model
    tensors = [replace(t, kind=Kind.ACTIVATION) if t.id in graph.producer else t for t in graph.tensors]
    return memory_model(replace(graph, tensors=tuple(tensors)), model.target)


def _views(model: MemoryModel) -> frozenset[int]:
    """Positions of ops that only give a part of a storage another name, and that no `after` speaks of."""
    graph, storage_of = model.graph, model.storage_of
    ordered = {u for op in graph.ops for u in op.after}
    views = []
    for i, op in enumerate(graph.ops):
        if not op.inputs or op.after or op.id in ordered or model.workspace[i]:
            continue
        view = names_only(op.type) or model.target.view_source(graph, op) is not None
        inside = {storage_of.get(t) for t in (*op.outputs, *op.inputs)}
        if view and len(inside) == 1 and None not in inside and len(set(op.inputs)) == 1:
            views.append(i)
    return frozenset(views)


def least_possible(problem: Sequenced) -> tuple[int, int]:
    """Bytes that some op needs by itself, however often others run, and the position of that op."""
    return max(((problem.touched_bytes(i), i) for i in range(len(problem.ops))), default=(0, 0))


def search(
    problem: Sequenced,
    order: Sequence[int],
    budget: int,
    limits: Limits,
    *,
    steps: int = -1,
    enough: int = 0,
) -> SequenceResult:
    """The sequence of least cost within a budget.

    `order`: positions to begin with, some perhaps more than once; sequences near it are found first.
    `budget`: bytes, sizes rounded up to the model's alignment.
    `steps`: repairs to try at most; -1: as many as the time allows. The same number gives the same sequence.
    `enough`: units of cost at which to stop.
    Returns: `cost` in units of `problem.costs`, without `Sequenced.unmoved_units`; without `found` the sequence that
      came lowest. Views are in no order (`Sequenced.with_views`), and each run costs what those of its storage do.
    """
    fresh = len(order) == len(problem.ops)
    if problem.transfers and fresh and not all(op.once for op in problem.ops):
        return _both(problem, order, budget, limits, steps, enough)
    return _one(problem, order, budget, limits, steps, enough)


def _both(
    problem: Sequenced, order: Sequence[int], budget: int, limits: Limits, steps: int, enough: int
) -> SequenceResult:
    """The best of transfers alone, repetitions alone, and of both: what each of them finds, both may."""
    once = replace(problem, ops=tuple(replace(op, once=True) for op in problem.ops))
    best: SequenceResult | None = None
    for share, way in ((_ALONE, once), (_ALONE, replace(problem, transfers=())), (1.0, problem)):
        part = limits.share(share)
        result = _one(way, order, budget, part, steps, enough)
        if best is None or by_cost(result) < by_cost(best):
            best = result
        if result.stopped == "interrupt" or (best.found and best.cost <= max(enough, problem.costs.total)):
            break
    assert best is not None
    return best


def _one(
    problem: Sequenced, order: Sequence[int], budget: int, limits: Limits, steps: int, enough: int
) -> SequenceResult:
    """One search of the core's."""

    def tell(seconds: float, best: int) -> bool:
        if limits.report is not None:
            limits.report(Progress(0, 0, seconds, f"trying {format_size(budget)}"))
        return False

    core, begin = problem.core(problem.model.alignment), problem.without_views(order)
    enough = max(0, enough - problem.unmoved_units)
    began, is_over = time.perf_counter(), limits.over()

    def left() -> float:
        return 0.0 if is_over else limits.clock_seconds

    count(_START * len(problem.ops))
    chain, repair = _CHAIN, _REPAIR + (_WAITS * len(problem.ops) if problem.transfers else 0)
    chains = 0
    if len(begin) == len(set(begin)):
        firsts = list(first_plans(core, begin, budget, limits.seed, left))
        chains, begin = sum(first.chains for first in firsts), min(firsts, key=by_cost).order
        count(chain * chains)
    best, tried, most = None, 0, _UNLIMITED if steps < 0 else steps
    price = repair + chain * len(problem.ops) // 4  # of a repair; then what those before took
    while True:
        asked = min(most - tried, limits.most(price) or most)
        result = search_sequence(core, begin, budget, limits.seed + tried, left(), asked, enough, report=tell)
        chains, tried = chains + result.chains, tried + result.steps
        work = chain * result.chains + repair * result.steps
        count(work)
        best = result if best is None else min(best, result, key=by_cost)
        if result.steps < asked or tried >= most or limits.over():
            break
        begin, price = best.order, work // result.steps
    limits.tally.add("chains", chains, began)
    limits.tally.counts["repairs"] = limits.tally.counts.get("repairs", 0) + tried
    limits.interrupt.seen |= result.stopped == "interrupt"
    return best


def first_plans(
    core: SequenceProblem, order: Sequence[int], budget: int, seed: int, left: Callable[[], float]
) -> Iterator[SequenceResult]:
    """Sequences to improve on, without repairs: the recomputation of the price cut at the order's highest op, then the
    order itself, each with what `search_sequence` adds; `left`: the seconds that are left."""
    for start in (*cut_starts(core, order, budget), order):
        yield search_sequence(core, start, budget, seed, left(), 0)


def by_cost(result: SequenceResult) -> tuple[bool, int]:
    """A key: those within the budget by their cost, then the others by their peaks."""
    return not result.found, result.cost if result.found else result.peak


def peak_of(problem: Sequenced, sequence: Sequence[int]) -> int:
    """Bytes that a sequence needs, nothing written in place."""
    return max(problem.exact.footprints(list(sequence)), default=0)
