"""Transformations that do not go into one plan: row streaming, and tiles or recomputation.

Each group has a search of its own, with its share of the time; the plan of fewer bytes is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from lowtide.errors import InputError
from lowtide.plan import Plan

LOOPS, RECOMPUTE = "row-streaming", "recompute"


def groups_of(words: str | Iterable[str]) -> list[tuple[str, ...]]:
    """Transformations as groups of which each is a plan's; one group where they go together.

    >>> groups_of("row-streaming,tile,recompute")
    [('row-streaming',), ('tile', 'recompute')]
    >>> groups_of("tile,recompute")
    [('tile', 'recompute')]
    """
    listed = tuple(dict.fromkeys(filter(None, words.split(",") if isinstance(words, str) else words)))
    rest = tuple(word for word in listed if word != LOOPS)
    return [(LOOPS,), rest] if LOOPS in listed and rest else [listed]


def least_of(groups: list[tuple[str, ...]], solve: Callable[[tuple[str, ...]], Plan]) -> Plan:
    """The plan of the fewest bytes of those of groups.

    Tiles and recomputation that do not go together for the model are groups of their own. Raises `InputError`: a group
    gives no plan.
    """
    found: list[Plan] = []
    waiting = list(groups)
    while waiting:
        group = waiting.pop(0)
        try:
            found.append(solve(group))
        except InputError:
            if RECOMPUTE not in group or len(group) == 1:
                raise
            waiting += [tuple(word for word in group if word != RECOMPUTE), (RECOMPUTE,)]
        if found and found[-1].stopped == "interrupt":
            break
    best = min(found, key=lambda plan: plan.required_bytes)
    if best.status == "impossible":  # what was proved is of one group
        best = msgspec.structs.replace(best, status="over_budget")
    return best
