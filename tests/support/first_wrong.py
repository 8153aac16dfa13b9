"""Probing that ends at the first contradiction: of a map that is broken on purpose one is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from lowtide.run import probe
from lowtide.run.probe import Findings


class ContradictionError(Exception):
    """A part contradicts the map."""


class _None(list[str]):
    """Lines of which there may be none."""

    def append(self, line: str, /) -> None:
        raise ContradictionError(line)


def unless_wrong(probed: Callable[[], Any]) -> Any:
    """What probing gives; None: it found a contradiction, at which it ended."""
    with patch.object(probe, "Findings", lambda: Findings(wrong=_None())):
        try:
            return probed()
        except ContradictionError:
            return None
