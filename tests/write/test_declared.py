"""The size that firmware declares: one number, whoever says it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lowtide import api
from lowtide.write.declared import declared_of
from support.command import Captured, run
from support.tflite_builder import branches, residual

BUILDS = ("tflm", "tflm,pointer=32", "tflm,pointer=32,kernels=cmsis_nn", "tflm,kernels=reference")


def defined(path: Path, end: str) -> int:
    """The value of the one macro that ends so."""
    (value,) = re.findall(rf"^#define NET_?\w*?{end} (\d+)$", path.read_text(), re.MULTILINE)
    return int(value)


@pytest.mark.slow
@pytest.mark.parametrize("target", BUILDS)
@pytest.mark.parametrize("make", [residual, branches])
def test_header_buffer_plan_check_and_plan_say_one_size(make, target: str, tmp_path: Path, capsys: Captured):
    """ARENA_SIZE of both headers, what `check` requires and what `plan` requires are one number."""
    model, header, buffers = tmp_path / "net.tflite", tmp_path / "a.h", tmp_path / "b.h"
    model.write_bytes(make().bytes())
    files = ("--header", header, "--buffer-plan", buffers)
    status, out, _ = run(capsys, "research", "plan", model, "--target", target, *files, "--json")
    assert status == 0
    planned = json.loads(out)["required_bytes"]
    _, out, _ = run(capsys, "check", model, "--target", target, "--budget", str(planned), "--json")
    checked = json.loads(out)["required_bytes"]
    assert {planned, checked, defined(header, "_ARENA_SIZE"), defined(buffers, "_ARENA_SIZE")} == {planned}


@pytest.mark.slow
def test_the_screen_says_it_too(tmp_path: Path, capsys: Captured):
    """The summary of `plan` prints the size that the header has, and `check` accepts it and not 16 bytes less."""
    model, header = tmp_path / "net.tflite", tmp_path / "a.h"
    model.write_bytes(residual().bytes())
    _, out, _ = run(capsys, "research", "plan", model, "--header", header)
    size = defined(header, "_ARENA_SIZE")
    assert f"{size:,} B" in out
    assert run(capsys, "check", model, "--budget", str(size))[0] == 0
    assert run(capsys, "check", model, "--budget", str(size - 16))[0] in (3, 4)


@pytest.mark.parametrize("target", BUILDS)
def test_the_parts_add_up(target: str, tmp_path: Path):
    """What the comment lists is all of it, and it stands in the header."""
    model = tmp_path / "net.tflite"
    model.write_bytes(branches().bytes())
    plan = api.plan(model, target=target)
    (arena,) = declared_of(plan).values()
    assert sum(size for _, size in arena.parts) == arena.bytes == plan.required_bytes
    api.export(plan, model, header=tmp_path / "a.h")
    text = (tmp_path / "a.h").read_text()
    for words, size in arena.parts:
        assert f"{size:,} {words}\n" in text


def test_the_arena_of_other_targets_is_the_layouts(tmp_path: Path):
    """Where no runtime keeps anything beside the tensors, the declared bytes are the arena's."""
    model = tmp_path / "net.tflite"
    model.write_bytes(residual().bytes())
    plan = api.plan(model, target="generic")
    assert declared_of(plan) == {}
    api.export(plan, model, header=tmp_path / "a.h")
    assert defined(tmp_path / "a.h", "_ARENA_SIZE") == plan.arena_bytes == plan.required_bytes
