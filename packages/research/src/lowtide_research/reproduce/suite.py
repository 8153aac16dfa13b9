"""`lowtide research reproduce PAPER`: each printed figure of a paper beside ours, with the reason where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec

from lowtide.api.job import check_time
from lowtide.errors import InputError
from lowtide.sizes import parse_size
from lowtide.stop import Limits
from lowtide_research.bench.machine import Machine, machine
from lowtide_research.bench.options import flag, listed, memory_limit, random_seed, time_limit
from lowtide_research.bench.suite import Results, TableSuite, Watch, check_names
from lowtide_research.bench.tables import Page, Table, json_text, limits_text, machine_text, seconds_text
from lowtide_research.reproduce.pictures import Panel, panels_svg
from lowtide_research.reproduce.row import Outcome, Row, State, Why, outcome

PAPERS = ("serenity", "hmcos", "zhong", "cosma", "magis")


def rows_of(paper: str) -> tuple[Row, ...]:
    """The rows of a paper, in its own order."""
    return import_module(f"lowtide_research.reproduce.{paper}").ROWS


class _Run(msgspec.Struct):
    """What is read of JSON that this command wrote."""

    machine: Machine
    options: dict[str, Any]
    rows: list[Outcome]


def pictures_of(paper: str) -> Mapping[str, Callable[[Limits], Sequence[Panel]]]:
    """Figures of a paper that are drawn, by the names of their rows."""
    return getattr(import_module(f"lowtide_research.reproduce.{paper}"), "PICTURES", {})


@dataclass(frozen=True, kw_only=True)
class ReproduceSuite(TableSuite[Outcome]):
    """Figures that the papers print, measured again."""

    name: ClassVar[str] = "reproduce"
    words: ClassVar[str] = "each figure that a paper prints, beside ours"
    description: ClassVar[str] = (
        "Each figure that SERENITY, HMCOS, Zhong et al., COSMA or MAGIS prints, beside ours: equal (less than a unit\n"
        "of the last printed digit apart), better, differs (with the experiment that shows why, or with what is not\n"
        "public), or not measured (with what is missing)."
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
    # JSON of an earlier run with the same limits of the same commit, or empty: its rows are not measured again.
    resume: str = field(default="", metadata=flag("JSON of a run of the same commit and limits to go on with", "FILE"))
    # time, search_memory: limits of each search.
    time: float = time_limit(30.0, "each search")
    search_memory: int | str = memory_limit()
    seed: int = random_seed()

    def rows(self, watch: Watch) -> Iterator[Outcome]:
        """Check the names; then row by row."""
        check_time(self.time)
        check_names("paper", self.papers, PAPERS)
        memory = parse_size(self.search_memory, "search memory")
        return self._outcomes(self._chosen(), self._known(), memory, watch)

    def _known(self) -> dict[tuple[str, str], Outcome]:
        """Rows of the run to go on with. Raises `InputError`: it is another one."""
        if not self.resume:
            return {}
        try:
            before = msgspec.json.decode(Path(self.resume).read_bytes(), type=_Run)
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"cannot go on with this: {error}; name JSON that this command wrote", self.resume
            ) from None
        limits = {name: getattr(self, name) for name in ("time", "search_memory", "seed")}
        if before.machine.commit != machine().commit or any(before.options[n] != v for n, v in limits.items()):
            raise InputError("this is of another commit or of other limits; leave out --resume", self.resume)
        return {(r.paper, r.row): r for r in before.rows}

    def _chosen(self) -> list[tuple[str, Row]]:
        """Rows that are requested, and those of the run to go on with."""
        known = self._known()
        every = [(paper, row) for paper in self.papers or PAPERS for row in rows_of(paper)]
        for wanted in self.row:
            if not any(matches(row.name, wanted) for _, row in every):
                places = dict.fromkeys(row.name.partition("/")[0] for _, row in every)
                raise InputError(f"no row is called {wanted!r}; use --list, or one of {', '.join(places)}")
        return [
            (p, row)
            for p, row in every
            if not self.row or (p, row.name) in known or any(matches(row.name, w) for w in self.row)
        ]

    def _outcomes(
        self, chosen: list[tuple[str, Row]], known: Mapping[tuple[str, str], Outcome], memory: int, watch: Watch
    ) -> Iterator[Outcome]:
        for paper, row in chosen:
            if (paper, row.name) in known:
                yield known[paper, row.name]
            elif self.listing:
                yield Outcome(paper, row.name, row.place, row.what, row.printed, row.unit, "no number", note=row.takes)
            else:
                limits = Limits(self.time, memory, self.seed, report=watch.named(f"{paper} {row.name}"))
                yield outcome(paper, row, limits)

    def line(self, row: Outcome) -> str:
        """Printed, ours, state."""
        if self.listing:
            return ""
        printed = f"printed {_printed(row)}, " if _printed(row) else ""
        return f"{row.paper} {row.row}: {printed}ours {_amount(row)} {row.unit}: {row.state}"

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
            "experiment, where no earlier row had the same. A remark ends with the number of a reason below the "
            "tables: which rows or command show it, or what is not public.",
        ]
        wall, cpu = sum(r.seconds for r in results.rows), sum(r.cpu_seconds for r in results.rows)
        about.append(f"The rows took {wall:.0f} s of wall time and {cpu:.0f} s of processor time, on shared cores.")
        if not results.complete:
            about.append("Interrupted: these are the rows that were done.")
        numbers: dict[tuple[str, Why], int] = {}
        tables = [_table(p, [r for r in results.rows if r.paper == p], numbers) for p in PAPERS]
        remarks = [f"{n}. {_reason(paper, why)}" for (paper, why), n in numbers.items()]
        return Page("lowtide research reproduce", "\n".join(about), [t for t in tables if len(t.rows) > 1], remarks)

    def files(self, results: Results[Outcome], stem: str) -> dict[str, str]:
        """JSON, the page, and pictures of figures of which rows were measured."""
        limits, pictures = (
            Limits(self.time, parse_size(self.search_memory, "search memory"), self.seed),
            dict[str, str](),
        )
        for paper in dict.fromkeys(r.paper for r in results.rows):
            for figure, panels in pictures_of(paper).items():
                if any(r.paper == paper and matches(r.row, figure) and r.ours is not None for r in results.rows):
                    pictures[f"{self.name}-{paper}-{figure}.svg"] = panels_svg(panels(limits))
        page = self.page(results)
        page = replace(page, remarks=[*page.remarks, *(f"\n![{name[:-4]}]({name})" for name in pictures)])
        return {f"{stem}.json": json_text(self.record(results)), f"{stem}.md": page.markdown(), **pictures}

    def stem(self, results: Results[Outcome], label: str) -> str:
        """The papers that were requested."""
        return "-".join((self.name, *self.papers))


def matches(name: str, wanted: str) -> bool:
    """Whether `--row` of this text takes a row."""
    return name == wanted or name.startswith(f"{wanted}/") or fnmatch(name, wanted)


def _table(paper: str, rows: Sequence[Outcome], numbers: dict[tuple[str, Why], int]) -> Table:
    """`numbers`: of the reasons; new ones are added."""
    head = ("row", "printed", "ours", "unit", "ratio", "state", "s", "remark")
    lines = []
    for r in rows:
        number = "" if r.why is None else f"{_kind(r.why)} {numbers.setdefault((paper, r.why), len(numbers) + 1)}"
        ratio = "" if r.ratio is None else f"{r.ratio:.3g}"
        seconds = "" if r.ours is None else seconds_text(r.seconds)
        remark = "; ".join(w for w in (r.note, number) if w)
        lines.append((r.row, _printed(r), _amount(r), r.unit, ratio, r.state, seconds, remark))
    return Table(f"{paper}: {counts_text(rows)}", [head, *lines], frozenset({0, 3, 5, 7}))


def counts_text(rows: Sequence[Outcome]) -> str:
    """How many rows have each state, and of those that differ how many an experiment explains."""
    counts = Counter(r.state for r in rows)
    shown = sum(r.state == "differs" and r.why is not None and bool(r.why.shown_by) for r in rows)
    kinds = f" ({shown} by experiment, {counts['differs'] - shown} not public)"
    return ", ".join(f"{counts[s]} {s}{kinds if s == 'differs' else ''}" for s in get_args(State) if counts[s])


def _printed(row: Outcome) -> str:
    return row.printed or ("" if row.state == "experiment" else "a picture")


def _kind(why: Why) -> str:
    return "experiment" if why.shown_by else "not public"


def _reason(paper: str, why: Why) -> str:
    """With the command that shows it: `shown_by` are rows of the paper, or a command."""
    if not why.shown_by:
        return f"Not public, or not available here: {why.text}."
    command = why.shown_by if " " in why.shown_by else f"lowtide research reproduce {paper} --row '{why.shown_by}'"
    return f"Experiment: {why.text} (`{command}`)."


def _amount(row: Outcome) -> str:
    """As many digits as are printed and two more, at least three that count; four that count beside a picture."""
    if row.ours is None:
        return ""
    if not row.printed:
        return f"{row.ours:.4g}"
    digits = len(row.printed.partition(".")[2]) + 2 * ("." in row.printed)
    fixed = f"{row.ours:.{digits}f}"
    return fixed if abs(row.ours) >= 1 or not row.ours else f"{row.ours:.3g}"
