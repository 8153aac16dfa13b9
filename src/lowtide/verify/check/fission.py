"""Plans of steps whose ops run in tiles: the body and the graph around it, rebuilt from the labels alone.

Nothing here is shared with the search or with the module that makes tiles: labels are read as text, the graphs are
rebuilt, and both plans are checked as any plan is. Seconds are added up in one order, tiles of fewer rows first, so
that the sums are the planner's bit for bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from math import inf, log, prod

import msgspec

from lowtide.errors import VerificationError
from lowtide.fission_plan import PlanFamily, PlanFission, StepFission
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import VERSIONS
from lowtide.sizes import format_count, format_size
from lowtide.target import Target
from lowtide.verify.check.joint_bound import CheckedStep, labels_of, least_bytes, least_seconds
from lowtide.verify.check.memory import CheckedMemory, work_out
from lowtide.verify.check.order import simulate
from lowtide.verify.check.replaced_ops import origins
from lowtide.verify.check.rewrites import with_ops
from lowtide.verify.check.siblings import with_merges
from lowtide.verify.check.swaps import time_of
from lowtide.verify.report import HeldRule, Report

Verify = Callable[[Graph, Plan, Target], Report]

_Parts = tuple[list[tuple[int, int]], int]
"""Rows, ascending, with how many parts have as many; and how many parts add to sums."""

_NANO = 1_000_000_000


def verify_fission(graph: Graph, plan: Plan, target: Target, verify: Verify) -> Report:
    """Check a plan whose ops run in parts. `verify`: checks a plan without parts. Raises `VerificationError`:
    ``fission``: the ops cannot run in these tiles, or times do not add up; or what else does not hold, of the plan or
    of a body's."""
    claim = plan.fission
    assert claim is not None, plan.graph
    memory = work_out(graph, target)
    own = simulate(graph, memory, graph.own_order)
    step = with_merges(graph, claim.merged)
    if claim.merged and "merge" not in (plan.allow or ()):
        raise VerificationError("fission", "products are merged, which the plan does not allow")
    if plan.own_order_peak_bytes != own.peak:
        raise VerificationError("own_order_peak", f"it is {own.peak} bytes; the plan says {plan.own_order_peak_bytes}")
    if plan.profile is not None and plan.profile.own_order_bytes != list(own.footprint):
        raise VerificationError("profile", "own_order_bytes are not those of the step in file order")
    priced = _priced(step, claim.families)
    checks: list[HeldRule] = []
    if claim.merged:
        count = sum(len(merge.products) for merge in claim.merged)
        checks.append(
            HeldRule("merged", f"{format_count(count, 'product')} as {len(claim.merged)}, weights side by side")
        )
    for part in claim.parts:
        region, body_plan = _Region(priced, part, claim.families), _body_plan(part)
        _check_transfers(plan, body_plan, region.body(region.searched))
        body = verify(region.body(region.all), body_plan, target)
        checks += [HeldRule(f"body {r.name}", r.result) for r in body.checks if r.name in ("order", "arena")]
        checks.append(HeldRule("parts", f"{format_count(len(part.ops), 'op')} in {len(part.ends)} parts"))
    outer, inner = _around_parts(priced, plan, claim, target)
    _check_transfers(plan, plan, outer)
    report = verify(outer, inner, target)
    checks.append(HeldRule("fission", _check_times(graph, memory, plan, claim, _seconds(outer, plan, target))))
    checks += _check_bound(graph, priced, plan, target)
    if plan.exactness != ("sum" if claim.parts or claim.merged else "bits") or plan.proved_over != "orders":
        raise VerificationError("fission", f"the plan promises {plan.exactness!r}, proved over {plan.proved_over!r}")
    seen = {"own_order_peak": format_size(own.peak)}
    if plan.optimal and claim.parts:
        seen["optimal"] = "yes, over all orders of the ops outside the tiles"
    held = [HeldRule(rule.name, seen.get(rule.name, rule.result)) for rule in report.checks]
    numbers = {**report.numbers, "own_order_peak_bytes": own.peak}
    return replace(report, checks=(*checks, *held), numbers=numbers)


def around_parts(graph: Graph, plan: Plan, target: Target) -> tuple[Graph, Plan]:
    """The graph around a plan's parts, and the plan as one of that graph. Raises as `verify_fission`."""
    claim = plan.fission
    if claim is None:
        return graph, plan
    return _around_parts(_priced(with_merges(graph, claim.merged), claim.families), plan, claim, target)


def _around_parts(priced: Graph, plan: Plan, claim: StepFission, target: Target) -> tuple[Graph, Plan]:
    loops: dict[int, Op] = {}
    for number, part in enumerate(claim.parts):
        region, body = _Region(priced, part, claim.families), _body_plan(part)
        loop = region.loop(body, _part_seconds(region, body, target), number)
        if not loops.keys().isdisjoint(v for v, _ in part.ops):
            raise VerificationError("fission", "an op runs in the tiles of two regions")
        loops |= {v: loop for v, _ in part.ops}
    outer = _around(priced, loops) if loops else priced
    own = simulate(outer, work_out(outer, target), outer.own_order)
    inner = msgspec.structs.replace(plan, fission=None, exactness=None, proved_over=None, own_order_peak_bytes=own.peak)
    if plan.profile is not None:
        drawn = msgspec.structs.replace(plan.profile, own_order_bytes=list(own.footprint))
        inner = msgspec.structs.replace(inner, profile=drawn)
    fits = plan.budget_bytes is None or plan.required_bytes <= plan.budget_bytes
    if plan.status in ("over_budget", "impossible"):  # of all plans, which other parts or less time may reach
        unproved = "ok" if plan.optimal else "unproved"
        inner = msgspec.structs.replace(inner, status=unproved if fits else "over_budget")
    return outer, inner


def _body_plan(part: PlanFission) -> Plan:
    try:
        body = msgspec.convert(part.body, Plan)
    except msgspec.ValidationError as error:
        raise VerificationError("fission", f"the body's plan is none: {error}") from None
    if body.version not in VERSIONS:
        raise VerificationError("fission", f"the body's plan has version {body.version}; known are {VERSIONS}")
    if body.fission is not None or body.moves is not None or body.memories is not None or body.loops is not None:
        raise VerificationError("fission", "a body's ops run untiled, in one arena")
    return body


def _together(graph: Graph, memory: CheckedMemory, kind: Kind) -> int:
    """Bytes of all tensors of a kind, of those in one storage the largest."""
    sizes = sorted((t.size, t.id) for t in graph.tensors if t.kind is kind and t.id in memory.storage_of)
    return sum({memory.storage_of[t]: size for size, t in sizes}.values())


def _check_times(graph: Graph, memory: CheckedMemory, plan: Plan, claim: StepFission, planned: float) -> str:
    """That seconds, and the lower bound on all plans, are what the plan says."""
    uncut = sum(op.cost or 0.0 for op in _priced(graph, claim.families).ops)
    for name, said, real in (
        ("uncut_seconds", claim.uncut_seconds, uncut),
        ("predicted_seconds", claim.predicted_seconds, planned),
        ("overhead", claim.overhead, planned / uncut - 1 if uncut else 0.0),
    ):
        if abs(said - real) > 1e-9 * max(1.0, abs(real)):
            raise VerificationError("fission", f"{name} is {said}; the ops add up to {real}")
    allowed = claim.max_overhead
    if allowed is not None and claim.overhead > allowed + 1e-9 and plan.status == "ok":
        raise VerificationError("fission", f"an overhead of {claim.overhead} is more than {allowed}")
    at_start, at_end = [_together(graph, memory, kind) for kind in (Kind.INPUT, Kind.OUTPUT)]
    if claim.floor_bytes > max(at_start, at_end):
        raise VerificationError("fission", f"a floor of {claim.floor_bytes} is said; {max(at_start, at_end)} is proved")
    never = plan.budget_bytes is not None and claim.floor_bytes + (plan.reserve_bytes or 0) > plan.budget_bytes
    never = never and plan.stopped != "interrupt"
    over = plan.budget_bytes is not None and plan.required_bytes > plan.budget_bytes
    slow = allowed is not None and claim.overhead > allowed + 1e-9
    if (never, over or slow) != (plan.status == "impossible", plan.status in ("over_budget", "impossible")):
        raise VerificationError("status", f"the status is {plan.status!r}, with a floor of {claim.floor_bytes} bytes")
    return f"{100 * claim.overhead:+.3f} % predicted time, by the families in the plan"


def _check_bound(graph: Graph, step: Graph, plan: Plan, target: Target) -> list[HeldRule]:
    """What is said of all plans within the bound on time, or within the budget; `step`: with products merged."""
    claim = plan.fission
    assert claim is not None, plan.graph
    peak, seconds = claim.least_peak_bytes, claim.least_seconds
    if peak is None and seconds is None:
        return []
    if plan.allow is None or "offload" in plan.allow:
        raise VerificationError("fission", "a bound is said of all plans, some of which move tensors")
    checked = CheckedStep(step, target, claim.families, partial(_cost, claim.families))
    held: list[HeldRule] = []
    if peak is not None:
        if claim.max_overhead is None:
            raise VerificationError("fission", "a least peak is said, and no bound on time that it is within")
        most = sum(op.cost or 0.0 for op in _priced(graph, claim.families).ops) * (1 + claim.max_overhead)
        proved = max(claim.floor_bytes, least_bytes(checked, most, claim.cuts) if claim.cuts else 0)
        if peak > proved:
            raise VerificationError("fission", f"no peak below {peak} bytes is said; proved is {proved}")
        result = f"no peak below {format_size(peak)} within {100 * claim.max_overhead:g} %"
        held.append(HeldRule("joint bound", result))
    if seconds is not None:
        if plan.budget_bytes is None or not claim.cuts:
            raise VerificationError("fission", "a least time is said, and no budget or cuts that it is within")
        least = least_seconds(checked, plan.budget_bytes - (plan.reserve_bytes or 0), claim.cuts)
        if seconds > least * (1 + 1e-12):
            raise VerificationError("fission", f"no plan of less than {seconds} s is said; proved is {least}")
        held.append(HeldRule("joint bound", f"no plan within the budget takes less than {seconds:.6g} s"))
    return held


def _cost(families: Mapping[str, PlanFamily], kind: str, flops: float, size: float) -> float:
    family = families.get(kind, families["other"])
    for table, work in ((family.by_flops, flops), (family.by_bytes, size)):
        if table:
            return _looked_up(table, work)
    computing, moving = flops * family.seconds_per_flop, size * family.seconds_per_byte
    return family.launch_seconds + (max(computing, moving) if family.overlapped else computing + moving)


def _looked_up(table: list[tuple[float, float]], work: float) -> float:
    """Seconds of some work: the first row's below it, in proportion above the last, on a line of logarithms between."""
    if work <= table[0][0]:
        return table[0][1]
    if work >= table[-1][0]:
        return table[-1][1] * (work / table[-1][0])
    behind = bisect_right(table, work, key=lambda row: row[0])
    (low, fast), (high, slow) = table[behind - 1 : behind + 1]
    return fast * (slow / fast) ** (log(work / low) / log(high / low))


def _check_family(name: str, family: PlanFamily) -> None:
    """That no time is negative or no number, and that sizes rise."""
    rates = (family.launch_seconds, family.seconds_per_flop, family.seconds_per_byte)
    if not all(0 <= seconds < inf for seconds in rates):
        raise VerificationError("fission", f"family {name!r} has a time below 0, or one that is no number")
    for table in (family.by_flops, family.by_bytes):
        rises = all(low < high for (low, _), (high, _) in pairwise(table))
        if not rises or not all(0 < work < inf and 0 < seconds < inf for work, seconds in table):
            raise VerificationError("fission", f"family {name!r} has a table whose sizes do not rise from above 0")


def _priced(graph: Graph, families: Mapping[str, PlanFamily]) -> Graph:
    if not {"slice", "join", "merge", "other"} <= set(families):
        raise VerificationError("fission", "families of the cost file are missing")
    for name, family in families.items():
        _check_family(name, family)
    sizes = {t.id: t.size for t in graph.tensors}
    ops = [
        replace(op, cost=_cost(families, op.type, op.flops or 0, sum(sizes[t] for t in (*op.inputs, *op.outputs))))
        for op in graph.ops
    ]
    return replace(graph, ops=tuple(ops))


def _check_transfers(plan: Plan, body: Plan, graph: Graph) -> None:
    """That ops take what the families say where tensors leave memory, and that the plan may move them."""
    swapping = body.swapping
    if swapping is None:
        return
    if plan.allow is None or "offload" not in plan.allow:
        raise VerificationError("fission", "tensors leave memory, which the plan does not allow")
    each = [round((op.cost or 0.0) * _NANO) for op in graph.ops]
    if len(each) != len(swapping.op_nanoseconds):
        raise VerificationError("fission", f"times of {len(swapping.op_nanoseconds)} ops are given, {len(each)} run")
    for op, said, real in zip(graph.ops, swapping.op_nanoseconds, each, strict=True):
        if said != real:
            raise VerificationError("fission", f"{op.label} takes {real} ns by the families; the plan says {said}")


def _part_seconds(region: _Region, body: Plan, target: Target) -> float:
    """What all parts take, one after the other."""
    if body.swapping is None:
        return _seconds(region.body(region.all), body, target)
    return sum(count * _clock(region.body(parts), body, target) for parts, count in region.alike) / _NANO


def _clock(graph: Graph, plan: Plan, target: Target) -> int:
    """Nanoseconds of a plan whose tensors leave memory, by costs of this graph's ops."""
    changed = with_ops(graph, plan)
    of = origins(plan)
    runs = {v: graph.op_by_id.get(of.get(v, v)) for v in plan.order}
    units = {v: round((op.cost or 0.0) * _NANO) for v, op in runs.items() if op is not None}  # no transfer
    return time_of(changed, work_out(changed, target), plan, units)


def _seconds(graph: Graph, plan: Plan, target: Target) -> float:
    """What a plan's runs take."""
    if plan.swapping is not None:
        return _clock(graph, plan, target) / _NANO
    of, total = origins(plan), 0.0
    for v in plan.order:  # in turn, as the planner adds up
        total += graph.op_by_id[of.get(v, v)].cost or 0.0
    return total


@dataclass
class _Region:
    """A region as its labels have it; refused where a part would lack rows."""

    graph: Graph
    part: PlanFission
    families: Mapping[str, PlanFamily]
    rows: int = 0
    made: dict[int, int | None] = field(default_factory=dict)  # dimension of rows; None: a sum
    read: dict[int, int | None] = field(default_factory=dict)  # likewise; None: all of it
    shared: dict[int, int] = field(default_factory=dict)  # bytes that each part of an op reads or makes entirely

    def __post_init__(self) -> None:
        ids = [v for v, _ in self.part.ops]
        if ids != [op.id for op in self.graph.ops if op.id in set(ids)] or len(ids) < 1:
            raise VerificationError("fission", "the ops are not the graph's, in file order, each once")
        for v, word in self.part.ops:
            self._enter(self.graph.op_by_id[v], word)
        ends = self.part.ends
        if len(ends) < 2 or ends[-1] != self.rows or any(b <= a for a, b in zip((0, *ends), ends, strict=False)):
            raise VerificationError("fission", f"parts that end at {ends[:20]} do not divide {self.rows} rows")
        self._check_convex(set(ids))

    def _enter(self, op: Op, word: str) -> None:
        reads, writes = labels_of(op)
        if len(reads) != len(op.inputs) or len(writes) != len(op.outputs) or word == "." or op.after:
            raise VerificationError("fission", f"{op.label} has no labels for its operands and results")
        if op.attributes.get("random"):
            raise VerificationError("fission", f"{op.label} is random")
        dims = [self._along(op, t, words, word) for t, words in zip(op.inputs, reads, strict=True)]
        outs = [self._along(op, t, words, word) for t, words in zip(op.outputs, writes, strict=True)]
        if all(d is None for d in (*dims, *outs)):
            raise VerificationError("fission", f"{op.label} has no rows {word!r}")
        shared = 0
        for t, dim in zip(op.inputs, dims, strict=True):
            size = self.graph.tensor_by_id[t].size
            shared += size if dim is None else 0
            if t in self.made:
                if self.made[t] is None or self.made[t] != dim:
                    raise VerificationError("fission", f"{op.label} needs more of tensor {t} than a part has")
            elif self.read.setdefault(t, dim) != dim:
                raise VerificationError("fission", f"tensor {t} is read in two ways")
        for t, dim in zip(op.outputs, outs, strict=True):
            shared += self.graph.tensor_by_id[t].size if dim is None else 0
            self.made[t] = dim
        self.shared[op.id] = shared

    def _along(self, op: Op, tensor: int, words: list[str], word: str) -> int | None:
        """The dimension of a tensor that has the rows; None if every tile reads all of it, as where it has one row."""
        shape = self.graph.tensor_by_id[tensor].shape
        if shape is None or len(shape) != len(words):
            raise VerificationError("fission", f"labels of {op.label} are not for the shape of tensor {tensor}")
        found = [d for d, w in enumerate(words) if w == word and shape[d] != 1]
        if len(found) > 1:
            raise VerificationError("fission", f"{op.label} has rows {word!r} twice in tensor {tensor}")
        if not found:
            return None
        self.rows = self.rows or shape[found[0]]
        if shape[found[0]] != self.rows:
            raise VerificationError("fission", f"{op.label} has {shape[found[0]]} rows, others {self.rows}")
        return found[0]

    def _check_convex(self, inside: set[int]) -> None:
        after: set[int] = set()
        for op in self.graph.ops:
            before = {self.graph.producer[t] for t in op.inputs if t in self.graph.producer}
            if op.id in inside and before & after:
                raise VerificationError("fission", f"{op.label} waits for what lies between")
            if op.id not in inside and before & (inside | after):
                after.add(op.id)

    @property
    def counts(self) -> list[tuple[int, int]]:
        """Rows of parts, ascending, and how many parts have as many."""
        lengths = [b - a for a, b in zip((0, *self.part.ends), self.part.ends, strict=False)]
        return [(n, lengths.count(n)) for n in sorted(set(lengths))]

    @cached_property
    def leaving(self) -> list[int]:
        """Results that are read outside, or are the step's."""
        inside = {v for v, _ in self.part.ops}
        kept = {t.id for t in self.graph.tensors if t.kind is Kind.OUTPUT}
        return [t for t in self.made if t in kept or not inside.issuperset(self.graph.consumers.get(t, ()))]

    @property
    def all(self) -> _Parts:
        """All parts, and how many add to sums."""
        return self.counts, len(self.part.ends) - 1

    @property
    def searched(self) -> _Parts:
        """One part, the largest, that adds to sums."""
        return [(self.counts[-1][0], 1)], 1

    @property
    def alike(self) -> list[tuple[_Parts, int]]:
        """Single parts, and how many of each there are: the first adds to no sum."""
        first = self.part.ends[0]
        later = [(([(n, 1)], 1), times - (n == first)) for n, times in self.counts]
        return [*((parts, n) for parts, n in later if n), (([(first, 1)], 0), 1)]

    def body(self, parts: _Parts) -> Graph:
        """The largest of some parts, with what all of them cost."""
        counts, _ = parts
        largest = counts[-1][0]
        tensors: dict[int, Tensor] = {}

        def take(t: int, dim: int | None, kind: Kind) -> None:
            old = self.graph.tensor_by_id[t]
            shape = old.shape or ()
            size = old.size
            if dim is not None:
                shape, size = (*shape[:dim], largest, *shape[dim + 1 :]), size * largest // self.rows
            tensors[t] = replace(old, shape=shape, size=size, kind=kind)

        for t in (t for t, dim in self.read.items() if dim is None):
            take(t, None, Kind.CONSTANT)
        for t, dim in self.read.items():
            if dim is not None:
                take(t, dim, Kind.CONSTANT)
        ops: list[Op] = []
        copied: dict[int, int] = {}
        tensor_id, op_id = max(t.id for t in self.graph.tensors) + 1, max(self.graph.op_by_id) + 1
        for v, _ in self.part.ops:
            op = self.graph.op_by_id[v]
            for t in dict.fromkeys(op.inputs):
                dim, old = self.read.get(t), self.graph.tensor_by_id[t]
                if dim is None or t in copied or prod((old.shape or ())[:dim]) == 1:
                    continue
                tensors[tensor_id] = replace(tensors[t], id=tensor_id, kind=Kind.ACTIVATION, name=f"rows of {old.name}")
                cost = sum(n * _cost(self.families, "slice", 0, 2 * old.size * rows // self.rows) for rows, n in counts)
                ops.append(Op(op_id, (t,), (tensor_id,), f"slice of {old.name}", "slice", cost=cost))
                copied[t] = tensor_id
                tensor_id, op_id = tensor_id + 1, op_id + 1
            for t in op.outputs:
                take(t, self.made[t], Kind.ACTIVATION)
            flops = None if op.flops is None else op.flops * largest // self.rows
            inputs = tuple([copied.get(t, t) for t in op.inputs])
            cost = self._cost(op, parts)
            ops.append(replace(op, inputs=inputs, operands=(), flops=flops, cost=cost, overwrites=None))
        return replace(
            self.graph, name=f"{self.graph.name} in parts", tensors=tuple(tensors.values()), ops=tuple(ops), folded=(),
            file=None, file_order=(),
        )  # fmt: skip

    def _cost(self, op: Op, parts: _Parts) -> float:
        """Parts of an op, and what puts its results together."""
        counts, added = parts
        sizes = {t: self.graph.tensor_by_id[t].size for t in (*op.inputs, *op.outputs)}
        own = sum(sizes[t] for t in (*op.inputs, *op.outputs)) - self.shared[op.id]
        total = 0.0
        for rows, n in counts:
            moved = self.shared[op.id] + own * rows // self.rows
            total += n * _cost(self.families, op.type, (op.flops or 0) * rows / self.rows, moved)
        leaving = set(self.leaving)
        for t in (t for t in op.outputs if t in leaving):
            if self.made[t] is None:
                total += added * _cost(self.families, "merge", 0, 3 * sizes[t])
            else:
                total += sum(
                    n * _cost(self.families, "join", 0, 2 * sizes[t] * rows // self.rows) for rows, n in counts
                )
        return total

    def loop(self, body: Plan, seconds: float, number: int) -> Op:
        """The op in the place of the region, the plan's first being number 0."""
        op_id = max(self.graph.op_by_id) + 1 + number
        if self.part.op != op_id:
            raise VerificationError("fission", f"op {self.part.op} stands for the region; the next free id is {op_id}")
        first = self.graph.op_by_id[self.part.ops[0][0]].name
        return Op(
            op_id, tuple(sorted(self.read)), tuple(sorted(self.leaving)), f"{len(self.part.ops)} ops from {first}",
            "Parts", body.required_bytes, cost=seconds,
        )  # fmt: skip


def _around(graph: Graph, loops: Mapping[int, Op]) -> Graph:
    """The graph with these ops in the place of those that run in parts: of what can come next always the first as the
    file has it, a region as its first op has. Raises `VerificationError`: ``fission``: regions wait for each other."""
    loop_of = {v: loop.id for v, loop in loops.items()}
    ops: dict[int, Op] = {}  # as their first ops stand
    for op in graph.ops:
        behind = tuple(dict.fromkeys(loop_of.get(u, u) for u in op.after))
        at = loops.get(op.id) or replace(op, after=behind)
        ops[at.id] = at
    maker = {t: op.id for op in ops.values() for t in op.outputs}
    waits = {op.id: {maker[t] for t in op.inputs if t in maker} | set(op.after) for op in ops.values()}
    ordered: dict[int, Op] = {}
    while len(ordered) < len(ops):
        following = next((v for v in ops if v not in ordered and waits[v] <= ordered.keys()), None)
        if following is None:
            raise VerificationError("fission", "regions wait for each other")
        ordered[following] = ops[following]
    there = {t for op in ops.values() for t in (*op.inputs, *op.outputs)}
    touched = {t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    tensors = tuple([t for t in graph.tensors if t.id in there or t.id not in touched])
    return replace(graph, tensors=tensors, ops=tuple(ordered.values()), file=None, file_order=())
