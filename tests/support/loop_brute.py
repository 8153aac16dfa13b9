"""Loops the slow and obvious way: every position that is there, as a set, and every path of loops."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import memory_model
from lowtide.graph import MAX_BYTES, Graph, Kind
from lowtide.optimize.loop_rings import leaves, made_loop
from lowtide.target import Target
from lowtide.transform.loop_graph import apply
from lowtide.transform.loop_growth import Growth
from lowtide.transform.loops import Loop, LoopRules

Positions = frozenset[int]


class Player:
    """Plays a loop with sets of positions."""

    def __init__(self, rules: LoopRules, loop: Loop) -> None:
        self.rules, self.graph, self.loop = rules, rules.graph, loop
        self.axes = dict(zip(loop.ops, loop.axes, strict=True))
        self.dims = dict(loop.dims)
        self.maker = {t: o for o in loop.ops for t in self.graph.op_by_id[o].outputs}
        self.done = dict.fromkeys((*loop.ops, *(-1 - t for t in loop.streamed)), 0)
        self.there = dict.fromkeys(self.dims, 0)
        self.most = dict.fromkeys((r.tensor for r in loop.line_buffers), 0)
        self.over = {r.tensor: r.over for r in loop.line_buffers}
        read = {t for o in loop.ops for t, _ in rules.reads(o)}
        self.sinks = [o for o in loop.ops[:-1] if not read.intersection(self.graph.op_by_id[o].outputs)]
        below = {o: self._below(o) for o in loop.ops}
        self.aside = {o for o in loop.ops if loop.ops[-1] not in below[o]}
        fed = set().union(*(below[o] for o in loop.ops if o not in self.aside), *map(self._readers, loop.streamed))
        fed |= {o for x in fed for o in below[x]}
        self.late = [o for o in reversed(loop.ops) if o in self.aside & fed]
        self.table = {o: [self._reads(o, k) for k in range(self.count(o))] for o in loop.ops}
        self.lowest = {o: self._lowest(reads) for o, reads in self.table.items()}

    def _readers(self, tensor: int) -> set[int]:
        return {o for o in self.loop.ops if tensor in dict(self.rules.reads(o))}

    def _below(self, op: int) -> set[int]:
        """An op, and all that need it."""
        more = {r for t in self.graph.op_by_id[op].outputs for r in self._readers(t)}
        return {op}.union(*map(self._below, more))

    def count(self, op: int) -> int:
        """Positions of an op, or of an input that is handed over."""
        return self.rules.positions(op, self.axes[op]) if op >= 0 else self.size(-1 - op)

    def size(self, tensor: int) -> int:
        """Positions of a tensor."""
        return prod(n // g for n, g in self.rows(tensor))

    def rows(self, tensor: int) -> list[tuple[int, int]]:
        """Rows of each dimension along which a tensor is there in parts, and of a position."""
        shape, maker = self.graph.tensor_by_id[tensor].shape or (), self.maker.get(tensor)
        if maker is None:
            return [(shape[d], 1) for d in self.dims[tensor]]
        known = self.rules.meaning(maker)
        assert known is not None
        made = known.access.outputs[self.graph.op_by_id[maker].outputs.index(tensor)]
        return [(shape[d], 1 if made[d] is None else known.access.grain_of(made[d] or 0)) for d in self.dims[tensor]]

    def _reads(self, op: int, number: int) -> dict[int, Positions]:
        known = self.rules.meaning(op)
        assert known is not None
        grains = [known.access.grain_of(a) for a in self.axes[op]]
        sizes = [known.access.sizes[a] // g for a, g in zip(self.axes[op], grains, strict=True)]
        rows = [number] if len(sizes) == 1 else [number // sizes[1], number % sizes[1]]
        part = {a: (r * g, r * g + g) for a, r, g in zip(self.axes[op], rows, grains, strict=True)}
        node = self.graph.op_by_id[op]
        result: dict[int, Positions] = {}
        for i, t in enumerate(node.operands or node.inputs):
            if t in self.dims:
                shape = self.graph.tensor_by_id[t].shape or ()
                box = known.access.need(i, shape, part)
                many = self.rows(t)
                boxes = [(box[d], g) for d, (_, g) in zip(self.dims[t], many, strict=True)]
                along = [range(first // g, -(-end // g)) for (first, end), g in boxes]
                width = many[1][0] // many[1][1] if len(along) == 2 else 1
                cells = product(*along) if len(along) == 2 else ((r, 0) for r in along[0])
                result[t] = result.get(t, frozenset()) | {r * width + c for r, c in cells}
        return result

    @staticmethod
    def _lowest(reads: list[dict[int, Positions]]) -> list[dict[int, int]]:
        """Of each tensor the lowest position that is read from each position of an op on."""
        result = [dict[int, int]()]
        for positions in reversed(reads):
            lows = {t: min(p) for t, p in positions.items() if p}
            later = result[-1]
            result.append({t: min(low.get(t, MAX_BYTES) for low in (lows, later)) for t in {*lows, *later}})
        return result[::-1]

    def play(self) -> dict[int, int]:
        """Positions of each ring."""
        for _ in range(self.loop.iterations):
            self.ask(self.loop.ops[-1])
        for o in self.loop.ops[:-1]:
            whole = o in self.sinks or any(t not in self.most for t in self.graph.op_by_id[o].outputs)
            while whole and self.done[o] < self.count(o):
                self.ask(o)
        return {t: most for t, most in self.most.items() if self.over[t] is None}

    def missing(self, op: int) -> int | None:
        """A tensor of which a position lacks that the op reads next."""
        for t, needed in self.table[op][self.done[op]].items():
            if needed and max(needed) >= self.there[t]:
                return t
        return None

    def ask(self, op: int) -> None:
        """Run an op's next position, and before it what that needs."""
        while op >= 0 and self.done[op] < self.count(op) and (t := self.missing(op)) is not None:
            self.ask(self.maker.get(t, -1 - t))
        if self.done[op] < self.count(op):
            self.run(op)
            while (late := next((o for o in map(self.ready, self.late) if o is not None), None)) is not None:
                self.run(late)

    def ready(self, op: int) -> int | None:
        """Who runs next so that an op that is aside can; None if what it needs is no such op's to make."""
        if self.done[op] == self.count(op):
            return None
        t = self.missing(op)
        if t is None:
            return op
        return self.ready(self.maker[t]) if self.maker.get(t) in self.aside else None

    def run(self, op: int) -> None:
        """Run a position: all is there."""
        outputs = self.graph.op_by_id[op].outputs if op >= 0 else (-1 - op,)
        self.done[op] += 1
        for t in outputs:
            if t in self.there:
                self.there[t] += 1
        self.done[op] -= 1
        for t in self.most:
            self.most[t] = max(self.most[t], self.held(t, op))
        self.done[op] += 1

    def held(self, root: int, running: int) -> int:
        """Slots that a ring needs now: from the lowest position that someone still reads, of it or of what is written
        over it, to the last one made."""
        chain = [root]
        while above := [t for t, under in self.over.items() if under == chain[-1]]:
            chain += above
        low = top = self.there[root]
        for t in chain:
            needed = min(self.lowest[o][self.done[o]].get(t, MAX_BYTES) for o in self.loop.ops)
            low = min(low, needed) if needed < self.there[t] else low
        new = running == self.maker.get(root, -1 - root)
        return top - min(low, top - 1 if new else top)


def intervals(rules: LoopRules, order: list[int], streamed: frozenset[int]) -> Iterator[tuple[int, int, Loop]]:
    """Every interval of an order that is a loop, along every choice of axes."""
    graph = rules.graph
    for end in range(1, len(order) + 1):
        for begin in range(end):
            ids = order[begin:end]
            for start in rules.starts(ids[-1]):
                growth = Growth(rules, ids[-1], start, streamed)
                for o in reversed(ids[:-1]):
                    if not growth.stuck:
                        growth.add(o)
                handed = [t for t in streamed if any(r in ids for r in graph.consumers.get(t, ()))]
                dying = dying_inputs(rules, order[:begin], ids, streamed)
                if growth.stuck or growth.pending or (len(ids) == 1 and not handed and not dying):
                    continue
                if any(r not in ids for t in handed for r in graph.consumers[t]) or _torn_view(rules, ids, streamed):
                    continue
                yield begin, end, made_loop(growth, ids, dying)


def dying_inputs(rules: LoopRules, earlier: list[int], ids: list[int], streamed: frozenset[int]) -> list[int]:
    """Tensors from outside that these ops read, whole, and nobody behind them, whose memory is theirs alone."""
    graph = rules.graph
    views = {(op.outputs[0], rules.target.view_source(graph, op)) for op in graph.ops if len(op.outputs) == 1}
    shared = {t for out, source in views if source is not None for t in (out, source)}
    return [
        t.id
        for t in graph.tensors
        if t.kind in (Kind.INPUT, Kind.ACTIVATION) and t.id not in shared | streamed
        and graph.producer.get(t.id) not in ids and not set(graph.consumers.get(t.id, ())).isdisjoint(ids)
        and set(graph.consumers[t.id]) <= {*earlier, *ids}
    ]  # fmt: skip


def _torn_view(rules: LoopRules, ids: list[int], streamed: frozenset[int]) -> bool:
    """Whether a view is in the loop, and what it shows is whole."""
    graph = rules.graph
    for o in ids:
        source = rules.target.view_source(graph, graph.op_by_id[o])
        made = {t for x in ids for t in graph.op_by_id[x].outputs}
        if source is not None and source not in streamed and (source not in made or leaves(rules, source, set(ids))):
            return True
    return False


def paths(rules: LoopRules, order: list[int], streamed: frozenset[int]) -> Iterator[list[Loop]]:
    """Every path of loops along an order that hands over what is to be."""
    graph = rules.graph
    by_begin: dict[int, list[tuple[int, Loop | None]]] = {k: [] for k in range(len(order))}
    seen = set()
    for begin, end, loop in intervals(rules, order, streamed):
        key = (
            begin,
            end,
            loop.workspace(rules.target.alignment),
            frozenset(r.tensor for r in loop.line_buffers),
            loop.over,
        )
        if key not in seen:  # along other axes, it would be the same op of the same graph
            seen.add(key)
            by_begin[begin].append((end, loop))
    for k, o in enumerate(order):
        if not streamed.intersection(graph.op_by_id[o].inputs):
            by_begin[k].append((k + 1, None))

    def walk(at: int) -> Iterator[list[Loop]]:
        if at == len(order):
            yield []
            return
        for end, loop in by_begin[at]:
            for rest in walk(end):
                yield rest if loop is None else [loop, *rest]

    yield from walk(0)


def peak_of(graph: Graph, target: Target, order: list[int], loops: list[Loop]) -> int:
    """Peak of a path: of the graph in which each loop is an op, in the same order."""
    looped = apply(graph, loops, target.alignment)
    model = memory_model(looped.graph, target)
    place = {o: k for k, o in enumerate(order)}
    place |= {new: place[loop.ops[-1]] for new, loop in looped.loops.items()}
    listed = sorted(range(len(looped.graph.ops)), key=lambda i: place[looped.graph.ops[i].id])
    return profile(model, listed).peak


def inputs_of(graph: Graph) -> frozenset[int]:
    """Graph inputs that are read."""
    return frozenset(t.id for t in graph.tensors if t.kind is Kind.INPUT and t.id in graph.consumers)
