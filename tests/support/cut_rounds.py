"""Part graphs that are cut again, as plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lowtide.api.answer import assemble
from lowtide.api.goals import OneArena
from lowtide.api.job import Search
from lowtide.api.moves.decisions import as_rewrites, exactness, looser
from lowtide.api.problem import Problem, Rules
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.read import read_model
from lowtide.rewrites import Exactness
from lowtide.schedule.exact import Exact
from lowtide.stop import Limits
from lowtide.transform.cut import PACES, RECOMPUTED_HALO, Cutter, Region
from lowtide.transform.parts import PartGraph

Ways = list[tuple[int, int, int, int, int]]
"""For each region: seed, way, first op, how many, stripes; numbers counted modulo what there is."""


def drawn_regions(cutter: Cutter, ways: Ways) -> list[Region]:
    """Regions of a graph that some numbers stand for."""
    graph = cutter.graph
    regions: list[Region] = []
    for seed, way, first, many, stripes in ways:
        rest = [op for op in graph.own_order if not any(op in region.of for region in regions)]
        within = rest[first % max(1, len(rest)) :][: many % 12 + 1]
        able = [op for op in within if cutter.axes(op)]
        if not able:
            continue
        op = able[seed % len(able)]
        axes = cutter.grow(within, op, cutter.axes(op)[way % len(cutter.axes(op))])
        if axes is not None:
            regions.append(cutter.region(graph.own_order, axes, stripes, (*PACES, *RECOMPUTED_HALO)[seed % 5]))
    return regions


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
    answer = goal.solve(problem, Search(Exact()), Limits(seconds=5.0))
    keys = {
        **answer.keys,
        "rewrites": [*as_rewrites(parts)],
        "exactness": rounds_exactness(first or seen, parts),
        "proved_over": "orders",
        "allow": ["tile", "nest-tiles"],
    }
    own = Problem.of(seen, resolved).own_order_peak_bytes
    return assemble(replace(answer, keys=keys, parts=parts, own_order_peak_bytes=own), rules)
