"""What lies in what, and what that is worth: every model of a folder and those of alias_models.py, level by level.

    python bench/aliases.py FOLDER [--time 20] [--only NAME ...] -o results/aliases

Each level is a target for `lowtide research plan --allow alias`, whose plan is checked: the strict optimum, what
`generic` has by itself, normalisations in place, concats and slices in place where they are one stretch; then partial
overlap for kernels that make rows in turn, as the file lies, with channels last, and in either layout; chains of
elementwise ops as one kernel, and as prologues of convolutions. Sizes are bytes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from math import exp, log
from pathlib import Path
from random import Random
from typing import Any

import lowtide
from alias_models import MODELS, STUDY
from below import FREE
from lowtide.api.models import load_own
from lowtide.optimize.aliases import AliasSearch
from lowtide.stop import Limits
from lowtide_research.bench.pages import about, document, say, script, table, write

LEVELS = {
    "generic": ("generic", ""),
    "norms": ("generic,in_place_normalisation=true", ""),
    "contiguous": ("generic", "alias"),
    "rows": ("generic,pieces=strided,overlap=diagonal", "alias"),
    "channels last": ("generic,pieces=strided,overlap=diagonal,layout=channels_last", "alias"),
    "either": ("generic,overlap=diagonal,layout=either", "alias"),
    "chains": ("generic,chains=fused", "alias"),
    "chains, last": ("generic,pieces=strided,overlap=diagonal,layout=channels_last,chains=fused", "alias"),
    "prologue": ("generic,overlap=diagonal,layout=either,chains=prologue", "alias"),
}
"""Name of a level, its target, and what is allowed."""

ALIASES = ("generic", "norms", "contiguous", "rows", "channels last", "either")  # those without fusion


def levels(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row."""
    graph, _ = load_own(path, FREE)
    strict = lowtide.research.plan(graph, target="strict", time=seconds)
    row: dict[str, Any] = {
        "model": path.stem,
        "ops": len(graph.ops),
        "own_bytes": strict.own_order_peak_bytes,
        "strict_bytes": strict.peak_bytes,
        "strict_optimal": strict.optimal,
    }
    for name, (target, allow) in LEVELS.items():
        began = time.perf_counter()
        plan = lowtide.research.plan(graph, target=target, allow=allow, time=seconds)
        row[name] = {
            "peak_bytes": plan.peak_bytes,
            "arena_bytes": plan.arena_bytes,
            "optimal": plan.optimal,
            "aliases": len(plan.rewrites or ()),
            "tried": (plan.search or {}).get("aliases_tried", 0),
            "least": plan.figures.aliases_least,
            "floor_bytes": plan.peak_bytes if plan.figures.aliases_least else floor(graph, plan),
            "seconds": time.perf_counter() - began,
        }
    return row


def floor(graph: lowtide.Graph, plan: lowtide.Plan) -> int:
    """Bytes that are needed whatever lies in what: of an op that has nothing to do with any alias."""
    if not plan.allow:
        return plan.lower_bound_bytes
    assert plan.rules is not None
    return AliasSearch(graph, plan.rules, Limits(), 0, Random(0)).floor


def mean(rows: list[dict[str, Any]], levels: Iterable[str], what: str = "peak_bytes") -> float:
    """Geometric mean of the peaks beside the strict optimum, each row's lowest of these levels."""
    ratios = [_best(r, levels, what) / r["strict_bytes"] for r in rows]
    return exp(sum(map(log, ratios)) / max(1, len(ratios)))


def _best(row: dict[str, Any], levels: Iterable[str] = LEVELS, what: str = "peak_bytes") -> int:
    return min(row[level][what] for level in levels)


def tables(results: dict[str, Any]) -> list[str]:
    """The page."""
    rows = results["rows"]
    lines = [
        "# Aliases: what lies in what",
        "",
        f"{about(results['machine'])}; `bench/aliases.py`, at most {results['seconds']:g} s a plan. Sizes are bytes;",
        "every plan was checked.",
        "",
        "*own*: the file's order, *strict*: the least peak of any order, nothing shared. Then parts of *strict*,",
        "level by level: `generic` as it is; softmax and normalisations in place; `--allow alias` with concats,",
        "slices and splits in place where they are one stretch of bytes (as the file lies), pieces counted one by",
        "one; row by row too, with partial overlap for kernels that make the rows of the leading dimension in",
        "turn, as the file lies; with channels last; and in either layout, so that pieces are one stretch. Those",
        "are the *aliases*. Then, which is fusion and no alias: *chains* of elementwise ops as one kernel, on top",
        "of *contiguous*, and of *channels last*; *prologue*: also those that only a convolution, a product or a",
        "pool reads, on top of *either*. `+`: not proved least over the orders of that choice of aliases.",
        "*lowest*: of all. *no choice needs less*: of *contiguous*. *arenas*: offsets found, aligned to 64. *lower",
        "bounds*: proved for a level whatever is allocated in what, by an op that has nothing to do with any alias.",
        "",
    ]
    head = ("model", "ops", "own", "strict", *LEVELS, "aliases", "lowest", "no choice needs less")
    body: list[tuple[Any, ...]] = [
        (
            r["model"], r["ops"], r["own_bytes"], r["strict_bytes"],
            *(f"{r[k]['peak_bytes'] / r['strict_bytes']:.3f}{'' if r[k]['optimal'] else '+'}" for k in LEVELS),
            f"{_best(r, ALIASES) / r['strict_bytes']:.3f}", f"{_best(r) / r['strict_bytes']:.3f}",
            "" if not r["contiguous"]["tried"] else "proved" if r["contiguous"]["least"] else "open",
        )
        for r in rows
    ]  # fmt: skip
    study = [r for r in rows if r["model"] in STUDY]
    kinds = [("geometric mean", rows, "peak_bytes"), ("of the study's", study, "peak_bytes")]
    kinds += [("their arenas", study, "arena_bytes"), ("their lower bounds", study, "floor_bytes")]
    for name, some, what in kinds:
        means = [mean(some, levels, what) for levels in (*((level,) for level in LEVELS), ALIASES, tuple(LEVELS))]
        body.append((f"{name} ({len(some)})", "", "", "", *(f"{m:.3f}" for m in means), ""))
    lines += table(head, body)
    for name, reason in results["left_out"].items():
        lines += ["", f"Left out: {name}: {reason}"]
    return lines


def main() -> None:
    """Plan all of them."""
    parser = script(__doc__, folder="models as .onnx")
    parser.add_argument("--time", type=float, default=20.0, help="seconds of search for each plan (default: 20)")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="models to plan (default: all)")
    given = parser.parse_args()
    results = document(seconds=given.time, rows=[], left_out={})
    with tempfile.TemporaryDirectory(prefix="lowtide-aliases-") as folder:
        paths = sorted(given.folder.rglob("*.onnx"))
        for name, make in MODELS.items():
            paths.append(Path(folder) / f"{name}.onnx")
            make(paths[-1])
        for path in (p for p in paths if not given.only or p.stem in given.only):
            try:
                results["rows"].append(last := levels(path, given.time))
            except lowtide.LowtideError as error:
                results["left_out"][path.stem] = str(error)
                say(f"{path.name}: left out: {error}")
                continue
            ratios = " ".join(f"{last[k]['peak_bytes'] / last['strict_bytes']:.3f}" for k in LEVELS)
            say(f"{path.name}: {ratios}")
            write(given.out, results, tables(results))


if __name__ == "__main__":
    main()
