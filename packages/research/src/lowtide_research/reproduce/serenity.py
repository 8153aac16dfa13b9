"""SERENITY (Ahn et al., MLSys 2020), row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import prod

from lowtide import _core
from lowtide.analyse.storage import memory_model
from lowtide.graph import Graph
from lowtide.schedule.method import core_model
from lowtide.stop import Limits
from lowtide.target import BUILT_IN
from lowtide_research import zoo
from lowtide_research.bench.machine import quickest
from lowtide_research.bench.off_chip import study
from lowtide_research.reproduce.cells import Source, explained, rows_of_csv
from lowtide_research.reproduce.row import Direction, Measured, Row
from lowtide_research.reproduce.serenity_cells import CELLS, WAYS, Way, reduction, scheduled
from lowtide_research.schedule.rewriting import rewritten
from lowtide_research.schedule.serenity import Serenity, rows
from lowtide_research.schedule.serenity_parts import at_hourglasses
from lowtide_research.zoo.published import printed as published

SOURCES = {"Table 2": Source("serenity-2", "seconds of SERENITY without rewriting")}
BECAUSE = {
    "table-1/darts*": "convolutions and classifier alone; PyTorch-OpCounter counts 523 to 545 M for DARTS's own code",
    "table-1/*": "rebuilt network: the paper's is not public",
    "table-2/rewriting/nodes": "a misprint: its parts 33, 28 and 29 add up to 90",
    "figure-3/*": "the cell is rebuilt: the paper's graph is not public, and its wiring decides which orders there are",
    "figure-10/*": "cells are rebuilt: over seeds 0 to 9 a RandWire cell (CIFAR-10 A) gives 1.11 to 1.41 times; "
    "DARTS's 903 KB is its least peak without the last concat (with it 1,204,224 B, proved); SwiftNet A's 250.9 is as "
    "printed, TensorFlow Lite's 551.0 needs the order of its file, which is not public (breadth first: 376.3)",
    "figure-11": "cells are rebuilt, and page size and what counts are not printed; 1.19 by the sum of all bytes",
    "figure-12/*/tflite": "the order of TensorFlow Lite's file is not public; file order, Kahn's, breadth first, depth "
    "first and reverse post-order need 263 to 376 KB here",
    "figure-12/*/rewriting": "widths of the rebuilt cell are fitted to 200.7 KB; its rewritten parts then differ",
    "figure-15/darts*/order": "printed is the least peak without the cell's last concat (903,168 B); with it the least "
    "peak is 1,204,224 B, proved",
    "figure-15/darts*/rewriting": "the last concat is the cell's result, which no rewriting removes",
    "figure-15/swiftnet*/tflite": "rebuilt cell; the order of TensorFlow Lite's file is not public",
    "figure-15/swiftnet*": "rebuilt cell: its widths were fitted to 82 and 33 KB as peaks, and the bars are arenas",
    "figure-15/*": "seeds are not public: over seeds 0 to 9 the arena of CIFAR-10 A is 537 to 752 KB after scheduling",
}


def _row(
    name: str,
    what: str,
    printed: str,
    unit: str,
    measure: Callable[[Limits], float] | None,
    better: Direction = "less",
    because: str = "",
    note: str = "",
) -> Row:
    """A row whose place is the first part of its name."""
    place = name.partition("/")[0].replace("-", " ").capitalize()
    experiment = None if measure is None else lambda limits: Measured(measure(limits), note)
    return explained(Row(name, place, what, printed, unit, experiment, better, because), BECAUSE)


def _table_1() -> Iterator[Row]:
    """Sizes of the networks."""
    for name, macs, weights, accuracy in (
        ("darts_imagenet_14_cells", "574.0", "4700", "73.3"),
        ("swiftnet", "57.4", "249.7", "95.1"),
        ("randwire_cifar10", "111.0", "1200", "93.6"),
        ("randwire_cifar100", "160.0", "4700", "74.5"),
    ):
        where = f"table-1/{name}"
        yield _row(f"{where}/macs", "multiplications", macs, "M", lambda _, n=name: _net(n).macs() / 1e6, "neither")
        weight = partial(lambda n, _: _net(n).parameters() / 1e3, name)
        yield _row(f"{where}/weights", "weights", weights, "K", weight, "neither")
        why = "trained weights of these networks are not public; no order of ops changes what they compute"
        yield _row(f"{where}/accuracy", "top-1 accuracy", accuracy, "%", None, because=why)


_net = cache(zoo.build)


@cache
def _cells(way: str) -> Graph:
    """The three cells of SwiftNet in a row."""
    graph = _net("swiftnet_cells").graph()
    return rewritten(graph) if way == "rewriting" else graph


def _nodes(way: str, _: Limits) -> int:
    return len(_cells(way).ops)


def _part_nodes(way: str, part: int, _: Limits) -> int:
    return len(at_hourglasses(_cells(way))[part])


_AS_PRINTED = Serenity(update="printed", step_seconds=1.0)


def _table_2() -> Iterator[Row]:
    """Nodes and parts; seconds with rewriting; and the rows of plain dynamic programming, which never ended."""
    for way, total, parts in (("plain", "62", ("21", "19", "22")), ("rewriting", "92", ("33", "28", "29"))):
        yield _row(f"table-2/{way}/nodes", "nodes", total, "", partial(_nodes, way), "neither")
        for k, nodes in enumerate(parts):
            cell = f"table-2/{way}/nodes/{'abc'[k]}"
            yield _row(cell, "nodes of a part", nodes, "", partial(_part_nodes, way, k), "neither")
    methods = list(rows().items())
    yield _row(
        "table-2/plain/dp", "seconds of plain dynamic programming", "", "s", partial(_seconds, methods[0][1], "plain"),
        because="printed as N/A, infeasible within practical time; on the rebuilt cells it ends",
    )  # fmt: skip
    for (setting, method), text, unit, scale in zip(methods, ("", "7.2", "111.9"), "shs", (1, 3600, 1), strict=True):
        name = "dp" + "-divide" * ("divide" in setting) + "-budget" * ("budget" in setting)
        made = _AS_PRINTED if method == Serenity() else method
        why = "printed as N/A, infeasible within practical time; on the rebuilt cells it ends" if not text else ""
        yield _row(
            f"table-2/rewriting/{name}", "seconds with rewriting", text, unit,
            lambda limits, m=made, s=scale: _seconds(m, "rewriting", limits) / s, because=why,
            note="update as printed, T = 1 s" if made is _AS_PRINTED else "",
        )  # fmt: skip


def _seconds(method: Serenity, way: str, limits: Limits) -> float:
    model = memory_model(_cells(way), BUILT_IN["strict"])
    schedule, seconds, _ = quickest(
        lambda: method.schedule(model, Limits(limits.seconds, limits.memory_bytes)), lambda s: s.stopped
    )
    assert schedule.stopped == "proof", schedule.stopped
    return seconds


ORDERS = 1_000_000


@cache
def _sampled() -> dict[int, int]:
    model = memory_model(zoo.build("swiftnet_cell_a").graph(), BUILT_IN["strict"])
    return dict(_core.sample(core_model(model), orders=ORDERS, seed=0, report=None).peaks)


def _share(most_bytes: int) -> float:
    return 100 * sum(n for peak, n in _sampled().items() if peak <= most_bytes) / ORDERS


def _figure_3() -> Iterator[Row]:
    """Shares of a million orders."""
    text, what = "a million orders, each step any ready op", "share of the orders of SwiftNet A"
    yield _row("figure-3/250-kb", f"{what} within 250 KB", "4.1", "%", lambda _: _share(250_000), "neither", note=text)
    yield _row(
        "figure-3/optimal", f"{what} of least peak", "0.04", "%",
        lambda limits: _share(scheduled("swiftnet_cell_a", "order", limits).peak_bytes), "neither", note=text,
    )  # fmt: skip


def _off_chip(limits: Limits) -> float:
    cells = [c for c in study(lambda: Limits(limits.seconds, limits.memory_bytes)) if c.on_chip_kb == 256]
    ratios = [c.own_bytes / c.least_peak_bytes for c in cells if c.own_bytes and c.least_peak_bytes]
    return prod(ratios) ** (1 / len(ratios))


def _figures_10_to_13() -> Iterator[Row]:
    """Arenas, traffic, SwiftNet A with and without an allocator, seconds."""
    what = "TensorFlow Lite's arena over SERENITY's, geometric mean over nine cells"
    yield _row("figure-10/order", what, "1.68", "x", lambda limits: reduction("order", limits), "more")
    yield _row("figure-10/rewriting", what, "1.86", "x", lambda limits: reduction("rewriting", limits), "more")
    yield _row(
        "figure-10/gain", "what rewriting adds", "10.7", "%",
        lambda limits: 100 * (reduction("rewriting", limits) / reduction("order", limits) - 1), "more",
    )  # fmt: skip
    yield _row("figure-11", "off-chip traffic at 256 KB, TensorFlow Lite over SERENITY", "1.76", "x", _off_chip, "more")
    for way, text in zip(WAYS, ("551.0", "250.9", "225.8"), strict=True):
        yield _row(
            f"figure-12/allocator/{way}", "SwiftNet A, arena", text, "KB", partial(_arena, "swiftnet_cell_a", way),
            "neither" if way == "tflite" else "less",
        )  # fmt: skip
    for way, text in zip(WAYS[1:], ("200.7", "188.2"), strict=True):
        peak = partial(lambda w, limits: scheduled("swiftnet_cell_a", w, limits).peak_bytes / 1000, way)
        yield _row(f"figure-12/no-allocator/{way}", "SwiftNet A, peak", text, "KB", peak)
    for way, text in zip(WAYS[1:], ("40.6", "48.8"), strict=True):
        mean = partial(lambda w, limits: sum(scheduled(c, w, limits).seconds for c in CELLS) / len(CELLS), way)
        yield _row(f"figure-13/{way}", "mean seconds over nine cells", text, "s", mean)


def _arena(cell: str, way: Way, limits: Limits) -> float:
    return scheduled(cell, way, limits).arena_bytes / 1000


_REWRITTEN = (753, 226, 72, 20, 459, 260, 359, 280, 115)
"""Third bars of Figure 15, read off the picture."""


def _figure_15() -> Iterator[Row]:
    """Arenas of nine cells in KB, read off bars."""
    for cell, third in zip(CELLS, _REWRITTEN, strict=True):
        bars = {f.method: f.text for f in published(cell, "strict", "own") + published(cell, "strict", "serenity")
                if f.figure == "arena"}  # fmt: skip
        for way, text in zip(WAYS, (bars["own"], bars["serenity"], str(third)), strict=True):
            better = "neither" if way == "tflite" else "less"
            yield _row(f"figure-15/{cell}/{way}", "arena", text, "KB", partial(_arena, cell, way), better)


ROWS: tuple[Row, ...] = (
    *_table_1(),
    *_table_2(),
    *rows_of_csv("SERENITY", SOURCES, BECAUSE),
    *_figure_3(),
    *_figures_10_to_13(),
    *_figure_15(),
)
