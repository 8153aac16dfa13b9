"""What a result was measured on: version, commit, processor, Python. No names of users, hosts or directories."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import lowtide
from lowtide.run.timing import cpu_name


@dataclass(frozen=True)
class Machine:
    """`commit` is None outside a checkout of lowtide, and ends in ``+`` where tracked files differ from it."""

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
    head, changed = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--untracked-files=no")
    return head if not head or not changed else f"{head}+"


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
