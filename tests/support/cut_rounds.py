"""Part graphs that are cut again, as plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lowtide.api.answer import assemble
from lowtide.api.goals import OneArena
from lowtide.api.job import Search
from lowtide.api.problem import Problem, Rules
from lowtide.api.rewrites.decisions import as_rewrites, exactness, looser
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.rewrites import Exactness
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.transform.cut import Cutter
from lowtide.transform.parts import PartGraph


def rounds_exactness(graph: Graph, parts: PartGraph) -> Exactness:
    """The loosest class of all rounds."""
    worst: Exactness = "bits"
    for one in (*parts.earlier, parts):
        worst = looser(worst, exactness(Cutter(graph), one))
        graph = one.graph
    return worst


def plan_of_rounds(source: Path, parts: PartGraph, target: str = "onnxruntime", first: Graph | None = None) -> Plan:
    """The plan of some parts, as the search for cuts makes it; `first`: what is cut first, if that is not the model."""
    rules = Rules(target=target)
    graph, resolved = read_model(source), rules.resolve(str(source))
    seen = resolved.as_seen(graph)
    problem = Problem.of(parts.graph, resolved)
    goal = OneArena().for_problem(problem)
    answer = goal.solve(problem, Search(Exact()), Limits(seconds=5.0, started=Limits.now()))
    keys = {
        **answer.keys,
        "rewrites": [*as_rewrites(parts)],
        "exactness": rounds_exactness(first or seen, parts),
        "proved_over": "orders",
        "allow": ["fission", "rounds"],
    }
    own = Problem.of(seen, resolved).own_order_peak_bytes
    return assemble(replace(answer, keys=keys, parts=parts, own_order_peak_bytes=own), rules)
