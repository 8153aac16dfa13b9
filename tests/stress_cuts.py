"""Random networks under random legal cuts, run in onnxruntime whole and in parts: as many as asked for.

    python tests/stress_cuts.py 5000 --seed 7 -o packages/research/results/stress-cuts

Windows with strides, paddings and dilations, sums, products and rearrangements are drawn, and up to three regions of
each, along any axis, in 2 to 6 stripes. No search took any of it. Results have to be those of the whole network, to the
bit where the cut says so, and else within 1e-5 of the largest number. The parts are then planned, verified, and played
through in one block of bytes at the plan's offsets: no op, nor the caller, may find other bytes there than without it.
At the end each rule of what a cut is is broken on purpose, and cuts of a few networks are run until one gives other
numbers, or cannot be written or run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import lowtide
from lowtide.read import read_model
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph, apply
from lowtide.write.onnx_parts import write_onnx_parts
from lowtide_research.bench.machine import machine
from support.arena_replay import spoiled
from support.part_rules import RULES
from support.part_runs import difference, differs, exactness, feeds, tensors_of
from support.part_suite import SUITE, broken, drawn_regions
from support.small_nets import random_net

TRIES = 40
"""Networks that are drawn for one that can be cut, at the most."""


class Flaw(Exception):
    """What is wrong with a cut."""


@dataclass
class Count:
    """What was seen."""

    networks: int = 0
    regions: int = 0
    ops: int = 0
    parts: int = 0
    by_class: dict[str, int] = field(default_factory=dict[str, int])
    equal: int = 0


def drawn_parts(random: Random, source: Path) -> tuple[Cutter, PartGraph]:
    """A network that onnxruntime runs, written to a file, and its parts."""
    for _ in range(TRIES):
        source.write_bytes(random_net(random.choice, random.choice((3, 6, 10))).SerializeToString())
        try:
            if difference(source, source, feeds(source)):
                continue
        except Exception:  # onnxruntime's own kinds of error have no common base
            continue
        cutter = Cutter(read_model(source))
        numbers = [random.randrange(100) for _ in range(4 * random.randint(1, 3))]
        ways = [(a, b, c, d, random.randint(2, 6)) for a, b, c, d in zip(*[iter(numbers)] * 4, strict=True)]
        regions = drawn_regions(cutter, ways)
        if not regions:
            continue
        try:
            return cutter, apply(cutter, regions)
        except ValueError as error:
            if "before and after" not in str(error):
                raise
    raise Flaw("no network that can be cut was drawn")


def check(seed: int, count: Count) -> None:
    """Draw a network and cuts, and run it. Raises `Flaw`."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        source, target = folder / "m.onnx", folder / "parts.onnx"
        cutter, result = drawn_parts(Random(seed), source)
        wrong = differs(source, folder, cutter, result)
        if wrong:
            raise Flaw(wrong)
        count.networks += 1
        count.regions += len(result.regions)
        count.ops += len(cutter.graph.ops)
        count.parts += len(result.graph.ops)
        promised = exactness(cutter, result)
        count.by_class[promised] = count.by_class.get(promised, 0) + 1
        count.equal += not difference(source, target, feeds(source))
        write_onnx_parts(source, result, result.graph.own_order, target)
        plan = lowtide.research.plan(result.graph, target="generic", time=2)
        lowtide.verify(result.graph, plan)
        offsets = {int(t): at for t, at in (plan.offsets or {}).items()}
        wrong = spoiled(
            result.graph, plan.order, offsets, plan.arena_bytes or 0, {**feeds(source), **tensors_of(target)}
        )
        if wrong:
            raise Flaw(wrong)


def noticed(rule: str, folder: Path) -> str:
    """The network whose cuts show that a rule is broken; empty: none."""
    with pytest.MonkeyPatch.context() as patch:
        RULES[rule](patch)
        for name in SUITE:
            try:
                wrong = broken(name, folder)
            except Exception as error:  # a cut that cannot be made, written or run is seen as well
                wrong = type(error).__name__
            if wrong:
                return name
    return ""


def page(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    on, count, seen = document["machine"], document["count"], document["rules"]
    classes = ", ".join(f"{word} {many:,}" for word, many in sorted(count["by_class"].items()))
    run = f"python tests/stress_cuts.py {document['asked']} --seed {document['seed']}"
    command = f"{run} -o packages/research/results/stress-cuts"
    lines = [
        "# Random networks under random legal cuts",
        "",
        f"{on['cpu']}, lowtide {on['commit']};",
        f"`{command}`.",
        "",
        f"{count['networks']:,} random networks, {count['regions']:,} regions, {count['ops']:,} ops that became "
        f"{count['parts']:,}; flaws: {len(document['flaws'])}.",
        f"By what the cuts promise: {classes}; {count['equal']:,} gave the same bits. Each that is no flaw is",
        "within what it promises, and finds the same bytes inside the arena of a plan, at its offsets, as without.",
        "",
        "Each rule broken on purpose, and the network whose cuts show it:",
        "",
        "| rule | shown by |",
        "|---|---|",
        *(f"| {rule} | {name or 'none'} |" for rule, name in seen.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check as many networks as asked for, then every rule; 1 if there is a flaw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="written with the endings .json and .md")
    arguments = parser.parse_args()
    count, flaws, began = Count(), list[str](), time.perf_counter()
    for k in range(arguments.networks):
        seed = arguments.seed * 1_000_003 + k
        try:
            check(seed, count)
        except (Flaw, lowtide.VerificationError) as error:
            flaws.append(f"{seed}: {error}")
            print(flaws[-1], flush=True)
        if (k + 1) % 500 == 0:
            print(f"{k + 1:,} networks, {time.perf_counter() - began:.0f} s, {len(flaws)} flaws", file=sys.stderr)
    with TemporaryDirectory() as folder:
        rules = {rule: noticed(rule, Path(folder)) for rule in RULES}
    unseen = [rule for rule, name in rules.items() if not name]
    print(f"{asdict(count)}, {len(flaws)} flaws, {len(rules) - len(unseen)} of {len(rules)} broken rules seen")
    document = {
        "machine": asdict(machine()), "asked": arguments.networks, "seed": arguments.seed, "count": asdict(count),
        "flaws": flaws, "rules": rules,
    }  # fmt: skip
    if arguments.output:
        arguments.output.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
        arguments.output.with_suffix(".md").write_text(page(document))
    return 1 if flaws or unseen else 0


if __name__ == "__main__":
    raise SystemExit(main())
