"""Where code finds an element of a tensor: a view for each tensor that an op reads or makes, in a loop or complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from lowtide.emit.bodies import ALIGNMENT, VIEWS, Branch, placed
from lowtide.emit.memories import Memories
from lowtide.errors import InputError
from lowtide.graph import Graph, Kind, Tensor
from lowtide.plan import Plan
from lowtide.rewrites import PlanLoop

ELEMENT_BYTES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "uint32": 4, "float32": 4, "int64": 8, "uint64": 8,
}  # fmt: skip
"""Bytes of an element of the types that code has."""
Three = tuple[int, int, int]
"""Of rows, columns and channels."""


@dataclass(frozen=True)
class View:
    """`view_t` of the code: element (y, x, c) is at ``base + position % slots * stride`` and steps of `inside` on,
    where the position is the sum of y, x and c by `position`; of a complete tensor `slots` is 0."""

    base: int
    slots: int = 0
    stride: int = 0
    position: Three = (0, 0, 0)
    inside: Three = (0, 0, 0)
    unit: int = 1

    @property
    def text(self) -> str:
        """As an initialiser."""
        numbers = (self.base, self.slots, self.stride, *self.position, *self.inside)
        return f"{{{', '.join(map(str, numbers))}}}"

    @property
    def channels_last(self) -> bool:
        """Whether a pixel's channels are contiguous."""
        return self.position[2] == 0 and self.inside[2] == self.unit


def dims_of(shape: tuple[int, ...]) -> dict[int, int]:
    """Which of rows (0), columns (1) and channels (2) each dimension is; the batch is none of them.

    >>> dims_of((1, 8, 8, 3)), dims_of((5, 3))
    ({1: 0, 2: 1, 3: 2}, {0: 0, 1: 2})
    """
    table = {4: {1: 0, 2: 1, 3: 2}, 3: {0: 0, 1: 1, 2: 2}, 2: {0: 0, 1: 2}, 1: {0: 2}, 0: {}}
    return table[len(shape)]


def sizes_of(tensor: Tensor) -> Three:
    """Rows, columns and channels of a tensor. Raises `InputError`: it has more than four dimensions, or a batch."""
    shape = tensor.shape or ()
    if len(shape) > 4 or (len(shape) == 4 and shape[0] != 1):
        raise InputError(
            f"{tensor.label} has shape {list(shape)}; C is written for a batch of 1 and up to 4 dimensions"
        )
    sizes = [1, 1, 1]
    for d, which in dims_of(shape).items():
        sizes[which] = shape[d]
    return sizes[0], sizes[1], sizes[2]


def element_bytes(tensor: Tensor) -> int:
    """Bytes of an element; 1 of a type that code does not have."""
    return ELEMENT_BYTES.get(tensor.dtype or "", 1)


def complete(base: int, sizes: Three, unit: int = 1) -> View:
    """A complete tensor; `unit`: bytes of an element.

    >>> complete(16, (4, 5, 3)).text
    '{16, 0, 0, 0, 0, 0, 15, 3, 1}'
    """
    _, width, channels = sizes
    return View(base, inside=(width * channels * unit, channels * unit, unit), unit=unit)


@dataclass(frozen=True)
class Places:
    """Where a plan's tensors lie."""

    graph: Graph  # the user's, with the tensors inside of branches
    plan: Plan
    branches: Mapping[int, tuple[Branch, Branch]] = field(default_factory=dict)  # of each IF

    @cached_property
    def _behind(self) -> tuple[dict[int, int | str], int]:
        """Addresses of tensors inside of branches, or the tensors that they lie in, and where all end."""
        plan_bytes = self.plan.arena_bytes or 0
        begin, end = -(-plan_bytes // ALIGNMENT) * ALIGNMENT, plan_bytes
        at: dict[int, int | str] = {}
        for op, pair in self.branches.items():
            if self.plan.residency is not None:
                raise InputError("it has an IF; C is written for that in one memory", self.graph.source)
            own, last = placed(self.graph, pair, self.graph.op_by_id[op].outputs, begin)
            end = max(end, last) if last > begin else end
            at |= own
        return at, end

    @cached_property
    def given(self) -> dict[int, int]:
        """Addresses, after all memories, of inputs that the plan leaves where the caller has them."""
        streamed = {int(t) for loop in self.plan.loops or () for t in loop.streamed}
        at = max(self._behind[1], sum(m.size_bytes or 0 for m in self.plan.memories or ()))
        result = {}
        for t in self.graph.tensors:
            free = t.kind is Kind.INPUT and t.id in self.graph.consumers and t.id not in streamed
            if free and t.id not in self._offsets:
                at = -(-at // ALIGNMENT) * ALIGNMENT
                result[t.id] = at
                at += t.size
        return result

    @cached_property
    def _given_views(self) -> dict[int, int]:
        """As `given`, and of tensors that are the same bytes under another shape."""
        result = dict(self.given)
        for op in self.graph.ops:
            if op.type in VIEWS and op.inputs[0] in result and op.outputs[0] not in self._offsets:
                result[op.outputs[0]] = result[op.inputs[0]]
        return result

    @property
    def arena_bytes(self) -> int:
        """Bytes of the plan's arena and of what branches have after it."""
        return self._behind[1]

    @cached_property
    def memories(self) -> Memories:
        """Arrays that tensors lie in."""
        return Memories.of(self.plan)

    @cached_property
    def _offsets(self) -> dict[int, int]:
        """Addresses over all memories."""
        if self.plan.residency is None:
            return {int(t): at for t, at in (self.plan.offsets or {}).items()}
        return {r.tensor: self.memories.start[r.memory] + r.offset for r in self.plan.residency}

    def offset_of(self, tensor: int) -> int | None:
        """Byte at which a complete tensor begins; None if it has no place."""
        inside = self._behind[0].get(tensor)
        if inside is not None:
            return inside if isinstance(inside, int) else self.offset_of(int(inside))
        return self._offsets.get(tensor, self._given_views.get(tensor))

    def complete_at(self, tensor: int) -> int:
        """Byte of the arena, or of all memories one after the other, at which a complete tensor begins. Raises
        `InputError`: the plan gives it none."""
        offset = self.offset_of(tensor)
        if offset is None:
            raise InputError(f"the plan has no address for {self.graph.tensor_by_id[tensor].label}; plan it again")
        return offset

    def view(self, tensor: int, loop: PlanLoop | None = None) -> View:
        """Where a tensor is while a loop runs, or an op outside of loops."""
        t = self.graph.tensor_by_id[tensor]
        sizes = sizes_of(t)
        if loop is None or str(tensor) not in loop.axis:
            return complete(self.complete_at(tensor), sizes, element_bytes(t))
        home = tensor
        while str(home) in loop.keep and (over := loop.keep[str(home)].over) is not None:
            home = over
        line_buffer = loop.keep.get(str(home))
        if line_buffer is None:
            return complete(self.complete_at(home), sizes, element_bytes(t))
        which = dims_of(t.shape or ())
        along = [which[d] for d in loop.axis[str(tensor)]]
        position, inside = [0, 0, 0], [0, 0, 0]
        for level, dimension in enumerate(along):
            position[dimension] = prod(sizes[d] for d in along[level + 1 :])
        step = element_bytes(t)
        for dimension in (2, 1, 0):
            if dimension not in along:
                inside[dimension] = step
                step *= sizes[dimension]
        position_, inside_ = (*position,), (*inside,)
        return View(line_buffer.offset or 0, line_buffer.slots, line_buffer.bytes, position_, inside_, element_bytes(t))  # type: ignore[arg-type]


def initialiser(views: Sequence[View], numbers: Sequence[int], *names: str) -> str:
    """Parameters of a kernel: where its tensors lie, then numbers, then names of arrays."""
    return f"{{{', '.join([*(view.text for view in views), *map(str, numbers), *names])}}}"
