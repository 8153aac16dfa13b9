"""`lowtide research bench spill`: networks in a small fast memory at three budgets, scheme by scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide_research.bench import spill_tables
from lowtide_research.bench.options import listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.spill_cells import (
    BUDGETS,
    HUMAN,
    NAS,
    SCHEMES,
    SETTINGS,
    WIDE,
    Network,
    Setting,
    SpillCell,
    Subject,
)
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import Page, limits_text


@dataclass(frozen=True, kw_only=True)
class SpillSuite(TableSuite[SpillCell]):
    """COSMA's networks and wide ones in a small fast memory: traffic and times of every scheme."""

    name: ClassVar[str] = "spill"
    words: ClassVar[str] = "networks in a small fast memory: traffic and times of every scheme"
    description: ClassVar[str] = (
        "COSMA's networks at its three budgets, and graphs that are hard to bound: non-compulsory traffic\n"
        "and times of every scheme, and what verify --prove says of each bound."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "--time 60 -o results",
        "--networks NASNet-A,DARTS --schemes 'belady own,spill'",
    )

    # Labels (``"NASNet-A"``) or names; all if empty.
    networks: Sequence[str] = listed("COSMA's and wide ones, by name (default: all)")
    # Keys of `SCHEMES`; all if empty.
    schemes: Sequence[str] = listed("such as 'belady own', cosma, spill (default: all)")
    # Of `SETTINGS`; both if empty.
    settings: Sequence[str] = listed("activations, parameters (default: both)", metavar="A,B")
    # time, search_memory: limits of each cell: seconds of wall time, memory for states.
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[SpillCell]:
        """Check the names; then cell by cell."""
        check_names("scheme", self.schemes, SCHEMES)
        check_names("setting", self.settings, SETTINGS)
        limits = partial(Limits, self.time, parse_size(self.search_memory, "search memory"), self.seed)
        return self._rows(self._networks(), limits, watch)

    def _networks(self) -> Sequence[Network]:
        every = (*HUMAN, *NAS, *WIDE)
        by_name = {key: n for n in every for key in (n.label, n.name)}
        labels = [n.label for n in every]
        check_names("network", (name for name in self.networks if name not in by_name), labels)
        return [by_name[name] for name in self.networks] if self.networks else every

    def _rows(self, networks: Sequence[Network], limits: partial[Limits], watch: Watch) -> Iterator[SpillCell]:
        schemes = self.schemes or list(SCHEMES)
        settings: list[Setting] = [s for s in SETTINGS if s in self.settings or not self.settings]
        for network in networks:
            graph = network.graph()
            for setting in settings:
                yield from Subject.of("networks", network, setting, graph, limits).cells(
                    BUDGETS, schemes, limits, watch
                )

    def line(self, row: SpillCell) -> str:
        """Traffic, seconds, and what ended it."""
        traffic = row.reason or row.status if row.traffic_bytes is None else f"{row.traffic_bytes:,} B"
        limit = f", ended by {row.status}" if row.status in ("time", "memory") else ""
        return f"{row.label} {row.setting} {row.budget} {row.scheme}: {traffic}, {row.cpu_seconds:.3f} CPU s{limit}"

    def finish(self, rows: Sequence[SpillCell]) -> Sequence[SpillCell]:
        """Traffic is optimal if some scheme proved that there is no less."""
        best = best_bounds(rows, lambda c: c.problem_key, lambda c: c.lower_bound_bytes)
        return [replace(c, optimal=c.traffic_bytes == best[c.problem_key]) for c in rows]

    def page(self, results: Results[SpillCell]) -> Page:
        """Traffic and seconds, by setting and family."""
        return spill_tables.page(results, limits_text(self.time, self.search_memory, self.seed))
