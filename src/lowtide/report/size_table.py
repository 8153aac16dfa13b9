"""A model at several sizes, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from lowtide.report.columns import columns

_WORDS = {
    "own_order_peak_bytes": "file order",
    "peak_bytes": "peak",
    "lower_bound_bytes": "bound",
    "arena_bytes": "arena",
    "required_bytes": "required",
}


class _Row(Protocol):
    @property
    def dims(self) -> Mapping[str, int]: ...
    @property
    def optimal(self) -> bool: ...
    @property
    def same_order(self) -> bool: ...


class _Table(Protocol):
    @property
    def graph(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def rows(self) -> Sequence[_Row]: ...
    @property
    def linear(self) -> Mapping[str, tuple[int, int]]: ...


def size_table_text(table: _Table) -> str:
    """A line for each choice of sizes, then what is linear in the size, and whether one order serves all."""
    names = list(table.rows[0].dims)
    head = (*names, *_WORDS.values(), "")
    lines = [
        f"{table.graph}, target {table.target}, bytes",
        columns([head, *map(_cells, table.rows)], range(len(head) - 1)),
    ]
    for figure, (slope, rest) in table.linear.items():
        more = f" {'-' if rest < 0 else '+'} {abs(rest):,}" if rest else ""
        lines.append(f"{_WORDS[figure]} = {slope:,} * {names[0]}{more} B at each of these sizes")
    if len(table.rows) > 1:
        differ = [row for row in table.rows if not row.same_order]
        where = ", ".join(" ".join(f"{k}={v}" for k, v in row.dims.items()) for row in differ)
        same = "the order is the same at all sizes"
        lines.append(f"another order than the first row's at {where}" if differ else same)
    return "\n".join(lines)


def _cells(row: _Row) -> tuple[str, ...]:
    figures = (getattr(row, name) for name in _WORDS)
    proved = "proved optimal" if row.optimal else "not proved"
    return (*map(str, row.dims.values()), *("" if f is None else f"{f:,}" for f in figures), proved)
