"""What a newcomer copies: the examples of five kinds of users, short, and run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lowtide

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
MOST_LINES = 40
LONGER = "examples/tflm/main.cc"
pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="needs a clone: the examples are not in the package")


def run(script: str, *arguments: object, path: Path | None = None) -> str:
    """What an example prints, run as its users do."""
    places = [str(Path(lowtide.__file__).parents[1]), *([] if path is None else [str(path)])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])}
    words = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_are_short():
    """The programs of one page, in any language; the page says why one is longer."""
    files = [path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".c", ".cc", ".cpp", ".h")]
    assert len(files) >= 8
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name for name, count in lines.items() if count > MOST_LINES} == {LONGER}
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert f"`{LONGER.removeprefix('examples/')}` is longer, as" in page


@pytest.mark.slow
def test_a_microcontroller(tmp_path: Path):
    """Everything that main.cc includes is written, and the arena that it declares is smaller."""
    from support.tflite_builder import branches

    model = tmp_path / "net.tflite"
    model.write_bytes(branches().bytes())
    words = run("microcontroller/plan.py", model, tmp_path)
    before, after = (int(n.replace(",", "")) for n in re.findall(r"([\d,]+) B", words.splitlines()[0]))
    assert after < before
    text = (EXAMPLES / "microcontroller/main.cc").read_text(encoding="utf-8")
    made = re.findall(r'#include "(net_\w+\.h)"', text)
    assert len(made) == 3
    assert all((tmp_path / name).is_file() for name in made)
    assert f"#define NET_ARENA_SIZE {after}" in (tmp_path / "net_arena.h").read_text()
    assert "resolver.AddConv2D();" in (tmp_path / "net_ops.h").read_text()
    plan = tmp_path / "net.plan.json"
    assert lowtide.verify(model, plan).checks


@pytest.mark.slow
def test_the_call_of_the_tutorial(tmp_path: Path):
    """As the page has it, into a folder that is not there yet; without a model it is said how it is called."""
    from support.tflite_builder import branches

    page = (ROOT / "docs/tflite.md").read_text(encoding="utf-8")
    call = re.search(r"`python examples/(microcontroller/plan\.py) (\S+) (\S+)`", page)
    assert call is not None
    script, model, folder = call.groups()
    (tmp_path / model).write_bytes(branches().bytes())
    run(script, tmp_path / model, tmp_path / "new" / folder)
    assert len(list((tmp_path / "new" / folder).glob("net_*.h"))) == 3
    done = subprocess.run([sys.executable, EXAMPLES / script], capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "usage:" in done.stderr


STUB = """
#pragma once
#include <cstddef>
#include <cstdint>
enum TfLiteStatus { kTfLiteOk };
struct TfLiteTensor { size_t bytes = 0; union { uint8_t* uint8; int8_t* int8; } data{nullptr}; };
namespace tflite {
struct Model { const void* file; };
inline const Model* GetModel(const void* file) { static Model model; model.file = file; return &model; }
template <unsigned n> struct MicroMutableOpResolver { void AddAdd() {} void AddConv2D() {} };
struct MicroInterpreter {
  template <class R> MicroInterpreter(const Model*, const R&, uint8_t*, size_t size) : used(size) {}
  TfLiteStatus AllocateTensors() { return kTfLiteOk; }
  TfLiteStatus Invoke() { return kTfLiteOk; }
  TfLiteTensor* input(int) { return &tensor; }
  const TfLiteTensor* output(int) { return &tensor; }
  size_t arena_used_bytes() const { return used; }
  TfLiteTensor tensor;
  size_t used;
};
}  // namespace tflite
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_firmware_of_a_microcontroller_compiles(tmp_path: Path):
    """Against TFLM's signatures (tests/test_examples.py has a program that runs in TFLM itself)."""
    from support.tflite_builder import branches

    (tmp_path / "net.tflite").write_bytes(branches().bytes())
    run("microcontroller/plan.py", tmp_path / "net.tflite", tmp_path)
    for name in ("micro/micro_interpreter.h", "micro/micro_mutable_op_resolver.h", "schema/schema_generated.h"):
        file = tmp_path / "tensorflow/lite" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('#include "stub.h"\n')
    (tmp_path / "stub.h").write_text(STUB)
    program = tmp_path / "firmware"
    words = ["g++", "-std=c++17", "-Wall", "-Werror", f"-I{tmp_path}", str(EXAMPLES / "microcontroller/main.cc")]
    subprocess.run([*words, "-o", str(program)], check=True)
    seen = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    size = re.search(r"#define NET_ARENA_SIZE (\d+)", (tmp_path / "net_arena.h").read_text())
    assert size is not None
    assert f"declared {size[1]}," in seen


@pytest.mark.slow
def test_a_compiler(tmp_path: Path):
    """Offsets of its own graph, and the sum where its operand was."""
    words = run("compiler/offsets.py", tmp_path / "net.graph.json")
    places = dict(re.findall(r"^(\w+) +at +(\d+)", words, re.MULTILINE))
    assert (places["sum"], len(places)) == (places["a"], 6)
    assert "arena 49152 B, peak 49152 B, proved optimal: True" in words


@pytest.mark.slow
def test_a_researcher(tmp_path: Path):
    """The method, installed by its own pyproject.toml, is a row of `compare` and checked as the others."""
    project = tomllib.loads((EXAMPLES / "research/pyproject.toml").read_text(encoding="utf-8"))["project"]
    (points,) = project["entry-points"].items()
    info = tmp_path / "lowtide_smallest-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text(f"[{points[0]}]\n" + "".join(f"{k} = {v}\n" for k, v in points[1].items()))
    shutil.copy(EXAMPLES / "research/smallest.py", tmp_path)
    places = [str(Path(lowtide.__file__).parents[1]), str(tmp_path), os.environ.get("PYTHONPATH", "")]
    words = (
        "research compare zoo:swiftnet_cell_a --target strict --methods own,smallest,exact --set smallest.during=true"
    )
    done = subprocess.run(
        [sys.executable, "-m", "lowtide", *words.split()], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
    )  # fmt: skip
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("smallest")]
    peak = int(re.findall(r"[\d,]{5,}", row)[0].replace(",", ""))
    assert 200_704 <= peak <= 376_320


@pytest.mark.slow
def test_pictures(tmp_path: Path):
    """A report, figures, and what a notebook shows."""
    words = run("pictures/report.py", "zoo:swiftnet_cell_a", tmp_path)
    assert "at step 3" in words
    for name in ("report.html", "trace.json", "figure-live.svg", "after.plan.json"):
        assert (tmp_path / name).stat().st_size > 0
    assert "<script" not in (tmp_path / "cell.html").read_text()
    assert "<svg" in (tmp_path / "cell.html").read_text()


@pytest.mark.slow
def test_a_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Planned steps within 60 % of the bytes, and the loss falls."""
    pytest.importorskip("torch", reason="pip install '.[torch]'")
    monkeypatch.chdir(tmp_path)
    words = run("training/train.py")
    losses = [float(x) for x in re.findall(r"loss ([\d.]+)", words)]
    assert losses[0] > losses[-1]
    assert (tmp_path / "planned_step.py").is_file()
