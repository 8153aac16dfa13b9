"""What each part of the cuts is worth: one left out at a time, and all levels of the results side by side.

    python bench/cut_parts.py FOLDER [--time 30] [--only NAME ...] [--keep] -o results/cut-parts

Planned under `generic`, without weights: the best order; aliases alone, seams alone; regions (`--allow fission`);
regions with one thing left out; and with more allowed. Every plan is verified. The joined table plans nothing: it takes
what other pages have (`below`, `aliases`, `seams`, `overhead`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import lowtide
from below import FREE, table
from lowtide.api.models import load_own
from lowtide.api.rewrites import cutting
from lowtide.api.rewrites.cut_orders import PartOrders
from lowtide.api.rewrites.cut_search import CutSearch
from lowtide.errors import InputError
from lowtide.ops.part import Spelling
from lowtide.transform.cut import Cutter
from lowtide_research.bench.machine import machine
from lowtide_research.bench.networks import models_named

MODELS = (
    "mobilenet_v2", "resnet50", "densenet121", "inception_v3_299", "nasnetamobile", "swin_t", "whisper_tiny_encoder",
    "hrnet_w18_small",
)  # fmt: skip
RESULTS = Path(__file__).parents[1] / "results"


class _RowsAlone(Cutter):
    """Ops are cut along no axis that is summed over, and images not along their channels."""

    def spelling(self, op: int, axis: int) -> Spelling | None:
        known = self.meaning(op)
        if known is not None and (axis in known.access.reduce or _is_channel(known.access.outputs[0], axis)):
            return None
        return super().spelling(op, axis)


def _rows_alone() -> AbstractContextManager[Any]:
    def cutter(search: CutSearch) -> Cutter:
        return search.__dict__.setdefault("_rows_alone", _RowsAlone(search.problem.graph))

    return patch.object(CutSearch, "cutter", property(cutter))


def _is_channel(dims: tuple[int | None, ...], axis: int) -> bool:
    return len(dims) == 4 and dims[1] == axis


def _left_out(owner: Any, name: str, instead: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(owner, name, lambda *_, **__: instead)


WAYS: Mapping[str, tuple[str, Callable[[], AbstractContextManager[Any]]]] = {
    "order": ("", nullcontext),
    "aliases": ("alias", nullcontext),
    "seams": ("seams", nullcontext),
    "regions": ("fission", nullcontext),
    "no regions cut anew": ("fission", _left_out(PartOrders, "_may_recut", False)),
    "no pieces handed on": ("fission", _left_out(CutSearch, "_forwards", False)),
    "no products by sections": ("fission", _left_out(cutting, "_by_sections", None)),
    "no channels": ("fission", _rows_alone),
    "with seams": ("fission,seams", nullcontext),
    "with a second round": ("fission,rounds", nullcontext),
}
"""What is allowed, and what is left out meanwhile."""


def planned(path: Path, seconds: float) -> dict[str, Any]:
    """A model's row: of every way peak, ops, and whether time ended it."""
    graph, _ = load_own(path, FREE)
    row: dict[str, Any] = {"model": path.stem, "ops": len(graph.ops), "seconds": seconds, "commit": machine().commit}
    for name, (allow, left_out) in WAYS.items():
        began = time.process_time()
        with left_out():
            plan = lowtide.plan(graph, target="generic", time=seconds, allow=allow)
        lowtide.verify(graph, plan)
        row["own_bytes"] = plan.own_order_peak_bytes
        row[name] = {
            "peak_bytes": plan.peak_bytes, "ops": len(plan.order), "stopped": plan.stopped,
            "cpu_seconds": time.process_time() - began,
        }  # fmt: skip
        print(f"{path.stem}, {name}: {plan.peak_bytes:,} B, {plan.stopped}", file=sys.stderr, flush=True)
    return row


def part_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Parts of the best order's peak."""
    body, names = [], [name for name in WAYS if name != "order"]
    for row in rows:
        best = row["order"]["peak_bytes"]
        cells = [f"{row[n]['peak_bytes'] / best:.3f}{'+' * (row[n]['stopped'] == 'time')}" for n in names]
        body.append((row["model"], row["ops"], row["own_bytes"], best, *cells))
    return table(("model", "ops", "own order", "best order", *names), body)


def joined_lines() -> list[str]:
    """What other pages have of models whose cuts were timed."""
    known = {
        name: {r["model"]: r for r in json.loads((RESULTS / f"{name}.json").read_text())["rows"]}
        for name in ("below", "aliases", "seams")
    }
    bounded: dict[str, dict[float, dict[str, Any]]] = {}
    for r in json.loads((RESULTS / "overhead.json").read_text())["rows"]:
        if r["level"] == "extended":
            bounded.setdefault(r["model"], {})[r["max_overhead"]] = r
    body = []
    for model, by_bound in bounded.items():
        below, aliases, seams = (known[name].get(model) for name in ("below", "aliases", "seams"))
        least = [] if seams is None else [seams[key] for key in ("seams_bytes", "seams,accumulate_bytes")]
        times = [by_bound.get(bound) for bound in (0.0, 0.05, 0.1, 0.3)]
        of_below = (
            ("", "", "", "") if below is None else [below[f"{k}_bytes"] for k in ("own", "strict", "best", "cut")]
        )
        measured = ["" if t is None else f"{t['in_use_bytes']:,} ({median(t['measured']):+.1%})" for t in times]
        before = next(t["in_use_before_bytes"] for t in times if t is not None)
        joined = "" if aliases is None else aliases["contiguous"]["peak_bytes"]
        body.append((model, *of_below, joined, min(least, default=""), before, *measured))
    head = (
        "model", "own order", "any order", "+ views, in place", "+ regions", "aliases", "seams", "in use before",
        "0 %", "5 %", "10 %", "30 %",
    )  # fmt: skip
    return table(head, body)


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    on, rows = document["machine"], document["rows"]
    seconds = sorted({row["seconds"] for row in rows})
    return [
        "# What each part of the cuts is worth",
        "",
        f"{on['cpu']}, {on['cores']} cores, much other work beside it, lowtide {on['commit']}; `bench/cut_parts.py`,",
        f"{', '.join(f'{s:g}' for s in seconds)} s a plan. What is left out can show only as far as the searches came.",
        "",
        "## One at a time",
        "",
        "Under `generic`; parts of the best order's peak, `+`: time ended the search. *aliases*, *seams*,",
        "*regions*: each alone. Then regions without one thing: *regions cut anew* where the peak of their parts'",
        "order is; *pieces handed on* to other regions, put together by nobody; *products by sections*; *channels*",
        "of images and sums over what is cut. Then with more allowed.",
        "",
        *part_lines(rows),
        "",
        "## Levels side by side",
        "",
        "From [below](below.md), [aliases](aliases.md) (*contiguous*), [seams](seams.md) (the least of both kinds),",
        "all under `generic` but *any order* (`strict`); from [overhead](overhead.md), under onnxruntime's rules",
        "and after its optimiser, bytes in use as measured, within bounds on predicted time, and the time measured.",
        "",
        *joined_lines(),
    ]


def main() -> int:
    """Plan the models, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--time", type=float, default=30.0, help="seconds of search for each plan (default: 30)")
    parser.add_argument("--only", nargs="*", default=MODELS, metavar="NAME", help="models (default: eight)")
    parser.add_argument("--keep", action="store_true", help="rows of other models stay in the results")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    out = arguments.output.with_suffix(".json")
    rows = json.loads(out.read_text())["rows"] if arguments.keep and out.exists() else []
    try:
        paths = models_named(arguments.folder, arguments.only)
    except InputError as error:
        parser.error(str(error))
    for path in paths:
        rows = [*(row for row in rows if row["model"] != path.stem), planned(path, arguments.time)]
        out.write_text(json.dumps({"machine": asdict(machine()), "rows": rows}, indent=1) + "\n")
    document = {"machine": asdict(machine()), "rows": rows}
    arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
