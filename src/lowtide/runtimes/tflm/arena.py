"""What TFLM makes of a plan: the smallest arena, with its parts; and of a .tflite file as it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.plan import RuntimeParts
from lowtide.read.tflite.model import TfliteFile, TfliteModel
from lowtide.rules.tflm.libraries import Library
from lowtide.rules.tflm.rule import ALIGNMENT, NPU
from lowtide.runtimes.base import Plain, Required
from lowtide.runtimes.tflm.offline import emptied_tensors, listed_offsets, without_elements
from lowtide.runtimes.tflm.persistent import arena_parts
from lowtide.runtimes.tflm.planner import tflm_head

MOST_BYTES = 256 * 2**20
"""Files above this size are no models for microcontrollers: they get no offline plan."""


@dataclass(frozen=True)
class Tflm(Plain):
    """TensorFlow Lite Micro: it takes an offline plan from the file, and keeps data of its own in the arena.

    `kernels`: whose; with others than the reference ones the parts are an estimate, as their scratch is not known.
    """

    kernels: Library = "reference"

    def beside(self, graph: Graph) -> int:
        """Bytes of the smallest arena that no plan changes, but for some 16 of alignment."""
        file = graph.file
        if not isinstance(file, TfliteFile):
            return 0
        return arena_parts(file.model, graph, graph.own_order).persistent_bytes + ALIGNMENT

    def required(self, graph: Graph, order: Sequence[int], offsets: Mapping[int, int]) -> Required | None:
        """TFLM's arena for a plan, and in the parts what it plans for the file as it stands.

        None for a graph that came from no .tflite file, for a file that Vela compiled, whose own plan stands, and for
        one above `MOST_BYTES`. What the plan leaves to TFLM (other subgraphs, inputs that nobody reads) is placed as
        TFLM places it.

        Raises
        ------
        InputError
            TFLM cannot take an offline plan for this file.
        """
        file = graph.file
        if not isinstance(file, TfliteFile) or file.size_bytes > MOST_BYTES or any(op.type == NPU for op in graph.ops):
            return None
        planned = without_elements(file.model, emptied_tensors(file.model, offsets))
        arena = _arena(planned, graph, order, listed_offsets(file.model, offsets))
        return None if arena is None else self._sure(arena, _own_head(file, graph))

    def as_it_stands(self, graph: Graph) -> Required | None:
        """TFLM's arena for the file with the offline plan that it holds, or by its own planner.

        Raises
        ------
        InputError
            The file's offline plan is for another number of tensors.
        """
        arena = None if not isinstance(graph.file, TfliteFile) else _arena_as_it_stands(graph.file, graph)
        return None if arena is None else self._sure(arena, None)

    def offline(self, graph: Graph) -> list[int] | None:
        """The offline plan of a .tflite file."""
        return graph.file.offline_plan() if isinstance(graph.file, TfliteFile) else None

    def _sure(self, arena: Required, own_head: int | None) -> Required:
        exact = arena.parts.exact and self.kernels == "reference"
        return replace(arena, parts=msgspec.structs.replace(arena.parts, exact=exact, own_planned=own_head))


def _arena_as_it_stands(file: TfliteFile, graph: Graph) -> Required | None:
    return _arena(file.model, graph, graph.own_order, file.offline_plan())


def _own_head(file: TfliteFile, graph: Graph) -> int | None:
    """Head of the file as it stands; None if TFLM refuses its offline plan."""
    try:
        arena = _arena_as_it_stands(file, graph)
    except InputError:
        return None
    return None if arena is None else arena.planned_bytes


def _arena(model: TfliteModel, graph: Graph, order: Sequence[int], offline: Sequence[int] | None) -> Required | None:
    """The arena of a file. None if it has too many buffers to play TFLM's planner through."""
    head = tflm_head(model, graph, order, offline)
    if head is None:
        return None
    parts = arena_parts(model, graph, order)
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
        ),
        head.buffers,
    )
