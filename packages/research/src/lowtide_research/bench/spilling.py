"""`lowtide research bench spill`: COSMA's networks at its three budgets, every scheme beside the published figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, TypeAlias

from lowtide.sizes import parse_size
from lowtide.spill.problem import spill_problem
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench import spill_tables
from lowtide_research.bench.off_chip import OffChip, study
from lowtide_research.bench.options import listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.spill_cells import (
    BUDGETS,
    ENDLESS,
    HUMAN,
    NAS,
    SCHEMES,
    SETTINGS,
    WIDE,
    WIDE_SCHEMES,
    Network,
    Setting,
    SpillCell,
    Subject,
)
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import Page, limits_text
from lowtide_research.spill.cosma.sizes import ProgramSize, program_sizes

PARTS = ("networks", "wide", "sizes", "off-chip")

Row: TypeAlias = SpillCell | ProgramSize | OffChip  # of the first two parts, of ``"sizes"``, of ``"off-chip"``


@dataclass(frozen=True, kw_only=True)
class SpillSuite(TableSuite[Row]):
    """COSMA's networks in a small fast memory: traffic and times of every scheme; SERENITY's off-chip study."""

    name: ClassVar[str] = "spill"
    words: ClassVar[str] = (
        "COSMA's networks in a small fast memory: traffic and times of every scheme, and SERENITY's study"
    )
    description: ClassVar[str] = (
        "COSMA's networks at its three budgets: non-compulsory traffic and times of every scheme, beside\n"
        "the published figures; sizes of the integer programs; SERENITY's off-chip study."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "--time 60 -o results",
        "--networks NASNet-A,DARTS --schemes 'belady own,spill'",
        "--part wide,off-chip -o results --label more",
    )

    # Labels (``"NASNet-A"``) or names; all if empty.
    networks: Sequence[str] = listed("COSMA's, by name (default: all)")
    # Keys of `SCHEMES`; all if empty.
    schemes: Sequence[str] = listed("such as 'belady own', cosma, spill (default: all)")
    # Of `SETTINGS`; both if empty.
    settings: Sequence[str] = listed("activations, parameters (default: both)", metavar="A,B")
    # Of `PARTS`; ``"networks"`` if empty.
    parts: Sequence[str] = listed("networks, wide, sizes, off-chip, or all", "--part")
    # time, search_memory: limits of each cell: seconds of wall time, memory for states.
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Row]:
        """Check the names; then cells, sizes of programs, pages."""
        check_names("part", (p for p in self.parts if p != "all"), PARTS)
        check_names("scheme", self.schemes, SCHEMES)
        check_names("setting", self.settings, SETTINGS)
        limits = partial(Limits, self.time, parse_size(self.search_memory, "search memory"), self.seed)
        return self._rows(self._networks(), limits, watch)

    def _networks(self) -> Sequence[Network]:
        every = (*HUMAN, *NAS)
        by_name = {key: n for n in every for key in (n.label, n.name)}
        labels = [n.label for n in every]
        check_names("network", (name for name in self.networks if name not in by_name), labels)
        return [by_name[name] for name in self.networks] if self.networks else every

    def _parts(self) -> Sequence[str]:
        return PARTS if "all" in self.parts else self.parts or PARTS[:1]

    def _rows(self, networks: Sequence[Network], limits: partial[Limits], watch: Watch) -> Iterator[Row]:
        parts = self._parts()
        asked = self.schemes or list(SCHEMES)
        settings: list[Setting] = [s for s in SETTINGS if s in self.settings or not self.settings]
        for part, of_part, schemes in (
            ("networks", networks, asked),
            ("wide", WIDE, [s for s in asked if s in WIDE_SCHEMES]),
        ):
            for network in of_part if part in parts else ():
                graph = network.graph()
                for setting in settings if part == "networks" else SETTINGS[:1]:
                    subject = Subject.of(part, network, setting, graph, limits)
                    yield from subject.cells(BUDGETS, schemes, limits, watch)
        for network in networks if "sizes" in parts else ():
            yield from program_sizes(spill_problem(network.graph(), resolve("strict"), ENDLESS), network.label)
        if "off-chip" in parts:
            yield from study(limits)

    def line(self, row: Row) -> str:
        """Of a cell its traffic, seconds, and what ended it."""
        if not isinstance(row, SpillCell):
            return ""
        traffic = row.reason or row.status if row.traffic_bytes is None else f"{row.traffic_bytes:,} B"
        limit = f", ended by {row.status}" if row.status in ("time", "memory") else ""
        return f"{row.label} {row.setting} {row.budget} {row.scheme}: {traffic}, {row.cpu_seconds:.3f} CPU s{limit}"

    def finish(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Traffic is optimal if some scheme proved that there is no less."""
        cells = [row for row in rows if isinstance(row, SpillCell)]
        best = best_bounds(cells, lambda c: c.problem_key, lambda c: c.lower_bound_bytes)
        proved = [replace(c, optimal=c.traffic_bytes == best[c.problem_key]) for c in cells]
        return [*proved, *(row for row in rows if not isinstance(row, SpillCell))]

    def page(self, results: Results[Row]) -> Page:
        """The tables of the parts that were run."""
        return spill_tables.page(results, limits_text(self.time, self.search_memory, self.seed))
