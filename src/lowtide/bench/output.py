"""Files of results: JSON for programs, CSV for tables, Markdown and SVG for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TypeAlias

import msgspec

from lowtide.bench import arena_tables, ort, pte, spill_tables, tables, tflm
from lowtide.bench.allocation import Arenas
from lowtide.bench.drawing import histogram, svg
from lowtide.bench.ort import OrtResults
from lowtide.bench.pte import ExecutorchResults
from lowtide.bench.sampling import Distribution
from lowtide.bench.spilling import SpillResults
from lowtide.bench.suite import Results
from lowtide.bench.tflm import TfliteResults
from lowtide.errors import InputError
from lowtide.outputs import Outputs

Tables: TypeAlias = Results | Arenas | SpillResults | OrtResults | TfliteResults | ExecutorchResults

_TABLES = {
    "schedule": tables,
    "allocate": arena_tables,
    "spill": spill_tables,
    "onnxruntime": ort,
    "tflite": tflm,
    "executorch": pte,
}
"""Suite to what makes its tables: `text`, `csv_text` and `markdown`, each of the results."""


def to_json(results: Tables | Distribution) -> bytes:
    """The dataclass by its fields."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def to_text(suite: str, results: Tables) -> str:
    """The tables of a suite, for a terminal."""
    return _TABLES[suite].text(results)


def write_tables(suite: str, results: Tables, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``SUITE[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"{suite}-{label}" if label else suite
    return _write(
        directory,
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": _TABLES[suite].csv_text(results).encode(),
            f"{stem}.md": _TABLES[suite].markdown(results).encode(),
        },
    )


def write_distribution(found: Distribution, directory: str | Path) -> list[Path]:
    """Write ``space-NETWORK.json``, ``.txt`` and ``.svg``. Raises `InputError` if that is not possible."""
    stem = "space-" + re.sub(r"[^A-Za-z0-9_.=-]", "_", found.network)
    return _write(
        directory,
        {
            f"{stem}.json": to_json(found),
            f"{stem}.txt": (histogram(found) + "\n").encode(),
            f"{stem}.svg": svg(found).encode(),
        },
    )


def write_overlap(table: str, directory: str | Path) -> list[Path]:
    """Write ``tflite-overlap.md``. Raises `InputError` if that is not possible."""
    return _write(directory, {"tflite-overlap.md": table.encode() + b"\n"})


def make_directory(directory: str | Path) -> None:
    """Make the directory that results go to; `InputError` if that is not possible, before anything is measured."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this directory: {error.strerror}; name another one", str(directory)) from None


def _write(directory: str | Path, data: dict[str, bytes]) -> list[Path]:
    make_directory(directory)
    paths = [Path(directory) / name for name in data]
    with Outputs() as outputs:
        for path, content in zip(paths, data.values(), strict=True):
            outputs.write(path, content)
    return paths
