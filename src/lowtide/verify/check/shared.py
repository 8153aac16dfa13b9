"""Do models that share an arena leave each other's persistent tensors alone?"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.target import Target
from lowtide.verify.check.layout import storage_offsets
from lowtide.verify.check.memory import work_out


def check_shared(members: Sequence[tuple[Graph, Plan, Target]]) -> str:
    """Each plan holds by itself (`verify_plan`); here, what one model keeps shares no byte with what another one uses.
    Raises `VerificationError`: ``shared``: arenas of different sizes, or two models of which one writes where the other
    keeps something."""
    sizes = {plan.arena_bytes for _, plan, _ in members}
    if len(sizes) > 1:
        raise VerificationError("shared", f"the plans have arenas of {sorted(s or 0 for s in sizes)} bytes, not one")
    kept: list[list[tuple[int, int, str]]] = []
    used: list[list[tuple[int, int, str]]] = []
    for graph, plan, target in members:
        memory = work_out(graph, target)
        at = storage_offsets(graph, plan, memory)
        ranges = {i: (start, start + memory.storages[i].size) for i, start in at.items()}
        names = {i: graph.tensor_by_id[memory.storages[i].tensors[0]].label for i in ranges}
        stays = [i for i in ranges if any(target.copies(graph.tensor_by_id[t]) for t in memory.storages[i].tensors)]
        kept.append([(*ranges[i], f"{names[i]} of {graph.name}") for i in stays])
        own = [(*ranges[i], f"{names[i]} of {graph.name}") for i in ranges]
        for op, start in (plan.workspace_offsets or {}).items():
            end = start + memory.workspace[int(op)]
            own.append((start, end, f"the workspace of {graph.op_by_id[int(op)].label} of {graph.name}"))
        used.append(own)
    count = 0
    for i, mine in enumerate(kept):
        for low, high, name in mine:
            count += 1
            for j, others in enumerate(used):
                for start, end, other in others if j != i else ():
                    if start < high and low < end:
                        raise VerificationError(
                            "shared", f"{other} at {start}..{end} overlaps {name} at {low}..{high}, which is kept"
                        )
    return f"{count:,} persistent tensors, none written by another model"
