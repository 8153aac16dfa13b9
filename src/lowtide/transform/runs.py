"""A sequence of ops, some of them more than once, as a graph in which each run is an op of its own.

::

    a b c a d   =>   a b c a' d        d reads what a' makes

A run's readers are those that come before the next run of its op. Of an op that makes an output of the graph the last
run keeps its name, else the first; the others are clones of it, as `lowtide.transform.clone` makes them one by one.

A tensor may be stored and loaded: two more ops, of which the first makes nothing and the second reads nothing.

::

    a b S c L d      =>   a b S c L d        d reads what L makes: what a made, once more
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.piece import Part
from lowtide.rewrites import Recompute, Replaced, Swap, SwapLoad
from lowtide.transform.parts import PartGraph
from lowtide.transform.rename import reading


@dataclass(frozen=True)
class Runs:
    """A sequence as a graph."""

    graph: Graph  # the one with clones
    order: tuple[int, ...]  # ids of its ops, each once
    rewrites: tuple[Recompute | Swap, ...]  # the changes of the user's graph, one clone after the other


STORE, LOAD = "StoreToHost", "LoadFromHost"
"""Types of the ops that store a tensor on the host and reload it."""


@dataclass
class _Run:
    """A run of op `of`: its id in the new graph, the new ids of its tensors and operands, and the new containing tensor
    of each alias; `number`: 0 for the run that keeps the op's own names, else from 1."""

    of: Op
    id: int
    number: int
    makes: dict[int, int]
    reads: dict[int, int]  # as if nothing were loaded
    loaded: dict[int, int]
    inside: dict[int, int]


def apply(graph: Graph, order: Sequence[int], moved: Sequence[int] = ()) -> Runs:
    """The graph of a sequence.

    Parameters
    ----------
    order
        Positions of ops; each at least once, after its operands, and only once if an `after` names it. Needless runs
        are left out: those without a consumer whose op has another run.
    moved
        Tensors that are stored and loaded: with n ops, entry n + 2 k of the sequence is where tensor k has been stored,
        and n + 2 k + 1 where its load begins. Loads without a consumer are left out, and stores but the first.
    """
    order = _read(graph, order, moved)
    runs = _named(graph, order, moved)
    rewrites = _rewrites(graph, [run for run in runs if run.of.type != LOAD])
    clones: dict[int, list[int]] = {}
    for rewrite in rewrites:
        clones.setdefault(rewrite.of, []).insert(0, rewrite.op)
    by_id = {run.id: run for run in runs}
    transfers: dict[int, list[_Run]] = {}
    for run in runs:
        if run.of.type in (STORE, LOAD):
            transfers.setdefault(graph.producer[_moved(run)], []).append(run)
    ops: list[Op] = []
    tensors = {t.id: t for t in graph.tensors}
    for op in graph.ops:
        for number in (op.id, *clones.get(op.id, ())):
            run = by_id[number]
            ops.append(_as_op(run))
            tensors |= {new: _tensor_of(graph.tensor_by_id[t], new, run) for t, new in run.makes.items()}
        for run in transfers.get(op.id, ()):
            ops.append(_as_op(run))
            tensors |= {new: _loaded(graph.tensor_by_id[t], new, run.number) for t, new in run.makes.items()}
    changed = replace(graph, tensors=tuple(tensors.values()), ops=tuple(ops))
    return Runs(changed, tuple(run.id for run in runs), (*rewrites, *_swaps(runs)))


def of_rewrites(graph: Graph, rewrites: Sequence[Recompute]) -> Runs:
    """The graph with clones of a plan's rewrites, in its own order. Raises `ValueError`: an op or a tensor does not
    exist."""
    ops, tensors = {op.id: op for op in graph.ops}, {t.id: t for t in graph.tensors}
    clones: dict[int, list[int]] = {}
    for r in rewrites:
        pairs = dict(zip(ops[r.of].outputs, r.outputs, strict=True)) if r.of in ops and r.op not in ops else {}
        if r.of not in graph.index_of or not pairs or not tensors.keys().isdisjoint(pairs.values()):
            raise ValueError(f"op {r.op} cannot be op {r.of} once more")
        for x in (Replaced(tensor=r.replaced, readers=r.readers), *r.more):
            if x.tensor not in pairs or not ops.keys() >= set(x.readers):
                raise ValueError(f"tensor {x.tensor} cannot be read from op {r.op}")
            ops |= {reader: reading(ops[reader], {x.tensor: pairs[x.tensor]}) for reader in x.readers}
        number = 1 + sum(other.of == r.of and other.op < r.op for other in rewrites)
        ops[r.op] = replace(
            ops[r.of],
            id=r.op,
            name=_clone_name(graph.op_by_id[r.of].name or graph.op_by_id[r.of].label, number),
            outputs=tuple(pairs.values()),
        )
        tensors |= {
            new: replace(tensors[t], id=new, kind=Kind.ACTIVATION, name=_clone_name(tensors[t].label, number))
            for t, new in pairs.items()
        }
        clones.setdefault(r.of, []).insert(0, r.op)
    listed = tuple(ops[o] for op in graph.ops for o in (op.id, *clones.get(op.id, ())))
    changed = replace(graph, tensors=tuple(tensors.values()), ops=listed)
    return Runs(changed, changed.own_order, tuple(rewrites))


def _moved(run: _Run) -> int:
    """The tensor that a store or a load moves."""
    return next(iter(run.reads or run.makes))


def _read(graph: Graph, order: Sequence[int], moved: Sequence[int]) -> tuple[int, ...]:
    """The sequence without needless runs and transfers."""
    n = len(graph.ops)
    first = {i: step for step, i in reversed(list(enumerate(order)))}
    wanted = {t.id for t in graph.tensors if t.kind is Kind.OUTPUT}
    copies: set[int] = set()  # stores whose copies are read
    seen: set[int] = set()
    left = Counter(order)
    backwards: list[int] = []
    for step, i in reversed(list(enumerate(order))):
        left[i] -= 1
        if i >= n:
            tensor, load = moved[(i - n) // 2], (i - n) % 2
            if load and tensor in wanted:
                wanted.discard(tensor)
                copies.add(i - 1)
                backwards.append(i)
            elif not load and i in copies and first[i] == step:
                wanted.add(tensor)
                backwards.append(i)
            continue
        op = graph.ops[i]
        if wanted.isdisjoint(op.outputs) and (i in seen or left[i]):
            continue  # what it makes is read from another run
        backwards.append(i)
        seen.add(i)
        wanted.difference_update(op.outputs)
        wanted.update(op.inputs)
    return tuple(reversed(backwards))


def _named(graph: Graph, order: Sequence[int], moved: Sequence[int]) -> list[_Run]:
    """The runs with their ids, and what they read from whom."""
    count: dict[int, int] = {}
    for i in order:
        count[i] = count.get(i, 0) + 1
    fresh_op = max((op.id for op in (*graph.ops, *graph.folded)), default=-1) + 1
    fresh = max((t.id for t in graph.tensors), default=-1) + 1
    latest: dict[int, int] = {}
    done: dict[int, int] = {}
    clones: dict[int, int] = {}
    loaded: dict[int, int] = {}
    stores: dict[int, int] = {}
    runs = []
    for i in order:
        if i >= len(graph.ops):
            t = moved[(i - len(graph.ops)) // 2]
            label = graph.tensor_by_id[t].label
            if t not in stores:
                stores[t] = fresh_op
                op = Op(fresh_op, (t,), (), f"store {label}", STORE)
                runs.append(_Run(op, fresh_op, 0, {}, {t: latest[t]}, {}, {}))
            else:
                done[i] = done.get(i, 0) + 1
                op = Op(fresh_op, (), (t,), _numbered(f"load {label}", done[i]), LOAD, after=(stores[t],))
                runs.append(_Run(op, fresh_op, done[i], {t: fresh}, {}, {}, {}))
                loaded[t] = fresh
                fresh += 1
            fresh_op += 1
            continue
        op = graph.ops[i]
        done[i] = done.get(i, 0) + 1
        keeps = any(graph.tensor_by_id[t].kind is Kind.OUTPUT for t in op.outputs)
        own = done[i] == (count[i] if keeps else 1)
        new, makes = op.id, {t: t for t in op.outputs}
        if not own:
            new, fresh_op = fresh_op, fresh_op + 1
            clones[i] = clones.get(i, 0) + 1
            makes = {t: fresh + k for k, t in enumerate(op.outputs)}
            fresh += len(op.outputs)
        reads = {t: latest[t] for t in op.inputs if t in latest}
        given = {t: loaded[t] for t in op.inputs if t in loaded}
        latest.update(makes)
        for t in makes:
            loaded.pop(t, None)
        now = latest | loaded
        above = {t: graph.tensor_by_id[t].alias_of for t in op.outputs}
        inside = {t: now.get(up, up) for t, up in above.items() if up is not None}
        runs.append(_Run(op, new, 0 if own else clones[i], makes, reads, given, inside))
    return runs


def _swaps(runs: Sequence[_Run]) -> list[Swap]:
    """The stored tensors, and the consumers of each load."""
    swaps: dict[int, Swap] = {}
    made: dict[int, int] = {}
    for run in runs:
        if run.of.type == STORE:
            swaps[_moved(run)] = Swap(tensor=_moved(run), store=run.id, loads=[])
        elif run.of.type == LOAD:
            t, new = next(iter(run.makes.items()))
            readers = [r.id for r in runs if new in r.loaded.values()]
            swaps[t].loads.append(SwapLoad(op=run.id, output=new, instead=made[t], readers=readers))
        else:
            made.update(run.makes)
    return list(swaps.values())


def _rewrites(graph: Graph, runs: Sequence[_Run]) -> list[Recompute]:
    """Clones, those of late ops first: who reads from a clone is there when it comes."""
    readers: dict[int, list[int]] = {}
    for run in runs:
        for new in dict.fromkeys(run.reads.values()):
            readers.setdefault(new, []).append(run.id)
    rewrites = []
    for run in sorted((run for run in runs if run.id != run.of.id), key=lambda r: (-graph.index_of[r.of.id], r.id)):
        first, *more = [Replaced(tensor=t, readers=readers[new]) for t, new in run.makes.items() if new in readers]
        rewrites.append(
            Recompute(
                op=run.id,
                of=run.of.id,
                replaced=first.tensor,
                outputs=list(run.makes.values()),
                readers=first.readers,
                more=more,
            )
        )
    return rewrites


def _as_op(run: _Run) -> Op:
    name = run.of.name if run.id == run.of.id else _clone_name(run.of.name or run.of.label, run.number)
    reads = run.reads | run.loaded
    return replace(
        run.of,
        id=run.id,
        name=name,
        inputs=tuple(reads.get(t, t) for t in run.of.inputs),
        outputs=tuple(run.makes[t] for t in run.of.outputs),
        operands=tuple(None if t is None else reads.get(t, t) for t in run.of.operands),
        overwrites=None if run.of.overwrites is None else tuple(reads.get(t, t) for t in run.of.overwrites),
    )


def _tensor_of(tensor: Tensor, new: int, run: _Run) -> Tensor:
    """The result of a run as `new`: a view is an alias of the operand of that run."""
    above = run.inside.get(tensor.id)
    if new == tensor.id:
        return tensor if above == tensor.alias_of else replace(tensor, alias_of=above)
    return replace(tensor, id=new, kind=Kind.ACTIVATION, name=_clone_name(tensor.label, run.number), alias_of=above)


def _loaded(tensor: Tensor, new: int, number: int) -> Tensor:
    """What a load makes."""
    return replace(tensor, id=new, kind=Kind.ACTIVATION, name=_numbered(f"{tensor.label} (loaded)", number))


def _numbered(label: str, number: int) -> str:
    """The label of the first, the second ... of its kind."""
    return label if number == 1 else f"{label} {number}"


def _clone_name(label: str, number: int) -> str:
    """A unique name of a clone or its result, as files need."""
    return f"{label} (again)" if number == 1 else f"{label} (again {number})"


def as_parts(graph: Graph, runs: Runs) -> PartGraph:
    """A sequence as a part graph of which no part is smaller than its op: every op that is no byte for byte copy of the
    user's own is a part of it, for the writers of part graphs."""
    clones = {r.op: r.of for r in runs.rewrites if isinstance(r, Recompute)}
    parts = {}
    for op in runs.graph.ops:
        of = clones.get(op.id, op.id)
        if op.id in clones or op.operands != graph.op_by_id[of].operands or op.inputs != graph.op_by_id[of].inputs:
            parts[op.id] = Part("part", of)
    return PartGraph((), runs.graph, {}, parts, frozenset())
