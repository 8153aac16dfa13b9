"""Why ours differs from SERENITY's figures, by experiments: file orders, seeds of RandWire, and what rebuilt cells fit.

A baseline runs ops in the order of its model file, and the paper's files are not public. Each step of a random file
order runs any op that is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from random import Random
from statistics import median

from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph, Kind
from lowtide.schedule.exact import Exact
from lowtide.schedule.order import Bfs
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.off_chip import study
from lowtide_research.bench.simple_arena import simple_arena
from lowtide_research.reproduce.row import Measured, Row
from lowtide_research.reproduce.serenity_cells import CELLS, Way, scheduled
from lowtide_research.schedule.serenity import Serenity

ORDERS, SEEDS = 100, 10
DARTS = "darts_imagenet_normal_cell"
RANDWIRE = ("randwire_cifar10_cell_a", "randwire_cifar10_cell_b", "randwire_cifar100_cell_c")
"""Of the five one for each size."""
FITTED = ("swiftnet_cell_b", "swiftnet_cell_c")


def random_order(graph: Graph, random: Random) -> tuple[int, ...]:
    """Positions of ops, each time any that is ready."""
    waits = [set(before) for before in graph.predecessors]
    ready = [i for i, before in enumerate(waits) if not before]
    order: list[int] = []
    while ready:
        done = ready.pop(random.randrange(len(ready)))
        order.append(done)
        for i, before in enumerate(waits):
            if done in before:
                before.remove(done)
                if not before:
                    ready.append(i)
    assert len(order) == len(waits)
    return tuple(order)


@cache
def file_order_arenas(cell: str) -> tuple[float, ...]:
    """TensorFlow Lite's arenas of random file orders of a cell, in KB."""
    graph, random = zoo.build(CELLS[cell]).graph(), Random(0)
    model = memory_model(graph, BUILT_IN["strict"])
    return tuple(simple_arena(model, random_order(graph, random)) / 1000 for _ in range(ORDERS))


def spread(amounts: Sequence[float], of: str) -> str:
    """Least, median and greatest, as a remark."""
    return f"{of}: least {min(amounts):.0f}, median {median(amounts):.0f}, greatest {max(amounts):.0f}"


def _file_orders(cell: str, _: Limits) -> Measured:
    amounts = file_order_arenas(cell)
    return Measured(max(amounts), spread(amounts, f"{ORDERS} random file orders"))


def _reduction(way: Way, limits: Limits) -> Measured:
    ratios = [max(file_order_arenas(c)) / (scheduled(c, way, limits).arena_bytes / 1000) for c in CELLS]
    return Measured(prod(ratios) ** (1 / len(ratios)), f"each cell's largest arena of {ORDERS} random file orders")


@cache
def _seeded(cell: str, way: Way, seconds: float) -> tuple[float, ...]:
    arenas: list[float] = []
    for seed in range(SEEDS):
        model = memory_model(zoo.build(f"{CELLS[cell]},seed={seed}").graph(), BUILT_IN["strict"])
        method = Bfs() if way == "tflite" else Serenity(sequences=True)
        arenas.append(simple_arena(model, method.schedule(model, Limits(seconds)).order) / 1000)
    return tuple(arenas)


def _seeds(cell: str, way: Way, limits: Limits) -> Measured:
    amounts = _seeded(cell, way, limits.seconds)
    return Measured(median(amounts), spread(amounts, f"seeds 0 to {SEEDS - 1}"))


def _without_last_concat(limits: Limits) -> float:
    graph = zoo.build(CELLS[DARTS]).graph()
    last = graph.ops[-1]
    assert not any(t in graph.consumers for t in last.outputs)
    ops = tuple(op for op in graph.ops if op is not last)
    tensors = tuple(
        replace(t, kind=Kind.OUTPUT) if t.id in last.inputs else t for t in graph.tensors if t.id not in last.outputs
    )
    model = memory_model(replace(graph, ops=ops, tensors=tensors), BUILT_IN["strict"])
    found = Exact().schedule(model, limits)
    assert found.lower_bound == model.core.peak(found.order), "not proved"
    return found.lower_bound / 1000


def _peak(cell: str, limits: Limits) -> float:
    return scheduled(cell, "order", limits).peak_bytes / 1000


def _summed_traffic(limits: Limits) -> float:
    cells = [c for c in study(lambda: Limits(limits.seconds, limits.memory_bytes)) if c.on_chip_kb == 256]
    return sum(c.own_bytes for c in cells) / sum(c.least_peak_bytes for c in cells)


def _row(name: str, what: str, unit: str, measure: Callable[[Limits], float | Measured]) -> Row:
    return Row(name, "experiment", what, "", unit, measure, "neither", explains=True)


def experiments() -> Iterator[Row]:
    """Rows that other rows name as their reason."""
    both: tuple[Way, ...] = ("tflite", "order")
    found: tuple[Way, ...] = ("order", "rewriting")
    for cell in CELLS:
        yield _row(f"file-orders/{cell}", "TensorFlow Lite's largest arena", "KB", partial(_file_orders, cell))
    for way in found:
        yield _row(
            f"file-orders/figure-10/{way}", "Figure 10 with the worst file orders", "x", partial(_reduction, way)
        )
    for cell in RANDWIRE:
        for way in both:
            yield _row(f"seeds/{cell}/{way}", "median arena", "KB", partial(_seeds, cell, way))
    yield _row("without-last-concat/darts", "DARTS without its last concat: least peak", "KB", _without_last_concat)
    for cell in FITTED:
        yield _row(f"fitted/{cell}/peak", "peak without an allocator", "KB", partial(_peak, cell))
    yield _row("summed-traffic/figure-11", "the ratio of all cells' bytes", "x", _summed_traffic)
