"""`lowtide plan` and `lowtide fit` as they are typed: what is printed and written, and the exit status."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

import lowtide.research
from lowtide.cli import main
from lowtide.plan import read_plan
from support import small_nets
from support.small_models import branches, graph_file, onnx_file, op, tensor
from support.tflite_builder import residual
from support.tflite_nets import pyramid


def chain() -> dict[str, object]:
    """A wide tensor that is cheap to make is read at the begin and at the end: recomputing it saves its bytes."""
    tensors = [tensor(0, 8, "input"), tensor(1, 100), *(tensor(k, 60) for k in range(2, 6)), tensor(6, 1, "output")]
    steps = [op(k, [k], [k + 1], flops=10**6) for k in range(1, 5)]
    ops = [op(0, [0], [1], flops=1), *steps, op(5, [5, 1], [6], flops=10**6)]
    return {"name": "chain", "tensors": tensors, "ops": ops}


def test_a_graph_is_written_with_its_plan_and_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last line is the next command."""
    source, out = graph_file(tmp_path, branches()), tmp_path / "small.graph.json"
    assert main(["plan", str(source), "--for", "strict", "-o", str(out), "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 8
    assert lines[-2] == f"wrote {out}, {tmp_path / 'small.plan.json'}, {tmp_path / 'small.h'}"
    assert lines[-1] == f"next: lowtide verify {source} {tmp_path / 'small.plan.json'}"
    assert read_plan(tmp_path / "small.plan.json").comparison is not None
    assert main(lines[-1].removeprefix("next: lowtide ").split()) == 0


def test_what_is_written_has_only_changes_that_its_format_can_hold(tmp_path: Path) -> None:
    """No graph JSON recomputes an op: with OUT none is planned to."""
    source, out = graph_file(tmp_path, chain()), tmp_path / "small.graph.json"
    assert main(["plan", str(source), "--slower", "10%", "-o", str(out), "-q"]) == 0


def test_a_compiler_gets_offsets_where_no_order_is_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has none today."""
    one = {"name": "one", "tensors": [tensor(0, 64, "input"), tensor(1, 64, "output")], "ops": [op(0, [0], [1])]}
    out = tmp_path / "small.graph.json"
    assert main(["plan", str(graph_file(tmp_path, one)), "-o", str(out), "-q"]) == 0
    assert "unchanged" in capsys.readouterr().out
    assert out.exists()


def test_what_was_asked_for_is_in_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It writes the plan that is on the screen."""
    source = graph_file(tmp_path, branches())
    assert main(["plan", str(source), "--for", "strict", "--budget", "200B", "-q"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"next: lowtide plan {source} --budget 200B --for strict -o small.graph.json   (writes it)"
    assert main(["plan", str(source), "--for", "strict", "--budget", "100B", "-o", str(tmp_path / "s.graph.json")]) == 4
    came = capsys.readouterr()
    assert "budget 100 B: 9 B too much; proved impossible" in came.out
    assert "s.graph.json was not written: no plan within the budget was found" in came.err


def test_over_budget_exits_3_and_json_is_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A budget below the bound of an unchanged graph is impossible only if nothing may be changed."""
    source = onnx_file(tmp_path)
    assert main(["plan", str(source), "--for", "generic", "--budget", "1B", "--only", "alias", "--json", "-q"]) in (
        3,
        4,
    )
    assert json.loads(capsys.readouterr().out)["comparison"]["figure"] == "arena"


def test_fit_prints_the_size_and_what_to_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 3 if not even size 1 fits; 2 without a budget."""
    source = onnx_file(tmp_path, batch="n")
    words = ["fit", str(source), "--for", "generic", "--only", "alias", "-q"]
    assert main([*words, "--budget", "20000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("m.onnx: n = ")
    assert lines[-1].startswith(f"next: lowtide plan {source} --budget 20000 --for generic --only alias --dim n=")
    assert main([*words, "--budget", "9B"]) == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"next: lowtide plan {source} --budget 9B --for generic --only alias --dim n=1   (")
    assert main(shlex.split(last.removeprefix("next: lowtide ").partition("   (")[0])) == 3
    assert main(words) == 2


def test_the_header_has_the_name_of_out_and_the_operators(tmp_path: Path) -> None:
    """Those of the written file: tiles add some."""
    model, out = tmp_path / "m.tflite", tmp_path / "my-net.tflite"
    model.write_bytes(pyramid().bytes())
    assert main(["plan", str(model), "-o", str(out), "-q"]) == 0
    text = (tmp_path / "my-net.h").read_text()
    assert "#ifndef MY_NET_ARENA_H\n" in text
    assert "#define MY_NET_ARENA_SIZE " in text
    kinds = [{op.type for op in lowtide.load(path).ops} for path in (model, out)]
    assert kinds[0] < kinds[1]
    assert f"   Operators to register: {', '.join(sorted(kinds[1]))}. */\n" in text


def test_progress_under_tflm_is_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The screen's figure has the tail as well; elsewhere it is the peak."""
    monkeypatch.setattr("lowtide.cli.terminal.FIRST_SECONDS", 0.01)
    monkeypatch.setattr("lowtide.cli.terminal.PLAIN_SECONDS", 0.0)
    model = tmp_path / "m.tflite"
    model.write_bytes(pyramid().bytes())
    for target, figure in (("tflm", "head"), ("tflite", "peak")):
        assert main(["plan", str(model), "--for", target, "--time", "0.5"]) == 0
        assert set(re.findall(r"lowest (\w+) so far", capsys.readouterr().err)) == {figure}


def test_a_model_without_a_better_plan_can_be_deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Why OUT is not written is said; under a budget that the model exceeds, what it needs, and only commands that do
    something."""
    model, out = tmp_path / "m.tflite", tmp_path / "small.tflite"
    model.write_bytes(residual().bytes())
    words = ["plan", str(model), "--without", "tile", "--time", "0.5"]
    assert main([*words, "-o", str(out)]) == 0
    assert not out.exists()
    came = capsys.readouterr()
    assert f"{out} was not written: no plan is better than {model}, which can be deployed as it is" in came.err
    assert main([*words, "--budget", "40B"]) in (3, 4)
    screen = capsys.readouterr().out
    assert "no plan takes less than today: the model as it is needs a budget of " in screen
    assert screen.splitlines()[-1] == f"next: lowtide inspect {model}   (what is live at the peak)"


def test_a_size_that_was_assumed_is_named_as_a_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next command has it by its name."""
    source = onnx_file(tmp_path, batch="n")
    assert main(["plan", str(source), "--for", "generic", "-q"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  or: lowtide plan {source} --for generic --dim n=1   (put in your own sizes)"


@pytest.mark.parametrize("words", [[], ["-o", "small.graph.json"], ["-o", "small.onnx", "--for", "strict"]])
def test_sessions_are_for_files_that_onnxruntime_opens(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing else has one, and nothing is planned before that is said."""
    assert main(["plan", str(onnx_file(tmp_path)), "--session", "cc", *words]) == 2
    assert "--session is for the file that -o writes for onnxruntime" in capsys.readouterr().err


def test_rows_are_streamed_where_the_budget_is_met_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`emit` writes the plan of the fewest bytes; a plan that stops within its budget says why it has no loops."""
    model = tmp_path / "m.tflite"
    model.write_bytes(pyramid().bytes())
    words = [str(model), "--budget", "1MiB"]
    assert main(["emit", *words, "-o", str(tmp_path / "c"), "-v"]) == 0
    assert "in 1 loop" in capsys.readouterr().out
    assert main(["research", "plan", *words, "--target", "loops", "--allow", "row-streaming"]) == 0
    assert "none: it fits the budget without" in capsys.readouterr().out


@pytest.mark.slow
def test_the_next_line_of_python_runs_in_any_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The session's module is found, wherever it was written."""
    pytest.importorskip("onnxruntime")
    (tmp_path / "there").mkdir()
    source, out = onnx_file(tmp_path), tmp_path / "there" / "small.onnx"
    assert main(["plan", str(source), "-o", str(out), "--slower", "100000%", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    if not out.exists():
        pytest.skip("no plan takes less than today: onnxruntime was measured")
    code = f"{lines[-1].removeprefix('next: ')}; print(session.get_inputs()[0].name)"
    made = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert made.stdout == "x\n"


def test_a_range_of_sizes_is_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is the plan for that size. A file of another runtime is for one size: there is a command for each."""
    source = onnx_file(tmp_path, batch="n")
    words = ["plan", str(source), "--for", "generic", "--only", "alias", "-q"]
    assert main([*words, "--dim", "n=1..3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split("  ")[0]: line for line in lines}
    for size in (1, 2, 3):
        seen = lowtide.plan(source, target="generic", only=["alias"], dims={"n": size}).comparison
        assert seen is not None
        assert rows[f"n = {size}"].split()[3:7] == [f"{seen.today_bytes:,}", "B", f"{seen.planned_bytes:,}", "B"]
    assert main([*words, "--dim", "n=1..90", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 8
    assert main([*words, "--dim", "n=1..3", "-o", str(tmp_path / "o.onnx")]) == 2
    commands = capsys.readouterr().err.partition("plan each: lowtide ")[2].strip().split("; lowtide ")
    assert [command.split(" -o ")[1] for command in commands] == [str(tmp_path / f"o_{n}.onnx") for n in (1, 2, 3)]
    assert main([*shlex.split(commands[2]), "-q"]) == 0
    assert main([*words, "--dim", "n=3..1"]) == 2


@pytest.mark.slow
def test_every_command_has_the_same_figures_of_a_tflite_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of firmware, whose pointers have 32 bits."""
    model = tmp_path / "m.tflite"
    model.write_bytes(pyramid().bytes())

    def shown(*words: str) -> dict[str, Any]:
        main([*words, str(model), "--json", "-q"])
        return json.loads(capsys.readouterr().out)

    today = lowtide.research.plan(model, target="tflm,pointer=32").runtime_figures
    assert today is not None
    assert shown("plan", "--for", "tflm")["comparison"]["today_bytes"] == today[0].default_bytes
    for words in (["plan"], ["check", "--budget", "1MiB"], ["inspect"], ["research", "plan"]):
        figures = shown(*words)["runtime_figures"]
        assert figures[0]["default_bytes"] == today[0].default_bytes, words


@pytest.mark.slow
def test_boards_are_answered_by_fit_and_by_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 3 where nothing fits; of `plan` the plan's. What fits is the next command."""
    model, board = tmp_path / "m.tflite", tmp_path / "mine.toml"
    model.write_bytes(pyramid().bytes())
    words = ["--without", "tile,alias", "-q"]
    assert main(["fit", str(model), *words]) == 0
    assert "the smallest that it fits first" in capsys.readouterr().out
    assert main(["fit", str(model), "--board", "rp2040", "--json", *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    ram = {way["how"]: way["ram_bytes"] for way in found["ways"]}
    assert ram["C"] < ram["TFLM, planned"]
    board.write_text(f'bank = [{{ name = "ram", size = {ram["C"]} }}]')
    assert main(["plan", str(model), "--board", str(board), *words]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"next: lowtide emit {model} -o firmware"
    assert main(["fit", str(model), "--board", str(board), *words]) == 0
    board.write_text('bank = [{ name = "ram", size = 16 }]')
    assert main(["fit", str(model), "--board", str(board), *words]) == 3
    assert main(["fit", str(model), "--board", str(board), "--budget", "1KiB"]) == 2
    assert main(["plan", str(onnx_file(tmp_path)), "--board", "rp2040"]) == 2


@pytest.mark.slow
def test_a_plan_for_a_board_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the chip if it fits there, else in memory outside of it."""
    model, board = tmp_path / "m.tflite", tmp_path / "mine.toml"
    model.write_bytes(pyramid().bytes())
    board.write_text('bank = [{ name = "ram", size = 16 }, { name = "psram", size = "1MiB" }]')
    out = tmp_path / "small.tflite"
    assert main(["plan", str(model), "--board", str(board), "-o", str(out), "--time", "0.1", "-q"]) == 0
    assert "fits psram" in capsys.readouterr().out
    assert out.exists()
    assert len(lowtide.load(out).ops) >= len(lowtide.load(model).ops)


def test_weights_go_where_the_model_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """External data is copied to the folder of OUT; where it does not exist, that is said before any search."""
    model, away = small_nets.pyramid().model(), tmp_path / "away"
    away.mkdir()
    source = tmp_path / "net.onnx"
    onnx.save(model, source, save_as_external_data=True, location="net.bin", size_threshold=0)
    words = ["plan", str(source), "--for", "generic", "--only", "alias", "-o", str(away / "small.onnx"), "-q"]
    assert main(words) == 0
    assert (away / "net.bin").read_bytes() == (tmp_path / "net.bin").read_bytes()
    (tmp_path / "net.bin").unlink()
    capsys.readouterr()
    (away / "small.onnx").unlink()
    assert main(words) == 2
    assert "its weights should be in 'net.bin'" in capsys.readouterr().err
