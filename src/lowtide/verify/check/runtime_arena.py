"""Does an order fit the block that the plan gives onnxruntime's arena? Best fit over a plain list of chunks.

The list holds every chunk of the block, by address: `[bytes, owner]`, the owner None if it is free. Each allocation
looks at all of them.
"""

from __future__ import annotations

from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.rules.onnxruntime.rule import chunks, kept_chunks
from lowtide.sizes import format_size, round_up
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.order import claimed_pairs, simulate

Chunk = list[int | None]
_KEPT = 2**40
"""Owners from here on are never given back."""


def tensor_bytes(graph: Graph, plan: Plan, target: Target) -> list[int]:
    """Bytes of tensors at each step of a plan's order, workspace left out; ops write over an input wherever they may,
    as a runtime with an arena of its own does whatever the plan's offsets take."""
    memory = work_out(graph, target)
    own = target.rule == "onnxruntime"
    steps = simulate(graph, memory, plan.order, None if own else claimed_pairs(graph, plan, memory))
    return [f - memory.workspace[op] for op, f in zip(plan.order, steps.footprint, strict=True)]


def check_runtime_arena(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """Run through the plan's order as onnxruntime does: what was seen.

    Raises
    ------
    VerificationError
        ``runtime_arena``: a tensor or a kernel's workspace finds no place, or the plan has such a block although its
        target is not onnxruntime's.
    """
    block = plan.runtime_arena_bytes
    if target.rule == "tflm":
        return _check_parts(plan)
    if block is None:
        return ""
    if target.rule == "tflite":
        return f"{format_size(block)} by LiteRT's own planner, as the plan has it (--run measures it)"
    if target.rule != "onnxruntime":
        raise VerificationError("runtime_arena", f"runtime_arena_bytes is {block} under target {target.name}")
    place: list[Chunk] = [[block, None]]
    ran: set[int] = set()
    owner_of: dict[int, int] = {}

    def take(size: int, owner: int, what: str) -> None:
        rounded = round_up(size, target.alignment)
        fitting = [c for c in place if c[1] is None and (c[0] or 0) >= rounded]
        if not fitting:
            raise VerificationError("runtime_arena", f"in a block of {block} bytes {what} finds no place")
        chosen = min(fitting, key=lambda c: c[0] or 0)
        rest = (chosen[0] or 0) - rounded
        chosen[:] = [rounded, owner]
        if rest:
            place.insert(place.index(chosen) + 1, [rest, None])

    def give(owner: int) -> None:
        for c in place:
            if c[1] == owner:
                c[1] = None
        k = 1
        while k < len(place):
            if place[k][1] is None and place[k - 1][1] is None:
                place[k - 1][0] = (place[k - 1][0] or 0) + (place[k][0] or 0)
                del place[k]
            else:
                k += 1

    for k, size in enumerate(kept_chunks(graph)):
        take(size, _KEPT + k, "a turned filter")
    for b, held in enumerate(memory.storages):
        if held.at_start and held.size:
            owner_of[b] = b
            take(held.size, b, "a constant")
    for v in plan.order:
        op = graph.op_by_id[v]
        ran.add(v)
        before, after = chunks(graph, op)
        oldest = 0
        for k, size in enumerate(before):
            if size:
                take(size, -1 - k, f"the workspace of {op.label}")
            else:
                while not any(c[1] == -1 - oldest for c in place):
                    oldest += 1
                give(-1 - oldest)
        for t in op.outputs:
            b = memory.storage_of.get(t)
            if b is None or b in owner_of or not memory.storages[b].size:
                continue
            over = [
                memory.storage_of[r]
                for r in memory.overwritable[v]
                if memory.storages[memory.storage_of[r]].touchers <= ran
            ]
            if over:
                owner_of[b] = owner_of.pop(over[0])
            else:
                owner_of[b] = b
                take(memory.storages[b].size, b, graph.tensor_by_id[t].label)
        for k, size in enumerate(after, len(before)):
            take(size, -1 - k, f"the workspace of {op.label}")
        for k in range(len(before) + len(after)):
            give(-1 - k)
        for b in memory.touches[v]:
            if b in owner_of and memory.storages[b].touchers <= ran and not memory.storages[b].at_end:
                give(owner_of.pop(b))
    return f"{format_size(block)} hold every tensor and workspace where onnxruntime's arena puts them"


def _check_parts(plan: Plan) -> str:
    """The smallest kTensorArenaSize follows from its parts, of which the planned one is the arena."""
    block, parts = plan.runtime_arena_bytes, plan.runtime_parts
    if parts is None and block is None:
        return ""
    if parts is None or block is None or parts.planned != plan.arena_bytes:
        raise VerificationError("runtime_arena", f"the parts of {block} bytes are not there, or plan another arena")
    needed = max(round_up(parts.planned, parts.alignment) + parts.persistent, parts.planning)
    if block != needed:
        raise VerificationError("runtime_arena", f"runtime_arena_bytes is {block}, and its parts need {needed}")
    return f"{format_size(block)} follow from the parts; the persistent one as the plan has it (--run measures it)"
