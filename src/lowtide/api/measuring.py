"""A cost file of a model: how long its ops take on this machine, and parts of them.

Alone, again and again, nodes run out of the caches, and in a session they do not: what a session of the model shows,
and sessions of the model in parts as its curve has them, counts before what single nodes show. These say how times go
with sizes, for the parts that no session had.
"""

from __future__ import annotations

import statistics
import tempfile
import time as clock
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from lowtide.api.job import check_time
from lowtide.api.models import load
from lowtide.cost.file import GLUE, VERSION, CostFile, Level
from lowtide.cost.work import Work
from lowtide.errors import InputError
from lowtide.sizes import NO_DIMS, Dims
from lowtide.version import __version__

if TYPE_CHECKING:
    from lowtide.cost.signature import Signature
    from lowtide.run.node_seconds import Node
    from lowtide.transform.cut import Cutter, Region
    from lowtide.transform.parts import PartGraph

ROUNDS = 2
"""How often each node is timed alone, far apart."""
_CURVES, _POINTS, _MOST_PARTS = 3, 5, 3000
"""How often the curve is drawn with what is known by then, points of it that are run, and ops of one at the most."""
_PROFILE = 2e-6
"""Seconds that the profile takes of a node at the most; what looks like more is other work on the machine."""
_SEARCH = 0.15
"""Share of the time for a curve."""

NodeReport = Callable[[int, int, str], None]
"""Called before something is run: how many are done, of how many, and what it is."""


def measure(
    model: str | Path,
    *,
    threads: int = 1,
    level: Level = "extended",
    time: float = 120.0,
    seed: int = 0,
    dims: Dims = NO_DIMS,
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
    from lowtide.transform.cut import Cutter

    check_time(time)
    if threads < 1:
        raise InputError(f"--threads is {threads}; give 1 or more")
    if level not in get_args(Level):
        raise InputError(f"--level is {level!r}; give one of {', '.join(get_args(Level))}")
    if str(model).startswith("zoo:") or not str(model).lower().endswith(".onnx"):
        raise InputError("only ops of ONNX files are timed; give an .onnx file", str(model))
    version = str(runtime().__version__)
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        source = _with_weights(Path(model), Path(folder))
        cutter = Cutter(load(source, dims))
        measuring = _Measuring(cutter, source, Path(folder), (level, threads, seed, dims), time, report)
        measuring.nodes()
        measuring.session([])
        for _ in range(_CURVES):
            measuring.curve(version)
        return measuring.file(version)


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
    seen: dict[Signature, list[float]] = field(default_factory=dict)
    works: dict[Signature, Work] = field(default_factory=dict)
    glue: list[tuple[Work, float]] = field(default_factory=list)
    whole: float = 0.0
    profile: list[tuple[int, float]] = field(default_factory=list)
    done: set[tuple[Region, ...]] = field(default_factory=set)
    began: float = field(default_factory=clock.perf_counter)

    def left(self) -> float:
        """Seconds."""
        return self.seconds - (clock.perf_counter() - self.began)

    def nodes(self) -> None:
        """Single nodes: whole ops and what holds parts together in any case, parts while half of the time lasts."""
        from lowtide.run.node_seconds import glue_nodes, part_nodes, time_nodes, whole_nodes

        level, threads, seed, _ = self.how
        first = [*whole_nodes(self.cutter), *glue_nodes(self.cutter)]
        nodes, done = [*first, *part_nodes(self.cutter)], 0

        def go_on(node: Node) -> bool:
            nonlocal done
            if self.report is not None:
                self.report(done, ROUNDS * len(nodes), node.op.type)
            done += 1
            return self.left() > self.seconds / 2 or done <= len(first)

        rounds = [time_nodes(nodes, level, threads, seed, go_on) for _ in range(ROUNDS)]
        for k, node in enumerate(nodes):
            taken = min((times[k] for times in rounds if k in times), default=0.0)
            if taken and node.signature is not None:
                self.alone[node.signature] = (node.work, taken)
            elif taken:
                self.glue.append((node.work, taken))

    def session(self, regions: Iterable[Region], order: Iterable[int] = ()) -> None:
        """The model in a session, whole or in parts: of each signature the median counts."""
        from lowtide.run.session_seconds import session_seconds
        from lowtide.transform.parts import apply

        level, threads, seed, dims = self.how
        regions = tuple(regions)
        parts = apply(self.cutter, regions, list(order) or None)
        files = [(self.source, self.cutter.graph)]
        if regions:
            from lowtide.write.onnx_parts import write_onnx_parts

            path = self.folder / f"{len(self.done)}.onnx"
            write_onnx_parts(self.source, parts, parts.graph.own_order, path, copy_external=True)
            files.append((path, parts.graph))
        whole, *cut = session_seconds(files, level, threads, seed, dims)
        self.whole = self.whole or whole.seconds
        even = self.whole / max(whole.profiled_seconds, 1e-9)  # what else the machine does now, and did at first
        for times in cut or [whole]:
            self.profile.append(
                (
                    times.nodes - whole.nodes,
                    times.seconds / max(whole.seconds, 1e-9) * self.whole - even * times.profiled_seconds,
                )
            )
            between = sum(s for op, s in times.ops.items() if op in parts.parts and parts.parts[op].role in GLUE)
            layouts = max(0.0, times.layout_seconds - whole.layout_seconds)  # they change where parts are held together
            more = 1 + layouts / between if between else 1.0
            self.add(parts, {op: even * taken for op, taken in times.ops.items()}, more)

    def add(self, parts: PartGraph, seconds: dict[int, float], more: float) -> None:
        """Take what a session's ops took; those between parts took so many times more."""
        from lowtide.cost.signature import of_op
        from lowtide.cost.work import work_of
        from lowtide.transform.cut import Cutter

        graph, cutter = parts.graph, Cutter(parts.graph)
        fresh: dict[Signature, list[float]] = {}
        for op in graph.ops:
            part, taken = parts.parts.get(op.id), seconds.get(op.id)
            if taken is None or op.bodies:
                continue
            if part is not None and part.role in GLUE:
                size = graph.tensor_by_id[op.outputs[0]].size
                self.glue.append((Work(part.role, 0, (3 if part.role == "merge" else 2) * size), more * taken))
                continue
            known = cutter.meaning(op.id)
            signature = of_op(graph, op, known)
            fresh.setdefault(signature, []).append(taken)
            self.works[signature] = work_of(graph, op, known)
        for signature, times in fresh.items():
            self.seen.setdefault(signature, []).append(statistics.median(times))

    def curve(self, version: str) -> None:
        """Sessions of the model in parts, for points of the curve by what is known so far."""
        from lowtide.api.costs import find_costs
        from lowtide.api.goals import OneArena
        from lowtide.api.job import NO_OPTIONS, Search
        from lowtide.api.problem import Problem
        from lowtide.optimize.regions import front_ways
        from lowtide.target import BUILT_IN

        if self.left() <= 0:
            return
        problem, goal = Problem.of(self.cutter.graph, BUILT_IN["onnxruntime"]), OneArena()
        search = Search(goal.method("exact", NO_OPTIONS), max(1.0, _SEARCH * self.seconds))
        order = goal.find_order(problem, search, search.limits(None, None)).order
        costs = find_costs(self.file(version))
        assert costs is not None
        found = front_ways(self.cutter, problem.memory, order, search.limits(None, None), costs.model(self.cutter))[1:]
        found = [way for way in found if way.ops <= _MOST_PARTS and way.regions not in self.done]
        for k, way in enumerate(found[:: max(1, -(-len(found) // _POINTS))]):
            if self.left() <= 0:
                return
            if self.report is not None:
                self.report(k, _POINTS, f"the model in {way.ops:,} ops")
            self.done.add(way.regions)
            self.session(way.regions, [self.cutter.graph.ops[i].id for i in order])

    def file(self, version: str) -> CostFile:
        """What is known by now. What was only run alone takes as much more as what was run both ways."""
        from lowtide.cost.fit import fit
        from lowtide.run.timing import cpu_name

        level, threads, _, _ = self.how
        known = {signature: statistics.median(times) for signature, times in self.seen.items()}
        works = dict(self.works)
        more = self._more(known)
        for signature, (work, seconds) in self.alone.items():
            if signature not in known:
                known[signature], works[signature] = seconds * more.get(work.family, 1.0), work
        known = {signature: self.plain(seconds) for signature, seconds in known.items()}
        glue = [(work, self.plain(seconds)) for work, seconds in self.glue]
        families = fit([*((works[s], seconds) for s, seconds in known.items()), *glue])
        entries = [s.entry(float(f"{seconds:.4g}")) for s, seconds in known.items()]
        return CostFile(
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

    def plain(self, seconds: float) -> float:
        """What a node takes where nobody writes a profile: as much less for each as sessions with more nodes show."""
        many = sum(nodes * nodes for nodes, _ in self.profile)
        each = sum(nodes * rest for nodes, rest in self.profile) / many if many else 0.0
        return max(seconds / 4, seconds + max(-_PROFILE, min(0.0, each)))

    def _more(self, in_session: dict[Signature, float]) -> dict[str, float]:
        """By family, how many times longer an op takes in a session than alone."""
        ratios: dict[str, list[float]] = {}
        for signature, (work, seconds) in self.alone.items():
            if in_session.get(signature):
                ratios.setdefault(work.family, []).append(in_session[signature] / seconds)
        return {family: statistics.median(found) for family, found in ratios.items()}


def _with_weights(model: Path, folder: Path) -> Path:
    """The model, or a copy with random numbers where its weights are missing."""
    from lowtide.run.random_weights import missing_weights, with_random_weights

    if not model.is_file() or not missing_weights(model):
        return model
    with_random_weights(model, folder / "weighted.onnx")
    return folder / "weighted.onnx"
