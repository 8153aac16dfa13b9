"""Emitted C on boards that qemu emulates: results, counts and marks, and what is said where a tool is missing."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api import emulating
from lowtide.api.default.on_boards import code_bytes
from lowtide.api.emitting import project_of
from lowtide.api.emulating import emulate
from lowtide.cli import main
from lowtide.emit.project import Project
from lowtide.emit.qemu import vectors as vectors_module
from lowtide.emit.qemu.boards import BOARDS, Bench
from lowtide.emit.qemu.library import library_folder, library_sources
from lowtide.emit.qemu.vectors import Vectors, project_sources, run_on, tflm_vectors_of
from lowtide.errors import InputError, VerificationError
from lowtide.report.on_boards import OWN_C
from support.emit_nets import compiler, emit_net, layers_net
from support.emit_sound import lstm_net
from support.library_nets import SOURCES
from support.tflite_builder import Net, residual, s
from support.tflite_nets import pyramid

LIBRARY = ["--kernels", "cmsis-nn", "--simd", "dsp"]

pytest.importorskip("tflite_micro", reason="pip install '.[tflite]'")


@cache
def missing(board: str) -> str:
    """Why a board cannot be had here; nothing if it can."""
    try:
        BOARDS[board].check(library=False)
    except InputError as error:
        return str(error)
    return ""


def on(*boards: str) -> list[Any]:
    """Boards as parameters; those whose tools are missing are skipped."""
    why = {board: missing(board) for board in boards or BOARDS}
    return [pytest.param(b, marks=pytest.mark.skipif(bool(text), reason=text)) for b, text in why.items()]


def project(folder: Path, net: Net, name: str = "model", **settings: Any) -> tuple[Path, Project]:
    """A network's file and its C."""
    model = folder / "net.tflite"
    model.write_bytes(net.bytes())
    plan = lowtide.research.plan(model, target="loops", time=5, **settings)
    return model, project_of(plan, model, name)


def exponential() -> Net:
    """A network whose C calls a function of a C library."""
    net = Net()
    x, y = net.tensor((1, 8), "float32"), net.tensor((1, 8), "float32")
    net.op("EXP", [x], [y], s.ExpOptionsT())
    net.ends([x], [y])
    return net


@pytest.mark.slow
@pytest.mark.parametrize("board", on())
def test_a_board_computes_what_tflm_computes(tmp_path: Path, board: str) -> None:
    """Of a network with rows that are handed over, of another name; counts are the same on every run."""
    net = emit_net(random.Random(16).choice, 16, 10)
    model, code = project(tmp_path, net, "kws", allow="row-streaming", stream_input=True)
    drawn = tflm_vectors_of(model)
    assert isinstance(drawn, Vectors)
    first, second = (run_on(BOARDS[board], code, "kws", drawn, tmp_path / str(k)) for k in range(2))
    assert first == second
    assert (first.wrong, first.first) == (0, None)
    assert first.arena_bytes == code.sizes.arena_bytes + code.sizes.counter_bytes
    assert first.flash_bytes > code.sizes.weight_bytes
    assert first.instructions > code.sizes.macs
    assert first.stack_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize("board", on())
def test_layers_of_each_kind_compute_what_tflm_computes(tmp_path: Path, board: str) -> None:
    """With DSP instructions, with vectors and without: odd channels, dilation, weights of -128, factors above 1."""
    model, code = project(tmp_path, layers_net(), "layers")
    drawn = tflm_vectors_of(model)
    assert isinstance(drawn, Vectors)
    assert run_on(BOARDS[board], code, "layers", drawn, tmp_path / "run").wrong == 0


@pytest.mark.slow
@pytest.mark.parametrize("board", on())
def test_a_wrong_byte_is_found(tmp_path: Path, board: str) -> None:
    """The run, the byte, and what it is and should be."""
    model, code = project(tmp_path, residual())
    drawn = tflm_vectors_of(model)
    assert isinstance(drawn, Vectors)
    size = len(drawn.outputs) // drawn.count
    at = size + 5
    changed = bytes([drawn.outputs[at] ^ 1])
    wrong = replace(drawn, outputs=drawn.outputs[:at] + changed + drawn.outputs[at + 1 :])
    run = run_on(BOARDS[board], code, "model", wrong, tmp_path)
    assert (run.wrong, run.first) == (1, (1, 5, drawn.outputs[at], changed[0]))


@pytest.mark.slow
@pytest.mark.parametrize("board", on())
def test_instructions_and_stack_are_counted(tmp_path: Path, board: str) -> None:
    """Of a loop of two instructions, a million times, and of an array on the stack."""
    bench = Bench(BOARDS[board], tmp_path)
    step = "addi %0, %0, -1\\n bnez %0, 1b" if board == "rv32" else "subs %0, %0, #1\\n bne 1b"
    (tmp_path / "loop.c").write_text(f"""
        #include "qemu_board.h"
        static __attribute__((noinline)) void fill(void)
        {{
            volatile uint8_t array[1000];
            uint32_t i;
            for (i = 0; i < 1000U; i++) {{ array[i] = 1U; }}
        }}
        int main(void)
        {{
            uint32_t count = 1000000U;
            fill(); /* before the mark: not counted */
            board_begin();
            __asm__ volatile(".balign 4\\n1: {step}\\n" : "+r"(count) : : "cc");
            board_end();
            board_report(7);
            return 0;
        }}""")
    text = (tmp_path / "loop.c").read_text()
    (tmp_path / "deep.c").write_text(text.replace("board_begin();", "board_begin(); fill();"))
    data = Vectors(b"1", b"1", "nothing", 1).write(tmp_path)
    programs = [bench.program(name, [tmp_path / f"{name}.c", data], ["-std=gnu11"]) for name in ("loop", "deep")]
    flat, deep = (bench.run(program, program) for program in programs)
    assert abs(flat.instructions - 2_000_000) < 200
    assert (flat.arena_bytes, flat.wrong, flat.flash_bytes) == (7, 0, 0)
    assert flat.stack_bytes < 128  # of the clock's own functions
    assert 1000 <= deep.stack_bytes < 1128


@pytest.mark.parametrize("board", on("m4"))
def test_a_program_that_does_not_end_well_is_an_error(tmp_path: Path, board: str) -> None:
    """A fault of the processor, a status, and a memory that is too small."""
    bench = Bench(BOARDS[board], tmp_path)
    data = Vectors(b"1", b"1", "nothing", 1).write(tmp_path)
    for body, why in (("return 3;", "status 3"), ("return *(volatile int *)0xFFFFFFF0;", "status 9")):
        (tmp_path / "bad.c").write_text(f"int main(void) {{ {body} }}\n")
        program = bench.program("bad", [tmp_path / "bad.c", data])
        with pytest.raises(VerificationError, match=why):
            bench.run(program, program)
    (tmp_path / "bad.c").write_text("volatile char array[5000000]; int main(void) { return array[3]; }\n")
    with pytest.raises(InputError, match=r"its arena and static data are .* B too large"):
        bench.program("bad", [tmp_path / "bad.c", data])
    (tmp_path / "bad.c").write_text("int main(void) { return nothing(); }\n")
    with pytest.raises(InputError, match="undefined reference"):
        bench.program("bad", [tmp_path / "bad.c", data])


@pytest.mark.slow
@pytest.mark.parametrize("board", on("m4"))
def test_the_command_tests_before_it_writes(tmp_path: Path, board: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A table, or rows in JSON; TFLM's arena is that of its own prediction."""
    model, _ = project(tmp_path, residual())
    words = ["emit", str(model), "-o", str(tmp_path / "code"), "--test", f"qemu:{board}", "-q"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert BOARDS[board].title in shown
    assert "3 of 3" in shown
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = document["boards"]
    build = "tflm,kernels=reference,pointer=32,interpreter=plain,enums=short"
    tflm = lowtide.check(model, "1MiB", target=build, as_is=True)
    assert (row["board"], row["wrong"], row["inputs"]) == (board, 0, 3)
    assert row["tflm_arena_bytes"] == tflm.required_bytes
    assert (tmp_path / "code/model.c").is_file()


@pytest.mark.parametrize("board", on("m4"))
def test_another_result_is_exit_5_and_nothing_is_written(
    tmp_path: Path, board: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where TFLM would say something else."""
    model, _ = project(tmp_path, residual())
    drawn = tflm_vectors_of(model)
    assert isinstance(drawn, Vectors)
    monkeypatch.setattr(vectors_module, "tflm_vectors", lambda *_: (drawn.inputs, bytes(len(drawn.outputs))))
    assert main(["emit", str(model), "-o", str(tmp_path / "code"), "--test", f"qemu:{board}"]) == 5
    assert "3 of 3 results are not those of TFLM" in capsys.readouterr().err
    assert not (tmp_path / "code").exists()


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("board", on("m4"))
def test_without_tflm_the_same_code_here_says_what_is_expected(
    tmp_path: Path, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the same inputs, and it is said."""
    model, code = project(tmp_path, residual(), "kws")
    graph = lowtide.load(model)
    there = tflm_vectors_of(model)
    (tmp_path / "b").mkdir()
    here = vectors_module.host_vectors(graph, code, tmp_path / "b/host")
    assert isinstance(there, Vectors)
    assert (here.inputs, here.outputs) == (there.inputs, there.outputs)
    monkeypatch.setattr(vectors_module, "tflm_vectors", lambda *_: "it is not installed")
    said: list[str] = []
    result = emulate(code, graph, [BOARDS[board]], "kws", said.append)
    assert [run.wrong for run in result.runs] == [0]
    assert result.expected == "lowtide's own kernels on this machine"
    assert "it is not installed" in said[0]


@pytest.mark.slow
@pytest.mark.parametrize("board", on("m4", "rv32"))
def test_functions_of_a_c_library_are_linked(tmp_path: Path, board: str) -> None:
    """On every board that has one; last bits are the library's, which is said, and no error."""
    try:
        BOARDS[board].check(library=True)
    except InputError as error:
        pytest.skip(str(error))
    model, code = project(tmp_path, exponential())
    result = emulate(code, lowtide.load(model), [BOARDS[board]])
    assert result.rounds
    assert result.runs[0].instructions > 0


@pytest.mark.slow
@pytest.mark.parametrize("board", on("m4"))
def test_python_runs_code_on_boards_before_it_is_written(
    tmp_path: Path, board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`boards` has a row for each; a result that differs is raised, and nothing is written then."""
    model, _ = project(tmp_path, residual())
    plan = lowtide.plan(model, target="loops")
    (row,) = lowtide.emit_c(plan, model, tmp_path / "code", test=f"qemu:{board}").boards
    assert (row["board"], row["wrong"]) == (board, 0)
    assert row["instructions"] > 0
    assert (tmp_path / "code/model.c").is_file()
    drawn = tflm_vectors_of(model)
    assert isinstance(drawn, Vectors)
    other = replace(drawn, outputs=bytes(255 - byte for byte in drawn.outputs))
    monkeypatch.setattr(vectors_module, "tflm_vectors_of", lambda _: other)
    with pytest.raises(VerificationError, match="are not those of TFLM"):
        lowtide.emit_c(plan, model, tmp_path / "wrong", test=f"qemu:{board}")
    with pytest.raises(InputError, match="tests are `qemu`"):
        lowtide.emit_c(plan, model, tmp_path / "wrong", test="host")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.slow
@pytest.mark.parametrize("board", on("m4", "m55"))
@pytest.mark.parametrize("make", [residual, pyramid, lstm_net])
def test_code_has_at_most_the_bytes_that_boards_count(tmp_path: Path, board: str, make: Callable[[], Net]) -> None:
    """Whether a model fits a board's flash counts code by its number of ops, and not three times what it has."""
    _, code = project(tmp_path, make(), allow="row-streaming")
    bench = Bench(BOARDS[board], tmp_path / board)
    sources, words = project_sources(code, "model", bench.folder / "emitted")
    data = Vectors(bytes(1), bytes(1), "none", 1).write(bench.folder)
    nothing = bench.program("nothing", [bench.folder / "nothing.c", data])
    flash = bench.flash(bench.program("model", [*sources, data], words)) - bench.flash(nothing)
    counted = code_bytes(OWN_C, code.sizes.ops)
    assert counted / 3 <= flash - code.sizes.weight_bytes <= counted


@pytest.mark.slow
@pytest.mark.skipif(not SOURCES, reason="LOWTIDE_CMSIS_NN does not name CMSIS-NN's folder")
@pytest.mark.parametrize("board", on("m4", "m55"))
def test_cmsis_nn_is_compiled_from_its_folder(
    tmp_path: Path, board: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which the environment names; results are TFLM's."""
    monkeypatch.setenv("CMSIS_NN", SOURCES)
    model, _ = project(tmp_path, residual())
    words = ["emit", str(model), "-o", str(tmp_path / "code"), *LIBRARY[:3], BOARDS[board].simd, "-q"]
    assert main([*words, "--test", f"qemu:{board}", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["boards"]
    assert (row["board"], row["wrong"]) == (board, 0)


def test_files_of_cmsis_nn_are_those_that_code_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In turn, and all that support others; none for floats."""
    files = {
        "A/arm_one.c": "int arm_one_s8(int a)\n{ return arm_two_s8(a); }\n",
        "A/other_name.c": "arm_status arm_two_s8(const int a,\n int b)\n{ return 0; }\n",
        "A/arm_three.c": "void arm_three_s8(void) {}\n",
        "A/arm_one_f32.c": "void arm_one_f32(void) {}\n",
        "NNSupportFunctions/arm_nn_help.c": "void arm_nn_help(void) {}\n",
    }
    for name, text in files.items():
        path = tmp_path / "Source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = library_sources(tmp_path, ["x = arm_one_s8(3); arm_one_f32();"])
    assert [path.name for path in found] == ["arm_one.c", "other_name.c", "arm_nn_help.c"]
    monkeypatch.setenv("CMSIS_NN", str(tmp_path))
    with pytest.raises(InputError, match=r"has no Include/arm_nnfunctions.h"):
        library_folder()
    (tmp_path / "Include").mkdir()
    (tmp_path / "Include/arm_nnfunctions.h").touch()
    assert library_folder() == tmp_path


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--test", "host"], "tests are `qemu` and `qemu:BOARD,...` with boards m4, m7, m55, rv32"),
        (["--test", "qemu:m3"], "tests are `qemu` and `qemu:BOARD,...`"),
        (["--test", "qemu:"], "tests are `qemu` and `qemu:BOARD,...`"),
        ([*LIBRARY, "--test", "qemu:m55"], "--simd dsp is not for m55; it is for m4, m7"),
        ([*LIBRARY, "--test", "qemu"], "the environment variable CMSIS_NN names, and it is not set"),
        (["--simd", "dsp"], "leave it out, or add --kernels cmsis-nn"),
    ],
)
def test_a_test_that_cannot_be_is_refused(
    tmp_path: Path, words: list[str], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is planned or written."""
    monkeypatch.delenv("CMSIS_NN", raising=False)
    refused(tmp_path, words, [why], capsys)


@pytest.mark.parametrize(
    ("board", "why"),
    [
        ("m7", ["arm-none-eabi-gcc", "qemu-system-arm", "`apt install gcc-arm-none-eabi qemu-system-arm`"]),
        ("rv32", ["riscv64-unknown-elf-gcc", "qemu-system-riscv32", "gcc-riscv64-unknown-elf qemu-system-misc"]),
    ],
)
def test_a_missing_tool_is_named_with_its_package(
    tmp_path: Path, board: str, why: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is planned or written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    refused(tmp_path, ["--test", f"qemu:{board}"], why, capsys)


def test_a_missing_c_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of a compiler that has none; boards that have all are named."""
    for tool in ("riscv64-unknown-elf-gcc", "qemu-system-riscv32", "arm-none-eabi-gcc", "qemu-system-arm"):
        (tmp_path / tool).write_text(f"#!/bin/sh\nexit {int(tool.startswith('riscv'))}\n")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    BOARDS["rv32"].check(library=False)
    with pytest.raises(InputError, match=r"apt install picolibc-riscv64-unknown-elf.*--test qemu:m4,m7,m55"):
        BOARDS["rv32"].check(library=True)


def refused(folder: Path, words: list[str], why: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with status 2 and one line that says why, and writes nothing."""
    model = folder / "net.tflite"
    model.write_bytes(residual().bytes())
    assert main(["emit", str(model), "-o", str(folder / "code"), *words]) == 2
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert [text for text in why if text not in error] == []
    assert not (folder / "code").exists()


def test_every_board_is_named_where_kernels_are() -> None:
    """For each way in which CMSIS-NN is compiled, the boards are known; own kernels run on all."""
    assert {board for boards in emulating._SIMD.values() for board in boards} == set(BOARDS)
    for name, board in BOARDS.items():
        assert name in emulating._SIMD[board.simd]
