"""Complete, valid plans for small graphs, for tests to break: brute force, first fit and a slow max-flow."""

from __future__ import annotations

from collections import deque

from lowtide.analyse.liveness import largest_single_op, profile
from lowtide.analyse.storage import effective_aliases, memory_model
from lowtide.certificates import Certificate, CutCertificate, FlowArc, FlowCase, NoCertificate, SearchCertificate
from lowtide.graph import Graph
from lowtide.plan import Plan, PlanOp, PlanTensor, Seconds
from lowtide.target import Target
from lowtide.verify.check.memory import CheckedMemory, work_out
from support.brute import must_run_before, optimal_order

INFINITE = 1 << 62


def make_plan(graph: Graph, target: Target, order: tuple[int, ...] | None = None) -> Plan:
    """A plan in the given order, or in an optimal one, with the best certificate there is."""
    peak, best = optimal_order(graph, target)
    order = best if order is None else order
    model = memory_model(graph, target)
    own = profile(model, range(len(graph.ops)))
    seen = profile(model, [graph.index_of[v] for v in order])
    pairs = [(o.output, o.input) for o in seen.in_place]
    offsets, workspace_offsets, arena = _first_fit(graph, target, order, pairs)
    if seen.peak != peak_with(graph, target, order, dict(pairs)):
        raise AssertionError("an in-place pair could not be placed")
    aliases = effective_aliases(graph, target)
    bound, certificate = _best_certificate(graph, target, peak, largest_single_op(model))
    return Plan(
        version=1,
        lowtide="test",
        graph=graph.name,
        model_sha256=graph.sha256,
        target=target.name,
        method="brute",
        seed=0,
        status="ok",
        stopped="proof",
        ops=[PlanOp(id=op.id, name=op.name, type=op.type) for op in graph.ops],
        folded=[op.id for op in graph.folded],
        tensors=[
            PlanTensor(
                id=t.id,
                name=t.name,
                size=t.size,
                kind=t.kind.value,
                alias_of=aliases[t.id][0] if t.id in aliases else None,
            )
            for t in graph.tensors
        ],
        order=list(order),
        own_order_peak_bytes=own.peak,
        peak_bytes=seen.peak,
        lower_bound_bytes=bound,
        optimal=bound == seen.peak,
        certificate=certificate,
        in_place=pairs,
        alignment=target.alignment,
        required_bytes=seen.peak if target.name == "torch" else arena,
        seconds=Seconds(),
        arena_bytes=arena,
        arena_lower_bound_bytes=seen.peak,
        arena_optimal=arena == seen.peak,
        offsets={str(t): at for t, at in offsets.items()},
        workspace_offsets={str(v): at for v, at in workspace_offsets.items()},
    )


def peak_with(graph: Graph, target: Target, order: tuple[int, ...], pairs: dict[int, int]) -> int:
    """Peak with exactly these pairs (output to input) in place, by the definition."""
    memory = work_out(graph, target)
    before: set[int] = set()
    peak = 0
    for v in order:
        size = memory.footprint(v, before)
        possible = memory.saving(v, before)
        taken = bool(graph.op_by_id[v].outputs) and graph.op_by_id[v].outputs[0] in pairs
        peak = max(peak, size if taken else size + possible)
        before.add(v)
    return peak


def _best_certificate(graph: Graph, target: Target, peak: int, single: int) -> tuple[int, Certificate]:
    if single == peak:
        return peak, NoCertificate()
    cuts = [cut_certificate(graph, target, op.id) for op in graph.ops]
    best = max(cuts, key=lambda c: c.value_bytes)
    if best.value_bytes == peak:
        return peak, best
    return peak, SearchCertificate(refuted_bytes=peak - 1, direction="forward", states=1, switches={})


def cut_certificate(graph: Graph, target: Target, v: int) -> CutCertificate:
    """The largest value that a flow proves at op `v`, with its flow in every in-place case."""
    memory = work_out(graph, target)
    needs = must_run_before(graph)
    ancestors = _closure(needs, v)
    descendants = {o for o in needs if v in _closure(needs, o)}
    inputs = [t for t in memory.overwritable[v] if not memory.storages[memory.storage_of[t]].users & descendants]
    cases = []
    for tensor in inputs or [None]:
        value, flow, downset = _max_flow(graph, memory, needs, v, ancestors, descendants, tensor)
        cases.append((value + memory.workspace[v], flow, downset, tensor))
    value, _, downset, _ = min(cases, key=lambda c: c[0])
    return CutCertificate(
        op=v,
        value_bytes=value,
        downset=sorted(downset),
        flow=cases[0][1],
        in_place=cases[0][3],
        cases=[FlowCase(in_place=tensor, flow=flow) for _, flow, _, tensor in cases[1:]],
    )


def _closure(needs: dict[int, set[int]], v: int) -> set[int]:
    found: set[int] = set()
    todo = [v]
    while todo:
        for u in needs[todo.pop()] - found:
            found.add(u)
            todo.append(u)
    return found


def _max_flow(
    graph: Graph,
    memory: CheckedMemory,
    needs: dict[int, set[int]],
    v: int,
    ancestors: set[int],
    descendants: set[int],
    in_place: int | None,
) -> tuple[int, list[FlowArc], set[int]]:
    """Edmonds and Karp, with the flow taken apart into the certificate's arcs."""
    left: dict[object, dict[object, int]] = {"source": {}, "sink": {}}

    def arc(a: object, b: object, size: int) -> None:
        left.setdefault(a, {})
        left.setdefault(b, {})
        left[a][b] = left[a].get(b, 0) + size
        left[b].setdefault(a, 0)

    free = set(needs) - ancestors - descendants - {v}
    full: dict[tuple[object, object], int] = {}
    for i, b in enumerate(memory.storages):
        over = in_place is not None and memory.storage_of[in_place] == i
        out_size = graph.tensor_by_id[graph.op_by_id[v].outputs[0]].size if over else 0
        arc(("in", i), ("out", i), b.size)
        if b.at_start or b.users & (ancestors | {v}):
            arc("source", ("in", i), INFINITE)
        if over:
            arc(("out", i), "sink", b.size - out_size)
        elif b.at_end or b.users & (descendants | {v}):
            arc(("out", i), "sink", INFINITE)
        for o in b.users & free:
            arc(o, ("in", i), INFINITE)
            arc(("out", i), o, INFINITE)
    for o in free:
        for u in needs[o] & free:
            arc(o, u, INFINITE)
    for a, to in left.items():
        for b, size in to.items():
            full[a, b] = size
    value = 0
    while True:
        came: dict[object, object] = {"source": None}
        todo = deque(["source"])
        while todo and "sink" not in came:
            a = todo.popleft()
            for b, size in left[a].items():
                if size > 0 and b not in came:
                    came[b] = a
                    todo.append(b)  # type: ignore[arg-type]
        if "sink" not in came:
            break
        path = []
        at: object = "sink"
        while came[at] is not None:
            path.append((came[at], at))
            at = came[at]
        push = min(left[a][b] for a, b in path)
        for a, b in path:
            left[a][b] -= push
            left[b][a] += push
        value += push
    flow: list[FlowArc] = []
    used = {(a, b): full[a, b] - left[a][b] for a, b in full if full[a, b] > left[a][b]}
    for i, b in enumerate(memory.storages):
        start = None if b.at_start else v if v in b.users else min(b.users & ancestors, default=None)
        end = None if b.at_end else min(b.users & descendants, default=v)
        givers = [[start if a == "source" else a, n] for (a, c), n in used.items() if c == ("in", i)]
        takers = [[end if c == "sink" else c, n] for (a, c), n in used.items() if a == ("out", i)]
        while givers:
            n = min(givers[-1][1], takers[-1][1])  # type: ignore[type-var]
            flow.append((b.tensors[0], givers[-1][0], takers[-1][0], n))  # type: ignore[arg-type]
            for side in (givers, takers):
                side[-1][1] -= n  # type: ignore[operator]
                if not side[-1][1]:
                    side.pop()
    for (a, b), n in used.items():
        if isinstance(a, int) and isinstance(b, int):
            flow.append((None, a, b, n))
    return value, flow, ancestors | {o for o in came if o in free}  # type: ignore[misc]


def _first_fit(
    graph: Graph, target: Target, order: tuple[int, ...], pairs: list[tuple[int, int]]
) -> tuple[dict[int, int], dict[int, int], int]:
    """Place storages by time, lowest gap first; in-place outputs on their inputs."""
    model = memory_model(graph, target)
    seen = profile(model, [graph.index_of[v] for v in order])
    align = target.alignment

    def up(size: int) -> int:
        return -(-size // align) * align

    over = {model.storage_of[out]: read for out, read in pairs}
    at: dict[int, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # first, last, from, to
    jobs: list[tuple[int, int, int, tuple[str, int]]] = []
    for i, s in enumerate(model.storages):
        jobs.append((seen.first[i], seen.last[i], s.size, ("storage", i)))
    for step, v in enumerate(order):
        jobs.append((step, step, model.workspace[graph.index_of[v]], ("workspace", v)))
    jobs.sort(key=lambda j: j[0])
    scratch: dict[int, int] = {}
    for first, last, size, (what, i) in jobs:
        if not size:
            continue
        if what == "storage" and i in over:
            # the input was placed for the life of both
            read = over[i]
            at[i] = at[model.storage_of[read]] + model.displacement[read]
        else:
            until, chain = last, i
            while what == "storage":
                follow = [o for o, read in over.items() if model.storage_of[read] == chain]
                if not follow:
                    break
                chain = follow[0]
                until = max(until, seen.last[chain])
            start = 0
            for p in sorted((p for p in placed if p[0] <= until and first <= p[1]), key=lambda p: p[2]):
                if p[2] < start + size:
                    start = max(start, up(p[3]))
            if what == "storage":
                at[i] = start
            else:
                scratch[i] = start
            placed.append((first, until, start, start + up(size)))
    end = max((p[3] for p in placed), default=0)
    offsets = {
        t: at[i] + model.displacement[t] for t, i in model.storage_of.items() if i in at and graph.tensor_by_id[t].size
    }
    return offsets, scratch, end
