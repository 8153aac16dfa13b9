"""Does an order fit the block that the plan gives onnxruntime's arena? Best fit over a plain list of chunks.

The list holds every chunk of the block, by address: `[bytes, owner]`, the owner None if it is free. Each allocation
looks at all of them.

The head that TFLM makes of a plan under each library of kernels, from the plan's offsets, for the checker alone.

A file's offline plan gives every tensor its offset; TFLM adds the scratch buffers of each operator itself, for the time
that it runs: the largest first, of equal ones the last one requested, each in the lowest gap that is large enough. The
head ends where the last byte does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind, Op
from lowtide.plan import Plan, RuntimeParts
from lowtide.rules.onnxruntime.known import CONDITIONAL, branch_choices, unknown_kernels
from lowtide.rules.onnxruntime.rule import chunks, kept_chunks
from lowtide.rules.tflm.libraries import BEYOND, LIBRARIES, Library
from lowtide.rules.tflm.rule import ALIGNMENT, TflmRule
from lowtide.sizes import format_size, round_up
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, inside_bytes, work_out
from lowtide.verify.check.order import claimed_pairs, simulate

Chunk = list[int | None]
_KEPT = 2**62
"""Owners from here on are never given back."""
_BODY = 2**32  # owners inside a body begin so far from those of the graph around it


def tensor_bytes(graph: Graph, plan: Plan, target: Target) -> list[int]:
    """Bytes of tensors at each step of a plan's order, workspace left out; ops write over an input wherever they may,
    as a runtime with an arena of its own does whatever the plan's offsets take."""
    memory = work_out(graph, target)
    pairs = None if target.manages_storage else claimed_pairs(graph, plan, memory)
    steps = simulate(graph, memory, plan.order, pairs)
    return [f - memory.workspace[op] for op, f in zip(plan.order, steps.footprint, strict=True)]


def check_runtime_arena(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """Check the block of a runtime with an arena of its own: what was seen. Raises `VerificationError`:
    ``runtime_arena``: a tensor or a kernel's workspace finds no place, the block does not follow from its parts, or the
    plan has one although its target has no such runtime."""
    return CHECKS.get(target.rule, _no_block)(graph, plan, target, memory)


def _no_block(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    if plan.runtime_arena_bytes is not None:
        what = f"runtime_arena_bytes is {plan.runtime_arena_bytes} under target {target.name}"
        raise VerificationError("runtime_arena", what)
    return ""


def _as_planned(graph: Graph, plan: Plan, target: Target, memory: CheckedMemory) -> str:
    """LiteRT's own planner is not replayed."""
    block = plan.runtime_arena_bytes
    if block is not None and block < plan.peak_bytes:
        raise VerificationError("runtime_arena", f"{block} bytes do not hold a peak of {plan.peak_bytes}")
    return (
        ""
        if block is None
        else f"{format_size(block)} by LiteRT's own planner, taken from the plan (--run measures it)"
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

    def rename(self, owner: int, to: int) -> None:
        """Give the chunks of an owner to another one."""
        for c in self.chunks:
            if c[1] == owner:
                c[1] = to

    def holds(self, owner: int) -> bool:
        """Whether this owner has a chunk."""
        return any(c[1] == owner for c in self.chunks)

    def give(self, owner: int) -> None:
        """Free what this owner has, and merge it with free neighbours."""
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
        for late in (False, True) if len(choices) > 1 else (False,):
            block = _Block(plan.runtime_arena_bytes, target.alignment)
            for k, size in enumerate(kept_chunks(graph)):
                block.take(size, _KEPT + k, "a turned filter")
            _Run(block, graph, target, memory, list(choice), late).run(plan.order)
    both = ""
    if len(choices) > 1:
        both = f", in {len(choices)} choices of branches, their outputs allocated before they run or by them"
    more = f"; at least, as the kernels of {', '.join(unknown)} may take more" if unknown else ""
    held = format_size(plan.runtime_arena_bytes)
    return f"{held} hold every tensor and workspace where onnxruntime's arena puts them{both}{more}"


@dataclass
class _Run:
    """Ops that take chunks of a block and give them back; `late`: a body's ops allocate the outputs of the body's op.

    A body is at a `depth` above 0. `choice` are the branches still to be taken.
    """

    block: _Block
    graph: Graph
    target: Target
    memory: CheckedMemory
    choice: list[int]
    late: bool
    depth: int = 0
    ran: set[int] = field(default_factory=set[int])
    owner_of: dict[int, int] = field(default_factory=dict[int, int])

    def run(self, order: Sequence[int]) -> dict[int, int]:
        """Run all ops. Returns what is kept of the graph's outputs: owner to bytes."""
        memory = self.memory
        for b, held in enumerate(memory.storages):
            if held.at_start and held.size:
                self._take(b, "a constant")
        for v in order:
            self._op(self.graph.op_by_id[v])
            for b in memory.touches[v]:
                if b in self.owner_of and memory.storages[b].users <= self.ran and not memory.storages[b].at_end:
                    self.block.give(self.owner_of.pop(b))
        return {owner: memory.storages[b].size for b, owner in self.owner_of.items() if memory.storages[b].at_end}

    def _op(self, op: Op) -> None:
        """Run an op: what its kernel takes before its outputs, these, and what it takes after them."""
        self.ran.add(op.id)
        before, after = chunks(self.graph, op)
        self._before(before, op)
        conditional = op.type == CONDITIONAL and bool(op.bodies)
        self._outputs(op, self._body(op) if conditional and self.late else {})
        if conditional and not self.late:
            self._body(op)
        looped = 0 if conditional else inside_bytes(self.graph, op, self.target)
        for k, size in enumerate((*after, looped) if looped else after, len(before)):
            self.block.take(size, self._scratch(k), f"the workspace of {op.label}")
        for k in range(len(before) + len(after) + 1):
            self.block.give(self._scratch(k))

    def _outputs(self, op: Op, of_body: dict[int, int]) -> None:
        """Chunks of an op's outputs: those of a body (`of_body`: owner to bytes), of a dying input, or new ones."""
        memory, block = self.memory, self.block
        for t in op.outputs:
            b = memory.storage_of.get(t)
            if b is None or b in self.owner_of or not memory.storages[b].size:
                continue
            if memory.storages[b].at_end and self.depth and not self.late:
                continue  # the op around this body has allocated it
            same = [owner for owner, size in of_body.items() if size == memory.storages[b].size]
            dying = [memory.storage_of[r] for r in memory.overwritable[op.id]]
            dying = [storage for storage in dying if memory.storages[storage].users <= self.ran]
            if same:
                self.owner_of[b] = self._first + b
                block.rename(same[0], self._first + b)
                del of_body[same[0]]
            elif dying:
                self.owner_of[b] = self.owner_of.pop(dying[0])
            else:
                self._take(b, self.graph.tensor_by_id[t].label)
        for owner in of_body:
            block.give(owner)

    @property
    def _first(self) -> int:
        """The first owner's number at this depth."""
        return self.depth * _BODY

    def _scratch(self, k: int) -> int:
        """The owner of a kernel's chunk number `k`."""
        return -1 - k - self._first

    def _take(self, storage: int, what: str) -> None:
        self.owner_of[storage] = self._first + storage
        self.block.take(self.memory.storages[storage].size, self._first + storage, what)

    def _body(self, op: Op) -> dict[int, int]:
        """Run the next choice of a conditional op's bodies. Returns owner and bytes of each output allocated there."""
        rules = self.target.inside
        branch = self.choice.pop(0) if self.choice else 0
        body = rules.as_seen(op.bodies[min(branch, len(op.bodies) - 1)])
        inner = _Run(self.block, body, rules, work_out(body, rules), self.choice, self.late, self.depth + 1)
        return inner.run(rules.as_run(body, body.own_order))

    def _before(self, sizes: Sequence[int], op: Op) -> None:
        """What a kernel takes before its outputs; a size of 0 gives back the oldest of these chunks."""
        oldest = 0
        for k, size in enumerate(sizes):
            if size:
                self.block.take(size, self._scratch(k), f"the workspace of {op.label}")
                continue
            while not self.block.holds(self._scratch(oldest)):
                oldest += 1
            self.block.give(self._scratch(oldest))


def _least_above(plan: Plan, parts: RuntimeParts) -> bool:
    """Whether some part is said to take more at least, in any plan and build, than in this one."""
    beyond_head, head = parts.least_beside, parts.least_head
    arenas, block = plan.runtime_arenas, plan.runtime_arena_bytes or 0
    planning = parts.planning + (
        parts.persistent if arenas is not None and arenas.has_two_arrays else 0
    )  # of one array
    above = parts.least_planning > planning or (beyond_head is not None and beyond_head > parts.persistent)
    if arenas is not None:
        tail = parts.persistent if arenas.has_two_arrays else block
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
    if parts is None or not _plans_head(plan, parts):
        raise VerificationError("runtime_arena", f"the parts of {block} bytes are not there, or plan another arena")
    apart = plan.runtime_arenas is not None and plan.runtime_arenas.has_two_arrays
    head = round_up(parts.planned, parts.alignment)
    needed = max(head, parts.planning) + parts.persistent if apart else max(head + parts.persistent, parts.planning)
    if block != needed:
        raise VerificationError("runtime_arena", f"runtime_arena_bytes is {block}, and its parts need {needed}")
    _check_libraries(needed, parts, apart=apart)
    heads = tflm_heads(graph, plan, target)
    seen = ""
    if heads is not None:
        _check_heads(plan, parts, heads, apart=apart)
        if parts.arenas:
            _check_beyond(graph, plan, target, parts)
        seen = "the planned part was simulated, "
    kept = "the persistent part and the minimum are the plan's (--run measures them)"
    return f"{format_size(needed)} is the sum of its parts; {seen}{kept}"


def _check_heads(plan: Plan, parts: RuntimeParts, heads: dict[str, int], *, apart: bool) -> None:
    """The parts plan the head of the kernels that decide, the plan has the largest, and no arena is below its head."""
    most = max(heads.values())
    head = most if apart else heads.get(parts.decided_by or parts.kernels, most)
    if parts.planned != head:
        raise VerificationError("runtime_arena", f"the parts plan {parts.planned} bytes, and TFLM's head takes {head}")
    if plan.arena_bytes is not None and plan.arena_bytes < most:
        raise VerificationError("runtime_arena", f"arena_bytes is {plan.arena_bytes}, and a head takes {most}")
    for kernels, size in parts.arenas.items():
        if size <= heads.get(kernels, 0):
            what = f"with kernels {kernels!r} the head alone takes {heads[kernels]} bytes, and the arena {size}"
            raise VerificationError("runtime_arena", what)


def _check_beyond(graph: Graph, plan: Plan, target: Target, parts: RuntimeParts) -> None:
    """A build whose head alone is above the block is among those that need more, and none needs less than its head.
    The persistent bytes of a build are not replayed, so that a build that needs little more may be missing."""
    block = plan.runtime_arena_bytes or 0
    least = {}
    for kernels, simd in BEYOND:
        heads = tflm_heads(graph, plan, replace(target, kernels=kernels, simd=simd)) or {}
        least[f"{kernels},simd={simd}"] = round_up(heads.get(kernels, 0), parts.alignment)
    for build in sorted(least.keys() | parts.beyond.keys()):
        said, head = parts.beyond.get(build), least.get(build)
        if head is None or (said is None and head > block) or (said is not None and said <= max(block, head)):
            what = f"{build} is said to need {said or 'no more'}, where its head takes {head} and the block is {block}"
            raise VerificationError("runtime_arena", what)


def _plans_head(plan: Plan, parts: RuntimeParts) -> bool:
    """Whether the head of the parts is the plan's: of kernels that are not named the parts are those of one library,
    and the plan's head is the largest."""
    if parts.kernels == "any" and parts.decided_by and plan.arena_bytes is not None:
        return parts.planned <= plan.arena_bytes
    return parts.planned == plan.arena_bytes


def _check_libraries(block: int, parts: RuntimeParts, *, apart: bool) -> None:
    """Where no kernels are named the block is what the library that decides it needs, and no other needs more."""
    if parts.kernels != "any" or apart:
        if parts.arenas or parts.decided_by not in ("", parts.kernels):
            raise VerificationError("runtime_arena", f"kernels are {parts.kernels!r}, and others decide the arena")
        return
    if set(parts.arenas) != set(LIBRARIES):
        names = ", ".join(sorted(parts.arenas)) or "none"
        raise VerificationError("runtime_arena", f"arenas are those of {names}, and no kernels are named")
    most = max(parts.arenas.values())
    if block != most or parts.arenas.get(parts.decided_by) != most:
        what = f"runtime_arena_bytes is {block}, decided by {parts.decided_by or 'nobody'}; {most} are needed"
        raise VerificationError("runtime_arena", what)


CHECKS = {"tflm": _check_parts, "tflite": _as_planned, "onnxruntime": _check_block}  # by the rule that a target names


Span = tuple[int, int, int, int]  # offset, end, first step and last step of a tensor, all inclusive but the end


def tflm_heads(graph: Graph, plan: Plan, target: Target) -> dict[str, int] | None:
    """Bytes of the head by library: of all, or of the one that the target names. None where TFLM places tensors too:
    a file of several subgraphs, of cut operators, or with tensors that nothing touches."""
    spans = _spans(graph, plan)
    if spans is None:
        return None
    names: tuple[Library, ...] = LIBRARIES if target.kernels == "any" else (target.kernels,)
    end = max((span[1] for span in spans), default=0)
    heads = dict.fromkeys(names, end)
    for step, v in enumerate(plan.order):
        live = sorted(span[:2] for span in spans if span[2] <= step <= span[3])
        for name in names:
            scratch = TflmRule(name, target.simd, target.pointer // 8).scratch(graph, graph.op_by_id[v])
            heads[name] = max(heads[name], _placed(live, scratch))
    return {str(name): head for name, head in heads.items()}


def _spans(graph: Graph, plan: Plan) -> list[Span] | None:
    """Where and when each tensor is allocated; None where not all of them have an offset."""
    subgraphs = getattr(getattr(graph.file, "model", None), "subgraphs", ())  # a .tflite file's, as it was read
    if len(subgraphs) != 1 or plan.rewrites or plan.offsets is None:
        return None
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for step, v in enumerate(plan.order):
        op = graph.op_by_id[v]
        for t in (*op.inputs, *op.outputs):
            first.setdefault(t, step)
            last[t] = step
    made = {t for op in graph.ops for t in op.outputs}
    spans: list[Span] = []
    for t in graph.tensors:
        if t.kind is Kind.CONSTANT or not t.size:
            continue
        at = plan.offsets.get(str(t.id))
        if at is None:
            return None
        begin = first.get(t.id, 0) if t.id in made else 0
        end = len(plan.order) if t.kind is Kind.OUTPUT else last.get(t.id, 0)
        spans.append((at, at + round_up(t.size, ALIGNMENT), begin, end))
    return spans


def _placed(live: list[tuple[int, int]], scratch: tuple[int, ...]) -> int:
    """Where scratch buffers end that are placed in the gaps between live tensors."""
    taken, most = list(live), 0
    for size in sorted((round_up(size, ALIGNMENT) for size in reversed(scratch)), reverse=True):
        at = 0
        for low, high in sorted(taken):
            if low - at >= size:
                break
            at = max(at, high)
        taken.append((at, at + size))
        most = max(most, at + size)
    return most
