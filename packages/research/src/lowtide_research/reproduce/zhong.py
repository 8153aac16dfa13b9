"""Zhong et al. (ICCAD 2023), row by row."""

from __future__ import annotations

from lowtide_research.reproduce.cells import Source, rows_of_csv
from lowtide_research.reproduce.row import Row

SOURCES = {
    "Table II": Source("main", "each method's peak"),
    "Table III": Source("main", "each method's seconds"),
    "Table IV": Source("zhong-4", "seconds and variables with and without fusion and pruning"),
    "Table V": Source("zhong-5", "peaks after one naive and one heuristic partition"),
    "Table VI": Source("zhong-6", "peaks and seconds by number of parts"),
}
BECAUSE: dict[str, str] = {}

ROWS: tuple[Row, ...] = rows_of_csv("Zhong", SOURCES, BECAUSE)
