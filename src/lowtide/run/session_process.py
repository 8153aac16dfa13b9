"""Sessions of onnxruntime in turn, in a process of their own.

Where much was allocated and freed before, allocations take other times than in a program that runs a model alone.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.cost.file import Level
from lowtide.errors import first_line
from lowtide.run.node_seconds import node_session, profile_events

_RUNS, _MOST_RUNS = 5, 100
"""Runs of a session at the least and at the most."""


def run_in_turn(
    paths: Sequence[str], level: Level, threads: int, seed: int, dims: Mapping[str, int], seconds: float
) -> dict[str, Any]:
    """Run the sessions of some files. ``"taken"``: seconds of each session's runs without a profile. ``"profiles"``: of
    each a list of kernels, ``[type, bytes of the results, name, seconds of each run]``. Or why not: ``"error"``."""
    try:
        return _run(paths, level, threads, seed, dims, seconds)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        return {"error": first_line(error)}


def _run(
    paths: Sequence[str], level: Level, threads: int, seed: int, dims: Mapping[str, int], seconds: float
) -> dict[str, Any]:
    from lowtide.run.onnx import draw

    plain = [node_session(path, level, threads) for path in paths]
    feeds, _ = draw(plain[0], Path(paths[0]), seed, 1, dims)
    taken = _in_turn(plain, feeds[0], threads, seconds / 2)
    del plain
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        sessions = [node_session(path, level, threads, folder) for path in paths]
        _in_turn(sessions, feeds[0], threads, seconds / 2)
        profiles = [profile_events(Path(session.end_profiling())) for session in sessions]
    return {"taken": taken, "profiles": [[[*key, times] for key, times in events.items()] for events in profiles]}


def _in_turn(sessions: Sequence[Any], feed: Mapping[str, Any], threads: int, seconds: float) -> list[list[float]]:
    """Seconds of the runs of each session, but for the first: of the processor on one thread, else of the clock."""
    now = time.process_time if threads == 1 else time.perf_counter
    taken: list[list[float]] = [[] for _ in sessions]
    began = time.perf_counter()
    while len(taken[0]) <= _RUNS or (time.perf_counter() - began < seconds and len(taken[0]) < _MOST_RUNS):
        for session, times in zip(sessions, taken, strict=True):
            start = now()
            session.run(None, feed)
            times.append(now() - start)
    return [times[1:] for times in taken]
