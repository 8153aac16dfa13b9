"""What the suites that run models in a runtime share: a row for each model, which one that is refused has too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lowtide.errors import LowtideError
from lowtide_research.bench.machine import Machine
from lowtide_research.bench.tables import Table


class ModelRow(Protocol):
    """A model, and why it could not be measured, if it could not."""

    @property
    def model(self) -> str:
        """Its name."""
        ...

    @property
    def error(self) -> str:
        """Empty if it was measured."""
        ...


M = TypeVar("M", bound=ModelRow)


def measured(measure: Callable[[], M], refused: Callable[[str], M], ending: str) -> M:
    """The row of a model, or one with the reason, without the directory of a file with this ending."""
    try:
        return measure()
    except LowtideError as error:
        return refused(str(error).rpartition(f"{ending}: ")[2])


def model_table(
    heads: Sequence[str], rows: Sequence[M], cells: Callable[[M], Sequence[str]], left: frozenset[int]
) -> Table:
    """A line for each model; of one that was refused, its name and the reason."""
    blank = [""] * (len(heads) - 2)
    return Table("", [heads, *([r.model, *blank, r.error] if r.error else cells(r) for r in rows)], left)


def measured_with(m: Machine, *others: str) -> str:
    """Version and commit, the runtimes, the processor."""
    return f"lowtide {m.lowtide}, commit {m.commit}; {'; '.join((*others, m.cpu))}."
