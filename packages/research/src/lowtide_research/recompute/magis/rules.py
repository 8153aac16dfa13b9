"""Scheduling-based rules (MAGIS, section 5.2), on tensors that are live at the peak and not used there.

A sequence says which run a reader reads from: the latest one. So an op that runs again serves all readers after it up
to its next run; in the paper it serves one of them, and another rule joins the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nlargest

from lowtide.graph import Graph
from lowtide_research.recompute.magis.state import OUTSIDE, Evaluated, Scheduled, State
from lowtide_research.recompute.magis.tree import Tree


def mutated(
    at: Evaluated, tree: Tree, graph: Graph, width: int, *, leaves: bool, everywhere: bool = False
) -> Iterator[tuple[str, State]]:
    """What one rule makes of a state, with the rule's name. `width`: of each rule so many places at most, those of most
    bytes at the peak, for their time, first. `leaves`: whether no other nodes of the tree are enabled. `everywhere`:
    whether tensors need not be live at the peak (section 7.2.5, naive rules)."""
    near = [(part, _hot(part, top)) for part, top in peaks(at)]
    heat = _heat(near[0][0], near[0][1], graph)
    hottest = nlargest(width, tree.leaves() if leaves else range(len(tree.ops)),
                       key=lambda k: sum(heat.get(v, 0) for v in tree.ops[k]))  # fmt: skip
    for name, counts in tree.mutations(at.state.counts, hottest):
        yield name, replace(at.state, counts=counts)
    for part, hot in [(part, _idle(part)) for part, _ in near] if everywhere else near:
        for _, state in nlargest(width, _rematerialised(at, part, hot), key=lambda entry: entry[0]):
            yield "rematerialise", state
        for _, tensor in nlargest(width, _movable(at, part, hot)):
            yield "swap", replace(at.state, moved=at.state.moved | {tensor})
    yield from _taken_back(at, graph, width)


def _heat(part: Scheduled, hot: list[_Gap], graph: Graph) -> dict[int, int]:
    """Bytes at the peak that each of the step's ops made."""
    heat: dict[int, int] = {}
    for gap in hot:
        value = part.problem.values[gap.value]
        if value.maker >= 0 and (op := part.problem.model.graph.ops[value.maker].id) in graph.op_by_id:
            heat[op] = heat.get(op, 0) + value.size
    return heat


def peaks(at: Evaluated) -> Iterator[tuple[Scheduled, int]]:
    """Where the peak is: a graph and its highest step, and where that is a region, the region's own as well."""
    part = at.parts[OUTSIDE]
    while True:
        live = part.problem.exact.footprints(list(part.order))
        top = max(range(len(live)), key=live.__getitem__)
        yield part, top
        if part.at[top] >= OUTSIDE:
            return
        part = at.parts[-2 - part.at[top]]


@dataclass(frozen=True)
class _Gap:
    """A value that no step from `before` to `behind` touches, the step of the peak between them."""

    value: int
    before: int
    behind: int  # reads it


def _hot(part: Scheduled, top: int) -> list[_Gap]:
    ops, used, found = part.problem.ops, dict[int, int](), dict[int, _Gap]()
    for step, i in enumerate(part.order):
        for x in ops[i].reads if step > top else ():
            if used.get(x, top) < top:
                found.setdefault(x, _Gap(x, used[x], step))
        used.update(dict.fromkeys((*ops[i].reads, *ops[i].makes), step))
    return list(found.values())


def _idle(part: Scheduled) -> list[_Gap]:
    """Each time that a value waits for its next reader, in the order of the steps."""
    ops, used, found = part.problem.ops, dict[int, int](), list[_Gap]()
    for step, i in enumerate(part.order):
        found += [_Gap(x, used[x], step) for x in ops[i].reads if x in used and used[x] < step - 1]
        used.update(dict.fromkeys((*ops[i].reads, *ops[i].makes), step))
    return found


def _rematerialised(at: Evaluated, part: Scheduled, hot: list[_Gap]) -> Iterator[tuple[float, State]]:
    problem, runs = part.problem, at.state.runs
    for gap in hot:
        maker = problem.values[gap.value].maker
        index = _index(at, part, gap.behind)
        if maker < 0 or problem.ops[maker].once or index is None:
            continue
        op = problem.model.graph.ops[maker].id
        if op in runs:  # no region as a whole, and no copy of rows
            state = replace(at.state, runs=(*runs[:index], op, *runs[index:]))
            yield problem.values[gap.value].size / max(1, problem.costs.units[maker]), state


def _index(at: Evaluated, part: Scheduled, step: int) -> int | None:
    """Where the runs of the state have the first of the step's ops that come from a step on."""
    for i in part.at[step:]:
        if i < OUTSIDE:
            return min(j for j in at.parts[-2 - i].at if j > OUTSIDE)
        if i > OUTSIDE:
            return i
    return None


def _movable(at: Evaluated, part: Scheduled, hot: list[_Gap]) -> Iterator[tuple[tuple[int, int], int]]:
    model, rows = part.problem.model, {row.value for row in part.problem.transfers}
    for gap in hot:
        tensor = model.storages[gap.value].tensors[0]
        if gap.value in rows and tensor not in at.state.moved:
            yield (model.storages[gap.value].size, gap.behind - gap.before), tensor


def _taken_back(at: Evaluated, graph: Graph, width: int) -> Iterator[tuple[str, State]]:
    """Without one of the runs that are not the first of their op, the dearest; without one of the transfers."""
    runs, seen, again = at.state.runs, set[int](), list[tuple[float, int]]()
    for i, v in enumerate(runs):
        if v in seen:
            again.append((graph.op_by_id[v].cost or 0.0, i))
        seen.add(v)
    for _, i in nlargest(width, again):
        yield "de-rematerialise", replace(at.state, runs=(*runs[:i], *runs[i + 1 :]))
    for tensor in sorted(at.state.moved, key=lambda t: (graph.tensor_by_id[t].size, t))[:width]:
        yield "de-swap", replace(at.state, moved=at.state.moved - {tensor})
