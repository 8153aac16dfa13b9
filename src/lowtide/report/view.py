"""What a picture of a plan shows, from the plan alone; text, SVG and HTML only draw it.

A *rectangle* is memory that holds something for some steps: a storage, one stay of a storage in a memory where the plan
moves it, or an op's workspace. Its height is bytes, its width steps:

    address
      ^   +-----------+
      |   | b         |          a is written over b's bytes in its first step, where both are there
      |   +--------+--+------+
      |            | a       |   live bytes of a step: all rectangles there, less what two share
      +------------+--+------+--> step
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from lowtide.errors import InputError
from lowtide.plan import Plan, PlanOp, PlanTensor
from lowtide.profiles import PlanProfile
from lowtide.rewrites import ConcatElimination, CutRegion, Recompute, Swap, TensorAlias
from lowtide.spill_plan import PlanMove

KINDS = ("activation", "input", "output", "constant", "workspace")
"""Of rectangles, in the order in which they are stacked, the lowest first."""

ARENA = "arena"  # name of the memory where there is only one


@dataclass(frozen=True, slots=True)
class ViewOp:
    """What runs in a step."""

    # op, name, type: of the planned graph.
    op: int
    name: str
    type: str
    # Name of the user's op that this one is: itself, the one that it recomputes, or the one that it is a part of; empty
    # for an op that a cut added.
    of: str
    # ``"again"`` (also of a part), ``"loop"``, ``"store"`` and ``"load"`` (to the host and back), ``"part"`` or what
    # else a cut made it (`PlanPart.role`); empty for an op of the user's own.
    edit: str = ""


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Bytes of a memory for some steps."""

    tensor: int | None  # id of the storage's root tensor; None for a workspace
    # name, kind: its name, or the op's; one of `KINDS`.
    name: str
    kind: str
    # size, start, end: bytes, and steps ``[start, end)``.
    size: int
    start: int
    end: int
    # memory, offset: index in `PlanView.memories` and bytes from that one's start; None where the plan has no
    # addresses.
    memory: int = 0
    offset: int | None = None
    over: int | None = None  # index of the rectangle that it is written over, wholly or in part, in its first step
    shares: tuple[str, ...] = ()  # names of the other tensors in the storage
    # dtype, shape: of the root tensor, where the model says them.
    dtype: str | None = None
    shape: str | None = None
    used: tuple[int, int] = (0, 0)  # steps from the first use to after the last


@dataclass(frozen=True, slots=True)
class ViewMemory:
    """A memory: its name, the bytes that the plan takes of it, those that there are (None: no limit)."""

    name: str
    size: int
    capacity: int | None = None


@dataclass(frozen=True)
class PlanView:
    """All that a picture of a plan shows. Sizes are bytes."""

    plan: Plan  # the plan
    ops: tuple[ViewOp, ...]  # what runs in each step
    rectangles: tuple[Rectangle, ...]  # storages in the order of their first step, then workspaces
    memories: tuple[ViewMemory, ...]  # those that rectangles lie in; empty where the plan has no addresses
    # live_bytes, own_order_bytes: footprint of each step, of the plan and of the user's graph in its own order; with
    # moves the plan's are those of the fast memory.
    live_bytes: tuple[int, ...]
    own_order_bytes: tuple[int, ...]
    bound_bytes: int | None  # what no order needs less than; None with moves, where the traffic is what is bounded
    room_bytes: int | None  # what the budget, or the fast memory, leaves for what is drawn; None without one
    # Of each region that runs in parts: first step, steps of a part, and count; each part has its own tensors.
    repeated: tuple[tuple[int, int, int], ...] = ()

    @classmethod
    def of(cls, plan: Plan, place: str = "plan") -> PlanView:
        """The view of a plan. Raises `InputError`: the plan has no `profile`, as those of earlier versions and those
        that a check makes, or one that does not agree with the rest of it."""
        profile = plan.profile
        if profile is None:
            raise InputError(
                "the plan has no profile, which says when its tensors are live; make the plan again", place
            )
        try:
            rectangles = tuple(_rectangles(plan, profile))
            live = tuple(profile.bytes if plan.moves is None else _fast_bytes(plan, rectangles))
            ops = tuple(_view_ops(plan))
        except (KeyError, IndexError, ValueError) as error:
            raise InputError(f"its profile is of other tensors or steps ({error}); plan again", place) from None
        bound = None if plan.moves is not None else plan.lower_bound_bytes
        own = tuple(profile.own_order_bytes)
        view = cls(plan, ops, rectangles, _memories(plan), live, own, bound, _room(plan))
        if not view._adds_up():
            raise InputError(f"its profile does not add up over its {len(ops):,} steps; plan again", place)
        return view

    def _adds_up(self) -> bool:
        """Whether rectangles lie within the steps, and hold what is live at each of them."""
        steps = len(self.ops)
        placed = all(
            0 <= r.start <= r.end <= max(steps, 1) and r.size >= 0 and (r.offset or 0) >= 0 for r in self.rectangles
        )
        sizes = (*self.live_bytes, *self.own_order_bytes, *(m.size for m in self.memories))
        return placed and len(self.live_bytes) == steps and min((*sizes, *self.shared_bytes), default=0) >= 0

    @property
    def steps(self) -> int:
        """How many ops run."""
        return len(self.ops)

    @property
    def peak_step(self) -> int:
        """First step with the most live bytes; 0 without steps."""
        return self.live_bytes.index(max(self.live_bytes)) if self.live_bytes else 0

    @property
    def peak_bytes(self) -> int:
        """Most live bytes of a step."""
        return max(self.live_bytes, default=0)

    def counts(self, rectangle: Rectangle) -> bool:
        """Whether a rectangle is among the live bytes: with moves only those of the fast memory are."""
        return self.plan.moves is None or rectangle.memory == 0

    def at(self, step: int) -> list[int]:
        """Indices of the rectangles that are counted at a step, the largest first."""
        live = [i for i, r in enumerate(self.rectangles) if r.start <= step < r.end and self.counts(r)]
        return sorted(live, key=lambda i: (-self.rectangles[i].size, i))

    @cached_property
    def shared_bytes(self) -> tuple[int, ...]:
        """Per step, what is counted once though two rectangles hold it: outputs over inputs that end there."""
        sums = _sums(self.steps, ((r.start, r.end, r.size) for r in self.rectangles if self.counts(r)))
        return tuple(all_of_it - live for all_of_it, live in zip(sums, self.live_bytes, strict=True))

    @cached_property
    def kinds(self) -> Mapping[str, tuple[int, ...]]:
        """Live bytes per step of each kind there is. What is shared is taken from the kind of what begins there, so
        that the kinds add up to `live_bytes`."""
        columns: dict[str, list[int]] = {}
        for kind in KINDS:
            spans = [(r.start, r.end, r.size) for r in self.rectangles if r.kind == kind and self.counts(r)]
            if spans:
                columns[kind] = _sums(self.steps, spans)
        begins: dict[int, Rectangle] = {}
        for r in self.rectangles:
            if self.counts(r) and r.tensor is not None and (r.start not in begins or begins[r.start].size < r.size):
                begins[r.start] = r
        for step, shared in enumerate(self.shared_bytes):
            if shared and step in begins:
                columns[begins[step].kind][step] -= shared
        return {kind: tuple(column) for kind, column in columns.items()}

    @property
    def moves(self) -> Sequence[PlanMove]:
        """Spills and fills, by step."""
        return self.plan.moves or ()

    @property
    def edits(self) -> Mapping[str, int]:
        """How many ops were cut, recomputed, in parts, in loops or over an input, tensors that leave memory or lie in
        others, and moves; those there are."""
        rewrites = self.plan.all_rewrites
        parted = () if self.plan.fission is None else self.plan.fission.parts
        counts = {
            "tiled": sum(len(r.ops) for r in rewrites if isinstance(r, CutRegion | ConcatElimination)),
            "in tiles": sum(len(part.ops) for part in parted),
            "recomputed": sum(isinstance(r, Recompute) for r in rewrites),
            "recomputed in each tile": sum(
                r["kind"] == "recompute" for p in parted for r in p.body.get("rewrites") or ()
            ),
            "stored on the host": sum(isinstance(r, Swap) for r in rewrites),
            "in loops": sum(len(loop.ops) for loop in self.plan.loops or ()),
            "aliased": sum(isinstance(r, TensorAlias) for r in rewrites),
            "in place": len(self.plan.in_place) + len(self.plan.overlap or ()),
            "moves": len(self.moves),
        }
        return {what: count for what, count in counts.items() if count}


def _view_ops(plan: Plan) -> Iterator[ViewOp]:
    by_id = {op.id: op for op in plan.ops}
    alone = {loop.op: "loop" for loop in plan.loops or ()}
    alone |= {part.op: "part" for part in (() if plan.fission is None else plan.fission.parts)}
    for r in plan.rewrites or ():
        alone |= {r.store: "store", **{load.op: "load" for load in r.loads}} if isinstance(r, Swap) else {}
    recomputed = {r.op for r in plan.rewrites or () if isinstance(r, Recompute)}
    for v in plan.order:
        op = by_id[v]
        if v in alone:
            yield ViewOp(v, op.name or f"op {v}", op.type, op.name or f"op {v}", alone[v])
        elif op.recompute_of is not None:
            first = by_id.get(op.recompute_of, op)  # which may be there in parts alone
            yield ViewOp(v, op.name or f"op {v}", op.type, first.name or f"op {first.id}", "again")
        elif op.part is not None:
            of = by_id.get(op.origin[0]) if op.origin else None
            name = "" if not op.origin else of.name if of is not None else _untiled_name(op)
            role = "again" if op.part.role == "part" and recomputed.intersection(op.origin or ()) else op.part.role
            yield ViewOp(v, op.name or f"op {v}", op.type, name, role)
        else:
            yield ViewOp(v, op.name or f"op {v}", op.type, op.name or f"op {v}")


def _untiled_name(op: PlanOp) -> str:
    """Name of the user's op that a part is of: rows 0 to 2 of ``conv`` are called ``conv/0-3``, with a mark before the
    slash where it is recomputed."""
    rows = None if op.part is None else op.part.rows
    return re.sub(rf"( \(again( \d+)?\))?/{rows[0]}-{rows[1]}(_\d+)?$", "", op.name) if rows else op.name


def _rectangles(plan: Plan, profile: PlanProfile) -> Iterator[Rectangle]:
    """Storages by first step, then workspaces."""
    tensors = {t.id: t for t in plan.tensors}
    root_of = _named(plan, profile, tensors)
    members: dict[int, list[PlanTensor]] = {}
    for t in plan.tensors:
        members.setdefault(root_of[t.id], []).append(t)
    names = [m.name for m in _memories(plan)]
    lives = sorted(_lives(plan, profile, root_of, names), key=lambda life: (life[1], life[2], life[0]))
    begins: dict[tuple[int, int], int] = {}
    for i, (root, start, _, memory, _) in enumerate(lives):
        if plan.moves is None or memory == 0:
            begins.setdefault((root, start), i)
    over = _overs(plan, lives, root_of, begins)
    for i, (root, start, end, memory, offset) in enumerate(lives):
        root_tensor, group = tensors[root], members[root]
        size = profile.sizes.get(str(root), root_tensor.size)
        kind = min((t.kind for t in group), key=("output", "input", "constant", "activation").index)
        shares = tuple(t.name or f"tensor {t.id}" for t in group if t.id != root)
        yield Rectangle(
            root, root_tensor.name or f"tensor {root}", kind, size, start, end, memory,
            offset, over.get(i), shares, root_tensor.dtype, root_tensor.shape,
            profile.used.get(str(root), (start, end)),
        )  # fmt: skip
    yield from _workspaces(plan, profile, names)


def _workspaces(plan: Plan, profile: PlanProfile, names: Sequence[str]) -> Iterator[Rectangle]:
    label = {op.id: op.name or f"op {op.id}" for op in plan.ops}
    for step, v in enumerate(plan.order):
        size = profile.workspaces.get(str(v))
        if size:
            offset = (plan.workspace_offsets or {}).get(str(v))
            memory = names.index((plan.workspace_memories or {}).get(str(v), names[0])) if names else 0
            yield Rectangle(None, label[v], "workspace", size, step, step + 1, memory, offset, used=(step, step + 1))


_Life = tuple[int, int, int, int, int | None]
"""Root, first step, step after the last, index of the memory, offset there."""


def _lives(plan: Plan, profile: PlanProfile, root_of: Mapping[int, int], names: Sequence[str]) -> Iterator[_Life]:
    """Every stay of a storage in a memory."""
    if plan.moves is not None:
        for r in plan.residency or ():
            if root_of[r.tensor] == r.tensor and r.start < len(plan.order):  # what comes after the end is not drawn
                yield r.tensor, r.start, min(r.end, len(plan.order)), names.index(r.memory), r.offset
        return
    home: dict[int, tuple[int, int]] = {}
    own: set[int] = set()
    for tensor, memory, offset in _homes(plan, names):  # a root without bytes has no place of its own: then the lowest
        root = root_of[tensor]
        if tensor == root or root not in home or (root not in own and offset < home[root][1]):
            home[root] = memory, offset
        if tensor == root:
            own.add(root)
    for root, start, end in zip(profile.storages, profile.starts, profile.ends, strict=True):
        memory, offset = home.get(root, (0, None))
        yield root, start, end, memory, None if offset is None else offset + profile.lows.get(str(root), 0)


def _homes(plan: Plan, names: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Tensors, each with the index of its memory and its offset there."""
    for r in plan.residency or ():
        yield r.tensor, names.index(r.memory), r.offset
    for tensor, offset in (plan.offsets or {}).items():
        yield int(tensor), 0, offset


def _overs(
    plan: Plan, lives: Sequence[_Life], root_of: Mapping[int, int], begins: Mapping[tuple[int, int], int]
) -> dict[int, int]:
    """Which stay is written over which other one."""
    first: dict[int, int] = {}
    ending: dict[tuple[int, int], int] = {}
    for i, (root, start, end, memory, _) in enumerate(lives):
        if plan.moves is None or memory == 0:
            first[root] = min(start, first.get(root, start))
            ending[root, end] = i
    over: dict[int, int] = {}
    for output, read in [*plan.in_place, *((output, read) for output, read, _ in plan.overlap or ())]:
        start = first.get(root_of[output])
        if start is None:
            continue
        under = ending.get((root_of[read], start + 1))
        if under is not None:
            over.setdefault(begins[root_of[output], start], under)
    return over


def _named(plan: Plan, profile: PlanProfile, tensors: Mapping[int, PlanTensor]) -> dict[int, int]:
    """The tensor by which the storage goes that holds each one: the root, or of a group of storages with lifetimes of
    their own the one at the same place, if there is one, else one of them."""
    root_of = _roots(tensors)
    stretches: dict[int, list[int]] = {}
    for t in profile.storages:
        stretches.setdefault(root_of[t], []).append(t)
    offsets = {int(t): at for t, at in (plan.offsets or {}).items()}
    for t, root in dict(root_of).items():
        names = stretches.get(root, [root])
        if names != [root]:
            same = [n for n in names if (offsets.get(n), tensors[n].size) == (offsets.get(t), tensors[t].size)]
            root_of[t] = t if t in names else (same or names)[0]
    return root_of


def _roots(tensors: Mapping[int, PlanTensor]) -> dict[int, int]:
    """The tensor that is no alias whose storage holds each one. Raises ValueError if aliases form a cycle."""
    root_of: dict[int, int] = {}
    for t in tensors:
        trail: list[int] = []
        at = t
        while at not in root_of and tensors[at].alias_of is not None:
            trail.append(at)
            at = tensors[at].alias_of or 0
            if len(trail) > len(tensors):
                raise ValueError("aliases go round")
        root = root_of.setdefault(at, at)
        root_of.update(dict.fromkeys(trail, root))
    return root_of


def _memories(plan: Plan) -> tuple[ViewMemory, ...]:
    """Those with addresses in the plan, the fastest first."""
    arenas = plan.runtime_arenas
    if arenas is not None:
        capacity = next((m.capacity_bytes for m in plan.memories or () if m.name == arenas.head_memory), None)
        return (ViewMemory(arenas.head_memory, plan.arena_bytes or 0, capacity),)
    if plan.memories is not None:
        return tuple(ViewMemory(m.name, m.size_bytes or 0, m.capacity_bytes) for m in plan.memories)
    return () if plan.arena_bytes is None else (ViewMemory(ARENA, plan.arena_bytes, _room(plan)),)


def _room(plan: Plan) -> int | None:
    """What there is for the arena, or for what is live where there is none: the budget less what is needed in
    addition."""
    if plan.moves is not None and plan.memories:
        return plan.memories[0].capacity_bytes
    if plan.budget_bytes is None:
        return None
    drawn = plan.peak_bytes if plan.arena_bytes is None else plan.arena_bytes
    return max(plan.budget_bytes - (plan.required_bytes - drawn), 0)


def _fast_bytes(plan: Plan, rectangles: Sequence[Rectangle]) -> list[int]:
    """Bytes of the fast memory at each step: what is there, less outputs exactly over inputs that end there."""
    steps = len(plan.order)
    live = _sums(steps, ((r.start, r.end, r.size) for r in rectangles if r.memory == 0))
    for r in rectangles:
        if r.over is not None:
            live[r.start] -= min(r.size, rectangles[r.over].size)
    return live


def _sums(steps: int, spans: Iterator[tuple[int, int, int]] | Sequence[tuple[int, int, int]]) -> list[int]:
    """Per step, the sum of what is there: ``(start, end, bytes)`` each."""
    change = [0] * (steps + 2)
    for start, end, size in spans:
        change[start] += size
        change[min(end, steps + 1)] -= size
    total, sums = 0, []
    for c in change[:steps]:
        total += c
        sums.append(total)
    return sums
