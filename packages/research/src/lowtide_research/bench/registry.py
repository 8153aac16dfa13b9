"""The suites there are."""

from __future__ import annotations

from typing import Any

from lowtide_research.bench.suite import Suite


def suites() -> dict[str, type[Suite[Any]]]:
    """Suites by name, in the order in which they are shown."""
    from lowtide_research.bench.allocation import AllocateSuite
    from lowtide_research.bench.sampling import SpaceSuite
    from lowtide_research.bench.schedule import ScheduleSuite
    from lowtide_research.bench.spilling import SpillSuite
    from lowtide_research.bench.tflm import TfliteSuite

    every: tuple[type[Suite[Any]], ...] = (ScheduleSuite, SpaceSuite, TfliteSuite, AllocateSuite, SpillSuite)
    return {suite.name: suite for suite in every}
