"""Re-proves that no order has a peak of at most B: a plain search of every set of ops that can be reached.

A state is a set R of ops already run, from the front (forward) or from the back (backward, where R is what
runs last). Let f(R) be the bytes live between R and the rest: size(b) for each storage b that is there at the
start or touched by the earlier side, and there at the end or touched by the later side. f is submodular: as
every storage is on one side at least, f counts [touched earlier] + [touched later] - 1, and each is one less
the test whether a fixed set is all on one side, which is supermodular. The hill of running u next, h(R, u),
is the footprint at u: f(R), plus what u touches that is not yet counted, plus its workspace, less its
saving in place.

One rule keeps the search small: *an op u that may run next, with f(R + u) <= f(R) and h(R, u) <= B, is run
at once.* Proof: take a continuation R = P0, P1, ... with hills at most B, and let Q_i = P_i + u. While u is
not in P_i, submodularity gives f(Q_i) <= f(P_i) + f(R + u) - f(R) <= f(P_i). And h(Q, w) - f(Q) does not
grow with Q:

forward     it is the storages that w begins, which are fewer the more has run, less the saving, which is had
            once all other users of an overwritable storage have run, and then stays.
backward    it is the storages that die at w, those with no user in R: fewer the larger R is. With R the
            saving may be lost, but only when the overwritable storage does not die at w any more; that storage
            then leaves the sum, and is no smaller than the saving, which is the same for each such storage.

So the hills of Q_0, Q_1, ... are at most B too, and once u is in P_i both ways are the same. []

Storages with aliases and views are just storages with more users. No other rule is used: no fusion, no
bounds, no other commits. So this needs more states than the planner, and it may not end in time; then it
says so. Either direction refutes alone, and which is quicker is not known beforehand: they take turns.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from lowtide.certificates import CutCertificate, SearchCertificate
from lowtide.errors import VerificationError
from lowtide.graph import Graph
from lowtide.plan import Plan
from lowtide.sizes import format_count, format_size
from lowtide.target import Target
from lowtide.verify.check.bound import check_bound, largest_single_op
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.rewrites import rewritten
from lowtide.verify.check.streams import in_the_fast_memory
from lowtide.verify.prove.live_at_once import peak_to_refute
from lowtide.verify.prove.traffic import check_proof, prove_traffic
from lowtide.verify.report import Proof

SLICE = 500  # states that a direction looks at before it is the other's turn


@dataclass(frozen=True)
class Refutation:
    """Outcome of a search: `order` is one within the budget if there is any, `complete` if all was seen."""

    order: tuple[int, ...] | None
    complete: bool
    states: int
    why: str = ""


def prove(graph: Graph, plan: Plan, target: Target, *, seconds: float = 60.0, max_states: int = 2_000_000) -> Proof:
    """Re-prove the plan's bound, by a second search where the certificate is one of a search.

    `seconds`: wall time for the search. `max_states`: sets of ops to look at before giving up; each takes about the
    number of ops in bits. Raises `VerificationError`: ``bound`` or ``certificate``: the certificate does not hold, or
    an order exists that it rules out.
    """
    began = time.perf_counter()
    if plan.moves is not None:
        return _prove_traffic(graph, plan, target, seconds, max_states)
    graph = rewritten(graph, plan, target)
    memory = work_out(graph, target)
    _, note = check_bound(graph, plan, memory)
    certificate = plan.certificate
    if not isinstance(certificate, SearchCertificate) or note == "bound: footprint of a single op":
        what = "the flow holds" if isinstance(certificate, CutCertificate) else "a single op needs as much"
        return Proof("checked", what, 0, time.perf_counter() - began)
    budget = certificate.refuted_bytes
    if largest_single_op(graph, memory) > budget:
        return Proof("re-proved", "a single op needs more", 0, time.perf_counter() - began)
    first = certificate.direction.startswith("f")
    refutation = refute(graph, memory, budget, directions=(first, not first), seconds=seconds, max_states=max_states)
    spent = time.perf_counter() - began
    if refutation.order is not None:
        raise VerificationError(
            "bound", f"{format_size(budget)} are said to be refuted, but this order needs no more: {refutation.order}"
        )
    if not refutation.complete:
        return Proof("not re-proved", refutation.why, refutation.states, spent)
    return Proof("re-proved", f"a search of {refutation.states:,} states finds no order", refutation.states, spent)


def _prove_traffic(graph: Graph, plan: Plan, target: Target, seconds: float, max_states: int) -> Proof:
    """The same for a plan with moves, whose bound is one on traffic."""
    began = time.perf_counter()
    graph, plan, _ = in_the_fast_memory(rewritten(graph, plan, target), plan, target)
    bound = plan.traffic_lower_bound_bytes or 0
    if not bound:
        return Proof("checked", "nothing moves less than nothing", 0, time.perf_counter() - began)
    if plan.traffic_proof is not None and plan.traffic_proof.kind == "peak":
        return _prove_peak(graph, plan, target, seconds, max_states)
    second = prove_traffic(graph, plan, target, seconds=seconds, max_states=max_states)
    spent = time.perf_counter() - began
    how = f"a second search of {format_count(second.states, 'state')}"
    if second.bytes < bound:
        why = f"{how} says only that every order moves {format_size(second.bytes)}"
        return Proof("not re-proved", why, second.states, spent)
    return Proof("re-proved", f"{how} finds no order that moves less than {format_size(bound)}", second.states, spent)


def _prove_peak(graph: Graph, plan: Plan, target: Target, seconds: float, max_states: int) -> Proof:
    """The same where every order has too much live at once: a lower peak is refuted, or a flow shows it."""
    began = time.perf_counter()
    check_proof(graph, plan, target)
    memory, needed = peak_to_refute(graph, plan, target)
    if plan.traffic_proof is not None and plan.traffic_proof.parts[0].cut is not None:
        return Proof("checked", "the flow holds, and what is live then does not fit", 0, time.perf_counter() - began)
    refutation = refute(graph, memory, needed - 1, seconds=seconds, max_states=max_states)
    spent = time.perf_counter() - began
    if refutation.order is not None:
        raise VerificationError(
            "traffic",
            f"every order is said to have {needed} bytes live at once, but this one has not: {refutation.order}",
        )
    if not refutation.complete:
        why = f"a peak below {format_size(needed)} is not refuted: {refutation.why}"
        return Proof("not re-proved", why, refutation.states, spent)
    how = f"a search of {format_count(refutation.states, 'state')} finds no order of a peak below {format_size(needed)}"
    return Proof("re-proved", how, refutation.states, spent)


def refute(
    graph: Graph,
    memory: CheckedMemory,
    budget: int,
    *,
    directions: tuple[bool, ...] = (True, False),
    seconds: float = 60.0,
    max_states: int = 2_000_000,
    one_op_rule: bool = True,
) -> Refutation:
    """Look for an order of peak at most `budget` bytes, depth first, each set of ops once. `directions`: true is
    forward, False backward; several take turns of `SLICE` states, and the first to end decides. `one_op_rule`: false
    switches the rule of this page off, for tests."""
    deadline = time.perf_counter() + seconds
    turns = deque(_search(graph, memory, budget, forward, one_op_rule) for forward in directions)
    states = 0
    while True:
        if states >= max_states:
            return Refutation(None, False, states, f"more than {max_states} states")
        if time.perf_counter() > deadline:
            return Refutation(None, False, states, f"{seconds:g} s are over")
        try:
            states += next(turns[0])
            turns.rotate(-1)
        except StopIteration as end:
            order, more = end.value
            return Refutation(order, True, states + more)


def _search(
    graph: Graph, memory: CheckedMemory, budget: int, forward: bool, one_op_rule: bool
) -> Generator[int, None, tuple[tuple[int, ...] | None, int]]:
    """Yield the number of new states now and then; return an order or None, and the states not yet reported."""
    walk = _DownsetWalk(graph, memory, budget, forward)
    seen: set[int] = set()
    stack: list[tuple[int, Iterator[int]]] = []

    def enter(mark: int) -> bool:
        """Run what the rule says; go on from here if the set is new. Whether every op has run."""
        if one_op_rule:
            walk.close()
        if len(walk.trail) == walk.n:
            return True
        if walk.done in seen:
            walk.undo(mark)
        else:
            seen.add(walk.done)
            stack.append((mark, iter(walk.choices())))
        return False

    reported = 0
    finished = enter(0)
    while stack and not finished:
        if len(seen) - reported >= SLICE:
            yield len(seen) - reported
            reported = len(seen)
        mark, choices = stack[-1]
        u = next(choices, None)
        if u is None:
            stack.pop()
            walk.undo(mark)
            continue
        here = len(walk.trail)
        walk.run(u)
        finished = enter(here)
    if not finished:
        return None, len(seen) - reported
    order = [graph.ops[u].id for u in walk.trail]
    return tuple(order if forward else order[::-1]), len(seen) - reported


class _DownsetWalk:
    """A set of ops that has run, and what it takes to run one more or to take the last back.

    Ops are positions in file order here. `left[b]` counts the users of storage b that have not run.
    """

    def __init__(self, graph: Graph, memory: CheckedMemory, budget: int, forward: bool) -> None:
        self.n = len(graph.ops)
        before = [set(earlier) for earlier in graph.predecessors]
        behind: list[set[int]] = [set() for _ in graph.ops]
        for i, earlier in enumerate(before):
            for j in earlier:
                behind[j].add(i)
        needs, self.frees = (before, behind) if forward else (behind, before)
        self.waits = [len(s) for s in needs]
        self.budget = budget
        self.forward = forward
        self.size = [b.size for b in memory.storages]
        self.total = [len(b.users) for b in memory.storages]
        self.open = [b.at_start if forward else b.at_end for b in memory.storages]
        self.stays = [b.at_end if forward else b.at_start for b in memory.storages]
        self.left = list(self.total)
        self.touched = [memory.touches[op.id] for op in graph.ops]
        self.workspace = [memory.workspace[op.id] for op in graph.ops]
        self.over = [
            sorted(((memory.storage_of[t], size) for t, size in memory.saved[op.id].items()), key=lambda pair: -pair[1])
            for op in graph.ops
        ]
        self.ready = {i for i in range(self.n) if not self.waits[i]}
        self.live = sum(b.size for b, is_open in zip(memory.storages, self.open, strict=True) if is_open)
        self.done = 0
        self.trail: list[int] = []

    def costs(self, u: int) -> tuple[int, int]:
        """Footprint while ready op `u` runs next, and bytes live after it, less those live now."""
        opened = closed = 0
        for b in self.touched[u]:
            left = self.left[b]
            if left == self.total[b] and not self.open[b]:
                opened += self.size[b]
            if left == 1 and not self.stays[b]:
                closed += self.size[b]
        hill = self.live + opened + self.workspace[u]
        for b, saved in self.over[u]:
            if self.left[b] == (1 if self.forward else self.total[b]):
                hill -= saved
                break
        return hill, opened - closed

    def choices(self) -> list[int]:
        """Ready ops that fit the budget, those that leave least first."""
        costs = ((*self.costs(u), u) for u in self.ready)
        return [u for _, u in sorted((change, u) for hill, change, u in costs if hill <= self.budget)]

    def close(self) -> None:
        """Run every op that the one-op rule allows, until none is left."""
        has_run = True
        while has_run:
            has_run = False
            for u in sorted(self.ready):
                hill, change = self.costs(u)
                if change <= 0 and hill <= self.budget:
                    self.run(u)
                    has_run = True

    def run(self, u: int) -> None:
        """Run ready op `u`."""
        self.live += self.costs(u)[1]
        for b in self.touched[u]:
            self.left[b] -= 1
        self.ready.discard(u)
        for w in self.frees[u]:
            self.waits[w] -= 1
            if not self.waits[w]:
                self.ready.add(w)
        self.done |= 1 << u
        self.trail.append(u)

    def undo(self, mark: int) -> None:
        """Take back the latest ops, until `mark` ops have run."""
        while len(self.trail) > mark:
            u = self.trail.pop()
            self.done ^= 1 << u
            for w in self.frees[u]:
                if not self.waits[w]:
                    self.ready.discard(w)
                self.waits[w] += 1
            self.ready.add(u)
            for b in self.touched[u]:
                self.left[b] += 1
            self.live -= self.costs(u)[1]
