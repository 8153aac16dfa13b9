"""Other people's allocators, where they are installed: found by import, run in the same process on the same buffers."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from lowtide.allocate.buffers import Problem, height_of, load_bound
from lowtide.allocate.greedy import Packing
from lowtide.stop import Limits

VELA = "ethosu.vela.hillclimb_allocation"


@dataclass(frozen=True)
class VelaHillClimb:
    """Vela's hill climb (package ``ethos-u-vela``): pure Python, own seed and stop rule; the time limit ends it too.

    Source: `HillClimbAllocator` in ethosu/vela/hillclimb_allocation.py.
    """

    name: ClassVar[str] = "vela hill climb"
    most_buffers: int = 2000

    def supports(self, problem: Problem) -> str | None:
        """Plain rectangles, up to `most_buffers`: it lists the neighbours of each at every step."""
        if (
            problem.pairs
            or problem.apart
            or any(len(b.rectangles) != 1 or b.offset is not None for b in problem.buffers)
        ):
            return "plain rectangles only"
        return None if len(problem.buffers) <= self.most_buffers else "too many buffers"

    def pack(self, problem: Problem, limits: Limits) -> Packing:
        """Run it until it ends or time is out."""
        allocator: Any = import_module(VELA).HillClimbAllocator
        ends: list[int] = []

        class Timed(allocator):
            def attempt_bottleneck_fix(self, indices: list[int], iterations_stuck: int) -> None:
                if limits.left_seconds <= 0:
                    raise TimeoutError
                ends.append(iterations_stuck)
                super().attempt_bottleneck_fix(indices, iterations_stuck)

        bound = load_bound(problem)
        section = {step: k for k, step in enumerate(sorted({s for b in problem.buffers for s in (b.start, b.end)}))}
        ranges = [_LiveRange(section[b.start], section[b.end] - 1, b.size, b.alignment) for b in problem.buffers]
        search: Any = Timed(ranges, None, bound)
        with suppress(TimeoutError):
            search.allocate()
        offsets = tuple(search.allocated_addresses)
        return Packing(offsets, height_of(problem, offsets), bound, self.name, {"iterations": len(ends)})


@dataclass(frozen=True)
class _LiveRange:
    """A buffer as Vela reads it, in sections of time between which nothing changes; `end_time` is the last one."""

    start_time: int
    end_time: int
    size: int
    alignment: int

    def get_alignment(self) -> int:
        return self.alignment


def external_allocators() -> tuple[VelaHillClimb, ...]:
    """Those that are installed."""
    try:
        installed = find_spec(VELA) is not None
    except ModuleNotFoundError:
        installed = False
    return (VelaHillClimb(),) if installed else ()
