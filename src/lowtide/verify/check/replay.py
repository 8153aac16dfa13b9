"""Plays a plan through with real bytes: what an op reads must be what was written.

Each storage has a pattern of its own. Graph inputs are written before step 0. When an op runs, its inputs
are compared with their patterns, its outputs written (views write nothing) and its workspace scribbled over;
then all are compared again, but for an input that the op overwrites. Outputs are compared at the end.

What the graph's own `alias_of` puts on the same bytes has one pattern, as if the op that makes an alias saw what is
there. Where ops write over it, or may, `lowtide.verify.check.writes` plays who reads what.

Above `MAX_ARENA_BYTES`, or when more than `MAX_MOVED_BYTES` would be moved, a map from address intervals to
(storage, shift) stands for the bytes. It is exact: two storages never have the same pattern.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.verify.check.memory import CheckedMemory
from lowtide.verify.check.order import Simulation

if TYPE_CHECKING:
    import numpy as np

MAX_ARENA_BYTES = 64 * 2**20
MAX_MOVED_BYTES = 2**30
_PERIOD = 65521


@dataclass(frozen=True)
class ByteReplay:
    """How the arena was replayed: ``"bytes"`` or ``"intervals"``, and how many reads were compared.

    `aliases`: tensors that the graph puts on the bytes of others, of ops that write over nothing.
    """

    mode: str
    reads: int
    moved_bytes: int
    aliases: int = 0

    @property
    def text(self) -> str:
        """One line for a report."""
        taken = f"; {self.aliases:,} alias{'es' * (self.aliases > 1)} taken for views" if self.aliases else ""
        return f"{self.reads:,} reads intact, {self.moved_bytes:,} B moved, as {self.mode}{taken}"


class _ReplayedArena(Protocol):
    def write(self, start: int, size: int, storage: int, shift: int) -> None:
        """Put bytes `shift`.. of a storage's pattern at `start`."""

    def holds(self, start: int, size: int, storage: int, shift: int) -> bool:
        """Whether they are there."""
        ...


class _Bytes:
    """One uint8 array. A storage's pattern is a stretch of fixed noise that begins at a place of its own."""

    def __init__(self, size: int, longest: int) -> None:
        import numpy as np  # not needed for a plan without a replay, and slow to load

        noise = np.random.default_rng(0).integers(0, 256, _PERIOD, dtype=np.uint8)
        self.noise = np.resize(noise, longest + _PERIOD)
        self.arena = np.zeros(size, dtype=np.uint8)

    def pattern(self, size: int, storage: int, shift: int) -> np.ndarray:
        at = storage * 7919 % _PERIOD + shift
        return self.noise[at : at + size]

    def write(self, start: int, size: int, storage: int, shift: int) -> None:
        self.arena[start : start + size] = self.pattern(size, storage, shift)

    def holds(self, start: int, size: int, storage: int, shift: int) -> bool:
        return bool((self.arena[start : start + size] == self.pattern(size, storage, shift)).all())


class _Intervals:
    """Sorted stretches of the arena, each with the storage it holds and the address of that storage's byte 0."""

    def __init__(self, size: int) -> None:
        self.starts = [0]
        self.held: list[tuple[int, int]] = [(-1, 0)]
        self.size = size

    def _split(self, at: int) -> int:
        k = bisect_right(self.starts, at) - 1
        if self.starts[k] == at:
            return k
        self.starts.insert(k + 1, at)
        self.held.insert(k + 1, self.held[k])
        return k + 1

    def write(self, start: int, size: int, storage: int, shift: int) -> None:
        first = self._split(start)
        behind = self._split(start + size)
        self.starts[first:behind] = [start]
        self.held[first:behind] = [(storage, start - shift)]

    def holds(self, start: int, size: int, storage: int, shift: int) -> bool:
        k = bisect_right(self.starts, start) - 1
        while k < len(self.starts) and self.starts[k] < start + size:
            if self.held[k] != (storage, start - shift):
                return False
            k += 1
        return True


def replay(
    graph: Graph,
    plan: Plan,
    memory: CheckedMemory,
    simulation: Simulation,
    at: Mapping[int, int],
    *,
    mode: str | None = None,
) -> ByteReplay:
    """Play the plan's order through its arena.

    Parameters
    ----------
    at
        Offset of each storage with bytes.
    mode
        ``"bytes"`` or ``"intervals"``; by default what the arena's size allows.

    Raises
    ------
    VerificationError
        ``replay``: a tensor was read, or an output looked at, whose bytes were written over.
    """
    tensors = graph.tensor_by_id
    moved = sum(tensors[t].size for op in graph.ops for t in (*op.inputs, *op.outputs))
    moved = 2 * moved + sum(memory.workspace.values())
    size = plan.arena_bytes or 0
    if mode is None:
        mode = "bytes" if size <= MAX_ARENA_BYTES and moved <= MAX_MOVED_BYTES else "intervals"
    arena: _ReplayedArena
    if mode == "bytes":
        ends = (memory.place[t.id][1] + t.size for t in graph.tensors)
        longest = max(ends, default=0) + max(memory.workspace.values(), default=0)
        arena = _Bytes(size, longest)
    else:
        arena = _Intervals(size)
    reads = 0

    number = {root: k for k, root in enumerate(dict.fromkeys(root for root, _ in memory.place.values()))}

    def where(t: int) -> tuple[int, int, int, int] | None:
        i = memory.storage_of.get(t)
        if i is None or i not in at or not tensors[t].size:
            return None
        root, shift = memory.place[t]
        return at[i] + shift, tensors[t].size, number[root], shift

    def look(t: int, who: str) -> None:
        nonlocal reads
        there = where(t)
        if there is None:
            return
        reads += 1
        if not arena.holds(*there):
            raise VerificationError(
                "replay",
                f"{who} finds other bytes in {tensors[t].label} at {there[0]}..{there[0] + there[1]}",
            )

    def put(t: int) -> None:
        there = where(t)
        if there is not None:
            arena.write(*there)

    produced = {t for op in graph.ops for t in op.outputs}
    for t in graph.tensors:
        if t.id not in produced and t.kind is not Kind.ACTIVATION:
            put(t.id)
    scratch = {v: (plan.workspace_offsets or {}).get(str(v)) for v, n in memory.workspace.items() if n}
    for step, v in enumerate(plan.order):
        op = graph.op_by_id[v]
        who = f"{op.label} at step {step}"
        for t in dict.fromkeys(op.inputs):
            look(t, who)
        for t in op.outputs:
            if t not in memory.views:
                put(t)
        start = scratch.get(v)
        if start is not None:
            arena.write(start, memory.workspace[v], len(number) + step, 0)
        over = {memory.storage_of[t] for t in simulation.over.get(v, ())}
        if v in simulation.in_place:
            over.add(memory.storage_of[simulation.in_place[v]])
        for t in dict.fromkeys((*op.inputs, *op.outputs)):
            if memory.storage_of.get(t) not in over:
                look(t, f"{who}, once it has written,")
    for t in graph.tensors:
        if t.kind.value == "output":
            look(t.id, "the end")
    writing = {t for op in graph.ops if op.writes != () for t in op.outputs}
    views = [t for t in graph.tensors if t.alias_of is not None and t.size > 0 and t.id not in writing]
    return ByteReplay(mode, reads, moved, len(views))
