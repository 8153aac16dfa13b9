"""Eager kernels of torch: each tensor is allocated by itself, so there is no arena, and the peak is what is needed."""

from __future__ import annotations

from dataclasses import dataclass

from lowtide.runtimes.base import Plain


@dataclass(frozen=True)
class Eager(Plain):
    """Kernels that allocate one by one."""

    def judged(self, peak_bytes: int, arena_bytes: int) -> int:
        """The peak."""
        return peak_bytes
