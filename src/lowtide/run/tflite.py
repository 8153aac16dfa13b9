"""Runs the original and the planned .tflite file in TFLM and in LiteRT, each against itself, on the same inputs.

The two runtimes may differ from one another by a unit in the last place on one and the same file, so that each is
compared with itself. Each runs in a process of its own (`tflite_process`). What the plan says was written before.
"""

from __future__ import annotations

import importlib.util
import statistics
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import InputError, MissingExtraError, VerificationError
from lowtide.plan import Plan
from lowtide.run.forks import CallEndedError, call
from lowtide.run_reports import (
    MeasuredArena,
    OutputComparison,
    PackageArena,
    RuntimeRun,
    TfliteRunReport,
    Timing,
)

RUNTIMES = {"tflm": "tflite_micro", "litert": "ai_edge_litert", "litert-xnnpack": "ai_edge_litert"}
"""What is run, and the package that brings it. LiteRT runs without delegates, and once more with XNNPACK."""
PACKAGE = "tflm,kernels=reference,interpreter=recording"
"""The target whose build the pip package is."""
INPUTS = 20
_PATIENCE_SECONDS = 600


def run_tflite(
    original: Path, planned: Path, plan: Plan, *, seed: int = 0, inputs: int = INPUTS, timed: bool = False
) -> TfliteRunReport:
    """Run two files on the same random inputs and compare what comes out.

    `original`, `planned`: the model and what `lowtide plan` wrote. `plan`: the plan of `planned`. `inputs`: how many
    different random inputs. `timed`: whether to run both in turn, for `RuntimeRun.timing`. Raises `InputError`: no
    runtime runs the original. Raises `MissingExtraError`: neither tflite-micro nor ai-edge-litert is installed. Raises
    `VerificationError`: ``run``: a runtime runs the original and not the planned file.
    """
    tensors = [_in_arena(path) for path in (original, planned)]
    there = [name for name, package in RUNTIMES.items() if importlib.util.find_spec(package) is not None]
    if not there:
        raise MissingExtraError("ai-edge-litert or tflite-micro", "tflite", "lowtide verify --run")
    runs = []
    for name in there:
        answer = ask(name, [str(original), str(planned)], seed, inputs, tensors, timed=timed)
        if "error" in answer:
            if answer.get("file") == str(planned):
                raise VerificationError("run", f"{name} runs the original and not {planned}: {answer['error']}")
            runs.append(RuntimeRun(name, refused=answer["error"]))
            continue
        arenas = [MeasuredArena(**m) if "head_bytes" in m else None for m in answer["measured"]]
        sizes = [m.get("arena_bytes") for m in answer["measured"]]
        outputs = tuple(OutputComparison(f"{name} output {i}", **o) for i, o in enumerate(answer["outputs"]))
        runs.append(
            RuntimeRun(
                name, outputs, answer["deterministic"], arenas[0], arenas[1], sizes[0], sizes[1],
                timing=_timing(answer.get("seconds")),
            )
        )  # fmt: skip
    if all(r.refused for r in runs):
        raise InputError("no runtime runs it: " + "; ".join(f"{r.runtime}: {r.refused}" for r in runs), str(original))
    parts = plan.runtime_parts
    return TfliteRunReport(
        tuple(runs),
        inputs,
        parts.planned if parts is not None else None,
        plan.runtime_arena_bytes,
        package_arena(planned) if parts is not None else None,
        "" if parts is None else parts.build,
        package_arena(original) if parts is not None else None,
    )


def _in_arena(path: Path) -> list[int]:
    """Tensors of a file that are no constants."""
    from lowtide.graph import Kind
    from lowtide.read.tflite.reader import read_tflite

    return [t.id for t in read_tflite(path).tensors if t.kind is not Kind.CONSTANT]


def _timing(seconds: list[list[float]] | None) -> Timing | None:
    if seconds is None:
        return None
    before, after = (statistics.median(taken) for taken in seconds)
    return Timing(len(seconds[0]), before, after)


def package_arena(path: Path) -> PackageArena | None:
    """What the pip package takes for a file with the offline plan that it holds; None if that is not known."""
    from lowtide.read.tflite.reader import read_tflite
    from lowtide.runtimes.tflm.arena import Tflm
    from lowtide.target import resolve

    arena = Tflm(resolve(PACKAGE)).of_unmodified(read_tflite(path))
    if arena is None:
        return None
    parts = arena.parts
    return PackageArena(
        arena.planned_bytes, arena.required_bytes, parts.exact, parts.build, unknown=bool(parts.unknown)
    )


def ask(
    runtime: str, files: list[str], seed: int, inputs: int, tensors: Sequence[Sequence[int]], *, timed: bool = False
) -> dict[str, Any]:
    """Run files in one runtime, in a process of its own. Its answer, or ``{"error": why}``."""
    return _called("answer", files[0], runtime, files, seed, inputs, tensors, timed)


def tflm_vectors(file: Path, seed: int, inputs: int) -> tuple[bytes, bytes] | str:
    """Random inputs and what TFLM makes of them in turn, in a process of its own; or why there are none."""
    if importlib.util.find_spec(RUNTIMES["tflm"]) is None:
        return "the package tflite-micro is not installed"
    answer = _called("vectors", str(file), str(file), seed, inputs)
    return answer["error"] if "error" in answer else (b64decode(answer["given"]), b64decode(answer["results"]))


def ask_to_open(runtimes: Sequence[str], file: str) -> dict[str, str]:
    """Open a file in runtimes, in a process of its own: which of them refuse it, and why."""
    answer = _called("refusals", file, file, list(runtimes))
    return {" or ".join(runtimes): answer["error"]} if "error" in answer else answer


def _called(function: str, file: str, *arguments: Any) -> dict[str, Any]:
    """What a function of `tflite_process` returns in a process of its own; ``{"error": why, "file": file}`` if that
    does not end well."""
    try:
        return call("tflite", f"lowtide.run.tflite_process:{function}", *arguments, seconds=_PATIENCE_SECONDS)
    except CallEndedError as error:
        return {"error": f"its process ended: {error}", "file": file}
