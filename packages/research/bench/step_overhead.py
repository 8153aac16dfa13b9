"""Least bytes within a bound on time, beside the curve: ``python bench/step_overhead.py gpt unet vit``."""

from __future__ import annotations

import argparse

from lowtide.torch import compile_step, curve
from lowtide_research.bench.train_nets import NETS, training

OVERHEADS = (0.02, 0.1, 0.2, 0.5)


def main() -> None:
    """Print a table: for each network and overhead the bytes of `overhead=`, and of the curve's best point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*NETS])
    parser.add_argument("--time", type=float, default=20.0, help="seconds of each search")
    options = parser.parse_args()
    print("| network | overhead | `overhead=` | curve |\n|---|--:|--:|--:|")
    for name in options.networks:
        net = training(name)
        costs = compile_step(net.model, net.loss_fn, net.batch).costs
        given = {"costs": costs, "measure": False, "time": options.time}
        points = curve(net.model, net.loss_fn, net.batch, **given).points
        for overhead in OVERHEADS:
            plan = compile_step(net.model, net.loss_fn, net.batch, overhead=overhead, **given).plan
            best = min(point.peak_bytes for point in points if point.overhead <= overhead)
            print(f"| {name} | {overhead:.0%} | {plan.peak_bytes:,} | {best:,} |")


if __name__ == "__main__":
    main()
