"""Sweeps: the table is that of the grid, whoever did the rows, in whatever order, and whatever ended a run."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import lowtide
from lowtide.api.sweeps import workers as sweep_workers
from lowtide.api.sweeps.rows import COLUMNS, Journal, Task, csv_bytes, grid, model_names
from lowtide.errors import InputError, MissingExtraError
from support.command import Captured, run, run_json
from support.small_models import branches, graph_file, onnx_file

NETWORKS = [f"zoo:randwire_ws_one_stage:nodes=8,seed={seed}" for seed in range(6)]


def timeless(table: str) -> list[dict[str, str]]:
    """Rows without their seconds."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(io.StringIO(table))]


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same of rows that are no text."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_a_row_says_what_plan_says(tmp_path: Path) -> None:
    """Model by target by budget by option, in that order; a percentage is of the model's own peak."""
    model = str(graph_file(tmp_path, branches()))
    table = lowtide.research.sweep(
        [model], targets=["strict", "generic"], budgets=[None, "50%"], vary={"method": ["own", "exact"]}, jobs=1
    )
    assert (table.total, table.errors, table.exit_status) == (8, 0, 0)
    expected = [
        lowtide.research.plan(model, target=target, budget=budget, method=method)
        for target in ("strict", "generic") for budget in (None, "50%") for method in ("own", "exact")
    ]  # fmt: skip
    for row, plan in zip(table.rows, expected, strict=True):
        assert tuple(row) == COLUMNS
        for name in ("target", "peak_bytes", "arena_bytes", "required_bytes", "status", "budget_bytes", "exit_status"):
            assert row[name] == getattr(plan, name), name
        assert row["options"] == f"method={plan.method}"
    assert repr(table) == "Sweep(rows=8, total=8, kept=0, errors=0)"


def test_what_is_wrong_with_a_model_is_its_row(tmp_path: Path, capsys: Captured) -> None:
    """Missing, broken, without a size for its dimension: the others are planned."""
    (tmp_path / "broken.onnx").write_text("no model")
    good = onnx_file(tmp_path)
    status, out, _ = run(
        capsys, "research", "sweep", tmp_path, tmp_path / "none.onnx", "--targets", "strict", "--jobs", 1, "--json"
    )
    rows = {Path(row["model"]).name: row for row in json.loads(out)}
    assert status == 2
    assert rows[good.name]["status"] == "ok"
    assert rows["broken.onnx"]["error"]
    assert rows["none.onnx"]["exit_status"] == 2
    status, out, _ = run(
        capsys, "research", "sweep", good, "--targets", "strict,generic,alignment=128", "-q", "--jobs", 1
    )
    assert (status, len(out.splitlines())) == (0, 3)
    assert "generic,alignment=128" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--targets", ""], "no target"),
        (["--targets", "strict,banana"], "no target 'banana'"),
        (["--targets", "strict,alignmnt=3"], "no option 'alignmnt"),
        (["--vary", "method=exact,foo"], "no method 'foo'"),
        (["--vary", "allow=,foo"], "'foo'"),
        (["--vary", "max_overhead=10%"], "--allow tile"),
        (["--vary", "time=-1"], "time is -1.0"),
        (["--vary", "max_macs=1"], "cannot vary 'max_macs'"),
        (["--budgets", "much"], "much"),
        (["--vary", "colour=red"], "cannot vary 'colour'"),
        (["--vary", "seed"], "is not OPTION=A,B"),
        (["--vary", "seed=x"], "no number"),
        (["--vary", "exact-bits=maybe"], "true and false"),
        (["--vary", "dims=n"], "NAME:SIZE"),
        (["--vary", "seed=1", "--vary", "seed=2"], "given twice"),
        (["-o", "table.txt"], ".csv or .parquet"),
        (["-o", "none/table.csv"], "none/table.csv"),
        (["--jobs", "0"], "--jobs"),
        (["--jobs", "2", "--scheduler", "tcp://localhost:1"], "give one"),
    ],
)
def test_a_wrong_call_is_said_before_anything_is_planned(
    words: list[str], says: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, and no file is left."""
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, "research", "sweep", NETWORKS[0], *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert says in err
    assert list(tmp_path.iterdir()) == []


def test_folders_stand_for_the_models_below(tmp_path: Path) -> None:
    """Sorted, each once; a folder without one is an error."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/note.txt").touch()
    for name in ("a/x.onnx", "a/b/y.graph.json"):
        (tmp_path / name).touch()
    assert model_names([tmp_path / "a", tmp_path / "a/x.onnx"]) == [
        str(tmp_path / n) for n in ("a/b/y.graph.json", "a/x.onnx")
    ]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no file in this folder"):
        model_names([tmp_path / "empty"])
    assert len(grid(["m"], ["strict", "strict"], [1, 2], {})) == 2


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on(tmp_path: Path) -> None:
    """Rows that are done are not done again, and the table is the one of a run that was not interrupted."""
    whole, cut = tmp_path / "whole.csv", tmp_path / "cut.csv"
    lowtide.research.sweep(NETWORKS, targets=["strict"], out=whole, jobs=1)

    def stop(done: int, _total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    first = lowtide.research.sweep(NETWORKS, targets=["strict"], out=cut, jobs=1, report=stop)
    assert (first.interrupted, first.exit_status, len(first.rows), cut.exists()) == (True, 130, 3, False)
    journal = Journal(cut).path
    journal.write_bytes(journal.read_bytes() + b'["torn')
    seen: list[int] = []
    second = lowtide.research.sweep(
        NETWORKS, targets=["strict"], out=cut, jobs=1, report=lambda done, _: seen.append(done)
    )
    assert (second.kept, seen, second.interrupted) == (3, [4, 5, 6], False)
    assert timeless(cut.read_text()) == timeless(whole.read_text())
    assert not journal.exists()
    assert (
        lowtide.research.sweep(NETWORKS, targets=["strict"], out=cut, jobs=1).kept == 0
    )  # a table that is whole is made anew


def test_ctrl_c_ends_the_row_in_turn_and_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose plan is the best until then is no row that is done, whether its plan says so or not."""
    table, done = tmp_path / "t.csv", sweep_workers.row_of
    for stopped in ("interrupt", "proof"):

        def row(task: Task, stopped: str = stopped) -> dict[str, Any]:
            if task.model == NETWORKS[2]:
                with suppress(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                return done(task) | {"stopped": stopped}
            return done(task)

        monkeypatch.setattr(sweep_workers, "row_of", row)
        made = lowtide.research.sweep(NETWORKS, targets=["strict"], out=table, jobs=1)
        assert (made.interrupted, made.exit_status, len(made.rows)) == (True, 130, 2)
        assert len(Journal(table).rows()) == 2


def test_a_journal_nested_too_deep_is_none(tmp_path: Path) -> None:
    """As other garbage is."""
    Journal(tmp_path / "t.csv").path.write_text("[" * 100_000 + "\n")
    with pytest.raises(InputError, match="this is no journal of a sweep"):
        lowtide.research.sweep(NETWORKS, targets=["strict"], out=tmp_path / "t.csv", jobs=1)


def test_a_file_that_changed_is_planned_again(tmp_path: Path) -> None:
    """Its row in the journal is of another file; `fresh` forgets them all; what is no journal is said."""
    model, table = graph_file(tmp_path, branches()), tmp_path / "t.csv"
    (task,) = grid([str(model)], ["strict"], [None], {})
    with Journal(table).open(keep=True) as file:
        Journal.append(file, task, dict.fromkeys(COLUMNS, "old"))
    kept = lowtide.research.sweep([model], targets=["strict"], out=table, jobs=1)
    assert (kept.kept, kept.rows[0]["graph"]) == (1, "old")
    with Journal(table).open(keep=True) as file:
        Journal.append(file, task, dict.fromkeys(COLUMNS, "old"))
    assert lowtide.research.sweep([model], targets=["strict"], out=table, jobs=1, fresh=True).kept == 0
    with Journal(table).open(keep=True) as file:
        Journal.append(file, task, dict.fromkeys(COLUMNS, "old"))
    os.utime(model, ns=(1, 1))
    assert lowtide.research.sweep([model], targets=["strict"], out=table, jobs=1).kept == 0
    for text in ("{}\n", "[1]\n", '["k", {}]\n', "\x00\n"):
        Journal(table).path.write_text(text)
        with pytest.raises(InputError, match="no journal of a sweep"):
            lowtide.research.sweep([model], targets=["strict"], out=table, jobs=1)


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    """With types; without pyarrow it is said at once."""
    if importlib.util.find_spec("pyarrow") is None:
        with pytest.raises(MissingExtraError, match="pyarrow"):
            lowtide.research.sweep(NETWORKS[:1], out=tmp_path / "t.parquet", jobs=1)
        return
    from pyarrow import parquet

    made = lowtide.research.sweep([*NETWORKS[:2], "none.onnx"], targets=["strict"], out=tmp_path / "t.parquet", jobs=1)
    assert plain(parquet.read_table(tmp_path / "t.parquet").to_pylist()) == plain(made.rows)


@pytest.mark.slow
def test_processes_give_the_same_table(tmp_path: Path, capsys: Captured) -> None:
    """As one process, byte for byte but for the seconds."""
    for jobs in (1, 2):
        words = ("--targets", "strict,generic", "--jobs", jobs, "-o", tmp_path / f"{jobs}.csv")
        assert run(capsys, "research", "sweep", *NETWORKS, *words)[0] == 0
    assert timeless((tmp_path / "1.csv").read_text()) == timeless((tmp_path / "2.csv").read_text())


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_own_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose code ends the process, each time; and one whose code does so once."""
    monkeypatch.setattr(sweep_workers, "MOST_TRIES", 2)
    good = lowtide.research.sweep(NETWORKS[:2], targets=["strict"], jobs=1).rows
    (tmp_path / "deadly.py").write_text("import os\ndef net():\n    os._exit(9)\n")
    once = (
        f"import os\ndef net():\n    try:\n        os.mkdir({str(tmp_path / 'been')!r})\n    except FileExistsError:\n"
    )
    (tmp_path / "once.py").write_text(f"{once}        return {NETWORKS[0]!r}\n    os._exit(9)\n")
    models = [NETWORKS[0], f"{tmp_path}/deadly.py:net", f"{tmp_path}/once.py:net", NETWORKS[1]]
    table = lowtide.research.sweep(models, targets=["strict"], jobs=2)
    assert plain([table.rows[0], table.rows[3]]) == plain(good)
    assert "ended 3 times" in table.rows[1]["error"]
    assert (table.rows[2]["status"], table.rows[2]["peak_bytes"]) == ("ok", good[0]["peak_bytes"])
    assert table.exit_status == 2


def children(process: int) -> list[int]:
    """Processes that a process has started."""
    text = Path(f"/proc/{process}/task/{process}/children")
    return [int(word) for word in text.read_text().split()] if text.exists() else []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_after_kill_9_the_same_call_gives_the_same_table(tmp_path: Path) -> None:
    """Midway, with two processes at work, which end as well."""
    models = [f"zoo:randwire_ws_one_stage:nodes=12,seed={seed}" for seed in range(24)]
    table = tmp_path / "t.csv"
    words = [sys.executable, "-m", "lowtide", "research", "sweep", *models]
    words += ["--targets", "strict", "-o", str(table), "--jobs", "2"]
    environment = os.environ | {"PYTHONPATH": str(Path(lowtide.__file__).parents[1])}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(Journal(table).rows()) < 5:
        assert time.monotonic() < end
        time.sleep(0.02)
    workers = children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = len(Journal(table).rows())
    assert 5 <= done < len(models)
    assert not table.exists()
    assert workers
    while any(Path(f"/proc/{worker}/stat").exists() for worker in workers):
        assert time.monotonic() < end
        time.sleep(0.05)
    again = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert f"{done} of {len(models)} rows were done before" in again.stderr
    other = lowtide.research.sweep(models, targets=["strict"], jobs=1).rows
    assert timeless(table.read_text()) == timeless(csv_bytes(other).decode())


@pytest.mark.slow
def test_a_cluster_gives_the_same_table(tmp_path: Path) -> None:
    """Dask's workers, one of which is killed midway; a scheduler that is not there is said."""
    distributed = pytest.importorskip("distributed", reason="pip install '.[sweep]'")
    models = [f"zoo:randwire_ws_one_stage:nodes=12,seed={seed}" for seed in range(30)]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        killed: list[int] = []

        def kill(done: int, _total: int) -> None:
            if done == 5 and not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        table = lowtide.research.sweep(models, targets=["strict"], scheduler=cluster.scheduler_address, report=kill)
    assert killed
    assert table.errors == 0
    assert plain(table.rows) == plain(lowtide.research.sweep(models, targets=["strict"], jobs=1).rows)
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        lowtide.research.sweep(models, scheduler="tcp://127.0.0.1:9")


def test_without_dask_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*dask"):
        lowtide.research.sweep(NETWORKS[:1], scheduler="tcp://localhost:8786")


def test_the_command_prints_the_rows(capsys: Captured) -> None:
    """Without a file, as a table; as JSON, what the call returns."""
    rows = run_json(capsys, "research", "sweep", NETWORKS[0], "--targets", "strict", "--jobs", "1", "-q")
    assert plain(rows) == plain(lowtide.research.sweep(NETWORKS[:1], targets=["strict"], jobs=1).rows)


def test_a_value_is_refused_only_where_no_row_can_have_it() -> None:
    """What other values allow stays: a row that cannot be is an error among rows."""
    vary: dict[str, list[str] | list[int]] = {"allow": ["", "alias"], "max_ops": [0, 100]}
    table = lowtide.research.sweep([NETWORKS[0]], targets=["generic"], vary=vary, jobs=1)
    assert [row["exit_status"] for row in table.rows][:2] == [0, 2]
    with pytest.raises(InputError, match="--max-ops is about what --allow may change"):
        lowtide.research.sweep([NETWORKS[0]], targets=["generic"], vary={**vary, "max_ops": [100]}, jobs=1)
