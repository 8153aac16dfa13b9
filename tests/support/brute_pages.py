"""Fewest pages read back, over every choice of who leaves: all sets of pages that can be there, touch by touch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from lowtide.analyse.storage import MemoryModel


def least_traffic(model: MemoryModel, order: Sequence[int], room: int) -> int:
    """Pages of one byte; a page is read when it is touched again and has left meanwhile."""
    pages = {s: [(s, k) for k in range(storage.size)] for s, storage in enumerate(model.storages)}
    touches = []
    for i in order:
        op = model.graph.ops[i]
        for ids in (op.inputs, op.outputs):
            for s in dict.fromkeys(model.storage_of[t] for t in ids if t in model.storage_of):
                touches += pages[s]
    level: dict[frozenset[tuple[int, int]], int] = {frozenset(): 0}
    seen: set[tuple[int, int]] = set()
    for k, page in enumerate(touches):
        later = set(touches[k + 1 :])
        after: dict[frozenset[tuple[int, int]], int] = {}
        for there, reads in level.items():
            cost = reads + (page in seen and page not in there)
            others = sorted(there - {page})
            for leave in range(len(others) + 1):
                for gone in combinations(others, leave):
                    kept = (there - set(gone)) | {page}
                    if len(kept) <= room:
                        state = frozenset(kept & later)
                        after[state] = min(after.get(state, cost), cost)
        level = after
        seen.add(page)
    return min(level.values(), default=0)
