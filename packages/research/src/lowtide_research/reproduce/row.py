"""A row of the table paper x figure: what a paper prints, how to measure the same, and how the two compare.

printed "1.70" MiB, measured 1.704 -> equal      less than one unit of the last printed digit apart
printed "40.05" s,  measured 0.14  -> better     `better` is "less"
printed "7936" KiB, measured 8064  -> differs    `because` says why
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from lowtide.errors import LowtideError
from lowtide.stop import Limits
from lowtide_research.bench.machine import one_line

State = Literal["equal", "better", "differs", "not measured", "no number", "unfinished", "failed", "experiment"]
"""`unfinished`: a limit ended the experiment; `no number`: the paper has a picture alone; `experiment`: nothing is
printed, the row shows why others differ."""
Direction = Literal["less", "more", "neither"]
RELATIONS = ("<=", ">=", ">", "<")


@dataclass(frozen=True)
class Why:
    """Why ours differs from what is printed.

    `shown_by`: what was run to find out, rows as `--row` takes them, or a command; empty: nothing can be run, and
    `text` says what is not public or not available here.
    """

    text: str
    shown_by: str = ""


@dataclass(frozen=True)
class Measured:
    """What a row's experiment gave: an amount in the row's unit, and what else is to be said of it. No amount: a limit
    ended it before there was one."""

    amount: float | None
    note: str = ""
    finished: bool = True  # False if a limit ended it: seconds then say nothing, and a peak could be less


@dataclass(frozen=True)
class Row:
    """One printed figure and its experiment.

    `name` is a path, place first (``table-1/darts_cifar/hmcos/peak``); `printed` is a number as the paper prints it,
    with a relation before it where it prints only a limit (``>30000``), or empty where it has a picture without
    numbers. `measure` is None where there is no experiment: `why` says what is not public, or what it needs.
    """

    name: str
    place: str
    what: str
    printed: str
    unit: str
    measure: Callable[[Limits], float | Measured] | None
    better: Direction = "less"
    why: Why | None = None  # why ours differs, or why nothing is measured
    takes: str = ""  # how long the experiment takes, where that is more than two minutes
    explains: bool = False  # nothing of it is printed: it shows why other rows differ

    @property
    def relation(self) -> str:
        """What stands before the printed number; ``=`` if nothing does."""
        return next((r for r in RELATIONS if self.printed.startswith(r)), "=")

    @property
    def number(self) -> float | None:
        """The printed number, None if there is none."""
        digits = self.printed.removeprefix(self.relation).replace(",", "").strip()
        return float(digits) if digits else None

    @property
    def last_digit(self) -> float:
        """One unit of the last printed digit."""
        return 10.0 ** -len(self.printed.partition(".")[2])

    def compare(self, amount: float) -> State:
        """The state of a measured amount."""
        printed = self.number
        if printed is None:
            return "experiment" if self.explains else "no number"
        if self.relation in ("<=", "<", ">="):
            return "equal" if (amount >= printed if self.relation == ">=" else amount <= printed) else "differs"
        if self.relation == "=" and abs(amount - printed) < self.last_digit * (1 - 1e-9):
            return "equal"
        if self.better == "neither":
            return "differs"
        return "better" if (amount < printed) == (self.better == "less") else "differs"


@dataclass(frozen=True)
class Outcome:
    """A row that was measured. `ratio` is ours over printed; `seconds` are wall time of its experiment alone, nearly
    none where an earlier row had the same, and `cpu_seconds` those of the processor."""

    paper: str
    row: str
    place: str
    what: str
    printed: str
    unit: str
    state: State
    ours: float | None = None
    ratio: float | None = None
    why: Why | None = None
    note: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


def outcome(paper: str, row: Row, limits: Limits) -> Outcome:
    """Measure a row; an experiment that raises is an outcome too. Raises `KeyboardInterrupt`: Ctrl-C."""
    began, cpu_began = time.monotonic(), time.process_time()
    found = _outcome(Outcome(paper, row.name, row.place, row.what, row.printed, row.unit, "not measured"), row, limits)
    return replace(found, seconds=time.monotonic() - began, cpu_seconds=time.process_time() - cpu_began)


def _outcome(about: Outcome, row: Row, limits: Limits) -> Outcome:
    if row.measure is None:
        return replace(about, why=row.why)
    try:
        found = row.measure(limits)
    except (LowtideError, ArithmeticError, LookupError, ValueError) as error:
        return replace(about, state="failed", note=one_line(error))
    measured = found if isinstance(found, Measured) else Measured(found)
    if measured.amount is None:
        return replace(about, state="unfinished", why=row.why, note=measured.note)
    state: State = row.compare(measured.amount)
    if not measured.finished and (row.unit == "s" or state == "differs"):
        state = "unfinished"
    note = measured.note
    if not measured.finished and "ended" not in note:
        note = "; ".join(w for w in (note, "a limit ended it") if w)
    ratio = measured.amount / row.number if row.number and state != "unfinished" else None
    why = row.why if state in ("differs", "no number", "unfinished") else None
    return replace(about, state=state, ours=measured.amount, ratio=ratio, why=why, note=note)
