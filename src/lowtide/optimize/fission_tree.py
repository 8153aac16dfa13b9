"""Smaller regions to run in parts: proposed as MAGIS's F-Tree is built (ASPLOS 2024, section 4.3, algorithm 1).

Of each class of dimensions, among the ops that run along it, those that one op dominates are a candidate; it scores
by the bytes of the peak that lie inside (its heat) less what it reads that is not live at the peak anyway::

    score(v) = (1 - 1/2) sum of sizes of hot tensors below v  -  sum of sizes of what is read and not hot

Scored is what is proposed: the ops below v without v itself. Scores are divided into levels, and of each level the
lowest ops of the dominator tree are taken. Enabling, lifting and disabling a node, and another number of parts, are
then choices of a region and a number; one region at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowtide.analyse.liveness import profile
from lowtide.analyse.model import MemoryModel
from lowtide.graph import Graph
from lowtide.ops.links import axis_classes
from lowtide.ops.meaning import meaning
from lowtide.optimize.step_regions import links_of, single_axes
from lowtide.transform.fission import NoFission, Region, region_of

LEVELS = 4  # L of algorithm 1


def hot_tensors(model: MemoryModel, order: Sequence[int]) -> frozenset[int]:
    """Tensors live at the highest step of an order."""
    footprint = profile(model, order).footprint
    top = max(range(len(footprint)), key=footprint.__getitem__)
    step_of = {i: step for step, i in enumerate(order)}
    hot: set[int] = set()
    for storage in model.storages:
        steps = [step_of[i] for i in storage.users]
        first = 0 if storage.at_start else min(steps, default=0)
        last = len(order) - 1 if storage.at_end else max(steps, default=-1)
        if first <= top <= last:
            hot.update(storage.tensors)
    return frozenset(hot)


@dataclass(frozen=True)
class _Tree:
    """Dominators of a class's ops: `below` each op those that it dominates, itself among them."""

    axes: Mapping[int, int]
    below: Mapping[int, frozenset[int]]


def _tree(graph: Graph, axes: Mapping[int, int]) -> _Tree:
    """By the nearest common dominator of what an op reads, in topological order; -1 is the root."""
    above: dict[int, int] = {}
    depth = {-1: 0}

    def common(a: int, b: int) -> int:
        while a != b:
            if depth[a] < depth[b]:
                a, b = b, a
            a = above[a]
        return a

    below: dict[int, set[int]] = {}
    for op in graph.ops:
        if op.id not in axes:
            continue
        before = [graph.producer[t] for t in op.inputs if graph.producer.get(t) in axes]
        nearest = before[0] if before else -1
        for u in before[1:]:
            nearest = common(nearest, u)
        above[op.id], depth[op.id] = nearest, depth[nearest] + 1
        at = op.id
        while at != -1:
            below.setdefault(at, set()).add(op.id)
            at = above[at]
    return _Tree(axes, {v: frozenset(ops) for v, ops in below.items()})


def _score(graph: Graph, inside: frozenset[int], hot: frozenset[int]) -> float:
    sizes = graph.tensor_by_id
    made = {t for v in inside for t in graph.op_by_id[v].outputs}
    read = {t for v in inside for t in graph.op_by_id[v].inputs} - made
    return 0.5 * sum(sizes[t].size for t in made & hot) - sum(sizes[t].size for t in read - hot)


def tree_regions(graph: Graph, model: MemoryModel, order: Sequence[int], levels: int = LEVELS) -> list[Region]:
    """Candidates of all classes that are valid, those of the highest score first."""
    hot = hot_tensors(model, order)
    meanings = {op.id: known for op in graph.ops if (known := meaning(graph, op)) is not None}
    found: dict[tuple[tuple[int, int], ...], tuple[float, Region]] = {}
    links = links_of(graph, meanings)
    for places in axis_classes(graph, windows=False, meanings=lambda _, op: meanings.get(op.id)):
        tree = _tree(graph, single_axes(graph, places, links))
        scores = {v: _score(graph, inside - {v}, hot) for v, inside in tree.below.items()}
        most = max(scores.values(), default=0.0)
        if most <= 0:
            continue
        for v in _of_levels(tree, scores, most, levels):
            try:
                region = region_of(graph, {u: tree.axes[u] for u in tree.below[v] - {v}})
            except NoFission:
                continue
            found.setdefault(region.axes, (scores[v], region))
    return [region for _, region in sorted(found.values(), key=lambda entry: (-entry[0], entry[1].axes))]


def _of_levels(tree: _Tree, scores: Mapping[int, float], most: float, levels: int) -> list[int]:
    """Of each level of scores the ops that dominate no other of it."""
    taken: list[int] = []
    for level in range(1, levels + 1):
        there = {v for v, s in scores.items() if level / levels <= s / most < (level + 1) / levels}
        taken += [v for v in there if not (tree.below[v] - {v}) & there and len(tree.below[v]) > 2]
    return sorted(taken)
