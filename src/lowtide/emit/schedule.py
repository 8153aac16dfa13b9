"""A plan's order and its loops as the tables that the code runs from.

Every step is a loop of nodes: an op that runs outside of loops is one node of one position. An input that is passed in
slices is a node without a kernel: the schedule stops there until the caller has brought the next position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from lowtide.emit.bodies import Branch
from lowtide.emit.kernels import Kernel, Kernels
from lowtide.emit.places import Places, Three, View, dims_of, sizes_of
from lowtide.emit.variables import NOTHING
from lowtide.errors import InputError
from lowtide.graph import Kind, Op
from lowtide.ops.index import FIXED, Index
from lowtide.rewrites import PlanLoop
from lowtide.verify.check.loop_play import LoopPlay

Followers = tuple[int, ...]
"""Nodes that run as soon as they can after another one."""
INPUT = "input"
"""Name of the kernel of a node that the caller feeds."""


@dataclass(frozen=True)
class Source:
    """An input that is passed in slices: where its positions go, and bytes of one, of a row and of all."""

    tensor: int
    view: View
    position_bytes: int
    row_bytes: int
    rows: int


@dataclass(frozen=True)
class Node:
    """An op of a loop, or an input: `node_t` of the code."""

    kernel: str  # its name, and `index`, which of that kernel's parameters
    index: int
    # positions, width: how many, and how many of them for each row of the first of two axes
    positions: int
    width: int
    sizes: Three
    axes: tuple[int, int]  # dimension of the result along each axis; -1: none
    # For each operand that is there in parts: its maker, then the numbers of `read_t`
    reads: tuple[tuple[int, ...], ...] = ()
    # Nodes that run as far as they can once a position of this one is there, in the order in which they are tried
    followers: tuple[int, ...] = ()
    leaves: bool = False  # whether it has to be finished at the end of the loop
    aside: bool = False  # whether the driving node needs nothing of it
    guard: tuple[int, bool] | None = None  # byte of the condition that it runs by, and what that has to be


@dataclass
class Schedule:
    """All steps of a plan."""

    places: Places
    makers: Kernels
    branches: Mapping[int, tuple[Branch, Branch]] = field(default_factory=dict)
    # Parameters of each kernel by its name, in the order of their index
    kernels: dict[str, list[Kernel]] = field(default_factory=dict)
    loops: list[list[Node]] = field(default_factory=list)  # nodes of each step
    sources: list[Source] = field(default_factory=list)  # inputs that are passed in slices

    def __post_init__(self) -> None:
        graph, plan = self.places.graph, self.places.plan
        loops = {loop.op: loop for loop in plan.loops or ()}
        for o in plan.order:
            if o in loops:
                self.loops.append(self._loop(loops[o]))
            elif o in self.branches:
                self.loops += [[node] for node in self._branched(graph.op_by_id[o])]
            elif (node := self._outside_loops(graph.op_by_id[o])) is not None:
                self.loops.append([node])

    def _kernel(self, kernel: Kernel, op: Op) -> int:
        """Index of a kernel among those of its name."""
        listed = self.kernels.setdefault(kernel.name, [])
        listed.append(replace(kernel, op=op.label))
        return len(listed) - 1

    def _outside_loops(self, op: Op) -> Node | None:
        """An op outside of loops; None if there is nothing to do."""
        kernel = self.makers.kernel(op, self.places.view)
        if kernel is NOTHING:
            return None
        if kernel.name == "copy" and self.places.complete_at(op.inputs[0]) == self.places.complete_at(op.outputs[0]):
            return None
        return Node(kernel.name, self._kernel(kernel, op), 1, 1, kernel.sizes, (-1, -1))

    def _branched(self, op: Op) -> list[Node]:
        """An IF: the ops of both branches, each by the condition."""
        nodes = []
        condition = self.places.complete_at(op.inputs[0])
        for branch in self.branches[op.id]:
            listed = [self._outside_loops(inner) for inner in branch.ops]
            made = {t for inner in branch.ops for t in inner.outputs}
            for own, result in zip(branch.results, op.outputs, strict=True):
                if own not in made:
                    listed.append(self._copied(op, own, result))
            nodes += [replace(node, guard=(condition, branch.holds)) for node in listed if node is not None]
        return nodes

    def _copied(self, op: Op, tensor: int, result: int) -> Node:
        """A tensor that is the result of a branch as it came."""
        t = self.makers.graph.tensor_by_id[tensor]
        if t.kind is Kind.CONSTANT:
            raise InputError(f"{op.label}: a branch of it gives a constant; C is not written for that")
        kernel = Kernel(
            "copy", f"{{{self.places.complete_at(tensor)}, {self.places.complete_at(result)}, {t.size}}}", sizes_of(t)
        )
        return Node(kernel.name, self._kernel(kernel, op), 1, 1, kernel.sizes, (-1, -1))

    def _loop(self, loop: PlanLoop) -> list[Node]:
        """Inputs first, then the ops; the last one drives."""
        graph = self.places.graph
        play = LoopPlay(graph, loop)
        number = {t: k for k, t in enumerate(play.given)}
        for k, op in enumerate(play.ops):
            number |= dict.fromkeys(op.outputs, len(play.given) + k)
        read = {t for op in play.ops for t, _ in play.operands(op)}
        aside, late = play.asides()
        followers = tuple(number[graph.op_by_id[o].outputs[0]] for o in late)
        nodes = [self._source(play, loop, t, followers) for t in play.given]
        for op in play.ops:
            if any(play.access[op.id].grain_of(axis) != 1 for axis in play.along[op.id]):
                raise InputError(f"{op.label} runs in groups of rows; C is written for single rows")
            leaves = not read.intersection(op.outputs) or any(str(t) not in loop.keep for t in op.outputs)
            node = self._node(play, loop, op, number, followers, leaves=leaves)
            nodes.append(replace(node, aside=op.id in aside))
        return nodes

    def _node(
        self,
        play: LoopPlay,
        loop: PlanLoop,
        op: Op,
        number: dict[int, int],
        followers: tuple[int, ...],
        *,
        leaves: bool,
    ) -> Node:
        graph = self.places.graph
        find = partial(self.places.view, loop=loop)
        if play.summed(op.id):
            return self._summed(play, loop, op, number, followers)
        kernel = self.makers.kernel(op, find)
        result = graph.tensor_by_id[op.outputs[0]]
        which = dims_of(result.shape or ())
        axes = [which[d] for d in play.dims[result.id]]
        reads = tuple(
            _read(play, op, t, dims_read, number[t]) for t, dims_read in play.operands(op) if t in play.dims
        )  # fmt: skip
        width = sizes_of(result)[axes[1]] if len(axes) == 2 else 1
        along = (axes[0], axes[1] if len(axes) == 2 else -1)
        index, count = self._kernel(kernel, op), play.count(op.id)
        return Node(kernel.name, index, count, width, kernel.sizes, along, reads, followers, leaves)

    def _summed(self, play: LoopPlay, loop: PlanLoop, op: Op, number: dict[int, int], followers: Followers) -> Node:
        """An op that adds the parts of its operand up; its positions are the operand's."""
        tensor, dims_read = play.operands(op)[0]
        which = dims_of(play.graph.tensor_by_id[tensor].shape or ())
        axes = []
        for axis in play.along[op.id]:
            axes += [which[d] for d, index in enumerate(dims_read) if index is not None and index.axis == axis]
        if len(axes) != len(play.along[op.id]):
            raise InputError(f"{op.label} adds up along what is no dimension of its input; C is not written for that")
        sums = loop.sums.get(str(op.outputs[0]))
        first = (sums.offset or 0) if sums is not None else 0
        kernel = self.makers.summed(op, partial(self.places.view, loop=loop), first, axes)
        reads = tuple(_read(play, op, t, read, number[t]) for t, read in play.operands(op) if t in play.dims)
        width = kernel.sizes[axes[1]] if len(axes) == 2 else 1
        along = (axes[0], axes[1] if len(axes) == 2 else -1)
        index, count = self._kernel(kernel, op), play.count(op.id)
        return Node(kernel.name, index, count, width, kernel.sizes, along, reads, followers, leaves=True)

    def _source(self, play: LoopPlay, loop: PlanLoop, tensor: int, followers: Followers) -> Node:
        t = self.places.graph.tensor_by_id[tensor]
        shape, dims = t.shape or (), play.dims[tensor]
        first = next((d for d, size in enumerate(shape) if size > 1), len(shape) - 1)
        if dims != tuple(range(first, first + len(dims))):
            raise InputError(
                f"{t.label} is streamed in another order than its rows, and C is written for inputs in the order of "
                "their bytes: leave out --stream-input",
                self.places.graph.source,
            )
        rows, width = play.sizes(tensor)
        lines = loop.keep[str(tensor)]
        self.sources.append(Source(tensor, self.places.view(tensor, loop), lines.bytes, lines.bytes * width, rows))
        return Node(INPUT, len(self.sources) - 1, rows * width, width, sizes_of(t), (-1, -1), followers=followers)


def _read(play: LoopPlay, op: Op, tensor: int, dims_read: Sequence[Index | None], maker: int) -> tuple[int, ...]:
    """The numbers of `read_t`: how an op's position and the positions that it needs of an operand hang together."""
    shape = play.graph.tensor_by_id[tensor].shape or ()
    numbers: list[int] = []
    axes = []
    for d in play.dims[tensor]:
        index = dims_read[d]
        if index is None or (index.axis not in play.along[op.id] and index.axis != FIXED):
            numbers += [0, 0, shape[d] - 1, shape[d]]
            axes.append(0)
        elif index.den != 1 or index.num < 0:
            raise InputError(
                f"{op.label} reads rows whose distance is no multiple of its step; C is not written for that"
            )
        else:
            fixed = index.axis == FIXED
            numbers += [0 if fixed else index.num, index.lo, index.hi, shape[d]]
            axes.append(0 if fixed else play.along[op.id].index(index.axis))
    if len(axes) == 1:
        numbers += [0, 0, 0, 1]
        axes.append(0)
    return (*numbers, maker, *axes)
