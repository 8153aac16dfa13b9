"""Training steps as random decisions have them, run in numpy compared with the unmodified step: as many as asked for.

    python tests/stress_fission.py 2000 --seed 7
    python tests/stress_fission.py 1000 -o packages/research/results/decisions

Steps of dense layers, of heads, of images and of siblings are drawn, with a region of each along any class of
dimensions, the rows at which its parts end, and a sequence in which ops run again and, for every other one, tensors
leave memory; and the same with several regions. In two out of three, products that read the same are one. No search
took any of it. The plan is verified, executed, and all results compared: 1e-9 of the largest value in float64, and to
the bit where no sum is added up in parts. Of each step some more regions are run in parts without a plan.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import lowtide
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.rewrites import Recompute
from lowtide_research.bench.machine import machine
from support.decisions import drawn_plan, drawn_several, random_ends, random_region
from support.step_runs import Values, random_feeds, run_parts, run_plan, run_step
from support.steps import STEPS

MOST = 1e-9
"""Part of its largest value by which a result may differ."""


@dataclass
class Count:
    """What was seen."""

    steps: int = 0
    decisions: int = 0
    planned: int = 0
    several: int = 0
    merged: int = 0
    moved: int = 0
    repeated: int = 0
    without_sums: int = 0
    equal: int = 0
    worst: float = 0.0


KINDS = {
    "decisions": "run, and all results within 1e-9 of the step's",
    "planned": "with plans, verified",
    "several": "of them of several regions",
    "merged": "with siblings as one",
    "repeated": "with ops again",
    "moved": "with tensors that leave memory",
    "without_sums": "without sums in parts, which have to be equal to the bit",
    "equal": "equal to the bit",
}
"""Counts, in words."""


class Flaw(Exception):
    """What is wrong with a decision."""


MORE = 9
"""Regions of each step that run without a plan."""


def compare(own: Values, other: Values, count: Count, *, summed: bool) -> None:
    """Results of a decision beside those of the step. Raises `Flaw`."""
    if own.keys() != other.keys():
        raise Flaw("numbers: a result is missing")
    worst = max(float(np.abs(own[t] - other[t]).max() / max(np.abs(own[t]).max(), 1e-300)) for t in own)
    if not worst <= MOST:
        raise Flaw(f"numbers: a result differs by {worst:.3g} of its largest value")
    equal = all(np.array_equal(own[t], other[t]) for t in own)
    if not summed and not equal:
        raise Flaw(f"numbers: nothing is added up in parts, and bits differ by {worst:.3g}")
    count.decisions += 1
    count.without_sums += not summed
    count.equal += equal
    count.worst = max(count.worst, worst)


def is_sum(graph: Graph, ops: Iterable[tuple[int, str]]) -> bool:
    """Whether what leaves some parts is added up: an op's result has not the word that is cut."""
    from lowtide.ops.labels import parsed

    return any(word not in parsed(str(graph.op_by_id[v].attributes["labels"]))[1][0] for v, word in ops)


def check(seed: int, count: Count) -> None:
    """One step, planned, and in parts without a plan.

    Raises
    ------
    Flaw
        The plan does not hold, or results are others.
    """
    graph = STEPS[seed // 2 % len(STEPS)](seed)
    feeds = random_feeds(graph, seed)
    own = run_step(graph, feeds)
    for plan in (drawn_plan(graph, seed), drawn_several(graph, seed)):
        if plan is None:
            continue
        try:
            lowtide.verify(graph, plan)
        except VerificationError as error:
            raise Flaw(f"verify: {error}") from None
        parts, merged = ([], []) if plan.fission is None else (plan.fission.parts, plan.fission.merged)
        summed = bool(merged) or any(is_sum(graph, part.ops) for part in parts)
        compare(own, run_plan(graph, plan, feeds), count, summed=summed)
        count.merged += bool(merged)
        count.planned += 1
        count.several += len(parts) > 1
        rewrites = [*(plan.rewrites or ()), *(r for part in parts for r in part.body.get("rewrites") or ())]
        count.repeated += any(isinstance(r, Recompute) or (isinstance(r, dict) and "of" in r) for r in rewrites)
        moved = [plan.swapping, *(part.body.get("swapping") for part in parts)]
        count.moved += any(m["stored_bytes"] if isinstance(m, dict) else m.stored_bytes for m in moved if m)
    random = Random(-seed - 1)
    for _ in range(MORE):
        region = random_region(graph, random)
        if region is not None:
            results = run_parts(graph, region, random_ends(region.rows, random), feeds)
            compare(own, results, count, summed=bool(region.summed))


def flaws_of(steps: Iterable[int], count: Count, *, stop: bool) -> list[str]:
    """What is wrong with steps, each printed as it is found."""
    flaws: list[str] = []
    for seed in steps:
        count.steps += 1
        try:
            check(seed, count)
        except Exception as error:  # whatever it is, it is a flaw of this step
            flaws.append(f"seed {seed}: {error if isinstance(error, Flaw) else repr(error)}")
            print(flaws[-1], flush=True)
            if stop:
                break
    return flaws


def page(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    m, count, flaws = document["machine"], document["count"], document["flaws"]
    lines = [
        "# Random decisions about training steps, executed", "", *(__doc__ or "").split("\n\n")[2].splitlines(), "",
        f"lowtide {m['lowtide']}, {m['python']}, {m['system']}, {m['cpu']}, {m['cores']} cores; commit "
        f"{str(m['commit'])[:7]}; steps {document['seed']} to {document['seed'] + count['steps'] - 1}, "
        f"{document['seconds']:.0f} s.", "",
        "| | decisions |", "| --- | --- |",
        *(f"| {words} | {count[kind]:,} |" for kind, words in KINDS.items()), "",
        f"The largest difference of a result: {count['worst']:.2g} of its largest value. Steps of {count['steps']:,} "
        f"with a difference beyond that bound, a plan that is refused, or a crash: {len(flaws)}.",
    ]  # fmt: skip
    return "\n".join([*lines, *(f"\n- {flaw}" for flaw in flaws)]) + "\n"


def main() -> int:
    """Draw steps; the exit status is 1 if one is flawed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", type=int)
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--stop", action="store_true", help="at the first flaw")
    parser.add_argument("-o", "--output", type=Path, help="where the page goes, and its figures as JSON")
    given = parser.parse_args()
    began, count, here = time.perf_counter(), Count(), asdict(machine())
    flaws = flaws_of(range(given.seed, given.seed + given.steps), count, stop=given.stop)
    seconds = time.perf_counter() - began
    told = ", ".join(f"{getattr(count, kind)} {words}" for kind, words in list(KINDS.items())[1:])
    print(
        f"{count.decisions} decisions hold in {seconds:.0f} s, {len(flaws)} steps do not: {told}; at most "
        f"{count.worst:.2g} of a result's largest value"
    )
    if given.output is not None:
        document = {"machine": here, "seed": given.seed, "seconds": seconds, "count": asdict(count),
                    "flaws": flaws}  # fmt: skip
        given.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        given.output.with_suffix(".md").write_text(page(document), encoding="utf-8")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
