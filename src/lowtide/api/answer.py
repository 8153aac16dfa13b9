"""What a goal found, and the one place where a plan is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Required, TypedDict

from lowtide.api.problem import Problem, Rules
from lowtide.certificates import Certificate
from lowtide.fission_plan import StepFission
from lowtide.graph import Graph, Kind, Op, Tensor
from lowtide.ops.meaning import rounds_by_neighbours
from lowtide.plan import (
    Plan,
    PlanConflict,
    PlanOp,
    PlanRound,
    PlanTensor,
    RuntimeArenas,
    RuntimeParts,
    Seconds,
    Status,
    Stopped,
)
from lowtide.rewrites import (
    Exactness,
    PlanCost,
    PlanHalos,
    PlanLoop,
    PlanPart,
    PlanSlice,
    ProvedOver,
    Recomputation,
    Recompute,
    RegionBound,
    Rewrite,
    Swapping,
)
from lowtide.spill_plan import PlanMemory, PlanMove, PlanStream, Residency, Spilling, TrafficProof
from lowtide.version import __version__

if TYPE_CHECKING:
    from lowtide.transform.loop_graph import LoopGraph
    from lowtide.transform.parts import PartGraph


class PlanKeys(TypedDict, total=False):
    """Keys of a plan that a goal decides; sizes are bytes. See `lowtide.plan.Plan`."""

    status: Required[Status]
    stopped: Required[Stopped]
    peak_bytes: Required[int]
    lower_bound_bytes: Required[int]
    optimal: Required[bool]
    certificate: Required[Certificate]
    in_place: Required[list[tuple[int, int]]]
    required_bytes: Required[int]
    search: dict[str, Any]
    overlap: list[tuple[int, int, int]] | None
    arena_bytes: int
    arena_lower_bound_bytes: int
    arena_optimal: bool
    offsets: dict[str, int]
    workspace_offsets: dict[str, int] | None
    workspace_memories: dict[str, str] | None
    memories: list[PlanMemory]
    residency: list[Residency]
    moves: list[PlanMove]
    traffic_bytes: int
    traffic_lower_bound_bytes: int
    traffic_proof: TrafficProof
    streams: list[PlanStream] | None
    spilling: Spilling
    rewrites: list[Rewrite] | None
    halos: PlanHalos
    loops: list[PlanLoop]
    recomputation: Recomputation
    swapping: Swapping
    exactness: Exactness | None
    allow: list[str] | None
    proved_over: ProvedOver | None
    region_bound: RegionBound | None
    fission: StepFission | None
    cost: PlanCost | None
    reserve_bytes: int | None
    largest_tensor_bytes: int | None
    budget_bytes: int | None
    runtime_arena_bytes: int | None
    runtime_parts: RuntimeParts | None
    runtime_arenas: RuntimeArenas
    runtime_unknown: list[str] | None
    conflict: PlanConflict | None


@dataclass(frozen=True)
class Answer:
    """A solution before it is a plan: order, figures, and a changed graph: one of `rewritten`, `parts` and `loops`."""

    problem: Problem  # the goal's own, or the same under a target that permits more
    order: tuple[int, ...]  # positions in `graph`
    keys: PlanKeys  # what the goal decided, without the order
    method: str  # name of the method that found the order
    schedule_seconds: float = 0.0  # time until the order was there
    rewritten: Graph | None = None  # the graph with recomputed operators; None if that is the problem's own
    parts: PartGraph | None = None  # what the ops and tensors of the problem's graph are of the user's, if ops were cut
    loops: LoopGraph | None = None  # what its ops are of the user's, if some run in loops
    # Peak of the user's own graph in its own order, if that is not the problem's.
    own_order_peak_bytes: int | None = None

    @property
    def graph(self) -> Graph:
        """The graph whose ops the order runs."""
        return self.problem.graph if self.rewritten is None else self.rewritten

    @property
    def above_limit(self) -> int:
        """Bytes by which the largest tensor is above the target's limit."""
        return self.problem.target.above_limit(self.graph)

    def under(self, allow: Sequence[str], *, interrupted: bool = False) -> Answer:
        """The answer of a call that may change the graph as `allow` says, and whether Ctrl-C ended its search. What
        is proved of budgets is about orders of one graph, so that none is impossible."""
        keys: PlanKeys = {**self.keys, "allow": list(allow)}
        if keys["status"] == "impossible":
            keys["status"] = "over_budget"
        if interrupted:
            keys["stopped"] = "interrupt"
        return replace(self, keys=keys)


def assemble(answer: Answer, rules: Rules, seed: int = 0) -> Plan:
    """The plan: the graph's ops and tensors, the answer's order and figures, and what the rules change of a target."""
    graph, target = answer.graph, answer.problem.target
    clones = {r.op: r.of for r in answer.keys.get("rewrites") or () if isinstance(r, Recompute)}
    return Plan(
        version=1 if answer.parts is None and answer.loops is None and not answer.keys.get("fission") else 2,
        lowtide=__version__,
        graph=graph.name,
        model_sha256=graph.sha256,
        target=target.name,
        method=answer.method,
        seed=seed,
        ops=[
            PlanOp(id=op.id, name=op.name, type=op.type, recompute_of=clones.get(op.id), **_user_op(answer, op))
            for op in sorted((*graph.folded, *graph.ops), key=lambda op: op.id)
        ],
        folded=sorted(op.id for op in graph.folded),
        tensors=_tensors(answer),
        order=op_ids(graph, answer.order),
        own_order_peak_bytes=_own_order_peak(answer),
        alignment=target.alignment,
        seconds=Seconds(),
        overwrite_inputs=rules.overwrite_inputs or None,
        pin_inputs=rules.pin_inputs or None,
        persistent=list(rules.persistent) or None,
        double_buffered=list(rules.double_buffered) or None,
        fixed=dict(rules.fixed) or None,
        rules=target,
        dims=_dims(answer.problem.graph),
        rounds=_rounds(answer) or None,
        **{**answer.keys, "exactness": answer.keys.get("exactness") or _exactness_of_clones(graph, clones)},
    )


def _exactness_of_clones(graph: Graph, clones: Iterable[int]) -> Exactness | None:
    """What outputs may differ by where operators are recomputed, and none is tiled."""
    return "kernel" if any(rounds_by_neighbours(graph, graph.op_by_id[v]) for v in clones) else None


def _rounds(answer: Answer) -> list[PlanRound]:
    """The rounds of cuts before the last."""
    from lowtide.api.moves.decisions import as_rewrites

    return [
        PlanRound(
            ops=[
                PlanOp(id=op.id, name=op.name, type=op.type, **_part(parts, op))
                for op in sorted((*parts.graph.folded, *parts.graph.ops), key=lambda op: op.id)
            ],
            tensors=[
                PlanTensor(id=t.id, name=t.name, size=t.size, kind=str(t.kind), **_slice(parts, t))
                for t in parts.graph.tensors
            ],
            order=[op.id for op in parts.graph.ops],
            rewrites=[*as_rewrites(parts)],
        )
        for parts in (() if answer.parts is None else answer.parts.earlier)
    ]


def _own_order_peak(answer: Answer) -> int:
    own = answer.own_order_peak_bytes
    return answer.problem.own_order_peak_bytes if own is None else own


def _user_op(answer: Answer, op: Op) -> dict[str, Any]:
    """What an op is of the user's graph, if a loop or a cut made it."""
    if answer.loops is not None and op.id in answer.loops.loops:
        return {"origin": list(answer.loops.loops[op.id].ops)}
    return {} if answer.parts is None else _part(answer.parts, op)


def _part(parts: PartGraph, op: Op) -> dict[str, Any]:
    """What an op is of the graph that was cut, if a cut made it."""
    part = parts.parts.get(op.id)
    if part is None or part.role == "whole":
        return {}
    made = PlanPart(role=part.role, inputs=list(op.operands), outputs=list(op.outputs), axis=part.axis, rows=part.rows)
    return {"part": made, "origin": None if part.of is None else [part.of]}


def _slice(parts: PartGraph, tensor: Tensor) -> dict[str, Any]:
    """What a tensor is of the graph that was cut, if a cut made it."""
    if tensor.id in parts.slices:
        found = parts.slices[tensor.id]
        terms = None if found.terms is None else list(found.terms)
        sure = None if found.sure is None else list(found.sure)
        return {"piece": PlanSlice(of=found.of, box=list(found.box), terms=terms, sure=sure)}
    return {"numbers": list(tensor.integers)} if tensor.id in parts.numbers else {}


def _dims(graph: Graph) -> dict[str, int | list[int]] | None:
    """What the model's free sizes were, of the formats that have some."""
    given: Sequence[tuple[str, int | tuple[int, ...]]] = getattr(graph.file, "dims", ())
    return {name: size if isinstance(size, int) else list(size) for name, size in given} or None


def _tensors(answer: Answer) -> list[PlanTensor]:
    """Tensors with the views that the target makes."""
    from lowtide.analyse.storage import effective_aliases

    aliases = effective_aliases(answer.graph, answer.problem.target)
    return [
        PlanTensor(
            id=t.id,
            name=t.name,
            size=t.size,
            kind=str(t.kind),
            alias_of=aliases[t.id][0] if t.id in aliases and t.kind is not Kind.CONSTANT else t.alias_of,
            **_form(t),
            **({} if answer.parts is None else _slice(answer.parts, t)),
        )
        for t in answer.graph.tensors
    ]


def _form(tensor: Tensor) -> dict[str, Any]:
    """Element type and shape, as far as the model says them; constants are not planned, and not described."""
    if tensor.kind is Kind.CONSTANT:
        return {}
    return {"dtype": tensor.dtype, "shape": None if tensor.shape is None else "x".join(map(str, tensor.shape))}


def op_ids(graph: Graph, order: Sequence[int]) -> list[int]:
    """Ids of the ops at these positions."""
    return [graph.ops[i].id for i in order]


def by_id(offsets: dict[int, int]) -> dict[str, int]:
    """Offsets by id as a plan spells them."""
    return {str(key): at for key, at in sorted(offsets.items())}
