import json
import os
import random
import re
from pathlib import Path

import pytest

from lowtide import api
from lowtide.cli import main
from lowtide.cli.parser import parser_of_all
from lowtide.cli.tree import commands_of
from support.command import run
from support.small_models import branches, graph_file, onnx_file

Captured = pytest.CaptureFixture[str]


def refused(capsys: Captured, *arguments: object, status: int = 2) -> str:
    """The one line on stderr of a command that fails with this status and prints nothing."""
    assert main([str(a) for a in arguments]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lowtide: ")
    assert captured.err.count("\n") == 1, captured.err
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("budget", ["0", "-1", "12 apples", "nan", "", "1e9", "0x10", "١٢"])
def test_budgets_that_are_no_sizes(tmp_path: Path, capsys: Captured, budget: str):
    """The message says how a size is written."""
    path = graph_file(tmp_path, branches())
    for command in (["check"], ["research", "plan"]):
        assert "256KiB" in refused(capsys, *command, path, f"--budget={budget}")
    assert "256KiB" in refused(capsys, "check", path, "--budget", budget)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["research", "plan"],
        ["research", "plan", "m.graph.json", "--nonsense"],
        ["research", "plan", "m.graph.json", "--time", "soon"],
        ["research", "plan", "m.graph.json", "--time", "0"],
        ["research", "plan", "m.graph.json", "--time", "nan"],
        ["research", "plan", "m.graph.json", "--seed", "-1"],
        ["research", "plan", "m.graph.json", "--dim", "batch"],
        ["research", "plan", "m.graph.json", "--dim", "batch=0"],
        ["research", "plan", "m.graph.json", "--dim", "batch=2"],
        ["research", "plan", "m.graph.json", "--set", "exact.cut"],
        ["research", "plan", "m.graph.json", "--set", "exact.cut=perhaps"],
        ["research", "plan", "m.graph.json", "--set", "exact.nothing=1"],
        ["research", "plan", "m.graph.json", "--set", "rpo.x=1"],
        ["research", "plan", "m.graph.json", "--method", "magic"],
        ["research", "plan", "m.graph.json", "--target", "magic"],
        ["research", "plan", "m.graph.json", "--target", "none.toml"],
        ["research", "plan", "m.graph.json", "--search-memory", "lots"],
        ["research", "plan", "m.graph.json", "--reserve", "-3"],
        ["research", "plan", "m.graph.json", "--pin-inputs", "--overwrite-inputs"],
        ["research", "plan", "m.graph.json", "-q", "-v"],
        ["check", "m.graph.json"],
        ["inspect", "m.graph.json", "--time", "-1"],
        ["research", "compare", "m.graph.json", "--methods", "own,magic"],
        ["research", "compare", "m.graph.json", "--methods", ","],
        ["research", "compare", "m.graph.json", "--methods", "own", "--set", "exact.cut=false"],
        ["verify", "m.graph.json", "none.plan.json"],
        ["verify", "m.graph.json", "m.graph.json"],
        ["research", "allocate", "none.csv"],
        ["research", "allocate", "m.graph.json"],
        ["research", "target", "magic"],
        ["research", "zoo", "magic"],
        ["research", "zoo", "transformer:layers=0", "-o", "t.onnx"],
        ["research", "zoo", "transformer", "-o", "t.txt"],
        ["research", "zoo", "-o", "t.onnx"],
        ["research", "plan", "zoo:magic"],
        ["research", "plan", "zoo:transformer:layers=1", "--dim", "batch=1"],
        ["research", "plan", "none.onnx"],
        ["research", "plan", "none.graph.json"],
        ["research", "plan", "none.tflite"],
        ["research", "plan", "none.pt2"],
        ["research", "plan", "none.txt"],
        ["research", "plan", "none"],
        ["research", "plan", "."],
        ["research", "plan", ""],
        ["research", "plan", "none.py:make"],
    ],
    ids=" ".join,
)
def test_calls_that_are_wrong(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, arguments: list[str]):
    """One line, status 2."""
    graph_file(tmp_path, branches())
    monkeypatch.chdir(tmp_path)
    refused(capsys, *arguments)
    assert os.listdir(tmp_path) == ["m.graph.json"]


def test_files_that_are_no_models(tmp_path: Path, capsys: Captured):
    """Text, random bytes, nothing, a directory, and a truncated file, each named as a model."""
    whole = onnx_file(tmp_path, "whole.onnx").read_bytes()
    bad = {
        "text.onnx": b"this is not a model\n" * 50,
        "random.onnx": random.Random(1).randbytes(100_000),
        "empty.onnx": b"",
        "cut.onnx": whole[: len(whole) // 2],
        "text.graph.json": b"hello",
        "empty.graph.json": b"",
        "list.graph.json": b"[]",
        "cut.graph.json": b'{"name": "x", "tensors": [',
    }
    for name, data in bad.items():
        (tmp_path / name).write_bytes(data)
        assert name in refused(capsys, "check", tmp_path / name, "--budget", "1KiB")
    (tmp_path / "folder.onnx").mkdir()
    assert "folder.onnx" in refused(capsys, "research", "plan", tmp_path / "folder.onnx")


def test_outputs_that_cannot_be_written(tmp_path: Path, capsys: Captured):
    """A missing folder, a directory, another format, twice the same: refused, and nothing is left behind."""
    path = graph_file(tmp_path, branches())
    (tmp_path / "folder.graph.json").mkdir()
    before = sorted(os.listdir(tmp_path))
    for out in ("none/o.graph.json", "folder.graph.json", "o.onnx", "o"):
        refused(capsys, "research", "plan", path, "-o", tmp_path / out)
    long = f"{'x' * 300}.graph.json"
    assert refused(capsys, "research", "plan", path, "-o", tmp_path / long).count(long) == 1
    refused(capsys, "research", "plan", path, "--plan", tmp_path / "none" / "p.json")
    refused(capsys, "research", "plan", path, "-o", tmp_path / "o.graph.json", "--plan", tmp_path / "none" / "p.json")
    refused(capsys, "research", "plan", path, "-o", tmp_path / "o.json", "--plan", tmp_path / "o.json")
    assert "--json prints the result" in refused(capsys, "research", "plan", path, "--plan", "-")
    bench = ("research", "bench", "spill", "--networks", "DARTS", "--schemes", "belady own")
    assert "cannot make this directory" in refused(capsys, *bench, "-o", path)
    assert sorted(os.listdir(tmp_path)) == before


def test_output_that_is_the_input(tmp_path: Path, capsys: Captured):
    """Also through a symbolic or a hard link, as the model or as the plan; the input stays as it was."""
    path = graph_file(tmp_path, branches())
    data = path.read_bytes()
    (tmp_path / "soft.graph.json").symlink_to(path)
    os.link(path, tmp_path / "hard.graph.json")
    for out in ("m.graph.json", "soft.graph.json", "hard.graph.json"):
        assert "the output is the input" in refused(capsys, "research", "plan", path, "-o", tmp_path / out)
        assert "the output is the input" in refused(capsys, "research", "plan", path, "--plan", tmp_path / out)
    assert path.read_bytes() == data


def test_wrong_input_leaves_outputs_alone(tmp_path: Path, capsys: Captured):
    """An older output survives a call that is refused."""
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    out = tmp_path / "o.onnx"
    out.write_bytes(b"older")
    refused(capsys, "research", "plan", tmp_path / "bad.onnx", "-o", out)
    assert out.read_bytes() == b"older"
    assert sorted(os.listdir(tmp_path)) == ["bad.onnx", "o.onnx"]


def test_plan_for_another_model(tmp_path: Path, capsys: Captured):
    """Refused, with the remedy."""
    one, other = graph_file(tmp_path, branches()), graph_file(tmp_path, branches() | {"name": "x"}, "x.graph.json")
    main(["research", "plan", str(one), "--plan", str(tmp_path / "p.json"), "-q"])
    capsys.readouterr()
    assert "another model" in refused(capsys, "verify", other, tmp_path / "p.json")


def test_functions_of_the_users_own_that_fail(tmp_path: Path, capsys: Captured):
    """What they raise, what they lack, what they return: status 2, with the line that says they were run before it."""
    file = tmp_path / "mine.py"
    file.write_text(
        "import sys\ndef boom(): raise KeyError('oh\\nno')\ndef number(): return 3\ndef leave(): sys.exit(0)\n"
        f"def again(): return {str(file)!r} + ':again'\nthing = 4\n"
    )
    for function in ("boom", "number", "leave", "again", "thing", "none", ""):
        assert str(file) in refused(capsys, "research", "plan", f"{file}:{function}", "-q")
    file.write_text("def broken(:")
    refused(capsys, "research", "plan", f"{file}:broken", "-q")


def test_run_of_what_cannot_be_run(tmp_path: Path, capsys: Captured):
    """A graph JSON has no kernels."""
    path = graph_file(tmp_path, branches())
    main(["research", "plan", str(path), "--plan", str(tmp_path / "p.json"), "-q"])
    capsys.readouterr()
    assert "only ONNX" in refused(capsys, "verify", path, tmp_path / "p.json", "--run")


def test_a_bug_of_ours_is_one_line(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    """Status 1 and a hint; with -v the traceback."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(api, "plan", broken)
    path = graph_file(tmp_path, branches())
    assert "-v for the traceback" in refused(capsys, "research", "plan", path, status=1)
    assert main(["research", "plan", str(path), "-v"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_before_there_is_a_plan(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    """Status 130, one line."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "plan", interrupted)
    assert "interrupted" in refused(capsys, "research", "plan", graph_file(tmp_path, branches()), status=130)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 5000, "nested too deeply"),
        ("alignment = 3", "power of two"),
        (f"alignment = {2**62}", "at most 2^30"),
        ("alignment = 1.5", "must be a whole number"),
        ("alignment = 0", ".toml: alignment is 0; use a power of two"),
        ("in_place = 'often'", "use one of"),
        ("\x00", "not a TOML file"),
        ("name = 'strict'\nalignment = 2", "name is 'strict', which is a built-in target with other rules"),
        ("name = 'auto'", "name is 'auto', which is a built-in target"),
    ],
)
def test_targets_that_are_no_targets(tmp_path: Path, capsys: Captured, text: str, says: str):
    """Nesting, numbers and words that no target has; the file is named."""
    toml = tmp_path / "mine.toml"
    toml.write_text(text)
    said = refused(capsys, "check", graph_file(tmp_path, branches()), "--budget", "1KiB", "--target", toml)
    assert says in said
    assert "mine" in said


@pytest.mark.parametrize("text", ["persistent = ['nope']", "double_buffered = ['nope']", "fixed = ['nope=3']"])
def test_a_target_for_tensors_that_are_not_there(tmp_path: Path, capsys: Captured, text: str):
    """A target's own names are those of the model, as the options' are; with spilling none has a place."""
    toml = tmp_path / "mine.toml"
    toml.write_text(text)
    path = graph_file(tmp_path, branches())
    for command in (["check", path, "--budget", "1KiB"], ["inspect", path]):
        assert "'nope' is no tensor of the model" in refused(capsys, *command, "--target", toml)
    spilling = refused(capsys, "research", "plan", path, "--memory", "fast=1KiB", "--target", toml)
    assert "keeps a tensor in its place, and a plan with spilling moves it" in spilling


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_a_time_to_prove_that_is_no_time(tmp_path: Path, capsys: Captured, seconds: str):
    """As for the search of a plan, also where the proof needs no search."""
    path, plan_file = graph_file(tmp_path, branches()), tmp_path / "p.json"
    assert main(["research", "plan", str(path), "--plan", str(plan_file), "-q"]) == 0
    capsys.readouterr()
    assert "positive number of seconds" in refused(capsys, "verify", path, plan_file, "--prove", f"--time={seconds}")


VALUES = (-1, 0, 2**62, [], {"0": -1})


@pytest.mark.slow
@pytest.mark.parametrize("more", ["--budget 40 --reserve 4", "--memory fast=512", "--bank a=1KiB"])
def test_a_plan_file_edited_by_hand(tmp_path: Path, capsys: Captured, more: str):
    """Every key left out, or given a value that is odd: refused or found wrong in one line, or not needed."""
    path, plan, edited = graph_file(tmp_path, branches()), tmp_path / "p.json", tmp_path / "e.json"
    main(["research", "plan", str(path), *more.split(), "--plan", str(plan), "-q"])
    made = json.loads(plan.read_text())
    for key in made:
        for value in VALUES:
            edited.write_text(json.dumps({**made, key: value}))
            _holds_or_is_refused(capsys, path, edited)
        edited.write_text(json.dumps({k: v for k, v in made.items() if k != key}))
        _holds_or_is_refused(capsys, path, edited)
    for key, least in (("alignment", 1), ("lower_bound_bytes", 0)):
        edited.write_text(json.dumps({**made, key: least - 1}))
        assert f"Expected `int` >= {least} - at `$.{key}`" in refused(capsys, "verify", path, edited)


def _holds_or_is_refused(capsys: Captured, path: Path, plan: Path) -> None:
    capsys.readouterr()
    status = main(["verify", str(path), str(plan)])
    err = capsys.readouterr().err
    assert status in (0, 2, 5), f"{plan.read_text()}\n{err}"
    assert err.count("\n") == (0 if status == 0 else 1)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("pln x.onnx", "plan"),
        ("research shre x.onnx", "share"),
        ("zo", "lowtide research zoo"),
        ("research plan x.onnx --budgte 5", "--budget"),
        ("plan x.onnx --buget 5", "--budget"),
        ("plan x.onnx --ouput y.onnx", "-o"),
        ("plan x.onnx --target tflm", "--for"),
        ("fit x.onnx --buget 5", "--budget"),
        ("research bench spill --netwoks a", "--networks"),
        ("research plan zoo:swiftnet_cell_a --target tfml", "tflm"),
        ("research plan zoo:nasnet_cifar", "nasnet_a_cifar"),
        ("research plan zoo:transformer:layer=2", "layers"),
        ("research plan zoo:swiftnet_cell_a --method exct", "exact"),
        ("research plan zoo:swiftnet_cell_a --set exact.cutt=false", "cut"),
        ("research plan zoo:swiftnet_cell_a --set kernals=reference", "kernels"),
        ("research plan zoo:swiftnet_cell_a --target tflm --set kernels=CMSIS-NN", "cmsis_nn"),
        ("research plan zoo:swiftnet_cell_a --set constants=allways", "always"),
        ("research plan zoo:swiftnet_cell_a --memory fast=1K --method beladi", "belady"),
        ("research compare zoo:swiftnet_cell_a --methods own,exakt", "exact"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(words: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands, options, and their values: one line, status 2, and nothing is done."""
    status, out, err = run(capsys, *words.split())
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.search(rf"; did you mean ([\w-]+ or )*{meant}\b", err), err
    assert "--quiet" not in err


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("compare m.onnx --all", 'compare is now "lowtide research compare"'),
        ("bench spill", 'bench is now "lowtide research bench"'),
        ("research check m.onnx", 'check is now "lowtide check"'),
    ],
)
def test_a_command_that_moved_says_where_it_is(words: str, now: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, status 2."""
    assert run(capsys, *words.split()) == (2, "", f"lowtide: {now}\n")


def test_code_of_a_plan_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Which the option that was before names."""
    assert "`lowtide emit MODEL -o DIR`" in refused(capsys, "research", "plan", "m.tflite", "--emit", "c")


@pytest.mark.parametrize("words", [[], ["research"]])
def test_a_group_alone_prints_its_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As --help does, and that is no error."""
    status, out, err = run(capsys, *words)
    assert (status, out, err) == (0, run(capsys, *words, "--help")[1], "")
    assert "compare" in out if words else "inspect" in out


def test_the_first_help_is_one_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """24 lines of 80 columns, a line for each command."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(capsys, "--help")[1].splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for command in commands_of(parser_of_all()):
        assert sum(line.startswith(f"    {command} ") for line in lines) == 1, command
