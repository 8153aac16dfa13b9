"""How large a block onnxruntime's arena needs: a best-fit allocator that knows nothing of what comes.

It has one block of memory. An allocation takes the smallest free chunk that is large enough, the lowest of equal ones,
and gives back what is left over as a free chunk; a freed chunk joins its free neighbours. Sizes are rounded up to the
target's alignment. Because the rest of the block is a chunk like any other, a larger block may place things elsewhere:
whether they fit is not monotone in its size, so every answer here is one that was tried::

    block of 8   |a a|b b b|. . .|   c of 2, b freed:   |a a|c c|. . . .|    best fit splits the hole of b

"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from lowtide.analyse.liveness import Profile, profile
from lowtide.analyse.storage import MemoryModel, body_bytes, memory_model
from lowtide.graph import Graph, Op
from lowtide.plan import RuntimeFigure
from lowtide.rules.onnxruntime.known import CONDITIONAL, branch_choices, unknown_kernels
from lowtide.rules.onnxruntime.rule import chunks, kept_chunks, thread_bytes
from lowtide.runtimes.base import OwnArena, Planned, Runtime
from lowtide.runtimes.onnxruntime_defaults import FreeChunks
from lowtide.schedule.restore_own_order import equal_orders
from lowtide.stop import Limits, count

_TRIES = 30
_ORDERS = 16
_OPS_TO_TRY = 400_000
"""Blocks and orders are tried up to this many ops all together, but at least the first fit of the order given."""

Event = tuple[int, int]  # a chunk's number, and its bytes if it is allocated, or 0 if it is freed


@dataclass(frozen=True)
class Onnxruntime(Runtime):
    """onnxruntime's CPU provider: it runs a file's order as it likes, and places tensors by best fit in one block."""

    arenas: ClassVar[int] = 1

    def own_arena(self, model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool) -> OwnArena:
        """The order as onnxruntime runs it, and a block in which its best fit succeeds."""
        return OwnArena(*smallest_block(model, order, limits, others=others))

    def unknown(self, graph: Graph) -> list[str]:
        """Kernels that were not measured, or whose memory hangs on more than the file says."""
        return unknown_kernels(graph)

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """What is in use at once, and the arena that holds it."""
        from lowtide.runtimes.onnxruntime_defaults import figures

        return figures(model, planned.peak_bytes, planned.block_bytes)


def smallest_block(
    model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool
) -> tuple[tuple[int, ...], int]:
    """The order as the runtime runs it, and the block that it fits in; with `others`, the order of no higher peak that
    fits in the smallest block."""
    graph = model.graph

    def as_run(candidate_order: Sequence[int]) -> tuple[int, ...]:
        return tuple(
            graph.index_of[op] for op in model.target.as_run(graph, [graph.ops[i].id for i in candidate_order])
        )

    best = as_run(order)
    steps = profile(model, best)
    least = least_block(model, best, steps)
    draws = 0 if not (order and others) else _OPS_TO_TRY // len(order) // _TRIES
    for candidate_order in islice(equal_orders(model, order, steps.peak, limits.seed), min(_ORDERS, draws)):
        if limits.left_seconds <= 0:
            break
        candidate = as_run(candidate_order)
        steps = profile(model, candidate)
        block = least_block(model, candidate, steps)
        if steps.peak <= profile(model, best).peak and block < least:
            best, least = candidate, block
    return best, least


_OP = 50_000  # nanoseconds for an op
_THREADS = (1, 2, 4, 6, 8, 12, 16)
"""With which a session may run, if its kernels take more from the arena for each."""


def least_block(model: MemoryModel, order: Sequence[int], steps: Profile) -> int:
    """Smallest block found in which an order fits; `steps` is its profile, whose in-place choices are taken. It fits
    whichever branches conditional ops take, as long as those are few (`branch_choices`), and whether their outputs
    are allocated before the branch runs (shapes that the file fixes) or by it (free dimensions); and with further
    threads in a block that is larger by `thread_bytes` of each."""
    count(_OP * len(order))
    choices, more = branch_choices(model.graph), thread_bytes(op.type for op in model.graph.ops)
    traces = [
        (events(model, order, steps, branches, late=late, threads=threads), more * (threads - 1))
        for branches in choices
        for late in ((False, True) if len(choices) > 1 else (False,))
        for threads in (_THREADS if more else _THREADS[:1])
    ]
    most = max(_load(trace) - room for trace, room in traces)

    def fits(block: int) -> bool:
        return all(high_water(trace, block + room) is not None for trace, room in traces)

    if fits(most):
        return most
    enough = max((high_water(trace, 2 * sum(size for _, size in trace)) or 0) - room for trace, room in traces)
    while not fits(enough):
        enough += max(model.alignment, enough // 64 // model.alignment * model.alignment)
    low, high = most, enough
    for _ in range(max(0, min(_TRIES, _OPS_TO_TRY // max(1, len(order) * len(traces))))):
        middle = (low + high) // 2 // model.alignment * model.alignment
        if middle <= low:
            break
        if fits(middle):
            high = middle
        else:
            low = middle
    return high


def _load(trace: Sequence[Event]) -> int:
    """Most bytes of a trace that are there at once."""
    load = most = 0
    sizes: dict[int, int] = {}
    for chunk, size in trace:
        load += size - sizes.get(chunk, 0)
        sizes[chunk] = size
        most = max(most, load)
    return most


def events(
    model: MemoryModel,
    order: Sequence[int],
    steps: Profile,
    branches: Sequence[int] = (),
    *,
    late: bool = False,
    threads: int = 1,
) -> list[Event]:
    """What is allocated and freed, in the order in which it happens: an op's outputs and its kernel's workspace.
    `branches` says which body each conditional op runs, in the order in which they come; the first if it is too
    short. `late`: outputs of conditional ops are allocated where their body makes them, not before it."""
    trace = _Trace(model.alignment, iter(branches), late, threads)
    for size in kept_chunks(model.graph):
        trace.begin(size)
    trace.play(model, order, steps)
    return trace.events


class _Trace:
    """Events so far, and which branches are still to be taken."""

    def __init__(self, alignment: int, branches: Iterator[int], late: bool, threads: int) -> None:
        self.events: list[Event] = []
        self._late = late
        self._threads = threads
        self._alignment = alignment
        self._branches = branches
        self._count = 0

    def begin(self, size: int) -> int:
        """A new chunk; its number."""
        self._count += 1
        self.events.append((self._count, -(-size // self._alignment) * self._alignment))
        return self._count

    def end(self, chunk: int) -> None:
        """Give a chunk back."""
        self.events.append((chunk, 0))

    def play(self, model: MemoryModel, order: Sequence[int], steps: Profile, *, body: bool = False) -> list[Event]:
        """Run a graph. What a `body` makes for its op is the op's, and there already, or given back if late."""
        there = body and not self._late
        overwrite_of = {o.output: o for o in steps.in_place}
        chunk_of: dict[int, int] = {}
        ending: list[list[int]] = [[] for _ in order]
        for s, last in enumerate(steps.last):
            if last < len(order):
                ending[max(last, 0)].append(s)
        forwarded = {o.storage for o in steps.in_place}
        for s, storage in enumerate(model.storages):
            if steps.first[s] < 0 and storage.size:
                chunk_of[s] = self.begin(storage.size)
        for step, i in enumerate(order):
            op = model.graph.ops[i]
            before, after = chunks(model.graph, op, self._threads)
            apart = self._workspace(before)
            made = self._branch(model, op) if self._late else []
            for t in op.outputs:
                s = model.storage_of.get(t)
                if s is None or s in chunk_of or not model.storages[s].size or (there and model.storages[s].at_end):
                    continue
                over, size = overwrite_of.get(t), model.storages[s].size
                by_body = next((m for m in made if m[1] == size), None)
                if by_body is not None:
                    made.remove(by_body)
                    chunk_of[s] = by_body[0]
                else:
                    chunk_of[s] = self.begin(size) if over is None else chunk_of[over.storage]
            for chunk, _ in made:
                self.end(chunk)
            if not self._late:
                self._branch(model, op)
            for chunk in [*apart, *(self.begin(size) for size in (*after, _looped(model, op)) if size)]:
                self.end(chunk)
            for s in ending[step]:
                if s in chunk_of and s not in forwarded:
                    self.end(chunk_of[s])
        return [
            (chunk_of[s], storage.size) for s, storage in enumerate(model.storages) if storage.at_end and s in chunk_of
        ]

    def _workspace(self, sizes: Sequence[int]) -> list[int]:
        """What a kernel takes before its outputs, and still holds."""
        held: list[int] = []
        for size in sizes:
            if size:
                held.append(self.begin(size))
            else:
                self.end(held.pop(0))
        return held

    def _branch(self, model: MemoryModel, op: Op) -> list[Event]:
        """The body that a conditional op runs: chunks of its outputs, and their bytes, if it allocates them."""
        if op.type != CONDITIONAL or not op.bodies:
            return []
        inside = model.target.inside
        seen = inside.as_seen(op.bodies[min(next(self._branches, 0), len(op.bodies) - 1)])
        order = [seen.index_of[o] for o in inside.as_run(seen, seen.own_order)]
        memory = memory_model(seen, inside)
        made = self.play(memory, order, profile(memory, order), body=True)
        return made if self._late else []


def _looped(model: MemoryModel, op: Op) -> int:
    """Bytes of a body that runs in turns, of a Loop or a Scan, as one chunk: what it has in use at once."""
    return 0 if op.type == CONDITIONAL else body_bytes(model.graph, op, model.target)


def high_water(trace: Sequence[Event], block: int) -> int | None:
    """End of the highest chunk ever allocated in a block of a given number of bytes; None if they do not fit."""
    free = FreeChunks()
    free.add(0, block)
    place: dict[int, tuple[int, int]] = {}
    highest = 0
    for chunk, size in trace:
        if not size:
            free.give(*place.pop(chunk))
            continue
        found = free.take(size)
        if found is None:
            return None
        start, end = found
        if end - start > size:
            free.add(start + size, end)
        place[chunk] = start, start + size
        highest = max(highest, start + size)
    return highest
