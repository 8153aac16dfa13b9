"""Inductor's fused graphs: the peak of its order, of the best of its own reorderings, the least, and the proof.

    python bench/inductor.py FOLDER --lower                       # in an environment with torch; writes to FOLDER
    python bench/inductor.py FOLDER -o results/inductor     # plans them; needs no torch

Networks of `bench.train_nets`, forward and backward as AOTAutograd parts them, each as far through Inductor as
its reordering for peak memory; no kernel is compiled. Its figures are its own estimates: of the order that it has, and
of the three that it tries (`topological_sort_lpmf`, `_bfs`, `_dfs`), of which it takes the lowest of all four.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import lowtide
from lowtide_research.bench.pages import about, document, say, script, table, write
from lowtide_research.bench.train_nets import NETS, training

SIZE = 2  # of the networks: of 4 and 8 samples, and twice as wide as in tests


class Reordered(Exception):
    """Inductor has come as far as is asked for."""


def lower(folder: Path, name: str) -> None:
    """Write the two fused graphs of a network's step, and Inductor's figures."""
    import torch
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    def compile_part(module: Any, given: Any, **more: Any) -> Any:
        part = "backward" if more.get("is_backward") else "forward"
        with watched(folder / f"{name}.{part}.json"):
            try:
                compile_fx_inner(module, given, **more)
            except Exception as error:
                if Reordered.__name__ not in repr(error):
                    raise

        def run(values: list[Any]) -> Any:
            return module(*values)

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return run

    torch._dynamo.reset()
    net = training(name, SIZE)
    *given, target = net.batch
    step = torch.compile(
        net.model, dynamic=False, fullgraph=True,
        backend=lambda module, inputs: compile_fx(module, inputs, inner_compile=compile_part),
    )  # fmt: skip
    net.loss_fn(step(*given), target).backward()


@contextmanager
def watched(path: Path) -> Iterator[None]:
    """Inductor, which writes its graph to `path` and its estimates beside it, and stops."""
    import torch
    from torch._inductor import config, memory

    reorder = memory.reorder_for_peak_memory

    def traced(_: str, *__: Any, payload_fn: Any = None, **___: Any) -> None:
        if payload_fn is not None:
            path.write_text(payload_fn(), encoding="utf-8")

    def reordered(*given: Any, **more: Any) -> None:
        figures: dict[str, int] = {}

        def posted(parameters: dict[str, Any], **_: Any) -> None:
            figures.update(parameters["orm"])

        with (
            mock.patch.object(torch._logging, "trace_structured", traced),
            mock.patch.object(memory, "signpost_event", posted),
        ):
            reorder(*given, **more)
        text = json.dumps({"torch": torch.__version__, **figures})
        path.with_suffix(".figures").write_text(text, encoding="utf-8")
        raise Reordered

    with (
        config.patch(reorder_for_peak_memory=True, reorder_for_peak_memory_debug=True, fx_graph_cache=False),
        mock.patch.object(memory, "reorder_for_peak_memory", reordered),
    ):
        yield


def planned(path: Path) -> dict[str, Any]:
    """A row: Inductor's estimates, what its order needs, and the least."""
    figures = json.loads(path.with_suffix(".figures").read_text(encoding="utf-8"))
    net, part = path.stem.split(".")
    graph = lowtide.load(path)
    began = time.process_time()
    plan = lowtide.research.plan(graph, target="strict")
    took = time.process_time() - began
    lowtide.verify(graph, plan)
    tried = {key.removeprefix("topological_sort_"): size for key, size in figures.items() if key != "torch"}
    return {
        "net": net, "part": part, "torch": figures["torch"], "ops": len(graph.ops), "tried": tried,
        "own_bytes": plan.own_order_peak_bytes, "peak_bytes": plan.peak_bytes, "bound_bytes": plan.lower_bound_bytes,
        "proved": plan.optimal, "cpu_seconds": round(took, 2),
    }  # fmt: skip


def page(rows: list[dict[str, Any]], here: dict[str, Any]) -> list[str]:
    """Markdown."""
    best = [min(r["tried"].values()) for r in rows]
    over = [took / r["peak_bytes"] - 1 for took, r in zip(best, rows, strict=True)]
    agrees = sum(r["own_bytes"] == r["tried"]["baseline"] for r in rows)
    lines = [
        "# Graphs that Inductor fuses", "",
        f"{about(here)}; torch {rows[0]['torch']}; "
        "`bench/inductor.py`, default limits, which count work; s are CPU seconds. MB are 10^6 bytes.", "",
        f"Forward and backward halves of {len({r['net'] for r in rows})} training steps of "
        f"`lowtide_research.bench.train_nets` (size {SIZE}), as Inductor has them when it reorders for peak memory. "
        f"Proved optimal: {sum(r['proved'] for r in rows)} of {len(rows)}. "
        f"What Inductor takes, the lowest of its own order and the three that it tries, "
        f"is 0 to {100 * max(over):.1f} % above the least, {sum(x > 0 for x in over)} of "
        f"{len(rows)} above it at all. The peak of its own order is its own estimate in {agrees}.", "",
        "- **estimate**: Inductor's figure of its order before it reorders; **own**: the same order here.",
        "- **lpmf, bfs, dfs**: its estimates of what it tries. **takes**: the lowest of the four.",
        "- **least**: what no order of these kernels is below, where proved; else the best found, and the bound.", "",
        *table(HEAD, map(_cells, rows, best, over)),
    ]  # fmt: skip
    return lines


HEAD = (
    "step", "kernels", "estimate, MB", "own", "lpmf", "bfs", "dfs", "takes", "least", "over", "bound", "s",
)  # fmt: skip


def _cells(row: dict[str, Any], took: int, more: float) -> tuple[Any, ...]:
    tried = row["tried"]
    sizes = (tried["baseline"], row["own_bytes"], tried["lpmf"], tried["bfs"], tried["dfs"], took, row["peak_bytes"])
    bound = "proved" if row["proved"] else _mb(row["bound_bytes"])
    name = f"{row['net']}, {row['part']}"
    return (name, row["ops"], *map(_mb, sizes), f"{100 * more:.1f} %", bound, f"{row['cpu_seconds']:.1f}")


def _mb(size: int) -> str:
    return f"{size / 1e6:.3f}"


def main() -> None:
    """Lower, or plan and write."""
    parser = script(__doc__, folder="graphs of Inductor")
    parser.add_argument("--lower", action="store_true")
    options = parser.parse_args()
    if options.lower:
        options.folder.mkdir(parents=True, exist_ok=True)
        for name in NETS.keys() - {"gpt"}:  # of which Dynamo makes several graphs; gpt_fused is the same otherwise
            lower(options.folder, name)
            say(name)
        return
    results = document(rows=[planned(path) for path in sorted(options.folder.glob("*.json"))])
    write(options.out, results, page(results["rows"], results["machine"]))


if __name__ == "__main__":
    main()
