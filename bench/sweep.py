"""A thousand small architectures as a sweep: graphs a second, with one process, two, and gone on with after a kill.

    python bench/sweep.py [--graphs 1000] [--jobs 2] -o bench/results/sweep

The architectures are RandWire stages of 8 to 32 nodes, each wired by a seed of its own (33 to 135 ops), planned under
`strict`. The command is run as users run it, so that its start is in the time; the killed run is ended by SIGKILL
when half of its rows are done, and the same call goes on.
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
from pathlib import Path
from typing import Any

from lowtide.bench.machine import machine


def main() -> None:
    """Run, compare, write."""
    parser = argparse.ArgumentParser(description="Graphs a second of a sweep.")
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("-o", dest="out", required=True)
    options = parser.parse_args()
    models = [f"zoo:randwire_ws_one_stage:nodes={8 + 8 * (k % 4)},seed={k}" for k in range(options.graphs)]
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            whole("one process", models, 1, Path(folder) / "1.csv"),
            whole(f"{options.jobs} processes", models, options.jobs, Path(folder) / "n.csv"),
            killed(models, options.jobs, Path(folder) / "killed.csv"),
        ]
        tables = [timeless(Path(folder) / name) for name in ("1.csv", "n.csv", "killed.csv")]
    same = tables[0] == tables[1] == tables[2]
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


def start(models: list[str], jobs: int, out: Path) -> subprocess.Popen[bytes]:
    """The command, at work."""
    words = ["sweep", *models, "--targets", "strict", "--jobs", str(jobs), "-o", str(out), "-q"]
    return subprocess.Popen([sys.executable, "-m", "lowtide", *words])


def whole(name: str, models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """Seconds of a run from its start to its end."""
    began = time.perf_counter()
    assert start(models, jobs, out).wait() == 0
    return {"run": name, "seconds": time.perf_counter() - began, "rows": len(models)}


def killed(models: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """The same, killed at half of the rows, and gone on with."""
    journal = Path(f"{out}.journal")
    began = time.perf_counter()
    process = start(models, jobs, out)
    while not journal.exists() or journal.read_bytes().count(b"\n") < len(models) // 2:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = journal.read_bytes().count(b"\n")
    assert start(models, jobs, out).wait() == 0
    return {"run": f"{jobs} processes, killed after {done:,} rows, and the same call again",
            "seconds": time.perf_counter() - began, "rows": len(models)}  # fmt: skip


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
