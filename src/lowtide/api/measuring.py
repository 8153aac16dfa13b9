"""A cost file of a model: how long its ops take on this machine, and parts of them.

Alone, again and again, nodes run out of the caches, and in a session they do not: what a session of the model shows,
and sessions of the model in parts as its curve has them, counts before what single nodes show. These say how times go
with sizes, for the parts that no session had.
"""

from __future__ import annotations

import statistics
import tempfile
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from lowtide.api.job import check_time
from lowtide.api.models import load
from lowtide.arguments import typed
from lowtide.cost.file import GLUE, VERSION, CostFile, CostTrial, Level
from lowtide.cost.model import Work
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.sizes import NO_DIMS, Dims, parse_overhead
from lowtide.stop import Limits
from lowtide.version import __version__

if TYPE_CHECKING:
    from lowtide.api.problem import Problem
    from lowtide.cost.signature import Signature
    from lowtide.plan import Plan
    from lowtide.run.node_seconds import Node
    from lowtide.run.session_seconds import SessionSeconds
    from lowtide.transform.cut import Cutter, Region
    from lowtide.transform.parts import PartGraph

ROUNDS = 2  # how often each node is timed alone, far apart
_CURVES, _POINTS, _MOST_PARTS = 3, 5, 3000
"""How often the curve is drawn with what is known by then, points of it that are run, and ops of one at the most."""
_PROFILE, _LAUNCH = 2e-6, 5e-6
"""Seconds that a profile takes of a node, and that a runtime takes from one node to the next, at the most: what looks
like more is other work on the machine."""
_HICCUP = 1.3  # how many times longer than by its profile a session may take before it is run once more
_TRIES = 4  # plans that are tried for a bound on the overhead at the most
_ALONE, _SESSIONS, _SEARCH = 0.2, 0.6, 0.1
"""Shares of the time after which single nodes are done, and sessions where plans are tried behind them; for a curve."""
_LEAST = 10.0  # seconds for a curve at the least

NodeReport = Callable[[int, int, str], None]
"""Called before something is run: how many are done, of how many, and what it is."""


@typed
def measure(
    model: str | Path,
    *,
    threads: int = 1,
    level: Level = "extended",
    time: float = 120.0,
    seed: int = 0,
    dims: Dims = NO_DIMS,
    max_overhead: str | float | Sequence[float] = (),
    report: NodeReport | None = None,
) -> CostFile:
    """Time the ops of a model in onnxruntime, and parts of those that can be cut.

    Parameters
    ----------
    model
        An ONNX file: the very one that is to be planned, optimised beforehand if that is. Weights that are missing are
        drawn at random.
    threads
        On which each node runs.
    level
        ``"extended"``: the nodes as they stand. ``"all"``: with the kernels that onnxruntime's optimiser puts in their
        place, if the model in parts is to go through it.
    time
        Seconds; parts that are not timed by then are reckoned from the others, the smallest first.
    seed
        Of the numbers that the nodes are given.
    dims
        Sizes of free dimensions, by name or as ``"INPUT:AXIS"``.
    max_overhead
        Bounds on the overhead of plans that are to be made with the file, as ``"10%"``, ``"5%,10%"`` or 0.1: for each a
        few plans are run beside the model, each within what those before it showed (`CostFile.trials`).
    report
        Called before each node or session.

    Raises
    ------
    InputError
        The model or an argument is wrong, onnxruntime cannot run the model, or it is in a format whose ops are not
        timed.
    MissingExtraError
        onnxruntime is not installed.
    """
    from lowtide.run.ort_session import runtime
    from lowtide.run.random_weights import weighted
    from lowtide.transform.cut import Cutter

    check_time(time)
    if threads < 1:
        raise InputError(f"--threads is {threads}; give 1 or more")
    if level not in get_args(Level):
        levels = get_args(Level)
        raise InputError(f"--level is {level!r}; give one of {', '.join(levels)}{did_you_mean(level, levels)}")
    if str(model).startswith("zoo:") or not str(model).lower().endswith(".onnx"):
        raise InputError("only ops of ONNX files are timed; give an .onnx file", str(model))
    bounds = _bounds(max_overhead)
    version = str(runtime().__version__)
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        source = weighted(Path(model), Path(folder) / "weighted.onnx")
        cutter = Cutter(load(source, dims))
        measuring = _Measuring(cutter, source, Path(folder), (level, threads, seed, dims), time, report)
        measuring.nodes()
        measuring.session()
        until = _SESSIONS if bounds else 1.0
        for _ in range(_CURVES):
            measuring.curve(version, until)
        for bound in bounds:
            measuring.tries(version, bound)
        return measuring.file(version)


def _bounds(words: str | float | Sequence[float]) -> list[float]:
    """Bounds on the overhead as a call says them, the least first."""
    listed = words.split(",") if isinstance(words, str) else words if isinstance(words, Sequence) else [words]
    return sorted({parse_overhead(word) for word in listed})


@dataclass(frozen=True)
class _Session:
    """A session that was run, whole or in parts."""

    # What its profile says of each: signature (None: it holds parts together), work, seconds.
    nodes: tuple[tuple[Signature | None, Work, float], ...]
    profiled: float  # what it says of all of them and of changes of layout, in seconds
    count: int  # how many there are
    # What a run took without a profile. All seconds are as many times more or less as they have to be for those of the
    # model as it is, which ran in turn with it, to be those of the first session, by the profile too.
    seconds: float


@dataclass(frozen=True)
class _Tried:
    """A plan for a bound on the overhead."""

    # plan, parts: it, and what runs by it.
    plan: Plan
    parts: PartGraph
    cutter: Cutter  # of the graph that it cuts
    measured: float = 0.0  # the overhead that was seen

    def same(self, other: _Tried) -> bool:
        """Whether both run the same, in the same order."""
        return self.plan.rewrites == other.plan.rewrites and self.plan.order == other.plan.order


@dataclass
class _Measuring:
    """What is measured so far: of nodes alone, and of nodes in sessions."""

    cutter: Cutter
    source: Path
    folder: Path
    how: tuple[Level, int, int, Dims]
    seconds: float
    report: NodeReport | None
    alone: dict[Signature, tuple[Work, float]] = field(default_factory=dict)
    glue: list[tuple[Work, float]] = field(default_factory=list)
    whole: float = 0.0
    sessions: list[_Session] = field(default_factory=list)
    done: set[tuple[Region, ...]] = field(default_factory=set)
    tried: list[_Tried] = field(default_factory=list)
    began: float = field(default_factory=clock.perf_counter)

    def left(self, share: float = 1.0) -> float:
        """Seconds of a share of the time."""
        return self.seconds * share - (clock.perf_counter() - self.began)

    def nodes(self) -> None:
        """Single nodes: whole ops and what holds parts together in any case, parts while some of the time lasts."""
        from lowtide.run.node_seconds import glue_nodes, part_nodes, time_nodes, untiled_nodes

        level, threads, seed, _ = self.how
        first = [*untiled_nodes(self.cutter), *glue_nodes(self.cutter)]
        nodes, done = [*first, *part_nodes(self.cutter)], 0

        def go_on(node: Node) -> bool:
            nonlocal done
            self.say(done, ROUNDS * len(nodes), node.op.type)
            done += 1
            return self.left(_ALONE) > 0 or done <= len(first)

        rounds = [time_nodes(nodes, level, threads, seed, go_on) for _ in range(ROUNDS)]
        for k, node in enumerate(nodes):
            taken = min((times[k] for times in rounds if k in times), default=0.0)
            if taken and node.signature is not None:
                self.alone[node.signature] = (node.work, taken)
            elif taken:
                self.glue.append((node.work, taken))

    def session(self, regions: Sequence[Region] = ()) -> None:
        """The model in a session, whole and, if there are regions, in parts."""
        from lowtide.transform.parts import apply

        parts = apply(self.cutter, regions, self.order)
        self.run_beside(parts if regions else None, parts.graph.own_order)

    def run_beside(self, parts: PartGraph | None, order: Sequence[int]) -> float:
        """The model in a session, whole and, if there are some, in parts that run in an order: of each signature the
        median counts. How much longer the last takes."""
        from lowtide.run.session_seconds import session_seconds
        from lowtide.transform.parts import apply

        level, threads, seed, dims = self.how
        files = [(self.source, self.cutter.graph)]
        if parts is not None:
            files.append((self.written(parts, order), parts.graph))
        whole, *cut = session_seconds(files, level, threads, seed, dims)
        if any(_hiccup(whole, times) for times in cut):
            whole, *cut = session_seconds(files, level, threads, seed, dims)
        self.whole = self.whole or whole.seconds
        even = self.whole / max(whole.seconds, 1e-9), self.whole / max(whole.profiled_seconds, 1e-9)
        self.sessions.append(_session(apply(self.cutter, ()), whole, 0.0, even))
        for times in cut:
            assert parts is not None, self.source
            layouts = max(0.0, times.layout_seconds - whole.layout_seconds)  # they change where parts are held together
            self.sessions.append(_session(parts, times, layouts, even))
        return self.sessions[-1].seconds / max(self.whole, 1e-9) - 1

    def written(self, parts: PartGraph, order: Sequence[int]) -> Path:
        """A file of the model in parts, in an order."""
        from lowtide.write.onnx_parts import write_onnx_parts

        path = self.folder / "parts.onnx"
        write_onnx_parts(self.source, parts, order, path, copy_external=True)
        return path

    @cached_property
    def problem(self) -> Problem:
        """The model under the rules of onnxruntime."""
        from lowtide.api.problem import Problem
        from lowtide.target import BUILT_IN

        return Problem.of(self.cutter.graph, BUILT_IN["onnxruntime"])

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """The best order of the ops, as a plan takes it before it cuts, in positions."""
        from lowtide.api.goals import OneArena
        from lowtide.api.job import NO_OPTIONS, Search

        goal = OneArena()
        search = Search(goal.method("exact", NO_OPTIONS), self.search().seconds)
        return tuple(goal.solve(self.problem, search, self.search()).order)

    @property
    def order(self) -> list[int]:
        """The same as op ids."""
        return [self.cutter.graph.ops[i].id for i in self.positions]

    def search(self) -> Limits:
        """Limits of a search that begins now."""
        return Limits(max(_LEAST, _SEARCH * self.seconds))

    def curve(self, version: str, until: float) -> None:
        """Sessions of the model in parts, for points of the curve by what is known so far."""
        from lowtide.cost.model import CostModel
        from lowtide.optimize.regions import front_ways

        if self.left(until) <= 0:
            return
        costs = CostModel(self.file(version), self.cutter)
        found = front_ways(self.cutter, self.problem.memory, self.positions, self.search(), costs)[1:]
        found = [way for way in found if way.ops <= _MOST_PARTS and way.regions not in self.done]
        for k, way in enumerate(found[:: max(1, -(-len(found) // _POINTS))]):
            if self.left(until) <= 0:
                return
            self.say(k, _POINTS, f"the model in {way.ops:,} ops")
            self.done.add(way.regions)
            self.session(way.regions)

    def tries(self, version: str, bound: float) -> None:
        """Sessions of the plans that a bound on the overhead gives, until that is one that was run."""
        for k in range(_TRIES):
            if k and self.left() <= 0:
                return
            tried = self.planned(version, bound)
            if tried is None or any(tried.same(other) for other in self.tried):
                return
            self.say(k, _TRIES, f"a plan for {100 * bound:g} % in {len(tried.plan.order):,} ops")
            self.tried.append(replace(tried, measured=self.run_beside(tried.parts, tried.plan.order)))

    def planned(self, version: str, bound: float) -> _Tried | None:
        """The plan within a bound by what is known so far; None if it cuts nothing."""
        from lowtide.api.moves.decisions import levels, part_graph
        from lowtide.api.planning import plan
        from lowtide.transform.cut import Cutter

        graph, seconds = self.cutter.graph, self.search().seconds
        file = self.file(version)
        found = plan(graph, target="onnxruntime", allow="tile", cost=file, max_overhead=bound, time=seconds)
        if found.rewrites is None:
            return None
        _, base, _ = next(levels(found, graph))
        return _Tried(found, part_graph(found, graph), Cutter(base.graph))

    def trials(self, file: CostFile) -> list[CostTrial]:
        """What was run of plans for bounds, beside what a cost file says of it now."""
        from lowtide.cost.model import CostModel

        result, whole = [], max(1, CostModel(file, self.cutter).untiled().nanoseconds)
        for tried in self.tried:
            predicted = CostModel(file, tried.cutter).parts(tried.parts).nanoseconds / whole - 1
            result.append(CostTrial(predicted=float(f"{predicted:.4g}"), measured=float(f"{tried.measured:.4g}")))
        return result

    def say(self, done: int, of: int, what: str) -> None:
        """Tell what is run next."""
        if self.report is not None:
            self.report(done, of, what)

    def file(self, version: str) -> CostFile:
        """What is known by now. What was only run alone takes as much more as what was run both ways."""
        from lowtide.cost.fit import fit
        from lowtide.run.timing import cpu_name

        level, threads, _, _ = self.how
        known, works, glue = self.in_sessions()
        more = self._more(known)
        for signature, (work, seconds) in self.alone.items():
            if signature not in known:
                known[signature], works[signature] = seconds * more.get(work.family, 1.0), work
        families = fit([*((works[s], seconds) for s, seconds in known.items()), *(glue or self.glue)])
        entries = [s.entry(float(f"{seconds:.4g}")) for s, seconds in known.items()]
        file = CostFile(
            version=VERSION,
            lowtide=__version__,
            dialect="onnx",
            runtime="onnxruntime",
            runtime_version=version,
            level=level,
            device=cpu_name(),
            threads=threads,
            families=families,
            entries=entries,
        )
        return msgspec.structs.replace(file, trials=self.trials(file))

    def in_sessions(self) -> tuple[dict[Signature, float], dict[Signature, Work], list[tuple[Work, float]]]:
        """What ops took, the median of sessions, their work, and what holds parts together. A session's nodes take
        together what its runs took: each the same beside its profile, the rest as that says."""
        taken: dict[Signature, list[float]] = {}
        works: dict[Signature, Work] = {}
        glue: list[tuple[Work, float]] = []
        beside = self.beside()
        for session in self.sessions:
            share = max(0.0, session.seconds - beside * session.count) / max(session.profiled, 1e-9)
            fresh: dict[Signature, list[float]] = {}
            for signature, work, profiled in session.nodes:
                seconds = max(share * profiled / 4, share * profiled + beside)
                if signature is None:
                    glue.append((work, seconds))
                else:
                    fresh.setdefault(signature, []).append(seconds)
                    works[signature] = work
            for signature, times in fresh.items():
                taken.setdefault(signature, []).append(statistics.median(times))
        return {signature: statistics.median(times) for signature, times in taken.items()}, works, glue

    def beside(self) -> float:
        """Seconds that each node takes more than its profile says, by how many more there are in some sessions: what
        the runtime does between nodes, less what writing the profile takes."""
        fewest = min(session.count for session in self.sessions)
        more = [(session.count - fewest, session.seconds - session.profiled) for session in self.sessions]
        each = sum(count * rest for count, rest in more) / max(1, sum(count * count for count, _ in more))
        return min(_LAUNCH, max(-_PROFILE, each))

    def _more(self, in_session: dict[Signature, float]) -> dict[str, float]:
        """By family, how many times longer an op takes in a session than alone."""
        ratios: dict[str, list[float]] = {}
        for signature, (work, seconds) in self.alone.items():
            if in_session.get(signature):
                ratios.setdefault(work.family, []).append(in_session[signature] / seconds)
        return {family: statistics.median(found) for family, found in ratios.items()}


def _hiccup(whole: SessionSeconds, cut: SessionSeconds) -> bool:
    """Whether runs say quite another thing than their profile of how many times longer a session takes."""
    return cut.seconds * whole.profiled_seconds > _HICCUP * whole.seconds * cut.profiled_seconds


def _session(parts: PartGraph, times: SessionSeconds, layouts: float, even: tuple[float, float]) -> _Session:
    """What a session showed, its runs and its profile so many times more; `layouts`: seconds of changes of layout that
    are there only in parts, and count as what holds parts together."""
    from lowtide.cost.model import work_of
    from lowtide.cost.signature import of_op
    from lowtide.transform.cut import Cutter

    graph, cutter, (runs, profile) = parts.graph, Cutter(parts.graph), even
    between = {op for op, part in parts.parts.items() if part.role in GLUE}
    held = sum(times.ops.get(op, 0.0) for op in between)
    more = 1 + layouts / held if held else 1.0
    nodes: list[tuple[Signature | None, Work, float]] = []
    for op in graph.ops:
        taken = times.ops.get(op.id)
        if taken is None or op.bodies:
            continue
        if op.id in between:
            role, size = parts.parts[op.id].role, graph.tensor_by_id[op.outputs[0]].size
            nodes.append((None, Work(role, 0, (3 if role == "merge" else 2) * size), profile * more * taken))
            continue
        known = cutter.meaning(op.id)
        nodes.append((of_op(graph, op, known), work_of(graph, op, known), profile * taken))
    return _Session(tuple(nodes), profile * times.profiled_seconds, times.nodes, runs * times.seconds)
