"""Speeds of the search for sequences, on training steps of real networks that are traced without memory.

    python bench/speeds.py -o results/speeds

How many runs a second are put in, the peak read, and taken away (SwiGLU layers, about 1,000 ops); how many chains of
runs the search tries a second (Llama, about 2,000 ops); what a plan within parts of own order's peak costs at first and
after ten seconds (Llama, about 4,400 ops): from the traced program, with its costs and its graph, to Python that runs.
Seconds are processor time, rates the best of three; the search has ten seconds by the clock on the wall, of which it
gets as much processor time as the machine has for it. Needs torch; three minutes.
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
from lowtide.torch.costed import Costed, costed
from lowtide.torch.generate import executable, source_of
from lowtide.torch.planning import PlanOptions
from lowtide.torch.program import Program
from lowtide.torch.search import problem_of, search
from lowtide.torch.sequence import sequence_of
from lowtide.torch.step import Job
from lowtide.torch.work import by_operations
from lowtide_research.bench.heads import llama
from lowtide_research.bench.machine import machine
from lowtide_research.bench.train_known import swiglu_stack
from lowtide_research.bench.train_nets import Training

ROUNDS, TRIES, SECONDS, SHARES = 1_000_000, 3, 10.0, (0.5, 0.3)
PUTS_ASKED, CHAINS_ASKED, FIRST_ASKED, LAST_ASKED = 1_000_000, 50_000, 1.0, 10.0


def traced(torch: Any, make: Callable[[], Training]) -> tuple[Program, float]:
    """A step without memory, and the processor seconds of capturing it."""
    with torch.device("meta"):
        net = make()
    options = PlanOptions(measure=False)
    began = time.process_time()
    _, program = Job(net.model, net.loss_fn, None, (), options, True, False).traced(net.batch)
    return program, time.process_time() - began


def step_of(torch: Any, make: Callable[[], Training]) -> Costed:
    """A step without memory, its time counted in operations."""
    program, _ = traced(torch, make)
    return costed(torch, program, by_operations(torch, program))


def puts(step: Costed) -> float:
    """Runs that are put in and taken away, a second."""
    problem, order = problem_of(step.graph, step.seconds), list(range(len(step.graph.ops)))
    return max(ROUNDS / problem.put_and_take(order, ROUNDS, seed) for seed in range(TRIES))


def chains(step: Costed) -> float:
    """Chains that the search tries, a second."""
    problem, order = problem_of(step.graph, step.seconds), list(range(len(step.graph.ops)))
    budget, rates = int(step.own.peak_bytes * SHARES[0]), []
    for seed in range(TRIES):
        began = time.process_time()
        result = search_sequence(problem, order, budget, seed, SECONDS / 2)
        rates.append(result.chains / (time.process_time() - began))
    return max(rates)


def plans(torch: Any, program: Program, share: float) -> dict[str, Any]:
    """When the first plan within a part of own order's peak is there, what it takes, and what the last one does."""
    table, noted = by_operations(torch, program), list[tuple[float, float]]()
    used, began = time.process_time(), time.perf_counter()
    step = costed(torch, program, table)
    budget, once = int(step.own.peak_bytes * share), step.seconds_of(step.graph.own_order)
    left = SECONDS - (time.perf_counter() - began)

    def report(seconds: float) -> None:
        noted.append((seconds, time.process_time() - used))

    order = tuple(search(step.graph, step.seconds, budget, left, report=report))
    searched = time.process_time() - used
    sequence = sequence_of(step.graph, order)
    executable(source_of(program, sequence), "step")
    written = time.process_time() - used - searched
    first, first_seconds = noted[0] if noted else (float("nan"), float("nan"))
    return {
        "share": share, "budget": budget, "own": step.own.peak_bytes, "peak": sequence.peak_bytes,
        "found": sequence.peak_bytes <= budget, "first": first / once, "first_seconds": first_seconds + written,
        "written_seconds": written, "last": step.seconds_of(order) / once, "last_seconds": searched + written,
        "wall_seconds": time.perf_counter() - began,
    }  # fmt: skip


def page(rows: dict[str, Any]) -> list[str]:
    """The rows as Markdown."""
    here = rows["machine"]
    return [
        "# Speeds of the search for sequences", "",
        f"{here['cpu']}; lowtide {here['lowtide']} ({here['commit']}); torch {rows['torch']}; one thread.", "",
        __doc__.split("\n\n", 2)[2].strip().replace("\n", " ") if __doc__ else "", "",
        "| what | ops | measured | asked |", "|---|---|---|---|",
        f"| put, peak, take, a second | {rows['puts']['ops']:,} | {rows['puts']['rate']:,.0f} | {PUTS_ASKED:,} |",
        f"| chains, a second | {rows['chains']['ops']:,} | {rows['chains']['rate']:,.0f} | {CHAINS_ASKED:,} |",
        *[
            f"| within {plan['share']:.0%} of own order's peak: the first plan, ready to run | {plan['ops']:,} | "
            f"{plan['first'] - 1:+.4%} time after {plan['first_seconds']:.2f} s | {FIRST_ASKED:g} s |\n"
            f"| the last one | {plan['ops']:,} | {plan['last'] - 1:+.4%} time after {plan['last_seconds']:.2f} s "
            f"({plan['wall_seconds']:.1f} s on the wall) | {LAST_ASKED:g} s |"
            for plan in rows["plans"]
        ],
        f"| capture, seconds | {rows['capture']['ops']:,} | {rows['capture']['seconds']:.1f} | |",
    ]  # fmt: skip


def main() -> int:
    """Write the page and the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="path without ending; .md and .json")
    given = parser.parse_args()
    torch = import_module("torch")
    torch.set_num_threads(1)
    rows: dict[str, Any] = {"machine": asdict(machine()), "torch": torch.__version__}
    step = step_of(torch, lambda: swiglu_stack(torch, torch.nn, layers=27))
    rows["puts"] = {"ops": len(step.graph.ops), "rate": puts(step)}
    step = step_of(torch, lambda: llama(17, 4096, 14336, 128256, 8192))
    rows["chains"] = {"ops": len(step.graph.ops), "rate": chains(step)}
    program, seconds = traced(torch, lambda: llama(37, 4096, 14336, 128256, 8192))
    ops = len(program.actions)
    rows["capture"] = {"ops": ops, "seconds": seconds}
    rows["plans"] = [{"ops": ops, **plans(torch, program, share)} for share in SHARES]
    given.output.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")
    given.output.with_suffix(".md").write_text("\n".join(page(rows)) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
