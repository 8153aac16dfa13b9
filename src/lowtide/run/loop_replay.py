"""A plan with loops replayed for several inputs, and what that shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.run.loop_arena import Array, LoopArena
from lowtide.run_reports import LoopRunReport, OutputComparison


def replay_loops(
    graph: Graph, plan: Plan, values: Sequence[Mapping[int, Array]], runtime: str, *, channels_last: bool = False
) -> LoopRunReport:
    """Replay a plan.

    Parameters
    ----------
    graph
        The user's.
    values
        For each input what the runtime made of every tensor that is no constant, by id.
    channels_last
        Whether images lie with their channels last under the plan's target.

    Raises
    ------
    InputError
        A tensor has other bytes in the runtime, or it does not say what is in one.
    VerificationError
        ``simulation``: what an op reads is not where the plan has it.
    """
    positions = compared = 0
    for each in values:
        arena = LoopArena(graph, plan, each, channels_last)
        arena.replay()
        positions, compared = positions + arena.positions, compared + arena.compared_bytes
    outputs = []
    for t in graph.tensors:
        if t.kind is Kind.OUTPUT:
            seen = [each[t.id] for each in values if t.id in each]
            same = all(np.array_equal(seen[0], other) for other in seen[1:])
            outputs.append(OutputComparison(t.label, equal=True, max_abs_difference=None, vacuous=same))
    return LoopRunReport(tuple(outputs), runtime, len(values), plan.arena_bytes or 0, positions, compared)
