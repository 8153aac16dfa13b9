"""Two memories beside TiGrIS: bytes to and from slow memory over a ladder of fast ones, under TiGrIS's accounting.

    python bench/tigris.py MODEL... --tigris /path/to/tigris [--time 20] -o results/tigris

TiGrIS (`pip install tigris-ml`, Apache-2.0) cuts a model's own order into stages that fit the fast memory; each stage
loads its inputs from slow memory and stores its outputs there. `tigris analyze --json` gives the three figures that are
compared: what its stages take of the fast memory at the most, the most there is in slow memory at once, and the bytes
that are read from it and written to it in one inference. lowtide plans with `--memory fast=... --allow fission` under
the target `generic`, and is counted as TiGrIS counts: the model's inputs lie in slow memory and are read from there
(once at least), its outputs are written there, and tensors take room there from the first byte to the last read.

Without TiGrIS its columns are empty, and the page says why.
"""

from __future__ import annotations

import json
import subprocess
import time
from math import inf
from pathlib import Path
from typing import Any

import lowtide
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.sizes import parse_size
from lowtide.spill_plan import HOST
from lowtide.write.command_stream import command_stream
from lowtide_research.bench.pages import about, document, say, script, table, write

LADDERS = {
    ".tflite": "4K,8K,12K,16K,24K,32K,48K,64K,96K",
    ".onnx": "64K,256K,512K,1M,2M,4M",
}
"""Fast memories by the model's format."""
ALLOW = {".tflite": ("fission", "fission,rounds"), ".onnx": ("fission",)}
"""What lowtide may change; of two plans the one that moves fewer bytes counts."""

LOST = (
    "*no plan*: in no way to cut that was found in the time does every op fit. VWW and person detection fit 4,096 B",
    "row by row: three rows of 24 x 32 numbers and the one that a convolution makes of them are 3,072 B, and a part of",
    "one row has no padded copy of what it reads, which would be 2,496 B more ([means](../../../docs/means.md)).",
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
        plan = lowtide.research.plan(path, target="generic", memories={"fast": fast}, allow=allow, time=seconds)
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


HEAD = (
    "fast memory", "TiGrIS: fast / slow / moved", "stages", "lowtide: fast / slow / moved", "beside the ends", "ops",
    "TiGrIS moves",
)  # fmt: skip


def page(results: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    rows = results["rows"]
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
        f"{about(results['machine'])}, `{results['tigris']}`; `bench/tigris.py`, {results['seconds']:g} s a plan.",
        "",
        "Bytes of the fast memory that are used / most bytes in slow memory at once / bytes moved between them in one",
        "inference, the model's inputs and outputs among both (they lie in slow memory): TiGrIS's accounting, its",
        "figures those of `analyze --json`. lowtide: `plan --memory fast=SIZE --allow fission --target generic`, of",
        "int8 models the better of that and `--allow fission,rounds`, which cuts parts again;",
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
        cells_of = [
            (
                r["fast"], cells(r["tigris"]), r["tigris"].get("stages", ""), cells(r["lowtide"]),
                r["lowtide"].get("beside_ends", ""), r["lowtide"].get("ops", ""), verdict(r),
            )
            for r in rows if r["model"] == model
        ]  # fmt: skip
        lines += [f"## {model}", "", *table(HEAD, cells_of), ""]
    return lines


def main() -> None:
    """Rows as JSON and a page, written after each row."""
    parser = script(__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--tigris", help="the command; without it lowtide's columns alone")
    parser.add_argument("--time", type=float, default=20.0, help="seconds for each plan")
    options = parser.parse_args()
    results = document(tigris=version_of(options.tigris), seconds=options.time, rows=[])
    for path in options.models:
        for size in LADDERS[path.suffix].split(","):
            fast = parse_size(size, "fast memory")
            plans = [ours(path, fast, options.time, allow) for allow in ALLOW[path.suffix]]
            row = {"model": path.stem, "fast": fast, "tigris": theirs(options.tigris, path, fast)}
            results["rows"].append(row | {"lowtide": min(plans, key=lambda plan: plan.get("moved", inf))})
            say(results["rows"][-1])
            write(options.out, results, page(results))


if __name__ == "__main__":
    main()
