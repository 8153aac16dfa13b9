"""Bounds over regions, and the floor of cuts, held against cuts of drawn networks: as many as asked for.

    python tests/stress_bounds.py --count 1000 --seed 0

In the networks what sees a dimension whole stands beside what goes along it (`tests/support/forked_nets.py`). Of each
the largest regions are cut, alone and in pairs, the parts ordered by the exact search, joined and handed on. A bound
that is above any of these peaks is a flaw; a seed draws the same network again.
"""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.ops.working_set import working_set_bound
from lowtide.optimize.region_bound import RegionBounds
from lowtide.read import read_model
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN, Target
from lowtide.transform.cut import Cutter
from lowtide.transform.hand_on import hand_on
from lowtide.transform.parts import apply
from support.forked_nets import every_cut, forked_net

MOST_OPS, CUTS = 9, 40
"""Ops of a network, and ways to cut it, at the most."""


def peak(graph: Graph, target: Target) -> int:
    """The least peak over all orders, or one near it."""
    memory = memory_model(graph, target)
    return profile(memory, Exact().schedule(memory, Limits(2)).order).peak


def flaws(graph: Graph, target: Target) -> tuple[list[str], int, bool]:
    """What is above a plan, how many plans there were, and whether the lowest meets the bound."""
    graph = target.as_seen(graph)
    cutter, memory = Cutter(graph), memory_model(graph, target)
    of_all, of_joined = (
        max(bounds.ends(), *(bounds.at(op.id) for op in graph.ops))
        for bounds in (RegionBounds(cutter, memory, materialised=joined) for joined in (False, True))
    )
    least = joined = peak(graph, target)
    plans = 1
    for regions in islice(every_cut(cutter), CUTS):
        try:
            parts = apply(cutter, regions, graph.own_order)
        except ValueError:  # a region before and behind an op
            continue
        joined = min(joined, peak(parts.graph, target))
        handed = hand_on(graph, parts)
        least = min(least, joined, peak(handed.graph, target))
        plans += 2
    low = working_set_bound(
        graph, overlap=target.in_place != "never" or target.overlap != "never" or bool(target.rule)
    ).size
    found = [("any regions", of_all, least), ("joined regions", of_joined, joined)]
    found += [("floor", low, least)] if target.count_inputs else []
    return (
        [f"{name}: {bound} B, a plan {size} B" for name, bound, size in found if bound > size],
        plans,
        of_all == least,
    )


def main() -> int:
    """Draw, cut, compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="networks (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each next one has the next")
    arguments = parser.parse_args()
    networks = plans = met = wrong = 0
    with TemporaryDirectory(prefix="lowtide-bounds-") as folder:
        path = Path(folder) / "net.onnx"
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            random = Random(seed)
            proto = forked_net(
                lambda options, random=random: random.choice(tuple(options)), random.choice((3, 4, 5, 6))
            )
            path.write_bytes(proto.SerializeToString())
            graph, target = read_model(path), random.choice(("strict", "generic", "onnxruntime"))
            if not 0 < len(graph.ops) <= MOST_OPS:
                continue
            seen, tried, equal = flaws(graph, BUILT_IN[target])
            networks, plans, met, wrong = networks + 1, plans + tried, met + equal, wrong + bool(seen)
            for flaw in seen:
                print(f"seed {seed}, {target}: {flaw}", flush=True)
    print(f"{networks} networks, {met} of which meet the bound, {plans} plans, {wrong} flaws")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
