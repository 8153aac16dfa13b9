"""COSMA (Li, Gupta, Malik, 2023), row by row. Its Figures 3 and 4 are bars without numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import product
from statistics import mean

from lowtide.errors import InputError
from lowtide.spill.problem import spill_problem
from lowtide.stop import Limits
from lowtide.target import resolve
from lowtide_research.bench.spill_cells import (
    BUDGETS,
    ENDLESS,
    HUMAN,
    NAS,
    SETTINGS,
    Network,
    Setting,
    SpillCell,
    Subject,
)
from lowtide_research.bench.suite import Watch
from lowtide_research.reproduce.cells import explained
from lowtide_research.reproduce.row import Direction, Measured, Row, Why
from lowtide_research.spill.cosma.sizes import program_sizes
from lowtide_research.zoo.published import Figure, figures

KIB = 1024
FOUR = ("belady own", "belady exact", "greedy own", "greedy exact")
FIXED = ("cosma-fs own", "cosma-fs exact")
TIMES = {"Table II": "table-ii", "section V-B1": "section-v-b1"}
MARK = {"activations": "", "parameters": "p"}

_MEAN = Why(
    "which mean the paper takes; here of each network, budget and scheme that moves anything. Rows `proved/*` have the "
    "same mean of what `spill` reaches, least where no limit ended it"
)
_GUROBI = Why("Gurobi; CP-SAT on one thread stands in its place, and its time is that of the proof, or of the limit")
BECAUSE = {
    "figure-*": Why("numbers: the paper has bars; ours of the other schemes, in KiB, stand in the remark"),
    "section-v-*/reduction": _MEAN,
    "section-iii-f/*": Why("the paper's graph of the Transformer; torch's as exported has 668 ops"),
    "*": _GUROBI,
}


@cache
def _subject(network: Network, setting: Setting, limits: tuple[float, int, int]) -> Subject:
    return Subject.of("networks", network, setting, network.graph(), lambda: Limits(*limits))


@cache
def _cell(network: Network, setting: Setting, budget: str, scheme: str, limits: tuple[float, int, int]) -> SpillCell:
    subject = _subject(network, setting, limits)
    (cell,) = subject.cells([budget], [scheme], partial(Limits, *limits), Watch())
    if cell.traffic_bytes is None:
        raise InputError(f"{network.label}, {scheme}: {cell.reason or cell.status}")
    return cell


def _of(network: Network, setting: Setting, budget: str, scheme: str, limits: Limits) -> SpillCell:
    return _cell(network, setting, budget, scheme, (limits.seconds, limits.memory_bytes, limits.seed))


def _traffic(network: Network, setting: Setting, budget: str, schemes: Sequence[str], limits: Limits) -> Measured:
    """KiB that the first scheme moves without need; the others in the note."""
    cells = [_of(network, setting, budget, scheme, limits) for scheme in schemes]
    note = ", ".join(f"{cell.scheme} {(cell.traffic_bytes or 0) / KIB:.1f}" for cell in cells[1:])
    return Measured(
        (cells[0].traffic_bytes or 0) / KIB, note + (", ended by time" if cells[0].status == "time" else "")
    )


def _seconds(network: Network, setting: Setting, budget: str, scheme: str, limits: Limits) -> Measured:
    cell = _of(network, setting, budget, scheme, limits)
    note = f"{(cell.traffic_bytes or 0) / KIB:.1f} KiB"
    return Measured(cell.cpu_seconds, note, finished=cell.status != "time")


def _reduction(networks: Sequence[Network], settings: Sequence[Setting], scheme: str, limits: Limits) -> Measured:
    """Mean of what the scheme moves less than each of the four, in per cent, over all that move anything."""
    shares, ended = list[float](), 0
    for network, setting, budget in product(networks, settings, BUDGETS):
        cell = _of(network, setting, budget, scheme, limits)
        ended += cell.status != "ok"
        theirs = [_of(network, setting, budget, other, limits).traffic_bytes or 0 for other in FOUR]
        shares += [100 * (1 - (cell.traffic_bytes or 0) / t) for t in theirs if t]
    return Measured(mean(shares), f"mean of {len(shares)}" + _ended(ended), finished=not ended)


def _ended(count: int) -> str:
    return f"; a limit ended {count} programs" if count else ""


def _spilling(networks: Sequence[Network], settings: Sequence[Setting], scheme: str, limits: Limits) -> Measured:
    """How many networks move anything at the least peak."""
    cells = [_of(network, s, "M_P", scheme, limits) for network in networks for s in settings]
    named = [f"{c.label} ({c.setting})" for c in cells if c.traffic_bytes]
    ended = sum(c.status != "ok" for c in cells)
    return Measured(len(named), ", ".join(named) + _ended(ended), finished=not ended)


def _within_a_second(networks: Sequence[Network], what: str, limits: Limits) -> Measured:
    """How many networks are solved in a second at all budgets and settings; or the seconds, on average of all cells
    but DeepLabV3's."""
    cells = {n.label: [_of(n, s, b, "cosma", limits) for s in SETTINGS for b in BUDGETS] for n in networks}
    ended = sum(c.status != "ok" for row in cells.values() for c in row)
    if what == "within-a-second":
        count = sum(all(c.cpu_seconds < 1 and c.status == "ok" for c in row) for row in cells.values())
        return Measured(count, _ended(ended).removeprefix("; "), finished=not ended)
    others = [c.cpu_seconds for label, row in cells.items() if label != "DeepLabV3" for c in row]
    return Measured(mean(others), _ended(ended).removeprefix("; "), finished=not ended)


@cache
def _size(overlap: bool, encoding: str) -> tuple[int, int | None]:
    network = next(n for n in HUMAN if n.label == "Transformer")
    problem = spill_problem(network.graph(), resolve("strict"), ENDLESS)
    size = next(s for s in program_sizes(problem, network.label) if (s.overlap, s.encoding) == (overlap, encoding))
    return size.variables, size.constraints


def _program(encoding: str, what: str, limits: Limits) -> Measured:
    amount = _size(True, encoding)[what == "constraints"]
    return Measured(amount, "" if amount is not None else "too large to be built, so not counted")


def _timed(figure: Figure) -> Row:
    network = next(n for n in (*HUMAN, *NAS) if n.name == figure.network)
    setting, _, budget = figure.setting.partition(" ")
    assert setting in SETTINGS
    name = f"{TIMES[figure.table]}/{network.name}/{figure.method.replace(' ', '-')}/{budget}{MARK[setting]}/time"
    measure = partial(_seconds, network, setting, budget, figure.method)
    return Row(name, figure.table, f"seconds of {figure.method}, {setting}", figure.text, "s", measure)


def _bars(
    place: str, networks: Sequence[Network], settings: Sequence[Setting], schemes: Sequence[str]
) -> Iterator[Row]:
    for network in networks:
        for setting in settings:
            for budget in BUDGETS:
                name = f"{place.lower().replace(' ', '-')}/{network.name}/{budget}{MARK[setting]}/traffic"
                measure = partial(_traffic, network, setting, budget, schemes)
                yield Row(name, place, f"KiB moved without need by {schemes[0]}, {setting}", "", "KiB", measure)


def _rows() -> Iterator[Row]:
    whole, tiramisu = tuple(SETTINGS), [n for n in HUMAN if n.label != "DenseNet-121"]
    printed = {(f.table, f.method, f.figure): f for f in figures("spill") if f.paper == "COSMA"}
    yield from (_timed(f) for f in figures("spill") if f.paper == "COSMA" and f.table in TIMES)
    averages: tuple[tuple[str, str, str, Direction], ...] = (
        ("within-a-second", "9", "", "more"),
        ("mean", "0.296", "s", "less"),
    )
    for what, text, unit, better in averages:
        yield Row(f"section-v-b1/all/{what}", "section V-B1", f"ten networks: {what}", text, unit,
                  partial(_within_a_second, tiramisu, what), better, takes="up to 30 minutes: 60 programs")  # fmt: skip
    yield from _bars("Figure 3", HUMAN, whole, ("cosma", *FOUR))
    yield from _bars("Figure 4", NAS, whole[:1], ("cosma-dnc", *FIXED, *FOUR))
    for table, networks, settings, scheme in (
        ("section V-B2", tiramisu, whole, "cosma"),
        ("section V-C2 and VI", NAS, whole[:1], "cosma-dnc"),
    ):
        name, text = table.lower().split(" and")[0].replace(" ", "-"), printed[table, scheme, "reduction"].text
        yield Row(f"{name}/reduction", table, f"{scheme} below the four schemes", text, "%",
                  partial(_reduction, networks, settings, scheme), "more", takes="up to half an hour")  # fmt: skip
        yield Row(f"proved/{name}/reduction", table, "what spill moves, below the four schemes", "", "%",
                  partial(_reduction, networks, settings, "spill"), "more", explains=True)  # fmt: skip
        yield Row(f"{name}/spilling-at-least-peak", table, "networks that spill at M_P", "0", "",
                  partial(_spilling, networks, settings, scheme), takes="up to ten minutes")  # fmt: skip
    for (table, method, what), figure in printed.items():
        if table == "section III-F":
            encoding = "model" if method.endswith("model") else "cosma"
            yield Row(f"section-iii-f/{encoding}/{what}", table, f"{what} of {encoding}'s program for the Transformer",
                      figure.text, "", partial(_program, encoding, what), "neither")  # fmt: skip


ROWS: tuple[Row, ...] = tuple(explained(row, BECAUSE) for row in _rows())
