"""How long the nodes of a whole ONNX file take in one session of onnxruntime, by its profile.

There a node finds in the caches what the one before left there, and its weights no longer: unlike alone, run again and
again. What of a file in parts is measured so is what its parts really take.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.cost.file import Level
from lowtide.errors import InputError, first_line
from lowtide.graph import Graph
from lowtide.run.node_seconds import LAYOUTS, node_session, profile_events
from lowtide.run.onnx import draw
from lowtide.sizes import Dims

_RUNS, _SECONDS, _MOST_RUNS = 5, 3.0, 40
"""Runs at the least, the time for which the session is run again, and runs at the most."""
_BLOCKED = "_nchwc"
"""What onnxruntime adds to a result's name to name the node that it puts in the place of who makes it."""


@dataclass(frozen=True)
class SessionSeconds:
    """What a session's nodes take.

    Attributes
    ----------
    ops
        Seconds by op id, of those that ran, by the clock of the profile; 0 for one that the optimiser took into
        another. Low ones of several runs: where other work takes the processor away, the longest nodes are hit most.
    layout_seconds
        Of all changes of layout together.
    seconds
        Of a run without a profile, which costs time itself: of the processor on one thread, else of the clock.
    nodes
        How many ran, changes of layout among them.
    """

    ops: dict[int, float]
    layout_seconds: float
    seconds: float
    nodes: int

    @property
    def profiled_seconds(self) -> float:
        """What the profile says of all nodes together."""
        return sum(self.ops.values()) + self.layout_seconds


def session_seconds(
    files: Sequence[tuple[Path, Graph]], level: Level, threads: int, seed: int, dims: Dims, seconds: float = _SECONDS
) -> list[SessionSeconds]:
    """Run files in turn a few times, so that what else the machine does falls on all, and say what their ops take.

    Raises
    ------
    InputError
        onnxruntime cannot run one.
    """
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        plain = [_open(path, level, threads, "") for path, _ in files]
        feeds, _ = draw(plain[0], files[0][0], seed, 1, dims)
        taken = _in_turn(plain, feeds[0], threads, seconds / 2)
        del plain
        sessions = [_open(path, level, threads, folder) for path, _ in files]
        _in_turn(sessions, feeds[0], threads, seconds / 2)
        profiles = [profile_events(Path(session.end_profiling())) for session in sessions]
    return [
        _of_graph(graph, events, level, statistics.median(times))
        for (_, graph), events, times in zip(files, profiles, taken, strict=True)
    ]


def _open(path: Path, level: Level, threads: int, folder: str) -> Any:
    try:
        return node_session(str(path), level, threads, folder)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        raise InputError(f"onnxruntime cannot load it: {first_line(error)}", str(path)) from None


def _in_turn(sessions: Sequence[Any], feed: Mapping[str, Any], threads: int, seconds: float) -> list[list[float]]:
    """Seconds of the runs of each session, but for the first."""
    now = time.process_time if threads == 1 else time.perf_counter
    taken: list[list[float]] = [[] for _ in sessions]
    began = time.perf_counter()
    while len(taken[0]) <= _RUNS or (time.perf_counter() - began < seconds and len(taken[0]) < _MOST_RUNS):
        for session, times in zip(sessions, taken, strict=True):
            start = now()
            session.run(None, feed)
            times.append(now() - start)
    return [times[1:] for times in taken]


def _low(taken: Sequence[float]) -> float:
    """The mean of the lower third: the profile counts in whole microseconds."""
    return statistics.fmean(sorted(taken)[: -(-len(taken) // 3)])


def _of_graph(
    graph: Graph, events: Mapping[tuple[str, int, str], list[float]], level: Level, seconds: float
) -> SessionSeconds:
    """Give each event its op: by the node's name, or if the optimiser made the node by that of its result."""
    layouts = sum(_low(taken) for (kind, _, _), taken in events.items() if kind in LAYOUTS)
    of_name: dict[str, float] = {}
    for (kind, _, name), taken in events.items():
        if kind not in LAYOUTS:
            key = name.removesuffix("_kernel_time")
            of_name[key.partition(_BLOCKED)[0] if _BLOCKED in key else key] = _low(taken)
    ops = {}
    for op in graph.ops:
        made = graph.tensor_by_id[op.outputs[0]].name if op.outputs else ""
        taken = of_name.get(op.name) if op.name else None
        taken = of_name.get(made) if taken is None else taken
        if taken is not None:
            ops[op.id] = taken
        elif level == "all" and op.name and made:
            ops[op.id] = 0.0
    return SessionSeconds(ops, layouts, seconds, len(events))
