"""Halos kept beside halos computed again: peak, ops, multiplications, and milliseconds in onnxruntime.

    python bench/halos.py FOLDER [--only NAME ...] [--bounded NAME ...] -o results/halos

Each ONNX file gets random weights (networks of the zoo have theirs), goes through onnxruntime's optimiser (level
extended) and is planned under its rules with `--allow fission` and with `--allow fission,halos`: as low as it gets, and
if --bounded names it, with a bound on the ops that run and within 10 % more time by a cost file. Each time the model
whole and both plans run in turn in one process, on one thread: times are medians of the processor's, and bytes what
onnxruntime has in use. MobileNetV2's first region is also shown in a few numbers of stripes, with kept rows, with
rows run again by ops that make more than they read, and by all ops. MobileNetV2-0.35 as an int8 .tflite is planned for
TFLM, where each operator and tensor takes bytes beside the head, and run there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import lowtide
from below import table
from below_tflite import mobilenet_v2
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api.writing import write_zoo
from lowtide.errors import InputError
from lowtide.plan import Plan
from lowtide.run.ort_session import PLANNED
from lowtide.run_reports import RunReport, TfliteRunReport
from lowtide.target import BUILT_IN
from lowtide.transform.cut import Cut, Cutter, Region
from lowtide.transform.halos import halos_of
from lowtide.transform.parts import apply
from lowtide_research.bench.in_turn import milliseconds_in_turn
from lowtide_research.bench.machine import machine
from lowtide_research.bench.networks import models_named

MODELS = ("mobilenet_v2", "resnet50", "unet_r34_256")
ZOO = ("mobilenet_v2_035:side=224", "mcunet_v2_vww", "mcunet_320kb")
BOUNDED, WITHIN = ("mobilenet_v2",), 0.1
"""Models planned within so much more time, by a cost file, as well."""
WAYS = ("fission", "fission,halos")


def in_onnxruntime(path: Path, bounds: Mapping[str, Any], seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Both ways within a bound, which arguments of `lowtide.plan` say."""
    files, rows = [path], list[dict[str, Any]]()
    for allow in WAYS:
        plan = lowtide.plan(path, target="onnxruntime", allow=allow, time=seconds, **bounds)
        files.append(folder / f"{allow}.onnx")
        plan.apply(path, files[-1])
        ran = lowtide.verify(path, plan, run=True, timed=False).run
        assert isinstance(ran, RunReport)
        most, within = bounds.get("max_ops", 0), bounds.get("max_overhead")
        rows.append(
            _row(path.name.partition(".")[0], allow, plan)
            | {"max_ops": most, "max_overhead": within, "whole_in_use_bytes": ran.original.peak_bytes}
            | {"in_use_bytes": ran.planned.peak_bytes, "predicted": None if plan.cost is None else plan.cost.overhead}
            | {"as_planned": all(n.planned_bytes in (None, n.in_use_bytes) for n in ran.planned.nodes)}
        )
    whole, *both = milliseconds_in_turn([(file, PLANNED) for file in files])[0]
    rows = [row | {"whole_ms": whole, "ms": ms} for row, ms in zip(rows, both, strict=True)]
    for row in rows:
        _say(row)
    return rows


def in_tflm(path: Path, seconds: float) -> list[dict[str, Any]]:
    """Both ways for TFLM, planned and measured there."""
    rows = []
    for allow in WAYS:
        plan = lowtide.plan(path, target="tflm", allow=allow, time=seconds)
        ran = lowtide.verify(path, plan, run=True, timed=False).run
        assert isinstance(ran, TfliteRunReport)
        tflm = ran.tflm
        assert tflm is not None
        assert tflm.original is not None
        assert tflm.planned is not None
        rows.append(
            _row(path.stem, allow, plan)
            | {"whole_arena_bytes": tflm.original.smallest_arena_bytes, "head_bytes": tflm.planned.head_bytes}
            | {"arena_bytes": tflm.planned.smallest_arena_bytes, "required_bytes": plan.required_bytes}
        )
        _say(rows[-1])
    return rows


def in_stripes(path: Path) -> list[dict[str, Any]]:
    """A model's first region of rows in a few numbers of stripes: what is there at once while they run in turn, their
    ops, and what rows add that run again."""
    target = BUILT_IN["onnxruntime"]
    graph = target.as_seen(lowtide.load(path))
    cutter = Cutter(graph)
    own = graph.own_order
    axes = next(
        axes for n in range(FIRST_OPS, 0, -1) if (axes := cutter.grow(own[:n], own[n - 1], ROWS)) and own[0] in axes
    )
    rows = []
    for stripes in STRIPES:
        kept = cutter.region(own, axes, stripes)
        ways = {"kept": kept, "wider": cutter.region(own, axes, stripes, "pull again"), "all": _all_again(cutter, kept)}
        for way, region in ways.items():
            parts, halos = apply(cutter, [region]), halos_of(cutter, [region])
            steps = profile(memory_model(parts.graph, target), range(len(parts.graph.ops))).footprint
            peak = max(size for size, op in zip(steps, parts.graph.ops, strict=True) if op.id in parts.parts)
            extra = 0.0 if halos is None else halos.overhead
            rows.append({
                "stripes": stripes, "way": way, "region": len(axes), "peak_bytes": peak, "ops": len(parts.parts),
                "extra": extra,
            })  # fmt: skip
    return rows


def _all_again(cutter: Cutter, region: Region) -> Region:
    """The region with every op running rows again whose results stay in it."""
    axes = {cut.op: cut.axis for cut in region.cuts}
    found: dict[int, Cut] = {}
    for cut in reversed(region.cuts):
        begins = cutter.begins(cut.op, axes, cut.ends, found) if cutter.stays(cut.op, axes) else ()
        found[cut.op] = replace(cut, begins=begins)
    return Region(tuple([found[cut.op] for cut in region.cuts]))


def _row(name: str, allow: str, plan: Plan) -> dict[str, Any]:
    halos = plan.halos
    return {
        "model": name, "allow": allow, "peak_bytes": plan.peak_bytes, "ops": len(plan.order), "optimal": plan.optimal,
        "extra": 0.0 if halos is None else halos.overhead,
    }  # fmt: skip


def _say(row: dict[str, Any]) -> None:
    bytes_in_use = row.get("in_use_bytes", row.get("arena_bytes"))
    took = f", {row['ms']:.1f} ms ({row['whole_ms']:.1f} whole)" if "ms" in row else ""
    what = f"{bytes_in_use:,} B, {row['ops']:,} ops, {row['extra']:+.1%} multiplications{took}"
    print(f"{row['model']}, {row['allow']}: {what}", file=sys.stderr, flush=True)


STRIPES, FIRST_OPS, ROWS = (4, 7, 14, 28), 13, 2
"""Numbers of stripes, ops of the first region, and the axis of its last op."""
STRIPES_HEAD = (
    "stripes",
    *(f"{what}{way}" for way in ("kept", "wider again", "all again") for what in ("", "ops ", "more ")),
)
HEAD = (
    "model", "bound", "whole", "kept", "again", "again / kept", "ops kept", "ops again", "more multiplications",
    "ms whole", "ms kept", "ms again",
)  # fmt: skip
TFLM_HEAD = ("model", *HEAD[2:5], "head kept", "head again", *HEAD[6:9])


def lines(document: dict[str, Any]) -> list[str]:
    """The results as Markdown."""
    pairs = list(zip(document["rows"][::2], document["rows"][1::2], strict=True))
    rows = [
        (
            kept["model"], _bound(kept), kept["whole_in_use_bytes"], kept["in_use_bytes"], again["in_use_bytes"],
            f"{again['in_use_bytes'] / kept['in_use_bytes']:.3f}", kept["ops"], again["ops"], f"{again['extra']:+.1%}",
            f"{kept['whole_ms']:.1f}", f"{kept['ms']:.1f}", f"{again['ms']:.1f}",
        )
        for kept, again in pairs
    ]  # fmt: skip
    kept, again = document["tflm"]
    tflm = (
        kept["model"], kept["whole_arena_bytes"], kept["arena_bytes"], again["arena_bytes"], kept["head_bytes"],
        again["head_bytes"], kept["ops"], again["ops"], f"{again['extra']:+.1%}",
    )  # fmt: skip
    stripes = [
        (three[0]["stripes"], *(x for r in three for x in (r["peak_bytes"], r["ops"], f"{r['extra']:+.1%}")))
        for three in zip(*(document["stripes"][k::3] for k in range(3)), strict=True)
    ]
    missed = sum(not row["as_planned"] for row in document["rows"])
    return [
        "# Halos kept and halos computed again",
        "",
        f"{document['machine']['cpu']}, lowtide {document['machine']['commit']}, other work beside it;",
        f"`python bench/halos.py FOLDER -o results/halos`, {document['seconds']:g} s of search a plan.",
        "",
        "*kept*: `--allow fission`. *again*: `--allow fission,halos`. Bytes are what onnxruntime has in use,",
        f"measured, and as planned at every op in {len(document['rows']) - missed} of {len(document['rows'])} runs. "
        "Milliseconds are the processor's, on one thread, medians of runs in turn.",
        "",
        *table(HEAD, rows),
        "",
        "In TFLM, bytes of the smallest arena in which it runs, and of its head:",
        "",
        *table(TFLM_HEAD, [tflm]),
        "",
        f"MobileNetV2's first {document['stripes'][0]['region']} ops in stripes of rows, in turn, bytes at once under "
        "onnxruntime's rules;",
        "run again by ops that make more than they read (*wider*, as plans have it), and by all (as MCUNetV2 has it);",
        "*more*: multiplications, of the model's.",
        "",
        *table(STRIPES_HEAD, stripes),
    ]


def _bound(row: dict[str, Any]) -> str:
    if row["max_overhead"] is not None:
        return f"{row['max_overhead']:.0%} more time"
    return f"{row['max_ops']:,} ops" if row["max_ops"] else ""


def optimised(model: str, folder: Path, made: Path) -> Path:
    """A network with weights, as onnxruntime's optimiser leaves it. Raises `InputError` if there is no such file."""
    from lowtide.run.random_weights import with_random_weights

    name = model.partition(":")[0]
    weighted, result = made / f"{name}.onnx", made / f"{name}.opt.onnx"
    if model in ZOO:
        write_zoo(model, weighted)
    else:
        with_random_weights(models_named(folder, [model])[0], weighted)
    lowtide.runtime_optimized(weighted, result)
    return result


def main() -> int:
    """Plan and measure the models."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=(*MODELS, *ZOO), metavar="NAME", help="models (default: six)")
    parser.add_argument(
        "--bounded", nargs="*", default=BOUNDED, metavar="NAME", help="models to plan within 10 %% more, too"
    )
    parser.add_argument("--ops", type=int, default=300, help="bound on the ops that run (default: 300)")
    parser.add_argument("--time", type=float, default=30.0, help="seconds of search for each plan (default: 30)")
    parser.add_argument("--measure", type=float, default=40.0, help="seconds to time a model's ops (default: 40)")
    parser.add_argument("--keep", action="store_true", help="measure nothing again, all but the stripes stays")
    parser.add_argument("-o", "--output", type=Path, required=True, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    out = arguments.output.with_suffix(".json")
    with tempfile.TemporaryDirectory(prefix="lowtide-halos-") as name:
        folder = Path(name)
        try:
            first = optimised(MODELS[0], arguments.folder, folder)
            document = json.loads(out.read_text()) if arguments.keep else _measured(arguments, folder)
        except InputError as error:
            parser.error(str(error))
        document["stripes"] = in_stripes(first)
    out.write_text(json.dumps(document, indent=1) + "\n")
    arguments.output.with_suffix(".md").write_text("\n".join(lines(document)) + "\n")
    return 0


def _measured(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What is planned, run and timed."""
    rows: list[dict[str, Any]] = []
    for model in arguments.only:
        path = optimised(model, arguments.folder, folder)
        bounds: list[dict[str, Any]] = [{}]
        if model in arguments.bounded:
            bounds.append({"max_ops": arguments.ops})
            cost = lowtide.measure(path, time=arguments.measure, max_overhead=[WITHIN])
            bounds.append({"cost": cost, "max_overhead": WITHIN})
        for bound in bounds:
            rows += in_onnxruntime(path, bound, arguments.time, folder)
    int8 = folder / "mobilenet_v2_0.35_224_int8.tflite"
    int8.write_bytes(mobilenet_v2().bytes())
    tflm = in_tflm(int8, 2 * arguments.time)
    return {"machine": asdict(machine()), "seconds": arguments.time, "rows": rows, "tflm": tflm}


if __name__ == "__main__":
    raise SystemExit(main())
