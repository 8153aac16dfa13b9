"""A program with what its ops cost: a graph of real sizes and workspace, and seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lowtide.graph import Graph
from lowtide.optimize.recompute.swaps import Bandwidth
from lowtide.torch.cost import HOST_BYTES_PER_SECOND, LAUNCH_SECONDS, Costs, OpCost, roofline, signature
from lowtide.torch.program import Action, Body, Program
from lowtide.torch.sequence import Sequence, sequence_of
from lowtide.torch.storages import as_graph
from lowtide.torch.swap import seconds_with_transfers
from lowtide.torch.work import operations_of

DEFAULT_BANDWIDTH = Bandwidth(HOST_BYTES_PER_SECOND, HOST_BYTES_PER_SECOND)


@dataclass(frozen=True)
class Costed:
    """A program, its graph, seconds of each op by id, how many ops were not measured, how fast tensors go to the host
    and back, and by the names of its actions what they take."""

    program: Program
    graph: Graph
    seconds: dict[int, float]
    unmeasured: int
    bandwidth: Bandwidth = DEFAULT_BANDWIDTH
    taken: Mapping[str, OpCost] = field(default_factory=dict)

    @cached_property
    def own(self) -> Sequence:
        """Every op once, in file order."""
        return sequence_of(self.graph, self.graph.own_order)

    def seconds_of(self, order: list[int] | tuple[int, ...]) -> float:
        """Sum over a sequence of ops; with transfers, until the last has ended."""
        if all(op in self.seconds for op in order):
            return sum(self.seconds[op] for op in order)
        return seconds_with_transfers(self.graph, self.seconds, self.bandwidth, order)


def costed(torch: Any, program: Program, costs: Costs | None, before: Costed | None = None) -> Costed:
    """A program with the costs of a table; a roofline's seconds, sizes by the shapes and no workspace for what it
    lacks. A function of the step that it lacks takes what its ops do. `before`: with the costs of the same table:
    what an op takes that both have is looked up once."""
    known = {} if costs is None else costs.by_signature
    there = {} if before is None else {id(a): before.taken[a.name] for a in before.program.actions}
    taken: dict[str, OpCost] = {}
    sizes: dict[str, int] = {}
    for action in program.actions:
        cost = there.get(id(action)) or _cost(torch, program, action, known)
        taken[action.name] = cost
        for name, size in zip(action.outputs, cost.output_bytes, strict=False):
            if name is not None:
                sizes[name] = size
    bandwidth = DEFAULT_BANDWIDTH if costs is None or not costs.bandwidth else Bandwidth(*costs.bandwidth)
    seconds = {k: taken[action.name].seconds for k, action in enumerate(program.actions)}
    graph = as_graph(program, sizes, {name: cost.workspace_bytes for name, cost in taken.items()})
    return Costed(program, graph, seconds, sum(c.signature not in known for c in taken.values()), bandwidth, taken)


def _cost(torch: Any, program: Program, action: Action, table: Mapping[str, OpCost]) -> OpCost:
    key = signature(program, action)
    found = table.get(key)
    return OpCost(key, *_guessed(torch, program, action, table), []) if found is None else found


def _guessed(torch: Any, program: Program, action: Action, table: Mapping[str, OpCost]) -> tuple[float, int]:
    """Seconds and workspace of an op that is not in the table."""
    body = program.bodies.get(action.call.target.removeprefix("body."))
    if body is None:
        return roofline(program, action, operations_of(torch, replace(program, actions=(action,)))[0]), 0
    return in_parts(torch, program, body, table)


def in_parts(torch: Any, program: Program, body: Body, table: Mapping[str, OpCost]) -> tuple[float, int]:
    """Seconds and workspace of a function of the step, from what its ops take for all rows."""
    known = [table.get(signature(program, inner)) for inner in body.actions]
    total = sum(cost.seconds + LAUNCH_SECONDS * (body.parts - 1) for cost in known if cost is not None)
    taken = [live + _workspace_of_part(body, k, known[k]) for k, live in enumerate(body.live_bytes)]
    return total + seconds_in_parts(torch, program, body, [cost is None for cost in known]), max(taken, default=0)


def _workspace_of_part(body: Body, k: int, cost: OpCost | None) -> int:
    """What an op's kernel takes for some rows, from what it takes for all: kernels copy what they read and make, of
    which `full_bytes` do not become fewer."""
    workspace = 0 if cost is None else cost.workspace_bytes
    fixed = min(workspace, body.full_bytes[k])
    return fixed + -(-(workspace - fixed) // body.parts)


def seconds_in_parts(torch: Any, program: Program, body: Body, wanted: list[bool]) -> float:
    """Seconds by a roofline of those ops of a body that are wanted, all parts together."""
    total = 0.0
    for inner, full_bytes, asked in zip(body.actions, body.full_bytes, wanted, strict=True):
        if asked:
            alone = Program(program.name, (), (inner,), program.forms, ())
            total += roofline(program, inner, operations_of(torch, alone)[0], body.parts, full_bytes)
    return total
