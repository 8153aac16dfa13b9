"""How long two models take, run in turn, and the most memory that each one's process had.

Each has a process of its own, so that neither's memory is the other's; they run one after the other, in turn, so that
what else the machine does falls on both.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lowtide.run.ort_session import SessionSettings
from lowtide.run_reports import Timing
from lowtide.sizes import Dims

RUNS = 15
"""Of each model, unless that takes longer than `SECONDS`; three at least."""
SECONDS = 10.0


def time_onnx(
    original: tuple[Path, SessionSettings], planned: tuple[Path, SessionSettings], seed: int, dims: Dims
) -> Timing | None:
    """Run two ONNX files in turn, each under its settings. None if one of them cannot be run so."""
    workers: list[_Worker] = []
    try:
        for path, settings in (original, planned):
            workers.append(_Worker(path, settings, seed, dims))
        if not all(worker.ready for worker in workers):
            return None
        seconds = in_turn([worker.run for worker in workers])
        peaks = [worker.end() for worker in workers]
    except (OSError, ValueError, KeyError):  # a process that died leaves half a line, or none
        return None
    finally:
        for worker in workers:
            worker.stop()
    before, after = (statistics.median(taken) for taken in seconds)
    return Timing(len(seconds[0]), before, after, *peaks)


def in_turn(runs: Sequence[Callable[[], float]]) -> list[list[float]]:
    """Seconds that each of some calls returns, called in turn."""
    seconds: list[list[float]] = [[] for _ in runs]
    began = time.perf_counter()
    while len(seconds[0]) < 3 or (len(seconds[0]) < RUNS and time.perf_counter() - began < SECONDS):
        for taken, run in zip(seconds, runs, strict=True):
            taken.append(run())
    return seconds


class _Worker:
    """A session in its process (`ort_process`)."""

    def __init__(self, path: Path, settings: SessionSettings, seed: int, dims: Dims) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lowtide.run.ort_process"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        request = {
            "path": str(path), "keep_order": settings.keep_order, "reuse": settings.reuse,
            "arena_bytes": settings.arena_bytes, "seed": seed, "dims": dict(dims),
        }  # fmt: skip
        self._send(json.dumps(request))
        self.ready = "ready" in self._answer()

    def run(self) -> float:
        """Seconds of a run."""
        self._send("")
        return self._answer()["seconds"]

    def end(self) -> int:
        """Most bytes that the process had."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._answer()["peak_bytes"]

    def stop(self) -> None:
        """Whatever state it is in."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def cpu_name() -> str:
    """What the CPU calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
