"""Several memories: from what a user says of them to a plan that says what lies where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.errors import InputError
from lowtide.sizes import parse_size

if TYPE_CHECKING:
    from lowtide.allocate.banks.bank import Bank, Demand
    from lowtide.allocate.banks.boards import Board
    from lowtide.allocate.banks.memories import BankPlacement
    from lowtide.allocate.buffers import ArenaBuffers, Problem
    from lowtide.allocate.together import Layout
    from lowtide.analyse.storage import MemoryModel
    from lowtide.plan import Plan, Status
    from lowtide.stop import Limits

Banks = Sequence[str] | Mapping[str, str | int]
"""Memories, fastest first: ``["sram=256KiB", "psram=8MiB"]`` or ``{"sram": "256KiB", "psram": "8MiB"}``."""

Places = Mapping[str, str | Sequence[str]]
"""Name of a tensor or a buffer to the memories that it may lie in, the one it prefers first."""

NO_PLACES: Places = {}

MOST_ORDERS = 8
"""Orders of equal peak that are laid out in memories."""

MOST_STATES = 1_000_000
"""States of the sweeps over assignments, all orders together, after which no further order is tried."""

OPS_TO_PLACE = 8_000
"""Ops that all these orders may have together; one order is laid out in any case."""


@dataclass(frozen=True)
class MemoryUse:
    """A memory: bytes that the layout requires of it, bytes there are, and bytes too many (0 if it fits).

    `alignment` is what all offsets in it are multiples of, and its own address has to be.
    """

    name: str
    required_bytes: int
    available_bytes: int
    excess_bytes: int
    alignment: int = 1


def memory_uses(made: Plan) -> list[MemoryUse]:
    """What a plan requires of each of its memories."""
    return [
        MemoryUse(m.name, size, m.capacity_bytes, max(0, size - m.capacity_bytes), max(made.alignment, m.alignment))
        for m in made.memories or []
        for size in (m.size_bytes or 0,)
    ]


def find_banks(banks: Banks | None, board: str | Path | None) -> tuple[Bank, ...]:
    """The memories that a call names; none if it names none.

    Parameters
    ----------
    banks
        ``NAME=SIZE`` or ``NAME=SIZE@ALIGNMENT`` each, or a mapping. Beside a board those of its memories that are named
        get this size, and others come after them.
    board
        A built-in board or a TOML file.

    Raises
    ------
    InputError
        No such board, or a memory without a name or size, or named twice.
    """
    from lowtide.allocate.banks.bank import Bank
    from lowtide.allocate.banks.boards import check_names, find_board

    given: list[Bank] = []
    entries = [f"{k}={v}" for k, v in banks.items()] if isinstance(banks, Mapping) else (banks or ())
    for entry in entries:
        name, equals, rest = entry.partition("=")
        size, at, unit = rest.partition("@")
        if not (equals and name.strip() and size.strip()):
            raise InputError(f"memory {entry[:80]!r} is not NAME=SIZE, as in sram=256KiB")
        alignment = parse_size(unit, f"alignment of {name}") if at else 1
        if alignment & (alignment - 1) or alignment > 2**30:
            raise InputError(f"alignment of {name} is {alignment}; use a power of two of at most 2^30")
        given.append(Bank(name.strip(), parse_size(size, f"size of {name}"), alignment))
    check_names(given)
    if board is None:
        return tuple(given)
    changed = {b.name: b for b in given}
    known = find_board(board).banks
    merged = [
        replace(changed[b.name], alignment=max(b.alignment, changed[b.name].alignment)) if b.name in changed else b
        for b in known
    ]
    return (*merged, *(b for b in given if b.name not in {k.name for k in known}))


def boards() -> dict[str, str]:
    """Names of the built-in boards, each with its memories and a line about it."""
    from lowtide.allocate.banks.boards import boards as built_in

    return {name: f"{_banks_text(b.banks)}; {b.about}" for name, b in built_in().items()}


def board(name: str | Path) -> Board:
    """Find a board by name, or read it from a TOML file.

    Raises
    ------
    InputError
        No such board, or the file is wrong.

    >>> [(b.name, b.capacity) for b in board("rp2040").banks]
    [('sram', 270336)]
    """
    from lowtide.allocate.banks.boards import find_board

    return find_board(name)


def _banks_text(banks: Iterable[Bank]) -> str:
    return ", ".join(
        f"{b.name} {b.capacity // 2**20} MiB" if b.capacity % 2**20 == 0 else f"{b.name} {b.capacity // 1024} KiB"
        for b in banks
    )


def allowed_banks(names: str | Sequence[str], banks: Sequence[Bank], of: str) -> tuple[int, ...]:
    """Indices of the memories that something may lie in, in its own order.

    Raises
    ------
    InputError
        A memory that is not there, or is named twice.
    """
    index = {b.name: k for k, b in enumerate(banks)}
    wanted = names.split(",") if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in index:
            raise InputError(f"{of} is to lie in {name!r}; the memories are {', '.join(index)}")
    if not wanted or len(set(wanted)) != len(wanted):
        raise InputError(f"{of} is to lie in {', '.join(wanted) or 'nothing'}; name each memory once")
    return tuple(index[name] for name in wanted)


@dataclass(frozen=True)
class Banked:
    """An order in several memories: its layout (in-place choices, but no offsets), its buffers and where they lie."""

    layout: Layout
    buffers: ArenaBuffers
    found: BankPlacement

    @property
    def rank(self) -> tuple[bool, int, int]:
        """What is better comes first: it fits, the fewest bytes in slow memory, the fewest read and written there."""
        return not self.found.fits, self.found.slow_bytes, self.found.accesses_bytes


def best_in_banks(
    model: MemoryModel,
    order: tuple[int, ...],
    banks: Sequence[Bank],
    places: Places,
    limits: Limits,
    *,
    explore: bool,
) -> Banked:
    """Lay an order's storages out in several memories, each wholly in one of them: the least bytes in slow ones.

    With `explore` other orders of no higher peak are tried too, as many as `OPS_TO_PLACE` allows, and the best is kept.

    Raises
    ------
    InputError
        `places` names what is not there, or takes no memory.
    """
    from itertools import islice

    from lowtide.analyse.liveness import profile
    from lowtide.schedule.settle import equal_orders

    wanted = _places_of_storages(model, banks, places)
    explore = explore and not never_fits(model, banks, 0)
    draws = max(1, min(MOST_ORDERS, OPS_TO_PLACE // max(len(order), 1)))
    others = equal_orders(model, order, profile(model, order).peak, limits.seed) if explore and order else iter([order])
    best: Banked | None = None
    tried, states, interrupted = 0, 0, False
    try:
        for candidate in islice(others, draws):
            tried += 1
            found = _in_banks(model, candidate, banks, wanted, limits)
            if best is None or found.rank < best.rank:
                best = found
            states += found.found.counters.get("states", 0)
            interrupted = found.found.interrupted
            done = (best.found.fits and not best.found.slow_bytes) or states > MOST_STATES
            if done or interrupted or limits.left_seconds <= 0:
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        interrupted = True
    assert best is not None, "the order itself is always a candidate"
    return replace(best, layout=replace(best.layout, tried=tried, interrupted=interrupted))


def _in_banks(
    model: MemoryModel,
    order: tuple[int, ...],
    banks: Sequence[Bank],
    wanted: Mapping[int, tuple[int, ...]],
    limits: Limits,
) -> Banked:
    from lowtide.allocate.arena import Allocation
    from lowtide.allocate.banks.memories import place_in_banks
    from lowtide.allocate.buffers import arena_buffers
    from lowtide.allocate.together import Layout
    from lowtide.analyse.liveness import profile

    steps = profile(model, order)
    kept = [o for o in steps.in_place if wanted.get(o.storage) == wanted.get(model.storage_of[o.output])]
    dropped = [o for o in steps.in_place if o not in kept]
    buffers = arena_buffers(model, order, kept, model.alignment, steps)
    demands = _demands(model, buffers, len(banks), wanted)
    found = place_in_banks(buffers.problem, banks, demands, limits)
    in_place, apart = (tuple((o.output, o.input) for o in rows) for rows in (kept, dropped))
    layout = Layout(order, steps, Allocation({}, {}, 0, 0, in_place, apart, "several memories"))
    return Banked(layout, buffers, found)


def in_banks(made: Plan, model: MemoryModel, banked: Banked, banks: Sequence[Bank]) -> Plan:
    """The plan of an order (`banked.layout`) with `memories` and `residency` instead of `offsets`.

    Its status is ``"over_budget"`` or ``"impossible"`` if they do not fit.
    """
    import msgspec

    from lowtide.plan import PlanMemory, Residency

    layout, buffers, found = banked.layout, banked.buffers, banked.found
    n = max(len(layout.order), 1)
    residency = []
    for s, (b, above) in sorted(buffers.place_of.items()):
        first, last = max(layout.profile.first[s], 0), min(layout.profile.last[s] + 1, n)
        for t in model.storages[s].tensors:
            if model.graph.tensor_by_id[t].size:
                at = found.offsets[b] + above + model.displacement[t]
                residency.append(
                    Residency(tensor=t, memory=banks[found.bank_of[b]].name, offset=at, start=first, end=last)
                )
    search: dict[str, Any] = {
        **(made.search or {}),
        "slow_bytes": found.slow_bytes,
        "slow_lower_bound_bytes": found.slow_lower_bound_bytes,
        "slow_accesses_bytes": found.accesses_bytes,
    }
    status: Status = made.status if found.fits else "over_budget"
    if not found.fits and never_fits(model, banks, made.lower_bound_bytes):
        status = "impossible"
    workspaces = sorted(buffers.workspace_of.items())
    used = sum(found.used_bytes)
    return msgspec.structs.replace(
        made,
        status=status,
        arena_bytes=used,
        required_bytes=used + (made.reserve_bytes or 0),
        arena_lower_bound_bytes=None,
        arena_optimal=None,
        offsets=None,
        workspace_offsets={str(o): found.offsets[b] for o, b in workspaces} or None,
        workspace_memories={str(o): banks[found.bank_of[b]].name for o, b in workspaces} or None,
        memories=[
            PlanMemory(
                name=b.name,
                capacity_bytes=b.capacity,
                size_bytes=size,
                alignment=b.alignment if b.alignment > made.alignment else 1,
            )
            for b, size in zip(banks, found.used_bytes, strict=True)
        ],
        residency=sorted(residency, key=lambda r: r.tensor),
        search=search,
    )


def _places_of_storages(model: MemoryModel, banks: Sequence[Bank], places: Places) -> dict[int, tuple[int, ...]]:
    """Storage to the memories that its tensors may lie in, for those of which something is said."""
    by_name: dict[str, list[int]] = {}
    for t in model.graph.tensors:
        by_name.setdefault(t.name or f"tensor_{t.id}", []).append(t.id)
    wanted: dict[int, tuple[int, ...]] = {}
    said: dict[int, str] = {}
    where = model.graph.source or model.graph.name
    for name, names in places.items():
        allowed = allowed_banks(names, banks, name)
        known = [t for t in by_name.get(name, ()) if t in model.storage_of]
        if not known:
            why = "takes no memory" if name in by_name else "is no tensor of the model"
            raise InputError(f"{name!r} {why}; it cannot be placed", where)
        for t in known:
            s = model.storage_of[t]
            if wanted.setdefault(s, allowed) != allowed:
                raise InputError(f"{name} shares its storage with {said[s]}; place them alike", where)
            said[s] = name
    return wanted


def _demands(model: MemoryModel, made: ArenaBuffers, banks: int, wanted: Mapping[int, tuple[int, ...]]) -> list[Demand]:
    """What each buffer counts: the bytes of its storages, and the bytes that the ops read and write in them."""
    from lowtide.allocate.banks.bank import Demand

    count = len(made.problem.buffers)
    sizes, accesses = [0] * count, [0] * count
    allowed: list[tuple[int, ...]] = [tuple(range(banks))] * count
    for s, (b, _) in made.place_of.items():
        sizes[b] += model.storages[s].size
        allowed[b] = wanted.get(s, allowed[b])
    for b, buffer in enumerate(made.problem.buffers):
        if buffer.offset is not None:
            allowed[b] = allowed[b][:1]
    tensors = model.graph.tensor_by_id
    for op in model.graph.ops:
        for t in (*op.inputs, *op.outputs):
            s = model.storage_of.get(t)
            if s in made.place_of:
                accesses[made.place_of[s][0]] += tensors[t].size
    for b in made.workspace_of.values():
        sizes[b] = made.problem.buffers[b].size
        accesses[b] = 2 * sizes[b]
    return [Demand(*row) for row in zip(allowed, sizes, accesses, strict=True)]


def never_fits(model: MemoryModel, banks: Sequence[Bank], lower_bound: int) -> bool:
    """Whether it is certain that no order fits: all memories together are below the lower bound, or one op's storages
    cannot be divided among them, even without its output where that may be written in place."""
    from lowtide.allocate.banks.assignment import least_cost
    from lowtide.allocate.banks.bank import Demand, Loads
    from lowtide.allocate.buffers import Problem, block

    capacities = [b.capacity for b in banks]
    if lower_bound > sum(capacities):
        return True
    everywhere = tuple(range(len(banks)))
    for i, touched in enumerate(model.touched):
        sizes = [model.storages[s].size for s in touched] + [model.workspace[i]]
        if model.overwrites[i]:
            sizes.remove(model.storages[model.storage_of[model.overwrites[i][0].output]].size)
        problem = Problem(tuple(block(str(k), 0, 1, size) for k, size in enumerate(sizes) if size))
        alone = [Demand(everywhere, 0) for _ in problem.buffers]
        divided = least_cost(Loads(problem), alone, capacities)
        if divided.bank_of is None and divided.complete:
            return True
    return False


def place_buffers(
    problem: Problem, banks: Sequence[Bank], places: Mapping[str, str | Sequence[str]], limits: Limits
) -> BankPlacement:
    """Plain buffers in several memories. A fixed offset is one of the first memory unless `places` says otherwise.

    Raises
    ------
    InputError
        `places` names a buffer or a memory that is not there.
    """
    from lowtide.allocate.banks.bank import Demand
    from lowtide.allocate.banks.memories import place_in_banks

    names = {b.name for b in problem.buffers}
    for name in places:
        if name not in names:
            raise InputError(f"{name!r} is to be placed, and is no buffer")
    everywhere = tuple(range(len(banks)))
    demands = []
    for b in problem.buffers:
        allowed = everywhere if b.offset is None else (0,)
        if b.name in places:
            allowed = allowed_banks(places[b.name], banks, b.name)
        if b.offset is not None and len(allowed) > 1:
            raise InputError(f"{b.name} has a fixed offset; name the one memory that it is an offset of")
        demands.append(Demand(allowed, b.size))
    return place_in_banks(problem, banks, demands, limits)
