"""What only a process of its own shows: signals, pipes, start-up."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.small_models import branches, graph_file, matrix_product

COMMAND = (sys.executable, "-m", "lowtide")


def run(*arguments: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """A finished command."""
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **settings)  # type: ignore[call-overload]


@pytest.mark.slow
def test_exit_statuses_reach_the_shell(tmp_path: Path):
    """0 fits, 2 wrong, 4 impossible."""
    path = graph_file(tmp_path, branches())
    for budget, status in (("1KiB", 0), ("", 2), ("100", 4)):
        assert run("check", path, "--target", "strict", "--budget", budget).returncode == status


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_the_best_plan(number: signal.Signals, tmp_path: Path):
    """The search stops at once, the plan so far is written and holds, status 130."""
    path, plan_file = graph_file(tmp_path, matrix_product(6)), tmp_path / "p.json"
    out = tmp_path / "o.graph.json"
    arguments = ["research", "plan", path, "--plan", plan_file, "-o", out, "--time", "30", "--target", "strict"]
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"lowest peak so far" in process.stderr.readline()  # the search has run for two seconds
        process.send_signal(number)
        process.communicate(timeout=20)
    assert process.returncode == 130
    made = json.loads(plan_file.read_text())
    assert made["stopped"] == "interrupt"
    assert made["lower_bound_bytes"] <= made["peak_bytes"] <= made["own_order_peak_bytes"]
    assert run("verify", path, plan_file).returncode == 0
    assert out.is_file()
    assert not list(tmp_path.glob(".lowtide*"))


@pytest.mark.slow
def test_ctrl_c_while_comparing(tmp_path: Path):
    """Status 130, the row that it came in is marked, no traceback."""
    path = graph_file(tmp_path, matrix_product(6))
    arguments = ["research", "compare", str(path), "--methods", "exact", "--time", "30", "--target", "strict"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"lowtide: exact: lowest peak")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"stopped by interrupt" in out
    assert b"Traceback" not in err


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tmp_path: Path):
    """A reader that leaves early sees no complaint, and the exit status is what it would have been."""
    path = graph_file(tmp_path, matrix_product(3))
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen(
        [*COMMAND, "research", "plan", str(path), "--json", "--time", "0.2"], stdout=write, stderr=subprocess.PIPE
    )
    os.close(write)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.slow
def test_plain_ascii_terminals_get_plain_bars(tmp_path: Path):
    """Without UTF-8 the profile is drawn in ASCII, and nothing fails."""
    made = branches()
    made["ops"][1]["name"] = "größer"
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = run("inspect", graph_file(tmp_path, made), env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.slow
def test_json_is_all_that_is_on_stdout(tmp_path: Path):
    """Even where there is progress to tell."""
    done = run(
        "research", "plan", graph_file(tmp_path, matrix_product(6)), "--time", "2.5", "--json", "--target", "strict"
    )
    assert json.loads(done.stdout)["stopped"] == "time"
    assert "lowest peak so far" in done.stderr


@pytest.mark.slow
def test_no_heavy_imports_before_they_are_needed(tmp_path: Path):
    """`check` starts without solvers, plotting, onnx or numpy where the model is a graph JSON."""
    path = graph_file(tmp_path, branches())
    script = (
        "import sys; from lowtide.cli import main; main(['check', sys.argv[1], '--budget', '1KiB']);"
        "print(sorted({'numpy', 'onnx', 'rich', 'onnxruntime', 'torch', 'ortools'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_under_stdout_is_reported(tmp_path: Path):
    """One line, no traceback, and not status 0."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, "research", "zoo"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, check=False
        )
    assert done.returncode == 2
    assert done.stderr == "lowtide: stdout: cannot write the result: No space left on device\n"
