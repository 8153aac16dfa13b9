"""Eager kernels of torch: each tensor is allocated by itself, so there is no arena, and the peak is what is needed."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel
from lowtide.plan import RuntimeFigure
from lowtide.runtimes.base import Planned, Runtime


@dataclass(frozen=True)
class Eager(Runtime):
    """Kernels that allocate one by one."""

    def judged(self, peak_bytes: int, arena_bytes: int) -> int:
        """The peak."""
        return peak_bytes

    def figures(self, model: MemoryModel, planned: Planned) -> list[RuntimeFigure] | None:
        """The peaks, of the own order and of the plan's."""
        own = profile(model, range(len(model.graph.ops))).peak
        return [
            RuntimeFigure(runtime="PyTorch, eager", what="in use", default_bytes=own, planned_bytes=planned.peak_bytes)
        ]
