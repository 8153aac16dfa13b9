"""`lowtide research bench space`: how the peaks of random orders are distributed, and where the methods stand in it.

SERENITY (MLSys 2020, Figure 3) and HMCOS (DAC 2022, Figure 2) show such distributions. Neither says how it draws; here
each step runs one of the ready ops, all equally likely, which is not uniform over orders.
"""

from __future__ import annotations

import re
import time as clock
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import ClassVar, TypeAlias

from lowtide import _core
from lowtide.analyse.storage import MemoryModel, memory_model
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.method import core_model
from lowtide.schedule.registry import make
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench.drawing import Bin, Distribution, Mark, svg, text
from lowtide_research.bench.measure import Cell, Subject, measure
from lowtide_research.bench.networks import graph_of
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.parts import METHODS, by_method
from lowtide_research.bench.suite import Results, Suite, Watch
from lowtide_research.bench.tables import json_text
from lowtide_research.zoo.published.cases import Case, case_of

NETWORK = "nasnet_a_imagenet"  # of HMCOS's Figure 2
BINS = 60
QUANTILES = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Drawn:
    """The peaks of random orders of one network, in bytes, ascending, each with how many orders have it."""

    case: Case
    ops: int
    target: str
    peaks: tuple[tuple[int, int], ...]
    cpu_seconds: float


Row: TypeAlias = Drawn | Cell  # the orders drawn, then each method


@dataclass(frozen=True)
class SpaceSuite(Suite[Row]):
    """Random orders of a network, and methods to compare them with."""

    name: ClassVar[str] = "space"
    words: ClassVar[str] = "the peaks of random orders of one network, with the optimum and each method marked"
    description: ClassVar[str] = (
        "The peaks of random orders of one network, with the optimum and each method marked. Each step\n"
        "of an order runs one of the ready ops, all equally likely: not uniform over orders."
    )
    examples: ClassVar[tuple[str, ...]] = ("", "--network swiftnet_cell_a --orders 100000")
    labelled: ClassVar[bool] = False

    # Name of the zoo, a file, or a graph.
    network: str | Graph = field(
        default=NETWORK, metadata=flag("of the zoo, or a file (default: nasnet_a_imagenet)", "NAME")
    )
    orders: int = field(default=1_000_000, metadata=flag("(default: 1000000)", "N"))  # how many to draw
    # Names of the methods to mark; the papers' if empty.
    methods: Sequence[str] = listed("which to mark (default: the papers')")
    # Memory rules; if None, those of the paper that the network is from, else ``"strict"``.
    target: str | None = field(
        default=None, metadata=flag("memory rules (default: those of the network's paper, or strict)", "NAME")
    )
    # time, search_memory: limits of each method.
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check what is asked; then draw, and run the methods."""
        from lowtide.api.job import check_time

        check_time(self.time)
        if self.orders < 1:
            raise InputError(f"orders is {self.orders}; draw at least one")
        for name in self.methods:
            make(name)
        limits = partial(Limits, self.time, parse_size(self.search_memory, "search memory"), self.seed)
        case, graph = _find(self.network, self.target)
        return self._rows(Subject("space", case, graph, _model(graph, case)), limits, watch)

    def _rows(self, subject: Subject, limits: partial[Limits], watch: Watch) -> Iterator[Row]:
        case, model = subject.case, subject.model
        began = clock.process_time()
        peaks, complete = _draw(model, self.orders, self.seed, watch)
        seconds = round(clock.process_time() - began, 3)
        yield Drawn(case, len(subject.graph.ops), model.target.name, tuple(peaks), seconds)
        if not complete:
            raise KeyboardInterrupt
        for run in by_method(case, model, self.methods or METHODS):
            yield measure(subject, run.method, partial(limits, report=watch.named(run.method.name)))

    def line(self, row: Row) -> str:
        """Nothing: it is all in the histogram."""
        return ""

    def record(self, results: Results[Row]) -> object:
        """Version 1."""
        return distribution(results)

    def text(self, results: Results[Row]) -> str:
        """How many orders, and where each method is among them."""
        return text(distribution(results))

    def files(self, results: Results[Row], stem: str) -> dict[str, str]:
        """JSON, and the histogram as a picture."""
        shown = distribution(results)
        return {f"{stem}.json": json_text(shown), f"{stem}.svg": svg(shown)}

    def stem(self, results: Results[Row], label: str) -> str:
        """With the network's name."""
        return "space-" + re.sub(r"[^A-Za-z0-9_.=-]", "_", distribution(results).network)


def distribution(results: Results[Row]) -> Distribution:
    """What the rows say together. The first is the orders that were drawn."""
    suite, (drawn, *cells) = results.suite, results.rows
    assert isinstance(suite, SpaceSuite)
    assert isinstance(drawn, Drawn)
    methods = [c for c in cells if isinstance(c, Cell)]
    peaks, constraint = drawn.peaks, drawn.case.constraint
    values = [size for size, _ in peaks]
    sums = list(accumulate(count for _, count in peaks))
    total = sums[-1]

    def share(size: int) -> float:
        k = bisect_right(values, size)
        return sums[k - 1] / total if k else 0.0

    bound = max((c.lower_bound_bytes or 0 for c in methods), default=0)
    reached = [(c, c.peak_bytes) for c in methods if c.peak_bytes is not None]
    return Distribution(
        suite=suite.name,
        schema=1,
        machine=results.machine,
        network=drawn.case.name,
        ops=drawn.ops,
        target=drawn.target,
        unit=drawn.case.unit,
        form=drawn.case.form,
        drawn_by="each step runs one of the ready ops, all equally likely",
        seed=suite.seed,
        orders=total,
        complete=results.complete,
        cpu_seconds=drawn.cpu_seconds,
        different_peaks=len(peaks),
        least_bytes=values[0],
        greatest_bytes=values[-1],
        quantiles={str(q): values[bisect_right(sums, q * (total - 1))] for q in QUANTILES},
        lower_bound_bytes=bound,
        constraint=constraint.text if constraint else None,
        constraint_bytes=constraint.bytes if constraint else None,
        share_within_constraint=share(constraint.bytes) if constraint else None,
        marks=tuple(Mark(c.method, c.status, peak, peak == bound, share(peak)) for c, peak in reached),
        bins=_bins(peaks, min([values[0], *(peak for _, peak in reached)]), values[-1]),
    )


def _find(network: str | Graph, target: str | None) -> tuple[Case, Graph]:
    if isinstance(network, Graph):
        return Case(network.name, target=target or "strict"), network
    if "." in network.partition(":")[0]:
        from lowtide.api import load

        graph = load(network)
        return Case(graph.name, target=target or "strict"), graph
    name = network.removeprefix("zoo:")
    case = case_of(name) or Case(name)
    if target is not None and target != case.target:
        case = Case(name, target=target)
    return case, graph_of(case)


def _model(graph: Graph, case: Case) -> MemoryModel:
    if not graph.ops:
        raise InputError("the graph has no ops, so there is nothing to order", graph.source or graph.name)
    return memory_model(graph, resolve(case.target))


def _draw(model: MemoryModel, orders: int, seed: int, watch: Watch) -> tuple[list[tuple[int, int]], bool]:
    """Peaks with their counts, and whether Ctrl-C did not end it."""

    def tell(count: int) -> bool:
        try:
            watch.count(count, orders)
        except KeyboardInterrupt:
            return True
        return False

    result = _core.sample(core_model(model), orders=orders, seed=seed, report=tell)
    return list(result.peaks.items()), result.orders == orders


def _bins(peaks: Sequence[tuple[int, int]], least: int, most: int) -> tuple[Bin, ...]:
    """Equal bins from the least to the greatest peak, of whole bytes; fewer where there are fewer values."""
    width = max(1, -(-(most - least + 1) // BINS))
    counts = [0] * ((most - least) // width + 1)
    for size, count in peaks:
        counts[(size - least) // width] += count
    return tuple(Bin(least + i * width, least + (i + 1) * width, count) for i, count in enumerate(counts))
