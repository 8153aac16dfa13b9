"""Values dropped at the turn of a training step, and recomputed where the backward pass reads them.

::

    forward ........ turn ........ backward         a value that the backward pass reads is kept, or dropped and
       x made         |    x' made, x read           recomputed, with the dropped values that its op reads

The turn is the step of most live bytes: a graph does not say where its loss is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowtide.optimize.recompute.sequence import Sequenced


def turn_of(problem: Sequenced, order: Sequence[int]) -> int:
    """The step of most live bytes."""
    footprints = problem.core().footprints(list(order))
    return max(range(len(footprints)), key=footprints.__getitem__, default=0)


def droppable(problem: Sequenced, order: Sequence[int], turn: int) -> list[int]:
    """Values that are made before the turn and read after it, by ops that may be recomputed, in the order of their
    makers."""
    step = {i: k for k, i in enumerate(order)}
    last: dict[int, int] = {}
    for k, i in enumerate(order):
        last.update(dict.fromkeys(problem.ops[i].reads, k))
    values = [
        x
        for x, v in enumerate(problem.values)
        if v.maker >= 0 and v.size and not problem.ops[v.maker].once and step[v.maker] < turn < last.get(x, -1)
    ]
    return sorted(values, key=lambda x: (step[problem.values[x].maker], x))


def with_dropped(
    problem: Sequenced, order: Sequence[int], turn: int, dropped: set[int], together: Mapping[int, Sequence[int]]
) -> list[int]:
    """The sequence without these values at the turn. `dropped`: values of `droppable`. `together`: for a value, others
    that are recomputed with it if they still have consumers."""
    step = {i: k for k, i in enumerate(order)}
    readers: dict[int, int] = {}
    for k, i in enumerate(order):
        readers.update(dict.fromkeys(problem.ops[i].reads, k))
    sequence = list(order[: turn + 1])
    gone = set(dropped)

    def recompute(values: Sequence[int]) -> None:
        """Recompute these values, dropped operands first."""
        wanted = list(values)
        runs: set[int] = set()
        while wanted:
            x = wanted.pop()
            maker = problem.values[x].maker
            if x in gone and maker not in runs:
                runs.add(maker)
                wanted += [y for y in problem.ops[maker].reads if y in gone]
        sequence.extend(sorted(runs, key=step.__getitem__))
        for i in runs:
            gone.difference_update(problem.ops[i].makes)

    for k in range(turn + 1, len(order)):
        missing = [x for x in problem.ops[order[k]].reads if x in gone]
        if missing:
            with_them = [y for x in missing for y in together.get(x, ()) if readers.get(y, -1) >= k]
            recompute([*missing, *with_them])
        sequence.append(order[k])
    return sequence
