"""What a first hour showed: README's samples, and the commands that users stumbled over (those that need no file)."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "packages/research/bench"


def _script(name: str) -> ModuleType:
    """A script of the folder `bench`, which is no package."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


REPLAY, CLAIMS = _script("replay"), _script("claims")


@pytest.mark.slow
@pytest.mark.parametrize("row", [r for r in REPLAY.ROWS if "{onnx}" not in r.words and "{tflite}" not in r.words],
                         ids=lambda row: f"{row.name} {row.words}")  # fmt: skip
def test_what_users_stumbled_over_is_as_it_should_be(row, tmp_path: Path) -> None:
    """The command's exit status, and what it has to print."""
    if row.words.startswith("verify {tmp}"):
        pytest.skip("it follows another row; packages/research/bench/replay.py MODELS runs both")
    if "{tmp}/large.onnx" in row.words:
        pytest.skip("it writes 4.5 GB; packages/research/bench/replay.py MODELS runs it")
    outcome = REPLAY.run(row, {"tmp": str(tmp_path), "onnx": "", "tflite": ""})
    assert not outcome.wrong, outcome.printed


def test_rows_without_their_model_are_left_out(tmp_path: Path) -> None:
    """And said to be; a row that is not as it should be says what is wrong."""
    left_out = [row for row in REPLAY.replay(tmp_path, ("A",)) if isinstance(row, REPLAY.Row)]
    needy = [row for row in REPLAY.ROWS if row.name.startswith("A") and re.search(r"\{(onnx|tflite)\}", row.words)]
    assert left_out == needy
    wrong = REPLAY.run(REPLAY.Row("X", "pln", 0, "nothing of the kind"), {})
    assert wrong.wrong == "exit status 2, not 0; no 'nothing of the kind' in it"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["the first screen", "the Python lines"])
def test_readme_prints_what_it_says(name: str, tmp_path: Path) -> None:
    """To the letter, seconds apart."""
    [(_, verdict, found)] = CLAIMS.check(tmp_path, {name: CLAIMS.CLAIMS[name]})
    assert verdict == "holds", found


def test_claims_about_files_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    """Nothing is said of them."""
    needing = {name: claim for name, claim in CLAIMS.CLAIMS.items() if claim[0]}
    assert {verdict for _, verdict, _ in CLAIMS.check(tmp_path, needing)} == {"left out"}
