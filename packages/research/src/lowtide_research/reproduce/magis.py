"""MAGIS (Chen et al., ASPLOS 2024), row by row."""

from __future__ import annotations

from lowtide_research.reproduce.row import Row

ROWS: tuple[Row, ...] = ()
