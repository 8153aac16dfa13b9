"""Ops of a loop taken in one by one: whose axes follow from whose.

The driving op's axes are given. What an op makes for another one is there along the dimensions that the other reads in
parts, and so on in both directions; an op for which two of these do not agree cannot be in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lowtide.transform.loops import Axes, LoopRules, stream_dimension


@dataclass
class Growth:
    """Ops of an interval that ends with a driving op, taken in one by one from its end to its start.

    `stuck` is set for good once an op cannot be in one loop with those after it. Ops whose axes do not follow yet,
    since what they read is made before the interval, are `pending`: the interval is no loop while there are some.
    """

    rules: LoopRules
    driver: int
    start: Axes
    streamed: frozenset[int] = frozenset()
    axes: dict[int, Axes] = field(default_factory=dict)
    dims: dict[int, Axes] = field(default_factory=dict)
    inside: set[int] = field(default_factory=set)
    pending: set[int] = field(default_factory=set)
    stuck: bool = False

    def __post_init__(self) -> None:
        self.inside.add(self.driver)
        self._settle([(self.driver, self.start)])

    def add(self, op: int) -> None:
        """Take in the op before."""
        self.inside.add(op)
        self.pending.add(op)
        if self.rules.meaning(op) is None:
            self.stuck = True
            return
        graph = self.rules.graph
        wanted: list[tuple[int, Axes | None]] = []
        for t in graph.op_by_id[op].outputs:
            for reader in graph.consumers.get(t, ()):
                if reader in self.axes:
                    dims = self.rules.read_along(reader, t, self.axes[reader])
                    wanted.append((op, None if dims is None else self.rules.axes_making(op, t, dims)))
        for t in self._inputs(op):
            if t in self.dims:
                wanted.append((op, self.rules.axes_reading(op, t, self.dims[t])))
        self._settle(wanted)

    def _inputs(self, op: int) -> list[int]:
        """Streamed inputs that an op reads, and what ops of the interval make for it."""
        graph = self.rules.graph
        read = dict.fromkeys(t for t, _ in self.rules.reads(op))
        return [t for t in read if t in self.streamed or graph.producer.get(t) in self.inside]

    def _settle(self, wanted: Iterable[tuple[int, Axes | None]]) -> None:
        """Give ops their axes, and what follows from these."""
        queue = list(wanted)
        while queue and not self.stuck:
            op, axes = queue.pop()
            if axes is None or self.axes.get(op, axes) != axes or not self.rules.may(op, axes):
                self.stuck = True
            elif op not in self.axes:
                self.axes[op] = axes
                self.pending.discard(op)
                queue += self._follow(op, axes)

    def _follow(self, op: int, axes: Axes) -> list[tuple[int, Axes | None]]:
        """Axes of the ops that read what this one makes, or make what it reads."""
        rules, graph = self.rules, self.rules.graph
        result: list[tuple[int, Axes | None]] = []
        for t in graph.op_by_id[op].outputs:
            readers = [r for r in graph.consumers.get(t, ()) if r in self.inside]
            dims = rules.made_along(op, t, axes)
            if dims is None:
                self.stuck = self.stuck or bool(readers)
                continue
            self._along(t, dims)
            result += [(r, rules.axes_reading(r, t, dims)) for r in readers]
        for t in self._inputs(op):
            dims = rules.read_along(op, t, axes)
            if dims is None:
                self.stuck = True
                continue
            self._along(t, dims)
            maker = graph.producer.get(t)
            if maker is not None:
                result.append((maker, rules.axes_making(maker, t, dims)))
            else:
                readers = [r for r in graph.consumers.get(t, ()) if r in self.inside]
                result += [(r, rules.axes_reading(r, t, dims)) for r in readers]
                self.stuck = self.stuck or dims[0] != stream_dimension(graph, t)
        return result

    def _along(self, tensor: int, dims: Axes) -> None:
        """A tiled tensor has one choice of dimensions, and slots of an integer number of bytes."""
        if self.dims.setdefault(tensor, dims) != dims or self.rules.slot_bytes(tensor, dims) is None:
            self.stuck = True
