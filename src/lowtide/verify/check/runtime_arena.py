"""Does an order fit the block that the plan gives onnxruntime's arena? Best fit over a plain list of chunks.

The list holds every chunk of the block, by address: `[bytes, owner]`, the owner None if it is free. Each allocation
looks at all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Op
from lowtide.plan import Plan, RuntimeParts
from lowtide.rules.onnxruntime.known import CONDITIONAL, branch_choices, unknown_kernels
from lowtide.rules.onnxruntime.rule import chunks, kept_chunks
from lowtide.sizes import format_size, round_up
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, inside_bytes, work_out
from lowtide.verify.check.order import claimed_pairs, simulate

Chunk = list[int | None]
_KEPT = 2**62
"""Owners from here on are never given back."""
_BODY = 2**32
"""Owners inside a body begin so far from those of the graph around it."""


def tensor_bytes(graph: Graph, plan: Plan, target: Target) -> list[int]:
    """Bytes of tensors at each step of a plan's order, workspace left out; ops write over an input wherever they may,
    as a runtime with an arena of its own does whatever the plan's offsets take."""
    memory = work_out(graph, target)
    pairs = None if target.overwrites_itself else claimed_pairs(graph, plan, memory)
    steps = simulate(graph, memory, plan.order, pairs)
    return [f - memory.workspace[op] for op, f in zip(plan.order, steps.footprint, strict=True)]


def check_runtime_arena(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """Check the block of a runtime with an arena of its own: what was seen.

    Raises
    ------
    VerificationError
        ``runtime_arena``: a tensor or a kernel's workspace finds no place, the block does not follow from its parts, or
        the plan has one although its target has no such runtime.
    """
    return CHECKS.get(target.rule, _no_block)(graph, plan, target, memory)


def _no_block(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    if plan.runtime_arena_bytes is not None:
        what = f"runtime_arena_bytes is {plan.runtime_arena_bytes} under target {target.name}"
        raise VerificationError("runtime_arena", what)
    return ""


def _as_planned(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """LiteRT's own planner is not played through again."""
    block = plan.runtime_arena_bytes
    if block is not None and block < plan.peak_bytes:
        raise VerificationError("runtime_arena", f"{block} bytes do not hold a peak of {plan.peak_bytes}")
    return (
        "" if block is None else f"{format_size(block)} by LiteRT's own planner, as the plan has it (--run measures it)"
    )


class _Block:
    """A block of memory in which the smallest free chunk that is large enough is taken."""

    def __init__(self, size: int, alignment: int) -> None:
        self.size, self.alignment = size, alignment
        self.chunks: list[Chunk] = [[size, None]]

    def take(self, size: int, owner: int, what: str) -> None:
        """Raises `VerificationError` if no chunk is large enough."""
        rounded = round_up(size, self.alignment)
        fitting = [c for c in self.chunks if c[1] is None and (c[0] or 0) >= rounded]
        if not fitting:
            raise VerificationError("runtime_arena", f"in a block of {self.size} bytes {what} finds no place")
        chosen = min(fitting, key=lambda c: c[0] or 0)
        rest = (chosen[0] or 0) - rounded
        chosen[:] = [rounded, owner]
        if rest:
            self.chunks.insert(self.chunks.index(chosen) + 1, [rest, None])

    def holds(self, owner: int) -> bool:
        """Whether this owner has a chunk."""
        return any(c[1] == owner for c in self.chunks)

    def give(self, owner: int) -> None:
        """Free what this owner has, and join it with free neighbours."""
        place = self.chunks
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


def _check_block(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """Run through the plan's order as onnxruntime does, once for each choice of conditional branches."""
    if plan.runtime_arena_bytes is None:
        return ""
    unknown = unknown_kernels(graph)
    if unknown != (plan.runtime_unknown or []):
        names, claim = (", ".join(types or ["none"]) for types in (unknown, plan.runtime_unknown))
        raise VerificationError("runtime_arena", f"not known are the kernels of {names}, not {claim}")
    choices = branch_choices(graph)
    for choice in choices:
        block = _Block(plan.runtime_arena_bytes, target.alignment)
        for k, size in enumerate(kept_chunks(graph)):
            block.take(size, _KEPT + k, "a turned filter")
        _run_through(block, graph, target, memory, plan.order, list(choice))
    both = f", in {len(choices)} choices of branches" if len(choices) > 1 else ""
    more = f"; at least, as the kernels of {', '.join(unknown)} may take more" if unknown else ""
    held = format_size(plan.runtime_arena_bytes)
    return f"{held} hold every tensor and workspace where onnxruntime's arena puts them{both}{more}"


def _run_through(
    block: _Block,
    graph: Graph,
    target: Target,
    memory: CheckedMemory,
    order: Sequence[int],
    choice: list[int],
    depth: int = 0,
) -> None:
    """Take and give back what each op does. `choice` are the branches still to be taken; a body's outputs, at any
    `depth` above 0, are its op's, which holds them."""
    ran: set[int] = set()
    owner_of: dict[int, int] = {}
    first = depth * _BODY
    for b, held in enumerate(memory.storages):
        if held.at_start and held.size:
            owner_of[b] = first + b
            block.take(held.size, first + b, "a constant")
    for v in order:
        op = graph.op_by_id[v]
        ran.add(v)
        before, after = chunks(graph, op)
        _before(block, before, op, first)
        for t in op.outputs:
            b = memory.storage_of.get(t)
            if b is None or b in owner_of or not memory.storages[b].size or (depth and memory.storages[b].at_end):
                continue
            over = [
                memory.storage_of[r]
                for r in memory.overwritable[v]
                if memory.storages[memory.storage_of[r]].users <= ran
            ]
            if over:
                owner_of[b] = owner_of.pop(over[0])
            else:
                owner_of[b] = first + b
                block.take(memory.storages[b].size, first + b, graph.tensor_by_id[t].label)
        looped = 0
        if op.type == CONDITIONAL and op.bodies:
            inside = target.inside
            body = inside.as_seen(op.bodies[min(choice.pop(0) if choice else 0, len(op.bodies) - 1)])
            own = inside.as_run(body, body.own_order)
            _run_through(block, body, inside, work_out(body, inside), own, choice, depth + 1)
        else:
            looped = inside_bytes(graph, op, target)
        for k, size in enumerate((*after, looped) if looped else after, len(before)):
            block.take(size, -1 - k - first, f"the workspace of {op.label}")
        for k in range(len(before) + len(after) + 1):
            block.give(-1 - k - first)
        for b in memory.touches[v]:
            if b in owner_of and memory.storages[b].users <= ran and not memory.storages[b].at_end:
                block.give(owner_of.pop(b))


def _before(block: _Block, sizes: Sequence[int], op: Op, first: int) -> None:
    """What a kernel takes before its outputs; a size of 0 gives back the oldest of these chunks."""
    oldest = 0
    for k, size in enumerate(sizes):
        if size:
            block.take(size, -1 - k - first, f"the workspace of {op.label}")
            continue
        while not block.holds(-1 - oldest - first):
            oldest += 1
        block.give(-1 - oldest - first)


def _least_above(plan: Plan, parts: RuntimeParts) -> bool:
    """Whether some part is said to take more at least, in any plan and build, than in this one."""
    beside, head = parts.least_beside, parts.least_head
    arenas, block = plan.runtime_arenas, plan.runtime_arena_bytes or 0
    planning = parts.planning + (parts.persistent if arenas is not None and arenas.apart else 0)  # of one array
    above = parts.least_planning > planning or (beside is not None and beside > parts.persistent)
    if arenas is not None:
        tail = parts.persistent if arenas.apart else block
        above = above or arenas.least_tail_bytes > tail or arenas.least_head_bytes > block
    return above or (head is not None and head > parts.planned)


def _check_parts(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """The smallest kTensorArenaSize follows from its parts, of which the planned one is the arena."""
    block, parts = plan.runtime_arena_bytes, plan.runtime_parts
    if parts is None and block is None:
        return ""
    if parts is not None and target.rule == "tflm" and parts.kernels != target.kernels:
        raise VerificationError("runtime_arena", f"kernels are {parts.kernels!r}, and the target's {target.kernels!r}")
    if parts is not None and _least_above(plan, parts):
        raise VerificationError("runtime_arena", "the parts are said to need more at least than they take here")
    if parts is None or block is None or parts.planned != plan.arena_bytes:
        raise VerificationError("runtime_arena", f"the parts of {block} bytes are not there, or plan another arena")
    if plan.runtime_arenas is not None and plan.runtime_arenas.apart:
        needed = max(round_up(parts.planned, parts.alignment), parts.planning) + parts.persistent
    else:
        needed = max(round_up(parts.planned, parts.alignment) + parts.persistent, parts.planning)
    if block != needed:
        raise VerificationError("runtime_arena", f"runtime_arena_bytes is {block}, and its parts need {needed}")
    said = "the persistent one, and what is needed at least, as the plan has it (--run measures)"
    return f"{format_size(block)} follow from the parts; {said}"


CHECKS = {"tflm": _check_parts, "tflite": _as_planned, "onnxruntime": _check_block}
"""By the rule that a target names."""
