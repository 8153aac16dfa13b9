"""TFLM's head and tail in two memories: planned, checked, written, and refused where they cannot be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import lowtide
from lowtide import api
from lowtide.errors import InputError, VerificationError
from lowtide.plan import Plan
from lowtide.verify.check.plan import verify_plan
from support.command import Captured, run
from support.tflite_builder import branches, residual

APART = {"banks": ["sram=4800", "psram=64KiB"]}
"""The head of `branches`, 4,032 bytes and its alignment, fits the first memory; head and tail do not."""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small .tflite file."""
    path = tmp_path / "net.tflite"
    path.write_bytes(branches().bytes())
    return path


def sizes(plan: Plan) -> dict[str, int | None]:
    """Bytes in each memory."""
    return {m.name: m.size_bytes for m in plan.memories or []}


def test_head_in_the_fast_memory_and_tail_in_the_slow_one(model: Path):
    """Head and offsets are those of one arena; the tail is what TFLM keeps, with an allocator for each."""
    one = lowtide.research.plan(model, target="tflm,pointer=32")
    plan = lowtide.research.plan(model, **APART)
    assert plan.target == "tflm,pointer=32"
    assert plan.runtime_arenas is not None
    assert (plan.runtime_arenas.head_memory, plan.runtime_arenas.tail_memory) == ("sram", "psram")
    assert one.runtime_parts is not None
    assert plan.runtime_parts is not None
    assert sizes(plan) == {"sram": plan.runtime_parts.planned, "psram": plan.runtime_parts.persistent}
    assert (plan.order, plan.offsets, plan.arena_bytes) == (one.order, one.offsets, one.arena_bytes)
    assert 0 <= plan.runtime_parts.persistent - one.runtime_parts.persistent <= 64
    assert plan.required_bytes == plan.runtime_arena_bytes == sum(m.size_bytes or 0 for m in plan.memories or [])


def test_one_array_where_the_first_memory_holds_it(model: Path):
    """Two arrays are for where one does not fit; a board of one memory has one."""
    one = lowtide.research.plan(model, target="tflm,pointer=32")
    for plan in (
        lowtide.research.plan(model, board="nRF52840"),
        lowtide.research.plan(model, banks=["a=64KiB", "b=64KiB"]),
    ):
        assert next(iter(sizes(plan).values())) == one.required_bytes == plan.required_bytes
        assert plan.runtime_parts == one.runtime_parts
        assert plan.runtime_arenas is not None
        assert not plan.runtime_arenas.has_two_arrays


def test_the_screen_says_what_the_file_takes_today(model: Path, capsys: Captured):
    """TFLM's own head: among today's figures where one array holds all, in a row where there are two."""
    _, out, _ = run(capsys, "research", "plan", model, "--bank", "sram=64KiB", "--bank", "psram=64KiB")
    assert "TFLM today" in out
    assert "TFLM's own head" not in out
    plan = lowtide.research.plan(model, **APART)
    assert plan.runtime_parts is not None
    _, out, _ = run(capsys, "research", "plan", model, "--bank", "sram=4800", "--bank", "psram=64KiB")
    assert "TFLM today" not in out
    assert re.search(rf"TFLM's own head +{plan.runtime_parts.own_planned:,} B", out)


def test_boards_have_32_bits_unless_something_else_is_said(model: Path):
    """A board's pointers, those that are asked for, and those of a board of one's own."""
    assert lowtide.research.plan(model, board="esp32s3").target == "tflm,pointer=32"
    assert lowtide.research.plan(model, board="k210").target == "tflm,interpreter=plain"
    assert lowtide.research.plan(model, board="rp2040", target="tflm,pointer=64").target == "tflm,pointer=64"
    own = model.with_name("mine.toml")
    own.write_text('pointer = 64\nbank = [{ name = "a", size = "64KiB" }]')
    assert lowtide.research.plan(model, board=own).target == "tflm,interpreter=plain"
    target = model.with_name("my.toml")
    target.write_text('base = "tflm"\nkernels = "reference"\n')
    assert lowtide.research.plan(model, board="rp2040", target=str(target)).target == "my"
    assert lowtide.research.plan(model, board="rp2040", target="generic").target == "generic"


@pytest.mark.slow
def test_check_says_each_memory(model: Path, capsys: Captured):
    """The plan's figures, and exit 0 where both fit; 4 if no build could do it, 3 where short enums might."""
    plan = lowtide.research.plan(model, **APART)
    status, out, err = run(capsys, "check", model, "--bank", "sram=4800", "--bank", "psram=64KiB")
    assert status == 0
    for name, size in sizes(plan).items():
        assert f"{name} {size:,} B" in out
    assert "head in sram, tail in psram" in err
    status, out, _ = run(capsys, "check", model, "--bank", "sram=4032", "--bank", "psram=2550")
    assert status == 3
    assert "excess" in out
    status, out, _ = run(capsys, "check", model, "--bank", "sram=1KiB", "--bank", "psram=1KiB")
    assert status == 4
    assert "cannot fit" in out


def test_as_it_stands(model: Path):
    """The file's own head, by TFLM's own planner, in the same memories."""
    own = api.check(model, as_is=True, banks=["sram=10000", "psram=64KiB"])
    one = api.check(model, "1MiB", as_is=True, target="tflm,pointer=32")
    assert one.parts is not None
    assert own.status == "ok"
    assert [m.required_bytes for m in own.memories or []] == [one.parts.planned, own.parts.persistent]  # type: ignore[union-attr]


def test_head_and_tail_can_be_placed(model: Path):
    """By these names; a tensor cannot, as it lies in the head."""
    plan = lowtide.research.plan(model, board="esp32s3", places={"tail": "psram"})
    assert plan.runtime_arenas is not None
    assert (plan.runtime_arenas.head_memory, plan.runtime_arenas.tail_memory) == ("sram", "psram")
    plan = lowtide.research.plan(model, board="esp32s3", places={"head": "psram", "tail": ["sram", "psram"]})
    assert plan.runtime_arenas is not None
    assert (plan.runtime_arenas.head_memory, plan.runtime_arenas.tail_memory) == ("psram", "sram")
    with pytest.raises(InputError, match="is in TFLM's head"):
        lowtide.research.plan(model, board="esp32s3", places={"t1": "psram"})
    with pytest.raises(InputError, match="head is to be in 'flash'; the memories are sram, sram2, psram"):
        lowtide.research.plan(model, board="esp32s3", places={"head": "flash"})


def test_a_plan_with_two_arenas_is_verified(model: Path):
    """By its file alone too; and what is wrong in it is named."""
    graph, plan = lowtide.load(model), lowtide.research.plan(model, **APART)
    assert any(check.name == "runtime_arenas" for check in lowtide.verify(model, plan).checks)
    assert plan.memories is not None
    assert plan.runtime_arenas is not None
    fast, slow = plan.memories
    change = msgspec.structs.replace
    wrong = {
        "runtime_arenas": [
            change(plan, memories=[change(fast, size_bytes=(fast.size_bytes or 0) + 16), slow]),
            change(plan, runtime_arenas=change(plan.runtime_arenas, head_memory="psram", tail_memory="sram")),
            change(plan, runtime_arenas=change(plan.runtime_arenas, tail_memory="flash")),
        ],
        "runtime_arena": [change(plan, runtime_arena_bytes=(plan.runtime_arena_bytes or 0) - 16)],
        "required": [change(plan, required_bytes=plan.required_bytes - 16)],
        "status": [change(plan, status="over_budget"), change(plan, status="impossible")],
    }
    rules = lowtide.research.target("tflm,pointer=32")
    for failure, plans in wrong.items():
        for plan_with_fault in plans:
            with pytest.raises(VerificationError) as error:
                verify_plan(graph, plan_with_fault, rules)
            assert error.value.failure == failure


def test_files_of_a_plan_with_two_arenas(model: Path, capsys: Captured):
    """The header has a size for each array, that of the memories; the model has the offsets of one arena."""
    header, out, saved = (model.with_name(name) for name in ("a.h", "out.tflite", "p.json"))
    banks = ("--bank", "sram=4800", "--bank", "psram=64KiB")
    files = ("--header", header, "-o", out, "--plan", saved)
    assert run(capsys, "research", "plan", model, *banks, *files)[0] == 0
    plan = json.loads(saved.read_text())
    text = header.read_text()
    defined = dict(re.findall(r"^#define (\w+) (\S+)", text, re.MULTILINE))
    for part, memory in (("HEAD", "SRAM"), ("TAIL", "PSRAM")):
        assert defined[f"NET_{part}_ARENA_SIZE"] == f"NET_ARENA_{memory}_SIZE"
    held = {m["name"]: m["size_bytes"] for m in plan["memories"]}
    assert [int(defined[f"NET_ARENA_{name}_SIZE"]) for name in ("SRAM", "PSRAM")] == [held["sram"], held["psram"]]
    assert "NET_ARENA_SIZE" not in defined
    whole = model.with_name("whole.tflite")
    assert run(capsys, "research", "plan", model, "--set", "pointer=32", "-o", whole)[0] == 0
    assert out.read_bytes() == whole.read_bytes()
    assert run(capsys, "verify", model, saved)[0] == 0
    status, _, err = run(capsys, "research", "plan", model, *banks, "--buffer-plan", model.with_name("b.h"))
    assert status == 2
    assert "a buffer plan is for one arena" in err


def test_a_header_for_one_array_among_several_memories(model: Path):
    """It has the one ARENA_SIZE, that of the memory in which it lies."""
    plan = lowtide.research.plan(model, board="esp32s3")
    header = model.with_name("a.h")
    api.export(plan, model, header=header)
    text = header.read_text()
    assert "#define NET_ARENA_SIZE NET_ARENA_SRAM_SIZE\n" in text
    assert f"#define NET_ARENA_SRAM_SIZE {plan.required_bytes}\n" in text


def test_what_is_no_tflite_file_is_refused(tmp_path: Path):
    """What TFLM keeps is not known of it."""
    path = tmp_path / "m.tflite"
    path.write_bytes(residual().bytes())
    graph = replace(lowtide.load(path), file=None)
    with pytest.raises(InputError, match=r"known only of \.tflite files that Vela has not compiled"):
        lowtide.research.plan(graph, target="tflm", banks=["a=64KiB", "b=64KiB"])
