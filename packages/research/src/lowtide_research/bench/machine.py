"""What a result was measured on: version, commit, processor, Python. No names of users, hosts or directories."""

from __future__ import annotations

import os
import platform
import subprocess
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import lowtide
from lowtide.run.timing import cpu_name


@dataclass(frozen=True)
class Machine:
    """`commit` is None outside a checkout of lowtide, and ends in ``+`` where tracked files differ from it,
    other than results."""

    lowtide: str
    commit: str | None
    python: str
    system: str
    cpu: str
    cores: int


def machine() -> Machine:
    """The one that this runs on."""
    return Machine(
        lowtide=lowtide.__version__,
        commit=_commit(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.machine()}",
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
    )


def _commit() -> str | None:
    """Of the checkout that this package lies in; an installed package may lie in somebody else's."""
    root = Path(lowtide.__file__).resolve().parents[2]
    if not ((root / ".git").exists() and (root / "core").is_dir()):
        return None
    head = _git(root, "rev-parse", "HEAD")
    # Results are left out: a run that writes its page row by row does not change what it measures.
    changed = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!packages/research/results")
    return head if not head or not changed else f"{head}+"


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


T = TypeVar("T")

SHORT_SECONDS = 0.5
MOST_RUNS = 5
"""A run shorter than this is repeated up to so often; the best time counts."""


def quickest(call: Callable[[], T], stopped: Callable[[T], str], most_runs: int = MOST_RUNS) -> tuple[T, float, int]:
    """The last result, the least processor seconds of all threads, and the number of runs. `stopped`: why a result's
    search ended; one that ``"time"`` or ``"memory"`` ended is not repeated. Raises `KeyboardInterrupt`: a result's
    search ended by ``"interrupt"``, that is Ctrl-C."""
    least, runs = float("inf"), 0
    while True:
        began = clock.process_time()
        result = call()
        least, runs = min(least, clock.process_time() - began), runs + 1
        if stopped(result) == "interrupt":
            raise KeyboardInterrupt
        if least > SHORT_SECONDS or runs == most_runs or stopped(result) in ("time", "memory"):
            return result, least, runs


def one_line(error: Exception) -> str:
    """The reason that a row gives for an error: one that fails is a row, and the others go on."""
    return " ".join(f"{type(error).__name__}: {error}".split())
