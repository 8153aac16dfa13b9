"""What TFLM makes of a plan: the smallest arena, with its parts; and of an unmodified .tflite file.

What no build of TFLM needs less than, for a file: what may be called impossible.

A target says which build is meant, and may leave things open: whose kernels run, whether the interpreter records,
whether enums are small. What is said to be impossible holds for every build that it leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import msgspec

from lowtide.analyse.liveness import largest_single_op
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import RuntimeFigure, RuntimeParts, Sure
from lowtide.read.tflite.model import TfliteFile, TfliteModel
from lowtide.rules.tflm.libraries import BEYOND, LIBRARIES, Library
from lowtide.rules.tflm.rule import ALIGNMENT, NPU, TflmRule
from lowtide.runtimes.base import HeadAndTail, Planned, Required, Runtime
from lowtide.runtimes.tflm.builds import I386, SHORT_ENUMS, X86_64, Build, build_for, two_arena_build
from lowtide.runtimes.tflm.offline import emptied_tensors, listed_offsets, without_elements
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.runtimes.tflm.planner import tflm_head
from lowtide.target import Target
from lowtide.transform.tflite_file import TfliteParts

MOST_BYTES = 256 * 2**20  # files above this size are no models for microcontrollers: they get no offline plan


def _in_file(graph: Graph) -> Graph:
    """The graph as the file has it: a part graph has ids of its own."""
    return graph.file.graph if isinstance(graph.file, TfliteParts) else graph


def _numbered(
    file: TfliteParts, order: Sequence[int], offsets: Mapping[int, int]
) -> tuple[Graph, list[int], dict[int, int]]:
    """A part graph, an order and offsets in the numbers of its file."""
    return file.graph, [file.ops[op] for op in order], {file.tensors[t]: at for t, at in offsets.items()}


@dataclass(frozen=True)
class Tflm(Runtime):
    """TensorFlow Lite Micro: it takes an offline plan from the file, and keeps data of its own in the arena.

    `target`: whose kernels run, and in which build of TFLM.
    """

    arenas: ClassVar[int] = 2

    def arena_budget(self, graph: Graph, available: int) -> int:
        """What the tail leaves for the head, which ends at a multiple of 16."""
        graph = _in_file(graph)
        file = graph.file
        if not isinstance(file, TfliteFile):
            return available
        tail = max(
            arena_parts(file.model, graph, graph.own_order, build_for(target)).persistent_bytes
            for target in self._named().values()
        )
        return (available - tail) // ALIGNMENT * ALIGNMENT

    def required(self, graph: Graph, order: Sequence[int], offsets: Mapping[int, int]) -> Required | None:
        """TFLM's arena for a plan, and in the parts what it plans for the unmodified file. None for a graph that
        came from no .tflite file, for a file that Vela compiled, whose own plan is kept, and for one above
        `MOST_BYTES`. What the plan leaves to TFLM (other subgraphs, inputs without a consumer) is placed as TFLM
        places it. Raises `InputError`: TFLM cannot take an offline plan for this file."""
        if isinstance(graph.file, TfliteParts):
            return self.required(*_numbered(graph.file, order, offsets))
        file = graph.file
        if not isinstance(file, TfliteFile) or file.size_bytes > MOST_BYTES or self.keeps_own_plan(graph):
            return None
        planned = without_elements(file.model, emptied_tensors(file.model, offsets))
        arena = self._arena(planned, graph, order, listed_offsets(file.model, offsets))
        if arena is None:
            return None
        parts = msgspec.structs.replace(arena.parts, own_planned=self._own_head(file, graph))
        return replace(arena, parts=parts)

    def of_unmodified(self, graph: Graph) -> Required | None:
        """TFLM's arena for the file with the offline plan that it holds, or by its own planner. Raises `InputError`:
        the file's offline plan is for another number of tensors."""
        graph = _in_file(graph)
        file = graph.file
        if not isinstance(file, TfliteFile):
            return None
        return self._arena(file.model, graph, graph.own_order, file.offline_plan())

    def head_and_tail(
        self, graph: Graph, order: Sequence[int], required: Required, lower_bound: int
    ) -> HeadAndTail | None:
        """What `MicroAllocator::Create` needs with two arrays, for the same head. None without a .tflite file."""
        file = graph.file
        if not isinstance(file, TfliteFile):
            return None
        heads, tails, exact = [], [], []
        for kernels, target in self._named().items():
            of_kernels = arena_parts(file.model, graph, order, two_arena_build(target))
            head = required.each[kernels].planned_bytes if required.each else required.planned_bytes
            heads.append((of_kernels.head_arena(head), max(of_kernels.planning_bytes, of_kernels.preparing_bytes)))
            tails.append(of_kernels.persistent_bytes)
            exact.append(of_kernels.exact and of_kernels.head_arena(head) > of_kernels.preparing_bytes)
        least_head, least_tail = least_head_and_tail(file.model, graph, self.target, lower_bound)
        parts = msgspec.structs.replace(
            required.parts,
            planned=required.planned_bytes,
            persistent=max(tails),
            planning=max(planning for _, planning in heads),
            exact=all(exact) and not required.parts.unknown,
            build=two_arena_build(self.target).words
            if not required.each
            else f"{two_arena_build(self.target).place}, each with the kernels that take most of it",
            decided_by="",
            arenas={},
            beyond={},
        )
        return HeadAndTail(max(size for size, _ in heads), max(tails), least_head, least_tail, parts)

    def keeps_own_plan(self, graph: Graph) -> bool:
        """Whether Vela compiled the file: its commands hold places in the arena."""
        return isinstance(graph.file, TfliteFile) and any(op.type == NPU for op in graph.ops)

    def offline(self, graph: Graph) -> list[int] | None:
        """The offline plan of a .tflite file."""
        return graph.file.offline_plan() if isinstance(graph.file, TfliteFile) else None

    def kernel_targets(self) -> Mapping[str, Target]:
        """Kernels of all libraries at once, the reference ones, CMSIS-NN's and ESP-NN's."""
        return {
            kernels: replace(self.target, kernels=kernels, simd=self.target.simd if kernels == "cmsis_nn" else "dsp")
            for kernels in get_args(Library)
        }

    def _named(self) -> Mapping[str, Target]:
        """The target for each library that it speaks of: all, unless it names one."""
        if self.target.kernels != "any":
            return {self.target.kernels: self.target}
        return {kernels: replace(self.target, kernels=kernels) for kernels in LIBRARIES}

    def target_of_file(self, graph: Graph) -> Target:
        """For the kernels that the file names, as one that lowtide wrote does, unless the target names some."""
        held = graph.file.kernels if isinstance(graph.file, TfliteFile) else None
        return self.kernel_targets().get(held or "", self.target) if self.target.kernels == "any" else self.target

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """kTensorArenaSize and the head in it; None where the file's own offline plan is refused."""
        try:
            unmodified = self.of_unmodified(model.graph)
        except InputError:
            return None
        if unmodified is None or planned.block_bytes is None or planned.parts is None:
            return None
        both = unmodified.parts, planned.parts
        unknown = any(parts.unknown for parts in both)
        all_of_it: Sure = "at least" if unknown else "exact" if all(parts.exact for parts in both) else "at most"
        head: Sure = "at least" if unknown else "exact"
        return [
            RuntimeFigure(
                runtime="TFLM",
                what="kTensorArenaSize",
                default_bytes=unmodified.required_bytes,
                planned_bytes=planned.block_bytes,
                sure=all_of_it,
            ),
            RuntimeFigure(
                runtime="TFLM",
                what="head",
                default_bytes=unmodified.planned_bytes,
                planned_bytes=planned.arena_bytes,
                sure=head,
            ),
        ]

    def _own_head(self, file: TfliteFile, graph: Graph) -> int | None:
        """Head of the unmodified file; None if TFLM refuses its offline plan."""
        try:
            arena = self._arena(file.model, graph, graph.own_order, file.offline_plan())
        except InputError:
            return None
        return None if arena is None else arena.planned_bytes

    def _arena(
        self, model: TfliteModel, graph: Graph, order: Sequence[int], offline: Sequence[int] | None
    ) -> Required | None:
        """The arena of a file, enough for all kernels that the target leaves open. None if it has too many buffers
        to play TFLM's planner through."""
        each: dict[str, Required] = {}
        for kernels, target in self._named().items():
            required = _with_kernels(model, graph, order, offline, target)
            if required is None:
                return None
            each[kernels] = required
        decided_by = max(each, key=lambda kernels: each[kernels].required_bytes)
        most, least = each[decided_by], least_parts(model, graph, self.target)
        parts = msgspec.structs.replace(
            most.parts,
            least_beside=least.tail_bytes,
            least_planning=least.planning_bytes,
            least_head=least.head_bytes,
            kernels=self.target.kernels,
            decided_by=decided_by,
        )
        if len(each) == 1:
            return replace(most, parts=parts)
        beyond: dict[str, int] = {}
        for kernels, simd in BEYOND:
            other = _with_kernels(model, graph, order, offline, replace(self.target, kernels=kernels, simd=simd))
            if other is not None and other.required_bytes > most.required_bytes:
                beyond[f"{kernels},simd={simd}"] = other.required_bytes
        arenas = {name: one.required_bytes for name, one in each.items()}
        parts = msgspec.structs.replace(parts, arenas=arenas, beyond=beyond)
        return replace(most, planned_bytes=max(one.planned_bytes for one in each.values()), parts=parts, each=each)


def _with_kernels(
    model: TfliteModel, graph: Graph, order: Sequence[int], offline: Sequence[int] | None, target: Target
) -> Required | None:
    """The arena of a file under kernels that are named."""
    head = tflm_head(model, graph, order, offline, target.tflm_rule)
    if head is None:
        return None
    build = build_for(target)
    parts = arena_parts(model, graph, order, build)
    return Required(
        head.bytes,
        parts.smallest_arena(head.bytes),
        RuntimeParts(
            planned=head.bytes,
            scratch=parts.scratch_bytes,
            persistent=parts.persistent_bytes,
            planning=max(parts.planning_bytes, parts.preparing_bytes),
            alignment=ALIGNMENT,
            exact=parts.exact_for(head.bytes),
            unknown=list(parts.unknown),
            kernels=target.kernels,
            build=build.words,
            bodies={str(op): size for op, size in head.bodies.items()},
        ),
        head.buffers,
    )


@dataclass(frozen=True, slots=True)
class Least:
    """Bytes that are needed at least: `tail_bytes` beyond the least head, and `planning` in all, whatever the head is.

    `head`: of any plan under any kernels that the target leaves open; None: the plan's own lower bound holds.
    """

    tail_bytes: int
    planning_bytes: int
    head_bytes: int | None


def least_parts(model: TfliteModel, graph: Graph, target: Target) -> Least:
    """Least over the builds that a target leaves open. Where a kernel may go on without memory that it was refused
    (ELU of floats makes no table), that is left out."""
    tails, planning = [], []
    for build in _open(target):
        parts = arena_parts(model, graph, graph.own_order, build)
        tails.append(parts.persistent_bytes - parts.optional_bytes)
        planning.append(parts.planning_bytes - parts.optional_bytes)
    return Least(min(tails) - _spared_scratch(graph, target), max(0, min(planning)), _least_head(graph, target))


def least_head_and_tail(model: TfliteModel, graph: Graph, target: Target, lower_bound: int) -> tuple[int, int]:
    """The same for an arena for the head and one for the tail, for plans whose head has a lower bound."""
    heads, tails = [], []
    for build in _open(target):
        parts = arena_parts(model, graph, graph.own_order, replace(build, recording=False, pip=False, two_arenas=True))
        heads.append(parts.planning_bytes)
        tails.append(parts.persistent_bytes - parts.optional_bytes)
    least = _least_head(graph, target)
    head = lower_bound if least is None else min(lower_bound, least)
    return max(head - _spared_scratch(graph, target), min(heads)), max(0, min(tails))


def _least_head(graph: Graph, target: Target) -> int | None:
    """Least head under any kernels that the target leaves open; None: the plan's own lower bound holds."""
    if target.kernels != "any":
        return None
    return largest_single_op(memory_model(graph, replace(target, kernels="reference")))


def _open(target: Target) -> Iterator[Build]:
    """The builds that a target may mean, of those that are known."""
    meant = build_for(target)
    yield meant
    if target.interpreter == "recording" and target.pointer == 64 and target.kernels == "reference":
        return
    recording = target.interpreter == "recording"
    kernels = LIBRARIES if target.kernels == "any" else (meant.kernels,)
    abis = [X86_64] if target.pointer == 64 and target.interpreter != "auto" else [I386, SHORT_ENUMS]
    for library in kernels:
        for abi in abis:
            yield Build(abi, recording, False, library, "none" if target.kernels == "any" else target.simd)


def _spared_scratch(graph: Graph, target: Target) -> int:
    """Scratch that may be less under kernels that the target leaves open: the least head counts the reference's."""
    if target.kernels != "any":
        return 0
    rule = TflmRule("reference", pointer=4)
    return max((rule.workspace(graph, op) for op in graph.ops), default=0)
