"""SERENITY's nine cells as its Figures 10, 12, 13 and 15 have them: three orders each, and their arenas.

- *tflite*: breadth first, which gives DARTS's printed arena (1656 KB); the paper's model files are not public.
- *order*: the schedule of SERENITY's dynamic programming.
- *rewriting*: the same of the graph with every concat eliminated that can be, where that needs less.

Cells are rebuilt. Of the RandWire cells, 39 float32 channels (as many bytes as 78 of 16 bits) are of the size of
Figure 15; activations are folded into what makes their input.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Literal

from lowtide.analyse.liveness import profile
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import InputError
from lowtide.schedule.order import Bfs
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.simple_arena import arena_use, simple_arena
from lowtide_research.schedule.rewriting import rewritten
from lowtide_research.schedule.serenity import Serenity

Way = Literal["tflite", "order", "rewriting"]
WAYS: tuple[Way, ...] = ("tflite", "order", "rewriting")

CELLS: Mapping[str, str] = MappingProxyType(
    {
        "darts_imagenet_normal_cell": "darts_imagenet_normal_cell:folded=1",
        **{name: name for name in ("swiftnet_cell_a", "swiftnet_cell_b", "swiftnet_cell_c")},
        **{
            name: f"{name}:channels=39"
            for name in (
                "randwire_cifar10_cell_a",
                "randwire_cifar10_cell_b",
                "randwire_cifar100_cell_a",
                "randwire_cifar100_cell_b",
                "randwire_cifar100_cell_c",
            )
        },
    }
)
"""The cells of Figure 15, and their names in the zoo at its size."""


@dataclass(frozen=True)
class Scheduled:
    """A cell in one order: its graph under ``strict``, the order, and the CPU seconds that it took to find."""

    model: MemoryModel
    order: tuple[int, ...]
    seconds: float

    @property
    def peak_bytes(self) -> int:
        """Without an allocator."""
        return profile(self.model, self.order).peak

    @property
    def arena_bytes(self) -> int:
        """With TensorFlow Lite's simple arena."""
        return simple_arena(self.model, self.order)

    def curves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Figure 12: for each step the bytes in use with that arena, up to the highest, and without an allocator.

        >>> arena, live = scheduled("swiftnet_cell_a", "order", Limits()).curves()
        >>> max(arena), max(live), len(live)
        (250880, 200704, 21)
        """
        return arena_use(self.model, self.order), profile(self.model, self.order).footprint


def scheduled(cell: str, way: Way, limits: Limits) -> Scheduled:
    """A cell of `CELLS` in an order. Raises `InputError`: the limits ended the search."""
    return _scheduled(cell, way, limits.seconds, limits.memory_bytes)


@cache
def _scheduled(cell: str, way: Way, seconds: float, memory_bytes: int) -> Scheduled:
    graph, limits = zoo.build(CELLS[cell]).graph(), Limits(seconds, memory_bytes)
    model = memory_model(graph, BUILT_IN["strict"])
    if way == "tflite":
        return Scheduled(model, Bfs().schedule(model, limits).order, 0.0)
    plain = None
    if way == "rewriting":
        plain, changed = _scheduled(cell, "order", seconds, memory_bytes), rewritten(graph)
        if len(changed.ops) == len(graph.ops):
            return plain
        model = memory_model(changed, BUILT_IN["strict"])
    began = time.process_time()
    schedule = Serenity(sequences=True).schedule(model, limits)
    spent = time.process_time() - began
    if schedule.stopped != "proof":
        raise InputError(f"{cell}: {schedule.stopped} ended the search; give it more with --time")
    found = Scheduled(model, schedule.order, spent)
    if plain is not None and found.peak_bytes >= plain.peak_bytes:
        return Scheduled(plain.model, plain.order, plain.seconds + spent)
    return found


def reduction(way: Way, limits: Limits) -> float:
    """Figure 10: the geometric mean over the cells of TensorFlow Lite's arena over that of `way`."""
    ratios = [scheduled(c, "tflite", limits).arena_bytes / scheduled(c, way, limits).arena_bytes for c in CELLS]
    return prod(ratios) ** (1 / len(ratios))
