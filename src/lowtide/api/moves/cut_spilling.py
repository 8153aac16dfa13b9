"""Plans that cut for a fast memory: the part graph that moves the fewest bytes, with the tensors that are streamed.

1. The model uncut, as `FastMemory` plans it. Where nothing moves, nothing is cut.
2. Ways to cut its order: the front of peaks (as `lowtide research curve` has it), then of working sets, what is left
   where all that is not in use may be in slow memory. Concat elimination where it is allowed.
3. What each of them moves at the least, looked at quickly: in file order, with the tensors streamed that have to
   be, then with those besides by which that falls.
4. The best of them in full, by the method that spills: all orders, a bound, addresses. The least traffic wins; of
   equals the fewest ops.
5. Where tiles may be tiled (`nest-tiles`), and something moves: parts that are searched to fit in one arena of the fast
   memory's size, in the time that is left. Of these nothing is streamed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from lowtide.analyse.liveness import alone
from lowtide.api.answer import Answer
from lowtide.api.goals import FastMemory, OneArena
from lowtide.api.job import NO_OPTIONS, Job
from lowtide.api.moves.cut_search import CutSearch
from lowtide.api.moves.cutting import check_format
from lowtide.api.moves.decisions import as_rewrites, exactness
from lowtide.api.moves.nest_and_alias import NestTiles, TilePeak
from lowtide.api.moves.objective import LeastTraffic, objective_of
from lowtide.api.problem import Problem
from lowtide.errors import InputError
from lowtide.graph import Kind
from lowtide.rewrites import Exactness
from lowtide.search.driver import Incumbent, Move
from lowtide.search.driver import search as find_better
from lowtide.sizes import round_up
from lowtide.spill.one_order import along
from lowtide.spill_plan import PlanStream
from lowtide.stop import Limits, Progress
from lowtide.transform.stream import StreamedGraph, streamable, streamed

if TYPE_CHECKING:
    from lowtide.optimize.regions import Way
    from lowtide.transform.cut import Cutter
    from lowtide.transform.parts import PartGraph

_UNCUT, _WAYS, _FRONT, _CONCATS, _LOOKED = 0.15, 0.45, 0.5, 0.55, 0.7
"""Shares of the time after which the search of the uncut graph, for working sets, for the front of peaks, for seams,
and the quick look at what there is are over."""

_WORKING = (1.0, 0.9, 0.75, 0.5)
"""Parts of the fast memory that working sets are to be within: sizes that are rounded up, and room for what stays."""

_FIRST, _PLACED = 0.5, 0.25
"""Where parts are cut again: share of that time for the first level, and share that is left to plan the result."""

_ROOM = 0.75  # part of the fast memory that parts are recut for: small ones leave gaps where they are placed

_TRIED = 4  # part graphs that are searched in full

_MOST_STREAMED = 12  # tensors that are tried as streamed besides those that have to be, the largest first


@dataclass(frozen=True)
class Candidate:
    """A part graph, and what it moves along its own order with some tensors streamed."""

    parts: PartGraph
    streamed: StreamedGraph
    traffic_bytes: int

    @property
    def rank(self) -> tuple[int, int]:
        """Less is better: bytes moved, then ops."""
        return (self.traffic_bytes, len(self.parts.graph.ops))


def _materialised(parts: PartGraph, t: int) -> int:
    """What a tensor is put together to in the end, if that is one of the graph that was cut; else the tensor."""
    while t in parts.slices:
        readers = parts.graph.consumers.get(t, ())
        part = parts.parts.get(readers[0]) if len(readers) == 1 else None
        if part is None or part.role != "join":
            return t
        t = parts.graph.op_by_id[readers[0]].outputs[0]
    return t


def traffic_moves(job: Job, problem: Problem, limits: Limits) -> tuple[Answer, list[Move[Answer]]]:
    """The plan without tiles, or where no order fits the fast memory the best with tiles; and the moves to tiles.
    Raises `InputError`: the model is in a format whose ops cannot be cut; or no order was found in which every op fits
    the fast memory, and no cut either."""
    check_format(problem, job.allow)
    if "unmaterialised" in job.allow:
        raise InputError(
            "tensors that are not materialised are for plans of one arena; leave out unmaterialised, or --memory"
        )
    if "recompute-halos" in job.allow:
        raise InputError("recomputed halos are for plans of one arena; leave out recompute-halos, or --memory")
    search = CutSpilling(job, problem, limits)
    try:
        uncut = search.goal.solve(problem, job.search, search.limits.until(_UNCUT))
    except InputError as error:
        best = search.best_cut(None)
        if best is None:
            raise error from None
        return best.under(job.allow), []
    opening = uncut.under(job.allow)
    if uncut.keys["status"] == "impossible":
        opening.keys["stopped"] = "complete"
    if "moves" not in opening.keys:
        opening.keys["search"] = {**opening.keys.get("search", {}), **search.lower_bound()}
    search.interrupted |= uncut.keys["stopped"] == "interrupt"
    moves: list[Move[Answer]] = [TileForTraffic(search, uncut)]
    moves += [NestForTraffic(search, uncut)] if "nest-tiles" in job.allow else []
    return opening, moves


@dataclass
class TileForTraffic(Move[Answer]):
    """Tiles the user's graph so that fewer bytes move; some tensors are streamed."""

    search: CutSpilling
    uncut: Answer
    is_terminal: bool = True

    def find(self) -> Answer | None:
        """The best plan with tiles."""
        return self.search.best_cut(self.uncut)

    def propose(self, base: Answer, limits: Limits) -> Answer | None:
        """The best plan with tiles; it has one turn on what is there without."""
        search = self.search
        search.limits = replace(search.limits, seconds=limits.seconds, work_seconds=limits.work_seconds)
        found = self.find()
        self.unfinished = search.limits.over()
        if search.interrupted:
            limits.interrupt.seen = True
        return None if found is None else found.under(search.job.allow)


class NestForTraffic(TileForTraffic):
    """Tiles tiles until all of it fits in one arena of the fast memory's size."""

    def find(self) -> Answer | None:
        """The best plan with more than one level of tiles."""
        return self.search.best_nested(self.uncut)


@dataclass
class CutSpilling:
    """The search for cuts of a job with a fast memory."""

    job: Job
    problem: Problem
    limits: Limits
    interrupted: bool = False

    def __post_init__(self) -> None:
        # figures of one choice of cuts, without what it streams, are not those of the plan
        saying = self.limits.saying("looking for cuts and moves")
        self.limits = replace(saying, report=self._watched(saying.report))

    def _watched(self, report: Callable[[Progress], None] | None) -> Callable[[Progress], None] | None:
        """What looks on, and remembers if it interrupts."""
        if report is None:
            return None

        def watch(progress: Progress) -> None:
            try:
                report(progress)
            except KeyboardInterrupt:
                self.interrupted = True
                raise

        return watch

    @property
    def goal(self) -> FastMemory:
        """The job's."""
        assert isinstance(self.job.goal, FastMemory), self.job.goal
        return self.job.goal

    @cached_property
    def cutter(self) -> Cutter:
        """What the graph's ops mean."""
        from lowtide.transform.cut import Cutter

        return Cutter(self.problem.graph, exact_bits=self.job.exact_bits)

    def lower_bound(self) -> dict[str, int]:
        """What the op needs whose smallest part along one axis needs most, and which it is: no cuts go below."""
        from lowtide.ops.working_set import working_set_bound

        least = working_set_bound(self.problem.graph, streamed=True, overlap=self.problem.target.in_place != "never")
        return {} if least.op is None else {"cut_floor_bytes": least.size, "cut_floor_op": least.op}

    def best_cut(self, uncut: Answer | None) -> Answer | None:
        """The best of the candidates that are searched in full."""
        key, best = LeastTraffic().key, uncut
        chosen = self._candidates(uncut)
        for k, candidate in enumerate(chosen):
            if best is not None and candidate.streamed.bytes >= key(best)[0]:
                continue
            if self.interrupted or (k and self.limits.over()):
                break
            answer = self._answer(candidate, self.limits.share(1.0 / (len(chosen) - k)))
            best = best if answer is None else answer if best is None else min(best, answer, key=key)
            if best is not None and (best.keys["stopped"] == "interrupt" or not key(best)[0]):
                break
        return None if best is uncut else best

    def best_nested(self, uncut: Answer) -> Answer | None:
        """The plan with more than one level of tiles."""
        search = self._arena_search(uncut, 1.0, _ROOM)
        search.job = replace(search.job, allow=("tile", "nest-tiles"))
        limits = self.limits.share(1.0 - _PLACED)
        search.limits = limits.share(_FIRST)
        found = search.best_cut()
        if found is not None:
            incumbent = Incumbent(objective_of(search.job), found)
            search.interrupted = find_better(incumbent, [TilePeak(search), NestTiles(search)], limits)
            found = incumbent.best
        self.interrupted = self.interrupted or search.interrupted
        if found is None or found.parts is None or self.interrupted:
            return None
        ops = tuple(found.problem.graph.ops[i] for i in found.order)
        candidate = self.candidate(replace(found.parts, graph=replace(found.parts.graph, ops=ops)))
        return None if candidate is None else self._answer(candidate, self.limits, found.keys.get("exactness"))

    def _candidates(self, uncut: Answer | None) -> list[Candidate]:
        """Part graphs in which every op fits, the best first, these with what more is worth streaming."""
        found: list[Candidate] = []
        for parts in self._part_graphs(uncut):
            if self.interrupted or (found and self.limits.until(_LOOKED).over()):
                break
            if self.job.max_ops and len(parts.graph.ops) > self.job.max_ops:
                continue
            candidate = self.candidate(parts)
            if candidate is None:
                continue
            if not candidate.traffic_bytes:  # those that follow have more ops
                return [candidate]
            found.append(candidate)
        best = sorted(found, key=lambda c: c.rank)[:_TRIED]
        return sorted((self._streaming_more(c) for c in best), key=lambda c: c.rank)

    def _part_graphs(self, uncut: Answer | None) -> Iterator[PartGraph]:
        """Ways of the fronts, those of fewer ops first; then parts that are searched to fit in one arena of the fast
        memory's size; then concat elimination, and regions in the rest."""
        graph = self.problem.graph
        order = uncut.order if uncut is not None and uncut.order else tuple(range(len(graph.ops)))
        if "tile" in self.job.allow:
            for way in self._ways(order):
                yield self.parts(way, order)
            if uncut is not None and uncut.order and not self.interrupted:
                yield from self._fitting(uncut)
        if "concat" in self.job.allow and uncut is not None and uncut.order:
            yield from self._arena_search(uncut, _CONCATS).seams()

    def _fitting(self, uncut: Answer) -> Iterator[PartGraph]:
        """Parts that are all in the fast memory, in the order that was found; none, if none are."""
        search = self._arena_search(uncut, _CONCATS)
        search.job = replace(search.job, allow=("tile",))
        answer = search.best_cut()
        self.interrupted = self.interrupted or search.interrupted
        if answer is None or answer.parts is None or answer.keys["status"] != "ok":
            return
        ops = tuple(answer.problem.graph.ops[i] for i in answer.order)
        yield replace(answer.parts, graph=replace(answer.parts.graph, ops=ops))

    def parts(self, way: Way, order: Sequence[int]) -> PartGraph:
        """The parts of a way to cut an order, given in positions."""
        from lowtide.transform.parts import apply
        from lowtide.transform.tflite_file import with_file

        return with_file(apply(self.cutter, way.regions, [self.problem.graph.ops[i].id for i in order]))

    def _ways(self, order: Sequence[int]) -> list[Way]:
        """Ways of both fronts in which no untiled op is too large by itself, those of fewer ops first."""
        from lowtide.optimize.regions import front_ways, working_ways

        memory, graph = self.problem.memory, self.problem.graph
        too_large = {op.id for i, op in enumerate(graph.ops) if alone(memory, i) > self.goal.fast.capacity_bytes}
        sets = [int(part * self.goal.fast.capacity_bytes) for part in _WORKING]
        ways = working_ways(self.cutter, memory, order, self.limits.until(_WAYS), sets)
        if not self.interrupted:
            ways += front_ways(self.cutter, memory, order, self.limits.until(_FRONT))
        fit = [way for way in ways if way.regions and too_large <= {c.op for r in way.regions for c in r.cuts}]
        return sorted({way.regions: way for way in fit}.values(), key=lambda way: way.ops)

    def _arena_search(self, uncut: Answer, share: float, room: float = 1.0) -> CutSearch:
        """The search for cuts in one arena of the fast memory's size, or of a part of that."""
        arena = OneArena(int(self.goal.fast.capacity_bytes * room))
        search = replace(self.job.search, method=arena.method("exact", NO_OPTIONS), require_optimal=False)
        job = replace(self.job, goal=arena, search=search)
        return CutSearch(job, arena, self.problem, uncut, self.limits.until(share))

    def candidate(self, parts: PartGraph) -> Candidate | None:
        """A part graph with what has to be streamed, and the model's inputs and outputs too if that moves less; None if
        an op of it does not fit."""
        tensors = self._streamable(parts)
        forced = self._too_large(parts, tensors)
        look = self._look(parts, forced)
        while isinstance(look, int):
            op = parts.graph.op_by_id[look]
            more = [t for t in (*op.inputs, *op.outputs) if t in tensors and t not in forced]
            if not more:
                return None
            forced.append(more[0])
            look = self._look(parts, forced)
        kinds = parts.graph.tensor_by_id
        ends = [t for t in tensors if t not in forced and kinds[t].kind in (Kind.INPUT, Kind.OUTPUT)]
        if look is not None and look.traffic_bytes and ends:
            other = self._look(parts, [*forced, *ends])
            if isinstance(other, Candidate) and other.traffic_bytes < look.traffic_bytes:
                return other
        return look

    def _too_large(self, parts: PartGraph, tensors: Collection[int]) -> list[int]:
        """Those of some tensors that a slice or a join does not fit with."""
        graph, unit = parts.graph, self.problem.target.alignment
        kinds = graph.tensor_by_id
        found: dict[int, None] = {}
        for op in graph.ops:
            part = parts.parts.get(op.id)
            if part is None or part.role not in ("slice", "join"):
                continue
            sizes = [kinds[t].size for t in (*op.inputs, *op.outputs) if kinds[t].kind is not Kind.CONSTANT]
            if sum(round_up(size, unit) for size in sizes) > self.goal.fast.capacity_bytes:
                whole = op.inputs[0] if part.role == "slice" else _materialised(parts, op.outputs[0])
                found |= {whole: None} if whole in tensors else {}
        return list(found)

    def _streaming_more(self, candidate: Candidate) -> Candidate:
        """The candidate with more tensors streamed, as long as fewer bytes move by that, the largest tried first."""
        best = candidate
        forced = {s.tensor for s in candidate.streamed.streams}
        for t in [t for t in self._streamable(candidate.parts) if t not in forced][:_MOST_STREAMED]:
            if self.interrupted or not best.traffic_bytes or self.limits.until(_LOOKED).over():
                break
            look = self._look(candidate.parts, [*(s.tensor for s in best.streamed.streams), t])
            if isinstance(look, Candidate) and look.traffic_bytes < best.traffic_bytes:
                best = look
        return best

    def _streamable(self, parts: PartGraph) -> list[int]:
        """Tensors that may be streamed: under the moves that every plan has, and with no memory that others share."""
        semantics = self.goal.moves.semantics
        if parts.earlier or semantics.lead or semantics.outputs_end_fast:
            return []
        if not (semantics.inputs_have_copy and semantics.outputs_written_early):
            return []
        storages = Problem.of(parts.graph, self.problem.target).memory.storages
        return streamable(parts, [t for s in storages if len(s.tensors) > 1 for t in s.tensors])

    def _look(self, parts: PartGraph, tensors: Iterable[int]) -> Candidate | int | None:
        """What the parts move along their own order; the id of an op that does not fit; None if it cannot be."""
        found = streamed(parts, tensors)
        if found is None:
            return None
        spilling = self.goal.spilling(found.graph, self.problem.target)
        need, at = spilling.largest_op
        if need > spilling.capacity:
            return spilling.model.graph.ops[at].id
        own = along(spilling, range(spilling.steps), self.limits)
        return None if own is None else Candidate(parts, found, found.bytes + own.traffic_bytes)

    def _answer(self, candidate: Candidate, limits: Limits, exact: Exactness | None = None) -> Answer | None:
        """The best plan of a candidate, whose outputs may differ by `exact` if that is known; None if no order fits."""
        parts, streams = candidate.parts, candidate.streamed
        try:
            answer = self.goal.solve(Problem.of(streams.graph, self.problem.target), self.job.search, limits)
        except InputError:
            return None
        keys = answer.keys
        if "moves" not in keys:
            return None
        more = streams.bytes
        keys = {
            **keys,
            "traffic_bytes": keys.get("traffic_bytes", 0) + more,
            "traffic_lower_bound_bytes": keys.get("traffic_lower_bound_bytes", 0) + more,
            "rewrites": [*as_rewrites(parts)],
            "exactness": exact or exactness(self.cutter, parts),
            "proved_over": "orders",
            "streams": [
                PlanStream(tensor=s.tensor, stored_bytes=s.stored_bytes, loaded_bytes=s.loaded_bytes)
                for s in streams.streams
            ]
            or None,
        }
        whole = Problem.of(parts.graph, self.problem.target)
        return replace(
            answer, problem=whole, keys=keys, parts=parts, own_order_peak_bytes=self.problem.own_order_peak_bytes
        )
