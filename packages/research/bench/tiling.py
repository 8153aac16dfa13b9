"""Memory by tiles, recomputation and row streaming within 5 and 50 % more time: the default command.

    python bench/tiling.py FOLDER [--only NAME...] [--resume results/tiling.json] -o results/tiling

Each model is planned by `lowtide plan MODEL --for generic --slower S`, a process of its own: predicted arena, checked,
not run. *streamed*: `--for loops`, rows in loops with ring buffers, which no ONNX file carries. *least*: the least of
these. *strict*: the least peak of any order of the unchanged operators, without views and in place. *today*: the file
order's arena. `=`: proved optimal of all orders of these tiles, or loops. *s*: processor seconds of the three commands.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lowtide_research.bench.pages import about, document, mean_ratio, method_of, say, script, table, write
from study_models import MODELS, STUDY

SLOWER = (5, 50)  # per cent
ZOO = ("vae_decoder", "mcunet_320kb", "mcunet_v2_vww")


def planned(model: Path, *options: str) -> dict[str, Any]:
    """What a command prints. Exits where it fails."""
    command = [sys.executable, "-m", "lowtide", *options, "--json", "-q", str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def row(model: Path) -> dict[str, Any]:
    """A model's figures: bytes, whether proved, and processor seconds."""
    strict = planned(model, "research", "plan", "--target", "strict")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    plans = {f"{s}": planned(model, "plan", "--for", "generic", "--slower", f"{s}%") for s in SLOWER}
    plans["streamed"] = planned(model, "plan", "--for", "loops")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {way: plan["comparison"]["planned_bytes"] for way, plan in plans.items()}
    return {
        "model": model.stem,
        "ops": len(strict["order"]),
        "strict": strict["peak_bytes"],
        "today": plans["5"]["comparison"]["today_bytes"],
        **figures,
        "least": min(figures.values()),
        "proved": [way for way, plan in plans.items() if plan["optimal"] and plan["arena_bytes"] == plan["peak_bytes"]],
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def kept_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of an interrupted run. Exits where another commit made them."""
    before = json.loads(path.read_text(encoding="utf-8"))
    if before["machine"]["commit"] != document()["machine"]["commit"]:
        raise SystemExit(f"{path}: of commit {before['machine']['commit']}")
    return before["rows"]


def page(results: dict[str, Any]) -> list[str]:
    """The rows, and their means over all models and over the 26 of the study, as Markdown."""
    rows, ways = results["rows"], [str(s) for s in SLOWER] + ["streamed", "least"]
    head = ("model", "ops", "strict", "today", *(f"{s} %" for s in SLOWER), "streamed", "least / strict", "s")
    cells = [
        (
            r["model"], r["ops"], r["strict"], r["today"],
            *(f"{r[way]:,}{' =' * (way in r['proved'])}" for way in ways[:-1]),
            f"{r['least'] / r['strict']:.3f}", f"{r['seconds']:.0f}",
        )
        for r in rows
    ]  # fmt: skip
    study = [r for r in rows if r["model"] in STUDY]
    means = [
        (f"{what}, {len(which)} models", *(f"{mean_ratio(which, way, what):.3f}" for way in ways))
        for which in (rows, study)
        for what in ("strict", "today")
        if which
    ]
    return [
        "# Tiles, recomputation and row streaming", "", *method_of(__doc__),
        f"{about(results['machine'])}. Bytes.", "",
        *table(head, cells), "", "Geometric means:", "",
        *table(("of", *(f"{s} %" for s in SLOWER), "streamed", "least"), means),
    ]  # fmt: skip


def main() -> None:
    """Plan every model, and write the page after each."""
    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="models to plan (default: 29)")
    parser.add_argument("--resume", type=Path, metavar="F.json", help="keeps the rows that a run of this commit wrote")
    given = parser.parse_args()
    rows = kept_rows(given.resume) if given.resume else []
    kept = {r["model"] for r in rows}
    with tempfile.TemporaryDirectory(prefix="lowtide-tiling-") as folder:
        paths = {path.stem: path for path in sorted(given.folder.rglob("*.onnx"))}
        for name, build in MODELS.items():
            paths[name] = Path(folder) / f"{name}.onnx"
            build(paths[name])
        for name in ZOO:
            paths[name] = Path(folder) / f"{name}.onnx"
            subprocess.run(
                [sys.executable, "-m", "lowtide", "research", "zoo", name, "-o", str(paths[name]), "-q"], check=True
            )
        for name in [n for n in given.only or (*sorted(STUDY), *ZOO) if n not in kept]:
            rows.append(row(paths[name]))
            say(f"{name}: {rows[-1]['least'] / rows[-1]['strict']:.3f} of strict, {rows[-1]['seconds']:.0f} s")
            if given.out:
                results = document(rows=rows)
                write(given.out, results, page(results))


if __name__ == "__main__":
    main()
