"""Re-proves that no order's traffic is below the bound: a plain second search of what the plan's proof names.

A *part* is some of the ops, their precedences and the storages that they touch (proofs.md, sections 20.3 and 20.4):

    search     one part, the graph; `parts` are windows, whose bytes the search may count on
    windows    parts that share no op; a storage has a price in the part that has all its users
    peak       the graph, whose least peak does not fit (theorem 7): `lowtide.verify.prove.search` refutes a lower
    phases     from one op of a chain to the next: what is begun earlier is there at the start, reads have a price in
               each phase, a write in one; until the phase's first op runs there is room for everything

A state of a part is what has run, which storages are out, and which have a copy that was paid for. Ops run one by one;
where one does not fit, each minimal set of storages that makes room leaves, and pays its write and its read at once. A
storage without a price takes room only while an op runs that touches it. States are taken by what they have paid, so
when the next has paid the part's bytes, no order pays less. Two rules keep this small, theorems 3 and 4 of that page:
a state that another one of the same ops can become at no more cost is dropped, and an op that cannot hurt runs at once.

This shares no code with the planner. As there, sizes are rounded up to multiples of the target's alignment.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise

from lowtide.errors import VerificationError
from lowtide.graph import Graph, Kind
from lowtide.plan import Plan
from lowtide.sizes import round_up
from lowtide.spill_plan import Spilling, TrafficPart, TrafficProof
from lowtide.target import Target
from lowtide.verify.check.moves import counted_memory
from lowtide.verify.prove.live_at_once import peak_to_refute

KINDS = {
    "none": "nothing",
    "search": "a search over all orders",
    "windows": "searches of parts of the graph",
    "phases": "searches of phases between ops that run in turn",
    "peak": "the bytes live at once in every order",
    "solver": "a solver's word",
}


@dataclass(frozen=True, slots=True)
class PricedStorage:
    """A storage with a price. `users` and `writers` are bits of a part's ops; `beginner` always touches it first."""

    size: int
    cost: int
    users: int
    writers: int
    copied: bool
    written_free: bool
    stays: bool
    beginner: int


@dataclass(frozen=True)
class SearchedPart:
    """Ops 0, 1, ..., and what they need."""

    before: tuple[int, ...]  # per op, those that run earlier in every order, as bits
    need: tuple[int, ...]  # per op, bytes of its workspace and of all it touches
    # Per op, pairs: if these ops (bits) have run, it needs this many bytes less.
    saves: tuple[tuple[tuple[int, int], ...], ...]
    touched: tuple[int, ...]  # per op, its items as bits
    items: tuple[PricedStorage, ...]
    capacity: int
    write_once: bool = True
    gate: int = -1  # until this op runs there is room for everything; -1: there never is
    windows: tuple[tuple[int, int], ...] = ()  # ops (bits) that cost so much at least, whatever else runs


@dataclass(frozen=True)
class LeastCost:
    """No way to run a part costs less than `bytes`; `reached`: some way costs just that."""

    bytes: int
    reached: bool
    states: int


def bits(mask: int) -> Iterator[int]:
    """Positions of the ones, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def least(part: SearchedPart, wanted: int, deadline: float, max_states: int) -> LeastCost:
    """Search a part until no state has paid less than `wanted`, or a limit ends it."""
    return _SecondSearch(part).run(wanted, deadline, max_states)


class _SecondSearch:
    def __init__(self, part: SearchedPart) -> None:
        self.part, self.items = part, part.items
        self.n = len(part.before)
        self.after: list[list[int]] = [[] for _ in range(self.n)]
        for v, row in enumerate(part.before):
            for p in bits(row):
                self.after[p].append(v)
        self.known: dict[int, list[tuple[int, int, int]]] = {}

    def run(self, wanted: int, deadline: float, max_states: int) -> LeastCost:
        """See `least`. In the heap: value, ops left, number; then cost, done, ready, alive, out, copies."""
        ready = sum(1 << v for v, row in enumerate(self.part.before) if not row)
        heap: list[tuple[int, ...]] = [(self.rest(0), self.n, 0, 0, 0, ready, 0, 0, 0)]
        pushed = 0
        while heap:
            value, left, _, cost, done, ready, alive, out, copies = heappop(heap)
            if value >= wanted:
                return LeastCost(wanted, False, pushed)
            if not left:
                return LeastCost(cost, True, pushed)
            if pushed > max_states or time.perf_counter() > deadline:
                return LeastCost(value, False, pushed)
            if done and (cost, out, copies) not in self.known[done]:
                continue  # what came later is as good
            for v in self.choices(done, ready, alive, out, copies):
                others = alive & ~out & ~self.part.touched[v]
                for gone in self.leaving(others, self.demand(v, done) + self.bytes_of(others) - self.room(v, done)):
                    pushed += 1
                    paid = cost + sum(self.price(i, done, copies) for i in bits(gone))
                    if paid >= wanted:
                        continue
                    after = self.ran(v, done, ready, alive, out, copies, gone)
                    total = max(value, paid + self.rest(after[0]))
                    if total < wanted and self.is_new(paid, after[0], after[3], after[4]):
                        heappush(heap, (total, left - 1, pushed, paid, *after))
        return LeastCost(wanted, False, pushed)

    def rest(self, done: int) -> int:
        """What the windows still to come cost."""
        return sum(cost for ops, cost in self.part.windows if not ops & done)

    def bytes_of(self, mask: int) -> int:
        """Sizes of some items together."""
        return sum(self.items[i].size for i in bits(mask))

    def demand(self, v: int, done: int) -> int:
        """Bytes that op `v` needs."""
        saved = max((size for ops, size in self.part.saves[v] if not ops & ~done), default=0)
        return self.part.need[v] - saved

    def room(self, v: int, done: int) -> int:
        """Bytes that there are for it."""
        gate = self.part.gate
        return self.part.capacity if gate < 0 or (done | 1 << v) >> gate & 1 else 1 << 62

    def has_copy(self, i: int, done: int, copies: int) -> bool:
        """Whether a copy of an item is there, paid for or not."""
        item = self.items[i]
        if copies >> i & 1 or (item.copied and not item.writers & done):
            return True
        return item.written_free and not item.writers & ~done

    def price(self, i: int, done: int, copies: int) -> int:
        """What it costs that an item leaves: the write if there is no copy, the read if an op still touches it."""
        item = self.items[i]
        return item.cost * ((not self.has_copy(i, done, copies)) + bool(item.users & ~done))

    def leaving(self, others: int, excess: int) -> Iterator[int]:
        """Every minimal set of items of `excess` bytes together, as bits: the empty one if nothing has to leave."""
        falling = sorted(bits(others), key=lambda i: -self.items[i].size)

        def choose(at: int, excess: int, left: int, chosen: int) -> Iterator[int]:
            if excess <= 0:
                yield chosen
            elif left >= excess:
                size = self.items[falling[at]].size
                yield from choose(at + 1, excess - size, left - size, chosen | 1 << falling[at])
                yield from choose(at + 1, excess, left - size, chosen)

        return choose(0, excess, self.bytes_of(others), 0)

    def ran(self, v: int, done: int, ready: int, alive: int, out: int, copies: int, gone: int) -> tuple[int, ...]:
        """The state once the items `gone` have left and op `v` has run: done, ready, alive, out, copies."""
        out |= gone
        for i in bits(gone):
            if not self.has_copy(i, done, copies):
                copies |= 1 << i
        after = done | 1 << v
        ready &= ~(1 << v)
        for u in self.after[v]:
            if not self.part.before[u] & ~after:
                ready |= 1 << u
        for i in bits(self.part.touched[v]):
            item, one = self.items[i], 1 << i
            alive |= one
            if out & one and not self.part.write_once:
                copies &= ~one
            out &= ~one
            if item.writers >> v & 1:
                copies &= ~one
            if not item.stays and not item.users & ~after:
                alive &= ~one
                copies &= ~one
        return after, ready, alive, out, copies

    def is_new(self, cost: int, done: int, out: int, copies: int) -> bool:
        """Whether no known state of the same ops is as good (theorem 3); those that are no better are forgotten."""
        rows = self.known.setdefault(done, [])
        if any(self.becomes(row, cost, out, copies, done) for row in rows):
            return False
        rows[:] = [row for row in rows if not self.becomes((cost, out, copies), *row, done)]
        rows.append((cost, out, copies))
        return True

    def becomes(self, first: tuple[int, int, int], limit: int, out: int, copies: int, done: int) -> bool:
        """Whether state `first` can put out what is out in another, and copy what has a copy there, for `limit`."""
        cost, out1, copies1 = first
        for i in bits(out & ~out1):
            if cost > limit:
                return False
            cost += self.price(i, done, copies1)
        return cost + sum(self.items[i].cost for i in bits(copies & ~copies1 & ~out)) <= limit

    def choices(self, done: int, ready: int, alive: int, out: int, copies: int) -> Iterator[int]:
        """Ops to run next: one alone if that cannot hurt."""
        for v in bits(ready):
            if self.harmless(v, done, alive, out, copies):
                yield v
                return
        yield from bits(ready)

    def harmless(self, v: int, done: int, alive: int, out: int, copies: int) -> bool:
        """Theorem 4: `v` fits without moves, loads nothing, writes to no live item, and begins no item; or it begins an
        item that no other op can begin, in place of one as large that dies and has no copy."""
        touched = self.part.touched[v]
        if v == self.part.gate or touched & out:
            return False
        begun = touched & ~alive
        if begun & (begun - 1) or any(self.items[i].writers >> v & 1 for i in bits(touched & alive)):
            return False
        if self.demand(v, done) + self.bytes_of(alive & ~out & ~touched) > self.room(v, done):
            return False
        if not begun:
            return True
        new = self.items[begun.bit_length() - 1]
        if new.beginner != v:
            return False
        now = done | 1 << v
        free = (new.copied and not new.writers & now) or (new.written_free and not new.writers & ~now)
        for i in bits(touched & alive):
            old = self.items[i]
            dies = not old.stays and not old.users & ~now
            if dies and old.size >= new.size and old.cost >= new.cost and (free or not self.has_copy(i, done, copies)):
                return True
        return False


class _PartBuilder:
    """Parts of a graph under a plan's memory and rules. Ops are positions in file order here, sets of them bits."""

    def __init__(self, graph: Graph, plan: Plan, target: Target) -> None:
        self.rules = plan.spilling or Spilling()
        self.graph = graph
        self.memory = counted_memory(graph, plan, target)
        self.unit = target.alignment
        # Sizes are rounded up here: whatever is in the memory with its offsets aligned does so in the rounded one.
        self.capacity = round_up((plan.memories or [])[0].capacity_bytes, self.unit)
        self.at = {op.id: k for k, op in enumerate(graph.ops)}
        producer = {t: k for k, op in enumerate(graph.ops) for t in op.outputs}
        self.above: list[int] = []  # with the op itself
        for k, earlier in enumerate(graph.predecessors):
            row = 1 << k
            for p in earlier:
                row |= self.above[p]
            self.above.append(row)
        storages, kinds, rules = self.memory.storages, graph.tensor_by_id, self.rules
        self.users = [sum(1 << self.at[o] for o in b.users) for b in storages]
        self.writers = [0] * len(storages)
        for t, k in producer.items():
            if t in self.memory.storage_of and t not in self.memory.views:
                self.writers[self.memory.storage_of[t]] |= 1 << k
        outside = [any(t not in producer and kinds[t].kind is not Kind.ACTIVATION for t in b.tensors) for b in storages]
        constant = [any(kinds[t].kind is Kind.CONSTANT for t in b.tensors) for b in storages]
        self.copied = [c or (o and rules.inputs_have_copy) for c, o in zip(constant, outside, strict=True)]
        self.output = [any(kinds[t].kind is Kind.OUTPUT for t in b.tensors) for b in storages]
        self.written_free = [o and rules.outputs_written_early for o in self.output]

    def all_ops(self, windows: Sequence[TrafficPart]) -> SearchedPart:
        """All ops, and one more for the end if outputs have to be there."""
        ops = (1 << len(self.graph.ops)) - 1
        counted = tuple((sum(1 << self.at[o] for o in w.ops), w.bytes) for w in windows)
        items = {b: self._item(b) for b in range(len(self.users))}
        return replace(self._part(ops, items, end=self.rules.outputs_end_fast), windows=counted)

    def window(self, window: TrafficPart) -> SearchedPart:
        """Some ops; storages that no other op touches have a price."""
        ops = sum(1 << self.at[o] for o in window.ops)
        return self._part(ops, {b: self._item(b) for b, t in enumerate(self.users) if t and not t & ~ops})

    def phases(self, chain: Sequence[int | None]) -> Iterator[SearchedPart]:
        """From each op (id) of a chain, None at both ends, to the next."""
        done = [0, *(self.above[self.at[c]] for c in chain[1:-1] if c is not None), (1 << len(self.graph.ops)) - 1]
        for k, (begin, before, until) in enumerate(zip(chain, done, done[1:], strict=False)):
            gate = 0 if begin is None else 1 << self.at[begin]
            items = {}
            for b, users in enumerate(self.users):
                copied = self._phase_of_write(b, done) != k
                size = self.memory.storages[b].size
                items[b] = PricedStorage(round_up(size, self.unit), size, users, 0, copied,
                                written_free=False, stays=False, beginner=-1)  # fmt: skip
            yield self._part(until & ~before | gate, items, gate=gate, earlier=before & ~gate, start=True)

    def _phase_of_write(self, b: int, done: Sequence[int]) -> int:
        """The phase in which a storage's write is priced: the first that finds it there, else that which begins it."""
        if self.copied[b] or self.written_free[b] or self.writers[b].bit_count() != 1:
            return -1
        inside = [k for k, (low, high) in enumerate(pairwise(done)) if self.users[b] & high & ~low]
        return next((k for k in inside if self.users[b] & done[k]), inside[0] if inside else -1)

    def _item(self, b: int) -> PricedStorage:
        size = self.memory.storages[b].size
        stays = self.output[b] and not self.written_free[b] and not self.rules.outputs_end_fast
        return PricedStorage(
            round_up(size, self.unit), size, self.users[b], self.writers[b], self.copied[b], self.written_free[b],
            stays, beginner=-1,
        )  # fmt: skip

    def _part(
        self, ops: int, items: Mapping[int, PricedStorage], *, gate: int = 0, earlier: int = 0, start: bool = False,
        end: bool = False,
    ) -> SearchedPart:  # fmt: skip
        """Ops and what they touch, those of `items` at a price. With `start` op 0 runs first, in no room, and begins
        what an op of `earlier` touches; after it, until an op of `gate` runs, there is room for everything."""
        graph, memory = self.graph, self.memory
        inside = list(bits(ops))
        number = {k: j + start for j, k in enumerate(inside)}

        def local(mask: int) -> int:
            return sum(1 << number[k] for k in bits(mask & ops)) | bool(start and mask & earlier)

        above = [0] * start + [local(self.above[k] & ~(1 << k)) | start for k in inside]
        above += [(1 << len(above)) - 1] * end
        before = []
        for row in above:
            for p in reversed(list(bits(row))):
                if row >> p & 1:
                    row &= ~above[p]
            before.append(row)
        last = 1 << (len(above) - 1) if end else 0
        kept_items: list[PricedStorage] = []
        touched = [0] * len(above)
        for b, item in items.items():
            users = local(self.users[b]) | (last if self.output[b] else 0)
            kept = item.stays and not (item.copied and not item.writers)
            if not item.size or not users or (users.bit_count() < 2 and not kept):
                continue
            first = [v for v in bits(users) if all(u == v or above[u] >> v & 1 for u in bits(users))]
            for v in bits(users):
                touched[v] |= 1 << len(kept_items)
            writers = local(item.writers) & ~start if start else local(item.writers)
            kept_items.append(replace(item, users=users, writers=writers, beginner=first[0] if first else -1))
        need, saves = [0] * start, [()] * start
        for k in inside:
            op = graph.ops[k].id
            sizes = [round_up(memory.storages[b].size, self.unit) for b in memory.touches[op]]
            need.append(round_up(memory.workspace[op], self.unit) + sum(sizes))
            pairs = [(memory.storage_of[t], round_up(saved, self.unit)) for t, saved in memory.saved[op].items()
                     if memory.place[t][1] % self.unit == 0]  # fmt: skip
            saves.append(tuple((local(self.users[b]) & ~(1 << number[k]), saved) for b, saved in pairs))
        if end:
            need.append(
                sum(round_up(b.size, self.unit) for b, out in zip(memory.storages, self.output, strict=True) if out)
            )
            saves.append(())
        at = number[next(bits(gate))] if gate else 0 if start else -1
        return SearchedPart(tuple(before), tuple(need), tuple(saves), tuple(touched), tuple(kept_items), self.capacity,
                    self.rules.write_once or start, at)  # fmt: skip


def check_proof(graph: Graph, plan: Plan, target: Target) -> str:
    """See that the proof's parts are parts of this graph, and that their bytes make up the bound. Raises ``traffic``;
    returns a note."""
    proof, bound = plan.traffic_proof or TrafficProof(kind="none"), plan.traffic_lower_bound_bytes or 0
    parts, op_ids = proof.parts, {op.id for op in graph.ops}
    if proof.kind not in KINDS or bound < 0 or any(p.bytes < 0 for p in parts):
        raise VerificationError("traffic", f"a bound of {bound} by {proof.kind!r} is none")
    if proof.kind == "none" and bound:
        raise VerificationError("traffic", f"nothing is said for a bound of {bound}")
    if plan.spilling is not None and plan.spilling.rematerialise and bound:
        raise VerificationError("traffic", "no bound is known where ops may run again")
    if proof.kind == "peak":
        if not bound:
            raise VerificationError("traffic", "a peak is said to show a bound of nothing")
        peak_to_refute(graph, plan, target)
    elif any(p.peak is not None or p.cut is not None for p in parts):
        raise VerificationError("traffic", f"a bound by {proof.kind!r} names a peak")
    if proof.kind == "phases":
        ends = [None, *(p.end for p in parts[:-1])]
        if not parts or ends != [p.begin for p in parts] or parts[-1].end is not None:
            raise VerificationError("traffic", "a phase does not begin where the one before it ends")
        if not op_ids.issuperset(c for c in ends if c is not None) or None in ends[1:]:
            raise VerificationError("traffic", "a phase ends at an op that is not there")
    ops = [o for p in parts for o in p.ops]
    if len(set(ops)) != len(ops) or not op_ids.issuperset(ops):
        raise VerificationError("traffic", "two parts share an op, or one has an op that is not there")
    if proof.kind in ("windows", "phases") and sum(p.bytes for p in parts) < bound:
        raise VerificationError("traffic", f"the parts move {sum(p.bytes for p in parts)} bytes, the bound is {bound}")
    if not bound:
        return "none is claimed" if plan.traffic_bytes else "nothing moves"
    if proof.kind == "peak" and parts[0].cut is not None:
        return f"by {KINDS[proof.kind]}; proved by flow"
    return f"by {KINDS[proof.kind]}; the search was not repeated (--prove does)"


@dataclass(frozen=True)
class Replayed:
    """What the second search says: no order moves less than `bytes`; after so many states."""

    bytes: int
    parts: int
    states: int


def prove_traffic(graph: Graph, plan: Plan, target: Target, *, seconds: float, max_states: int) -> Replayed:
    """Search the parts of a plan's proof a second time; its bound holds if the result is no less. Raises
    `VerificationError`: ``traffic``: a part needs less than the proof says."""
    check_proof(graph, plan, target)
    proof, bound = plan.traffic_proof or TrafficProof(kind="none"), plan.traffic_lower_bound_bytes or 0
    deadline = time.perf_counter() + seconds
    builder = _PartBuilder(graph, plan, target)
    total = states = 0

    def search_part(part: SearchedPart, wanted: int) -> int:
        nonlocal states
        result = least(part, wanted, deadline, max_states - states)
        states += result.states
        if result.reached:
            raise VerificationError("traffic", f"a part is said to move {wanted} bytes, but {result.bytes} are enough")
        return result.bytes

    if proof.kind == "phases":
        chain = [None, *(p.end for p in proof.parts)]
        at = [builder.above[builder.at[c]] for c in chain[1:-1] if c is not None]
        if any(low & ~high or low == high for low, high in pairwise(at)):
            raise VerificationError("traffic", "the phases' ops do not run in turn in every order")
        total = sum(search_part(part, p.bytes) for part, p in zip(builder.phases(chain), proof.parts, strict=True))
    else:
        results = [search_part(builder.window(p), p.bytes) for p in proof.parts]
        total = sum(results)
        if proof.kind != "windows" and total == sum(p.bytes for p in proof.parts):
            total = max(total, search_part(builder.all_ops(proof.parts), bound))
    return Replayed(min(total, bound), len(proof.parts), states)
