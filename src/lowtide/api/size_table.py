"""One model at several sizes of its free dimensions: a table, and what is linear in a size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from lowtide.api.planning import plan
from lowtide.arguments import typed
from lowtide.errors import InputError
from lowtide.names import brief
from lowtide.plan import EXIT_STATUS, INTERRUPTED, Plan, Status
from lowtide.sizes import NO_DIMS, Dims

FIGURES = ("own_order_peak_bytes", "peak_bytes", "lower_bound_bytes", "arena_bytes", "required_bytes")
_LEAST_ROWS = 3
"""Through two points there is always a line."""


@dataclass(frozen=True)
class SizeRow:
    """A plan's figures at one choice of `dims`; `same_order`: its ops run in the order of the first row's."""

    dims: Mapping[str, int]
    own_order_peak_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    arena_bytes: int | None
    required_bytes: int
    optimal: bool
    status: Status
    same_order: bool
    interrupted: bool = False


@dataclass(frozen=True, repr=False)
class SizeTable:
    """Plans of one model."""

    # graph, target: as in the plans.
    graph: str
    target: str
    rows: Sequence[SizeRow]  # one for each choice of sizes, in the order given; the last name's sizes change fastest
    # Figures that are ``a * size + b`` in all rows, with a and b; empty unless one dimension has three sizes or more.
    linear: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return brief(self, "graph target rows linear")

    def __str__(self) -> str:
        from lowtide.report.size_table import size_table_text

        return size_table_text(self)

    @property
    def exit_status(self) -> int:
        """The worst of the rows'; 130 if one was interrupted."""
        if any(row.interrupted for row in self.rows):
            return INTERRUPTED
        reached = {EXIT_STATUS[row.status] for row in self.rows}
        return next((status for status in (4, 3, 6) if status in reached), 0)


@typed
def plan_sizes(
    model: str | Path, sizes: Mapping[str, Sequence[int]], *, dims: Dims = NO_DIMS, **settings: Any
) -> SizeTable:
    """Plan a model at each choice of some of its free dimensions' sizes.

    Parameters
    ----------
    model
        What `load` takes, but no graph: its sizes are fixed.
    sizes
        Several for each of some free dimensions, by name or as ``"INPUT:AXIS"``.
    dims
        Of the other free dimensions, one size each.
    settings
        The other arguments of `plan`.

    Raises
    ------
    InputError
        A dimension without a size, or one that is in both; or as `plan`.
    """
    for name, several in sizes.items():
        if not several or name in dims or len(set(several)) < len(several):
            raise InputError(f"dimension {name!r} has the sizes {list(several)}; give different ones, once")
    rows: list[SizeRow] = []
    first: Plan | None = None
    for chosen in product(*sizes.values()):
        at = dict(zip(sizes, chosen, strict=True))
        made = plan(model, dims={**dims, **at}, **settings)
        first = first or made
        rows.append(_row(at, made, first))
        if rows[-1].interrupted:
            break
    if first is None:
        raise InputError("no dimension has several sizes; use plan")
    return SizeTable(first.graph, first.target, rows, _linear(rows))


def _row(dims: Mapping[str, int], of_sizes: Plan, first: Plan) -> SizeRow:
    return SizeRow(
        dims=dims,
        **{name: getattr(of_sizes, name) for name in FIGURES},
        optimal=of_sizes.optimal,
        status=of_sizes.status,
        same_order=of_sizes.order == first.order,
        interrupted=of_sizes.stopped == "interrupt",
    )


def _linear(rows: Sequence[SizeRow]) -> dict[str, tuple[int, int]]:
    """Figures that are a line through all rows, with its slope and its value at zero, both integers."""
    if len(rows) < _LEAST_ROWS or len(rows[0].dims) != 1:
        return {}
    found = {}
    for name in FIGURES:
        points = [(*row.dims.values(), getattr(row, name)) for row in rows]
        (x, y), (other_x, other_y) = points[:2]
        if None in (value for _, value in points) or (other_y - y) % (other_x - x):
            continue
        slope = (other_y - y) // (other_x - x)
        if all(value == y + slope * (at - x) for at, value in points):
            found[name] = (slope, y - slope * x)
    return found
