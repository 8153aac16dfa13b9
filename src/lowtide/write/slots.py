"""Where the ops go in the file: a new order for those that run, while folded ones keep their place.

A model file holds folded ops (they read constants only) among the others, and a plan's order does not list
them. The file has one slot for each op::

    file     F0  a  b  F1  c        order  c a b,   c reads F1
    slots    F0  .  .  F1  .
    filled   F0  c  a  F1  b        F1 would come after its consumer c, so it moves to just before it:
    result   F0  F1 c  a   b

One that has to run after an op that now comes later waits for that op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from lowtide.errors import InputError
from lowtide.graph import Op
from lowtide.topological import topological


def fill_slots(ops: Sequence[Op], folded: Collection[int], order: Sequence[int], place: str) -> list[int]:
    """Every op id of a file in its new sequence.

    `ops`: all ops in file order, folded ones included. `folded`: ids of the folded ones. One keeps its slot, or, if a
    consumer now comes earlier, moves to just before that, or, if what it has to run after now comes later, to just
    after that. `order`: either each op that runs once, or each op of the file once, folded ones included; the latter
    is taken as it is, so that any sequence can be undone. `place`: put before every message. Raises `InputError`:
    `order` misses an op, lists one twice or an unknown one, or is not topological.
    """
    by_id = {op.id: op for op in ops}
    complete = len(order) == len(by_id) and set(order) == set(by_id)
    if complete:
        slots, movable = list(order), set[int]()
    else:
        running = [op.id for op in ops if op.id not in folded]
        _check_permutation(running, order, place)
        rest = iter(order)
        slots = [op.id if op.id in folded else next(rest) for op in ops]
        movable = set(folded)
    producers = {t: op.id for op in ops for t in op.outputs}
    needs = {op.id: {*(producers[t] for t in op.inputs if t in producers), *op.after} for op in ops}
    place_of = {op.id: i for i, op in enumerate(ops)}
    position = {op_id: i for i, op_id in enumerate(topological(needs, place_of.__getitem__))}
    placed: dict[int, None] = {}
    late: list[int] = []
    for op_id in slots:
        if op_id in placed:
            continue
        early, missing = _unplaced(op_id, needs, placed, movable)
        if missing is not None:
            if op_id in movable:
                late.append(op_id)
                continue
            raise InputError(
                f"the order puts {by_id[missing[0]].label} before {by_id[missing[1]].label}, which it needs; "
                "give a topological order",
                place,
            )
        placed.update(dict.fromkeys([*sorted(early, key=position.__getitem__), op_id]))
        for waiting in [o for o in late if o not in placed]:
            early, missing = _unplaced(waiting, needs, placed, movable)
            if missing is None:
                placed.update(dict.fromkeys([*sorted(early, key=position.__getitem__), waiting]))
        late = [o for o in late if o not in placed]
    assert not late, "what a folded op needs has run at the end"
    return list(placed)


def check_order(ops: Sequence[Op], order: Sequence[int], place: str) -> None:
    """Raise `InputError` unless `order` lists each op once, after what it needs."""
    _check_permutation([op.id for op in ops], order, place)
    by_id = {op.id: op for op in ops}
    made_by = {t: op.id for op in ops for t in op.outputs}
    done: set[int] = set()
    for op in (by_id[o] for o in order):
        for needed in (*(made_by[t] for t in op.inputs if t in made_by), *op.after):
            if needed in by_id and needed not in done:
                raise InputError(
                    f"the order puts {op.label} before {by_id[needed].label}, which it needs; give a topological order",
                    place,
                )
        done.add(op.id)


def _unplaced(
    op_id: int, needs: Mapping[int, set[int]], placed: Collection[int], movable: Collection[int]
) -> tuple[set[int], tuple[int, int] | None]:
    """What an op needs, itself or through others, that has no place yet; and a reader and its op that has to wait."""
    early: set[int] = set()
    waiting = [op_id]
    while waiting:
        reader = waiting.pop()
        for p in needs[reader]:
            if p in placed or p in early:
                continue
            if p not in movable:
                return early, (reader, p)
            early.add(p)
            waiting.append(p)
    return early, None


def _check_permutation(expected: Sequence[int], order: Sequence[int], place: str) -> None:
    count, known = Counter(order), set(expected)
    wrong = [f"op {o} is unknown or folded" for o in count if o not in known][:1]
    wrong += [f"op {o} is listed twice" for o, n in count.items() if n > 1][:1]
    wrong += [f"op {o} is missing" for o in expected if o not in count][:1]
    if wrong:
        raise InputError(f"the order is not one of this model: {wrong[0]}; plan this model again", place)
