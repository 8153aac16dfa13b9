"""A plan with spilling: does every op find what it reads in the fast memory, where the moves have put it?

The plan is replayed step by step. What a place holds is followed as a version number, how often the storage has been
written: a storage in a memory, or its copy on the host, may be of an older version than the storage itself, and then
no op reads it and no move carries it. Before a step's op, intervals end, moves happen, intervals begin:

    step            4               5
    intervals    ...#### end here | #### begin here
    moves                         | spill: what ended, or is still there; fill: into what begins
    op                            | reads and writes what is there now
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.sizes import format_size
from lowtide.spill_plan import HOST, PlanMove, Spilling
from lowtide.target import Target
from lowtide.verify.check.layout import LiveAddresses, workspace_offsets
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.order import claimed_pairs, simulate
from lowtide.verify.report import HeldRule


@dataclass(frozen=True)
class _Stay:
    """Block `storage` is in memory `memory` at `offset` in steps ``[start, end)``."""

    storage: int
    memory: str
    offset: int
    start: int
    end: int


def counted_memory(graph: Graph, plan: Plan, target: Target) -> CheckedMemory:
    """What occupies memory under the plan: with parameters, constants lie in memory like inputs."""
    parameters = plan.spilling is not None and plan.spilling.parameters
    return work_out(graph, replace(target, constants="always") if parameters else target)


def check_spilling(graph: Graph, plan: Plan, memory: CheckedMemory) -> tuple[list[HeldRule], int]:
    """Check residency, moves and traffic. Returns the checks that held, and the most bytes in the fast memory at
    once. `memory` is `counted_memory` of the plan. Raises `VerificationError`: ``memories``, ``residency``,
    ``overlap``, ``workspace``, ``in_place``, ``moves``, ``traffic``."""
    sizes = {m.name: m.capacity_bytes for m in plan.memories or []}
    if not sizes or len(sizes) != len(plan.memories or []) or HOST in sizes or min(sizes.values()) <= 0:
        raise VerificationError("memories", f"memories need bytes and names of their own, none of them {HOST!r}")
    stays = _stays(graph, plan, memory, sizes)
    over = claimed_pairs(graph, plan, memory)
    simulate(graph, memory, plan.order, over)
    _check_overlaps(graph, plan, memory, stays, over)
    _check_sizes(plan, memory, stays)
    _MoveReplay(graph, plan, memory, stays).run()
    traffic = sum(m.bytes for m in plan.moves or [])
    if traffic != plan.traffic_bytes:
        raise VerificationError("traffic", f"the moves carry {traffic} bytes; the plan says {plan.traffic_bytes}")
    bound = plan.traffic_lower_bound_bytes or 0
    if bound > traffic or plan.optimal != (traffic == bound):
        raise VerificationError("traffic", f"traffic is {traffic}, its bound {bound}, and optimal is {plan.optimal}")
    most = _most_at_once(graph, plan, memory, stays, over)
    return [
        HeldRule("residency", f"{len(stays):,} stretches, none sticks out of its memory or overlaps another"),
        HeldRule("moves", f"{len(plan.moves or []):,}; whatever is read is there"),
        HeldRule("traffic", format_size(traffic)),
    ], most


def _stays(graph: Graph, plan: Plan, memory: CheckedMemory, sizes: Mapping[str, int]) -> list[_Stay]:
    tensors_of: dict[_Stay, set[int]] = {}
    steps = len(plan.order)
    for r in plan.residency or []:
        tensor = graph.tensor_by_id.get(r.tensor)
        if tensor is None or r.tensor not in memory.storage_of:
            raise VerificationError("residency", f"tensor {r.tensor} has a residency, and takes no memory")
        storage = memory.storage_of[r.tensor]
        low = r.offset - memory.place[r.tensor][1]
        if r.memory not in sizes:
            raise VerificationError("residency", f"{tensor.label} is in {r.memory!r}, which is no memory of the plan")
        if low < 0 or low + memory.storages[storage].size > sizes[r.memory]:
            raise VerificationError("residency", f"{tensor.label} at {r.offset} ends outside of {r.memory}")
        if not 0 <= r.start < r.end <= steps + 1:
            raise VerificationError("residency", f"{tensor.label} is there in no steps: {r.start} to {r.end}")
        tensors_of.setdefault(_Stay(storage, r.memory, low, r.start, r.end), set()).add(r.tensor)
    for stay, tensors in tensors_of.items():
        missing = [t for t in memory.storages[stay.storage].tensors if graph.tensor_by_id[t].size and t not in tensors]
        if missing:
            raise VerificationError("residency", f"tensor {missing[0]} is not where its storage is, at {stay.start}")
    return sorted(tensors_of, key=lambda s: (s.start, s.storage, s.memory))


def _check_overlaps(
    graph: Graph, plan: Plan, memory: CheckedMemory, stays: Sequence[_Stay], over: Mapping[int, int]
) -> None:
    """No byte is used twice at one time; an output may lie over the input that it overwrites while its op runs."""
    workspace = workspace_offsets(plan, memory)
    fast = (plan.memories or [])[0]
    live = {m.name: LiveAddresses() for m in plan.memories or []}
    starting: dict[int, list[_Stay]] = {}
    ending: dict[int, list[_Stay]] = {}
    for stay in stays:
        starting.setdefault(stay.start, []).append(stay)
        ending.setdefault(stay.end, []).append(stay)
    late: list[_Stay] = []

    def add(stay: _Stay, step: int) -> None:
        storage = memory.storages[stay.storage]
        name = graph.tensor_by_id[storage.tensors[0]].label
        live[stay.memory].add(stay.offset, stay.offset + storage.size, name, step)

    for step in range(len(plan.order) + 1):
        for stay in ending.get(step, ()):
            if stay not in late:
                live[stay.memory].remove(stay.offset)
        for stay in late:
            if stay.end > step:
                add(stay, step)
        late = []
        v = plan.order[step] if step < len(plan.order) else None
        output = memory.storage_of[graph.op_by_id[v].outputs[0]] if v in over and v is not None else None
        for stay in starting.get(step, ()):
            if stay.offset % plan.alignment and stay.storage != output:
                raise VerificationError("alignment", f"block {stay.storage} is at {stay.offset}")
            if stay.storage == output and stay.memory == fast.name and v is not None:
                _check_over(graph, memory, stays, stay, over[v], step)
                late.append(stay)
            else:
                add(stay, step)
        if v is not None and memory.workspace[v]:
            if v not in workspace:
                raise VerificationError("workspace", f"the workspace of op {v} has no offset")
            low, size = workspace[v], memory.workspace[v]
            if low < 0 or low % plan.alignment or low + size > fast.capacity_bytes:
                raise VerificationError("workspace", f"the workspace of op {v} at {low} is not in {fast.name}")
            live[fast.name].touch(low, size, f"the workspace of op {v}", step)


def _check_sizes(plan: Plan, memory: CheckedMemory, stays: Sequence[_Stay]) -> None:
    """Each memory is said to hold what ends highest in it, and the first of them to be the arena."""
    tops = {m.name: 0 for m in plan.memories or []}
    for stay in stays:
        tops[stay.memory] = max(tops[stay.memory], stay.offset + memory.storages[stay.storage].size)
    fast = (plan.memories or [])[0].name
    for v, low in workspace_offsets(plan, memory).items():
        tops[fast] = max(tops[fast], low + memory.workspace[v])
    for m in plan.memories or []:
        if m.size_bytes is not None and m.size_bytes != tops[m.name]:
            raise VerificationError("memories", f"{m.name} is used up to {tops[m.name]}, not {m.size_bytes} bytes")
    if plan.arena_bytes != tops[fast] or plan.required_bytes != tops[fast]:
        raise VerificationError(
            "arena",
            f"{fast} is used up to {tops[fast]}; the plan says {plan.arena_bytes}, and {plan.required_bytes} required",
        )


def _check_over(
    graph: Graph, memory: CheckedMemory, stays: Sequence[_Stay], stay: _Stay, overwritten: int, step: int
) -> None:
    """The output has exactly the offset of the input, which is live for the last time."""
    at = memory.storage_of[overwritten]
    under = next((s for s in stays if s.storage == at and s.memory == stay.memory and s.start <= step < s.end), None)
    if under is None or under.end != step + 1 or under.offset + memory.place[overwritten][1] != stay.offset:
        label = graph.tensor_by_id[overwritten].label
        raise VerificationError(
            "in_place_offset", f"step {step}: the output is not at the offset of {label}, which ends there"
        )


def _most_at_once(
    graph: Graph, plan: Plan, memory: CheckedMemory, stays: Sequence[_Stay], over: Mapping[int, int]
) -> int:
    """Most bytes in the fast memory while an op runs, its workspace too, shared bytes counted once."""
    fast = (plan.memories or [])[0].name
    change = [0] * (len(plan.order) + 2)
    for stay in stays:
        if stay.memory == fast:
            change[stay.start] += memory.storages[stay.storage].size
            change[stay.end] -= memory.storages[stay.storage].size
    most = live = 0
    for step, v in enumerate(plan.order):
        live += change[step]
        saved = graph.tensor_by_id[graph.op_by_id[v].outputs[0]].size if v in over else 0
        most = max(most, live + memory.workspace[v] - saved)
    return most


class _MoveReplay:
    """What is where, and of which version."""

    def __init__(self, graph: Graph, plan: Plan, memory: CheckedMemory, stays: Sequence[_Stay]) -> None:
        self.graph, self.plan, self.memory, self.stays = graph, plan, memory, stays
        self.rules = plan.spilling or Spilling()
        self.fast = (plan.memories or [])[0].name
        self.level = {m.name: k for k, m in enumerate(plan.memories or [])} | {HOST: len(plan.memories or [])}
        kinds = graph.tensor_by_id
        self.constant = [any(kinds[t].kind is Kind.CONSTANT for t in b.tensors) for b in memory.storages]
        self.output = [any(kinds[t].kind is Kind.OUTPUT for t in b.tensors) for b in memory.storages]
        self.outside = [
            any(t not in graph.producer and kinds[t].kind is not Kind.ACTIVATION for t in b.tensors)
            for b in memory.storages
        ]
        self.writers: list[set[int]] = [set() for _ in memory.storages]
        for op in graph.ops:
            for t in op.outputs:
                if t in memory.storage_of and t not in memory.views:
                    self.writers[memory.storage_of[t]].add(op.id)
        self.version = [0] * len(memory.storages)
        self.left = [len(w) for w in self.writers]
        self.holds: dict[tuple[int, str], int] = {}
        self.copies: dict[int, int] = {}  # by spills
        self.loaded: set[int] = set()

    def run(self) -> None:
        """Go through the steps; raise `VerificationError` at the first thing that is not there."""
        starting: dict[int, list[_Stay]] = {}
        ending: dict[int, list[_Stay]] = {}
        for stay in self.stays:
            starting.setdefault(stay.start, []).append(stay)
            ending.setdefault(stay.end, []).append(stay)
        moves: dict[int, list[PlanMove]] = {}
        for move in self.plan.moves or []:
            moves.setdefault(move.step, []).append(move)
        self._check_lead(starting)
        steps = len(self.plan.order)
        if any(not 0 <= step <= steps for step in moves):
            raise VerificationError("moves", "a move happens at a step that is not there")
        for step in range(steps + 1):
            begins = {(s.storage, s.memory) for s in starting.get(step, ())}
            ended = {(s.storage, s.memory) for s in ending.get(step, ())}
            filled = self._move(step, moves.get(step, ()), begins, ended)
            for stay in ending.get(step, ()):
                self.holds.pop((stay.storage, stay.memory), None)
                if stay.memory == self.fast and not self.rules.write_once:
                    spilled = any(self._storage(m) == stay.storage and m.kind == "spill" for m in moves.get(step, ()))
                    if not spilled:
                        self.copies.pop(stay.storage, None)
            for stay in starting.get(step, ()):
                self._begin(stay, filled)
            if step < steps:
                self._run(step, self.plan.order[step])
        self._end(steps)

    def _check_lead(self, starting: Mapping[int, Sequence[_Stay]]) -> None:
        """What is moved in or loaded is not used for `lead` steps, unless it comes at step 0."""
        begun: set[int] = set()
        for step in sorted(starting):
            for stay in starting[step]:
                first = stay.storage not in begun and not self.outside[stay.storage]
                if stay.memory != self.fast:
                    continue
                begun.add(stay.storage)
                if first or not step:
                    continue
                early = self.plan.order[step : step + self.rules.lead]
                used = [v for v in early if stay.storage in self.memory.touches[v]]
                at_end = self.rules.outputs_end_fast and self.output[stay.storage] and len(early) < self.rules.lead
                if used or at_end:
                    raise VerificationError("moves", f"step {step}: block {stay.storage} comes in too late for its use")

    def _storage(self, move: PlanMove) -> int:
        return self.memory.storage_of.get(move.tensor, -1)

    def _free_copy(self, storage: int) -> bool:
        """Whether the host has this version without its being moved there for it."""
        rules = self.rules
        first = self.version[storage] == 0 and (
            self.constant[storage] or (self.outside[storage] and rules.inputs_have_copy)
        )
        return first or (self.output[storage] and rules.outputs_written_early and self.left[storage] == 0)

    def _move(
        self, step: int, moves: Sequence[PlanMove], begins: set[tuple[int, str]], ended: set[tuple[int, str]]
    ) -> set[tuple[int, str]]:
        filled: set[tuple[int, str]] = set()
        for move in moves:
            storage = self._storage(move)
            if storage < 0:
                raise VerificationError("moves", f"step {step}: tensor {move.tensor} takes no memory, but is moved")
            name = self.graph.tensor_by_id[move.tensor].label
            if move.source not in self.level or move.goal not in self.level or move.source == move.goal:
                raise VerificationError("moves", f"step {step}: {name} goes from {move.source!r} to {move.goal!r}")
            if (move.kind == "spill") != (self.level[move.goal] > self.level[move.source]):
                raise VerificationError("moves", f"step {step}: a {move.kind} of {name} goes the wrong way")
            if move.bytes != self.memory.storages[storage].size:
                raise VerificationError("moves", f"step {step}: {name} is moved with {move.bytes} bytes")
            held = (
                self.version[storage] if move.source == HOST and self._free_copy(storage)
                else self.copies.get(storage, -1) if move.source == HOST
                else self.holds.get((storage, move.source), -1)
            )  # fmt: skip
            if held != self.version[storage]:
                raise VerificationError("moves", f"step {step}: {name} is moved, but {move.source} does not hold it")
            if move.kind == "fill" and (storage, move.source) in ended:
                raise VerificationError("moves", f"step {step}: {name} has left {move.source} before it is filled")
            if move.goal == HOST:
                self.copies[storage] = held
                continue
            if (storage, move.goal) not in begins:
                raise VerificationError(
                    "moves", f"step {step}: {name} is moved to {move.goal}, where it is not resident"
                )
            filled.add((storage, move.goal))
        return filled

    def _begin(self, stay: _Stay, filled: set[tuple[int, str]]) -> None:
        key = (stay.storage, stay.memory)
        if key in self.holds:
            raise VerificationError("residency", f"block {stay.storage} is twice in {stay.memory} at step {stay.start}")
        if key in filled:
            self.holds[key] = self.version[stay.storage]
        elif stay.memory == self.fast and self.outside[stay.storage] and stay.storage not in self.loaded:
            self.loaded.add(stay.storage)
            self.holds[key] = 0
        else:
            self.holds[key] = -1

    def _run(self, step: int, v: int) -> None:
        for storage in self.memory.touches[v]:
            if not self.memory.storages[storage].size:
                continue
            label = self.graph.tensor_by_id[self.memory.storages[storage].tensors[0]].label
            op = self.graph.op_by_id[v].label
            if (storage, self.fast) not in self.holds:
                raise VerificationError("moves", f"step {step}: {op} needs {label}, which is not in {self.fast}")
            writes = v in self.writers[storage]
            begins = writes and self.version[storage] == 0 and not self.outside[storage]
            if self.holds[storage, self.fast] != self.version[storage] and not begins:
                raise VerificationError("moves", f"step {step}: {op} reads {label}, which was not filled")
            if writes:
                self.version[storage] += 1
                self.left[storage] -= 1
                self.holds[storage, self.fast] = self.version[storage]

    def _end(self, steps: int) -> None:
        at_end = {s.storage for s in self.stays if s.memory == self.fast and s.end >= steps}
        for storage, output in enumerate(self.output):
            if not output or not self.memory.storages[storage].size:
                continue
            label = self.graph.tensor_by_id[self.memory.storages[storage].tensors[0]].label
            there = self.holds.get((storage, self.fast)) == self.version[storage]
            if self.rules.outputs_end_fast and not there:
                raise VerificationError("moves", f"output {label} is not in {self.fast} at the end")
            moved = self.writers[storage] or storage in self.loaded
            safe = storage in at_end or self._free_copy(storage) or self.copies.get(storage) == self.version[storage]
            safe = safe or any(held == self.version[storage] for (b, _), held in self.holds.items() if b == storage)
            if moved and not safe:
                raise VerificationError("moves", f"output {label} left before it was written")
