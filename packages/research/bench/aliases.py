"""What lies in what, and what that is worth: every model of a folder and those of alias_models.py, level by level.

    python bench/aliases.py FOLDER [--time 20] [--only NAME ...] -o results/aliases

Each level is a target for `lowtide plan --allow alias`, whose plan is checked: the strict optimum, what `generic` has
without being told, normalisations in place, concats and slices in place where they are one stretch; then partial
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
from alias_models import MODELS, STRICT_MIB
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

ALIASES = ("generic", "norms", "contiguous", "rows", "channels last", "either")
"""Those without fusion."""

ASKED = {
    "mobilenet_v2": 0.50, "mobilenet_v3_large": 0.50, "efficientnet_b0": 0.33, "ssdlite320_mobilenet_v3": 0.50,
    "shufflenet_v2_x1_0": 0.75, "squeezenet1_1": 0.60, "inception_v3_299": 0.50, "densenet121": 0.67, "resnet50": 0.67,
    "hrnet_w18_small": 0.59, "fcn_resnet50": 0.67, "deeplabv3_resnet50": 0.67, "unet_r34_256": 0.50,
    "unetpp_effb0_256": 0.71, "fpn_mnv2_256": 0.62, "segformer_b0_512": 0.50, "yolov5n_640": 0.58,
    "efficientdet_d0_512": 0.67, "nasnetamobile": 0.91, "darts_v2_cifar": 0.83, "randwire_ws_seed1": 0.90,
    "swin_t": 0.78, "vit_b_16": 0.79, "gpt2_prefill_256_last": 0.62, "whisper_tiny_encoder": 0.56,
    "sd15_unet_64": 0.52,
}  # fmt: skip
"""What a prototype reached of the strict optimum with all of these and chains of ops fused into one besides."""


def levels(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row."""
    graph, _ = load_own(path, FREE)
    strict = lowtide.plan(graph, target="strict", time=seconds)
    row: dict[str, Any] = {
        "model": path.stem,
        "ops": len(graph.ops),
        "own_bytes": strict.own_order_peak_bytes,
        "strict_bytes": strict.peak_bytes,
        "strict_optimal": strict.optimal,
    }
    for name, (target, allow) in LEVELS.items():
        began = time.perf_counter()
        plan = lowtide.plan(graph, target=target, allow=allow, time=seconds)
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
        "*lowest*: of all. *asked*: what a prototype had with chains; it took channels of a concat as one stretch",
        "and images with channels last in one and the same tensor. *arenas*: offsets found, aligned to 64.",
        "*floors*: proved for a level whatever lies in what, by an op that has nothing to do with any alias.",
        "",
    ]
    head = ("model", "ops", "own", "strict", *LEVELS, "aliases", "lowest", "asked")
    body: list[tuple[Any, ...]] = [
        (
            r["model"], r["ops"], r["own_bytes"], r["strict_bytes"],
            *(f"{r[k]['peak_bytes'] / r['strict_bytes']:.3f}{'' if r[k]['optimal'] else '+'}" for k in LEVELS),
            f"{_best(r, ALIASES) / r['strict_bytes']:.3f}", f"{_best(r) / r['strict_bytes']:.3f}",
            f"{ASKED[r['model']]:.2f}" if r["model"] in ASKED else "",
        )
        for r in rows
    ]  # fmt: skip
    study = [r for r in rows if r["model"] in ASKED]
    kinds = [("geometric mean", rows, "peak_bytes"), ("of those asked", study, "peak_bytes")]
    kinds += [("their arenas", study, "arena_bytes"), ("their floors", study, "floor_bytes")]
    columns = [*((level,) for level in LEVELS), ALIASES, tuple(LEVELS)]
    for name, some, what in kinds:
        means = [f"{mean(some, levels, what):.3f}" for levels in columns]
        asked = None
        if name == "of those asked" and some:
            asked = exp(sum(log(ASKED[r["model"]]) for r in some) / len(some))
        body.append((f"{name} ({len(some)})", "", "", "", *means, "" if asked is None else f"{asked:.3f}"))
    lines += [*table(head, body), ""]
    built = [r for r in rows if r["model"] in STRICT_MIB]
    lines += [
        "Models that `bench/alias_models.py` builds, beside the strict optimum of those exported from PyTorch, in MiB:",
        "",
    ]
    lines += table(
        ("model", "here", "exported"),
        [(r["model"], f"{r['strict_bytes'] / 2**20:.2f}", f"{STRICT_MIB[r['model']]:.2f}") for r in built],
    )
    lines += ["", "The search, under `generic` (*contiguous*):", ""]
    searched = [r for r in rows if r["contiguous"]["tried"]]
    lines += table(
        ("model", "aliases", "choices ordered", "no choice needs less", "arena", "s"),
        [
            (
                r["model"], s["aliases"], s["tried"], "proved" if s["least"] else "open", s["arena_bytes"],
                f"{s['seconds']:.1f}",
            )
            for r in searched
            for s in (r["contiguous"],)
        ],
    )  # fmt: skip
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
