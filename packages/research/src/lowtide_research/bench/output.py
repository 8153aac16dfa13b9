"""Results as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lowtide.errors import InputError
from lowtide.outputs import Outputs
from lowtide_research.bench.suite import Results


def write(results: Results[Any], directory: str | Path, label: str = "") -> list[Path]:
    """Write a suite's files, ``SUITE[-LABEL].json`` and what it has beside it, together or not at all. Raises
    `InputError`: that is not possible."""
    make_directory(directory)
    contents = results.suite.files(results, results.suite.stem(results, label))
    paths = [Path(directory) / name for name in contents]
    with Outputs() as outputs:
        for path, content in zip(paths, contents.values(), strict=True):
            outputs.write(path, content.encode())
    return paths


def make_directory(directory: str | Path) -> None:
    """Make the directory that results go to; `InputError` if that is not possible, before anything is measured."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this directory: {error.strerror}; name another one", str(directory)) from None
