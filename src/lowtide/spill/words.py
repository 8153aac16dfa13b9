"""Memories and the cost of moves, as a user says them.

What moves cost in time: one DMA channel concurrent with the ops, in the order of the moves.

    DMA    |spill b|      |fill a --------|
    ops    | (waits) | op 2 | op 3        | (waits) | op 4, reads a
                            ^ a's interval begins: `lead` steps before its use

A spill is done before the op of its step runs, as its room is used at once. A fill begins when its interval does, and
is done before the first op that touches the storage: what it takes concurrently with other ops is hidden. The first
loads of graph inputs and the writes of graph outputs are left out, as from the traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.schedule.registry import with_options
from lowtide.sizes import parse_size
from lowtide.spill.answer import SpillAnswer
from lowtide.spill.problem import Memory, Semantics, SpillProblem
from lowtide.spill_plan import HOST, Spilling

Memories = Sequence[str] | Mapping[str, str | int]  # ``NAME=SIZE`` each, or a mapping, fastest first

TOUCHED_PER_MOVED = 16
"""Ops read and write the fast memory this many times as fast as the DMA moves bytes, in the simple cost model."""

SWITCHES = ("parameters", "rematerialise")
TIMES = ("bandwidth", "flops")


@dataclass(frozen=True)
class Moves:
    """What a move costs, what may be done to avoid it, and how long it takes if that is requested."""

    semantics: Semantics = field(default_factory=Semantics)
    parameters: bool = False  # whether constants lie in the fast memory while ops read them
    rematerialise: bool = False  # whether ops may be recomputed
    dma: Dma | None = None  # the cost model in seconds

    @property
    def in_plan(self) -> Spilling:
        """As a plan says it."""
        counted = {f.name: getattr(self.semantics, f.name) for f in fields(Semantics)}
        return Spilling(**counted, parameters=self.parameters, rematerialise=self.rematerialise)


def find_memories(given: Memories) -> tuple[Memory, ...]:
    """The memories that a call names. Raises `InputError`: one without a name or a size, named twice, or named like the
    host after the last one."""
    pairs: list[tuple[str, str | int]] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        for entry in given:
            name, equals, size = entry.partition("=")
            if not equals or not name:
                raise InputError(f"memory {entry[:80]!r} is not NAME=SIZE, as in fast=256KiB")
            pairs.append((name, size))
    memories: list[Memory] = []
    for name, size in pairs:
        if name == HOST or any(m.name == name for m in memories):
            raise InputError(f"memory {name!r} is named twice" if name != HOST else f"no memory can be called {HOST!r}")
        memories.append(Memory(name, parse_size(size, f"memory {name}")))
    return tuple(memories)


def find_moves(given: Mapping[str, str]) -> Moves:
    """What a call says of moves: fields of `Semantics`, the two switches, ``bandwidth`` and ``flops``. Raises
    `InputError`: no such field, or a value that it does not take."""
    dma = _find_dma(given)
    counted = {name: value for name, value in given.items() if name not in TIMES}
    switches: dict[str, bool] = {}
    for name in SWITCHES:
        value = counted.pop(name, "false").lower()
        if value not in ("true", "false"):
            raise InputError(f"moves.{name} is {value!r}; it takes true or false")
        switches[name] = value == "true"
    known = [f.name for f in fields(Semantics)]
    unknown = [name for name in counted if name not in known]
    if unknown:
        options = (*known, *SWITCHES, *TIMES)
        hint = did_you_mean(unknown[0], options)
        raise InputError(f"moves has no option {unknown[0]!r}; its options: {', '.join(options)}{hint}")
    return Moves(with_options(Semantics, "moves", counted), dma=dma, **switches)


def _find_dma(given: Mapping[str, str]) -> Dma | None:
    """The cost model that is named by ``bandwidth`` (bytes a second, as a size) and ``flops`` (a second), if any."""
    if "bandwidth" not in given:
        if "flops" in given:
            raise InputError("moves.flops says how fast ops are beside transfers; give moves.bandwidth too")
        return None
    bandwidth = parse_size(given["bandwidth"], "moves.bandwidth")
    try:
        flops = float(given.get("flops", "0"))
    except ValueError:
        flops = -1.0
    if not bandwidth or not 0 <= flops < 1e30:
        raise InputError("moves.bandwidth takes bytes a second as in 100MB, moves.flops a number as in 4e9")
    return Dma(float(bandwidth), flops, touched_bytes_per_second=float(bandwidth) * TOUCHED_PER_MOVED)


@dataclass(frozen=True)
class Dma:
    """A simple cost model: an op takes its FLOPs, or its bytes, whichever is longer, and a fixed time.

    `flops_per_second` 0 leaves FLOPs out, `touched_bytes_per_second` 0 the bytes that the op reads and writes.
    """

    bytes_per_second: float
    flops_per_second: float = 0.0
    touched_bytes_per_second: float = 0.0
    seconds_per_op: float = 0.0

    def op_seconds(self, problem: SpillProblem, op: int) -> float:
        """Time of the op at this position."""
        flops = problem.model.graph.ops[op].flops or 0
        touched = sum(problem.traffic_bytes[s] for s in problem.model.touched[op])
        by_flops = flops / self.flops_per_second if self.flops_per_second else 0.0
        by_bytes = touched / self.touched_bytes_per_second if self.touched_bytes_per_second else 0.0
        return self.seconds_per_op + max(by_flops, by_bytes)


@dataclass(frozen=True)
class Timing:
    """Seconds of the ops, of the transfers, and that ops wait for them; bytes moved while none waits."""

    compute_seconds: float
    transfer_seconds: float
    stall_seconds: float
    hidden_bytes: int


def timing(problem: SpillProblem, answer: SpillAnswer, dma: Dma) -> Timing:
    """Play an answer through: ops one after the other, moves one after the other, concurrently."""
    now = free = stalled = computed = moved = 0.0
    coming: dict[int, float] = {}  # storage to when its fill is done
    for step in range(len(answer.order) + 1):
        for move in (m for m in answer.moves if m.step == step):
            free = max(free, now) + move.bytes / dma.bytes_per_second
            moved += move.bytes / dma.bytes_per_second
            if move.kind == "fill":
                coming[move.storage] = free
                continue
            stalled += free - now
            now = free
        needed = problem.model.touched[answer.order[step]] if step < len(answer.order) else tuple(coming)
        for s in needed:
            done = coming.pop(s, 0.0)
            if done > now:
                stalled += done - now
                now = done
        if step < len(answer.order):
            seconds = dma.op_seconds(problem, answer.order[step])
            computed += seconds
            now += seconds
    return Timing(computed, moved, stalled, round((moved - stalled) * dma.bytes_per_second))
