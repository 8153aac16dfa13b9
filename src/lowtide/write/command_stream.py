"""What a driver runs for a plan with spilling: allocate, load, fill, run, spill, store, free, in this order at a step.

`load` is the first transfer of a graph input or constant and `store` the one write of a graph output: both have to
happen under any plan and are no traffic. The rest of the transfers are the plan's moves. Of a tensor that is resident
on the host (`Plan.streams`) slices are loaded, and slices that are concatenated to it are stored, in the place of those
ops. `run` says where an op has its workspace, if it has one: in that step nothing else may lie there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec

from lowtide.plan import Plan
from lowtide.spill_plan import HOST, PlanMove, Residency

Action = Literal["spill", "store", "free", "allocate", "load", "fill", "run"]


@dataclass(frozen=True)
class Workspace:
    """Where an op has its workspace while it runs; `bytes` is None where the plan has no profile, which says them."""

    memory: str
    offset: int
    bytes: int | None = None


@dataclass(frozen=True)
class Command:
    """One command of step `step`. Commands on a tensor mean its full storage; `run` has an op instead.

    `workspace` is that of the op, if it has one. `memory` and `offset` are where the tensor is allocated (of a
    transfer: in the nearer memory), `other` is the memory at the far side of a transfer.
    """

    step: int
    action: Action
    op: int | None = None
    tensor: int | None = None
    memory: str | None = None
    offset: int | None = None
    other: str | None = None
    bytes: int | None = None
    workspace: Workspace | None = None


def command_stream(plan: Plan) -> list[Command]:
    """The commands of a plan with moves, in the order in which they are run."""
    assert plan.moves is not None
    tensors = {t.id: t for t in plan.tensors}
    roots = _roots(plan)
    loaded, stored, transfers = _streamed(plan)
    sizes: dict[int, int] = {}
    stays: dict[int, list[Residency]] = {}
    kinds: dict[int, set[str]] = {}
    for r in plan.residency or []:
        root = roots[r.tensor]
        kind = "input" if r.tensor in loaded else "output" if r.tensor in stored else tensors[r.tensor].kind
        kinds.setdefault(root, set()).add(kind)
        if r.tensor == root:
            stays.setdefault(root, []).append(r)
            sizes[root] = tensors[root].size
    first = plan.memories[0].name if plan.memories else HOST
    moved: dict[tuple[int, int, str], PlanMove] = {(m.step, roots[m.tensor], m.kind): m for m in plan.moves}
    for m in plan.moves:
        sizes[roots[m.tensor]] = m.bytes
    before: list[Command] = []
    for root, visits in stays.items():
        near = sorted((v for v in visits if v.memory == first), key=lambda v: v.start)
        spilled = False
        for k, v in enumerate(near):
            at = {"tensor": root, "memory": first, "offset": v.offset, "bytes": sizes[root]}
            before.append(Command(v.start, "allocate", **at))
            fill = moved.get((v.start, root, "fill"))
            if fill is not None:
                before.append(Command(v.start, "fill", other=fill.source, **at))
            elif k == 0 and kinds[root] & {"input", "constant"}:
                before.append(Command(v.start, "load", other=HOST, **at))
            spill = moved.get((v.end, root, "spill"))
            if spill is not None:
                before.append(Command(v.end, "spill", other=spill.goal, **at))
                spilled = True
            elif "output" in kinds[root] and _to_be_stored(plan, v, near[k + 1 :], spilled=spilled):
                before.append(Command(v.end, "store", other=HOST, **at))
                spilled = True
            before.append(Command(v.end, "free", **at))
        for v in visits:
            if v.memory != first:
                at = {"tensor": root, "memory": v.memory, "offset": v.offset, "bytes": sizes[root]}
                before.append(Command(v.start, "allocate", **at))
                before.append(Command(v.end, "free", **at))
    spaces = _workspaces(plan, first)
    runs = [
        Command(step, "run", op=op, workspace=spaces.get(op))
        for step, op in enumerate(plan.order)
        if op not in transfers
    ]
    return sorted([*before, *runs], key=lambda c: (c.step, _rank(c, first), c.tensor or 0))


def _workspaces(plan: Plan, first: str) -> dict[int, Workspace]:
    """Of each op that has one."""
    memories, sizes = plan.workspace_memories or {}, plan.profile.workspaces if plan.profile is not None else {}
    return {
        int(op): Workspace(memories.get(op, first), offset, sizes.get(op))
        for op, offset in (plan.workspace_offsets or {}).items()
    }


def _streamed(plan: Plan) -> tuple[set[int], set[int], set[int]]:
    """Tensors that are loaded and stored, and ops that are nothing but that, where full tensors are resident on the
    host."""
    streamed = {s.tensor for s in plan.streams or []}
    if not streamed:
        return set(), set(), set()
    parts = {op.id: op.part for op in plan.ops if op.part is not None}
    readers: dict[int, list[int]] = {}
    for op, part in parts.items():
        for t in part.inputs:
            if t is not None:
                readers.setdefault(t, []).append(op)
    slices = {op for op, part in parts.items() if part.role == "slice" and part.inputs[0] in streamed}
    joins: set[int] = set()
    for op in reversed(plan.order):
        part = parts.get(op)
        if part is not None and part.role == "join":
            of = readers.get(part.outputs[0], [])
            if part.outputs[0] in streamed or (of and joins.issuperset(of)):
                joins.add(op)
    put_together = {parts[op].outputs[0] for op in joins}
    operands = {t for op in joins for t in parts[op].inputs if t is not None and t not in put_together}
    made = {t for op in parts.values() for t in op.outputs} - put_together
    inputs = {t.id for t in plan.tensors if t.kind == "input"}
    loaded = {parts[op].outputs[0] for op in slices} | (streamed & put_together) | (streamed & inputs)
    return loaded, operands | (streamed - loaded - made), slices | joins


_RANK: dict[Action, int] = {"spill": 2, "store": 3, "free": 4, "allocate": 5, "load": 6, "fill": 7, "run": 8}


def _rank(command: Command, first: str) -> int:
    """Within a step; room for a copy beyond the fast memory is made before anything leaves."""
    if command.memory != first and command.action in ("free", "allocate"):
        return 0 if command.action == "free" else 1
    return _RANK[command.action]


def _roots(plan: Plan) -> dict[int, int]:
    """Tensor to the one whose storage holds it."""
    above = {t.id: t.alias_of for t in plan.tensors}
    roots: dict[int, int] = {}
    for t in above:
        at, source = t, above[t]
        while source is not None:
            at, source = source, above[source]
        roots[t] = at
    return roots


def _to_be_stored(plan: Plan, visit: Residency, later: list[Residency], *, spilled: bool) -> bool:
    """Whether an output goes to the host when this stretch of it ends: it comes back from there, or never does."""
    fast_to_the_end = plan.spilling is not None and plan.spilling.outputs_end_fast
    if later:
        return not spilled
    return not spilled and not (fast_to_the_end and visit.end > len(plan.order))


def commands_json(plan: Plan) -> bytes:
    """The commands as a JSON list; what does not apply to a command is left out."""
    rows = [asdict(c, dict_factory=_present) for c in command_stream(plan)]
    return msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n"


def _present(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if value is not None}


def commands_text(plan: Plan) -> bytes:
    """The commands as text, one a line."""
    names = {t.id: t.name or f"t{t.id}" for t in plan.tensors}
    ops = {op.id: (op.name or f"op{op.id}", op.type) for op in plan.ops}
    lines = []
    for c in command_stream(plan):
        if c.op is not None:
            text = f"{c.step:5d}  run       {ops[c.op][0]}  {ops[c.op][1]}".rstrip()
            if c.workspace is not None:
                size = "" if c.workspace.bytes is None else f"  {c.workspace.bytes} B"
                text += f"  workspace {c.workspace.memory}+{c.workspace.offset}{size}"
            lines.append(text)
            continue
        assert c.tensor is not None
        text = f"{c.step:5d}  {c.action:8s}  {c.memory}+{c.offset:<10d}  {c.bytes:10d} B  {names[c.tensor]}"
        if c.other is not None:
            text += f"  {'to' if c.action in ('spill', 'store') else 'from'} {c.other}"
        lines.append(text)
    return ("\n".join(lines) + "\n").encode()
