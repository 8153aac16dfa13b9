"""What lowtide says of an arena, against the record of running it: with so many bytes, and with 16 fewer."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lowtide.rules.tflm.libraries import LIBRARIES

BENCH = Path(__file__).parents[2] / "bench"
RECORD = json.loads((BENCH.parent / "results/tflm-enough.json").read_text())
ROWS: list[dict[str, Any]] = RECORD["rows"]


def script() -> ModuleType:
    """`bench/tflm32/enough.py`."""
    spec = importlib.util.spec_from_file_location("tflm_enough", BENCH / "tflm32/enough.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_figure_was_enough_and_those_called_exact_are_tight() -> None:
    """Under all libraries for a plan that names none, and under the one that it names."""
    assert RECORD["kernels"] == list(LIBRARIES)
    module = script()
    for row in ROWS:
        assert module.held(module.Row(**row)), row
        wanted = set(LIBRARIES) if row["plan"] == "any" else {row["plan"]}
        assert set(row["works"]) <= wanted
        if row["source"] == "file":
            assert set(row["works"]) == wanted
        if row["plan"] == "any":
            assert row["bytes"] == max(row["arenas"].values()) == row["arenas"][row["decided_by"]]
    deciding = {row["decided_by"] for row in ROWS if row["plan"] == "any"}
    assert deciding >= {"reference", "cmsis_nn"}


@pytest.mark.parametrize("part", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_lowtide_says_what_was_run(tmp_path: Path, part: int) -> None:
    """The figures of today for the nets that the script draws are those of the record."""
    module = script()
    recorded = {(row["model"], row["plan"]): row for row in ROWS if row["source"] == module.DRAWN}
    path, seen = tmp_path / "m.tflite", 0
    for name, data in list(module.drawn())[:: RECORD["every"]][::part]:
        path.write_bytes(data)
        if (name, "any") not in recorded:
            assert name in RECORD["not_run"]
            continue
        for kernels, plan in module.figures(path):
            row = recorded.get((name, kernels))
            if row is not None:
                assert module.said(plan) == {key: row[key] for key in ("bytes", "decided_by", "exact", "arenas")}, name
                seen += 1
    assert seen >= 120 // part
