"""An order in several memories: which of its storages lie where, and which of equal orders is best there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from lowtide.allocate.arena import Allocation
from lowtide.allocate.banks.assignment import least_cost
from lowtide.allocate.banks.bank import Bank, Demand, Loads
from lowtide.allocate.banks.memories import BankPlacement, place_in_banks
from lowtide.allocate.banks.places import Places, allowed_banks
from lowtide.allocate.buffers import ArenaBuffers, Problem, arena_buffers, block
from lowtide.allocate.order_and_arena import Layout
from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.errors import InputError
from lowtide.names import did_you_mean
from lowtide.schedule.restore_own_order import equal_orders
from lowtide.stop import Limits

MOST_ORDERS = 8  # orders of equal peak that are laid out in memories

MOST_STATES = 1_000_000
"""States of the sweeps over assignments, all orders together, after which no further order is tried."""

OPS_TO_PLACE = 8_000  # ops that all these orders may have together; one order is laid out in any case


@dataclass(frozen=True)
class Banked:
    """An order in several memories: its layout (in-place choices, but no offsets), its buffers and where they lie."""

    layout: Layout
    buffers: ArenaBuffers
    placement: BankPlacement

    @property
    def rank(self) -> tuple[bool, int, int]:
        """What is better comes first: it fits, the fewest bytes in slow memory, the fewest read and written there."""
        return not self.placement.fits, self.placement.slow_bytes, self.placement.accesses_bytes


def best_in_banks(
    model: MemoryModel, order: tuple[int, ...], banks: Sequence[Bank], places: Places, limits: Limits, *, explore: bool
) -> Banked:
    """Lay an order's storages out in several memories, each wholly in one of them: the least bytes in slow ones.
    With `explore` other orders of no higher peak are tried too, as many as `OPS_TO_PLACE` allows, and the best is
    kept. Raises `InputError`: `places` names what is not there, or takes no memory."""
    wanted = _places_of_storages(model, banks, places)
    explore = explore and not never_fits(model, banks, 0)
    draws = max(1, min(MOST_ORDERS, OPS_TO_PLACE // max(len(order), 1)))
    others = equal_orders(model, order, profile(model, order).peak, limits.seed) if explore and order else iter([order])
    best: Banked | None = None
    tried, states, interrupted = 0, 0, False
    try:
        for candidate in islice(others, draws):
            tried += 1
            banked = _in_banks(model, candidate, banks, wanted, limits)
            if best is None or banked.rank < best.rank:
                best = banked
            states += banked.placement.counters.get("states", 0)
            interrupted = banked.placement.interrupted
            done = (best.placement.fits and not best.placement.slow_bytes) or states > MOST_STATES
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
    steps = profile(model, order)
    kept = [o for o in steps.in_place if wanted.get(o.storage) == wanted.get(model.storage_of[o.output])]
    dropped = [o for o in steps.in_place if o not in kept]
    buffers = arena_buffers(model, order, kept, model.alignment, steps)
    demands = _demands(model, buffers, len(banks), wanted)
    placement = place_in_banks(buffers.problem, banks, demands, limits)
    in_place, apart = (tuple((o.output, o.input) for o in rows) for rows in (kept, dropped))
    layout = Layout(order, steps, Allocation({}, {}, 0, 0, in_place, apart, "several memories"))
    return Banked(layout, buffers, placement)


def _places_of_storages(model: MemoryModel, banks: Sequence[Bank], places: Places) -> dict[int, tuple[int, ...]]:
    """Storage to the memories that its tensors may lie in, for those of which something is said."""
    by_name: dict[str, list[int]] = {}
    for t in model.graph.tensors:
        by_name.setdefault(t.name or f"tensor_{t.id}", []).append(t.id)
    wanted: dict[int, tuple[int, ...]] = {}
    named: dict[int, str] = {}
    where = model.graph.source or model.graph.name
    for name, names in places.items():
        allowed = allowed_banks(names, banks, name)
        tensors_of_name = [t for t in by_name.get(name, ()) if t in model.storage_of]
        if not tensors_of_name:
            why = "takes no memory" if name in by_name else "is no tensor of the model"
            hint = "" if name in by_name else did_you_mean(name, by_name)
            raise InputError(f"{name!r} {why}; it cannot be placed{hint}", where)
        for t in tensors_of_name:
            s = model.storage_of[t]
            if wanted.setdefault(s, allowed) != allowed:
                raise InputError(f"{name} shares its storage with {named[s]}; place them alike", where)
            named[s] = name
    return wanted


def _demands(
    model: MemoryModel, buffers: ArenaBuffers, banks: int, wanted: Mapping[int, tuple[int, ...]]
) -> list[Demand]:
    """What each buffer counts: the bytes of its storages, and the bytes that the ops read and write in them."""
    count = len(buffers.problem.buffers)
    sizes, accesses = [0] * count, [0] * count
    allowed: list[tuple[int, ...]] = [tuple(range(banks))] * count
    for s, (b, _) in buffers.place_of.items():
        sizes[b] += model.storages[s].size
        allowed[b] = wanted.get(s, allowed[b])
    for b, buffer in enumerate(buffers.problem.buffers):
        if buffer.offset is not None:
            allowed[b] = allowed[b][:1]
    tensors = model.graph.tensor_by_id
    for op in model.graph.ops:
        for t in (*op.inputs, *op.outputs):
            s = model.storage_of.get(t)
            if s in buffers.place_of:
                accesses[buffers.place_of[s][0]] += tensors[t].size
    for b in buffers.workspace_of.values():
        sizes[b] = buffers.problem.buffers[b].size
        accesses[b] = 2 * sizes[b]
    return [Demand(*row) for row in zip(allowed, sizes, accesses, strict=True)]


def never_fits(model: MemoryModel, banks: Sequence[Bank], lower_bound: int) -> bool:
    """Whether it is certain that no order fits: all memories together are below the lower bound, or one op's storages
    cannot be divided among them, even without its output where that may be written in place."""
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
