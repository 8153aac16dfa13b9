"""What a call says of transfers between memory and the host: the cost file, and what ops take by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowtide.api.costs import Costs
from lowtide.cost.file import stand_in
from lowtide.cost.labelled import estimated
from lowtide.cost.model import work_of
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.optimize.recompute.swaps import Bandwidth, clock, in_nanoseconds, with_swaps
from lowtide.rewrites import Recompute, Rewrite, Swap, Swapping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lowtide.api.job import Job
    from lowtide.optimize.recompute.sequence import Sequenced

_NANO = 1_000_000_000


@dataclass(frozen=True)
class Host:
    """The slow memory of a call."""

    bandwidth: Bandwidth  # bytes per second each way
    each: tuple[int, ...]  # nanoseconds of the graph's ops
    cost_file: str  # the file's sha256
    recomputes: bool  # whether ops may run more than once, too

    def problem(self, plain: Sequenced) -> Sequenced:
        """The problem in nanoseconds, its values free to leave memory."""
        return with_swaps(in_nanoseconds(plain, self.each), self.bandwidth, recompute=self.recomputes)

    def planned(self, problem: Sequenced, rewrites: Sequence[Rewrite], order: Sequence[int]) -> int:
        """Nanoseconds of a plan's order: ids of ops, clones and transfers."""
        return clock(problem, numbers(problem, rewrites, order))

    def swapping(self, problem: Sequenced, rewrites: Sequence[Rewrite], order: Sequence[int]) -> Swapping:
        """What the plan says of it."""
        n, units = len(problem.ops), problem.costs.units
        entries = numbers(problem, rewrites, order)
        sizes = [problem.values[row.value].size for row in problem.transfers]
        moved = [(sizes[(i - n) // 2], (i - n) % 2) for i in entries if i >= n]
        return Swapping(
            to_host=self.bandwidth.to_host,
            from_host=self.bandwidth.from_host,
            op_nanoseconds=list(units),
            cost_file=self.cost_file,
            stored_bytes=sum(size for size, load in moved if not load),
            loaded_bytes=sum(size for size, load in moved if load),
            waiting_nanoseconds=clock(problem, entries) - sum(units[i] for i in entries if i < n),
        )


def numbers(problem: Sequenced, rewrites: Sequence[Rewrite], order: Sequence[int]) -> list[int]:
    """Ids of a plan's ops as entries of a sequence."""
    graph = problem.model.graph
    at = dict(graph.index_of)
    moved = {tensor: k for k, tensor in enumerate(moved_tensors(problem))}
    for r in rewrites:
        if isinstance(r, Recompute):
            at[r.op] = graph.index_of[r.of]
        elif isinstance(r, Swap):
            at[r.store] = len(problem.ops) + 2 * moved[r.tensor]
            at |= {load.op: at[r.store] + 1 for load in r.loads}
    return [at[v] for v in order]


def moved_tensors(problem: Sequenced) -> list[int]:
    """Of each transfer, the tensor that the op makes: others of its storage are views of that."""
    graph = problem.model.graph
    found = []
    for row in problem.transfers:
        made = graph.ops[problem.values[row.value].maker].outputs
        found.append(next(t for t in problem.model.storages[row.value].tensors if t in made))
    return found


def costs_of_step(job: Job) -> Costs:
    """The cost file that a job names, else lowtide's own for a card of 2020."""
    costs = job.costs
    return Costs(*stand_in("rtx3090.json"), "rtx3090.json", given=False) if costs is None or not costs.given else costs


def bandwidth_of(costs: Costs) -> Bandwidth:
    """What a cost file says of transfers. Raises `InputError` if it says nothing."""
    if costs.file.bandwidth is None:
        raise InputError(
            'it says nothing of bandwidth; add "bandwidth": {"to_host": 1.2e10, "from_host": 1.2e10} with your '
            "machine's bytes per second",
            costs.place,
        )
    return Bandwidth(costs.file.bandwidth.to_host, costs.file.bandwidth.from_host)


def host_of(job: Job, graph: Graph) -> Host | None:
    """What a job says of transfers; None if it allows none. Raises `InputError`: the file says nothing of bandwidth, or
    is of another dialect."""
    if "offload" not in job.allow:
        return None
    costs = costs_of_step(job)
    return Host(bandwidth_of(costs), _each(graph, costs), costs.sha256, "recompute" in job.allow)


def _each(graph: Graph, costs: Costs) -> tuple[int, ...]:
    """Nanoseconds of each op: what the graph says, as seconds; else by the file."""
    if any(op.cost is not None for op in graph.ops):
        return tuple([round((op.cost or 0) * _NANO) for op in graph.ops])
    if not costs.file.dialect:
        predict, works = estimated(costs.file.families), [work_of(graph, op, None) for op in graph.ops]
        seconds = [predict(op.type, work.flops, work.bytes) for op, work in zip(graph.ops, works, strict=True)]
        return tuple([round(each * _NANO) for each in seconds])
    from lowtide.cost.model import CostModel
    from lowtide.transform.cut import Cutter

    model = CostModel(costs.file, Cutter(graph), costs.place)
    return tuple([model.op(op.id)[0] for op in graph.ops])
