"""Speeds of the search for sequences, on training steps of real networks that are traced without memory.

    python bench/speeds.py -o bench/results/speeds

How many runs a second are put in, the peak read, and taken away (SwiGLU layers, about 1,000 ops); how many chains of
runs the search tries a second (Llama, about 2,000 ops); what a plan within half of own order's peak costs at first and
after ten seconds (Llama, about 4,400 ops). Seconds of rates are processor time, best of three; those of plans are by
the clock on the wall.
Needs torch; three minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from lowtide._core import search_sequence
from lowtide.bench.heads import llama
from lowtide.bench.machine import machine
from lowtide.bench.train_known import swiglu_stack
from lowtide.bench.train_nets import Training
from lowtide.torch import compile_step
from lowtide.torch.costed import Costed, costed
from lowtide.torch.search import problem_of
from lowtide.torch.work import by_operations

ROUNDS, TRIES, SECONDS, SHARE = 1_000_000, 3, 10.0, 0.5
PUTS_ASKED, CHAINS_ASKED, FIRST_ASKED, LAST_ASKED = 1_000_000, 50_000, 1.0, 10.0


def step_of(torch: Any, make: Callable[[], Training]) -> tuple[Costed, float]:
    """A step without memory, its time counted in operations; and the seconds of capturing it."""
    with torch.device("meta"):
        net = make()
    began = time.perf_counter()
    own = compile_step(net.model, net.loss_fn, net.batch, measure=False)
    seconds = time.perf_counter() - began
    return costed(torch, own.program, by_operations(torch, own.program)), seconds


def puts(step: Costed) -> float:
    """Runs that are put in and taken away, a second."""
    problem, order = problem_of(step.graph, step.seconds), list(range(len(step.graph.ops)))
    return max(ROUNDS / problem.put_and_take(order, ROUNDS, seed) for seed in range(TRIES))


def chains(step: Costed) -> float:
    """Chains that the search tries, a second."""
    problem, order = problem_of(step.graph, step.seconds), list(range(len(step.graph.ops)))
    budget, rates = int(step.own.peak_bytes * SHARE), []
    for seed in range(TRIES):
        began = time.process_time()
        result = search_sequence(problem, order, budget, seed, SECONDS / 2)
        rates.append(result.chains / (time.process_time() - began))
    return max(rates)


def plans(step: Costed) -> dict[str, Any]:
    """When the first plan within the budget is there, and what it and the one after ten seconds take."""
    budget, order = int(step.own.peak_bytes * SHARE), list(range(len(step.graph.ops)))
    once = step.seconds_of(step.graph.own_order)
    began, used = time.perf_counter(), time.process_time()
    problem = problem_of(step.graph, step.seconds)
    first = search_sequence(problem, order, budget, 0, SECONDS, 0)
    seconds, taken = time.perf_counter() - began, time.process_time() - used
    last = search_sequence(problem, order, budget, 0, max(0.0, SECONDS - seconds))
    return {
        "budget": budget, "own": step.own.peak_bytes, "first_seconds": seconds, "found": first.found and last.found,
        "first_processor_seconds": taken,
        "first": first.cost * 1e-9 / once, "last_seconds": time.perf_counter() - began, "last": last.cost * 1e-9 / once,
    }  # fmt: skip


def page(rows: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here, plan = rows["machine"], rows["plans"]
    within = ", ".join(f"{plan[k] - 1:+.4%} after {plan[f'{k}_seconds']:.2f} s" for k in ("first", "last"))
    within += f" (the first: {plan['first_processor_seconds']:.2f} s of processor time)"
    return [
        "# Speeds of the search for sequences", "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {rows['torch']}; one thread.", "",
        __doc__.split("\n\n", 2)[2].strip().replace("\n", " ") if __doc__ else "", "",
        "| what | ops | measured | asked |", "|---|---|---|---|",
        f"| put, peak, take, a second | {rows['puts']['ops']:,} | {rows['puts']['rate']:,.0f} | {PUTS_ASKED:,} |",
        f"| chains, a second | {rows['chains']['ops']:,} | {rows['chains']['rate']:,.0f} | {CHAINS_ASKED:,} |",
        f"| more time within {SHARE:.0%} of own order's peak | {plan['ops']:,} | {within} | "
        f"first in {FIRST_ASKED:g} s, {LAST_ASKED:g} s in all |",
        f"| capture, seconds | {plan['ops']:,} | {plan['capture_seconds']:.1f} | |",
    ]  # fmt: skip


def main() -> int:
    """Write the page and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="path without ending; .md and .json")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    rows: dict[str, Any] = {"machine": asdict(machine()), "torch": torch.__version__}
    step, _ = step_of(torch, lambda: swiglu_stack(torch, torch.nn, layers=27))
    rows["puts"] = {"ops": len(step.graph.ops), "rate": puts(step)}
    step, _ = step_of(torch, lambda: llama(17, 4096, 14336, 128256, 8192))
    rows["chains"] = {"ops": len(step.graph.ops), "rate": chains(step)}
    step, seconds = step_of(torch, lambda: llama(37, 4096, 14336, 128256, 8192))
    rows["plans"] = {"ops": len(step.graph.ops), "capture_seconds": seconds, **plans(step)}
    given.output.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    given.output.with_suffix(".md").write_text("\n".join(page(rows)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
