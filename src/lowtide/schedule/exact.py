"""The exact scheduler: least peak over all orders, with a proof. The search itself is in the C++ core.

Algorithm and theorems: docs/proofs.md. In short: pairs of ops that some best order keeps together are fused; beams
from both ends give orders; minimum cuts give bounds; best-first and nested-commit searches, from both ends, close
what gap is left.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from lowtide import _core
from lowtide.analyse.storage import MemoryModel
from lowtide.certificates import Certificate, CutCertificate, FlowArc, FlowCase, NoCertificate, SearchCertificate
from lowtide.errors import InputError
from lowtide.schedule.method import Schedule, core_model
from lowtide.stop import Limits, Progress, count

SECONDS_PER_OP = 1e-4
"""What all plain orders together take; set aside from the search's time to try them where it proves nothing."""

MOST_STATES = 10**9  # more states than any turn can expand: they do not fit in memory


@dataclass(frozen=True)
class Exact:
    """Least peak over all orders, with proof. Every field is a switch of one rule, for ablation; all are sound."""

    name: ClassVar[str] = "exact"
    left_counter: ClassVar[str] = "reduced_ops"

    # fuse_a, fuse_b, fuse_c: the three pair-fusion rules.
    fuse_a: bool = True
    fuse_b: bool = True
    fuse_c: bool = True
    cut: bool = True  # lower bounds by minimum cut
    beams: bool = True  # beam searches for good orders
    # closure, safe_moves, commits: the three pruning rules of the searches.
    closure: bool = True
    safe_moves: bool = True
    commits: bool = True
    demand: bool = True  # searches from the start run what ends no tensor only where something that does needs it
    # forward, reversed: search from the start, from the end.
    forward: bool = True
    reversed: bool = True
    # best_first, nested: the two search engines.
    best_first: bool = True
    nested: bool = True
    propagate: bool = True  # precedences that a budget implies, and the bounds that follow
    # One state of the best-first searches represents all its images under symmetries of the graph.
    symmetry: bool = True
    first_slice: int = 2000  # states an engine expands before the next engine's turn; turns grow from there

    def __post_init__(self) -> None:
        if not 1 <= self.first_slice <= MOST_STATES:
            raise InputError(f"exact.first_slice is {self.first_slice}; take from 1 to {MOST_STATES} states")

    @property
    def switches(self) -> dict[str, bool]:
        """The rules by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.type == "bool"}

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph is supported."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Find the order of least peak, or the best within the limits, with the proved bound. What is not proved is
        at least no worse than any plain order."""
        core = core_model(model)
        ops = len(model.graph.ops)
        set_aside = min(0.1 * limits.clock_seconds, SECONDS_PER_OP * ops)
        result = self._solve(
            core, ops, limits, set_aside=set_aside, budget=limits.budget_bytes, until_impossible=limits.until_impossible
        )
        order = tuple(result.order)
        if result.stopped in ("time", "memory", "complete"):
            order = _no_worse_than_plain(model, core, order, limits)
        budget = limits.budget_bytes
        impossible = limits.until_impossible and budget is not None and result.lower_bound > budget
        near = result.peak - result.lower_bound <= limits.gap * result.peak
        return self._schedule(core, model, result, order, limits, decided=impossible or near)

    def within(self, model: MemoryModel, budget: int, limits: Limits) -> Schedule:
        """Ask whether an order of peak at most `budget` bytes exists, and stop once that is known. The answer is yes
        if the schedule's peak is within the budget, no if its lower bound is above it, and open otherwise
        (``stopped`` says why)."""
        core = core_model(model)
        result = self._solve(core, len(model.graph.ops), limits, budget=budget, until_decided=True)
        decided = not result.lower_bound <= budget < result.peak
        return self._schedule(core, model, result, tuple(result.order), limits, decided=decided)

    def _schedule(
        self,
        core: _core.Model,
        model: MemoryModel,
        result: _core.Solution,
        order: tuple[int, ...],
        limits: Limits,
        *,
        decided: bool,
    ) -> Schedule:
        """What the core found. `decided`: whether the question was answered before the counted work was done."""
        counters = {
            "reduced_ops": result.reduced_ops,
            "states": result.states,
            "beam_states": result.beam_states,
            "cuts": result.cuts,
            "symmetries": result.symmetries,
            "search_memory_bytes": result.memory_bytes,
        }
        certificate = self._certificate(core, model, result)
        stopped = "time" if result.stopped == "complete" and not decided and limits.is_counted else result.stopped
        return Schedule(order, result.lower_bound, certificate, stopped, counters)

    def _solve(
        self,
        core: _core.Model,
        ops: int,
        limits: Limits,
        *,
        set_aside: float = 0.0,
        budget: int | None = None,
        until_decided: bool = False,
        until_impossible: bool = False,
    ) -> _core.Solution:
        def report(best: int, bound: int, seconds: float) -> bool:
            try:
                if limits.report is not None:
                    limits.report(Progress(best, bound, seconds))
            except KeyboardInterrupt:
                return True
            return False

        result = _core.solve(
            core,
            start=list(range(ops)),
            switches=self.switches,
            seconds=limits.clock_seconds - set_aside,
            memory_bytes=limits.memory_bytes,
            seed=limits.seed,
            budget=-1 if budget is None else max(budget, 0),
            until_decided=until_decided,
            until_impossible=until_impossible,
            first_slice=self.first_slice,
            most_work=limits.most(1),
            report=report,
            gap=limits.gap,
        )
        count(result.work)
        if limits.trace is not None:
            limits.trace.extend(Progress(p.best, p.bound, p.seconds) for p in result.trace)
        return result

    def _certificate(self, core: _core.Model, model: MemoryModel, result: _core.Solution) -> Certificate:
        if result.proof == "search":
            return SearchCertificate(
                refuted_bytes=result.refuted,
                direction=result.direction,
                states=result.refuting_states,
                switches=self.switches,
            )
        if result.proof == "cut":
            return cut_certificate(core, model, result.cut_op)
        return NoCertificate()


def _no_worse_than_plain(
    model: MemoryModel, core: _core.Model, order: tuple[int, ...], limits: Limits
) -> tuple[int, ...]:
    """The order, or a plain one if that is better; plain ones are tried while there is time."""
    from lowtide.schedule.greedy import Greedy, Lpmf
    from lowtide.schedule.order import Bfs, Dfs, Kahn, Rpo

    best = core.peak(order)
    for plain in (Rpo(), Kahn(), Dfs(), Bfs(), Lpmf(), Greedy()):
        if limits.clock_seconds <= 0:
            break
        candidate = plain.schedule(model, limits).order
        if core.peak(candidate) < best:
            best, order = core.peak(candidate), candidate
    return order


def cut_certificate(core: _core.Model, model: MemoryModel, position: int) -> CutCertificate:
    """Proof of the footprint that no order beats at the op at `position`: one flow per in-place case."""
    ops = model.graph.ops
    cut = _core.cut_at(core, position)
    root = [s.tensors[0] for s in model.storages]
    read = {o.storage: o.input for o in model.overwrites[position]}

    def arcs(flow: list[_core.CutArc]) -> list[FlowArc]:
        return [
            (
                None if arc.storage < 0 else root[arc.storage],
                None if arc.start < 0 else ops[arc.start].id,
                None if arc.end < 0 else ops[arc.end].id,
                arc.bytes,
            )
            for arc in flow
        ]

    first, *others = cut.cases
    cheapest = min(cut.cases, key=lambda case: case.value)
    return CutCertificate(
        op=ops[position].id,
        value_bytes=cut.value,
        downset=[ops[i].id for i in cheapest.downset],
        flow=arcs(first.flow),
        in_place=read.get(first.storage),
        cases=[FlowCase(in_place=read.get(case.storage), flow=arcs(case.flow)) for case in others],
    )
