"""M-States: which nodes of the F-Tree are enabled, which ops run again, which tensors leave memory, and a schedule.

::

    runs     a b c d c e f g        ids of the step's ops, some of them more than once
    enabled      [b c d c e]        each enabled region is a graph of its own (one part), the rest another
    around   a       P       f g    P: all parts of the region, of this many bytes and seconds

A state is evaluated on lowtide's own part graphs (`lowtide.optimize.parted`). Each graph that a rule changed is
scheduled by incremental scheduling (section 6.1): only segments between narrow waists that no state had before are
searched. The simulator (section 6.2) is the cost file's, with the clock of transfers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.optimize.parted import Parted, parted, unmodified
from lowtide.optimize.recompute.least_bytes import Spent
from lowtide.optimize.recompute.pofo import with_transfers
from lowtide.optimize.recompute.rotor import busy_steps
from lowtide.optimize.recompute.sequence import Sequenced, peak_of
from lowtide.optimize.step_search import StepProblem
from lowtide.optimize.together import around
from lowtide.stop import Limits
from lowtide.topological import topological
from lowtide.transform.fission import Loop, NoFission
from lowtide.transform.runs import apply
from lowtide_research.recompute.magis.tree import Counts, Tree
from lowtide_research.schedule.incremental import Incremental

OUTSIDE = -1
"""In the place of a node: what runs in no enabled region. The op that stands there for node k has index ``-2 - k``."""

_COPY = OUTSIDE  # the index of an op that copies rows of an operand


@dataclass(frozen=True)
class State:
    """What the rules change. `moved`: tensors that are stored and loaded around their longest time without a reader."""

    counts: Counts
    runs: tuple[int, ...]
    moved: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Scheduled:
    """The ops of one graph as they run, without transfers: positions, and of each its index in the state's runs."""

    problem: Sequenced
    order: tuple[int, ...]
    at: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """A state with its schedules, of each enabled node and of what is `OUTSIDE`, and its figures."""

    state: State
    choice: Parted
    spent: Spent
    peak: int
    seconds: float
    parts: Mapping[int, Scheduled]


class Evaluator:
    """Evaluates states of one step."""

    def __init__(self, step: StepProblem, tree: Tree, reschedule_seconds: float) -> None:
        self.step, self.tree, self.reschedule_seconds = step, tree, reschedule_seconds
        self._incremental = Incremental()
        self._bodies: dict[tuple[int, int], Parted] = {}
        self._steps: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = {}
        self._place = {step.graph.ops[i].id: k for k, i in enumerate(step.order)}
        self._own = {op.id: _own_key(step.graph, op.id) for op in step.graph.ops}

    def begin(self) -> State:
        """The unmodified step."""
        return State((1,) * len(self.tree.regions), tuple(self.step.graph.ops[i].id for i in self.step.order))

    def evaluated(self, state: State) -> Evaluated | None:
        """A state with its schedules; None: its regions cannot run in parts, or wait for each other."""
        try:
            return self._evaluated(state)
        except NoFission:
            return None

    def _evaluated(self, state: State) -> Evaluated | None:
        nodes, node_of = self._nodes(state)
        waits = _waits(self.step.graph, state.runs)
        parts: dict[int, Scheduled] = {}
        within: list[Parted] = []
        loops: list[Loop] = []
        for k in nodes:
            body, inner = self._body(k, state.counts[k]), _members(state, node_of, k)
            order = topological({i: waits[i] & inner for i in inner}, lambda i: i)
            parts[k] = self._scheduled((k, state.counts[k]), body, [(i, state.runs[i]) for i in order])
            spent = body.spent(self._with_transfers(parts[k], state, body.base))
            within.append(replace(body, order=spent.order))
            loops.append(Loop(self.tree.regions[k], spent.peak, body.seconds(spent) - body.outside_seconds))
        waits_outside = _waits_outside(state, node_of, waits)
        first = {-2 - k: min(_members(state, node_of, k)) for k in nodes}
        order = topological(waits_outside, lambda i: first.get(i, i))
        if len(order) < len(waits_outside):
            return None
        choice = self._around(within, loops)
        loop_ids = {-2 - k: max(self.step.graph.op_by_id) + 1 + number for number, k in enumerate(nodes)}
        ids = [(i, loop_ids[i] if i in loop_ids else state.runs[i]) for i in order]
        graph_key = (OUTSIDE, *state.counts, *(loop.workspace for loop in loops))
        parts[OUTSIDE] = self._scheduled(graph_key, choice, ids)
        spent = choice.spent(self._with_transfers(parts[OUTSIDE], state, 0))
        new, parts = _flat(state, parts)
        return Evaluated(new, choice, spent, choice.peak(spent), choice.seconds(spent), parts)

    def _nodes(self, state: State) -> tuple[list[int], dict[int, int]]:
        """Enabled nodes, and of each of their ops the node."""
        nodes = [k for k, n in enumerate(state.counts) if n > 1]
        return nodes, {v: k for k in nodes for v in self.tree.ops[k]}

    def _body(self, node: int, count: int) -> Parted:
        """A region in a given number of parts."""
        step, key = self.step, (node, count)
        if key not in self._bodies:
            made = parted(
                step.graph, step.target, self.tree.regions[node], [count], step.families, self._placed, step.bandwidth
            )
            self._bodies[key] = made[0]
        return self._bodies[key]

    def _around(self, within: Sequence[Parted], loops: Sequence[Loop]) -> Parted:
        step = self.step
        if within:
            return around(step.graph, step.target, within, loops, self._placed, step.bandwidth)
        if (OUTSIDE, 1) not in self._bodies:
            self._bodies[OUTSIDE, 1] = unmodified(step.graph, step.target, step.order, step.bandwidth)
        return self._bodies[OUTSIDE, 1]

    def _placed(self, graph: Graph) -> tuple[int, ...]:
        """Positions of a graph's ops as the step's own come; others stand where what they make is read first."""
        place = dict(self._place)
        for op in reversed(graph.ops):
            readers = [place[v] for t in op.outputs for v in graph.consumers.get(t, ())]
            place.setdefault(op.id, min(readers, default=len(place)))
        return tuple(topological(dict(enumerate(graph.predecessors)), lambda i: place[graph.ops[i].id]))

    def _scheduled(self, key: tuple[int, ...], choice: Parted, runs: Sequence[tuple[int, int]]) -> Scheduled:
        """The runs of a graph, index and op, with copies of rows before their first reader, without idle ones, in the
        best order that is found."""
        problem, copies = choice.sequence, {} if choice.body is None else choice.body.copies
        graph, entries = problem.model.graph, list[tuple[int, int]]()
        copied: set[int] = set()
        for i, v in runs:
            makers = [graph.producer[t] for t in graph.op_by_id[v].inputs if t in graph.producer]
            fresh = [u for u in dict.fromkeys(makers) if u in copies and u not in copied]
            copied.update(fresh)
            entries += [*((graph.index_of[u], _COPY) for u in fresh), (graph.index_of[v], i)]
        entries = [entries[step] for step in busy_steps(problem, [p for p, _ in entries])]
        order = tuple([p for p, _ in entries])
        if (key, order) not in self._steps:
            self._steps[key, order] = self._rescheduled(problem, order)
        steps = self._steps[key, order]
        return Scheduled(problem, tuple(order[j] for j in steps), tuple(entries[j][1] for j in steps))

    def _rescheduled(self, problem: Sequenced, order: tuple[int, ...]) -> tuple[int, ...]:
        """Steps of an order, in the order of the lowest peak that is found."""
        same = tuple(range(len(order)))
        runs = apply(problem.model.graph, order)
        if len(runs.order) < len(order):
            return same
        begin = [runs.graph.index_of[v] for v in runs.order]
        model = memory_model(runs.graph, self.step.target)
        found = self._incremental.search(model, begin, Limits(self.reschedule_seconds))
        step_of = {i: step for step, i in enumerate(begin)}
        steps = tuple(step_of[i] for i in found.order)
        return steps if peak_of(problem, [order[j] for j in steps]) < peak_of(problem, order) else same

    def _with_transfers(self, part: Scheduled, state: State, base: int) -> list[int]:
        """The runs with stores as early as they end by themselves, and loads as late as they are hidden (section 6.2);
        within a budget sooner, where memory is full."""
        problem, most = part.problem, self.step.most_bytes
        values = [problem.model.storage_of[t] for t in sorted(state.moved) if t in problem.model.storage_of]
        budget = peak_of(problem, part.order) if most is None else most - base
        return with_transfers(problem, part.order, values, budget)

    def key(self, state: State) -> bytes:
        """Equal for states of equal graphs: the hash of algorithm 3, of each run what it reads from, back to the
        inputs, then what reads from it."""
        graph, (_, node_of) = self.step.graph, self._nodes(state)
        latest: dict[int, int] = {}
        hashes: list[bytes] = []
        readers: list[list[bytes]] = []
        for v in state.runs:
            op, k = graph.op_by_id[v], node_of.get(v, OUTSIDE)
            moved = [t in state.moved for t in op.outputs]
            words = [self._own[v], repr((k, k >= 0 and state.counts[k], moved)).encode()]
            words += [hashes[latest[t]] if t in latest else b"%d" % t for t in op.inputs]
            hashes.append(blake2b(b"|".join(words), digest_size=8).digest())
            for t in op.inputs:
                if t in latest:
                    readers[latest[t]].append(hashes[-1])
            readers.append([])
            latest.update(dict.fromkeys(op.outputs, len(hashes) - 1))
        both = [
            blake2b(own + b"".join(sorted(by)), digest_size=8).digest() for own, by in zip(hashes, readers, strict=True)
        ]
        return blake2b(b"".join(sorted(both)), digest_size=16).digest()


def _own_key(graph: Graph, op: int) -> bytes:
    at = graph.op_by_id[op]
    shapes = [graph.tensor_by_id[t].shape for t in (*at.inputs, *at.outputs)]
    return repr((at.type, sorted(at.attributes.items()), shapes)).encode()


def _members(state: State, node_of: Mapping[int, int], node: int) -> set[int]:
    return {i for i, v in enumerate(state.runs) if node_of.get(v, OUTSIDE) == node}


def _waits(graph: Graph, runs: Sequence[int]) -> list[set[int]]:
    """Of each run the runs that make what it reads: the latest before it, or where there is none the first."""
    first = {v: i for i, v in reversed([*enumerate(runs)])}
    latest: dict[int, int] = {}
    found: list[set[int]] = []
    for i, v in enumerate(runs):
        before = {graph.producer[t] for t in graph.op_by_id[v].inputs if t in graph.producer}
        found.append({latest.get(u, first[u]) for u in (*before, *graph.op_by_id[v].after)} - {i})
        latest[v] = i
    return found


def _waits_outside(state: State, node_of: Mapping[int, int], waits: Sequence[set[int]]) -> dict[int, set[int]]:
    """The same of what runs in no enabled region, each region as one run."""
    place = [-2 - node_of[v] if v in node_of else i for i, v in enumerate(state.runs)]
    found: dict[int, set[int]] = {}
    for i, before in enumerate(waits):
        found.setdefault(place[i], set()).update(place[j] for j in before)
    return {i: before - {i} for i, before in found.items()}


def _flat(state: State, parts: Mapping[int, Scheduled]) -> tuple[State, dict[int, Scheduled]]:
    """The state with its runs as they are scheduled, those of a region one after the other."""

    def indices(part: Scheduled) -> Iterator[int]:
        for i in part.at:
            if i < OUTSIDE:
                yield from indices(parts[-2 - i])
            elif i != _COPY:
                yield i

    flat = list(indices(parts[OUTSIDE]))
    new = {i: place for place, i in enumerate(flat)}
    moved = {k: replace(part, at=tuple(new.get(i, i) for i in part.at)) for k, part in parts.items()}
    return replace(state, runs=tuple(state.runs[i] for i in flat)), moved
