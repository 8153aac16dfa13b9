"""A cost file as text: what was timed, and at which rates the rest is estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowtide.report.columns import columns

if TYPE_CHECKING:
    from lowtide.cost.file import CostFamily, CostFile


def cost_text(file: CostFile) -> str:
    """Where it was measured, and a row for each family."""
    head = [
        ("device", f"{file.device}, {file.threads} {'thread' if file.threads == 1 else 'threads'}"),
        ("runtime", f"{file.runtime} {file.runtime_version}, level {file.level}"),
        ("entries", f"{len(file.entries):,} ops and parts of ops, each shape once"),
    ]
    if file.trials:
        tried = (f"{each.measured:+.1%} ({each.predicted:+.1%} predicted)" for each in file.trials)
        head.append(("plans that were run", ", ".join(tried)))
    rows = [("family", "fitted to", "launch", "rate", "bandwidth")]
    rows += [(name, *_rates(family)) for name, family in file.families.items()]
    return "\n".join([columns(head), "", columns(rows, right=[1, 2, 3, 4])])


def _rates(family: CostFamily) -> tuple[str, str, str, str]:
    """Those of a family; where time does not go with something, nothing."""
    flop, byte = family.seconds_per_flop, family.seconds_per_byte
    return (
        f"{family.fitted:,}",
        f"{1e6 * family.launch_seconds:.1f} us",
        f"{1e-9 / flop:,.1f} GFLOP/s" if flop else "",
        f"{1e-9 / byte:,.1f} GB/s" if byte else "",
    )
