"""Sessions of onnxruntime in turn, in a process of their own: ``python -m lowtide.run.session_process``.

Where much was allocated and freed before, allocations take other times than in a program that runs a model alone. A
line of JSON comes in, ``{"paths", "level", "threads", "seed", "dims", "seconds"}``, and one goes out: in ``{"taken"}``
the seconds of each session's runs without a profile, in ``{"profiles"}`` of each a list of kernels, ``[type, bytes of
the results, name, seconds of each run]``.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_RUNS, _MOST_RUNS = 5, 100
"""Runs of a session at the least and at the most."""


def main() -> None:
    """Run what is asked for on standard input."""
    from lowtide.errors import first_line

    request = json.loads(sys.stdin.readline())
    try:
        answer = _run(request)
    except Exception as error:  # onnxruntime's own kinds of error have no common base
        answer = {"error": first_line(error)}
    print(json.dumps(answer), flush=True)


def _run(request: dict[str, Any]) -> dict[str, Any]:
    from lowtide.run.node_seconds import node_session, profile_events
    from lowtide.run.onnx import draw

    paths, level, threads = request["paths"], request["level"], request["threads"]
    plain = [node_session(path, level, threads) for path in paths]
    feeds, _ = draw(plain[0], Path(paths[0]), request["seed"], 1, request["dims"])
    taken = _in_turn(plain, feeds[0], threads, request["seconds"] / 2)
    del plain
    with tempfile.TemporaryDirectory(prefix="lowtide-measure-") as folder:
        sessions = [node_session(path, level, threads, folder) for path in paths]
        _in_turn(sessions, feeds[0], threads, request["seconds"] / 2)
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


if __name__ == "__main__":
    main()
