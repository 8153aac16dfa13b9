"""Figures that the papers print, as rows. See README.md beside the data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

UNITS = {"": 1, "s": 1, "%": 0.01, "KB": 1000, "KiB": 1024, "MiB": 1024**2}


@dataclass(frozen=True)
class Figure:
    """One printed figure; `relation` is ``">"`` where only a limit is printed that was passed."""

    network: str
    target: str
    method: str
    setting: str
    figure: str
    relation: str
    value: str
    unit: str
    paper: str
    table: str
    note: str

    @property
    def amount(self) -> float:
        """In bytes, seconds or pieces, as precise as it is printed."""
        return float(self.value) * UNITS[self.unit]

    @property
    def text(self) -> str:
        """As printed, without its unit."""
        return self.value if self.relation == "=" else f"{self.relation}{self.value}"


@cache
def figures(suite: str = "schedule") -> tuple[Figure, ...]:
    """All of a suite, in the order of its file."""
    text = files(__name__).joinpath(f"{suite}.csv").read_text(encoding="utf-8")
    return tuple(Figure(**row) for row in csv.DictReader(text.splitlines()))


def printed(network: str, target: str, method: str, setting: str = "", suite: str = "schedule") -> tuple[Figure, ...]:
    """What is printed of one method on one network, under one setting of it."""
    wanted = (network, target, method, setting)
    return tuple(f for f in figures(suite) if (f.network, f.target, f.method, f.setting) == wanted)
