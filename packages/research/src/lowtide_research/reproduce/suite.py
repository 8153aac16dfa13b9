"""`lowtide research reproduce PAPER`: each printed figure of a paper beside ours, with the reason where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from typing import ClassVar

from lowtide.api.job import check_time
from lowtide.errors import InputError
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.suite import Results, TableSuite, Watch, check_names
from lowtide_research.bench.tables import Page, Table, limits_text, machine_text, seconds_text
from lowtide_research.reproduce.row import Outcome, Row, outcome

PAPERS = ("serenity", "hmcos", "zhong", "cosma", "magis")


def rows_of(paper: str) -> tuple[Row, ...]:
    """The rows of a paper, in its own order."""
    return import_module(f"lowtide_research.reproduce.{paper}").ROWS


@dataclass(frozen=True, kw_only=True)
class ReproduceSuite(TableSuite[Outcome]):
    """Figures that the papers print, measured again."""

    name: ClassVar[str] = "reproduce"
    words: ClassVar[str] = "each figure that a paper prints, beside ours"
    description: ClassVar[str] = (
        "Each figure that SERENITY, HMCOS, Zhong et al., COSMA or MAGIS prints, beside ours: equal (less than a unit\n"
        "of the last printed digit apart), better, differs (with the reason), or not measured (with what is missing)."
    )
    examples: ClassVar[tuple[str, ...]] = (
        "hmcos --row table-1",
        "zhong --row 'table-2/hrnet*' --time 60",
        "serenity --list",
        "serenity hmcos zhong cosma magis -o results",
    )
    labelled: ClassVar[bool] = False

    # Of `PAPERS`; all if empty.
    papers: Sequence[str] = field(default=(), metadata=flag(f"{', '.join(PAPERS)} (default: all)", "PAPER", "papers"))
    # Names of rows, beginnings of them up to a ``/``, or patterns with ``*``; all if empty.
    row: Sequence[str] = listed("rows, such as table-1 or 'table-1/*/hmcos/*' (default: all)")
    listing: bool = field(default=False, metadata=flag("list the rows, and measure nothing", "", "--list"))
    # time, search_memory: limits of each search.
    time: float = time_limit(30.0, "each search")
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Outcome]:
        """Check the names; then row by row."""
        check_time(self.time)
        check_names("paper", self.papers, PAPERS)
        memory = parse_size(self.search_memory, "search memory")
        return self._outcomes(self._chosen(), memory, watch)

    def _chosen(self) -> list[tuple[str, Row]]:
        every = [(paper, row) for paper in self.papers or PAPERS for row in rows_of(paper)]
        for wanted in self.row:
            if not any(_matches(row, wanted) for _, row in every):
                places = dict.fromkeys(row.name.partition("/")[0] for _, row in every)
                raise InputError(f"no row is called {wanted!r}; use --list, or one of {', '.join(places)}")
        return [(p, row) for p, row in every if not self.row or any(_matches(row, w) for w in self.row)]

    def _outcomes(self, chosen: list[tuple[str, Row]], memory: int, watch: Watch) -> Iterator[Outcome]:
        for paper, row in chosen:
            if self.listing:
                yield Outcome(paper, row.name, row.place, row.what, row.printed, row.unit, "no number", note=row.takes)
            else:
                limits = Limits(self.time, memory, self.seed, report=watch.named(f"{paper} {row.name}"))
                yield outcome(paper, row, limits)

    def line(self, row: Outcome) -> str:
        """Printed, ours, state."""
        if self.listing:
            return ""
        return (
            f"{row.paper} {row.row}: printed {row.printed or 'a picture'}, ours {_amount(row)} {row.unit}: {row.state}"
        )

    def page(self, results: Results[Outcome]) -> Page:
        """A table for each paper."""
        if self.listing:
            head = ("row", "printed", "unit", "what", "takes")
            lines = [(r.row, r.printed, r.unit, r.what, r.note) for r in results.rows]
            return Page(
                "lowtide research reproduce --list", "", [Table("", [head, *lines], frozenset({0, 2, 3, 4}))], bare=True
            )
        about = [
            machine_text(results.machine),
            limits_text(self.time, self.search_memory, self.seed).replace("cell", "search"),
            "Printed figures are the papers', times those of their machines; ratio: ours over printed. Equal: less "
            "than a unit of the last printed digit apart; better: of the paper's own method alone. s: seconds of the "
            "experiment, where no earlier row had the same.",
        ]
        if not results.complete:
            about.append("Interrupted: these are the rows that were done.")
        tables = [_table(p, [r for r in results.rows if r.paper == p]) for p in PAPERS]
        return Page("lowtide research reproduce", "\n".join(about), [t for t in tables if len(t.rows) > 1])

    def stem(self, results: Results[Outcome], label: str) -> str:
        """The papers that were asked for."""
        return "-".join((self.name, *self.papers))


def _matches(row: Row, wanted: str) -> bool:
    return row.name == wanted or row.name.startswith(f"{wanted}/") or fnmatch(row.name, wanted)


def _table(paper: str, rows: Sequence[Outcome]) -> Table:
    head = ("row", "printed", "ours", "unit", "ratio", "state", "s", "remark")
    counts = ", ".join(f"{n} {state}" for state, n in Counter(r.state for r in rows).items())
    lines = [
        (r.row, r.printed or "picture", _amount(r), r.unit, "" if r.ratio is None else f"{r.ratio:.3g}", r.state,
         seconds_text(r.seconds) if r.ours is not None else "", "; ".join(w for w in (r.note, r.because) if w))
        for r in rows
    ]  # fmt: skip
    return Table(f"{paper}: {counts}", [head, *lines], frozenset({0, 3, 5, 7}))


def _amount(row: Outcome) -> str:
    """As many digits as are printed and two more, at least three that count; four that count beside a picture."""
    if row.ours is None:
        return ""
    if not row.printed:
        return f"{row.ours:.4g}"
    digits = len(row.printed.partition(".")[2]) + 2 * ("." in row.printed)
    fixed = f"{row.ours:.{digits}f}"
    return fixed if abs(row.ours) >= 1 or not row.ours else f"{row.ours:.3g}"
