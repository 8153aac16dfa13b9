"""Models as onnxruntime's optimiser leaves them, and their processor time, in turn, in a process of their own.

Where much was allocated and freed before, the allocator takes longer for small tensors: a plan of 1,280 ops that takes
25 % longer took 236 % behind the measurements of a cost file.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from lowtide.run.optimise_process import optimize
from lowtide.run.ort_session import SessionSettings
from lowtide.run.random_weights import with_random_weights

RUNS, LEAST_RUNS, SECONDS = 15, 4, 2.0
"""Runs of each in turn, and the time after which a round ends with fewer, but no fewer than so many."""


def optimised_model(model: Path, folder: Path) -> Path:
    """A model, with random weights where it has none, as the optimiser's level "extended" leaves it in a folder."""
    weighted, optimised = folder / f"{model.stem}.weights.onnx", folder / f"{model.stem}.opt.onnx"
    with_random_weights(model, weighted)
    optimize(weighted, optimised, {}, "extended")
    return optimised


def milliseconds_in_turn(files: Sequence[tuple[Path, SessionSettings]], rounds: int = 1) -> list[list[float]]:
    """Of each round the median of each file's runs, on as many threads as its settings say."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_rounds, list(files), rounds).result()


def _rounds(files: Sequence[tuple[Path, SessionSettings]], rounds: int) -> list[list[float]]:
    from lowtide.run.onnx import draw
    from lowtide.run.ort_session import open_session

    sessions = [open_session(path, replace(settings, profiled=False), "", "") for path, settings in files]
    feeds, _ = draw(sessions[0], files[0][0], 0, 1, {})
    medians: list[list[float]] = []
    for _ in range(rounds):
        taken: list[list[float]] = [[] for _ in files]
        began = time.perf_counter()
        while len(taken[0]) < LEAST_RUNS or (len(taken[0]) < RUNS and time.perf_counter() - began < SECONDS):
            for session, seconds in zip(sessions, taken, strict=True):
                start = time.process_time()
                session.run(None, feeds[0])
                seconds.append(time.process_time() - start)
        medians.append([1e3 * statistics.median(seconds) for seconds in taken])
    return medians
