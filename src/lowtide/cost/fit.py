"""Families of a cost file from what was measured: seconds = launch + operations / rate + bytes / bandwidth.

Three rates, none negative, of least squared relative error: the best of the eight least-squares fits in which some of
them are 0. Source: the roofline model (Williams, Waterman, Patterson, CACM 2009), as a sum and with a launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from lowtide.cost.file import GLUE, OTHER, CostFamily
from lowtide.cost.model import Work

Measured = tuple[Work, float]  # what an op has to do, and its seconds

_LAUNCH, _COPY = 5e-6, 2e-10  # seconds of a launch and of a byte, where nothing at all was measured


def fit(measured: Iterable[Measured]) -> dict[str, CostFamily]:
    """Families by name; ops between parts and `OTHER` are always among them, fitted to all if need be."""
    by_name: dict[str, list[Measured]] = {}
    for work, seconds in measured:
        if seconds > 0:
            by_name.setdefault(work.family, []).append((work, seconds))
    everything = [pair for pairs in by_name.values() for pair in pairs]
    families = {name: _family(pairs) for name, pairs in sorted(by_name.items())}
    other = _family(everything) if everything else CostFamily(
        launch_seconds=_LAUNCH, seconds_per_flop=0.0, seconds_per_byte=_COPY
    )  # fmt: skip
    for name in (*GLUE, OTHER):
        families.setdefault(name, other)
    return families


def _family(pairs: Sequence[Measured]) -> CostFamily:
    seconds = np.array([s for _, s in pairs])
    columns = np.array([[1.0, work.flops, work.bytes] for work, _ in pairs]) / seconds[:, None]
    scale = np.maximum(columns.max(axis=0), 1e-300)
    best, error = np.zeros(3), float("inf")
    for many in range(1, 4):
        for used in combinations(range(3), many):
            part = columns[:, used] / scale[list(used)]
            solved = np.linalg.lstsq(part, np.ones(len(pairs)), rcond=None)[0]
            off = float(((part @ solved - 1.0) ** 2).sum())
            if (solved >= 0).all() and off < error * (1 - 1e-9):
                best, error = np.zeros(3), off
                best[list(used)] = solved / scale[list(used)]
    launch, flop, byte = (float(f"{rate:.4g}") for rate in best)
    return CostFamily(launch_seconds=launch, seconds_per_flop=flop, seconds_per_byte=byte, fitted=len(pairs))
