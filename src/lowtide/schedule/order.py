"""The plain orders: what a runtime or a compiler does when it does not plan. A baseline for every planner.

All take time linear in the graph (Kahn: times the logarithm of the number of ready ops), are deterministic,
and know nothing of sizes. Positions are indices into the graph's own order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import ClassVar

from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Graph, Kind
from lowtide.schedule.method import Schedule
from lowtide.stop import Limits


def successors(graph: Graph) -> tuple[list[list[int]], list[int]]:
    """For each position, the positions that wait for it, ascending; and how many each one waits for."""
    after: list[list[int]] = [[] for _ in graph.ops]
    waits = [0] * len(graph.ops)
    for i, before in enumerate(graph.predecessors):
        waits[i] = len(before)
        for p in before:
            after[p].append(i)
    return after, waits


@dataclass(frozen=True)
class Own:
    """The order of the model file."""

    name: ClassVar[str] = "own"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """0, 1, 2, ..."""
        return Schedule(tuple(range(len(model.graph.ops))))


@dataclass(frozen=True)
class Fixed:
    """An order that was found already, as a method for who takes one."""

    order: tuple[int, ...] = ()  # positions; empty: the file's order
    name: ClassVar[str] = "exact"

    def supports(self, model: MemoryModel) -> str | None:
        """The graph that it was found for."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """That order."""
        return Schedule(self.order or tuple(range(len(model.graph.ops))))


@dataclass(frozen=True)
class Rpo:
    """Depth-first post-order from the outputs, inputs in the op's own order: HMCOS's baseline.

    The reverse post-order of the reversed graph, as HMCOS (DAC 2022, section V) computes it. The outputs are
    visited in file order, of an op first the producers of its inputs as listed, then what it must run
    `after`. Ops that reach no output follow in file order.
    """

    name: ClassVar[str] = "rpo"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Visit, with a stack of our own: models are deeper than Python's."""
        graph = model.graph
        index, producer = graph.index_of, graph.producer
        order: list[int] = []
        seen = bytearray(len(graph.ops))

        def before(i: int) -> list[int]:
            op = graph.ops[i]
            needed = [index[producer[t]] for t in op.inputs if t in producer]
            return needed + [index[o] for o in op.after if o in index]

        outputs = [index[producer[t.id]] for t in graph.tensors if t.kind is Kind.OUTPUT and t.id in producer]
        for root in outputs:
            if seen[root]:
                continue
            seen[root] = True
            stack = [(root, iter(before(root)))]
            while stack:
                i, rest = stack[-1]
                nxt = next((p for p in rest if not seen[p]), None)
                if nxt is None:
                    order.append(i)
                    stack.pop()
                else:
                    seen[nxt] = True
                    stack.append((nxt, iter(before(nxt))))
        order.extend(i for i in range(len(graph.ops)) if not seen[i])
        return Schedule(tuple(order))


@dataclass(frozen=True)
class Kahn:
    """Of the ready ops, always the one that comes first in the file (Kahn 1962 with a priority queue).

    The smallest topological order in the file's numbering: for a file in topological order, its own order.
    """

    name: ClassVar[str] = "kahn"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Ready ops wait in a heap."""
        heap: list[int] = []
        return Schedule(_run_ready(model.graph, partial(heappush, heap), partial(heappop, heap)))


@dataclass(frozen=True)
class Dfs:
    """Last ready, first run. Ops that become ready together run in the order of the file."""

    name: ClassVar[str] = "dfs"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Ready ops wait on a stack."""
        stack: list[int] = []
        return Schedule(_run_ready(model.graph, stack.append, stack.pop, last_first=True))


@dataclass(frozen=True)
class Bfs:
    """First ready, first run. Ops that become ready together run in the order of the file."""

    name: ClassVar[str] = "bfs"

    def supports(self, model: MemoryModel) -> str | None:
        """Every graph."""
        return None

    def schedule(self, model: MemoryModel, limits: Limits) -> Schedule:
        """Ready ops wait in a queue."""
        queue: deque[int] = deque()
        return Schedule(_run_ready(model.graph, queue.append, queue.popleft))


def _run_ready(
    graph: Graph, push: Callable[[int], None], pop: Callable[[], int], *, last_first: bool = False
) -> tuple[int, ...]:
    """Run every op once; `push` and `pop` keep those that are ready."""
    after, waits = successors(graph)
    step = -1 if last_first else 1
    for i in [i for i, n in enumerate(waits) if n == 0][::step]:
        push(i)
    order = []
    for _ in graph.ops:
        i = pop()
        order.append(i)
        for j in after[i][::step]:
            waits[j] -= 1
            if waits[j] == 0:
                push(j)
    return tuple(order)
