"""`lowtide research bench schedule`: every method on the papers' networks, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from lowtide.schedule.registry import make
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide_research.bench import schedule_tables
from lowtide_research.bench.measure import Cell, make_subject, measure
from lowtide_research.bench.networks import SUFFIX, files_in, graph_of
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.parts import GRAPHS, METHODS, PARTS, Part, by_method
from lowtide_research.bench.suite import Results, TableSuite, Watch, best_bounds, check_names
from lowtide_research.bench.tables import Page, limits_text
from lowtide_research.zoo.published import printed
from lowtide_research.zoo.published.cases import FILE, Case, case_of

GRAPH_METHODS = ("own", "exact")


@dataclass(frozen=True, kw_only=True)
class ScheduleSuite(TableSuite[Cell]):
    """Methods on networks, each figure under its paper's own memory rules."""

    name: ClassVar[str] = "schedule"
    words: ClassVar[str] = "every method on the papers' networks, beside the published figures"
    description: ClassVar[str] = "Every method on the papers' networks, each under its paper's own memory rules."
    examples: ClassVar[tuple[str, ...]] = (
        "--networks nasnet_a_cifar --methods hmcos,exact",
        "--part hmcos-3 -o results",
        "--graphs graphs -o results --label mine",
    )

    # Names of the zoo; the papers' own if empty. With `parts`, only these of the parts' networks.
    networks: Sequence[str] = listed("of the zoo (default: the papers')")
    # Directory of ``*.graph.json``, all of them planned, as they are, under `target`; without `networks` or `parts`
    # nothing else is. Parts take from it what the zoo does not hold.
    graphs: str | Path | None = field(
        default=None, metadata=flag("plan every *.graph.json there; parts take from it what they lack", "DIR")
    )
    # Names; the papers' if empty, for `graphs` the own order and the exact one.
    methods: Sequence[str] = listed("(default: the papers'; for --graphs own,exact)")
    # Keys of `PARTS`, or ``"all"``; ``"main"`` if empty.
    parts: Sequence[str] = listed(
        "main, hmcos-3, serenity-2, zhong-4, zhong-5, zhong-6, zhong-9, zhong-solvers, ablation, or all", "--part"
    )
    # Memory rules of networks that no paper measured.
    target: str = field(default="strict", metadata=flag("for networks without a paper (default: strict)", "NAME"))
    # time, search_memory: limits of each cell: seconds of wall time, memory for states. A cell that they end says so.
    time: float = time_limit()
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Cell]:
        """Check the names; then run each method that each part asks for on each of its networks."""
        from lowtide.api.job import check_time

        check_time(self.time)
        for name in self.methods:
            make(name)
        limits = partial(Limits, self.time, parse_size(self.search_memory, "search memory"), self.seed)
        return self._cells(self._chosen(), limits, watch)

    def _files(self) -> list[str]:
        """Names of the graphs in the directory, the smallest first."""
        files = [] if self.graphs is None else files_in(self.graphs, SUFFIX)
        return [path.name.removesuffix(SUFFIX) for path in files]

    def _chosen(self) -> dict[str, Part]:
        """The parts to run, each with the networks to run it on."""
        check_names("part", (p for p in self.parts if p != "all"), PARTS, " or all")
        files = self._files()
        parts = list(PARTS) if "all" in self.parts else list(self.parts)
        names = [name.removeprefix("zoo:") for name in self.networks]
        chosen: dict[str, Part] = {}
        if self.graphs is not None and not parts:
            cases = tuple(Case(f"{FILE}{name}", target=self.target) for name in files)
            chosen[GRAPHS] = Part("graph files", cases, by_method)
        if not parts and (names or self.graphs is None):
            parts = ["main"]
        for name in parts:
            part = PARTS[name]
            of_part = {case.name: case for case in part.cases}
            cases = tuple(of_part.get(n) or case_of(n) or Case(n, target=self.target) for n in names) or part.cases
            chosen[name] = replace(part, cases=tuple(c for c in cases if not c.in_file or c.name in files))
        return chosen

    def _cells(self, chosen: dict[str, Part], limits: partial[Limits], watch: Watch) -> Iterator[Cell]:
        directory = None if self.graphs is None else Path(self.graphs)
        for name, part in chosen.items():
            methods = self.methods or (GRAPH_METHODS if name == GRAPHS else METHODS)
            for case in part.cases:
                subject = make_subject(name, case, graph_of(case, directory))
                for run in part.runs(case, subject.model, methods):
                    label = " ".join(word for word in (case.name, run.method.name, run.setting) if word)
                    figures = printed(case.network, case.target, run.method.name, run.printed)
                    yield measure(
                        subject,
                        run.method,
                        partial(limits, report=watch.named(label)),
                        setting=run.setting,
                        published=figures if name != GRAPHS else (),
                        own_result=part.own_result,
                    )

    def line(self, row: Cell) -> str:
        """Peak, seconds, and what ended it."""
        peak = row.status if row.peak_bytes is None else f"{row.peak_bytes:,} B"
        limit = f", ended by {row.status}" if row.status in ("time", "memory") else ""
        words = " ".join(w for w in (row.network, row.method, row.setting) if w)
        return f"{words}: {peak}, {row.cpu_seconds:.3f} CPU s{limit}"

    def finish(self, rows: Sequence[Cell]) -> Sequence[Cell]:
        """A peak is optimal if it is the best bound that any method proved on that graph."""
        best = best_bounds(rows, lambda c: c.graph_key, lambda c: c.lower_bound_bytes)
        return [replace(c, optimal=c.peak_bytes == best[c.graph_key]) for c in rows]

    def page(self, results: Results[Cell]) -> Page:
        """A table of peaks, one of seconds, one of ops for each part."""
        return schedule_tables.page(results, limits_text(self.time, self.search_memory, self.seed))
