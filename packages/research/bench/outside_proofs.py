"""Least peaks of graphs of up to 60 ops, and arenas, proved by programs of others.

    python bench/outside_proofs.py FOLDER -o results/outside-proofs

FOLDER holds graph JSON files; built-in networks are there without it. `cadical`, `drat-trim`, `cake_lpr` are on PATH.
The formula says that an order has a peak of one byte less, counted as under target `strict`
(`src/lowtide_research/sat/orders.py`): at one op where that is enough, else of all steps. CaDiCaL refutes it within
120 s; cake_lpr, which is verified to its machine code, accepts the proof. Then both are forged: the proof is offered
for the peak itself, which an order reaches, and half of it, if it is not empty, for the same formula. The same for the
arena of the order of least peak: no placement takes a byte less (`src/lowtide_research/sat/placements.py`; arenas of
up to 100 buffers and 500 units, the largest common divisor of the sizes).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import gcd
from pathlib import Path

from lowtide.allocate.arena import THOROUGH, allocate_best
from lowtide.allocate.buffers import Problem, arena_buffers
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.api import load
from lowtide.graph import Graph
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide.verify.check.order import simulate
from lowtide_research import zoo
from lowtide_research.bench.networks import SUFFIX, files_in
from lowtide_research.bench.pages import about, document, method_of, say, script, table, write
from lowtide_research.sat.orders import OrderProblem
from lowtide_research.sat.placements import fits
from lowtide_research.sat.refute import Refutation, is_accepted, refute

MOST_OPS = 60
SECONDS = 120.0
MOST_BUFFERS, MOST_UNITS = 100, 500  # of an arena; one of more units is a formula of millions of clauses
BUILT = ("swiftnet_cell_a", "swiftnet_cell_b", "swiftnet_cell_c", "darts_imagenet_normal_cell", "series_parallel:n=40",
         "series_parallel:n=60", "grid:side=5", "grid:side=6", "grid:side=7",
         *(f"randwire_ws_one_stage:nodes={n},seed={s}" for n in (8, 10, 12) for s in range(3)))  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A graph, its least peak, and what became of the formula that has one byte less."""

    graph: str
    ops: int
    peak_bytes: int
    formula: str  # "one op", "all steps", "arena"
    status: str
    variables: int
    clauses: int
    seconds: float
    proof_bytes: int
    forged: int
    accepted: int


def graphs(folder: Path | None) -> Iterator[tuple[str, Graph]]:
    """Graphs of few ops: built-in networks, then those of a folder."""
    for name in BUILT:
        yield name, zoo.build(name).graph()
    for path in files_in(folder, SUFFIX) if folder is not None else ():
        yield path.name.removesuffix(SUFFIX), load(path)


def least_peak(graph: Graph) -> tuple[int, Sequence[int], int]:
    """The exact search's peak, counted again by the checker, its order of op ids, and the highest step."""
    schedule = Exact().schedule(memory_model(graph, BUILT_IN["strict"]), Limits(SECONDS))
    order = [graph.ops[i].id for i in schedule.order]
    steps = simulate(graph, OrderProblem(graph, BUILT_IN["strict"]).memory, order).footprint
    return max(steps), order, order[steps.index(max(steps))]


def prove(name: str, graph: Graph, folder: Path) -> Row:
    """A row: the formula at the highest op, then at each other, then of all steps, until one is refuted."""
    problem = OrderProblem(graph, BUILT_IN["strict"])
    peak, order, highest = least_peak(graph)
    said = (f"{name}: is there an order whose peak is at most {peak - 1} bytes?",)
    kind, result, possible = "", None, None
    for op in (highest, *(o for o in order if o != highest)):
        found = refute(problem.at_one_op(op, peak - 1), folder, SECONDS, said)
        if found.status == "refuted":
            kind, result, possible = "one op", found, problem.at_one_op(op, peak)
            break
    if result is None or possible is None:
        kind, possible = "all steps", problem.of_an_order(peak)
        result = refute(problem.of_an_order(peak - 1), folder, SECONDS, said)
    forged, accepted = forge(possible.dimacs(), folder, result)
    return Row(name, len(graph.ops), peak, kind, result.status, result.variables, result.clauses,
               round(result.seconds, 2), result.proof_bytes, forged, accepted)  # fmt: skip


def arena_of(graph: Graph) -> tuple[Problem, int]:
    """The buffers of the order of least peak, and the least height that the exact placement proves."""
    model = memory_model(graph, BUILT_IN["strict"])
    order = Exact().schedule(model, Limits(SECONDS)).order
    steps = profile(model, order)
    problem = arena_buffers(model, order, steps.in_place, model.alignment, steps).problem
    found = allocate_best(problem, Limits(SECONDS), THOROUGH)
    assert found.optimal
    return problem, found.height_bytes


def prove_arena(name: str, problem: Problem, height: int, folder: Path) -> Row:
    """A row: the formula of an arena of one byte less."""
    said = (f"{name}: do they fit {height - 1} bytes?",)
    result = refute(fits(problem, height - 1), folder, SECONDS, said)
    forged, accepted = forge(fits(problem, height).dimacs(), folder, result)
    return Row(name, len(problem.buffers), height, "arena", result.status, result.variables, result.clauses,
               round(result.seconds, 2), result.proof_bytes, forged, accepted)  # fmt: skip


def forge(possible: str, folder: Path, result: Refutation) -> tuple[int, int]:
    """How many forged proofs were offered, and how many accepted."""
    if result.status != "refuted":
        return 0, 0
    proof, formula, other = (folder / f for f in ("proof.lrat", "formula.cnf", "possible.cnf"))
    other.write_text(possible, encoding="utf-8")
    accepted = int(is_accepted(other, proof))
    content = proof.read_bytes()
    if not content:
        return 1, accepted
    proof.write_bytes(content[: len(content) // 2])
    return 2, accepted + int(is_accepted(formula, proof))


def main() -> None:
    """Every graph, then the page."""
    parser = script(__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="graph JSON files; built-in networks alone without it")
    options = parser.parse_args()
    results = document(rows=[])
    for name, graph in graphs(options.folder):
        if len(graph.ops) > MOST_OPS:
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows = [prove(name, graph, Path(folder))]
        problem, height = arena_of(graph)
        units = height // gcd(*(b.size for b in problem.buffers))
        if len(problem.buffers) <= MOST_BUFFERS and units <= MOST_UNITS:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(prove_arena(name, problem, height, Path(folder)))
        for row in rows:
            say(row)
            results["rows"].append(asdict(row))
    if options.out is not None:
        write(options.out, results, page(results))


def page(results: dict[str, object]) -> list[str]:
    """The table, with what it sums up to."""
    rows = results["rows"]
    assert isinstance(rows, list)
    refuted = sum(r["status"] == "refuted" for r in rows)
    forged, accepted = (sum(r[key] for r in rows) for key in ("forged", "accepted"))
    return [
        "# Least peaks, proved by programs of others",
        "",
        *method_of(__doc__),
        about(results["machine"]),  # type: ignore[arg-type]
        "",
        f"{refuted} of {len(rows)} proofs accepted; of {forged} forged ones {accepted}.",
        "",
        *table(
            ("graph, or buffers", "count", "least, B", "formula", "result", "variables", "clauses", "s", "proof, B"),
            ([r[k] for k in ("graph", "ops", "peak_bytes", "formula", "status", "variables", "clauses", "seconds",
                             "proof_bytes")] for r in rows),
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    main()
