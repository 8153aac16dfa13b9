"""A sweep as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lowtide.report.columns import columns


def sweep_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row; what all of them have in common, and what none has, is left out."""
    shown = {
        "model": "model", "target": "target", "budget_bytes": "budget", "options": "options", "ops": "ops",
        "own_order_peak_bytes": "own order", "peak_bytes": "peak", "lower_bound_bytes": "lower bound",
        "required_bytes": "required", "status": "", "error": "",
    }  # fmt: skip
    kept = [name for name in shown if any(row[name] not in (None, "") for row in rows)]
    right = [i for i, name in enumerate(kept) if name.endswith("_bytes") or name == "ops"]
    lines = [[_cell(row[name]) for name in kept] for row in rows]
    return columns([[shown[name] for name in kept], *lines], right=tuple(right))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
