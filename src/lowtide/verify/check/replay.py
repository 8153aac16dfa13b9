"""Replays a plan with real bytes: what an op reads must be what was written.

Each storage has a pattern of its own. Graph inputs are written before step 0. When an op runs, its inputs
are compared with their patterns, its outputs written (views write nothing) and its workspace scribbled over;
then all are compared a second time, but for an input that the op overwrites. Outputs are compared at the end.

What the graph's own `alias_of` puts on the same bytes has one pattern, as if the op that makes an alias read those
bytes. Where ops write over them, or may, `lowtide.verify.check.writes` replays which op reads what.

Above `MAX_ARENA_BYTES`, or when more than `MAX_MOVED_BYTES` would be moved, a map from address intervals to
(storage, shift) takes the place of the bytes. It is exact: two storages never have the same pattern.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
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
        what = f"{self.reads:,} reads find the bytes that were written"
        return f"{what} (simulated as {self.mode}, {self.moved_bytes:,} B moved){taken}"


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
    """Play the plan's order through its arena. `at`: offset of each storage with bytes. `mode`: ``"bytes"`` or
    ``"intervals"``; by default what the arena's size allows. Raises `VerificationError`: ``replay``: a tensor was read,
    or an output looked at, whose bytes were written over."""
    moved = sum(graph.tensor_by_id[t].size for op in graph.ops for t in (*op.inputs, *op.outputs))
    moved = 2 * moved + sum(memory.workspace.values())
    size = plan.arena_bytes or 0
    if mode is None:
        mode = "bytes" if size <= MAX_ARENA_BYTES and moved <= MAX_MOVED_BYTES else "intervals"
    ends = (memory.place[t.id][1] + t.size for t in graph.tensors)
    longest = max(ends, default=0) + max(memory.workspace.values(), default=0)
    player = _Player(graph, memory, at, _Bytes(size, longest) if mode == "bytes" else _Intervals(size))
    player.begin()
    scratch = {v: (plan.workspace_offsets or {}).get(str(v)) for v, n in memory.workspace.items() if n}
    for step, v in enumerate(plan.order):
        over = {memory.storage_of[t] for t in simulation.over.get(v, ())}
        if v in simulation.in_place:
            over.add(memory.storage_of[simulation.in_place[v]])
        player.run(graph.op_by_id[v], step, scratch.get(v), over)
    player.end()
    writing = {t for op in graph.ops if op.writes != () for t in op.outputs}
    views = [t for t in graph.tensors if t.alias_of is not None and t.size > 0 and t.id not in writing]
    return ByteReplay(mode, player.reads, moved, len(views))


class _Player:
    """Ops that run in an arena, and how many reads were compared."""

    def __init__(self, graph: Graph, memory: CheckedMemory, at: Mapping[int, int], arena: _ReplayedArena) -> None:
        self.graph, self.memory, self.at, self.arena = graph, memory, at, arena
        self.pattern = {root: k for k, root in enumerate(dict.fromkeys(root for root, _ in memory.place.values()))}
        self.reads = 0

    def begin(self) -> None:
        """Write what no op makes."""
        for t in self.graph.tensors:
            if t.id not in self.graph.producer and t.kind is not Kind.ACTIVATION:
                self._write(t.id)

    def run(self, op: Op, step: int, scratch: int | None, over: Collection[int]) -> None:
        """Run an op with a workspace at `scratch`, that may write over the storages `over`."""
        reader = f"{op.label} at step {step}"
        for t in dict.fromkeys(op.inputs):
            self._read(t, reader)
        for t in op.outputs:
            if t not in self.memory.views:
                self._write(t)
        if scratch is not None:
            self.arena.write(scratch, self.memory.workspace[op.id], len(self.pattern) + step, 0)
        for t in dict.fromkeys((*op.inputs, *op.outputs)):
            if self.memory.storage_of.get(t) not in over:
                self._read(t, f"{reader}, once it has written,")

    def end(self) -> None:
        """Read the outputs."""
        for t in self.graph.tensors:
            if t.kind is Kind.OUTPUT:
                self._read(t.id, "the end")

    def _place(self, t: int) -> tuple[int, int, int, int] | None:
        """Offset, size, pattern and where in the pattern a tensor begins; None if it has no bytes in the arena."""
        storage, size = self.memory.storage_of.get(t), self.graph.tensor_by_id[t].size
        if storage is None or storage not in self.at or not size:
            return None
        root, shift = self.memory.place[t]
        return self.at[storage] + shift, size, self.pattern[root], shift

    def _read(self, t: int, reader: str) -> None:
        place = self._place(t)
        if place is None:
            return
        self.reads += 1
        if not self.arena.holds(*place):
            label, (start, size, _, _) = self.graph.tensor_by_id[t].label, place
            raise VerificationError("replay", f"{reader} finds other bytes in {label} at {start}..{start + size}")

    def _write(self, t: int) -> None:
        place = self._place(t)
        if place is not None:
            self.arena.write(*place)
