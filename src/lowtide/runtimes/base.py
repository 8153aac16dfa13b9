"""What a runtime makes of an order and its arena, beyond the rules that its target states op by op.

A runtime takes the plan's offsets, or places tensors by a planner of its own and can only be given an order; and it may
need bytes in addition to those that are planned. `lowtide.runtimes.registry` says which one a target is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.graph import Graph
from lowtide.plan import Plan, RuntimeFigure, RuntimeParts
from lowtide.stop import Limits
from lowtide.target import Target


@dataclass(frozen=True)
class OwnArena:
    """The order that a runtime runs, in positions, and the bytes that its own planner takes for it.

    `bytes` is None where it has no planner of its own, and takes the plan's offsets.
    """

    order: tuple[int, ...]
    bytes: int | None = None


@dataclass(frozen=True)
class Required:
    """What a runtime needs for a file: the planned part and all of it, in bytes, its parts, and each buffer's offset.

    `buffers` are in the order in which the runtime adds them. Where a runtime's kernels are not named, `planned_bytes`
    and `required_bytes` are the most that any of them need, the parts and buffers are theirs that need most in all, and
    `each` is what every one of them needs.
    """

    planned_bytes: int
    required_bytes: int
    parts: RuntimeParts
    buffers: tuple[int, ...]
    each: Mapping[str, Required] = field(default_factory=dict)


@dataclass(frozen=True)
class HeadAndTail:
    """What a runtime with two arenas needs: bytes for the head and for the tail, and what no plan needs less than."""

    head_bytes: int
    tail_bytes: int
    least_head_bytes: int
    least_tail_bytes: int
    parts: RuntimeParts


@dataclass(frozen=True)
class Planned:
    """What a plan takes: op ids in its order, and bytes; `arena_bytes` is TFLM's head, `block_bytes` the runtime's."""

    order: Sequence[int]
    peak_bytes: int
    arena_bytes: int
    block_bytes: int | None
    parts: RuntimeParts | None = None

    @classmethod
    def of(cls, plan: Plan) -> Planned:
        """That of a plan with one arena."""
        return cls(plan.order, plan.peak_bytes, plan.arena_bytes or 0, plan.runtime_arena_bytes, plan.runtime_parts)


@dataclass(frozen=True)
class Runtime:
    """A runtime, as far as plans for it differ from plans for others; this one takes the plan's offsets and no more.

    `arenas`: how many arrays of its own it can be given, for tensors and for what it keeps; 0 if it takes the plan.
    """

    target: Target
    arenas: ClassVar[int] = 0

    def own_arena(self, model: MemoryModel, order: tuple[int, ...], limits: Limits, *, others: bool) -> OwnArena:
        """The order as the runtime runs it, and what its own planner takes for that. With `others`, the order of no
        higher peak for which that is least."""
        return OwnArena(order)

    def arena_budget(self, graph: Graph, available: int) -> int:
        """Bytes of `available` that the arena of tensors may take; the runtime needs the others for itself. A plan fits
        `available` if and only if its arena fits these."""
        return available

    def required(self, graph: Graph, order: Sequence[int], offsets: Mapping[int, int]) -> Required | None:
        """What the runtime needs for a plan: op ids in order, offset by tensor id. None if that is the arena. Raises
        `InputError`: the runtime cannot take a plan for this file."""
        return None

    def of_unmodified(self, graph: Graph) -> Required | None:
        """What the runtime needs for an unmodified model file. Raises as `required`."""
        return None

    def keeps_own_plan(self, graph: Graph) -> bool:
        """Whether a model's file holds a plan that no other can replace."""
        return False

    def offline(self, graph: Graph) -> list[int] | None:
        """The offsets that a model's file holds for this runtime, -1 where it holds none; None if there are none.
        Raises `InputError`: the runtime refuses them."""
        return None

    def head_and_tail(
        self, graph: Graph, order: Sequence[int], required: Required, lower_bound: int
    ) -> HeadAndTail | None:
        """What the runtime needs with an arena for the head and one for the tail; no order makes the head lower than
        the bound. None if the runtime has none such."""
        return None

    def budgeted_bytes(self, peak_bytes: int, arena_bytes: int) -> int:
        """The bytes that a budget limits, of the peak of live tensors and the arena."""
        return arena_bytes

    def kernel_targets(self) -> Mapping[str, Target]:
        """The target for each library of kernels that the runtime can be built with; none if it has one alone."""
        return {}

    def target_of_file(self, graph: Graph) -> Target:
        """The target under which the plan that a model's file holds is to be checked."""
        return self.target

    def unknown(self, graph: Graph) -> list[str]:
        """Types of the ops of which it is not known what their kernels take: then its own arena is at least needed."""
        return []

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """What the runtime takes by its defaults for the unmodified file, and with a plan; None if it has no say."""
        return None


@dataclass(frozen=True)
class Eager(Runtime):
    """Kernels that allocate one by one."""

    def budgeted_bytes(self, peak_bytes: int, arena_bytes: int) -> int:
        """The peak: nothing is allocated in advance."""
        return peak_bytes

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """The peaks, of the file order and of the plan's."""
        own = profile(model, range(len(model.graph.ops))).peak
        return [
            RuntimeFigure(runtime="PyTorch, eager", what="in use", default_bytes=own, planned_bytes=planned.peak_bytes)
        ]
