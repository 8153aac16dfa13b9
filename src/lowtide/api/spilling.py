"""Planning for a fast memory that is too small: from what a user says of the memories to a plan with moves."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import InputError, NoOrderFoundError
from lowtide.graph import Graph, Kind
from lowtide.plan import (
    NoCertificate,
    Plan,
    PlanConflict,
    PlanMemory,
    PlanMove,
    PlanOp,
    PlanTensor,
    Recompute,
    Residency,
    Seconds,
    Spilling,
)
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide.target import Target, resolve

if TYPE_CHECKING:
    from lowtide.analyse.storage import MemoryModel
    from lowtide.spill.answer import SpillAnswer
    from lowtide.spill.dma import Dma
    from lowtide.spill.problem import Memory, SpillProblem
    from lowtide.spill.remat import Clone

HOST = "host"

TOUCHED_PER_MOVED = 16
"""Ops read and write the fast memory this many times as fast as the DMA moves bytes, in the simple cost model."""

Memories = Sequence[str] | Mapping[str, str | int]
"""``NAME=SIZE`` each, or a mapping, fastest first."""


def find_memories(given: Memories) -> tuple[Memory, ...]:
    """The memories that a call names.

    Raises
    ------
    InputError
        One without a name or a size, named twice, or named like the host behind the last one.
    """
    from lowtide.spill.problem import Memory

    pairs: list[tuple[str, str | int]] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        for entry in given:
            name, equals, size = entry.partition("=")
            if not equals or not name:
                raise InputError(f"memory {entry[:80]!r} is not NAME=SIZE, as in fast=256KiB")
            pairs.append((name, size))
    memories: list[Memory] = []
    for name, size in pairs:
        if name == HOST or any(m.name == name for m in memories):
            raise InputError(f"memory {name!r} is named twice" if name != HOST else f"no memory can be called {HOST!r}")
        memories.append(Memory(name, parse_size(size, f"memory {name}")))
    return tuple(memories)


def spilling_problem(
    graph: Graph, rules: Target, memories: Sequence[Memory], moves: Mapping[str, str]
) -> tuple[SpillProblem, Spilling]:
    """The problem, with what `moves` says of the cost of a move (fields of `lowtide.plan.Spilling`).

    Raises
    ------
    InputError
        No such field, or a value that it does not take; or the target has an arena of its own.
    """
    from lowtide.schedule.registry import with_options
    from lowtide.spill.problem import Semantics, spill_problem

    if rules.overlap != "never" or rules.rule or not rules.count_inputs:
        raise InputError(f"target {rules.name} has one arena; spill under another one, as with --target generic")
    counted = {name: value for name, value in moves.items() if name not in ("bandwidth", "flops")}
    switches: dict[str, bool] = {}
    for name in ("parameters", "rematerialise"):
        value = counted.pop(name, "false").lower()
        if value not in ("true", "false"):
            raise InputError(f"moves.{name} is {value!r}; it takes true or false")
        switches[name] = value == "true"
    unknown = [name for name in counted if name not in {f.name for f in fields(Semantics)}]
    if unknown:
        known = ", ".join([*(f.name for f in fields(Semantics)), *switches, "bandwidth", "flops"])
        raise InputError(f"moves has no option {unknown[0]!r}; its options: {known}")
    semantics = with_options(Semantics, "moves", counted)
    said = Spilling(
        write_once=semantics.write_once,
        inputs_have_copy=semantics.inputs_have_copy,
        outputs_written_early=semantics.outputs_written_early,
        outputs_end_fast=semantics.outputs_end_fast,
        lead=semantics.lead,
        **switches,
    )
    return spill_problem(graph, rules, memories, semantics, parameters=said.parameters), said


def spilled_plan(
    model: Graph | str | Path,
    memories: Memories,
    moves: Mapping[str, str],
    method: str,
    options: Mapping[str, str],
    dims: Mapping[str, int],
    *,
    target: str | Target,
    time: float,
    search_memory: str | int,
    seed: int,
    require_optimal: bool,
    overwrite_inputs: bool,
    pin_inputs: bool,
) -> Plan:
    """A plan for a fast memory and those behind it; see `lowtide.plan` for the parameters.

    Where an op does not fit the fast memory alone, or the graph outputs do not that have to end there, it is a plan
    without spilling, with status ``"impossible"`` and those tensors as its conflict; where it is proved that no order
    fits for another reason, a plan without spilling.
    """
    from lowtide.api.models import load
    from lowtide.api.planning import check_time, plan
    from lowtide.spill.answer import NoRoomError
    from lowtide.spill.registry import make_spill

    began = clock.perf_counter()
    source = model.source if isinstance(model, Graph) else str(model)
    rules = resolve(target, source=source, overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs)
    found = find_memories(memories)
    check_time(time)
    memory_bytes = parse_size(search_memory, "search memory")
    graph = rules.as_seen(model if isinstance(model, Graph) else load(model, dims))
    dma = find_dma(moves)
    problem, said = spilling_problem(graph, rules, found, moves)
    limits = Limits(time, memory_bytes, seed, started=began)
    name = "spill" if method == "exact" else method
    make_spill(name, options)
    try:
        if max(problem.largest_op[0], problem.end_bytes) <= problem.capacity:
            made = plan_with_spilling(
                graph, rules, problem, said, name, options, limits,
                require_optimal=require_optimal, began=began, dma=dma,
            )  # fmt: skip
            return _with(made, overwrite_inputs=overwrite_inputs or None, pin_inputs=pin_inputs or None)
    except NoRoomError as error:
        if not error.proved:
            ahead = f" with what comes in moves.lead={said.lead} ahead" if said.lead else ""
            mend = "a smaller moves.lead" if said.lead else "more --time"
            kind = NoOrderFoundError if said.lead and limits.left_seconds > 0 else InputError
            raise kind(
                f"no order was found in which every op{ahead} fits the {problem.capacity:,} B of {found[0].name}; "
                f"give more memory or {mend}",
                graph.source or graph.name,
            ) from None
    if said.parameters and rules.constants == "never":
        rules = replace(rules, name=f"{rules.name},constants=while_used", constants="while_used")
        problem, _ = spilling_problem(graph, rules, found, {k: v for k, v in moves.items() if k != "parameters"})
    whole = plan(
        graph, target=rules, budget=problem.capacity, time=time, search_memory=search_memory, seed=seed,
        overwrite_inputs=overwrite_inputs, pin_inputs=pin_inputs,
    )  # fmt: skip
    if problem.largest_op[0] > problem.capacity:
        return _with(whole, status="impossible", conflict=_largest_op(problem, whole.order))
    if problem.end_bytes > problem.capacity and whole.order:
        return _with(whole, status="impossible", conflict=_outputs(problem, whole.order))
    return whole


def _outputs(problem: SpillProblem, order: Sequence[int]) -> PlanConflict:
    """The graph outputs, which have to be there together at the end."""
    pairs = zip(problem.model.storages, problem.is_output, strict=True)
    outputs = [storage for storage, output in pairs if output and storage.size]
    need = problem.end_bytes
    return PlanConflict(
        tensors=[s.tensors[0] for s in outputs],
        workspaces=[],
        step=len(order) - 1,
        available_bytes=problem.capacity,
        needed_bytes=need,
        minimal=all(need - s.size <= problem.capacity for s in outputs),
    )


def _largest_op(problem: SpillProblem, order: Sequence[int]) -> PlanConflict:
    """What the largest op needs at once."""
    model = problem.model
    need, at = problem.largest_op
    op = model.graph.ops[at]
    touched = [model.storages[s] for s in model.touched[at] if model.storages[s].size]
    parts = [s.size for s in touched] + [model.workspace[at]] * bool(model.workspace[at])
    return PlanConflict(
        tensors=[s.tensors[0] for s in touched],
        workspaces=[op.id] if model.workspace[at] else [],
        step=list(order).index(op.id),
        available_bytes=problem.capacity,
        needed_bytes=need,
        minimal=all(need - part <= problem.capacity for part in parts),
    )


def too_small(made: Plan, memories: Memories) -> str:
    """Why there is no plan with moves: the op that is too large for the fast memory alone."""
    fast = find_memories(memories)[0]
    if made.status != "impossible" or made.conflict is None or made.conflict.step is None:
        return f"no order was found in which every op fits the {fast.capacity_bytes:,} B of {fast.name}"
    outputs = {t.id for t in made.tensors if t.kind == "output"}
    if made.conflict.step == len(made.order) - 1 and outputs.issuperset(made.conflict.tensors):
        needed, least = made.conflict.needed_bytes, fast.capacity_bytes
        return f"the graph outputs need {needed:,} B at once at the end; {fast.name} has {least:,} B"
    at = made.order[made.conflict.step]
    op = next(op for op in made.ops if op.id == at)
    return (
        f"{op.name or f'op {op.id}'} ({op.type}) alone needs {made.conflict.needed_bytes:,} B; {fast.name} has "
        f"{fast.capacity_bytes:,} B"
    )


def find_dma(moves: Mapping[str, str]) -> Dma | None:
    """The cost model that `moves` names: ``bandwidth`` (bytes a second, as a size) and ``flops`` (a second), if any.

    Raises
    ------
    InputError
        FLOPs without a bandwidth, or no positive number.
    """
    from lowtide.spill.dma import Dma

    if "bandwidth" not in moves:
        if "flops" in moves:
            raise InputError("moves.flops says how fast ops are beside transfers; give moves.bandwidth too")
        return None
    bandwidth = parse_size(moves["bandwidth"], "moves.bandwidth")
    try:
        flops = float(moves.get("flops", "0"))
    except ValueError:
        flops = -1.0
    if not bandwidth or not 0 <= flops < 1e30:
        raise InputError("moves.bandwidth takes bytes a second as in 100MB, moves.flops a number as in 4e9")
    return Dma(float(bandwidth), flops, touched_bytes_per_second=float(bandwidth) * TOUCHED_PER_MOVED)


def plan_with_spilling(
    graph: Graph,
    rules: Target,
    problem: SpillProblem,
    said: Spilling,
    method: str,
    options: Mapping[str, str],
    limits: Limits,
    *,
    require_optimal: bool,
    began: float,
    dma: Dma | None = None,
) -> Plan:
    """Plan order, residency, moves and addresses, and check them. Every op fits the fast memory alone.

    Raises
    ------
    InputError
        No such method or option, or it cannot do this.
    VerificationError
        The plan does not hold: a bug of lowtide's.
    """
    from lowtide.spill.dma import timing
    from lowtide.spill.levels import in_levels
    from lowtide.spill.problem import spill_problem
    from lowtide.spill.registry import make_spill
    from lowtide.spill.remat import rematerialise
    from lowtide.verify.check.plan import verify_plan

    spiller = make_spill(method, options)
    reason = spiller.supports(problem)
    if reason is not None:
        raise InputError(f"method {method} cannot do this: {reason}; use another one", graph.source or graph.name)
    read = clock.perf_counter()
    answer = spiller.spill(problem, limits)
    clones: tuple[Clone, ...] = ()
    own_graph = graph
    if said.rematerialise:
        memories, semantics = problem.memories, problem.semantics
        problem, answer, clones = rematerialise(
            problem,
            answer,
            lambda other: spill_problem(other, rules, memories, semantics, parameters=said.parameters),
            lambda other: spiller.spill(other, limits),
            lambda: limits.left_seconds > 0,
        )
        graph = problem.model.graph
    if len(problem.memories) > 1:
        answer = in_levels(problem, answer, limits)
    if dma is not None:
        answer = replace(answer, counters=answer.counters | asdict(timing(problem, answer, dma)))
    searched = clock.perf_counter()
    made = assemble(graph, rules, problem, answer, said, method, limits.seed)
    if clones:
        made = _with_clones(made, own_graph, rules, clones)
    if require_optimal and not made.optimal:
        made = _with(made, status="unproved")
    verify_plan(own_graph, made, rules)
    done = clock.perf_counter()
    seconds = Seconds(read=read - began, schedule=searched - read, verify=done - searched, total=done - began)
    return _with(made, seconds=seconds)


def _with_clones(made: Plan, own: Graph, rules: Target, clones: Sequence[Clone]) -> Plan:
    """The plan with its recomputed ops marked; the own order's peak is that of the user's own graph."""
    import msgspec

    from lowtide.analyse.liveness import profile
    from lowtide.analyse.storage import memory_model

    of = {c.op: c.of for c in clones}
    return _with(
        made,
        ops=[msgspec.structs.replace(op, recompute_of=of[op.id]) if op.id in of else op for op in made.ops],
        own_order_peak_bytes=profile(memory_model(own, rules), range(len(own.ops))).peak,
        rewrites=[
            Recompute(op=c.op, of=c.of, replaced=c.replaced, outputs=list(c.outputs), readers=list(c.readers))
            for c in clones
        ],
    )


def _with(made: Plan, **changes: object) -> Plan:
    import msgspec

    return msgspec.structs.replace(made, **changes)


def assemble(
    graph: Graph,
    rules: Target,
    problem: SpillProblem,
    answer: SpillAnswer,
    said: Spilling,
    method: str,
    seed: int,
) -> Plan:
    """Put what was found into a plan; sizes are exact, offsets those of the answer."""
    from lowtide import __version__
    from lowtide.analyse.liveness import largest_single_op, profile
    from lowtide.analyse.storage import effective_aliases, memory_model

    exact = memory_model(graph, replace(rules, constants="always") if said.parameters else rules)
    model = problem.model
    names = [*(m.name for m in problem.memories), HOST]
    aliases = effective_aliases(graph, rules)
    sizes = graph.tensor_by_id
    residency = [
        Residency(
            tensor=t,
            memory=names[v.memory],
            offset=v.offset + model.displacement[t],
            start=v.start,
            end=v.end,
        )
        for v in answer.intervals
        for k, t in enumerate(model.storages[v.storage].tensors)
        if sizes[t].size or k == 0
    ]
    moves = [
        PlanMove(
            step=m.step,
            tensor=model.storages[m.storage].tensors[0],
            kind=m.kind,
            source=names[m.source],
            goal=names[m.goal],
            bytes=m.bytes,
        )
        for m in answer.moves
    ]
    tops = [0] * len(problem.memories)
    for v in answer.intervals:
        tops[v.memory] = max(tops[v.memory], v.offset + exact.storages[v.storage].size)
    for i, low in answer.workspace_offsets.items():
        tops[0] = max(tops[0], low + exact.workspace[i])
    step_of = {i: step for step, i in enumerate(answer.order)}
    pairs = [(o.output, o.input) for o in sorted(answer.in_place, key=lambda o: step_of[o.op])]
    most = _most_at_once(exact, answer)
    return Plan(
        version=1,
        lowtide=__version__,
        graph=graph.name,
        model_sha256=graph.sha256,
        target=rules.name,
        method=method,
        seed=seed,
        status="ok",
        stopped=answer.stopped,
        ops=[
            PlanOp(id=op.id, name=op.name, type=op.type)
            for op in sorted((*graph.folded, *graph.ops), key=lambda op: op.id)
        ],
        folded=sorted(op.id for op in graph.folded),
        tensors=[
            PlanTensor(
                id=t.id,
                name=t.name,
                size=t.size,
                kind=str(t.kind),
                alias_of=aliases[t.id][0] if t.id in aliases and t.kind is not Kind.CONSTANT else t.alias_of,
            )
            for t in graph.tensors
        ],
        order=[graph.ops[i].id for i in answer.order],
        own_order_peak_bytes=profile(memory_model(graph, rules), range(len(graph.ops))).peak,
        peak_bytes=most,
        lower_bound_bytes=min(most, largest_single_op(exact)),
        optimal=answer.optimal,
        certificate=NoCertificate(),
        in_place=pairs,
        alignment=rules.alignment,
        required_bytes=tops[0],
        seconds=Seconds(),
        arena_bytes=tops[0],
        workspace_offsets={str(graph.ops[i].id): at for i, at in sorted(answer.workspace_offsets.items())} or None,
        memories=[
            PlanMemory(name=m.name, capacity_bytes=m.capacity_bytes, size_bytes=top)
            for m, top in zip(problem.memories, tops, strict=True)
        ],
        residency=sorted(residency, key=lambda r: (r.tensor, r.start, r.memory)),
        moves=moves,
        traffic_bytes=answer.traffic_bytes,
        traffic_lower_bound_bytes=answer.traffic_lower_bound_bytes,
        traffic_proof=answer.proof,
        spilling=said,
        search=answer.counters,
    )


def _most_at_once(exact: MemoryModel, answer: SpillAnswer) -> int:
    """Most exact bytes in the fast memory while an op runs."""
    change = [0] * (len(answer.order) + 3)
    for v in answer.intervals:
        if v.memory == 0:
            change[v.start] += exact.storages[v.storage].size
            change[v.end] -= exact.storages[v.storage].size
    sizes = exact.graph.tensor_by_id
    saved = {o.op: sizes[o.output].size for o in answer.in_place}
    most = live = 0
    for step, i in enumerate(answer.order):
        live += change[step]
        most = max(most, live + exact.workspace[i] - saved.get(i, 0))
    return most
