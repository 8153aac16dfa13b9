"""What depends on constants only: computed before the first step, or run every time, as the runtime does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lowtide.graph import Graph, Kind, Op, Tensor, alias_roots


def fold_constants(tensors: Iterable[Tensor], ops: Iterable[Op]) -> tuple[list[Tensor], list[Op], list[Op]]:
    """Separate the ops that read constants only, and mark what they make as constant.

    An op without inputs is folded only if its type is ``Constant``; an op with the attribute ``random`` is not
    folded, since it makes something else on every run. Nor is one whose output is in memory that is not constant
    itself, or that an op writes to that remains: what it makes has to be put there on every run.
    What a folded op has to run after, those that follow from it have to as well, so that a file can hold it between.
    Returns the tensors, the ops that remain, and the folded ones, each in the order given.
    """
    tensors, ops = list(tensors), list(ops)
    constant = {t.id for t in tensors if t.kind is Kind.CONSTANT}
    fixed: list[int] = []
    for i, op in enumerate(ops):
        if op.type == "Constant" or (op.inputs and constant.issuperset(op.inputs) and not op.attributes.get("random")):
            fixed.append(i)
            constant.update(op.outputs)
    running = _of_every_run(tensors, ops, fixed)
    constant.difference_update(t for i in running for t in ops[i].outputs)
    marked = [
        replace(t, kind=Kind.CONSTANT) if t.id in constant and t.kind is not Kind.CONSTANT else t for t in tensors
    ]
    kept = set(fixed).difference(running)
    folded = [op for i, op in enumerate(ops) if i in kept]
    return marked, _after_what_is_folded([op for i, op in enumerate(ops) if i not in kept], folded), folded


def _after_what_is_folded(ops: Sequence[Op], folded: Sequence[Op]) -> list[Op]:
    """The ops that remain, each after what the folded ops that it follows from have to run after."""
    if not any(op.after for op in folded):
        return list(ops)
    ids = {op.id for op in folded}
    behind: dict[int, dict[int, None]] = {}  # folded op to the ops that remain and come before it
    makers = {t: op.id for op in folded for t in op.outputs}

    def before(op: Op) -> dict[int, None]:
        earlier = dict.fromkeys(o for o in op.after if o not in ids)
        for f in (*(makers[t] for t in op.inputs if t in makers), *(o for o in op.after if o in ids)):
            earlier |= behind.get(f, {})
        return earlier

    for op in folded:
        behind[op.id] = before(op)
    return [replace(op, after=(*op.after, *(o for o in before(op) if o not in op.after))) for op in ops]


def _of_every_run(tensors: Sequence[Tensor], ops: Sequence[Op], fixed: Sequence[int]) -> set[int]:
    """Which of the ops at `fixed` have to run after all: their outputs lie in memory that is not constant."""
    if all(t.alias_of is None for t in tensors):
        return set()
    roots = alias_roots(tensors)
    declared = {t.id for t in tensors if t.kind is Kind.CONSTANT}
    computed = {t for i in fixed for t in ops[i].outputs}
    writers: dict[int, list[int]] = {}  # by the root of what they write into
    readers: dict[int, list[int]] = {}
    for i in fixed:
        for t in ops[i].inputs:
            readers.setdefault(t, []).append(i)
        for t in ops[i].outputs:
            if roots.get(t, t) not in declared:
                writers.setdefault(roots.get(t, t), []).append(i)
    others = set(range(len(ops))).difference(fixed)
    changing = {roots.get(t, t) for i in others for t in ops[i].outputs}
    waiting = [i for root, ids in writers.items() if root in changing or root not in computed for i in ids]
    running: set[int] = set()
    while waiting:
        i = waiting.pop()
        if i in running:
            continue
        running.add(i)
        for t in ops[i].outputs:
            waiting += readers.pop(t, ())
            waiting += writers.pop(roots.get(t, t), ())
    return running


def run_folded(graph: Graph) -> Graph:
    """The same graph for a runtime that computes on every run what depends on constants only, at its place in the
    file. Ops of type ``Constant`` stay folded."""
    running = _computed_on_every_run(graph)
    if not running:
        return graph
    computed = {t for op in running.values() for t in op.outputs}
    return replace(
        graph,
        tensors=tuple(replace(t, kind=Kind.ACTIVATION) if t.id in computed else t for t in graph.tensors),
        ops=_in_between(graph, running),
        folded=tuple(op for op in graph.folded if op.id not in running),
    )


def _in_between(graph: Graph, running: Mapping[int, Op]) -> tuple[Op, ...]:
    """The ops in file order, and each of `running` at its place in the file, or before the first that reads from it.
    One that has to run after an op that comes later waits for that op, as in `lowtide.write.slots`."""
    rank = {op_id: k for k, op_id in enumerate(graph.file_order)}
    makers = {t: op.id for op in running.values() for t in op.outputs}
    waiting = sorted(running, key=lambda op_id: rank.get(op_id, op_id), reverse=True)
    placed: dict[int, Op] = {}

    def place(op: Op) -> None:
        todo = [op]
        while todo:
            needs = [makers[t] for t in todo[-1].inputs if t in makers]
            needs = [o for o in (*needs, *todo[-1].after) if o in running and o not in placed]
            if needs:
                todo += [running[o] for o in needs]
                continue
            op = todo.pop()
            placed.setdefault(op.id, op)

    def ready(op: Op) -> bool:
        """Whether all that is to run before it, itself or through others, has its place or can have it now."""
        todo, seen = [op], {op.id}
        while todo:
            needs = {*todo[-1].after, *(makers[t] for t in todo[-1].inputs if t in makers)}
            todo.pop()
            for o in needs - seen - placed.keys():
                if o not in running and o in graph.op_by_id and o not in constants:
                    return False
                if o in running:
                    todo.append(running[o])
                seen.add(o)
        return True

    constants = {op.id for op in graph.folded if op.id not in running}
    late: list[Op] = []
    for op in graph.ops:
        while waiting and rank.get(waiting[-1], waiting[-1]) < rank.get(op.id, op.id):
            late.append(running[waiting.pop()])
        for other in [other for other in late if ready(other)]:
            place(other)
            late.remove(other)
        place(op)
    for other in (*late, *(running[op_id] for op_id in reversed(waiting))):
        place(other)
    return tuple(placed.values())


def _computed_on_every_run(graph: Graph) -> dict[int, Op]:
    """The folded ops but those of type ``Constant``, unless one writes into memory that another one does."""
    roots = alias_roots(graph.tensors)
    running = {op.id: op for op in graph.folded if op.type != "Constant"}
    while True:
        written = {roots[t] for op in running.values() for t in op.outputs}
        more = [op for op in graph.folded if op.id not in running and any(roots[t] in written for t in op.outputs)]
        if not more:
            return running
        running |= {op.id: op for op in more}
