"""Files of results: JSON for programs, CSV for tables, Markdown and SVG for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

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
from lowtide.write.atomic import Outputs


def to_json(
    results: Results | Distribution | OrtResults | TfliteResults | ExecutorchResults | Arenas | SpillResults,
) -> bytes:
    """The dataclass by its fields."""
    return msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n"


def write_results(results: Results, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``schedule[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"schedule-{label}" if label else "schedule"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": tables.csv_text(results).encode(),
            f"{stem}.md": tables.markdown(results).encode(),
        },
    )


def write_arenas(found: Arenas, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``allocate[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"allocate-{label}" if label else "allocate"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(found),
            f"{stem}.csv": arena_tables.csv_text(found).encode(),
            f"{stem}.md": arena_tables.markdown(found).encode(),
        },
    )


def write_distribution(found: Distribution, directory: str | Path) -> list[Path]:
    """Write ``space-NETWORK.json``, ``.txt`` and ``.svg``. Raises `InputError` if that is not possible."""
    stem = "space-" + re.sub(r"[^A-Za-z0-9_.=-]", "_", found.network)
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(found),
            f"{stem}.txt": (histogram(found) + "\n").encode(),
            f"{stem}.svg": svg(found).encode(),
        },
    )


def write_ort(results: OrtResults, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``onnxruntime[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"onnxruntime-{label}" if label else "onnxruntime"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": ort.csv_text(results).encode(),
            f"{stem}.md": ort.markdown(results).encode(),
        },
    )


def write_tflite(results: TfliteResults, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``tflite[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"tflite-{label}" if label else "tflite"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": tflm.csv_text(results).encode(),
            f"{stem}.md": tflm.markdown(results).encode(),
        },
    )


def write_executorch(results: ExecutorchResults, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``executorch[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"executorch-{label}" if label else "executorch"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": pte.csv_text(results).encode(),
            f"{stem}.md": pte.markdown(results).encode(),
        },
    )


def write_spill(results: SpillResults, directory: str | Path, label: str = "") -> list[Path]:
    """Write ``spill[-LABEL].json``, ``.csv`` and ``.md``. Raises `InputError` if that is not possible."""
    stem = f"spill-{label}" if label else "spill"
    return _write(
        Path(directory),
        {
            f"{stem}.json": to_json(results),
            f"{stem}.csv": spill_tables.csv_text(results).encode(),
            f"{stem}.md": spill_tables.markdown(results).encode(),
        },
    )


def write_overlap(table: str, directory: str | Path) -> list[Path]:
    """Write ``tflite-overlap.md``. Raises `InputError` if that is not possible."""
    return _write(Path(directory), {"tflite-overlap.md": table.encode() + b"\n"})


def _write(directory: Path, data: dict[str, Any]) -> list[Path]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make this directory: {error.strerror}; name another one", str(directory)) from None
    with Outputs() as outputs:
        for name, content in data.items():
            outputs.write(directory / name, content)
    return [directory / name for name in data]
