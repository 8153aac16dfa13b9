"""SERENITY (Ahn et al., MLSys 2020), row by row."""

from __future__ import annotations

from lowtide_research.reproduce.cells import Source, rows_of_csv
from lowtide_research.reproduce.row import Row

SOURCES = {
    "Table 2": Source("serenity-2", "seconds of SERENITY without rewriting"),
    "Figure 15": Source("main", "TensorFlow Lite's arena in its own order and in SERENITY's"),
    "Figure 12": Source("main", "peak without an allocator"),
}
BECAUSE: dict[str, str] = {}

ROWS: tuple[Row, ...] = rows_of_csv("SERENITY", SOURCES, BECAUSE)
