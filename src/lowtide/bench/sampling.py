"""`lowtide bench space`: how the peaks of random orders are distributed, and where the methods stand in it.

SERENITY (MLSys 2020, Figure 3) and HMCOS (DAC 2022, Figure 2) show such distributions. Neither says how it draws; here
each step runs one of the ready ops, all equally likely, which is not uniform over orders.
"""

from __future__ import annotations

import time as clock
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lowtide import _core
from lowtide.analyse.storage import MemoryModel
from lowtide.bench.cases import Case, known
from lowtide.bench.machine import Machine, machine
from lowtide.bench.measure import Subject, measure
from lowtide.bench.parts import METHODS, by_method
from lowtide.errors import InputError
from lowtide.graph import Graph
from lowtide.schedule.core_model import core_model
from lowtide.schedule.registry import make
from lowtide.sizes import parse_size
from lowtide.stop import Progress
from lowtide.target import resolve

NETWORK = "nasnet_a_imagenet"
"""Of HMCOS's Figure 2."""
BINS = 60
QUANTILES = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)


@dataclass(frozen=True)
class Bin:
    """Orders whose peak is from `lower_bytes` up to and without `upper_bytes`."""

    lower_bytes: int
    upper_bytes: int
    orders: int


@dataclass(frozen=True)
class Mark:
    """A method's peak in the distribution. `share_at_most` is the part of the orders that are as good or better."""

    method: str
    status: str
    peak_bytes: int
    optimal: bool
    share_at_most: float


@dataclass(frozen=True)
class Distribution:
    """Peaks of random orders of one network, in bytes. `complete` is False if Ctrl-C ended the drawing."""

    suite: str
    schema: int
    machine: Machine
    network: str
    ops: int
    target: str
    unit: str
    form: str
    drawn_by: str
    seed: int
    orders: int
    complete: bool
    cpu_seconds: float
    different_peaks: int
    least_bytes: int
    greatest_bytes: int
    quantiles: dict[str, int]
    lower_bound_bytes: int
    constraint: str | None
    constraint_bytes: int | None
    share_within_constraint: float | None
    marks: tuple[Mark, ...]
    bins: tuple[Bin, ...]


def space(
    network: str | Graph = NETWORK,
    *,
    orders: int = 1_000_000,
    seed: int = 0,
    methods: Sequence[str] = METHODS,
    target: str | None = None,
    time: float = 30.0,
    search_memory: int | str = "2GiB",
    report: Callable[[str, Progress], None] | None = None,
    drawn: Callable[[int], None] | None = None,
) -> Distribution:
    """Draw random orders of a network, and run methods to compare them with.

    Parameters
    ----------
    network
        Name of the zoo, a file, or a graph.
    orders
        How many to draw.
    methods
        Names of the methods to mark.
    target
        Memory rules; if None, those of the paper that the network is from, else ``"strict"``.
    time, search_memory
        Limits of each method.
    report
        Called with a method's name and its search's progress.
    drawn
        Called now and then with the number of orders drawn.

    Raises
    ------
    InputError
        No such network, method or target; `orders` is below 1, or `time` not positive.
    """
    from lowtide.api.planning import check_time

    check_time(time)
    if orders < 1:
        raise InputError(f"orders is {orders}; draw at least one")
    for name in methods:
        make(name)
    limits = {"seconds": time, "memory_bytes": parse_size(search_memory, "search memory"), "seed": seed}
    case, graph = _find(network, target)
    model = _model(graph, case)
    began = clock.process_time()
    peaks, complete = _draw(model, orders, seed, drawn)
    cpu_seconds = clock.process_time() - began
    values = [size for size, _ in peaks]
    sums = list(accumulate(count for _, count in peaks))
    total = sums[-1]

    def share(size: int) -> float:
        k = bisect_right(values, size)
        return sums[k - 1] / total if k else 0.0

    cells = []
    subject = Subject("space", case, graph, model)
    try:
        for run in by_method(case, model, methods if complete else ()):

            def tell(progress: Progress, name: str = run.method.name) -> None:
                if report is not None:
                    report(name, progress)

            cells.append(measure(subject, run.method, {**limits, "report": tell}))
    except KeyboardInterrupt:
        complete = False
    bound = max((c.lower_bound_bytes or 0 for c in cells), default=0)
    reached = [(c, c.peak_bytes) for c in cells if c.peak_bytes is not None]
    constraint = case.constraint
    return Distribution(
        suite="space",
        schema=1,
        machine=machine(),
        network=case.name,
        ops=len(graph.ops),
        target=model.target.name,
        unit=case.unit,
        form=case.form,
        drawn_by="each step runs one of the ready ops, all equally likely",
        seed=seed,
        orders=total,
        complete=complete,
        cpu_seconds=round(cpu_seconds, 3),
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
    case = known(name) or Case(name)
    if target is not None and target != case.target:
        case = Case(name, target=target)
    return case, case.graph()


def _model(graph: Graph, case: Case) -> MemoryModel:
    from lowtide.analyse.storage import memory_model

    if not graph.ops:
        raise InputError("the graph has no ops, so there is nothing to order", graph.source or graph.name)
    return memory_model(graph, resolve(case.target))


def _draw(
    model: MemoryModel, orders: int, seed: int, drawn: Callable[[int], None] | None
) -> tuple[list[tuple[int, int]], bool]:
    def tell(count: int) -> bool:
        try:
            if drawn is not None:
                drawn(count)
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
