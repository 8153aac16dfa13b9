"""What moves cost in time: one DMA channel concurrent with the ops, in the order of the moves.

    DMA    |spill b|      |fill a --------|
    ops    | (waits) | op 2 | op 3        | (waits) | op 4, reads a
                            ^ a's interval begins: `lead` steps before its use

A spill is done before the op of its step runs, as its room is used at once. A fill begins when its interval does, and
is done before the first op that touches the storage: what it takes concurrently with other ops is hidden. The first
loads of graph inputs and the writes of graph outputs are left out, as from the traffic.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.spill.answer import SpillAnswer
from lowtide.spill.problem import SpillProblem


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
