"""JAX programs as XLA schedules them: what its order needs, the least that any order needs, and the proof.

    python bench/xla.py FOLDER --lower                    # in an environment with jax; writes the texts to FOLDER
    python bench/xla.py FOLDER -o results/xla       # plans them; needs no jax

26 programs (`xla_programs.py`), each compiled twice for CPU: with XLA's default scheduler, which spreads work over
cores, and with its memory scheduler. XLA's figure is its own `memory_analysis()`: temporaries and outputs, donated
parameters among these.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lowtide
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.target import resolve
from lowtide_research.bench.pages import about, document, say, script, table, write

NEAR = 0.05  # of XLA's figure

SCHEDULERS = {"default": "", "memory": "--xla_cpu_enable_concurrency_optimized_scheduler=false"}
TARGET = resolve("generic,overwrite_inputs=true")
"""What the text lets share, donated parameters too."""


def lower(folder: Path, scheduler: str) -> None:
    """Compile every program, and write its text and XLA's figures."""
    import jax

    from xla_programs import programs

    for program in programs():
        run, given, donated = program.make()
        compiled = jax.jit(run, donate_argnums=donated).lower(*given).compile()
        figures = compiled.memory_analysis()
        name = f"{program.name}.{scheduler}"
        (folder / f"{name}.hlo.txt").write_text(compiled.as_text(), encoding="utf-8")
        sizes = {
            key: getattr(figures, f"{key}_size_in_bytes") for key in ("temp", "output", "alias", "argument")
        }  # fmt: skip
        what = {"what": program.what, "jax": jax.__version__, **sizes}
        (folder / f"{name}.json").write_text(json.dumps(what), encoding="utf-8")
        print(name, file=sys.stderr)


def planned(text: Path) -> dict[str, Any]:
    """A row: XLA's figure, what its order needs, and the least."""
    figures = json.loads(text.with_name(text.name.removesuffix(".hlo.txt") + ".json").read_text(encoding="utf-8"))
    program, scheduler = text.name.removesuffix(".hlo.txt").split(".")
    graph = lowtide.load(text)
    model = memory_model(graph, TARGET)
    began = time.process_time()
    plan = lowtide.research.plan(graph, target=TARGET)
    took = time.process_time() - began
    lowtide.verify(graph, plan)
    moved = sum(a != b for a, b in zip(plan.order, graph.own_order, strict=True))
    return {
        "program": program, "what": figures["what"], "scheduler": scheduler, "jax": figures["jax"],
        "ops": len(graph.ops), "xla_bytes": figures["temp"] + figures["output"], "laid_out_bytes": laid_out(model),
        "own_bytes": plan.own_order_peak_bytes, "peak_bytes": plan.peak_bytes, "bound_bytes": plan.lower_bound_bytes,
        "proved": plan.optimal, "arena_bytes": plan.arena_bytes, "moved": moved, "cpu_seconds": round(took, 2),
    }  # fmt: skip


def laid_out(model: MemoryModel) -> int:
    """What XLA's rules make of its own order: every output and donated parameter has memory of its own from start to
    end, in which a smaller buffer may lie that is not there at the same time, one beside none; the rest is a heap."""
    steps = len(model.graph.ops)
    lives = profile(model, range(steps))
    over: dict[int, int] = {}
    for choice in lives.in_place:
        over[model.storage_of[choice.output]] = choice.storage
    homes: dict[int, list[int]] = {}
    free: dict[int, list[int]] = {}
    for s, storage in enumerate(model.storages):
        if storage.at_start:  # a donated parameter, in which one of the outputs of its size ends
            homes[s] = [s]
            free.setdefault(storage.size, []).append(s)
    for s, storage in enumerate(model.storages):
        if storage.at_end and not storage.at_start:
            donated = free.get(storage.size)
            homes.setdefault(donated.pop() if donated else s, []).append(s)
    heap: list[int] = []
    kept = {s for lies in homes.values() for s in lies}
    for s in sorted(range(len(model.storages)), key=lambda s: (-model.storages[s].size, s)):
        if s in kept:
            continue
        size = model.storages[s].size
        fits = (
            lies
            for home, lies in homes.items()
            if model.storages[home].size >= size and all(_apart(lives, over, s, other) for other in lies)
        )
        home = next(fits, None)
        (heap if home is None else home).append(s)
    temporaries = _best_fit(model, lives, over, heap)
    return temporaries + sum(model.storages[home].size for home in homes)


def _best_fit(model: MemoryModel, lives: Any, over: dict[int, int], heap: list[int]) -> int:
    """Height of the heap: the lower of two, in which the largest is placed first, or what is there longest."""
    inside, groups = set(heap), {s: s for s in heap}
    for s in sorted(heap, key=lambda s: lives.first[s]):
        if over.get(s) in inside:
            groups[s] = groups[over[s]]
    span: dict[int, tuple[int, int]] = {}
    for s, root in groups.items():
        begin, end = span.get(root, (lives.first[s], lives.last[s]))
        span[root] = min(begin, lives.first[s]), max(end, lives.last[s])
    boxes = [(model.storages[root].size, begin, end) for root, (begin, end) in span.items()]
    boxes += [(size, step, step) for step, size in enumerate(model.workspace) if size]
    by_size = sorted(boxes, key=lambda box: (-box[0], box[1] - box[2], box[1]))
    by_time = sorted(boxes, key=lambda box: (box[1] - box[2], -box[0], box[1]))
    return min(_height(by_size), _height(by_time))


def _height(boxes: list[tuple[int, int, int]]) -> int:
    """Of boxes (size, first and last step), each put into the smallest gap it fits."""
    placed: list[tuple[int, int, int, int]] = []
    for size, begin, end in boxes:
        beside = sorted((at, at + other) for at, other, b, e in placed if b <= end and begin <= e)
        best, top = None, 0
        for low, high in beside:
            if low - top >= size and (best is None or low - top < best[0]):
                best = low - top, top
            top = max(top, high)
        placed.append((top if best is None else best[1], size, begin, end))
    return max((at + size for at, size, _, _ in placed), default=0)


def _apart(lives: Any, over: dict[int, int], a: int, b: int) -> bool:
    """Whether two storages are never there at once, or one is written over the other."""
    if over.get(a) == b or over.get(b) == a:
        return True
    return lives.last[a] < lives.first[b] or lives.last[b] < lives.first[a]


def page(rows: list[dict[str, Any]], here: dict[str, Any]) -> list[str]:
    """Markdown: a table for each scheduler."""
    programs = {r["program"] for r in rows}
    proved = [r for r in rows if r["proved"]]
    off = {(r["program"], r["scheduler"]): [abs(r[k] / r["xla_bytes"] - 1) for k in ("own_bytes", "laid_out_bytes")]
           for r in rows}  # fmt: skip
    own, near = (sum(each[k] <= NEAR for each in off.values()) for k in (0, 1))
    far = [" ".join(key) for key, each in off.items() if min(each) > NEAR]
    where = f" ({', '.join(far)})" if far else ""
    lines = [
        "# Programs of JAX as XLA schedules them", "",
        f"{about(here)}; jax {rows[0]['jax']}, XLA:CPU; "
        "`bench/xla.py`, default limits, which count work; s are CPU seconds. MB are 10^6 bytes.", "",
        f"{len(programs)} programs, two schedules of each: {len(rows)} rows. Proved optimal: {len(proved)} rows "
        f"({100 * len(proved) / len(rows):.0f} %), {len({r['program'] for r in proved})} programs. Within 5 % of XLA's "
        f"figure: the own order's peak in {own} rows, laid out by XLA's rules in {near}, one or the other in all but "
        f"{len(far)}{where}.", "",
        "- **XLA**: `memory_analysis()`: temporaries and outputs, donated parameters among these.",
        "- **own**: the most bytes that XLA's order has live at once, in place where XLA allows it. What XLA needs "
        "more is lost in its layout.",
        "- **laid out**: the same by XLA's rules: each output has memory of its own all the time, in which one smaller "
        "buffer at a time may lie beside; the rest is a heap, largest first.",
        "- **least**: what no order of these instructions is below, where proved; else the best found and the bound.",
        "- **over**: XLA's own order above the least.",
    ]  # fmt: skip
    for scheduler in SCHEDULERS:
        some = [r for r in rows if r["scheduler"] == scheduler]
        over = [100 * (r["own_bytes"] / r["peak_bytes"] - 1) for r in some]
        lines += [
            "", f"## XLA's {scheduler} scheduler", "",
            f"Its orders are {min(over):.0f} to {max(over):.0f} % above the least that was found, "
            f"{sum(o >= 0.05 for o in over)} of {len(over)} above it at all.", "", *table(HEAD, map(_cells, some)),
        ]  # fmt: skip
    return lines


HEAD = ("program", "ops", "XLA, MB", "laid out", "own", "off", "least", "over", "bound", "arena above least", "s")


def _cells(r: dict[str, Any]) -> tuple[Any, ...]:
    sizes = [f"{r[key] / 1e6:.2f}" for key in ("xla_bytes", "laid_out_bytes", "own_bytes", "peak_bytes")]
    off, over, arena = (
        100 * (r[above] / r[below] - 1)
        for above, below in (("own_bytes", "xla_bytes"), ("own_bytes", "peak_bytes"), ("arena_bytes", "peak_bytes"))
    )
    bound = "proved" if r["proved"] else f"{100 * (1 - r['bound_bytes'] / r['peak_bytes']):.2f} % open"
    return (
        r["what"], r["ops"], *sizes[:3], f"{off:+.1f} %", sizes[3], f"{over:.1f} %", bound, f"{arena:.1f} %",
        f"{r['cpu_seconds']:.1f}",
    )  # fmt: skip


def main() -> None:
    """Lower, or plan and write."""
    parser = script(__doc__, folder="texts of XLA")
    parser.add_argument("--lower", action="store_true", help="compile the programs with jax and write their texts")
    parser.add_argument("--one", choices=SCHEDULERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        lower(options.folder, options.one)
    elif options.lower:
        options.folder.mkdir(parents=True, exist_ok=True)
        for scheduler, flag in SCHEDULERS.items():  # a process each: XLA reads its flags once
            flags = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
            command = [sys.executable, __file__, str(options.folder), "--one", scheduler]
            subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}, check=True)
    else:
        results = document(rows=[])
        for text in sorted(options.folder.glob("*.hlo.txt")):
            results["rows"].append(planned(text))
            say(json.dumps(results["rows"][-1]))
        write(options.out, results, page(results["rows"], results["machine"]))


if __name__ == "__main__":
    main()
