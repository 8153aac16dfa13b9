"""Results of a suite as it shows and writes them."""

from __future__ import annotations

from typing import Any, cast

from lowtide_research.bench.suite import Results, TableSuite
from lowtide_research.bench.tables import json_text


def text(results: Results[Any]) -> str:
    """On a terminal."""
    return results.suite.text(results)


def markdown(results: Results[Any]) -> str:
    """As a page."""
    return _suite(results).page(results).markdown()


def json_of(results: Results[Any]) -> str:
    """As JSON."""
    return json_text(results.suite.record(results))


def _suite(results: Results[Any]) -> TableSuite[Any]:
    """The suite, which has tables."""
    return cast("TableSuite[Any]", results.suite)
