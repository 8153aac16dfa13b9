"""A thousand small architectures as a sweep: graphs a second, by processes and by a Dask cluster, and after kills.

    python bench/sweep.py [--graphs 1000] [--jobs 2] [--runs processes killed dask dask-killed] -o results/sweep

The architectures are RandWire stages of 8 to 32 nodes, each wired by a seed of its own (33 to 135 ops), planned under
`strict`. The command is run as users run it, so that its start is in the time; a killed run is ended by SIGKILL
when half of its rows are done, and the same call goes on. The cluster is one of this machine (extra `sweep`); in the
run `dask` one of its workers is killed at half of the rows.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lowtide_research.bench.machine import machine


def main() -> None:
    """Run, compare, write."""
    parser = argparse.ArgumentParser(description="Graphs a second of a sweep.")
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), help="which (all)")
    parser.add_argument("-o", dest="out", required=True)
    options = parser.parse_args()
    models = [f"zoo:randwire_ws_one_stage:nodes={8 + 8 * (k % 4)},seed={k}" for k in range(options.graphs)]
    with tempfile.TemporaryDirectory() as folder:
        runs = [RUNS[name](models, options.jobs, Path(folder) / f"{name}.csv") for name in options.runs]
        tables = [timeless(Path(folder) / f"{name}.csv") for name in options.runs]
    same = all(table == tables[0] for table in tables)
    rows = tables[0]
    result = {
        "machine": dataclasses.asdict(machine()),
        "graphs": len(rows), "ops": [min(int(r["ops"]) for r in rows), max(int(r["ops"]) for r in rows)],
        "optimal": sum(r["optimal"] == "true" for r in rows), "errors": sum(r["status"] == "error" for r in rows),
        "gained": sum(int(r["peak_bytes"]) < int(r["own_order_peak_bytes"]) for r in rows),
        "same_tables": same, "runs": runs,
    }  # fmt: skip
    Path(f"{options.out}.json").write_text(json.dumps(result, indent=1) + "\n")
    Path(f"{options.out}.md").write_text(page(result))


def start(models: list[str], by: list[str], out: Path) -> subprocess.Popen[bytes]:
    """The command, at work."""
    words = ["sweep", *models, "--targets", "strict", *by, "-o", str(out), "-q"]
    return subprocess.Popen([sys.executable, "-m", "lowtide", *words])


def processes(models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """A run from its start to its end."""
    began = time.perf_counter()
    assert start(models, ["--jobs", str(jobs)], out).wait() == 0
    return row(f"{jobs} processes" if jobs > 1 else "one process", began, models)


def one(models: list[str], _: int, out: Path) -> dict[str, Any]:
    """The same with one process."""
    return processes(models, 1, out)


def killed(models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """The same, killed at half of the rows, and gone on with."""
    began = time.perf_counter()
    done = kill_and_go_on(models, ["--jobs", str(jobs)], out)
    return row(f"{jobs} processes, killed after {done:,} rows, and the same call again", began, models)


def dask(models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """By a cluster, one of whose workers is killed at half of the rows."""
    with cluster(jobs) as (address, pids):
        began = time.perf_counter()
        process = start(models, ["--scheduler", address], out)
        done = wait_for_half(models, out)
        os.kill(pids()[0], signal.SIGKILL)
        assert process.wait() == 0
        return row(f"Dask, {jobs} workers, one of them killed after {done:,} rows", began, models)


def dask_killed(models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """By a cluster; the command is killed at half of the rows, and gone on with."""
    with cluster(jobs) as (address, _):
        began = time.perf_counter()
        done = kill_and_go_on(models, ["--scheduler", address], out)
        return row(f"Dask, {jobs} workers; the command killed after {done:,} rows, and the same call again", began,
                   models)  # fmt: skip


RUNS = {"one": one, "processes": processes, "killed": killed, "dask": dask, "dask-killed": dask_killed}


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """A Dask cluster of this machine: its scheduler's address, and what its workers' process numbers are."""
    from distributed import Client, LocalCluster  # pyright: ignore[reportMissingImports]

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local:

        def pids() -> list[int]:
            with Client(local, set_as_default=False) as client:
                return [info["pid"] for info in client.run(lambda: {"pid": os.getpid()}).values()]

        yield local.scheduler_address, pids


def wait_for_half(models: list[str], out: Path) -> int:
    """How many rows there are once it is half of them."""
    journal = Path(f"{out}.journal")
    while not journal.exists() or journal.read_bytes().count(b"\n") < len(models) // 2:
        time.sleep(0.05)
    return journal.read_bytes().count(b"\n")


def kill_and_go_on(models: list[str], by: list[str], out: Path) -> int:
    """How many rows there were when the command was killed."""
    process = start(models, by, out)
    wait_for_half(models, out)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = Path(f"{out}.journal").read_bytes().count(b"\n")
    assert start(models, by, out).wait() == 0
    return done


def row(name: str, began: float, models: list[str]) -> dict[str, Any]:
    """Seconds of a run."""
    return {"run": name, "seconds": time.perf_counter() - began, "rows": len(models)}


def timeless(path: Path) -> list[dict[str, str]]:
    """Rows without their seconds."""
    with open(path, newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def page(result: dict[str, Any]) -> str:
    """Markdown."""
    low, high = result["ops"]
    lines = [
        "# Sweeps", "",
        f"lowtide {result['machine']['lowtide']}, commit {result['machine']['commit']}; {result['machine']['cpu']}, "
        "two cores with much other work; `bench/sweep.py`.", "",
        f"{result['graphs']:,} RandWire stages of 8 to 32 nodes ({low} to {high} ops), `strict`: "
        f"{result['optimal']:,} proved least, {result['gained']:,} below their own order, {result['errors']:,} errors. "
        "Tables without their seconds: "
        f"{'the same' if result['same_tables'] else 'NOT the same'}. Wall time of the whole command.", "",
        "| run | seconds | graphs a second |", "|---|--:|--:|",
        *(f"| {r['run']} | {r['seconds']:.1f} | {r['rows'] / r['seconds']:.1f} |" for r in result["runs"]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
