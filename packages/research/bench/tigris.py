"""Two memories beside TiGrIS: bytes to and from slow memory over a ladder of fast ones, under TiGrIS's accounting.

    python bench/tigris.py MODEL... --tigris /path/to/tigris [--fast 32K,64K,...] [--time 20] -o results/tigris
    python bench/tigris.py --rows A.json B.json -o results/tigris
    python bench/tigris.py MODEL... --rows results/tigris.json --kept VERSION -o results/tigris

TiGrIS (`pip install tigris-ml`, Apache-2.0) cuts a model's own order into stages that fit the fast memory; each stage
loads its inputs from slow memory and stores its outputs there. `tigris analyze --json` gives the three figures that are
compared: what its stages take of the fast memory at the most, the most there is in slow memory at once, and the bytes
that are read from it and written to it in one inference. lowtide plans with `--memory fast=... --allow fission` under
the target `generic`, and is counted as TiGrIS counts: the model's inputs lie in slow memory and are read from there
(once at least), its outputs are written there, and tensors take room there from the first byte to the last read.

Without TiGrIS its columns are empty, and the page says why; with `--kept` rows that were read take its figures from
there, and lowtide's are new.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lowtide
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.sizes import parse_size
from lowtide.spill_plan import HOST
from lowtide.write.command_stream import command_stream
from lowtide_research.bench.machine import machine

LADDERS = {
    ".tflite": "4K,8K,12K,16K,24K,32K,48K,64K,96K",
    ".onnx": "64K,256K,512K,1M,2M,4M",
}
"""Fast memories by the model's format."""

LOST = (
    "*no plan*: in no way to cut that was found in the time does every op fit. VWW and person detection fit 4,096 B",
    "row by row: three rows of 24 x 32 numbers and the one that a convolution makes of them are 3,072 B, and a part of",
    "one row has no padded copy of what it reads, which would be 2,496 B more ([cuts](../../docs/cuts.md#in-tflite)).",
    "Searches end by time: on a machine with other work on it they find less.",
)
"""Why there are rows without a plan."""


def slow_peak_bytes(plan: Plan) -> int:
    """The most bytes in slow memory at once: inputs and outputs throughout, all else from its first store to its last
    load."""
    pieces = {t.id: t.piece.of for t in plan.tensors if t.piece is not None}
    whole = {s.tensor for s in plan.streams or []}
    kinds, sizes = {t.id: t.kind for t in plan.tensors}, {t.id: t.size for t in plan.tensors}
    end = len(plan.order) + 1
    ends = {t for t, kind in kinds.items() if kind in ("input", "output")}
    first, last = dict.fromkeys(ends, 0), dict.fromkeys(ends, end)
    for c in command_stream(plan):
        if c.other != HOST or c.tensor is None:
            continue
        at = pieces.get(c.tensor, c.tensor)
        at = at if at in whole else c.tensor
        if at not in ends and kinds[at] != "constant":
            first.setdefault(at, c.step)
            last[at] = c.step
    change = [0] * (end + 2)
    for t, step in first.items():
        change[step] += sizes[t]
        change[last.get(t, step) + 1] -= sizes[t]
    most = live = 0
    for size in change:
        live += size
        most = max(most, live)
    return most


def ends_bytes(plan: Plan) -> int:
    """Bytes of inputs and outputs, which any plan moves once."""
    return sum(t.size for t in plan.tensors if t.kind in ("input", "output"))


def ours(path: Path, fast: int, seconds: float, allow: str) -> dict[str, Any]:
    """lowtide's figures; a reason if it has no plan."""
    began = time.perf_counter()
    try:
        plan = lowtide.plan(path, target="generic", memories={"fast": fast}, allow=allow, time=seconds)
    except InputError as error:
        return {"reason": str(error), "seconds": time.perf_counter() - began}
    spent = time.perf_counter() - began
    if plan.moves is None:
        return {"reason": f"no cut that was tried fits ({plan.status})", "seconds": spent}
    return {
        "fast": plan.required_bytes,
        "slow": slow_peak_bytes(plan),
        "moved": (plan.traffic_bytes or 0) + ends_bytes(plan),
        "beside_ends": plan.traffic_bytes,
        "bound": plan.traffic_lower_bound_bytes,
        "ops": len(plan.order),
        "seconds": spent,
    }


def theirs(command: str | None, path: Path, fast: int) -> dict[str, Any]:
    """TiGrIS's figures; a reason if it has no plan."""
    if command is None:
        return {"reason": "TiGrIS is not installed; name its command with --tigris"}
    began = time.perf_counter()
    call = [command, "analyze", str(path), "-m", str(fast), "--json"]
    ran = subprocess.run(call, capture_output=True, text=True, check=False, timeout=600)
    spent = time.perf_counter() - began
    try:
        said = json.loads(ran.stdout)
    except json.JSONDecodeError:
        lines = (ran.stderr or ran.stdout).strip().splitlines()
        return {"reason": lines[-1][:120] if lines else f"exit {ran.returncode}", "seconds": spent}
    part, slow = said["fast"], said["slow"]
    if part["verdict"] not in ("ok", "tiled"):
        return {"reason": part["verdict"], "seconds": spent}
    return {
        "fast": part["scheduled_peak_bytes"],
        "slow": slow["peak_bytes"],
        "moved": slow["traffic"]["written"] + slow["traffic"]["read"],
        "stages": part["stages"],
        "seconds": spent,
    }


def version_of(command: str | None) -> str:
    """What TiGrIS says of itself."""
    if command is None:
        return "not installed"
    ran = subprocess.run([command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    return (ran.stdout or ran.stderr).strip().splitlines()[0]


def cells(figures: dict[str, Any]) -> str:
    """Fast, slow and moved bytes."""
    if "moved" not in figures:
        return figures["reason"]
    return " / ".join(f"{figures[key]:,}" for key in ("fast", "slow", "moved"))


def verdict(row: dict[str, Any]) -> str:
    """How many times the bytes that TiGrIS moves beside those of lowtide; who has no plan."""
    mine, other = row["lowtide"], row["tigris"]
    if "moved" not in mine or "moved" not in other:
        return "no plan" if "moved" not in mine and "moved" in other else ""
    times = other["moved"] / mine["moved"]
    return f"{times:.2f}x" + (" **(more)**" if times < 1 else "")


def page(rows: list[dict[str, Any]], tigris: str, seconds: str) -> list[str]:
    """The results as Markdown."""
    own = machine()
    both = [r for r in rows if "moved" in r["lowtide"] and "moved" in r["tigris"]]
    less = sum(r["lowtide"]["moved"] < r["tigris"]["moved"] for r in both)
    equal = sum(r["lowtide"]["moved"] == r["tigris"]["moved"] for r in both)
    nothing = sum(not r["lowtide"].get("beside_ends", 1) for r in rows)
    only = [
        sum("moved" in r[a] and "moved" not in r[b] for r in rows)
        for a, b in (("lowtide", "tigris"), ("tigris", "lowtide"))
    ]
    lines = [
        "# Two memories, beside TiGrIS",
        "",
        f"{own.cpu}, lowtide {(own.commit or '')[:7]}, `{tigris}`; `bench/tigris.py`, {seconds}.",
        "",
        "Bytes of the fast memory that are used / most bytes in slow memory at once / bytes moved between them in one",
        "inference, the model's inputs and outputs among both (they lie in slow memory): TiGrIS's accounting, its",
        "figures those of `analyze --json`. lowtide: `plan --memory fast=SIZE --allow fission --target generic`, of",
        "int8 models, where that moves something, with `--allow fission,rounds`, which cuts parts again;",
        "*beside the ends*: of the bytes moved those that are neither the first load of an input nor the one write of",
        "an output (0: one pool is enough); *ops*: those that run, parts, slices and joins among them. Weights are in",
        "neither memory, and what kernels take beside their tensors is not counted by either.",
        "",
        f"Of {len(rows)} rows both have a plan in {len(both)}: lowtide moves fewer bytes in {less}, the same in",
        f"{equal}, more in {len(both) - less - equal}. lowtide alone has one in {only[0]}, TiGrIS alone in",
        f"{only[1]}. Nothing moves beside the ends in {nothing}.",
        "",
        *LOST,
        "",
    ]
    for model in dict.fromkeys(r["model"] for r in rows):
        lines += [
            f"## {model}",
            "",
            "| fast memory | TiGrIS: fast / slow / moved | stages | lowtide: fast / slow / moved | beside the ends "
            "| ops | TiGrIS moves |",
            "|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for r in (r for r in rows if r["model"] == model):
            mine, other = r["lowtide"], r["tigris"]
            aside = f"{mine['beside_ends']:,}" if "moved" in mine else ""
            lines.append(
                f"| {r['fast']:,} | {cells(other)} | {other.get('stages', '')} | {cells(mine)} | {aside} | "
                f"{mine.get('ops', '')} | {verdict(r)} |"
            )
        lines.append("")
    return lines


def write(rows: list[dict[str, Any]], out: Path, tigris: str, seconds: str) -> None:
    """The page, and the rows as JSON."""
    out.with_suffix(".md").write_text("\n".join(page(rows, tigris, seconds)), encoding="utf-8")
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Rows as JSON and a page, written after each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--rows", type=Path, nargs="*", default=[], help="rows of earlier runs, put in front")
    parser.add_argument("--tigris", help="the command; without it lowtide's columns alone")
    parser.add_argument("--kept", metavar="VERSION", help="TiGrIS's figures are those of --rows, of this version of it")
    parser.add_argument("--fast", help="sizes with commas between; by default a ladder for the model's format")
    parser.add_argument(
        "--allow", default="fission", help="what lowtide may change; fission,rounds: parts are cut again"
    )
    parser.add_argument("--time", type=float, default=20.0, help="seconds for each plan")
    parser.add_argument("--note", help="how long plans were searched, where not all so long")
    parser.add_argument("-o", "--out", type=Path, required=True)
    options = parser.parse_args()
    tigris = options.kept or version_of(options.tigris)
    rows: list[dict[str, Any]] = [row for path in options.rows for row in json.loads(path.read_bytes())]
    if rows and not options.models:
        write(rows, options.out, tigris, options.note or f"{options.time:g} s a plan")
    for path in options.models:
        for size in (options.fast or LADDERS[path.suffix]).split(","):
            fast = parse_size(size, "fast memory")
            at = next((i for i, r in enumerate(rows) if (r["model"], r["fast"]) == (path.stem, fast)), len(rows))
            kept = rows[at]["tigris"] if options.kept and at < len(rows) else None
            other = theirs(options.tigris, path, fast) if kept is None else kept
            row = {
                "model": path.stem,
                "fast": fast,
                "tigris": other,
                "lowtide": ours(path, fast, options.time, options.allow),
            }
            rows[at : at + 1] = [row]
            print(json.dumps(row), file=sys.stderr, flush=True)
            write(rows, options.out, tigris, options.note or f"{options.time:g} s a plan")
    return 0


if __name__ == "__main__":
    sys.exit(main())
