"""The goal of a plan with spilling: a fast memory that is too small, and those behind it."""

from __future__ import annotations

import time as clock
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from lowtide.api.answer import Answer, PlanKeys
from lowtide.api.goals.one_arena import OneArena
from lowtide.api.job import NO_OPTIONS, Job, Options, Search, check_unlimited
from lowtide.api.problem import Problem
from lowtide.certificates import NoCertificate
from lowtide.errors import InputError, NoOrderFoundError, sound
from lowtide.graph import Graph
from lowtide.plan import PlanConflict
from lowtide.spill_plan import HOST, PlanMemory, PlanMove, Residency, TrafficProof
from lowtide.stop import Limits, Progress
from lowtide.target import Target

if TYPE_CHECKING:
    from lowtide.analyse.storage import MemoryModel
    from lowtide.schedule.method import Method
    from lowtide.spill.answer import SpillAnswer, SpillMethod
    from lowtide.spill.problem import Memory, SpillProblem
    from lowtide.spill.words import Memories, Moves


@dataclass(frozen=True)
class FastMemory:
    """Ops work in the first memory; what does not fit it is moved to those behind it, the least traffic."""

    memories: tuple[Memory, ...]  # fastest first; the host is behind the last one
    moves: Moves  # what a move costs, and what may be done to avoid it

    @classmethod
    def of(cls, other: OneArena | None, memories: Memories, moves: Options) -> FastMemory:
        """From what a user says of memories and moves; `other` is what is said of a goal without moves, None if that is
        a goal of several memories. Raises `InputError`: no memory is named, one is wrong, or something is said that is
        for another goal."""
        from lowtide.spill.words import find_memories, find_moves

        if not memories:
            raise InputError("--moves says what spilling costs; name the memories with --memory")
        if other is None or other.budget is not None or other.reserve:
            raise InputError("--memory plans with spilling; leave out --budget, --reserve, --bank, --board and --place")
        if other.spread:
            raise InputError("--spread is for one arena with a budget; leave it out with --memory")
        return cls(find_memories(memories), find_moves(moves))

    def methods(self) -> list[str]:
        """Every method that spills."""
        from lowtide.spill.registry import spill_methods

        return list(spill_methods())

    def method(self, name: str | Method, options: Options) -> SpillMethod:
        """A method that spills; ``"exact"`` means ``"spill"``. Raises `InputError` as `OneArena.method`."""
        from lowtide.spill.registry import make_spill

        if not isinstance(name, str):
            raise InputError(f"methods that spill go by their names, and {name.name} orders ops; leave it out")
        return make_spill("spill" if name == "exact" else name, options)

    def why_not(self, problem: Problem, method: Method | SpillMethod) -> str | None:
        """What the method says of the graph and these memories."""
        return cast("SpillMethod", method).supports(self.spilling(problem.graph, problem.target))

    @property
    def fast(self) -> Memory:
        """The memory that ops work in."""
        return self.memories[0]

    def under(self, target: Target) -> Target:
        """The unmodified target."""
        return target

    def check(self, job: Job) -> None:
        """Tensors move, so that none has a place of its own; and there is no budget to stop at."""
        self._check_cuts(job)
        target = job.target
        check_unlimited(target)
        if target.overlap != "never" or target.rule or not target.count_inputs:
            raise InputError(f"target {target.name} has one arena; spill under another one, as with --target generic")
        kept = {"--persistent": target.persistent, "--double-buffer": target.double_buffered, "--fix": target.fixed}
        for flag, names in kept.items():
            if names:
                raise InputError(f"{flag} keeps a tensor in its place, and a plan with spilling moves it; leave it out")
        if job.search.quick:
            raise InputError("quick stops at a budget, and a plan with spilling has none; leave it out")

    def _check_cuts(self, job: Job) -> None:
        """What a plan may change in addition to moves: it may tile, for fewer bytes moved."""
        if "recompute" in job.allow:
            raise InputError("--allow recompute is for one arena; with memories, write --moves rematerialise=true")
        for word in ("alias", "row-streaming"):
            if word in job.allow:
                raise InputError(f"--allow {word} is for one arena; with memories name tile or concat")
        if job.named and self.moves.rematerialise:
            raise InputError(
                "--moves rematerialise=true recomputes operators, and --allow tiles them; leave one of them out"
            )
        if job.costs is not None:
            raise InputError(
                "--cost and --max-overhead choose by time, and with memories bytes moved decide; leave one of them out"
            )

    def spilling(self, graph: Graph, target: Target) -> SpillProblem:
        """A graph, these memories, and what a move costs."""
        return self._problem(graph, target, self.moves)

    def solve(self, problem: Problem, search: Search, limits: Limits) -> Answer:
        """Find order, residency, moves and addresses. Where an op does not fit the fast memory alone, or the graph
        outputs do not that have to end there, the answer is one without moves, with status ``"impossible"`` and
        those tensors as its conflict; where it is proved that no order fits for another reason, one without. Raises
        `InputError`: the method cannot do this, or found no order that fits."""
        from lowtide.spill.answer import NoRoomError

        asked = self.spilling(problem.graph, problem.target)
        if max(asked.largest_op[0], asked.end_bytes) <= asked.capacity:
            try:
                return self._with_moves(problem, asked, search, limits)
            except NoRoomError as error:
                if not error.proved:
                    raise self._no_order(problem, limits) from None
        return self._without_moves(problem, asked, search, limits)

    def _problem(self, graph: Graph, target: Target, moves: Moves) -> SpillProblem:
        from lowtide.spill.problem import spill_problem

        return spill_problem(graph, target, self.memories, moves.semantics, parameters=moves.parameters)

    def _with_moves(self, problem: Problem, spilling: SpillProblem, search: Search, limits: Limits) -> Answer:
        from lowtide.spill.levels import in_levels
        from lowtide.spill.remat import rematerialise
        from lowtide.spill.words import timing
        from lowtide.transform.clone import as_rewrite

        method = cast("SpillMethod", search.method)
        reason = method.supports(spilling)
        if reason is not None:
            raise InputError(f"method {method.name} cannot do this: {reason}; use another one", problem.place)
        began = clock.perf_counter()
        answer, clones = method.spill(spilling, limits), ()
        if self.moves.rematerialise:
            spilling, answer, clones = rematerialise(
                spilling,
                answer,
                lambda graph: self._problem(graph, problem.target, self.moves),
                lambda other: method.spill(other, limits),
                lambda: limits.left_seconds > 0,
            )
        if len(self.memories) > 1:
            answer = in_levels(spilling, answer, limits)
        if self.moves.dma is not None:
            answer = replace(answer, counters=answer.counters | asdict(timing(spilling, answer, self.moves.dma)))
        seconds = clock.perf_counter() - began
        answer = _reported(_as_far_as_proved(spilling, answer), limits, seconds)
        keys = spill_keys(spilling, answer, problem, self.moves)
        keys["rewrites"] = [as_rewrite(c) for c in clones] or None
        if search.require_optimal and not answer.optimal:
            keys["status"] = "unproved"
        rewritten = spilling.model.graph if clones else None
        return Answer(problem, answer.order, keys, method.name, seconds, rewritten)

    def _without_moves(self, problem: Problem, spilling: SpillProblem, search: Search, limits: Limits) -> Answer:
        """The best order in one arena of the fast memory's size, which does not hold it."""
        target = problem.target
        if self.moves.parameters and target.constants == "never":
            target = replace(target, name=f"{target.name},constants=while_used", constants="while_used")
            problem = Problem.of(problem.graph, target)
            spilling = self._problem(problem.graph, target, replace(self.moves, parameters=False))
        arena = OneArena(self.fast.capacity_bytes)
        exact = replace(search, method=arena.method("exact", NO_OPTIONS), require_optimal=False)
        answer = arena.solve(problem, exact, exact.limits(limits.trace, limits.report, counted=limits.is_counted))
        if max(spilling.largest_op[0], spilling.end_bytes) <= spilling.capacity or not answer.order:
            return answer
        alone = spilling.largest_op[0] > spilling.capacity
        over = {output for output, _ in answer.keys["in_place"]}
        conflict = _largest_op(spilling, answer.order, over) if alone else _outputs(spilling, answer.order)
        keys: PlanKeys = {**answer.keys, "conflict": conflict}
        if conflict.needed_bytes > spilling.room and keys["stopped"] != "interrupt":
            keys["status"] = "impossible"
        return replace(answer, keys=keys)

    def _no_order(self, problem: Problem, limits: Limits) -> InputError:
        lead = self.moves.semantics.lead
        ahead = f" with what comes in moves.lead={lead} ahead" if lead else ""
        advice = "a smaller moves.lead" if lead else "more --time"
        kind = NoOrderFoundError if lead and limits.left_seconds > 0 else InputError
        return kind(
            f"no order was found in which every op{ahead} fits the {self.fast.capacity_bytes:,} B of {self.fast.name}; "
            f"give more memory or {advice}",
            problem.place,
        )


def _as_far_as_proved(problem: SpillProblem, answer: SpillAnswer) -> SpillAnswer:
    """The answer without a bound that holds for rounded sizes only: where the capacity is no multiple of the alignment,
    what ends highest need not be rounded up."""
    if problem.room == problem.capacity or not answer.traffic_lower_bound_bytes:
        return answer
    stopped = "complete" if answer.stopped == "proof" else answer.stopped
    return replace(answer, traffic_lower_bound_bytes=0, proof=TrafficProof(kind="none"), stopped=stopped)


def _reported(answer: SpillAnswer, limits: Limits, seconds: float) -> SpillAnswer:
    """The answer, once who looks on has heard of it: the traffic, and the bound on it."""
    last = Progress(answer.traffic_bytes, answer.traffic_lower_bound_bytes, seconds)
    if limits.trace is not None:
        limits.trace.append(last)
    try:
        if limits.report is not None:
            limits.report(last)
    except KeyboardInterrupt:
        return answer if answer.stopped == "proof" else replace(answer, stopped="interrupt")
    return answer


def _outputs(problem: SpillProblem, order: Sequence[int]) -> PlanConflict:
    """The graph outputs, which have to be there together at the end."""
    pairs = zip(problem.model.storages, problem.is_output, strict=True)
    outputs = [storage for storage, output in pairs if output and storage.size]
    need = problem.end_bytes
    return PlanConflict(
        tensors=[s.tensors[0] for s in outputs],
        workspaces=[],
        step=len(order) - 1,
        available_bytes=problem.capacity,
        needed_bytes=need,
        minimal=all(need - s.size <= problem.capacity for s in outputs),
    )


def _largest_op(problem: SpillProblem, order: Sequence[int], over: Collection[int]) -> PlanConflict:
    """What the largest op needs at once; `order` in positions; `over`: tensors written over others in it, of which
    one is enough."""
    model = problem.model
    need, at = problem.largest_op
    op = model.graph.ops[at]
    touched = [model.storages[s] for s in model.touched[at] if model.storages[s].size]
    if op.outputs and op.outputs[0] in over:
        touched = [s for s in touched if op.outputs[0] not in s.tensors]
    parts = [s.size for s in touched] + [model.workspace[at]] * bool(model.workspace[at])
    need = min(need, sum(parts))  # the order may write over a part of a storage, which no plan that moves it does
    return PlanConflict(
        tensors=[s.tensors[0] for s in touched],
        workspaces=[op.id] if model.workspace[at] else [],
        step=list(order).index(at),
        available_bytes=problem.capacity,
        needed_bytes=need,
        minimal=all(sum(parts) - part <= problem.capacity for part in parts),
    )


def spill_keys(spilling: SpillProblem, answer: SpillAnswer, problem: Problem, moves: Moves) -> PlanKeys:
    """What a plan says of an answer: sizes are exact, offsets those of the answer."""
    from lowtide.analyse.liveness import largest_single_op
    from lowtide.analyse.storage import memory_model

    graph = spilling.model.graph
    target = replace(problem.target, constants="always") if moves.parameters else problem.target
    exact = memory_model(graph, target)
    names = [*(m.name for m in spilling.memories), HOST]
    tops = _tops(exact, answer, len(spilling.memories))
    step_of = {i: step for step, i in enumerate(answer.order)}
    most = _most_at_once(exact, answer)
    storages = spilling.model.storages
    figures: dict[str, Any] = answer.counters
    return {
        "status": "ok",
        "stopped": answer.stopped,
        "peak_bytes": most,
        "lower_bound_bytes": sound(largest_single_op(exact), most),
        "optimal": answer.optimal,
        "certificate": NoCertificate(),
        "in_place": [(o.output, o.input) for o in sorted(answer.in_place, key=lambda o: step_of[o.op])],
        "required_bytes": tops[0],
        "arena_bytes": tops[0],
        "workspace_offsets": {str(graph.ops[i].id): at for i, at in sorted(answer.workspace_offsets.items())} or None,
        "memories": [
            PlanMemory(name=m.name, capacity_bytes=m.capacity_bytes, size_bytes=top)
            for m, top in zip(spilling.memories, tops, strict=True)
        ],
        "residency": _residency(spilling, answer, names),
        "moves": [
            PlanMove(
                step=m.step,
                tensor=storages[m.storage].tensors[0],
                kind=m.kind,
                source=names[m.source],
                goal=names[m.goal],
                bytes=m.bytes,
            )
            for m in answer.moves
        ],
        "traffic_bytes": answer.traffic_bytes,
        "traffic_lower_bound_bytes": answer.traffic_lower_bound_bytes,
        "traffic_proof": answer.proof,
        "spilling": moves.in_plan,
        "search": figures,
    }


def _residency(problem: SpillProblem, answer: SpillAnswer, names: Sequence[str]) -> list[Residency]:
    """The address of each tensor of a storage while that has an interval."""
    model = problem.model
    sizes = model.graph.tensor_by_id
    residency = [
        Residency(
            tensor=t,
            memory=names[v.memory],
            offset=v.offset + model.displacement[t],
            start=v.start,
            end=v.end,
        )
        for v in answer.intervals
        for k, t in enumerate(model.storages[v.storage].tensors)
        if sizes[t].size or k == 0
    ]
    return sorted(residency, key=lambda r: (r.tensor, r.start, r.memory))


def _tops(exact: MemoryModel, answer: SpillAnswer, count: int) -> list[int]:
    """Where what ends highest in each of `count` memories ends."""
    tops = [0] * count
    for v in answer.intervals:
        tops[v.memory] = max(tops[v.memory], v.offset + exact.storages[v.storage].size)
    for i, low in answer.workspace_offsets.items():
        tops[0] = max(tops[0], low + exact.workspace[i])
    return tops


def _most_at_once(exact: MemoryModel, answer: SpillAnswer) -> int:
    """Most exact bytes in the fast memory while an op runs."""
    change = [0] * (len(answer.order) + 3)
    for v in answer.intervals:
        if v.memory == 0:
            change[v.start] += exact.storages[v.storage].size
            change[v.end] -= exact.storages[v.storage].size
    sizes = exact.graph.tensor_by_id
    saved = {o.op: sizes[o.output].size for o in answer.in_place}
    most = live = 0
    for step, i in enumerate(answer.order):
        live += change[step]
        most = max(most, live + exact.workspace[i] - saved.get(i, 0))
    return most
