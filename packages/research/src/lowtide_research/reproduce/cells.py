"""Rows made of `schedule.csv`: a method on a network of the papers, each experiment run once for all of its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cache, partial

from lowtide.errors import InputError
from lowtide.stop import Limits
from lowtide_research.bench.measure import Cell, Subject, make_subject, measure
from lowtide_research.bench.networks import graph_of
from lowtide_research.bench.parts import METHODS, PARTS
from lowtide_research.bench.simple_arena import simple_arena
from lowtide_research.reproduce.row import Measured, Row, Why
from lowtide_research.zoo.published import UNITS, Figure, figures
from lowtide_research.zoo.published.cases import FILE, Case


@dataclass(frozen=True)
class Source:
    """The rows of a paper's table: the part of `bench schedule` that runs their methods, and what they show."""

    part: str
    what: str


@cache
def subject_of(part: str, case: Case) -> Subject:
    """A network of a part, under its paper's memory rules."""
    return make_subject(part, case, graph_of(case))


@cache
def _cell(part: str, case: Case, method: str, setting: str, limits: tuple[float, int, int]) -> Cell:
    """A method on a network under the setting that the paper's row has."""
    subject = subject_of(part, case)
    for run in PARTS[part].runs(case, subject.model, [method]):
        if (run.method.name, run.printed) == (method, setting):
            own = PARTS[part].own_result
            return measure(subject, run.method, partial(Limits, *limits), setting=run.setting, own_result=own)
    raise InputError(f"part {part} has no run of {method} {setting}".rstrip())


def cell_of(part: str, case: Case, method: str, setting: str, limits: Limits) -> Cell:
    """The same, once for equal limits. Raises `InputError`: the method gave nothing."""
    cell = _cell(part, case, method, setting, (limits.seconds, limits.memory_bytes, limits.seed))
    if cell.peak_bytes is None:
        raise InputError(f"{case.name}, {method}: {cell.reason or cell.status}")
    return cell


@cache
def _arena(part: str, case: Case, method: str, limits: tuple[float, int, int]) -> int:
    model = subject_of(part, case).model
    run = next(r for r in PARTS[part].runs(case, model, [method]))
    return simple_arena(model, run.method.schedule(model, Limits(*limits)).order)


def arena_of(part: str, case: Case, method: str, limits: Limits) -> int:
    """Bytes of TensorFlow Lite's simple arena for the order of a method on a network, once for equal limits."""
    return _arena(part, case, method, (limits.seconds, limits.memory_bytes, limits.seed))


def rows_of_csv(paper: str, sources: Mapping[str, Source], because: Mapping[str, Why]) -> tuple[Row, ...]:
    """The rows of a paper's tables that a method of `bench schedule` stands for. `because`: by pattern of row names,
    the first that matches, why ours differs."""
    return tuple(
        explained(_row(figure, sources[figure.table]), because)
        for figure in figures()
        if figure.paper.startswith(paper) and figure.table in sources
    )


def explained(row: Row, because: Mapping[str, Why]) -> Row:
    """A row with the first explanation whose pattern matches its name, unless it has one."""
    return replace(row, why=row.why or next((why for p, why in because.items() if fnmatch(row.name, p)), None))


def _row(figure: Figure, source: Source) -> Row:
    words = (figure.table, figure.network.removeprefix(FILE), figure.method, figure.setting, figure.figure)
    name = "/".join(w.lower().replace(" ", "-") for w in words if w)
    case = next((c for c in PARTS[source.part].cases if c.network == figure.network), None)
    experiment = None if case is None else partial(_measured, source.part, case, figure)
    baseline = figure.method in METHODS and not figure.paper.lower().startswith(figure.method)
    better = "neither" if figure.figure == "variables" or (baseline and figure.figure != "time") else "less"
    return Row(name, figure.table, source.what, figure.text, figure.unit, experiment, better)


def _measured(part: str, case: Case, figure: Figure, limits: Limits) -> Measured:
    if figure.figure == "arena":
        return Measured(arena_of(part, case, figure.method, limits) / UNITS[figure.unit])
    cell = cell_of(part, case, figure.method, figure.setting, limits)
    proved = figure.figure == "peak" and cell.peak_bytes == cell.lower_bound_bytes
    ended = cell.status in ("time", "memory")
    note = "proved optimal" if proved else f"ended by {cell.status}" if ended else ""
    amount = _SHOWN[figure.figure](cell) / UNITS[figure.unit]
    return Measured(amount, note, finished=not ended or figure.figure == "variables")


_SHOWN: Mapping[str, Callable[[Cell], float]] = {
    "peak": lambda cell: cell.peak_bytes or 0,
    "time": lambda cell: cell.cpu_seconds,
    "variables": lambda cell: cell.variables or 0,
}
"""What a cell says of each kind of figure, in bytes, seconds or pieces."""
