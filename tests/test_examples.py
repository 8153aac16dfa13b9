"""The C++ example, from a model to a running program, where a compiler and TFLM's sources are there.

LOWTIDE_TFLM names the sources as bench/tflm32/README.md lists them; LOWTIDE_TFLM_BUILD a folder for what is compiled of
them, which takes some minutes the first time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lowtide.cli import main
from support.tflite_builder import branches, residual

ROOT = Path(__file__).parents[1]
SOURCES = os.environ.get("LOWTIDE_TFLM", "")
GOALS = {
    "one arena": ["--set", "pointer=64,interpreter=plain"],
    "two arenas": ["--bank", "sram=64KiB", "--bank", "psram=64KiB", "--place", "tail=psram", "--set", "pointer=64"],
}
needs_sources = pytest.mark.skipif(
    not SOURCES or shutil.which("g++") is None or not (ROOT / "packages/research/bench").exists(),
    reason="needs g++, a clone, and TFLM's sources: LOWTIDE_TFLM=SOURCES (bench/tflm32/README.md)",
)


def built(folder: Path) -> Path:
    """The example, compiled for the files of a folder."""
    build = Path(os.environ.get("LOWTIDE_TFLM_BUILD", folder / "build"))
    build.mkdir(parents=True, exist_ok=True)
    words = [f'-DMODEL="{folder / "net.planned.tflite"}"', f'-DARENA="{folder / "net_arena.h"}"']
    script = [
        sys.executable,
        str(ROOT / "packages/research/bench/tflm32/build.py"),
        SOURCES,
        str(build),
        "--bits",
        "64",
    ]
    subprocess.run([*script, "--main", str(ROOT / "examples/tflm/main.cc"), *words], check=True, capture_output=True)
    return build / "main-64-reference"


def expected(model: Path) -> list[int]:
    """Output of the model as it stands in the pip package, for the input that the example takes."""
    runtime = pytest.importorskip("tflite_micro", reason="pip install 'lowtide[tflite]'").runtime
    import numpy as np

    interpreter = runtime.Interpreter.from_bytes(model.read_bytes(), arena_size=1 << 20)
    shape = interpreter.get_input_details(0)["shape"]
    ramp = (37 * np.arange(np.prod(shape)) + 11) % 256
    interpreter.set_input(ramp.astype(np.uint8).view(np.int8).reshape(shape), 0)
    interpreter.invoke()
    return [int(n) for n in interpreter.get_output(0).flatten()]


def test_the_example_says_how_it_is_made():
    """Its first lines are commands that there are, with options that there are."""
    text = (ROOT / "examples/tflm/main.cc").read_text()
    for option in ("--header", "--set pointer=32", "--board esp32s3", "--place tail=psram"):
        assert option in text
    assert "NET_HEAD_ARENA_SIZE" in text


@needs_sources
@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("make", [branches, residual])
def test_the_example_runs_in_what_it_declares(make, goal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """It starts in the arena of the header, uses all of it, and gives the output of the model as it stands."""
    model = tmp_path / "net.tflite"
    model.write_bytes(make().bytes())
    files = ["-o", str(tmp_path / "net.planned.tflite"), "--header", str(tmp_path / "net_arena.h"), "-q"]
    assert main(["research", "plan", str(model), *files, *GOALS[goal]]) == 0
    capsys.readouterr()
    seen = subprocess.run([str(built(tmp_path))], capture_output=True, text=True, check=True).stdout
    sizes = re.search(r"declared (\d+), used (\d+)", seen)
    assert sizes is not None, seen
    declared, used = int(sizes[1]), int(sizes[2])
    assert 0 <= declared - used < 32
    values = [int(n) for n in seen.splitlines()[1].partition(":")[2].split()]
    assert values == expected(model)[: len(values)]
    assert values


@needs_sources
@pytest.mark.slow
def test_16_bytes_less_are_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The header's size is the smallest with which TFLM starts."""
    model, header = tmp_path / "net.tflite", tmp_path / "net_arena.h"
    model.write_bytes(branches().bytes())
    files = ["-o", str(tmp_path / "net.planned.tflite"), "--header", str(header), "-q"]
    assert main(["research", "plan", str(model), *files, *GOALS["one arena"]]) == 0
    capsys.readouterr()
    text = header.read_text()
    size = re.search(r"#define NET_ARENA_SIZE (\d+)", text)
    assert size is not None
    header.write_text(text.replace(size[0], f"#define NET_ARENA_SIZE {int(size[1]) - 16}"))
    done = subprocess.run([str(built(tmp_path))], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "the arena is too small" in done.stdout
