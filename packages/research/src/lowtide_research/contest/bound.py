"""Lower bounds on the total latency of every solution of an instance, each with its proof."""

from __future__ import annotations

from lowtide_research.contest.reader import Problem


def compute_bound(problem: Problem) -> float:
    """All operators run at full efficiency.

    Proof: each operator is in some group, and that group's steps need every element of its output: outputs of a group
    are complete, a Pointwise needs of its inputs the rectangle that it makes, a MatMul needs of its left input these
    rows, of its right one these columns, and all of the reduction. A step pays for a rectangle at least its share of
    native tiles times the slice's share of the native depth, so the steps of that group pay at least this sum's term.
    A step takes at least its compute.
    """
    total = 0.0
    for number, op in enumerate(problem.ops):
        tiles = problem.size(op.output) / (problem.native_width * problem.native_height)
        total += op.cost * tiles * (problem.depth(number) / problem.native_width if op.matmul else 1)
    return total


def traffic_bound(problem: Problem) -> float:
    """Inputs of the graph are loaded and outputs are stored once.

    Proof: inputs begin in the slow memory and are needed in full (see `compute_bound`), outputs must end there; a step
    takes at least its transfers.
    """
    moved = sum(
        problem.size(tensor)
        for tensor, readers in problem.consumers.items()
        if (tensor in problem.producer) != bool(readers)
    )
    return moved / problem.bandwidth


def lower_bound(problem: Problem) -> float:
    """The best of the bounds."""
    return max(compute_bound(problem), traffic_bound(problem))
