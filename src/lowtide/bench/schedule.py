"""`lowtide bench schedule`: every method on the papers' networks, cell by cell."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lowtide.bench.cases import FILE, Case, graph_files, known
from lowtide.bench.machine import Machine, machine
from lowtide.bench.measure import Cell, make_subject, measure
from lowtide.bench.parts import METHODS, PARTS, Part, by_method
from lowtide.errors import InputError
from lowtide.schedule.registry import make
from lowtide.sizes import parse_size
from lowtide.stop import Progress
from lowtide.zoo.published import printed

GRAPHS = "graphs"
"""Part of the graphs in a directory."""
GRAPH_METHODS = ("own", "exact")


@dataclass(frozen=True)
class Results:
    """What a run of a suite gave. `complete` is False if Ctrl-C ended it: the cells are those that were done.

    `options` are what the call asked for. `cpu_seconds` is everything, reading and checking included.
    """

    suite: str
    schema: int
    machine: Machine
    options: dict[str, Any]
    complete: bool
    cpu_seconds: float
    cells: tuple[Cell, ...]


def schedule(
    *,
    networks: Sequence[str] = (),
    graphs: str | Path | None = None,
    methods: Sequence[str] = (),
    parts: Sequence[str] = (),
    target: str = "strict",
    time: float = 30.0,
    search_memory: int | str = "2GiB",
    seed: int = 0,
    report: Callable[[str, Progress], None] | None = None,
    done: Callable[[Cell], None] | None = None,
) -> Results:
    """Run methods on networks, each figure under its paper's own memory rules.

    Parameters
    ----------
    networks
        Names of the zoo; the papers' own if empty. With `parts`, only these of the parts' networks.
    graphs
        Directory of ``*.graph.json``, all of them planned, as they are, under `target`; without `networks` or `parts`
        nothing else is. Parts take from it what the zoo does not hold.
    methods
        Names; the papers' if empty, for `graphs` the own order and the exact one.
    parts
        Keys of `PARTS`, or ``"all"``; ``"main"`` if empty.
    target
        Memory rules of networks that no paper measured.
    time, search_memory
        Limits of each cell: seconds of wall time, memory for states. A cell that they end says so.
    report
        Called with the cell's name and its search's progress.
    done
        Called with each finished cell.

    Raises
    ------
    InputError
        No such network, method, part or directory; `time` is not positive.
    """
    from lowtide.api.planning import check_time

    began = clock.process_time()
    check_time(time)
    for name in methods:
        make(name)
    limits = {"seconds": time, "memory_bytes": parse_size(search_memory, "search memory"), "seed": seed}
    directory = None if graphs is None else Path(graphs)
    files = [] if directory is None else graph_files(directory)
    chosen = _chosen(networks, files, list(parts), target, only_graphs=directory is not None)
    cells: list[Cell] = []
    complete = True
    try:
        for cell in _cells(chosen, methods, directory, limits, report):
            cells.append(cell)
            if done is not None:
                done(cell)
    except KeyboardInterrupt:
        complete = False
    options = {
        "networks": list(networks),
        "graphs": [*files] if GRAPHS in chosen else [],
        "methods": list(methods),
        "parts": list(chosen),
        "time": time,
        "search_memory_bytes": limits["memory_bytes"],
        "seed": seed,
    }
    return Results(
        "schedule", 1, machine(), options, complete, round(clock.process_time() - began, 3), _with_best_bound(cells)
    )


def _chosen(
    networks: Sequence[str], files: Sequence[str], parts: list[str], target: str, *, only_graphs: bool
) -> dict[str, Part]:
    """The parts to run, each with the networks to run it on."""
    for name in parts:
        if name not in (*PARTS, "all"):
            raise InputError(f"there is no part {name!r}; use one of {', '.join(PARTS)} or all")
    if "all" in parts:
        parts = list(PARTS)
    chosen: dict[str, Part] = {}
    names = [name.removeprefix("zoo:") for name in networks]
    if only_graphs and not parts:
        cases = tuple(Case(f"{FILE}{name}", target=target) for name in files)
        chosen[GRAPHS] = Part("graph files", cases, by_method)
    if not parts and (names or not only_graphs):
        parts = ["main"]
    for name in parts:
        part = PARTS[name]
        if names:
            of_part = {case.name: case for case in part.cases}
            cases = tuple(of_part.get(n) or known(n) or Case(n, target=target) for n in names)
        else:
            cases = part.cases
        chosen[name] = replace(part, cases=tuple(c for c in cases if not c.in_file or c.name in files))
    return chosen


def _cells(
    chosen: dict[str, Part],
    methods: Sequence[str],
    directory: Path | None,
    limits: dict[str, Any],
    report: Callable[[str, Progress], None] | None,
) -> Iterator[Cell]:
    for name, part in chosen.items():
        wanted = methods or (GRAPH_METHODS if name == GRAPHS else METHODS)
        for case in part.cases:
            subject = make_subject(name, case, case.graph(directory))
            for run in part.runs(case, subject.model, wanted):
                label = " ".join(word for word in (case.name, run.method.name, run.setting) if word)

                def tell(progress: Progress, label: str = label) -> None:
                    if report is not None:
                        report(label, progress)

                in_paper = name != GRAPHS
                yield measure(
                    subject,
                    run.method,
                    {**limits, "report": tell},
                    setting=run.setting,
                    published=printed(case.network, case.target, run.method.name, run.printed) if in_paper else (),
                    own_result=part.own_result,
                )


def _with_best_bound(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """A peak is optimal if it is the best bound that any method proved on that graph."""
    found = list(cells)
    best: dict[tuple[str, str, str], int] = {}
    for cell in found:
        best[cell.graph_key] = max(best.get(cell.graph_key, 0), cell.lower_bound_bytes or 0)
    return tuple(replace(c, optimal=c.peak_bytes == best[c.graph_key]) for c in found)
