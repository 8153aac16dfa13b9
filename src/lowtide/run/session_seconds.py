"""How long the nodes of an ONNX file take in one session of onnxruntime, by its profile.

There a node finds in the caches what the one before left there, and its weights no longer: unlike a node alone that is
run repeatedly. What of a file in parts is measured so is what its parts really take.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.cost.file import Level
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.run.forks import CallEndedError, call
from lowtide.run.node_seconds import LAYOUTS
from lowtide.sizes import Dims

_SECONDS = 3.0
"""The time for which sessions are run, in turn."""
_BLOCKED = "_nchwc"
"""What onnxruntime adds to a result's name to name the node that it puts in the place of who makes it."""


@dataclass(frozen=True)
class SessionSeconds:
    """What a session's nodes take."""

    # Seconds by op id, of those that ran, by the clock of the profile; 0 for one that the optimiser took into another.
    # Low ones of several runs: where other work takes the processor away, the longest nodes are hit most.
    ops: dict[int, float]
    layout_seconds: float  # of all changes of layout together
    # Of a run without a profile, which costs time itself: of the processor on one thread, else of the clock.
    seconds: float
    nodes: int  # how many ran, changes of layout among them

    @property
    def profiled_seconds(self) -> float:
        """What the profile says of all nodes together."""
        return sum(self.ops.values()) + self.layout_seconds


def session_seconds(
    files: Sequence[tuple[Path, Graph]], level: Level, threads: int, seed: int, dims: Dims
) -> list[SessionSeconds]:
    """Run files in turn a few times, so that what else the machine does falls on all, and say what their ops take.
    Each run is compared with the run of the first file just before it. Raises `InputError`: onnxruntime cannot run
    one."""
    what = [[str(path) for path, _ in files], level, threads, seed, dict(dims), _SECONDS]
    try:
        answer: dict[str, Any] = call("onnx", "lowtide.run.session_process:run_in_turn", *what)
    except CallEndedError as error:
        answer = {"error": f"it ends with {error}"}
    if "error" in answer:
        raise InputError(f"onnxruntime cannot run it: {answer['error']}", str(files[-1][0]))
    first, middle = answer["taken"][0], statistics.median(answer["taken"][0])
    result = []
    for (_, graph), taken, rows in zip(files, answer["taken"], answer["profiles"], strict=True):
        events = {(kind, size, name): times for kind, size, name, times in rows}
        ratio = statistics.median(own / other for own, other in zip(taken, first, strict=True))
        result.append(_of_graph(graph, events, level, ratio * middle))
    return result


def _low(taken: Sequence[float]) -> float:
    """The mean of the lower third: the profile counts microseconds."""
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
