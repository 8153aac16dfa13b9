"""Bounds on plans that tile ops, held against an oracle that looks for such plans: as many nets as asked for.

    python tests/stress_changed_graphs.py --seed 7 --count 100000 -o packages/research/results/changed-graphs

Of each drawn net of two to six ops no bound over all regions, the planner's or the checker's, may be above a plan that
the oracle finds (`tests/support/changed_plans.py`), and the best order has to be the oracle's.
Of every so many nets a whole plan is made, and one whose ops may run again: what it says is impossible, and the least
cost and the least peak that it claims, are held against every way to run ops again; another whose tensors may leave
memory: what is impossible, and the least time that it claims, are held against every way to move them. Beside every so
many nets a training step is drawn, whose ops run in parts and again: what is said of all plans within a time, or
within a budget, is held against plans of `tests/support/step_plans.py`.
The page of results is written every so often, so that a run that is stopped leaves what it held.
`--replay F.json` shows one failure again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from lowtide_research.bench.machine import machine
from support.changed_claims import Case, Count, run
from support.changed_nets import from_json
from support.step_claims import StepCase, steps

CHUNK = 250
"""Nets that a process does at a time."""


def main() -> int:
    """0: every claim holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="nets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--plans", type=int, default=20, help="of every so many nets a whole plan")
    parser.add_argument("--steps", type=int, default=10, help="beside every so many nets a training step; 0: none")
    parser.add_argument("-o", "--out", type=Path, help="where the page of results goes, without suffix")
    parser.add_argument("--replay", type=Path, help="a failure, as JSON")
    options = parser.parse_args()
    if options.replay is not None:
        return _replay(options.replay)
    began, total, page = time.time(), Count(), ""
    firsts = range(0, options.count, CHUNK)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(_chunk, options, k, min(k + CHUNK, options.count)) for k in firsts]
        for done, job in enumerate(jobs, 1):
            seen = job.result()
            total.add(seen)
            for failure in seen.failures:
                print(json.dumps(failure.to_json()))
            if done % 20 == 0 or done == len(jobs):
                print(f"{total.seen['nets']} nets, {total.false_nets} with a false claim", file=sys.stderr)
                page = _page(options, total, time.time() - began)
                if options.out is not None:
                    options.out.with_suffix(".md").write_text(page)
    print(page)
    return 1 if total.failures else 0


def _chunk(options: argparse.Namespace, first: int, end: int) -> Count:
    """Nets, and the training steps beside them."""
    count = run(options.seed, first, end, options.plans)
    if options.steps:
        every = options.steps
        count.add(steps(options.seed, -(-first // every), -(-end // every), options.plans))
    return count


def _replay(path: Path) -> int:
    value = json.loads(path.read_text())
    count = Count()
    if "step" in value:
        StepCase(value["step"], count).check(plans=True)
    else:
        case = Case(from_json(value["net"]), value["target"], count)
        if value["claim"].startswith("moved"):
            case.moved()
        else:
            case.check(plans=True, again=True)
    for failure in count.failures:
        print(failure)
    return 1 if count.failures else 0


def _page(options: argparse.Namespace, total: Count, seconds: float) -> str:
    failed = {claim: sum(f.claim == claim for f in total.failures) for claim in total.held}
    asked = f"--seed {options.seed} --count {options.count} --plans {options.plans} --steps {options.steps}"
    command = f"tests/stress_changed_graphs.py {asked}"
    on = machine()
    lines = [
        "# Bounds on plans that tile ops, beside an oracle",
        "",
        f"`python {command}`: {seconds:,.0f} s, lowtide {on.lowtide} ({on.commit}), {on.python}, {on.cpu}.",
        "",
        "| claim | held against the oracle | false |",
        "|---|--:|--:|",
        *(f"| {claim} | {total.held[claim]:,} | {failed[claim]:,} |" for claim in sorted(total.held)),
        "",
        "| seen | |",
        "|---|--:|",
        *(f"| {what} | {total.seen[what]:,} |" for what in sorted(total.seen)),
        f"| nets and steps of which some claim is false | {total.false_nets:,} |",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
