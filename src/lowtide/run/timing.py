"""What two ONNX models take as their users run them: memory of fresh processes, and seconds of runs in turn.

Each model has a process of its own (`fresh_process`), so that neither's memory is the other's. Both processes run one
after the other, in turn, so that what else the machine does falls on both.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.run_reports import FreshPair, Timing
from lowtide.sizes import Dims

RUNS = 15
"""Of each model, unless that takes longer than `SECONDS`."""
LEAST_RUNS = 3
"""However long they take."""
SECONDS = 10.0
SLOW_SECONDS = 2.0
"""A model that runs for longer is run once in a process: what a first run takes more than others counts little."""
PAIRS, PAIRS_SECONDS = 5, 60.0
"""Of fresh processes, for the spread of what they show; fewer, if they take longer."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Setup:
    """A model as it is opened: by onnxruntime's defaults, or by `open_session` of a Python module that lowtide wrote.

    `outputs` is where the process writes its outputs, as an ``.npz`` file.
    """

    model: Path
    outputs: Path
    session: Path | None = None


def run_fresh(
    setups: Sequence[Setup],
    feeds: Path,
    dims: Dims,
    *,
    seed: int = 0,
    runs: int = RUNS,
    seconds: float = SECONDS,
    tell: Tell | None = None,
) -> list[FreshRun]:
    """What `run_compared` does with models that are all known beforehand."""
    return run_compared(setups[0], lambda _: setups[1:], feeds, dims, seed=seed, runs=runs, seconds=seconds, tell=tell)


def run_compared(
    first: Setup | FreshRun,
    others: Callable[[bool], Sequence[Setup]],
    feeds: Path,
    dims: Dims,
    *,
    seed: int = 0,
    runs: int = RUNS,
    seconds: float = SECONDS,
    least: int = LEAST_RUNS,
    tell: Tell | None = None,
) -> list[FreshRun]:
    """Open models in fresh processes and run them in turn on the same random inputs. `first`: a model, or what a single
    run of it took. `others`: those to compare with it, by whether a run of it takes longer than `SLOW_SECONDS`: then
    each is run once, and its process ends before the next begins. `feeds`: the file of the inputs, which a process of
    its own draws if it is not there. `runs`, `seconds`, `least`: runs of each model; fewer, but so many at least, if
    they take longer. `tell` is called with what is being done. Raises `InputError`: onnxruntime does not open or run
    one of them."""
    workers: list[_Worker] = []
    single = [first] if isinstance(first, FreshRun) else []
    tell, opened = tell or _say_nothing, feeds
    try:
        if isinstance(first, Setup):
            opened = first.model
            tell("measuring the model as it is in onnxruntime")
            drew = not feeds.exists()
            workers.append(_Worker(first, feeds, dims, seed))
            if workers[0].seconds > SLOW_SECONDS:
                single.append(workers[0].single_run())
            elif drew:
                workers.pop().stop()  # what draws them is not measured: it takes memory itself
                workers.append(_Worker(first, feeds, dims, seed))
        setups = others(bool(single))
        for k, setup in enumerate(setups):
            opened = setup.model
            which = f"plan {k + 1} of {len(setups)}" if len(setups) > 1 else "the plan"
            once = f": one run of about {single[0].seconds[0]:.0f} s (Ctrl-C keeps the plan so far)" if single else ""
            tell(f"measuring {which} in onnxruntime{once}")
            workers.append(_Worker(setup, feeds, dims, seed))
            if single:
                single.append(workers[-1].single_run())
        if single:
            return single
        for worker in workers:
            worker.warm_up()
        tell(f"measuring in onnxruntime: runs of {len(workers)} processes in turn")
        taken = in_turn([worker.run for worker in workers], runs, seconds, least)
        return [FreshRun(tuple(s), w.end(), w.base_bytes) for s, w in zip(taken, workers, strict=True)]
    except (OSError, ValueError, KeyError):  # a process that died leaves half a line, or none
        raise InputError("onnxruntime's process ended before it was done", str(opened)) from None
    finally:
        for worker in workers:
            worker.stop()


def _say_nothing(_: str) -> None: ...


@dataclass(frozen=True)
class FreshRun:
    """A model in a fresh process: seconds of each run, most memory of the process, and that before it was opened.

    `warm`: whether other runs came before these; else there was one run in all.
    """

    seconds: tuple[float, ...]
    peak_bytes: int
    base_bytes: int
    warm: bool = True

    @property
    def model_bytes(self) -> int:
        """Memory of the process above that before the model was opened."""
        return self.peak_bytes - self.base_bytes

    @property
    def median_seconds(self) -> float:
        """The median run."""
        return statistics.median(self.seconds)


def slowdown(before: FreshRun, after: FreshRun) -> float:
    """How many times longer a run takes: the median over pairs of runs that followed each other; of single runs the
    fastest of each."""
    if not before.warm:
        return min(after.seconds) / min(before.seconds)
    return statistics.median(b / a for a, b in zip(before.seconds, after.seconds, strict=True))


def time_onnx(original: Setup, planned: Setup, feeds: Path, dims: Dims, seed: int) -> Timing | None:
    """Run two ONNX files in turn, in `PAIRS` pairs of fresh processes. None if one of them cannot be run so."""
    pairs: list[tuple[FreshRun, FreshRun]] = []
    began = time.perf_counter()
    try:
        for k in range(PAIRS):  # the second in each pair finds the machine warmer
            if pairs and time.perf_counter() - began > PAIRS_SECONDS:
                break
            swapped = k % 2 == 1
            setups = [planned, original] if swapped else [original, planned]
            first, second = run_fresh(setups, feeds, dims, seed=seed, runs=RUNS // PAIRS, seconds=SECONDS / PAIRS)
            pairs.append((second, first) if swapped else (first, second))
    except InputError:
        return None
    before, after = zip(*pairs, strict=True)
    return Timing(
        sum(len(one.seconds) for one in before),
        statistics.median(s for one in before for s in one.seconds),
        statistics.median(s for one in after for s in one.seconds),
        max(one.peak_bytes for one in before),
        max(one.peak_bytes for one in after),
        tuple(FreshPair(a.model_bytes, b.model_bytes, a.base_bytes, slowdown(a, b)) for a, b in pairs),
    )


def in_turn(
    runs: Sequence[Callable[[], float]], most: int = RUNS, limit: float = SECONDS, least: int = LEAST_RUNS
) -> list[list[float]]:
    """Seconds that each of some calls returns, called in turn; each call rests after its run (`fresh_process.rest`)."""
    seconds: list[list[float]] = [[] for _ in runs]
    began = time.perf_counter()
    while len(seconds[0]) < min(least, most) or (len(seconds[0]) < most and time.perf_counter() - began < limit):
        for taken, run in zip(seconds, runs, strict=True):
            taken.append(run())
    return seconds


class _Worker:
    """A model in its process (`fresh_process`)."""

    def __init__(self, setup: Setup, feeds: Path, dims: Dims, seed: int) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lowtide.run.fresh_process"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
        )  # fmt: skip
        request = {
            "path": str(setup.model), "session": None if setup.session is None else str(setup.session),
            "dims": dict(dims), "seed": seed, "feeds": str(feeds), "outputs": str(setup.outputs),
        }  # fmt: skip
        try:
            self._send(json.dumps(request))
            answer = self._answer()
        except BaseException:  # Ctrl-C as well: only this call knows the process yet
            self.stop()
            raise
        if "error" in answer:
            self.stop()
            raise InputError(f"onnxruntime cannot run it: {answer['error']}", str(setup.model))
        self.base_bytes: int = answer["base_bytes"]
        self.seconds: float = answer["seconds"]
        """Of the first run, which is done."""

    def warm_up(self) -> None:
        """Run it on the other input, before runs that count."""
        self.run("next")

    def run(self, which: str = "") -> float:
        """Seconds of a run."""
        self._send(which)
        return self._answer()["seconds"]

    def single_run(self) -> FreshRun:
        """The first run alone."""
        return FreshRun((self.seconds,), self.end(), self.base_bytes, warm=False)

    def end(self) -> int:
        """Most bytes that the process had; its outputs are written."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak: int = self._answer()["peak_bytes"]
        self._answer()
        return peak

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
