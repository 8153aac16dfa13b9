"""A line of a file, broken on purpose, and the run over many of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    """In `file`, `old` (which occurs once) becomes `new`."""

    name: str
    file: str
    old: str
    new: str


def apply(mutation: Mutation, folder: Path) -> None:
    """Change the file in a copy of the folder that it is named in.

    Raises
    ------
    ValueError
        The old text does not occur exactly once.
    """
    path = folder / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise ValueError(f"{mutation.name}: {mutation.old!r} occurs {text.count(mutation.old)} times")
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def options(about: str | None, mutations: Sequence[Mutation], runs: str, many: int) -> tuple[list[Mutation], int]:
    """The mutations that the command line names, or all, and how many runs (`--RUNS N`) each is put through."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument(f"--{runs}", dest="runs", type=int, default=many)
    chosen = parser.parse_args()
    unknown = set(chosen.names) - {m.name for m in mutations}
    if unknown:
        parser.error(f"unknown mutations: {', '.join(sorted(unknown))}")
    return [m for m in mutations if not chosen.names or m.name in chosen.names], chosen.runs


def survivors(mutations: Sequence[Mutation], stress: Callable[[Mutation], tuple[bool, str]]) -> list[str]:
    """Names of those that no stress test notices, each with its line as it is known.

    `stress` says of a mutation whether all went well with it, and the last word.
    """
    names: list[str] = []
    for mutation in mutations:
        began = time.perf_counter()
        passed, word = stress(mutation)
        verdict = "SURVIVED" if passed else "caught"
        print(f"{verdict:8} {mutation.name:32} {time.perf_counter() - began:5.1f} s  {word[:100]}", flush=True)
        if passed:
            names.append(mutation.name)
    print(f"{len(mutations)} mutations, {len(names)} survived: {' '.join(names) or 'none'}")
    return names
