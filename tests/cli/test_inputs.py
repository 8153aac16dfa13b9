"""What may happen to graph inputs, from the command line."""

import io
import os
import threading
from pathlib import Path

import pytest

import lowtide
from lowtide.cli import main
from support.command import Captured, run_json
from support.small_models import branches, graph_file, op, tensor


def test_kept_inputs_stay(tmp_path: Path, capsys: Captured):
    """The peak of an order that ends far from its input rises by the input; a pinned one goes after its last use."""
    chain = {
        "name": "chain",
        "tensors": [tensor(0, 64, "input"), tensor(1, 64), tensor(2, 64), tensor(3, 64, "output")],
        "ops": [op(0, [0], [1]), op(1, [1], [2]), op(2, [2], [3])],
    }
    path = graph_file(tmp_path, chain)
    assert run_json(capsys, "research", "plan", path)["peak_bytes"] == 128
    assert run_json(capsys, "research", "plan", path, "--pin-inputs")["peak_bytes"] == 128
    assert run_json(capsys, "research", "plan", path, "--set", "keep_inputs=true")["peak_bytes"] == 192


def test_pinned_inputs_are_not_overwritten(tmp_path: Path, capsys: Captured):
    """Where the target lets an elementwise op run over the graph's input, pinning it takes that away."""
    step = {**op(0, [0], [1]), "type": "Relu"}
    graph = {"name": "one", "tensors": [tensor(0, 64, "input"), tensor(1, 64, "output")], "ops": [step]}
    path = graph_file(tmp_path, graph)
    assert run_json(capsys, "research", "plan", path, "--target", "hmcos")["peak_bytes"] == 64
    pinned = run_json(capsys, "research", "plan", path, "--target", "hmcos", "--pin-inputs")
    assert (pinned["peak_bytes"], pinned["pin_inputs"]) == (128, True)


@pytest.mark.slow
def test_overwritten_inputs_save_memory(tmp_path: Path, capsys: Captured):
    """An elementwise op on the graph's input may run in place; the plan says that it was allowed."""
    relu = {
        "name": "relu",
        "tensors": [tensor(0, 64, "input"), tensor(1, 64, "output")],
        "ops": [op(0, [0], [1]) | {"type": "Relu"}],
    }
    path, plan_file = graph_file(tmp_path, relu), tmp_path / "p.json"
    assert run_json(capsys, "research", "plan", path)["peak_bytes"] == 128
    assert run_json(capsys, "research", "plan", path, "--overwrite-inputs", "--plan", plan_file)["peak_bytes"] == 64
    assert main(["verify", str(path), str(plan_file)]) == 0


def test_a_graph_on_stdin_is_planned_and_written_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a file of the same bytes is: the plan is tied to them, and the model comes out in the plan's order."""
    path = graph_file(tmp_path, branches())
    out, plan = tmp_path / "o.graph.json", tmp_path / "p.json"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert main(["research", "plan", "-", "--target", "strict", "-o", str(out), "--plan", str(plan), "-q"]) == 0
    assert lowtide.verify(path, plan).numbers
    assert lowtide.research.plan(out, target="strict", method="own").peak_bytes == 109
    assert not list(tmp_path.glob("*stdin*"))


def test_an_empty_stdin_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was piped in."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert main(["inspect", "-"]) == 2
    assert capsys.readouterr().err == "lowtide: stdin: nothing comes; pipe a graph JSON in, or name a file\n"


def _stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_plan_on_stdin_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a graph by the name that a shell gives the standard input; both at once cannot be."""
    path, plan = graph_file(tmp_path, branches()), tmp_path / "p.json"
    assert main(["research", "plan", str(path), "--plan", str(plan), "-q"]) == 0
    _stdin(monkeypatch, plan.read_bytes())
    assert main(["verify", str(path), "-"]) == 0
    _stdin(monkeypatch, path.read_bytes())
    assert main(["verify", "/dev/stdin", str(plan)]) == 0
    capsys.readouterr()
    assert main(["verify", "-", "-"]) == 2
    assert capsys.readouterr().err == "lowtide: stdin: the standard input comes once; name a file for the others\n"


def test_the_name_of_an_output_reads_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--plan -` of `plan` is written, not read, and refused as ever."""
    assert main(["research", "plan", str(graph_file(tmp_path, branches())), "--plan", "-", "-q"]) == 2
    assert "-: this would be a file of that name" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_read_as_a_shell_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`plan <(command)`: a graph that another process writes into a pipe."""
    path, pipe = graph_file(tmp_path, branches()), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),))
    writer.start()
    assert (
        run_json(capsys, "research", "plan", pipe)["peak_bytes"]
        == run_json(capsys, "research", "plan", path)["peak_bytes"]
    )
    writer.join()
