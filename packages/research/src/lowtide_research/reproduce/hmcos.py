"""HMCOS (Wang et al., DAC 2022), row by row."""

from __future__ import annotations

from lowtide_research.reproduce.cells import Source, rows_of_csv
from lowtide_research.reproduce.row import Row

SOURCES = {
    "Table 1": Source("main", "each method's peak, arena and seconds on NAS networks"),
    "Table 3": Source("hmcos-3", "seconds of HMCOS's configurations 1 to 7"),
    "section 4.2.3": Source("hmcos-3", "peak of configuration 3"),
}
BECAUSE: dict[str, str] = {}

ROWS: tuple[Row, ...] = rows_of_csv("HMCOS", SOURCES, BECAUSE)
