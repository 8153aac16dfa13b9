"""Cost files for tests: rates that are easy to follow, and entries if there are some."""

from __future__ import annotations

from collections.abc import Sequence

from lowtide.cost.file import VERSION, CostEntry, CostFamily, CostFile


def costs(entries: Sequence[CostEntry], *, dialect: str = "onnx", launch: float = 1e-5, byte: float = 1e-9) -> CostFile:
    """A file in which every family has the same launch and bandwidth."""
    family = CostFamily(launch_seconds=launch, seconds_per_flop=1e-10, seconds_per_byte=byte)
    return CostFile(
        version=VERSION, lowtide="test", dialect=dialect, runtime="onnxruntime", runtime_version="0", level="extended",
        device="test", threads=1, families=dict.fromkeys(("slice", "join", "merge", "other"), family),
        entries=list(entries),
    )  # fmt: skip
