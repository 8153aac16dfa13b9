"""Iterative graph fusion that keeps the least peak (Zhong et al., section IV-B: Theorems IV.1 and IV.2, Algorithm 1).

A fusable set g is **isolated**: every node outside runs before all of g, after all of g, or at any time as far as g is
concerned (a module of the partial order), and the nodes of the last kind share no storage with g. Then footprints add,
as Definition 4 asks::

         X            footprint while a node of g runs
       / | \\              = its footprint in g alone + transient footprint of Y
      g  |  Y           footprint while a node of Y runs
       \\ | /              = its footprint in Y alone + transient footprint of g
         Z

Theorem IV.1 (a chain a -> b, applied pair by pair): if b needs no more than a and leaves no more, b may follow a at
once; if a needs no more than b and finds no more than it leaves, a may wait for b.
Theorem IV.2: if inside g no fewer bytes are ever live than before it and after it, stopping inside is no use: put
all of g where Y holds least of the time from the first to the last of g.

The paper asks the second for g's best order only (equations 15 and 16). That is too weak: an order of g that has a
higher peak may have a lower transient footprint inside, in which Y had better run. Say g has orders with inner
transients 6 (peak 10) and 1 (peak 11), 5 before and after; Y is one op of 20 bytes that leaves nothing: together 21,
fused 25. (`tests/stress_zhong.py` meets such graphs, 3 in 10,000.) Hence every order of g must satisfy it;
`every_order=False` gives the printed condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lowtide.optimize.loop_flow import members
from lowtide.stop import Limits
from lowtide_research.schedule.zhong.problem import NodeStorage, ReducedProblem

Fusion = Literal["both", "monotonic", "general", "none"]
MAX_DOWNSETS = 4096
"""Sub-graphs with more sets of nodes than this that can have run are left alone."""


def fuse(
    problem: ReducedProblem, limits: Limits, *, fusion: Fusion = "both", bound: int = 20, every_order: bool = True
) -> ReducedProblem:
    """Fuse until nothing more can be fused (Algorithm 1), or until the time is over. `fusion`: which theorems to
    use: both, IV.1 (``"monotonic"``), IV.2 (``"general"``), none. `bound`: the paper's M: sub-graphs of more nodes
    are not looked at. `every_order`: whether Theorem IV.2 must hold in every order of the sub-graph, which keeps the
    optimum, or in its best order only, as printed."""
    if fusion == "none" or not problem.n:
        return problem
    fuser = _Fuser(problem, bound, every_order)
    changed = True
    while changed and limits.left_seconds > 0:
        changed = False
        if fusion in ("both", "monotonic"):
            changed |= fuser.monotonic_pass(limits)
        if fusion in ("both", "general"):
            changed |= fuser.general_pass(limits)
    return fuser.result()


@dataclass(slots=True)
class _Touch:
    """A storage as a candidate set sees it; `inside` are bits of the nodes in the set that touch it."""

    size: int
    inside: int
    before: bool
    after: bool


class _Fuser:
    """The graph while it is fused. A fused set goes by one of its nodes.

    A module is related to the outside as each of its nodes is, so the ancestor and descendant bits of the problem stay
    right as long as nodes that are gone are masked out with `alive`.
    """

    def __init__(self, problem: ReducedProblem, bound: int, every_order: bool) -> None:
        self.problem = problem
        self.bound = bound
        self.every_order = every_order
        self.alive = (1 << problem.n) - 1
        self.ancestors = problem.ancestors
        self.descendants = problem.descendants
        self.extra = list(problem.extra)
        self.members = list(problem.members)
        self.touched: list[tuple[int, ...]] = list(problem.touched)
        self.users = [sum(1 << v for v in b.users) for b in problem.storages]
        self.preds = [set(before) for before in problem.preds]
        self.succs = [set(after) for after in problem.succs]
        self.overwrites = list(problem.overwrites)
        self.refused: set[int] = set()

    def monotonic_pass(self, limits: Limits) -> bool:
        """Theorem IV.1 over every pair of neighbours, once; whether any was fused."""
        changed = False
        for a in range(self.problem.n):
            while self.alive >> a & 1 and limits.left_seconds > 0:
                b = next((b for b in sorted(self.succs[a]) if self.succs[a] == {b} and self.preds[b] == {a}), None)
                if b is None:
                    break
                extra = self._monotonic(a, b)
                if extra is None:
                    break
                self._merge([a, b], extra)
                changed = True
        return changed

    def general_pass(self, limits: Limits) -> bool:
        """Theorem IV.2 over the sub-graphs that grow from each tensor, once; whether any was fused."""
        changed = False
        for b in range(len(self.users)):
            if limits.left_seconds <= 0:
                break
            while self._grow(b):
                changed = True
        return changed

    def _grow(self, b: int) -> bool:
        """Enlarge the sub-graph that reads storage `b` until it can be fused or has more than M nodes (Algorithm 1)."""
        users = self.users[b]
        seed = 0
        for v in members(users):
            if self.ancestors[v] & users or self.problem.storages[b].at_start:
                seed |= 1 << v
        while seed:
            g = self._isolated(seed)
            if g is None:
                return False
            if g & (g - 1) and g not in self.refused:
                nodes = sorted(members(g), key=lambda v: (self.ancestors[v] & self.alive).bit_count())
                merged = self._general(nodes, g)
                if merged is not None:
                    self._merge(*merged)
                    return True
                self.refused.add(g)
            following = 0
            for v in members(g):
                for w in self.succs[v]:
                    following |= 1 << w
            following &= ~g
            if not following:
                return False
            seed = g | following
        return False

    def _isolated(self, seed: int) -> int | None:
        """Smallest isolated set of nodes (Definition 4) that contains `seed`, or None if it has more than M nodes."""
        g, done = seed, 0
        some_before = some_after = 0
        all_before = all_after = self.alive
        while g != done:
            if g.bit_count() > self.bound:
                return None
            for v in members(g & ~done):
                before, after = self.ancestors[v] & self.alive, self.descendants[v] & self.alive
                some_before |= before
                some_after |= after
                all_before &= before
                all_after &= after
            done = g
            g |= (some_before & ~all_before) | (some_after & ~all_after)
            related = g | some_before | some_after
            for v in members(done):
                for b in self.touched[v]:
                    g |= self.users[b] & ~related
        return g

    def _touches(self, nodes: list[int], g: int, *, shared: set[int]) -> list[_Touch]:
        """Storages that the set touches; those that unrelated nodes touch as well are left out and put in `shared`."""
        before, after = self.ancestors[nodes[0]] & ~g, self.descendants[nodes[0]] & ~g
        touches = []
        for b in dict.fromkeys(b for v in nodes for b in self.touched[v]):
            outside = self.users[b] & ~g
            if outside & ~(before | after):
                shared.add(b)
                continue
            storage = self.problem.storages[b]
            touches.append(
                _Touch(
                    storage.size,
                    self.users[b] & g,
                    storage.at_start or bool(outside & before),
                    storage.at_end or bool(outside & after),
                )
            )
        return touches

    def _monotonic(self, a: int, b: int) -> int | None:
        """Theorem IV.1 for the chain a -> b: the fused node's extra bytes, or None if it does not apply. A storage
        that unrelated nodes touch too is live at the node that does not move; it may not be touched by the other."""
        shared: set[int] = set()
        bit_a, bit_b = 1 << a, 1 << b
        touches = self._touches([a, b], bit_a | bit_b, shared=shared)
        if any(storage in shared for v in (a, b) for storage, _ in self.overwrites[v]):
            return None
        stable_a = self._stable(touches, a, 0, bit_a | bit_b)
        stable_b = self._stable(touches, b, bit_a, bit_a | bit_b)
        begin = _transient(touches, 0, bit_a | bit_b)
        inner = _transient(touches, bit_a, bit_b)
        end = _transient(touches, bit_a | bit_b, 0)
        falling = end <= inner and stable_b <= stable_a and shared.isdisjoint(self.touched[b])
        rising = begin <= inner and stable_a <= stable_b and shared.isdisjoint(self.touched[a])
        if not (falling or rising):
            return None
        return max(stable_a, stable_b) - sum(t.size for t in touches if t.before or t.after)

    def _general(self, nodes: list[int], g: int) -> tuple[list[int], int] | None:
        """Theorem IV.2: the best order inside and the fused node's extra bytes, or None if it does not apply. Goes
        through every set of nodes that can have run, smaller ones first."""
        shared: set[int] = set()
        touches = self._touches(nodes, g, shared=shared)
        assert not shared, "an isolated set shares no block with unrelated nodes"
        ends = max(_transient(touches, 0, g), _transient(touches, g, 0))
        needs = {v: self.ancestors[v] & g for v in nodes}
        best: dict[int, tuple[int, int, int]] = {0: (0, 0, -1)}
        level, seen = [0], 1
        while level:
            following: dict[int, None] = {}
            for done in level:
                peak = best[done][0]
                for v in nodes:
                    bit = 1 << v
                    if done & bit or needs[v] & ~done:
                        continue
                    now = done | bit
                    most = max(peak, self._stable(touches, v, done, g))
                    if now not in best or most < best[now][0]:
                        best[now] = (most, done, v)
                    following[now] = None
            for now in following:
                if self.every_order and now != g and _transient(touches, now, g & ~now) < ends:
                    return None
            level = list(following)
            seen += len(level)
            if seen > MAX_DOWNSETS:
                return None
        order, at = [], g
        while at:
            if not self.every_order and at != g and _transient(touches, at, g & ~at) < ends:
                return None
            _, at, v = best[at]
            order.append(v)
        external = sum(t.size for t in touches if t.before or t.after)
        return order[::-1], best[g][0] - external

    def _stable(self, touches: list[_Touch], v: int, done: int, g: int) -> int:
        """Bytes that the set's own storages take while `v` runs after `done`."""
        bit = 1 << v
        live = self.extra[v]
        for t in touches:
            if (t.before or t.inside & (done | bit)) and (t.after or t.inside & ~done):
                live += t.size
        saving = 0
        for b, saved in self.overwrites[v]:
            storage, later = self.problem.storages[b], g & ~done & ~bit
            outlives = storage.at_end or self.users[b] & (later | self.descendants[v] & ~g)
            if not outlives:
                saving = max(saving, saved)
        return live - saving

    def _merge(self, order: list[int], extra: int) -> None:
        """Make one node of some, which then run in this order."""
        g = sum(1 << v for v in order)
        self.refused = {mask for mask in self.refused if not mask & g}
        head = order[0]
        gone = g & ~(1 << head)
        storages = []
        for b in dict.fromkeys(b for v in order for b in self.touched[v]):
            storage = self.problem.storages[b]
            outside = self.users[b] & ~g
            if outside or storage.at_start or storage.at_end:
                # One that is live at both ends is live throughout; any other one too lies beside `extra`.
                self.users[b] = outside | 1 << head
                storages.append(b)
            else:
                self.users[b] = 0
        # A storage that begins and ends inside is in `extra`; a graph input that ends inside begins outside.
        self.touched[head] = tuple(storages)
        self.extra[head] = extra
        self.members[head] = tuple(i for v in order for i in self.members[v])
        self.overwrites[head] = ()
        inside = set(order)
        preds = set().union(*(self.preds[v] for v in order)) - inside
        succs = set().union(*(self.succs[v] for v in order)) - inside
        for u in preds:
            self.succs[u] -= inside
            self.succs[u].add(head)
        for w in succs:
            self.preds[w] -= inside
            self.preds[w].add(head)
        self.preds[head], self.succs[head] = preds, succs
        self.alive &= ~gone

    def result(self) -> ReducedProblem:
        """The fused graph, its nodes numbered in a topological order."""
        nodes = sorted(members(self.alive), key=lambda v: ((self.ancestors[v] & self.alive).bit_count(), v))
        new = {v: i for i, v in enumerate(nodes)}
        storages, number = [], {}
        for b, storage in enumerate(self.problem.storages):
            if self.users[b] or (storage.at_start and storage.at_end):
                number[b] = len(storages)
                users = tuple(sorted(new[v] for v in members(self.users[b])))
                storages.append(NodeStorage(storage.size, users, storage.at_start, storage.at_end))
        return ReducedProblem(
            tuple(tuple(sorted(new[u] for u in self.preds[v])) for v in nodes),
            tuple(storages),
            tuple(self.extra[v] for v in nodes),
            tuple(self.members[v] for v in nodes),
            tuple(tuple((number[b], saving) for b, saving in self.overwrites[v]) for v in nodes),
        )


def _transient(touches: list[_Touch], done: int, left: int) -> int:
    """Bytes of the set's own storages that are live when the nodes `done` have run and `left` have not."""
    return sum(t.size for t in touches if (t.before or t.inside & done) and (t.after or t.inside & left))
