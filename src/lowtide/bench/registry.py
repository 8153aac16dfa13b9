"""The suites there are."""

from __future__ import annotations

from typing import Any

from lowtide.bench.suite import Suite


def suites() -> dict[str, type[Suite[Any]]]:
    """Suites by name, in the order in which they are shown."""
    from lowtide.bench.allocation import AllocateSuite
    from lowtide.bench.ort import OnnxruntimeSuite
    from lowtide.bench.pte import ExecutorchSuite
    from lowtide.bench.sampling import SpaceSuite
    from lowtide.bench.schedule import ScheduleSuite
    from lowtide.bench.spilling import SpillSuite
    from lowtide.bench.tflm import TfliteSuite

    every: tuple[type[Suite[Any]], ...] = (
        ScheduleSuite, SpaceSuite, OnnxruntimeSuite, TfliteSuite, ExecutorchSuite, AllocateSuite, SpillSuite,
    )  # fmt: skip
    return {suite.name: suite for suite in every}
