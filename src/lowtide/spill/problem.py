"""What is to be solved: a graph whose tensors do not all fit the fast memory, and what counts as traffic.

Source: COSMA (arXiv 2311.18246), sections III-A to III-D; `docs/contract.md`, section Files. A storage that an op
touches is in the fast memory while the op runs. Between two touches it may be out (a **gap**); then it is spilled,
unless the next memory level has a copy of it already, and filled before the next touch.

    step        0    1    2    3    4    5    6
    storage s   made           read           read        touches 0, 3, 6: two gaps, [1, 3) and [4, 6)
    in fast     ####           ##############             interval [0, 1), then [3, 7): the first gap is dropped
    moves            spill     fill                       at steps 1 and 3, both before that step's op
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, Overwrite, memory_model, rounded_up
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind
from lowtide.schedule.method import Schedule
from lowtide.schedule.registry import make
from lowtide.sizes import round_up
from lowtide.stop import Limits
from lowtide.target import Target


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory with a name for people and a capacity in bytes."""

    name: str
    capacity_bytes: int


@dataclass(frozen=True)
class Semantics:
    """What a move costs. The defaults are COSMA's (equations 8 and 12) with the contract's free copies."""

    # A storage that was spilled keeps its copy until an op writes to it, so a second spill costs nothing. If not, every
    # gap that is dropped costs a write.
    write_once: bool = True
    # Graph inputs and constants need no write-back. If not, the first spill of an input is paid for.
    inputs_have_copy: bool = True
    # The one write of a graph output happens as soon as its last writer has run and leaves a copy, so an output may
    # leave for nothing. If not, it is written after the last step, and leaving before costs a spill.
    outputs_written_early: bool = True
    # Every graph output is in the fast memory after the last step (step n, at which no op runs). If not, what has no
    # consumer left never comes back.
    outputs_end_fast: bool = False
    # Steps that a fill, or the first load of a graph input, is given: it takes room from this many steps before its use
    # on, at most from step 0, and runs concurrently with the ops of those steps (1: double buffering).
    lead: int = 0

    def __post_init__(self) -> None:
        if self.lead < 0:
            raise InputError(f"moves.lead is {self.lead}; give a number of steps")


@dataclass(frozen=True, slots=True)
class Gap:
    """Steps ``[start, end)`` between two touches of a storage, in which it may be out.

    `read_bytes` are paid if it is. `write_bytes` are paid too, under `write_once` a single time for all gaps of the
    same storage and `epoch`: the stretch between two writes to it.
    """

    storage: int
    start: int
    end: int
    read_bytes: int
    write_bytes: int
    epoch: int


@dataclass(frozen=True)
class SpillProblem:
    """A graph under a target and the memories there are; made by `spill_problem`."""

    model: MemoryModel  # ops and storages. Sizes are what they take in memory: rounded up to the target's alignment.
    traffic_bytes: tuple[int, ...]  # per storage, its exact size: what a spill or a fill of it moves
    # Fastest first; after the last is the host, unbounded, whose index is ``len(memories)``. Ops work in memory 0.
    memories: tuple[Memory, ...]
    copied: tuple[bool, ...]  # per storage, whether a copy exists before the first step
    is_output: tuple[bool, ...]  # per storage, whether it holds a graph output
    # Per storage, whether its last value is written to the host in any case, and at once.
    written_free: tuple[bool, ...]
    # Per storage, positions of the ops that write to it, ascending. After each of them older copies are stale.
    writers: tuple[tuple[int, ...], ...]
    semantics: Semantics  # what a move costs

    @property
    def capacity(self) -> int:
        """Bytes of the fast memory."""
        return self.memories[0].capacity_bytes

    @property
    def room(self) -> int:
        """The capacity rounded up to the alignment: what does not fit there with rounded sizes fits nowhere.
        Whatever fits the fast memory with its offsets aligned fits this much if its size is rounded up. A plan is
        made with rounded sizes within the capacity itself, so that where the two differ nothing is proved but this."""
        return round_up(self.capacity, self.model.alignment)

    def from_outside(self, storage: int) -> bool:
        """Whether the storage is loaded: a graph input or a constant."""
        return self.copied[storage] or self.model.storages[storage].at_start

    @property
    def steps(self) -> int:
        """Ops in an order."""
        return len(self.model.graph.ops)

    @property
    def end_bytes(self) -> int:
        """Bytes that have to be in the fast memory after the last step: the graph outputs, where they end there."""
        if not self.semantics.outputs_end_fast:
            return 0
        return sum(s.size for s, output in zip(self.model.storages, self.is_output, strict=True) if output)

    @cached_property
    def largest_op(self) -> tuple[int, int]:
        """Bytes that the most demanding op needs in any order, in place where it may be, and its position."""
        model = self.model
        before: list[int] = []
        for i, preds in enumerate(model.graph.predecessors):
            row = 1 << i
            for p in preds:
                row |= before[p]
            before.append(row)

        def can_die(i: int, storage: int) -> bool:
            """Whether some order runs all other ops that touch the storage before this one."""
            return not any(before[j] >> i & 1 for j in model.storages[storage].users if j != i)

        needs = [
            sum(model.storages[s].size for s in touched)
            + model.workspace[i]
            - max((o.saving for o in model.overwrites[i] if can_die(i, o.storage)), default=0)
            for i, touched in enumerate(model.touched)
        ]
        most = max(needs, default=0)
        return most, needs.index(most) if needs else -1


def spill_problem(
    graph: Graph,
    target: Target,
    memories: Sequence[Memory],
    semantics: Semantics | None = None,
    *,
    parameters: bool = False,
) -> SpillProblem:
    """Work out a spilling problem. `memories`: fastest first. `parameters`: whether constants lie in the fast memory
    while ops read them (COSMA's second setting): they are loaded for the first time for nothing, as late as one likes,
    and need no write-back. A target that counts constants always means the same."""
    assert memories
    semantics = semantics or Semantics()
    if parameters:
        target = replace(target, constants="always")
    exact = memory_model(graph, target)
    views = {op.outputs[0] for op in graph.ops if target.view_source(graph, op) is not None}
    kinds, producer = graph.tensor_by_id, graph.producer
    index = graph.index_of
    copied, is_output, writers = [], [], []
    for s in exact.storages:
        constant = kinds[s.tensors[0]].kind is Kind.CONSTANT
        from_outside = any(t not in producer and kinds[t].kind is not Kind.ACTIVATION for t in s.tensors)
        copied.append(constant or (from_outside and semantics.inputs_have_copy))
        is_output.append(any(kinds[t].kind is Kind.OUTPUT for t in s.tensors))
        writers.append(tuple(sorted({index[producer[t]] for t in s.tensors if t in producer and t not in views})))
    return SpillProblem(
        _aligned(exact),
        tuple(s.size for s in exact.storages),
        tuple(memories),
        tuple(copied),
        tuple(is_output),
        tuple(output and semantics.outputs_written_early for output in is_output),
        tuple(writers),
        semantics,
    )


def _aligned(model: MemoryModel) -> MemoryModel:
    """The model with every size a multiple of its alignment. Overwrites at no multiple of it are left out."""
    unit = model.alignment
    overwrites = tuple(tuple(o for o in row if model.displacement[o.input] % unit == 0) for row in model.overwrites)
    return rounded_up(replace(model, overwrites=overwrites))


@dataclass(frozen=True)
class Timeline:
    """What an order alone decides."""

    # Per storage, the steps at which it has to be in the fast memory, ascending (step n: the end, see
    # `Semantics.outputs_end_fast`); with a lead, also those before a use in which it may be on its way.
    touches: tuple[tuple[int, ...], ...]
    # Per step from 0 to n, bytes that have to be there: the storages the op touches and its workspace, less what it
    # writes in place.
    forced: tuple[int, ...]
    gaps: tuple[Gap, ...]  # every gap of at least one step, by storage and start
    in_place: tuple[Overwrite, ...]  # the overwrites taken


def timeline(problem: SpillProblem, order: Sequence[int], in_place: Sequence[Overwrite] | None = None) -> Timeline:
    """Touches, forced bytes and gaps of an order; at each op the overwrite that saves most, if none are given.
    Before its first touch and after its last one a storage is not there: a graph input is loaded when it is first
    used. A storage of no bytes is never touched."""
    model, semantics = problem.model, problem.semantics
    n = len(order)
    step_of = [0] * n
    for step, i in enumerate(order):
        step_of[i] = step
    overwrites = profile(model, order).in_place if in_place is None else tuple(in_place)
    forced = [model.workspace[i] for i in order] + [0]
    for o in overwrites:
        forced[step_of[o.op]] -= o.saving
    touches: list[tuple[int, ...]] = []
    gaps: list[Gap] = []
    for s, storage in enumerate(model.storages):
        steps = sorted(step_of[i] for i in storage.users) if storage.size else []
        if problem.is_output[s] and semantics.outputs_end_fast and storage.size:
            steps.append(n)
        steps = _with_lead(steps, semantics.lead, from_outside=problem.from_outside(s))
        touches.append(tuple(steps))
        for t in steps:
            forced[t] += storage.size
        written = {step_of[i] for i in problem.writers[s]}
        last_write = max(written, default=-1)
        epoch, size = 0, problem.traffic_bytes[s]
        for k, t in enumerate(steps):
            epoch += t in written
            free = (epoch == 0 and problem.copied[s]) or (t >= last_write and problem.written_free[s])
            if k + 1 < len(steps):
                end, read = steps[k + 1], size
            elif problem.is_output[s] and not free and t < n:
                end, read = n, 0
            else:
                continue
            if t + 1 < end:
                gaps.append(Gap(s, t + 1, end, read, 0 if free else size, epoch))
    return Timeline(tuple(touches), tuple(forced), tuple(gaps), overwrites)


def _with_lead(touches: list[int], lead: int, *, from_outside: bool) -> list[int]:
    """The touches, and the steps before each one but the creation in which the storage is on its way or stays."""
    if not lead or not touches:
        return touches
    begins = [max(0, touches[0] - lead) if from_outside else touches[0]]
    begins += [max(before + 1, t - lead) for before, t in pairwise(touches)]
    return [t for begin, end in zip(begins, touches, strict=True) for t in range(begin, end + 1)]


def model_while_used(problem: SpillProblem) -> MemoryModel:
    """The problem's graph with constants counted only while ops read them, as orders of least peak are judged."""
    model = problem.model
    if model.target.constants != "always":
        return model
    return memory_model(model.graph, replace(model.target, constants="while_used"))


def order_by(name: str, problem: SpillProblem, limits: Limits) -> tuple[int, ...]:
    """Positions in file order: that order, or what scheduling method `name` finds (least peak, without spilling)."""
    if name == "own":
        return tuple(range(problem.steps))
    return make(name).schedule(model_while_used(problem), limits).order


def least_peak(problem: SpillProblem, limits: Limits) -> Schedule:
    """The order of least peak as `order_by` finds it, with the bytes that no order's peak is below, and why."""
    return make("exact").schedule(model_while_used(problem), limits)
