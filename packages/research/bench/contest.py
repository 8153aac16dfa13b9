"""MLSys 2026's graph-scheduling contest: our plans and lower bounds next to the winner's totals.

    python bench/contest.py FOLDER --seconds 20 -o results/contest

FOLDER holds the contest's instances, `mlsys-2026-*.json`. *winner*: github.com/wenqi-deng/mlsys-2026-graph-scheduler at
dde1a9f, first place of track A; it publishes totals of five instances (here with a `p`), and its program, built and run
by us, gives the others, and those five to the printed digit. Our evaluator gives its 24 solutions the same totals. The
contest has no public evaluator; `src/lowtide_research/contest/evaluate.py` says how the statement is read where it is
open. *ours* is the evaluator's total of our solution. *bound*: all operators at full efficiency (`bound.py`), or where
there are at most 5000 groups the cheapest cover by groups (`cover.py`), which CP-SAT bounds; both hold for all
solutions that our evaluator accepts. *gap* is how far ours is above it at most, *recomputed* how many operators run in
a second group too, *s* the search alone, on one thread.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from lowtide_research.bench.pages import about, document, mean_ratio, method_of, script, table, write
from lowtide_research.contest.bound import lower_bound
from lowtide_research.contest.cover import cover_bound
from lowtide_research.contest.evaluate import evaluate
from lowtide_research.contest.plan import Planner
from lowtide_research.contest.reader import read_problem

CLOSED = 1e-7  # the covers' integer program rounds down
PUBLISHED = (1, 5, 9, 13, 17)
WINNER = (
    471500.8, 26000.0, 91750.4, 27372.8, 961194.6666667, 235929.6, 183500.8, 76457.3333333,
    167530987.52, 30087577.6, 3133536.0, 13492060.16, 166408847.36, 10150502.4, 5034920.2285714, 16694058.6666667,
    46386493.44, 4062796.8, 7306577.0666667, 16621279.0857143, 6373928.96, 8032853.3333333, 9204121.6, 7373964.8,
)  # fmt: skip


def row(path: Path, seconds: float) -> dict[str, Any]:
    """Our plan and bound for an instance."""
    number = int(path.stem.rpartition("-")[2])
    problem = read_problem(path)
    bound = max(lower_bound(problem), cover_bound(problem))
    start = perf_counter()
    steps = Planner(problem).solve(seconds, bound)
    spent = perf_counter() - start
    return {
        "instance": number,
        "ops": len(problem.ops),
        "groups": len(steps),
        "recomputed": sum(len(step.ops) for step in steps) - len(problem.ops),
        "winner": WINNER[number - 1],
        "ours": evaluate(problem, steps).total,
        "bound": bound,
        "seconds": spent,
    }


def _cells(r: dict[str, Any]) -> tuple[Any, ...]:
    closed = r["ours"] <= r["bound"] * (1 + CLOSED)
    return (
        f"{r['instance']}{' p' if r['instance'] in PUBLISHED else ''}", r["ops"], f"{r['winner']:,.1f}",
        f"{r['ours']:,.1f}", f"{r['ours'] / r['winner']:.4f}", f"{r['bound']:,.1f}",
        "optimal" if closed else f"{100 * (r['ours'] / r['bound'] - 1):.3f} %", r["groups"], r["recomputed"],
        f"{r['seconds']:.1f}",
    )  # fmt: skip


HEAD = ("instance", "ops", "winner", "ours", "of winner", "bound", "gap", "groups", "recomputed", "s")


def page(results: dict[str, Any]) -> list[str]:
    """The page as Markdown."""
    rows = results["rows"]
    below = sum(r["ours"] < r["winner"] * (1 - 1e-9) for r in rows)
    at_most = sum(r["ours"] <= r["winner"] * (1 + 1e-9) for r in rows)
    closed = sum(r["ours"] <= r["bound"] * (1 + CLOSED) for r in rows)
    return [
        "# MLSys 2026's graph-scheduling contest",
        "",
        *method_of(__doc__),
        f"{about(results['machine'])}; {results['limit_seconds']:g} s an instance; the first merges may take longer.",
        "",
        f"{len(rows)} instances: at or below the winner's total on {at_most}, below it on {below}, proved optimal on "
        f"{closed}. Geometric mean of the winner's total: {mean_ratio(rows, 'ours', 'winner'):.3f}.",
        "",
        *table(HEAD, [_cells(r) for r in rows]),
    ]


def main() -> None:
    """Prints a row for each instance; with `-o` writes the page."""
    parser = script(__doc__, folder="the instances")
    parser.add_argument("--seconds", type=float, default=20, help="of search an instance")
    parser.add_argument("--instances", default="", help="numbers of some of them, with commas")
    options = parser.parse_args()
    wanted = [int(number) for number in options.instances.split(",") if number] or range(1, len(WINNER) + 1)
    rows: list[dict[str, Any]] = []
    for number in wanted:
        rows.append(row(options.folder / f"mlsys-2026-{number}.json", options.seconds))
        print(" ".join(map(str, _cells(rows[-1]))), flush=True)
    if options.out:
        results = document(limit_seconds=options.seconds, rows=rows)
        write(options.out, results, page(results))


if __name__ == "__main__":
    main()
