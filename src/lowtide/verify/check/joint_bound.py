"""Re-checks bounds over all plans with tiles and recomputation, from the labels alone (`docs/proofs.md`, section 18).

The network of the ops' states at the first run of one op is rebuilt, and a flow through it is found by plain augmenting
along shortest paths: whatever flows is a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import ceil

from lowtide.errors import VerificationError
from lowtide.fission_plan import PartsCut, PlanFamily
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.target import Target
from lowtide.verify.check.memory import work_out
from lowtide.verify.check.order import ancestors, descendants, needed

_UNITS = 2**36
_FREE = 2**60
"""No limit."""

Predict = Callable[[str, float, float], float]  # predicted seconds of an op: its type, operations, bytes


class CheckedStep:
    """A priced step: of each op the axes that it can be cut along, and what it takes at least."""

    def __init__(self, graph: Graph, target: Target, families: Mapping[str, PlanFamily], predict: Predict) -> None:
        self.graph, self.families, self.predict = graph, families, predict
        self.memory, self.target = work_out(graph, target), target
        self.size = {t.id: t.size for t in graph.tensors}
        self.outputs = {t.id for t in graph.tensors if t.kind is Kind.OUTPUT}
        total = sum(op.cost or 0.0 for op in graph.ops)
        self.scale = _UNITS / total if total > 0 else 1.0
        self._cut: dict[tuple[int, int], bool] = {}
        self.words = {op.id: dict(_words(graph, op)) for op in graph.ops}
        self.seconds = {
            op.id: min([op.cost or 0.0, *(self._in_parts(op, word, 2) for word in self.words[op.id])])
            for op in graph.ops
        }
        self.units = {v: int(seconds * self.scale) for v, seconds in self.seconds.items()}

    def _in_parts(self, op: Op, word: str, parts: int) -> float:
        """Seconds that a given number of tiles along a label take at least."""
        reads, makes = labels_of(op)
        own = shared = 0
        merging = 0.0
        for t, words in zip((*op.inputs, *op.outputs), (*reads, *makes), strict=True):
            if self._is_cut(op, t, words, word):
                own += self.size[t]
            else:
                shared += self.size[t]
        for t, words in zip(op.outputs, makes, strict=True):
            if word not in words and (t in self.outputs or t in self.graph.consumers):
                merging += self.predict("merge", 0, 3 * self.size[t])
        family = self.families.get(op.type, self.families["other"])
        own -= own % self.words[op.id][word]  # a part's bytes are rounded down
        return _least(family, op.flops or 0, own + parts * shared, parts) + (parts - 1) * merging

    def _is_cut(self, op: Op, tensor: int, words: list[str], word: str) -> bool:
        shape = self.graph.tensor_by_id[tensor].shape or ()
        made = tensor in op.outputs
        return any(w == word and (made or size != 1) for w, size in zip(words, shape, strict=True))

    def more(self, op: Op, rows: int, parts: int) -> int | None:
        """Units that a given number of tiles take beyond the least; None if the op has no such rows."""
        seconds = [self._in_parts(op, word, parts) for word, size in self.words[op.id].items() if size == rows]
        return int(max(0.0, min(seconds) - self.seconds[op.id]) * self.scale) if seconds else None

    @cached_property
    def bare(self) -> Graph:
        """The step with nothing that forbids an op to share memory with what it reads, but that constants do not."""
        made = self.graph.producer
        tensors = [Tensor(t.id, 1, Kind.ACTIVATION if t.id in made else t.kind) for t in self.graph.tensors]
        ops = [replace(op, overwrites=None) for op in self.graph.ops]
        return replace(self.graph, tensors=tuple(tensors), ops=tuple(ops), file=None, file_order=())

    def saved(self, op: Op) -> int:
        """Bytes that the op may save by sharing memory with an input: in parts, which have sizes of their own, or with
        a clone's result, which nothing keeps."""
        target, free = self.target, self.bare.op_by_id[op.id]
        rules = replace(target, in_place="any") if target.in_place == "first" else target
        view = rules.view_source(self.bare, free)
        shared = [*(op.overwrites or ()), *rules.in_place_inputs(self.bare, free), *([] if view is None else [view])]
        if target.rule or target.overlap != "never":
            shared = list(op.inputs)
        return max([self.size[t] for t in shared if target.overwrite_inputs or t in self.graph.producer], default=0)

    def divisible(self, tensor: int, rows: int) -> bool:
        """Whether its maker and all its readers can have parts of a tensor."""
        if (tensor, rows) not in self._cut:
            self._cut[tensor, rows] = self._divisible(tensor, rows)
        return self._cut[tensor, rows]

    def _divisible(self, tensor: int, rows: int) -> bool:
        makers = {self.graph.producer[tensor]} if tensor in self.graph.producer else set[int]()
        if not makers or tensor in self.outputs:
            return False
        for v in makers | set(self.graph.consumers.get(tensor, ())):
            op = self.graph.op_by_id[v]
            reads, makes = labels_of(op) if self.words[v] else ([], [])
            there = list(zip((*op.inputs, *op.outputs), (*reads, *makes), strict=bool(self.words[v])))
            if not any(
                self._is_cut(op, t, words, word)
                for word, size in self.words[v].items()
                if size == rows
                for t, words in there
                if t == tensor
            ):
                return False
        return True


def labels_of(op: Op) -> tuple[list[list[str]], list[list[str]]]:
    """Labels of an op's operands and of its results, a word for each dimension."""
    left, _, right = str(op.attributes.get("labels", "")).partition("->")
    reads, makes = ([words.split() for words in side.split(",")] if side.strip() else [] for side in (left, right))
    return reads, makes


def _words(graph: Graph, op: Op) -> Iterable[tuple[str, int]]:
    """Words along which parts of an op are, with their rows."""
    reads, makes = labels_of(op)
    if len(reads) != len(op.inputs) or len(makes) != len(op.outputs):
        return
    if op.attributes.get("random") or op.after:
        return
    rows: dict[str, int] = {}
    twice: set[str] = set()
    for t, words in zip((*op.inputs, *op.outputs), (*reads, *makes), strict=True):
        shape = graph.tensor_by_id[t].shape
        if shape is None or len(shape) != len(words):
            return
        rows |= {word: size for word, size in zip(words, shape, strict=True) if size != 1}
        found = [w for w, size in zip(words, shape, strict=True) if size != 1 or t in op.outputs]
        twice |= {w for w in found if found.count(w) > 1}
    yield from ((w, size) for w, size in rows.items() if w != "." and w not in twice)


def _least(family: PlanFamily, flops: float, size: int, parts: int) -> float:
    for table, work in ((family.by_flops, flops), (family.by_bytes, size)):
        if table:
            rates = [seconds / amount for amount, seconds in table if amount > 0]
            return max(parts * min(seconds for _, seconds in table), work * min(rates, default=0.0))
    computing, moving = flops * family.seconds_per_flop, size * family.seconds_per_byte
    return parts * family.launch_seconds + (max(computing, moving) if family.overlapped else computing + moving)


class _Cut:
    """The network of one op in a given number of tiles. Nodes: an op ``waits``, is ``recomputed``, ``untiled``, or
    ``kept``."""

    def __init__(self, step: CheckedStep, claim: PartsCut) -> None:
        self.step, self.claim, self.graph = step, claim, step.graph
        self.arcs: dict[str, dict[str, int]] = {}
        self.constant = 0
        self.before, self.behind = ancestors(step.graph, claim.op), descendants(step.graph, claim.op)
        self.more: dict[int, int] = {}
        for op in step.graph.ops if claim.fewest > 1 else ():
            more = step.more(op, claim.rows, claim.fewest)
            if more is not None:
                self.more[op.id] = more
        if claim.fewest > 1 and claim.op not in self.more:
            raise VerificationError("fission", f"op {claim.op} has no {claim.rows} rows to cut")
        for op in step.graph.ops:
            self._states(op.id)
            for u in needed(step.graph, op.id):
                self._after(u, op.id)
        for storage in step.memory.storages:
            if len(storage.tensors) == 1:
                self._value(storage.tensors[0], storage.size, storage.at_start, storage.at_end)
        saved = step.saved(step.graph.op_by_id[claim.op])
        if claim.fewest == 1:
            self._bytes(step.memory.workspace[claim.op] - saved)
        else:
            self._bytes(-ceil(saved / claim.most))

    def _arc(self, tail: str, head: str, amount: int = _FREE) -> None:
        if tail == head or tail == "sink" or head == "source" or not amount:
            return
        if (tail, head) == ("source", "sink"):
            self.constant += amount
            return
        row = self.arcs.setdefault(tail, {})
        row[head] = min(_FREE, row.get(head, 0) + amount)
        self.arcs.setdefault(head, {}).setdefault(tail, 0)

    def _bytes(self, size: int) -> None:
        self.constant += self.claim.price[0] * size

    def _paid(self, tail: str, head: str, size: int) -> None:
        self._arc(tail, head, self.claim.price[0] * size)

    def _node(self, state: str, op: int) -> str:
        """The node of an op's state: a state that must be is the source, one that cannot be is the sink."""
        v, cut = self.claim.op, op in self.more
        if state in ("waits", "recomputed"):
            if op == v or op in self.behind:
                return "source"
            return "sink" if state == "waits" and op in self.before else f"{state} {op}"
        if not cut:
            return "source"
        if op == v:
            return "sink"
        return f"{state} {op}" if op in self.before else f"untiled {op}"

    def _states(self, op: int) -> None:
        states = ("waits", "recomputed", "untiled", "kept")
        waits, recomputed, untiled, kept = (self._node(state, op) for state in states)
        unit, once = self.claim.price[1], self.step.units[op]
        self._arc(recomputed, waits, unit * once)
        self._arc(waits, recomputed)
        if op not in self.more:
            return
        more = self.more[op]
        if recomputed != "source":
            self._arc(recomputed, untiled)
        self._arc(untiled, kept)
        if kept == untiled:
            self._arc("source", untiled, unit * more)
        else:
            self._arc(kept, untiled, unit * more)
            self._arc("source", kept, unit * (2 * more + once))

    def _after(self, u: int, op: int) -> None:
        """What follows from op needing u."""
        self._arc(self._node("waits", u), self._node("waits", op))
        if self.claim.fewest > 1 and u in self.before:
            if op in self.before or op == self.claim.op:
                self._arc(self._node("untiled", op), self._node("untiled", u))
        elif self.claim.fewest > 1 and (u in self.behind or u == self.claim.op) and op in self.behind:
            self._arc(self._node("untiled", u), self._node("untiled", op))

    def _value(self, tensor: int, size: int, at_start: bool, at_end: bool) -> None:
        v, rows = self.claim.op, self.claim.rows
        maker, readers = self.graph.producer.get(tensor), set(self.graph.consumers.get(tensor, ()))
        divided = self.claim.fewest > 1 and not at_start and not at_end and self.step.divisible(tensor, rows)
        part = size // self.claim.most if divided and size % rows == 0 else 0
        later = sorted(readers & self.behind)
        made_untiled = "sink" if maker is None else self._node("untiled", maker)
        recomputed = "sink" if maker is None else self._node("recomputed", maker)
        if v == maker or v in readers:
            self._bytes(part if divided else size)
            if divided and v != maker:
                self._paid(made_untiled, "sink", size - part)
            if divided:
                self._any(later, "sink" if v == maker else made_untiled, size - part, f"leaves {tensor}")
        elif maker in self.behind:
            return
        elif divided and later:
            self._arc(f"live {tensor}", recomputed)
            for r in later:
                self._arc(f"live {tensor}", self._node("untiled", r))
            self._paid(made_untiled, f"live {tensor}", size)
            self._any(later, made_untiled, size - part, f"leaves {tensor}")
            assert maker is not None, tensor
            self._paid(self._node("kept", maker), made_untiled, part)
        elif later or at_end:
            self._paid("source", recomputed, size)
        else:
            for r in sorted(readers):
                self._arc(self._node("recomputed", r), f"read {tensor}")
            self._paid(f"read {tensor}", recomputed, size - part)
            repeated = [r for r in sorted(readers) if r in self.before and r in self.more]
            if part and maker in self.before and repeated:
                self._paid(self._node("kept", maker), f"part {tensor}", part)
                for r in repeated:
                    self._arc(f"part {tensor}", self._node("kept", r))

    def _any(self, readers: list[int], head: str, size: int, name: str) -> None:
        for r in readers:
            self._arc(self._node("untiled", r), name)
        if readers:
            self._paid(name, head, size)

    def flow(self) -> int:
        """What flows from the source to the sink, and what does so in any case."""
        total = 0
        while (level := self._levels()) and "sink" in level:
            total += self._blocked(level)
        return self.constant + total

    def _levels(self) -> dict[str, int]:
        level, waiting = {"source": 0}, deque(["source"])
        while waiting:
            at = waiting.popleft()
            for head, room in self.arcs.get(at, {}).items():
                if room > 0 and head not in level:
                    level[head] = level[at] + 1
                    waiting.append(head)
        return level

    def _blocked(self, level: dict[str, int]) -> int:
        """Flow along ways that get nearer to the sink at each arc, until none is left."""
        left = {
            at: [head for head in heads if level.get(head) == level[at] + 1]
            for at, heads in self.arcs.items() if at in level
        }  # fmt: skip
        total, way = 0, ["source"]
        while way:
            at = way[-1]
            if at == "sink":
                amount = min(self.arcs[a][b] for a, b in pairwise(way))
                full = len(way)
                for k, (a, b) in enumerate(pairwise(way)):
                    self.arcs[a][b] -= amount
                    self.arcs[b][a] += amount
                    if not self.arcs[a][b] and full == len(way):
                        full = k + 1
                total += amount
                del way[full:]
                continue
            heads = left.get(at, [])
            while heads and not self.arcs[at][heads[-1]]:
                heads.pop()
            if heads:
                way.append(heads[-1])
            else:
                way.pop()
                if way:
                    left[way[-1]].pop()
        return total


def _covering(step: CheckedStep, cuts: list[PartsCut]) -> None:
    """That the cuts are of one op, untiled and in every number of tiles of any of its rows."""
    if {cut.op for cut in cuts} != {cuts[0].op} or cuts[0].op not in step.words:
        raise VerificationError("fission", "cuts that show a bound are of one op of the step")
    for cut in cuts:
        untiled = (cut.rows, cut.fewest, cut.most) == (0, 1, 1)
        if not (untiled or 2 <= cut.fewest <= cut.most) or min(cut.price) < 1:
            raise VerificationError("fission", f"{cut} is no range of numbers of parts, or no price")
    wanted = {(0, 1), *((rows, n) for rows in step.words[cuts[0].op].values() for n in range(2, rows + 1))}
    there = {(cut.rows, n) for cut in cuts for n in range(cut.fewest, cut.most + 1)}
    if not wanted <= there:
        raise VerificationError("fission", f"no cut is for {min(wanted - there)[1]} parts")


def least_bytes(step: CheckedStep, seconds: float, cuts: list[PartsCut]) -> int:
    """Bytes that cuts show of plans of a given number of seconds. Raises `VerificationError` if they are not for all
    parts."""
    _covering(step, cuts)
    room = ceil(seconds * (1 + 1e-9) * step.scale) - sum(step.units.values())
    return min(-(-(_Cut(step, cut).flow() - cut.price[1] * room) // cut.price[0]) for cut in cuts)


def least_seconds(step: CheckedStep, budget: int, cuts: list[PartsCut]) -> float:
    """Seconds that cuts show of plans within a given number of bytes. Raises as `least_bytes`."""
    _covering(step, cuts)
    once = sum(step.units.values())
    more = min(max(0, -(-(_Cut(step, cut).flow() - cut.price[0] * budget) // cut.price[1])) for cut in cuts)
    return (once + more) / step.scale
