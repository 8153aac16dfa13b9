"""TFLM's BufferPlan as a C++ header."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lowtide import api
from lowtide.api.exports import buffer_plan_of
from lowtide.cli import main
from lowtide.errors import InputError
from lowtide.write.buffer_plan import buffer_plan
from lowtide.write.declared import Declared
from support.tflite_builder import residual


def test_the_struct_holds_the_plans_offsets(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """In the order of the tensors in the file, beside the arena's size; a C++ compiler takes it."""
    path, header = tmp_path / "9 lives.tflite", tmp_path / "b.h"
    path.write_bytes(residual().bytes())
    to = ["--buffer-plan", str(header), "--plan", str(tmp_path / "p.json"), "-q"]
    assert main(["research", "plan", str(path), *to, "--set", "kernels=reference"]) == 0
    capsys.readouterr()
    made = api.plan(path, target="auto,kernels=reference")
    text = header.read_text()
    entries = re.search(r"COUNT,\s*\{(.*?)\},\s*\};", text, re.DOTALL)
    assert entries is not None
    offsets = [int(n) for n in entries[1].split(",")]
    assert offsets == [at for _, at in sorted((int(t), at) for t, at in (made.offsets or {}).items())]
    assert f"#define NET_9_LIVES_ARENA_SIZE {made.runtime_arena_bytes}\n" in text
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is not None:
        call = [compiler, "-fsyntax-only", "-x", "c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-"]
        use = b"\nint main() { return net_9_lives_buffer_plan.buffer_plan_entries[0]; }\n"
        subprocess.run(call, input=header.read_bytes() + use, check=True, capture_output=True)


def test_kernels_that_are_not_named_are_those_that_need_most(tmp_path: Path):
    """Their scratch is among the buffers, and the header says whose they are."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    made = api.plan(path, target="tflm,pointer=32")
    assert made.runtime_parts is not None
    assert made.runtime_parts.decided_by == "cmsis_nn"
    text = buffer_plan_of(made, path).decode()
    count = re.search(r"BUFFER_COUNT (\d+)", text)
    assert count is not None
    assert int(count[1]) > len(made.offsets or {})
    assert "with CMSIS-NN (dsp)" in text


def test_a_model_without_buffers():
    """Still a valid array."""
    assert b"buffer_plan_entries[1]" in buffer_plan("", [], 0, Declared(512, 16, (), "An estimate"))


def test_it_is_for_tflm_only(tmp_path: Path):
    """Under another target there is no such plan."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    with pytest.raises(InputError, match="under target tflm"):
        buffer_plan_of(api.plan(path, target="strict"), path)
